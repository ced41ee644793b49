//! IPv4, IPv6, TCP and ICMP on the wire: views, builders, checksums and sequence numbers.
//!
//! Nothing here keeps state or knows a connection. Bytes from the network are checked once and become types
//! that cannot be wrong. Malformed input gives an error that says why, never a panic.
//!
//! Inward, a packet passes [`IpPacket::parse`], then [`Segment::parse`] or [`parse_icmp4`] / [`parse_icmp6`].
//! Outward, a connection patches its [`HeaderTemplate`] and leaves the payload where it is ([`TxPacket`]).
//! [`write_control`] builds segments without a connection, [`write_udp`] datagrams. [`gso`] does in software
//! what a device cannot.
//!
//! ```
//! use ackclock_wire::{FlowLabel, IpPacket, IpPayload, UdpHeader, write_udp};
//!
//! let (src, dst) = ("10.0.0.1:4000".parse()?, "10.0.0.2:53".parse()?);
//! let header = UdpHeader { src, dst, ttl: 64, traffic_class: 0, flow_label: FlowLabel::default() };
//! let bytes = write_udp(&header, b"query").expect("it is short, and both ends are of one family");
//!
//! let packet = IpPacket::parse(&bytes)?;
//! assert!(matches!(packet.payload, IpPayload::Udp(datagram) if datagram.ends_with(b"query")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! There are no features. Jumbograms, IPsec, unfinished routing headers and IPv4 source routes are refused.
//! Fragments are recognised ([`fragment`]); the core reassembles them.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::indexing_slicing)]
// Each operation says whether it is checked, saturates or wraps (docs/security.md, "Arithmetic").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod bytes;
pub mod checksum;
mod cidr;
pub mod control;
pub mod ecn;
pub mod flow_label;
pub mod fragment;
pub mod gso;
pub mod hash;
pub mod icmp;
pub mod icmp_out;
pub mod ip;
pub mod options;
pub mod packet;
pub mod pcapng;
pub mod pipe;
pub mod predicted;
pub mod random;
mod route;
pub mod seq;
pub mod tcp;
pub mod template;
#[cfg(test)]
mod testing;
pub mod udp;

pub use cidr::{Cidr, CidrError};
pub use control::{ControlSegment, write_control};
pub use ecn::{AccEcn, AccEcnOrder, Codepoint};
pub use flow_label::FlowLabel;
pub use icmp::{
    IcmpKind, IcmpParseError, IcmpReport, UdpReport, parse_icmp4, parse_icmp6, parse_udp_error4,
    parse_udp_error6,
};
pub use ip::{IpError, IpPacket, IpPayload};
pub use options::{Experiment, FastOpenCookie, SackBlocks, TcpOptions, UserTimeout, options_len};
pub use packet::{ChecksumAt, ChecksumState, HeldPacket, RxMeta, TxPacket};
pub use predicted::Predicted;
pub use route::{Egress, Route};
pub use seq::SeqNum;
pub use tcp::{Flags, Segment, TcpError};
pub use template::{Fields, HEADER_MAX, HeaderTemplate, Plain, TxChecksum};
pub use udp::{UdpDatagram, UdpError, UdpHeader, write_udp};
