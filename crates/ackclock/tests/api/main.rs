//! The API over two stacks on a cable of memory: what a program that knows `tokio::net` relies on.
//!
//! Where time matters, tokio's clock is paused: it jumps to the next deadline when all tasks wait, so nothing
//! here depends on the machine's speed.

mod accept;
mod beside;
mod budget;
mod cancel;
mod cancelled_waits;
mod choices;
mod clocks;
mod cut;
mod data;
mod deferred;
mod detached;
mod drain;
mod drops;
mod failures;
mod feedback;
mod frozen;
mod lifetime;
mod links;
mod metrics;
mod network;
mod options;
mod owners;
mod paths;
mod pump;
mod recordings;
mod reset;
mod shards;
mod slices;
mod stuck;
mod support;
mod traces;
mod turns;
mod udp;
mod wakeups;
mod warnings;
