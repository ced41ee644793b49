//! A sans-IO TCP: connections, loss recovery, and the endpoint that demultiplexes them.
//!
//! Nothing here opens, sleeps, spawns, reads a clock or draws a random number. A driver feeds packets and
//! time into an [`Endpoint`] and takes packets, deadlines and events out of it; the tokio driver, the
//! simulator, the fuzzers and the benches are callers of the same methods.
//!
//! ```
//! use ackclock_core::{Endpoint, EndpointConfig, Instant, Limits, ListenAddr, ListenOptions};
//! use ackclock_wire::RxMeta;
//!
//! let now = Instant::ZERO;
//! let limits = Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };
//! let mut client = Endpoint::new(EndpointConfig::new(vec!["10.0.0.1".parse()?], [1; 32]), now);
//! let mut server = Endpoint::new(EndpointConfig::new(vec!["10.0.0.2".parse()?], [2; 32]), now);
//!
//! let listener = server.listen(now, ListenOptions::new(ListenAddr { addr: None, port: Some(7) }))?;
//! let connection = client.connect(now, "10.0.0.2:7".parse()?, (None, 0), None)?;
//! let mut carry = |from: &mut Endpoint, to: &mut Endpoint| {
//!     while let Some(packet) = from.poll_transmit(now, limits) {
//!         let bytes = packet.to_vec();
//!         to.handle_packet(now, &bytes, RxMeta::default());
//!     }
//! };
//! carry(&mut client, &mut server); // SYN
//! carry(&mut server, &mut client); // SYN,ACK
//! client.update(now, connection, |connection, now| connection.write(now, b"hello")).expect("it exists")?;
//! carry(&mut client, &mut server); // ACK with data
//!
//! let accepted = server.accept(now, listener).expect("the handshake is complete");
//! let mut buf = [0; 5];
//! let read = server.update(now, accepted, |connection, now| connection.read(now, &mut buf));
//! assert_eq!((read.expect("it exists")?, &buf), (5, b"hello"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! - `serde` (off): [`ConnectionInfo`], [`Counters`] and [`FourTuple`] can be serialised.
//! - `tcp-ao` (off): the TCP Authentication Option of RFC 5925.
//! - `testing` (off): two endpoints and the packets between them, for tests and benchmarks.
//!
//! # Limits
//!
//! Every table and buffer has a bound in [`EndpointConfig`], [`ListenOptions`] or [`TcpConfig`], and a stated
//! behaviour when full. An endpoint has no lock: a program of several threads has one lock around it, or
//! several endpoints that are one host ([`EndpointConfig::split`]).
//!
#![doc = include_str!("form.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
// Tests index and cast freely: there a panic fails the test.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::indexing_slicing))]
// Each operation says whether it is checked, saturates or wraps (docs/security.md, "Arithmetic").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

#[cfg(feature = "tcp-ao")]
mod authentication;
mod budget;
mod buffer;
pub mod config;
mod connection;
mod deadline;
mod endpoint;
mod error;
mod event;
mod info;
pub mod later;
mod position;
mod reassembly;
mod remembered;
mod sending;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trace;
mod tuple;
mod udp;
#[cfg(test)]
mod walks;

#[doc(hidden)]
pub use ackclock_control::choice_doc;
#[cfg(feature = "serde")]
pub use ackclock_control::micros;
pub use ackclock_control::{Instant, bandwidth, congestion, profile, rtt};
pub use ackclock_form::FormError;
pub use ackclock_wire::{Codepoint, Experiment};
#[cfg(feature = "tcp-ao")]
pub use authentication::{Algorithm, KeyChain, KeyChainError, MasterKey};
pub use config::{EndpointConfig, Keepalive, ListenOptions, MtuProbing, TcpConfig, UserTimeoutOption};
pub use connection::{Connection, State};
pub use endpoint::{
    BindOptions, BoundId, Counters, Decision, Endpoint, FreezeError, Histogram, Histograms, Incoming,
    IncomingId, KnownPath, Limits, ListenerId, LocalAddress, Measure, OtherError, OtherPacket,
    PathCacheConfig, Ping, PingAnswer, PingPolicy, RxPacket, Shaping, Shard, Sharing, Stray, ThawError,
    Thawed, ThawedConnection, Unreachable,
};
#[cfg(feature = "prefetch")]
pub use endpoint::{WarmStep, fetch};
pub use error::{ConnectError, ConnectionError, IcmpError, ListenError, OptionError, ReadError, WriteError};
pub use event::{ConnectionId, Event, Readiness};
pub use info::{ConnectionInfo, DeliveryInfo, EcnInfo, ListenerInfo, UndoCounts};
pub use reassembly::ReassemblyConfig;
pub use tuple::{FourTuple, ListenAddr};
pub use udp::{UdpId, UdpMeta, UdpNames, UdpOptions, UdpReadiness, UdpSocketError, UdpTransmit};
