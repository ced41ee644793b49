//! A network in virtual time whose hosts run ackclock's TCP.
//!
//! A [`Scenario`] describes the network and its traffic as data, from Rust or from a TOML file. A
//! [`Simulation`] runs it, packet by packet, with the same [`Endpoint`](ackclock_core::Endpoint) that runs on
//! a device. A [`Report`] gives the results. The same scenario and seed give the same packets at the same
//! nanoseconds, on every machine and in every build.
//!
//! ```
//! use ackclock_sim::{Scenario, Simulation};
//!
//! let scenario = Scenario::from_toml(
//!     "two.toml",
//!     r#"
//!     seed = 7
//!     duration = "20s"
//!     routers = ["r"]
//!     host = [{ name = "a" }, { name = "b" }]
//!
//!     [[link]]
//!     between = ["a", "r"]
//!     there = { rate = "100Mbit/s", delay = "1ms" }
//!
//!     [[link]]
//!     between = ["r", "b"]
//!     there = { rate = "4Mbit/s", delay = "20ms", queue = { drop-tail = { limit = "25packets" } } }
//!
//!     [[traffic]]
//!     name = "download"
//!     from = "a"
//!     to = "b"
//!     what = { bulk = {} }
//!     "#,
//! )?;
//! let report = Simulation::new(&scenario)?.run();
//! assert!(report.link("r-b:there").is_some_and(|link| link.utilisation > 0.9));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! - `tokio` (off): async programs and the sockets of `ackclock` on simulated hosts, in virtual time.
//! - `dns` (off): a name server on one of them.
//! - `real-time` (off): the same moved by the wall clock, beside the system's sockets.
//!
//! # Limits
//!
//! A simulation runs on one thread. Payloads are carried only where their values can be observed. Links have
//! no Ethernet layer, and so no ARP and no broadcasts.
//!
//! # Which file answers which question
//!
//! | question | file |
//! |---|---|
//! | What can be described? | `scenario/` |
//! | Which network do many experiments share? | `dumbbell.rs` |
//! | How do papers set up theirs, and what must every controller handle? | `papers/`; `situations.rs`, `measures.rs` |
//! | What happens next? | `simulation.rs` and, between the hosts, `world.rs` |
//! | What happens to whole hosts? | `faults.rs` |
//! | What does a link do? | `link.rs`, `transmitter.rs`, `wire.rs`, `queue/`; `acks.rs`; `service/` |
//! | What does a link follow over time? | `link_trace/` |
//! | What do hosts run? | `host.rs`, `app.rs`, `traffic/`; other stacks, `guest.rs` |
//! | How does async code run here (feature `tokio`)? | `hosted/` |
//! | What is measured and observed? | `flow.rs`, `meter.rs`, `report.rs`, `observe/` |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod acks;
mod alarm;
mod app;
mod build;
mod calendar;
pub mod dumbbell;
mod faults;
mod flight;
mod flow;
mod foresight;
mod guest;
mod host;
#[cfg(feature = "tokio")]
mod hosted;
mod icmp;
mod link;
pub mod link_trace;
pub mod measures;
pub mod meter;
mod near;
pub mod observe;
mod packet;
pub mod papers;
pub mod queue;
pub mod report;
pub mod rng;
mod route;
pub mod scenario;
mod service;
mod simulation;
pub mod situations;
mod traffic;
mod transmitter;
pub mod units;
mod wire;
mod world;

pub use app::{App, AppContext, AppEvent};
pub use flow::Side;
pub use guest::{Guest, GuestError};
#[cfg(feature = "real-time")]
pub use hosted::Lateness;
#[cfg(feature = "tokio")]
pub use hosted::{Faults, HostedError, RunError, VirtualNetwork, seeds};
pub use link_trace::{LinkTrace, LinkTraceError};
pub use packet::PacketId;
pub use report::{LinkState, Report};
pub use scenario::{
    Change, Direction, HostConfig, LinkConfig, Problem, QueueConfig, Scenario, ScenarioError, TcpSettings,
    TrafficConfig, TrafficKind,
};
pub use simulation::{Node, Simulation};
