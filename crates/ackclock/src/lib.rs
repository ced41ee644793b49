//! A TCP in user space with the socket API of `tokio::net`.
//!
//! A [`Stack`] owns a network device and addresses of its own, and speaks TCP on them without the kernel's:
//!
//! ```
//! use ackclock::Stack;
//! use ackclock::device::memory;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Two hosts on a cable in memory; `device::open` opens a TUN device instead.
//! let (left, right) = memory::pair(memory::Config::default());
//! let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
//! let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
//!
//! let listener = server.listen("10.0.0.2:7".parse()?)?;
//! tokio::spawn(async move {
//!     let (mut stream, _peer) = listener.accept().await?;
//!     let (mut reader, mut writer) = stream.split();
//!     tokio::io::copy(&mut reader, &mut writer).await
//! });
//!
//! let mut stream = client.connect("10.0.0.2:7".parse()?).await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?;
//! let mut echoed = String::new();
//! stream.read_to_string(&mut echoed).await?;
//! assert_eq!(echoed, "hello");
//! println!("{:?} round trip, {} bytes acknowledged", stream.info()?.srtt, stream.info()?.bytes_acked);
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! | feature | what it brings |
//! |---|---|
//! | `device` (on) | TUN, TAP, packet and raw sockets in [`device`]: Linux. Without it the crate builds wherever tokio does, wasm32-wasip1 included |
//! | `recordings` | captures as devices: `device::Replay` |
//! | `axum` | `axum::serve` takes a [`TcpListener`] |
//! | `hyper` | `Connector` for hyper-util's pooled client and tonic's channels |
//! | `tower` | the same connector as a service of addresses |
//! | `tonic` | tonic's servers on a `TcpListenerStream`, whose handlers know both ends of a connection; its channels by `Connector` |
//! | `quinn` | QUIC over the stack's UDP and in its time, virtual time too: `quinn::endpoint` makes an endpoint of the crate quinn |
//! | `stream` | `TcpListenerStream`: a listener as a `Stream`, which tokio-stream and tonic's servers take |
//! | `dns` | names in [`TcpStream::connect`], [`TcpListener::bind`] and the connector, by the stack's own name servers; connections as RFC 8305 says |
//! | `resolve` | the same by the host's resolver, one address after the other |
//! | `serde` | [`ConnectionInfo`], [`Counters`], [`FourTuple`], [`StackInfo`] and [`Metrics`] can be serialised |
//! | `control` | a Unix socket by which the owner of a stack looks at it: `StackBuilder::control` |
//! | `hand-over` | a new process goes on with device and connections: `Stack::hand_over`, `StackBuilder::take_over`; Linux |
//! | `tracing` | each connection is a span, and each change of it an event: [`spans_and_events`] |
//! | `tcp-ao` | the TCP Authentication Option (RFC 5925) |
//!
//! # Stopping a server
//!
//! To stop a server, call [`Stack::drain`] (connections may finish) or [`Stack::shutdown`]. `accept` then
//! fails for good, so let the error end your loop: `while let Ok(..) = listener.accept().await`. Other tasks
//! wait for [`Stack::closing`].
//!
//! # Limits
//!
//! A stack on one device runs on one task and shares one lock with its callers. On several queues of a device
//! ([`StackBuilder::queues`]) it has a task and a lock for each. Every table has a bound: connections,
//! buffers and ports ([`StackBuilder`]), half-open connections and those that wait to be accepted
//! ([`ListenerBuilder`]). The stack has no DHCP, and no routing table beyond [`StackBuilder::route`].
//!
//! # Beside `tokio::net`
//!
//! [`TcpStream`], [`TcpListener`], [`TcpSocket`] and the halves have the methods of their namesakes in
//! tokio 1.54. Drops, shutdowns and cancelled futures behave alike; the module [`differences`] lists the
//! exceptions. These methods have no counterpart in tokio:
//!
//! - figures of a connection: [`TcpStream::info`], traces that say why each thing was done
//!   ([`Stack::next_trace`]);
//! - choices: [`TcpSocket::set_profile`], [`TcpStream::set_congestion_control`],
//!   [`TcpStream::set_user_timeout`], [`TcpStream::abort`];
//! - delivery: [`TcpStream::delivered`], [`TcpStream::watch_delivery`],
//!   [`TcpStream::set_not_sent_lowat`], [`TcpStream::notice`];
//! - proxies: [`Stack::listen_any`], SYNs that wait for a decision ([`DeferredListener`]), and [`pump`].
//!
//! Methods that need a kernel socket or the kernel's tables are absent: `from_std`, `into_std`,
//! `from_std_stream`, `AsRawFd` and its relatives, `device`, `bind_device`. Constructors take a [`Stack`].
//! With the features `dns` or `resolve`, [`TcpStream::connect`], [`TcpListener::bind`] and [`Stack::lookup`]
//! resolve names. [`Interest`] and [`Ready`] are tokio's own, and on WebAssembly, where tokio has none, types
//! with the same methods. The closures of [`TcpStream::try_io`] and [`TcpStream::async_io`] call `try_read`
//! and the like, since there is no socket for system calls.
//!
//! # Errors
//!
//! Errors are [`std::io::Error`]s of the kinds that a kernel gives. A reset, a refused connection, a broken
//! pipe, an address in use and a socket that is not connected carry the system's number
//! (`error.raw_os_error()`). All other errors carry the core's typed error, which names the address or the
//! limit and says what to do (`error.get_ref()`, `error.downcast()`). [`connection_error`] says how a
//! connection ended in either case.
//!
//! # Beside TCP
//!
//! [`UdpSocket`] has the methods of its namesake. The stack answers pings ([`StackBuilder::echo_replies`],
//! and [`StackBuilder::pings`] for addresses that are not its own), reaches its own addresses, puts fragments
//! together if you ask for it ([`StackBuilder::reassembly`]), and hands everything else to a program that
//! asks for it ([`StackBuilder::other_packets`]).
//!
//! # Invariants
//!
//! - The driver moves packets, time and wake-ups; [`ackclock_core::Endpoint`] makes every decision of TCP.
//! - A call takes the stack's lock once, and allocates nothing once its stream has waited before.
//! - Time comes only from the driver's [`Clock`], so a simulator can host the same API ([`Port`]). The idle
//!   timeout of a [`pump`] is tokio's.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// The example of the package's front page compiles.
#[cfg(all(doctest, feature = "device"))]
#[doc = include_str!("../README.md")]
struct FrontPage;

