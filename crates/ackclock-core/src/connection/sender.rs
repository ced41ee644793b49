//! The send buffer, and the peer's window (RFC 9293 §3.3.1). The flight has what was sent.

use bytes::Bytes;

use crate::budget::{BLOCK, Budget};
use crate::buffer::Queue;
use crate::position::Position;
use crate::sending::whole_segments;

/// The shortest slice that is kept rather than copied: a copy costs less than a packet cut at a slice's end.
pub(super) const SLICE_MIN: usize = BLOCK / 2;
/// The shortest slice between two others: larger than segments are, except on a loopback. No segment up to
/// this size spans three slices.
pub(super) const BETWEEN_MIN: usize = BLOCK / 4;

/// SND.WND, and the bytes to send or retransmit.
#[derive(Debug)]
pub(crate) struct Sender {
    /// ISS.
    pub(crate) iss: Position,
    /// SND.WND in bytes, scaled.
    // RFC 9293 REC-1: 32-bit window fields. RFC 9293 MUST-1: unsigned.
    pub(crate) wnd: u32,
    /// MAX.SND.WND: the largest window the peer ever offered (RFC 5961 §5, RFC 9293 §3.8.6.2.1).
    pub(crate) max_wnd: u32,
    /// SND.WL1: sequence number of the segment used for the last window update.
    pub(crate) wl1: Position,
    /// SND.WL2: its acknowledgement number.
    pub(crate) wl2: Position,
    /// Shift count of the peer's windows.
    pub(crate) scale: u8,
    /// The end of urgent data that is being sent.
    pub(crate) up: Option<Position>,
    /// Whether the application has closed: a FIN follows the last byte.
    pub(crate) closed: bool,
    /// The capacity of the buffer in bytes.
    pub(crate) buffer_max: usize,
    /// The peer's MSS option, or the default.
    pub(crate) peer_mss: u32,
    /// Path MTU in bytes.
    pub(crate) pmtu: u32,
    /// What the application waits for.
    pub(crate) awaited: Awaited,
    buffer: Queue,
    base: Position,
}

/// What the application waits for in the send buffer. One byte, so that an acknowledgement asks once whether
/// there is anything, for the row "acknowledgement received" of the counted instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Awaited(u8);

impl Awaited {
    /// Room to write, of which it found none.
    pub(crate) const ROOM: Self = Self(1);
    /// Less that was not sent: it found as much as its low-water mark allows.
    pub(crate) const SENT: Self = Self(2);
    /// Acknowledgements: it has asked for feedback.
    pub(crate) const DELIVERY: Self = Self(4);
    /// To write the rest of what did not fit: it is known to have more. Nothing wakes it for this; it learns
    /// of the room.
    pub(crate) const MORE: Self = Self(8);

    /// Whether it waits for nothing that an acknowledgement can bring.
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 & !Self::MORE.0 == 0
    }

    /// Whether it waits for this.
    #[inline]
    pub(crate) fn has(self, what: Self) -> bool {
        self.0 & what.0 != 0
    }

    pub(crate) fn add(&mut self, what: Self) {
        self.0 |= what.0;
    }

    /// It waits for this no longer. Says whether it did.
    pub(crate) fn remove(&mut self, what: Self) -> bool {
        let had = self.has(what);
        self.0 &= !what.0;
        had
    }
}

impl Sender {
    pub(crate) fn new(iss: Position, budget: &Budget, buffer_max: usize, mtu: u32) -> Self {
        Self {
            iss,
            wnd: 0,
            max_wnd: 0,
            wl1: iss,
            wl2: iss,
            scale: 0,
            up: None,
            closed: false,
            buffer_max,
            peer_mss: 0,
            pmtu: mtu,
            awaited: Awaited::default(),
            buffer: Queue::new(budget),
            base: iss + 1,
        }
    }

    /// The position after the last byte written: where a FIN goes.
    #[inline]
    pub(crate) fn data_end(&self) -> Position {
        self.base + self.buffer.len() as u64
    }

