//! IPv4, IPv6, TCP and ICMP as they stand on the wire: views, builders, checksums and sequence numbers.
//!
//! Nothing here keeps state or knows a connection. Bytes from the network are checked once and become types
//! that cannot be wrong; what cannot be understood is an error that says why, never a panic.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::indexing_slicing)]

pub mod packet;
pub mod seq;
pub mod tcp;

pub use packet::{ChecksumState, RxMeta, TxPacket};
pub use seq::SeqNum;
pub use tcp::{Flags, SackBlocks, Segment, TcpOptions};
