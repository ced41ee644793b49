//! Explicit congestion notification on the wire: the IP header's codepoint (RFC 3168 §5) and the options that
//! count the bytes received with each (RFC 9768 §3.2.3).

use crate::bytes::put;
use crate::checksum::sum;
use crate::options::{NOP, Writer};

/// The ECN field of an IP header, the lower two bits of the traffic class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Codepoint {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable, with L4S semantics (RFC 9331).
    Ect1,
    /// ECN-capable.
    Ect0,
    /// Congestion Experienced.
    Ce,
}

impl Codepoint {
    /// The codepoint in a traffic class, or in its lower two bits alone.
    #[must_use]
    #[inline]
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }
}

/// Marks an IP packet with Congestion Experienced, as a congested router does. Returns `false`, and changes
/// nothing, if the packet is Not-ECT or not an IP packet.
pub fn mark(packet: &mut [u8]) -> bool {
    let (at, shift) = match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= V4_LEN => (1, 0),
        // The traffic class spans the first two bytes.
        Some(6) if packet.len() >= V6_LEN => (1, 4),
        _ => return false,
    };
    let Some(byte) = packet.get_mut(at).filter(|byte| Codepoint::of(**byte >> shift) != Codepoint::NotEct)
    else {
        return false;
    };
    *byte |= Codepoint::Ce.bits() << shift;
    if shift == 0 {
        let len = packet.first().map_or(0, |byte| usize::from(byte & 15) * 4);
        put(packet, 10, [0, 0]);
        let checksum = sum(packet.get(..len).unwrap_or_default()).checksum();
        put(packet, 10, checksum.to_be_bytes());
    }
    true
}

/// An Accurate ECN option: how many payload bytes arrived with each codepoint, modulo 2^24.
///
/// Its counters come in one of two orders. Trailing counters may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccEcn {
    order: AccEcnOrder,
    /// In wire order.
    counters: [u32; 3],
    len: u8,
}

/// Which counter of an Accurate ECN option comes first. The second is always CE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccEcnOrder {
    /// Kind 172: ECT(0), CE, ECT(1).
    Ect0First,
    /// Kind 174: ECT(1), CE, ECT(0).
    Ect1First,
}

impl AccEcn {
    /// All three counters in this order. Only their lower 24 bits are sent.
    #[must_use]
    pub fn new(order: AccEcnOrder, ect0: u32, ce: u32, ect1: u32) -> Self {
        let counters = match order {
            AccEcnOrder::Ect0First => [ect0, ce, ect1],
            AccEcnOrder::Ect1First => [ect1, ce, ect0],
        };
        Self { order, counters: counters.map(|counter| counter & COUNTER_MASK), len: 3 }
    }

    /// Keeps only the first `len` counters.
    #[must_use]
    pub fn truncated(self, len: u8) -> Self {
        let len = self.len.min(len);
        let kept = |index, counter| if index < usize::from(len) { counter } else { 0 };
        let [first, second, third] = self.counters;
        Self { len, counters: [kept(0, first), kept(1, second), kept(2, third)], ..self }
    }

    /// The order.
    #[must_use]
    pub fn order(&self) -> AccEcnOrder {
        self.order
    }

    /// Bytes that arrived as ECT(0), modulo 2^24; `None` if the option leaves them out.
    #[must_use]
    pub fn ect0(&self) -> Option<u32> {
        self.counter(if self.order == AccEcnOrder::Ect0First { 0 } else { 2 })
    }

    /// Bytes that arrived as CE.
    #[must_use]
    pub fn ce(&self) -> Option<u32> {
        self.counter(1)
    }

    /// Bytes that arrived as ECT(1).
    #[must_use]
    pub fn ect1(&self) -> Option<u32> {
        self.counter(if self.order == AccEcnOrder::Ect0First { 2 } else { 0 })
    }

    fn counter(&self, index: usize) -> Option<u32> {
        self.counters.get(index).copied().filter(|_| index < usize::from(self.len))
    }

    /// Parses an option of this kind.
    // RFC 9768 §3.2.3: whatever the length, the whole counters that fit are read and the rest is padding.
    pub(crate) fn parse(kind: u8, data: &[u8]) -> Self {
        let order = if kind == KIND_ECT1_FIRST { AccEcnOrder::Ect1First } else { AccEcnOrder::Ect0First };
        let mut option = Self { order, counters: [0; 3], len: 0 };
        let (whole, _) = data.as_chunks::<3>();
        for (slot, [a, b, c]) in option.counters.iter_mut().zip(whole) {
            *slot = u32::from_be_bytes([0, *a, *b, *c]);
            option.len = option.len.saturating_add(1);
        }
        option
    }

    /// The length in bytes, padding included.
    pub(crate) fn written_len(&self) -> usize {
        usize::from(self.len_field()).next_multiple_of(4)
    }

    /// The length as the option itself says it: kind, length and three bytes for each counter.
    fn len_field(&self) -> u8 {
        self.len.saturating_mul(3).saturating_add(2)
    }

    /// Writes the option, with padding in front.
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        for _ in usize::from(self.len_field())..self.written_len() {
            out.append([NOP]);
        }
        let kind = match self.order {
            AccEcnOrder::Ect0First => KIND_ECT0_FIRST,
            AccEcnOrder::Ect1First => KIND_ECT1_FIRST,
        };
        out.append([kind, self.len_field()]);
        for counter in self.counters.iter().take(self.len.into()) {
            let [_, a, b, c] = counter.to_be_bytes();
            out.append([a, b, c]);
        }
    }
}

/// RFC 9768 §3.2.3, Figure 3.
pub(crate) const KIND_ECT0_FIRST: u8 = 172;
pub(crate) const KIND_ECT1_FIRST: u8 = 174;
const COUNTER_MASK: u32 = (1 << 24) - 1;
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;

ackclock_form::form! {
    enum Codepoint { 0 NotEct, 1 Ect1, 2 Ect0, 3 Ce }
    struct AccEcn { order, counters, len } => |option| option.len <= 3;
    enum AccEcnOrder { 0 Ect0First, 1 Ect1First }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{data_fields, data_sockets, packet};
    use crate::{Fields, IpPacket, TxChecksum};

    #[test]
    fn only_packets_that_take_marks_are_marked() {
        for v6 in [false, true] {
            for codepoint in [Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1, Codepoint::Ce] {
                let fields = Fields { ecn: codepoint, ..data_fields() };
                let mut packet = packet(data_sockets(v6), &fields, b"payload", TxChecksum::Full);
                let before = IpPacket::parse(&packet).unwrap().ecn();
                assert_eq!(before, codepoint);
                let takes_marks = codepoint != Codepoint::NotEct;
                assert_eq!(mark(&mut packet), takes_marks);
                let after = IpPacket::parse(&packet).unwrap().ecn();
                assert_eq!(after, if takes_marks { Codepoint::Ce } else { Codepoint::NotEct }, "v6 {v6}");
            }
        }
    }

    #[test]
    fn what_is_no_packet_is_left_alone() {
        for len in 0..60u8 {
            for first in [0x45, 0x4f, 0x60, 0x05] {
                let mut bytes = vec![0xff; len.into()];
                bytes.iter_mut().take(1).for_each(|byte| *byte = first);
                mark(&mut bytes);
                assert_eq!(bytes.len(), usize::from(len));
            }
        }
    }
}
