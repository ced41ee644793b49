//! The stack and the Linux kernel's TCP, in namespaces that each test makes.
//!
//! Tests start in the order of their names, and those that wait minutes for timers should start first.

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
mod quic;
mod raw;
mod sequences;
mod transfer;
mod udp;
