//! A WireGuard tunnel as the device of a stack: TCP to the hosts behind a peer, without a TUN device, without
//! privileges and without a route of the kernel's.
//!
//! The protocol is boringtun's. [`Peer`] adds what a peer is beside it: where it is (roaming), what it may
//! send (allowed networks) and what was dropped; it knows neither sockets nor stacks. [`Tunnel`] joins it to
//! a UDP socket, and [`IpOver`](ackclock::device::over::IpOver) makes a device of that:
//!
//! ```no_run
//! # use ackclock::Stack;
//! # use ackclock::device::over::IpOver;
//! # use ackclock_wireguard::{Config, Tunnel, keys};
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> anyhow::Result<()> {
//! let config = Config {
//!     private_key: keys::parse("yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=")?,
//!     peer_public_key: keys::parse("xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=")?,
//!     preshared_key: None,
//!     endpoint: Some("192.0.2.1:51820".parse()?),
//!     allowed: vec!["10.9.0.0/24".parse()?],
//!     keepalive: None,
//! };
//! let socket = tokio::net::UdpSocket::bind("0.0.0.0:0").await?;
//! let tunnel = IpOver::new(Tunnel::new(&config, socket), ackclock_wireguard::MTU);
//! let stack = Stack::builder().device(tunnel).address("10.9.0.2/24".parse()?).spawn()?;
//! let stream = stack.connect("10.9.0.1:80".parse()?).await?;
//! # drop(stream);
//! # Ok(()) }
//! ```

#![forbid(unsafe_code)]

mod device;
pub mod keys;
mod peer;
pub mod quick;

pub use self::device::{Handle, Tunnel};
pub use self::peer::{Config, Counters, Peer};

/// The largest IP packet that crosses a tunnel over any Ethernet: 1,500 bytes without the headers of IPv6
/// (40), UDP (8) and WireGuard (32).
pub const MTU: usize = 1420;

/// The number of bytes that a tunnel may carry in one IP packet, if `text` is one.
///
/// RFC 8200 §5 asks for 1,280 bytes; 65,455 and the headers fill the longest datagram.
#[must_use]
pub fn parse_mtu(text: &str) -> Option<usize> {
    text.parse().ok().filter(|mtu| (1280..=65_455).contains(mtu))
}
