//! Support code shared by the tests of this package.
//!
//! - [`script`], [`segment`], [`host`]: one endpoint against a scripted peer, in the style of packetdrill;
//! - [`states`]: a connection in each of the states of RFC 9293 §3.3.2;
//! - [`oracle`]: what RFC 9293 §3.10.7 requires for a segment in a state, written from the text;
//! - [`link`], [`app`], [`flow`], [`host_pair`]: two hosts over an impairing link, with an application model
//!   and oracles;
//! - [`coalesce`]: what receive offload does to packets; [`model`]: how long a transfer may take;
//! - [`fuzz`]: arbitrary bytes as the life of an endpoint;
//! - [`swarm`]: many connections on one network with every fault that networks have;
//! - [`quic`]: QUIC endpoints with one certificate, and downloads between them;
//! - [`virtual_time`]: async code on a simulated network, and the hash of its packets;
//! - [`linux`]: the same segments and calls for the Linux kernel's TCP and for this stack;
//! - [`documents`]: the commands that the documents tell a reader to run;
//! - [`netns`], [`kernel`]: network namespaces with the Linux kernel's TCP in them, and a stack beside it.

pub mod app;
pub mod coalesce;
pub mod devices;
pub mod documents;
pub mod flow;
pub mod fuzz;
pub mod host_pair;
pub mod icmp;
pub mod kernel;
pub mod link;
pub mod linux;
pub mod model;
pub mod netns;
pub mod oracle;
pub mod quic;
pub mod states;
pub mod swarm;
pub mod virtual_time;

pub use ackclock_test_script::{host, script, segment};
pub use ackclock_test_support::rng;

/// The programs of the README compile, and those that need no device run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
