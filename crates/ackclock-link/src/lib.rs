//! Ethernet under a stack that knows IP packets: frames, ARP, IPv6 neighbour discovery.
//!
//! A [`Link`] is a state machine without I/O. Its driver gives it frames ([`Link::handle_frame`]), packets to
//! send ([`Link::send_packet`]) and the time ([`Link::handle_timeout`]), sends what it has to send
//! ([`Link::poll_transmit`]), and comes back when it wants to be woken ([`Link::poll_timeout`]). The same
//! inputs give the same frames.
//!
//! ```
//! use ackclock_link::{Detection, Instant, Link, LinkConfig, MacAddr};
//! let mut config = LinkConfig::new(MacAddr::local(1));
//! config.addresses = vec!["10.9.0.2/24".parse()?];
//! config.detection = Detection::Announce;
//! let mut link = Link::new(config, Instant::ZERO);
//! link.handle_timeout(Instant::ZERO);
//! let announcement = link.poll_transmit().expect("a gratuitous ARP");
//! assert_eq!(announcement.header[12..], [0x08, 0x06]);
//! # Ok::<(), ackclock_wire::CidrError>(())
//! ```
//!
//! A link:
//! - resolves the next hop of a packet by ARP (RFC 826) or neighbour solicitation (RFC 4861 §7.2), keeps the
//!   answers in a table with the states of RFC 4861 §7.3.2 for both families, and checks that neighbours in
//!   use still answer;
//! - answers such questions for its own addresses;
//! - claims its addresses: probes for duplicates (RFC 5227 §2.1, RFC 4862 §5.4), announces them, and defends
//!   them;
//! - believes the layer above that a neighbour is reached ([`Link::reached`], RFC 4861 §7.3.1), and asks less
//!   for it;
//! - tells switches and routers which groups it listens to (IGMPv3 of RFC 3376 and MLDv2 of RFC 3810, and the
//!   older versions where a router knows no other), without which a switch that snoops passes it no question
//!   for its IPv6 addresses, and nothing for the program's groups;
//! - listens to routers: default route, on-link prefixes, MTU, and addresses made from prefixes (RFC 4862
//!   §5.5).
//!
//! Every table and queue has a named limit in [`Limits`], a default and a stated behaviour when full. Drops
//! are counted in [`LinkCounters`].
//!
//! Deliberately absent: VLAN tags (a tagged frame is dropped and counted), redirects (RFC 4861 §8; ignored
//! and counted, since a forged one would divert a connection), acting as a router or as a proxy, DHCP, and
//! filters of a group's sources.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod address;
mod arp;
mod config;
mod counters;
mod frame;
mod hold;
mod igmp;
mod link;
mod mac;
mod memberships;
mod mld;
mod nd;
mod neighbours;
mod routers;

pub use ackclock_control::time::Instant;

pub use address::{AddressInfo, AddressState};
pub use config::{Detection, Limits, LinkConfig, Timing};
pub use counters::LinkCounters;
pub use frame::HEADER_LEN;
pub use link::{Link, Refusal, Sending, Transmit};
pub use mac::{MacAddr, MacError};
pub use neighbours::{NeighbourInfo, NeighbourState};
