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
//! | `tracing` | each connection is a span of `tracing`, and what changes it or costs it data an event in it: see below |
//! | `tcp-ao` | the TCP Authentication Option (RFC 5925) |
//!
//! A server ends by [`Stack::drain`], which lets connections finish, or [`Stack::shutdown`]; an accept loop
//! learns of both by an error that stays, so it must end with it (`while let Ok(..) =
//! listener.accept().await`), and other tasks by [`Stack::closing`].
//!
//! # Limits
//!
//! A stack on one device runs on one task and shares one lock with its callers. On several queues of a device
//! ([`StackBuilder::queues`]) it has a task and a lock for each, and takes as many processors. Every table
//! has a bound: connections, buffers, ports ([`StackBuilder`]), half-open connections and those that wait to
//! be accepted ([`ListenerBuilder`]). The stack has no DHCP and no routing table but [`StackBuilder::route`],
//! and resolves names with the feature `dns` alone.
//!
//! # Spans and events
//!
//! With the feature `tracing` and a subscriber, each connection is a span `connection` (target `ackclock`,
//! level INFO; `number`, `local`, `remote`, `profile`, `congestion`) from its SYN, or from the end of a
//! passive handshake, to TIME-WAIT or CLOSED. Its events are of level DEBUG: `state changed` (`from`, `to`),
//! `lost` (`rule`, `start`, `bytes`), `retransmission timeout` (`in_a_row`, `late_us`), `reduction taken
//! back` (`proof`), `recovered`, `reset sent` (`seq`); and of level WARN: `failed` (`reason`: `reset`,
//! `refused`, `timed-out`, ...). Sequence numbers count from the initial one. They are emitted after the call
//! or the driver's turn in which they happened, outside the stack's lock. A connection that has a trace of
//! its own ([`StackBuilder::trace`], [`TcpSocket::set_trace`], [`TcpStream::set_trace`]) has both: the trace
//! and the events. Without the feature nothing of this is compiled.
//!
//! # What differs from `tokio::net`
//!
//! [`TcpStream`], [`TcpListener`], [`TcpSocket`] and the halves have the methods of their namesakes in
//! tokio 1.54, and behave alike in what drops, shutdowns and cancelled futures do. There is more:
//! [`TcpStream::info`], [`TcpStream::delivered`], [`TcpStream::watch_delivery`],
//! [`TcpStream::set_not_sent_lowat`], [`TcpSocket::set_profile`], [`TcpStream::set_congestion_control`],
//! [`TcpStream::set_user_timeout`], [`TcpStream::abort`], [`TcpStream::notice`], traces that say why
//! each thing was done ([`Stack::next_trace`]), accepting on any address with the decision deferred
//! ([`DeferredListener`]), and what a proxy does with the connection then ([`pump`]).
//!
//! Left out is what needs a kernel socket or the kernel's tables: `from_std`, `into_std`, `from_std_stream`,
//! `AsRawFd` and its relatives, `device`, `bind_device`. Constructors take a [`Stack`]. Names are resolved by
//! [`TcpStream::connect`], [`TcpListener::bind`] and [`Stack::lookup`] alone, and only with the features
//! `dns` or `resolve`. [`Interest`] and [`Ready`] are tokio's own, and on WebAssembly, where tokio has none,
//! types with the same methods. The closures of [`TcpStream::try_io`] and [`TcpStream::async_io`] call
//! `try_read` and the like, since there is no socket for system calls.
//!
//! Some 220 cases, from `bind` to a second write after a reset, are compared with the kernel's sockets. This
//! table has those that differ, each with the first answer that does:
//!
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("differences.md")]
//!
//! Errors are [`std::io::Error`]s of the kinds that a kernel gives. Where the number of the system's error
//! says it all they carry it (`error.raw_os_error()`): a reset, a refused connection, a broken pipe, an
//! address in use, a socket that is not connected. All else is the core's typed error, which says which
//! address, which limit, what to do (`error.get_ref()`, `error.downcast()`); an `io::Error` holds one or the
//! other. [`connection_error`] tells how a connection ended in either case.
//!
//! # What is not TCP
//!
//! [`UdpSocket`] has the methods of its namesake; its readiness, too, is the state of the moment. Pings are
//! answered ([`StackBuilder::echo_replies`]), those to other addresses too if the stack takes their traffic
//! ([`StackBuilder::pings`]), an address of the stack's own is reached from itself, fragments
//! are put together where that is asked for ([`StackBuilder::reassembly`]), and everything else goes to a
//! program that asks for it ([`StackBuilder::other_packets`]).
//!
//! # Invariants
//!
//! - No protocol decision is made here: the driver moves packets, time and wake-ups. See
//!   [`ackclock_core::Endpoint`].
//! - A call takes the stack's lock once, and allocates nothing once its stream has waited before.
//! - Nothing but the driver's [`Clock`] is asked for the time, so a simulator can host the same API
//!   ([`Port`]). A [`pump`] stands beside the stack; its idle timeout is tokio's.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// The example of the package's front page compiles.
#[cfg(all(doctest, feature = "device"))]
#[doc = include_str!("../README.md")]
struct FrontPage;

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
    Histogram, IcmpError, Instant, Keepalive, KnownPath, Limits, ListenError, Measure, MtuProbing,
    OptionError, OtherError, OtherPacket, PathCacheConfig, PingPolicy, ReassemblyConfig, Shaping, State,
    TcpConfig, UdpMeta, UdpOptions, UdpSocketError, UdpTransmit, Unreachable, UserTimeoutOption, bandwidth,
    congestion, profile, rtt, trace,
};
/// What packets come from and go to: TUN, TAP, raw and packet sockets, memory, recordings. A program needs no
/// other crate.
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
pub use self::handle::Stack;
pub use self::hosts::Hosts;
pub use self::info::StackInfo;
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
