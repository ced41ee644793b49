//! The stack and the Linux kernel's TCP, in namespaces that each test makes for itself.

mod clients;
mod close;
mod ecn;
mod gone;
mod loss;
mod many;
mod mtu;
mod profiles;
mod transfer;
mod window;