/// Calls that answer otherwise than tokio's on the kernel.
///
/// A test makes some 220 calls, from `bind` to a second write after a reset, on the kernel's sockets and on
/// these. Each row is a case whose answers differ, with the first answer that does.
///
/// One difference runs through several rows. tokio remembers that a socket is ready until a call finds that
/// it is not: once `writable()` or `readable()` has completed, it completes at once again, and
/// `poll_read_ready` says ready, until a read or write returns `WouldBlock`. Here readiness is looked up each
/// time: right after the last byte was read, `readable()` waits for the next one, and `poll_read_ready` is
/// pending. A loop that calls `try_read` or `try_write`, and waits when they return `WouldBlock`, works with
/// both.
///
#[cfg(doc)]
#[doc = include_str!("differences.md")]
pub mod differences {}

/// Spans and events of the feature `tracing`.
///
/// With the feature `tracing` and a subscriber, each connection is a span `connection` (target `ackclock`,
/// level INFO; `number`, `local`, `remote`, `profile`, `congestion`) from its SYN, or from the end of a
/// passive handshake, to TIME-WAIT or CLOSED. Its events are of level DEBUG: `state changed` (`from`, `to`),
/// `lost` (`rule`, `start`, `bytes`), `retransmission timeout` (`in_a_row`, `late_us`), `reduction taken
/// back` (`proof`), `recovered`, `reset sent` (`seq`); and of level WARN: `failed` (`reason`: `reset`,
/// `refused`, `timed-out`, ...). Sequence numbers count from the initial one. They are emitted after the call
/// or the driver's turn in which they happened, outside the stack's lock. A connection that has a trace of
/// its own ([`StackBuilder::trace`], [`TcpSocket::set_trace`], [`TcpStream::set_trace`]) has both: the trace
/// and the events. Without the feature nothing of this is compiled.
#[cfg(doc)]
pub mod spans_and_events {}

