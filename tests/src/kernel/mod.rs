//! Code that the tests against the Linux kernel's TCP share.
//!
//! The usual scene: in a private namespace (see [`crate::netns`]) the kernel is 10.9.0.1 and fd09::1, and at
//! the other end of a TUN device a stack is 10.9.0.2 and fd09::2.
//!
//! - [`scene`]: that device, that stack, the addresses of both;
//! - [`payload`]: long data whose every block is distinct, sent and received under a hash;
//! - [`transfer`]: that data from one to the other, each way;
//! - [`wire`]: the same over a veth pair, for the devices on an Ethernet;
//! - [`program`]: real programs as peers (`curl`, `nc`, Python).

pub mod payload;
pub mod program;
pub mod scene;
pub mod transfer;
pub mod wire;
