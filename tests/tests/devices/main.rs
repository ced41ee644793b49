//! Stacks on every device of this system, against the kernel; and on captures.

mod ethernet;
mod every_device;
mod fanout;
mod passed;
mod replay;
mod sockets;
mod tun_rs;
mod xdp;
