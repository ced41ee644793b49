//! IPv4, IPv6, TCP and ICMP as they stand on the wire: views, builders, checksums and sequence numbers.
//!
//! Nothing here keeps state or knows a connection. Bytes from the network are checked once and become types
//! that cannot be wrong; what cannot be understood is an error that says why, never a panic.
//!
//! Inward, a packet passes [`IpPacket::parse`], then [`Segment::parse`] or [`parse_icmp4`] / [`parse_icmp6`].
//! Outward, a connection patches its [`HeaderTemplate`] and leaves the payload where it lies ([`TxPacket`]);
//! segments without a connection are built by [`write_control`], datagrams by [`write_udp`]; [`gso`] does in software what a device
//! cannot.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::indexing_slicing)]

mod bytes;
pub mod checksum;
pub mod control;
pub mod ecn;
pub mod flow_label;
pub mod fragment;
pub mod gso;
pub mod icmp;
pub mod icmp_out;
pub mod ip;
pub mod options;
pub mod packet;
pub mod pcapng;
pub mod predicted;
pub mod seq;
pub mod tcp;
pub mod template;
#[cfg(test)]
mod testing;
pub mod udp;

pub use control::{ControlSegment, write_control};
pub use ecn::{AccEcn, AccEcnOrder, Codepoint};
pub use flow_label::FlowLabel;
pub use icmp::{
    IcmpKind, IcmpParseError, IcmpReport, UdpReport, parse_icmp4, parse_icmp6, parse_udp_error4,
    parse_udp_error6,
};
pub use ip::{IpError, IpPacket, IpPayload};
pub use options::{Experiment, FastOpenCookie, SackBlocks, TcpOptions, UserTimeout, options_len};
pub use packet::{ChecksumAt, ChecksumState, RxMeta, TxPacket};
pub use predicted::Predicted;
pub use seq::SeqNum;
pub use tcp::{Flags, Segment, TcpError};
pub use template::{Fields, HEADER_MAX, HeaderTemplate, Plain, TxChecksum};
pub use udp::{UdpDatagram, UdpError, UdpHeader, write_udp};
