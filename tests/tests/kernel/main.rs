//! The stack and the Linux kernel's TCP, in namespaces that each test makes for itself.
//!
//! Tests begin in the order of their names, and those that wait for timers for minutes should begin first.

mod all_profiles;
mod children;
mod clients;
mod close;
mod closed_window;
mod ecn;
mod fast_open;
mod gone;
mod loss;
mod many;
mod mtu;
mod queues;
mod raw;
mod sequences;
mod transfer;
mod udp;
