//! Async code on a simulated network (`ackclock_sim::VirtualNetwork`): times, traffic, determinism, and what goes wrong.

mod datagrams;
mod determinism;
mod failures;
mod paths;
mod support;
mod time;