    /// Bytes in the buffer, sent or not.
    pub(crate) fn queued(&self) -> usize {
        self.buffer.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Appends as much of `data` as fits below a total of `limit` bytes. Returns how much.
    pub(crate) fn append(&mut self, data: &[u8], limit: usize) -> usize {
        let room = limit.saturating_sub(self.buffer.len());
        let data = data.get(..room).unwrap_or(data);
        if self.buffer.append(data) { data.len() } else { self.buffer.append_part(data) }
    }

    /// Appends as much of `data` as fits below a total of `limit` bytes, as a slice if it is long enough.
    /// Returns how much.
    ///
    /// A segment is gathered from two slices, so none between two others is shorter than [`BETWEEN_MIN`]:
    /// after copied bytes, what is missing to that length is copied too.
    pub(crate) fn append_bytes(&mut self, data: &Bytes, limit: usize) -> usize {
        let len = limit.saturating_sub(self.buffer.len()).min(data.len());
        let short = self.buffer.held_by_last().map_or(0, |held| BETWEEN_MIN.saturating_sub(held));
        if len < SLICE_MIN {
            return self.append(data, limit);
        }
        if short > 0 && !self.buffer.append(&data.slice(..short)) {
            return self.buffer.append_part(&data.slice(..short));
        }
        let affordable = len.saturating_sub(short).min(self.buffer.affordable());
        let kept = data.slice(short..short.saturating_add(affordable));
        if affordable >= BETWEEN_MIN && self.buffer.append_given(kept) {
            return short.saturating_add(affordable);
        }
        short.saturating_add(self.buffer.append_part(&data.slice(short..len)))
    }

    /// Whether the budget has room for another byte, with records of `records` bytes beside it.
    pub(crate) fn takes_more(&self, records: usize) -> bool {
        self.buffer.takes_more(records)
    }

    /// How many of `len` bytes from `start` on can be one segment, or several cut from one packet: all of
    /// them, or as many full ones as two slices hold.
    #[inline]
    pub(crate) fn gather(&mut self, start: Position, len: u64, smss: u64) -> u64 {
        let offset = start.index_from(self.base);
        if self.buffer.seek(offset, len) { len } else { self.gather_across(offset, len, smss) }
    }

    #[inline(never)]
    fn gather_across(&self, offset: usize, len: u64, smss: u64) -> u64 {
        let reach = self.buffer.reach(offset) as u64;
        if len <= reach || reach < smss { len.min(reach) } else { whole_segments(reach, smss) }
    }

    /// The bytes of `start..end`, in place; a FIN among them has none.
    #[inline]
    pub(crate) fn slices(&self, start: Position, len: usize) -> [&[u8]; 2] {
        if len == 0 {
            return [&[], &[]];
        }
        self.buffer.slices(start.index_from(self.base), len)
    }

    /// SND.UNA advances: acknowledged bytes leave the buffer.
    #[inline]
    pub(crate) fn acknowledge(&mut self, una: Position) {
        let base = una.min(self.data_end());
        if base > self.base {
            self.buffer.advance(base.index_from(self.base));
            self.base = base;
            if self.buffer.len() == 0 {
                self.buffer.rewind();
            }
        }
        if self.up.is_some_and(|up| up <= una) {
            self.up = None;
        }
    }

    /// Makes the budget cover the records of outstanding data. Returns `false` if it cannot.
    pub(crate) fn keep_records(&mut self, bytes: usize) -> bool {
        self.buffer.keep_beside(bytes)
    }

    pub(crate) fn budget(&self) -> &Budget {
        self.buffer.budget()
    }

    /// Bytes that the buffer holds of the budget.
    pub(crate) fn held(&self) -> usize {
        self.buffer.capacity().saturating_add(self.buffer.beside())
    }

    pub(crate) fn release_if_empty(&mut self) {
        if self.buffer.len() == 0 {
            self.buffer.release();
        }
    }

    /// Forgets all data.
    pub(crate) fn clear(&mut self, una: Position) {
        self.buffer.release();
        self.base = self.base.max(una);
    }
}
