//! A sans-IO TCP: connections, loss recovery, and the endpoint that demultiplexes them.
//!
//! Nothing here opens, sleeps, spawns, reads a clock or draws a random number. A driver feeds packets and time
//! into an [`Endpoint`] and takes packets, deadlines and events out of it; the tokio driver, the simulator,
//! the fuzzers and the benches are callers of the same methods.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
// Tests index and cast freely: there a panic is the verdict.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::indexing_slicing))]

#[cfg(feature = "tcp-ao")]
mod authentication;
mod budget;
mod buffer;
pub mod config;
mod connection;
mod endpoint;
mod error;
mod event;
mod info;
mod position;
mod reassembly;
mod sending;
pub mod trace;
mod tuple;
mod udp;

pub use ackclock_control::{Instant, bandwidth, congestion, profile, rtt};
pub use ackclock_wire::{Codepoint, Experiment};
#[cfg(feature = "tcp-ao")]
pub use authentication::{Algorithm, KeyChain, KeyChainError, MasterKey};
pub use config::{EndpointConfig, Keepalive, ListenOptions, MtuProbing, TcpConfig, UserTimeoutOption};
pub use connection::{Connection, State};
pub use endpoint::{
    BindOptions, BoundId, Counters, Decision, Endpoint, Incoming, IncomingId, Limits, LinkRoute, ListenerId,
    LocalAddress, OtherError, OtherPacket, Sharing, SourceRoute,
};
pub use error::{ConnectError, ConnectionError, IcmpError, ListenError, OptionError, ReadError, WriteError};
pub use event::{ConnectionId, Event, Readiness};
pub use info::{ConnectionInfo, EcnInfo, UndoCounts};
pub use reassembly::ReassemblyConfig;
pub use tuple::{FourTuple, ListenAddr};
pub use udp::{UdpId, UdpMeta, UdpNames, UdpOptions, UdpReadiness, UdpSocketError, UdpTransmit};
