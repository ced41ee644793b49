//! Requirements on the devices of this crate, alone or beside the kernel. Stacks on them are tested in
//! `tests/tests`.

mod common;
mod errors;
mod kept;
mod offload;
mod passed;
mod queues;
mod tun;
mod two;