mod build_error;
mod builder;
mod choices;
mod clock;
#[cfg(all(feature = "control", unix))]
mod control;
#[cfg(feature = "dns")]
mod dns;
mod driver;
mod error;
mod frameworks;
mod frozen;
#[cfg(all(feature = "hand-over", target_os = "linux"))]
mod hand_over;
mod handle;
#[cfg(feature = "dns")]
mod hickory;
mod hosts;
mod inbox;
mod info;
mod listener;
mod metrics;
#[cfg(all(test, ackclock_shuttle))]
mod models;
#[cfg(feature = "dns")]
mod name_servers;
mod names;
mod others;
mod pings;
mod port;
pub mod pump;
mod readiness;
mod recording;
mod resolve;
mod shards;
mod shared;
mod sleepers;
mod socket;
#[cfg(feature = "tracing")]
mod spans;
mod spin;
mod stack;
mod state;
mod stream;
mod sync;
mod transmit;
mod udp;
mod waiters;
mod warnings;

#[cfg(feature = "tcp-ao")]
pub use ackclock_core::{Algorithm, KeyChain, KeyChainError, MasterKey};
pub use ackclock_core::{
    Codepoint, ConnectError, ConnectionError, ConnectionInfo, Counters, DeliveryInfo, Experiment, FourTuple,
    FreezeError, Histogram, IcmpError, Instant, Keepalive, KnownPath, Limits, ListenError, Measure,
    MtuProbing, OptionError, OtherError, OtherPacket, PathCacheConfig, PingPolicy, ReassemblyConfig, Shaping,
    State, TcpConfig, ThawError, UdpMeta, UdpOptions, UdpSocketError, UdpTransmit, Unreachable,
    UserTimeoutOption, bandwidth, congestion, profile, rtt, trace,
};
/// The devices under a stack: TUN, TAP, raw and packet sockets, memory, recordings. A program needs no other
/// crate.
pub use ackclock_device as device;
pub use ackclock_device::configure::{Cidr, CidrError};
pub use ackclock_journal as journal;
pub use ackclock_wire::{ChecksumAt, ChecksumState, RxMeta, TxPacket};

pub use self::build_error::BuildError;
pub use self::builder::StackBuilder;
pub use self::choices::{IntoController, SimulatedOnly};
pub use self::clock::Clock;
#[cfg(all(feature = "control", unix))]
pub use self::control::ControlError;
pub use self::error::{NoRoute, StackError, connection_error};
#[cfg(any(feature = "axum", feature = "hyper"))]
pub use self::frameworks::Addresses;
#[cfg(any(feature = "hyper", feature = "tower"))]
pub use self::frameworks::Connector;
#[cfg(feature = "stream")]
pub use self::frameworks::TcpListenerStream;
#[cfg(feature = "quinn")]
pub use self::frameworks::quinn;
pub use self::frozen::{Frozen, Recorded};
#[cfg(all(feature = "hand-over", target_os = "linux"))]
pub use self::hand_over::{HandOverError, TakenOver};
pub use self::handle::Stack;
pub use self::hosts::Hosts;
pub use self::info::StackInfo;
#[cfg(all(feature = "hand-over", target_os = "linux"))]
pub use self::listener::Accepting;
pub use self::listener::{DeferredListener, Incoming, ListenerBuilder, TcpListener};
pub use self::metrics::{Metric, MetricKind, Metrics};
#[cfg(feature = "dns")]
pub use self::name_servers::HappyEyeballs;
pub use self::others::{OtherReceiver, OtherSender};
pub use self::pings::{Ping, PingReceiver};
pub use self::port::Port;
pub use self::readiness::{Interest, Ready};
pub use self::recording::{Recording, RecordingError, RecordingInfo};
pub use self::resolve::ToSocketAddrs;
pub use self::socket::TcpSocket;
pub use self::stream::{
    Delivered, DeliveryWatch, Notice, OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, TcpStream,
    WriteHalf,
};
pub use self::udp::UdpSocket;
pub use self::warnings::{Warning, Warnings};
