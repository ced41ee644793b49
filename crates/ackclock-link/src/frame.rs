//! Ethernet II frames (RFC 894, RFC 2464 §3), without the frame check sequence, which devices add and take
//! off.

use etherparse::{EtherType, Ethernet2Header, Ethernet2Slice};

use crate::MacAddr;

/// The parts of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub dst: MacAddr,
    pub src: MacAddr,
    pub ether_type: EtherType,
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// `None` for bytes that end within the header.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let frame = Ethernet2Slice::from_slice_without_fcs(bytes).ok()?;
        Some(Self {
            dst: MacAddr::new(frame.destination()),
            src: MacAddr::new(frame.source()),
            ether_type: frame.ether_type(),
            payload: frame.payload_slice(),
        })
    }
}

/// The header of a frame.
pub(crate) fn header(dst: MacAddr, src: MacAddr, ether_type: EtherType) -> [u8; HEADER_LEN] {
    Ethernet2Header { destination: dst.octets(), source: src.octets(), ether_type }.to_bytes()
}

/// Bytes in front of a frame's payload.
pub const HEADER_LEN: usize = 14;
