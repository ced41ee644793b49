//! Async code on a simulated network (`ackclock_sim::VirtualNetwork`): times, traffic, determinism, and
//! failures.

mod crowd;
mod datagrams;
mod determinism;
mod failures;
mod faults;
mod names;
mod path_cache;
mod paths;
mod pump;
mod quic;
mod seeds;
mod shaper;
mod support;
mod time;
