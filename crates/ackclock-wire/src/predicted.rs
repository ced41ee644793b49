//! Header prediction: the one form of nearly all segments of a transfer, recognised by comparing words.
//!
//! V. Jacobson gave 4.3BSD a fast path for the segment that is the next of a connection and changes nothing
//! else ("4BSD TCP Header Prediction", Computer Communication Review 20(2), 1990; not read, cited by its
//! title). A packet has the predicted form if
//!
//! - its IPv4 header has no options and is not a fragment's, or its IPv6 header is directly followed by TCP;
//! - it goes between the two sockets of one connection;
//! - its flags are ACK, with or without PSH;
//! - its options are two NOPs and the timestamps (RFC 7323 appendix A), or none if the connection has none;
//! - it ends where its length field says, and its checksums are right.
//!
//! [`Segment::parse`](crate::Segment::parse) gives the same result for such a packet, and handles all others.

use crate::options::{NOP, TIMESTAMPS};
use crate::tcp::{self, PROTOCOL};
use crate::template::{V6_LEN, Version};
use crate::{ChecksumState, HeaderTemplate, SeqNum, checksum};

/// A segment of the predicted form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicted<'a> {
    /// SEG.SEQ.
    pub seq: SeqNum,
    /// SEG.ACK.
    pub ack: SeqNum,
    /// SEG.WND, not scaled.
    pub window: u16,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// Payload.
    pub payload: &'a [u8],
}

/// The two NOPs, and the kind and length of the timestamps option.
const ALIGNED_TIMESTAMPS: u32 = u32::from_be_bytes([NOP, NOP, TIMESTAMPS, 10]);
/// The data offset and flags of a header without options whose only flag is ACK.
const ACK_WITHOUT_OPTIONS: u32 = 0x5010;
/// The three words that timestamps add to the data offset.
const TIMESTAMPS_WORDS: u32 = 0x3000;
/// The PSH bit. It makes no difference to a receiver that does not hold data back.
const PSH: u32 = 0x0008;

impl<'a> Predicted<'a> {
    /// Reads `packet` if it has the predicted form, with or without timestamps, in the opposite direction to
    /// the segments of `template`. `None` says nothing about the packet.
    #[must_use]
    #[inline]
    pub fn parse(
        packet: &'a [u8],
        template: &HeaderTemplate,
        timestamps: bool,
        checksum: ChecksumState,
    ) -> Option<Self> {
        let segment = match template.version {
            Version::V4 => tcp_of_v4(packet, &template.ip)?,
            Version::V6 => tcp_of_v6(packet, &template.ip)?,
        };
        let (header, mut payload) = segment.split_first_chunk::<20>()?;
        let ([ports, seq, ack, control, _], []) = header.as_chunks::<4>() else { return None };
        if u32::from_be_bytes(*ports) != template.ports.rotate_left(16) {
            return None;
        }
        let control = u32::from_be_bytes(*control);
        let form = ACK_WITHOUT_OPTIONS.wrapping_add(if timestamps { TIMESTAMPS_WORDS } else { 0 });
        if control >> 16 & !PSH != form {
            return None;
        }
        let mut stamps = None;
        if timestamps {
            let (options, rest) = payload.split_first_chunk::<12>()?;
            let ([kind, value, echo], []) = options.as_chunks::<4>() else { return None };
            if u32::from_be_bytes(*kind) != ALIGNED_TIMESTAMPS {
                return None;
            }
            stamps = Some((u32::from_be_bytes(*value), u32::from_be_bytes(*echo)));
            payload = rest;
        }
        let length = u16::try_from(segment.len()).ok()?;
        let [.., high, low] = control.to_be_bytes();
        if !tcp::is_intact(segment, checksum, || template.pseudo_sum.plus_u16(length)) {
            return None;
        }
        Some(Self {
            seq: SeqNum::new(u32::from_be_bytes(*seq)),
            ack: SeqNum::new(u32::from_be_bytes(*ack)),
            window: u16::from_be_bytes([high, low]),
            timestamps: stamps,
            payload,
        })
    }
}

/// The TCP segment of an IPv4 packet whose addresses are those of `ip`, the header of the other direction, if
/// its header is 20 bytes long, right, and that of a whole packet.
#[inline]
fn tcp_of_v4<'a>(packet: &'a [u8], ip: &[u8; V6_LEN]) -> Option<&'a [u8]> {
    let (header, segment) = packet.split_first_chunk::<20>()?;
    let ([length, fragment, protocol, ..], []) = header.as_chunks::<4>() else { return None };
    let (addresses, others) = (header.last_chunk::<8>()?, ip.first_chunk::<20>()?.last_chunk::<8>()?);
    // Version 4, five words, any type of service, and the length.
    let has_length = u32::from_be_bytes(*length) & 0xff00_ffff == 0x4500_0000 | length_of(packet)?;
    // Of the flags, only DF may be set.
    let is_whole = u32::from_be_bytes(*fragment) & 0xbfff == 0;
    let is_tcp = protocol[1] == PROTOCOL;
    let is_between = u64::from_be_bytes(*addresses) == u64::from_be_bytes(*others).rotate_left(32);
    if !(has_length && is_whole && is_tcp && is_between) || checksum::sum(header).checksum() != 0 {
        return None;
    }
    Some(segment)
}

/// As [`tcp_of_v4`], for an IPv6 packet without extension headers.
#[inline]
fn tcp_of_v6<'a>(packet: &'a [u8], ip: &[u8; V6_LEN]) -> Option<&'a [u8]> {
    let (header, segment) = packet.split_first_chunk::<8>()?;
    let ([version, length], []) = header.as_chunks::<4>() else { return None };
    let (from, segment) = segment.split_first_chunk::<16>()?;
    let (to, segment) = segment.split_first_chunk::<16>()?;
    let (src, dst) = ip.last_chunk::<32>()?.split_at(16);
    let has_length = u32::from_be_bytes(*length) >> 8 == length_of(segment)? << 8 | u32::from(PROTOCOL);
    let is_v6 = version[0] >> 4 == 6;
    if is_v6 && has_length && from == dst && to == src { Some(segment) } else { None }
}

/// The length in the form of a length field.
#[inline]
fn length_of(bytes: &[u8]) -> Option<u32> {
    u16::try_from(bytes.len()).ok().map(u32::from)
}

#[cfg(test)]
mod tests;
