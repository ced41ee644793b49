//! `tcpcat` as its users meet it, against itself and the kernel's programs.

mod bench;
mod bench_udp;
mod common;
mod control;
mod cuts;
mod devices;
mod failures;
mod kept;
mod kept_open;
mod killed;
mod parts;
mod pipes;
mod promises;
mod recordings;
mod strangers;
mod traces;
mod transfers;
