//! A reusable buffer that a device receives packets into.
//!
//! Packets lie in blocks that have room for the largest packet. The batch writes to a block only while it is
//! the sole owner. [`ReceiveBatch::lend`] lends the block of a large packet; the batch uses another one until
//! all slices of it are dropped. Free blocks are used last in, first out, and made only when needed: a batch
//! is no larger than what arrives at once.
//!
//! A kept packet pins its block, so only packets that fill at least half of one are lent. A small packet
//! received into a slot for a large one is moved away, so that the next can be received there.

use std::ops::Range;
use std::sync::Arc;

use ackclock_wire::RxMeta;
use bytes::Bytes;

/// Received packets, in blocks of memory that are reused from batch to batch.
#[derive(Debug)]
pub struct ReceiveBatch {
    /// The blocks with packets, in order, then the free ones.
    blocks: Vec<Block>,
    blocks_max: usize,
    /// The lent blocks, the oldest loan first.
    lent: Vec<Block>,
    /// The block being filled, and how far it is filled.
    filling: usize,
    used: usize,
    /// Small packets moved out of slots for large ones.
    small: Vec<u8>,
    packets: Vec<Packet>,
    packets_max: usize,
    limit: usize,
    /// The size of the last slot.
    slot_len: usize,
    /// Whether a slot was asked for in vain since the last clear.
    full: bool,
}

type Block = Arc<Box<[u8]>>;

/// The position of a packet.
#[derive(Clone, Copy, Debug)]
struct Packet {
    /// Its block; `None` for a small packet.
    block: Option<usize>,
    start: usize,
    end: usize,
    meta: RxMeta,
}

impl ReceiveBatch {
    /// A batch that is full when it holds `packets_max` packets, or when `bytes_max` bytes have no room for
    /// another.
    ///
    /// Both are raised to fit the largest packet of any device: 1 and 65,600. Memory is allocated in blocks
    /// of that size when it is first needed.
    #[must_use]
    pub fn new(packets_max: usize, bytes_max: usize) -> Self {
        let packets_max = packets_max.max(1);
        Self {
            blocks: Vec::new(),
            blocks_max: (bytes_max / BYTES_MIN).max(1),
            lent: Vec::new(),
            filling: 0,
            used: 0,
            small: Vec::new(),
            packets: Vec::with_capacity(packets_max),
            packets_max,
            slot_len: 0,
            full: false,
            limit: packets_max,
        }
    }

    /// Empties the batch, keeping its memory.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.small.clear();
        (self.filling, self.used, self.full) = (0, 0, false);
        let is_lent = |block: &Block| Arc::strong_count(block) > 1;
        if !self.lent.is_empty() {
            self.blocks.extend(self.lent.extract_if(.., |block| !is_lent(block)));
        }
        if self.blocks.iter().any(is_lent) {
            self.lent.extend(self.blocks.extract_if(.., |block| is_lent(block)));
            // A loan this long is given up; the borrower keeps the block.
            let forgotten = self.lent.len().saturating_sub(LENT_MAX);
            self.lent.drain(..forgotten);
        }
        self.blocks.truncate(self.blocks_max);
        self.limit = self.packets_max;
    }

    /// Until it is next cleared, the batch takes at most `packets`, but at least one.
    pub fn limit(&mut self, packets: usize) {
        self.limit = packets.clamp(1, self.packets_max);
    }

    /// Whether it had no room for a packet that a device wanted to receive into it: the device may have more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Room for one more packet of at most `len_max` bytes; `None` if the batch is full.
    pub fn slot(&mut self, len_max: usize) -> Option<&mut [u8]> {
        if len_max > BYTES_MIN {
            return None;
        }
        let fits = self.used + len_max <= BYTES_MIN;
        if self.packets.len() >= self.limit || !fits && self.filling + 1 >= self.blocks_max {
            self.full = true;
            return None;
        }
        if !fits {
            (self.filling, self.used) = (self.filling + 1, 0);
        }
        if self.filling == self.blocks.len() {
            self.blocks.push(Arc::new(vec![0; BYTES_MIN].into_boxed_slice()));
        }
        // `None` if the block was lent since the last clear: packets of this batch lie in it.
        let block = Arc::get_mut(&mut self.blocks[self.filling])?;
        self.slot_len = len_max;
        block.get_mut(self.used..self.used + len_max)
    }

    /// Makes the first `len` bytes of the last [`slot`](Self::slot) a packet. The first `skip` of them, a
    /// header of the device, are not part of it.
    ///
    /// # Panics
    /// If `len` exceeds the slot.
    pub fn commit(&mut self, skip: usize, len: usize, meta: RxMeta) {
        let (start, end) = (self.used + skip.min(len), self.used + len);
        assert!(end <= BYTES_MIN, "a packet longer than its slot");
        if len <= SMALL_MAX && end + self.slot_len > BYTES_MIN {
            let at = self.small.len();
            self.small.extend_from_slice(&self.blocks[self.filling][start..end]);
            self.packets.push(Packet { block: None, start: at, end: self.small.len(), meta });
            return;
        }
        self.packets.push(Packet { block: Some(self.filling), start, end, meta });
        self.used = end;
    }

    /// Copies a packet into the batch. Returns `false` if it has no room.
    pub fn push(&mut self, packet: &[u8], meta: RxMeta) -> bool {
        let Some(slot) = self.slot(packet.len()) else { return false };
        slot.copy_from_slice(packet);
        self.commit(0, packet.len(), meta);
        true
    }

    /// Visits each packet from index `first` on, and keeps the bytes that `keep` returns, or drops the
    /// packet. The room of dropped packets at the end is free again.
    ///
    /// # Panics
    /// If `keep` returns bytes that the packet does not have.
    pub fn retain(&mut self, first: usize, mut keep: impl FnMut(&[u8], RxMeta) -> Option<Range<usize>>) {
        let mut kept = first;
        for at in first..self.packets.len() {
            let packet = self.packets[at];
            let Some(range) = keep(self.bytes(&packet), packet.meta) else { continue };
            let (start, end) = (packet.start + range.start, packet.start + range.end);
            assert!(start <= end && end <= packet.end, "a part of a packet that lies outside it");
            self.packets[kept] = Packet { start, end, ..packet };
            kept += 1;
        }
        self.packets.truncate(kept);
        let last = self.packets.iter().rev().find_map(|packet| Some((packet.block?, packet.end)));
        (self.filling, self.used) = last.unwrap_or((0, 0));
    }

    /// The number of packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether the batch holds no packet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The packets in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], RxMeta)> + '_ {
        self.packets.iter().map(|packet| (self.bytes(packet), packet.meta))
    }

    /// Lends packet number `at` for any length of time, if it fills at least half of the block that this pins
    /// (65,600 bytes).
    #[must_use]
    pub fn lend(&self, at: usize) -> Option<Bytes> {
        let Packet { block, start, end, .. } = *self.packets.get(at)?;
        if end - start < BYTES_MIN / 2 {
            return None;
        }
        let block = Lent(Arc::clone(&self.blocks[block?]));
        Some(Bytes::from_owner(block).slice(start..end))
    }

    fn bytes(&self, packet: &Packet) -> &[u8] {
        let all = packet.block.map_or(&self.small[..], |block| &self.blocks[block]);
        &all[packet.start..packet.end]
    }
}

/// Keeps a block from being overwritten.
struct Lent(Block);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Room for the largest packet of any device, with the device's header in front.
pub(crate) const BYTES_MIN: usize = 65_600;

/// The largest packet that is moved out of a slot for a large one.
const SMALL_MAX: usize = 4096;

/// How many lent blocks are reclaimed. Others are freed when their last slice is dropped.
const LENT_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_as_they_went_in() {
        let mut batch = ReceiveBatch::new(2, 0);
        let slot = batch.slot(10).unwrap();
        slot[..5].copy_from_slice(b"12abc");
        batch.commit(2, 5, RxMeta::default());
        assert!(batch.push(b"de", RxMeta::default()));
        let packets: Vec<_> = batch.iter().map(|(bytes, _)| bytes.to_vec()).collect();
        assert_eq!(packets, [b"abc".to_vec(), b"de".to_vec()]);
        batch.clear();
        assert!(batch.is_empty());
    }

    #[test]
    fn what_is_not_retained_leaves_its_room() {
        let mut batch = ReceiveBatch::new(4, 0);
        for packet in [b"keep1", b"head2", b"drop3", b"drop4"] {
            assert!(batch.push(packet, RxMeta::default()));
        }
        batch.retain(1, |bytes, _| bytes.starts_with(b"head").then_some(4..5));
        let packets: Vec<_> = batch.iter().map(|(bytes, _)| bytes.to_vec()).collect();
        assert_eq!(packets, [b"keep1".to_vec(), b"2".to_vec()]);
        assert!(batch.slot(BYTES_MIN - 10).is_some() && batch.slot(BYTES_MIN - 9).is_none());
        batch.retain(0, |_, _| None);
        assert!(batch.is_empty() && batch.slot(BYTES_MIN).is_some());
    }

    #[test]
    fn a_block_that_is_lent_is_not_written_to_until_it_is_dropped() {
        let mut batch = ReceiveBatch::new(4, 4 * BYTES_MIN);
        let address = |batch: &ReceiveBatch| batch.iter().next().unwrap().0.as_ptr();
        assert!(batch.push(&[1; 60_000], RxMeta::default()) && batch.push(&[2; 2000], RxMeta::default()));
        let first = address(&batch);
        let kept = batch.lend(0).unwrap();
        assert!(batch.lend(1).is_none(), "a small packet would pin a large block");
        assert_eq!(kept.as_ptr(), first, "it is not copied");
        batch.clear();
        assert!(batch.push(&[3; 60_000], RxMeta::default()));
        assert!(address(&batch) != first && kept == vec![1; 60_000]);
        drop(kept);
        // The freed block waits behind the one used last.
        batch.clear();
        for byte in [4, 5] {
            assert!(batch.push(&[byte; 60_000], RxMeta::default()));
        }
        assert_eq!(batch.iter().nth(1).unwrap().0.as_ptr(), first);
        assert_eq!(batch.blocks.len(), 2);
    }

    #[test]
    fn blocks_that_are_never_given_back_are_forgotten() {
        let mut batch = ReceiveBatch::new(4, 4 * BYTES_MIN);
        let mut kept = Vec::new();
        for _ in 0..3 * LENT_MAX {
            assert!(batch.push(&[1; 60_000], RxMeta::default()));
            kept.push(batch.lend(0).unwrap());
            batch.clear();
        }
        assert_eq!((batch.lent.len(), batch.blocks.len()), (LENT_MAX, 0));
        kept.clear();
        batch.clear();
        assert!(batch.lent.is_empty() && batch.blocks.len() <= 4);
    }

    #[test]
    fn small_packets_in_slots_for_large_ones_take_no_block_each() {
        let mut batch = ReceiveBatch::new(64, 0);
        for number in 0..64 {
            let slot = batch.slot(BYTES_MIN).expect("room for the largest packet");
            slot[..60].fill(number);
            batch.commit(10, 60, RxMeta::default());
        }
        assert!(batch.slot(1).is_none());
        assert!(batch.iter().zip(0..).all(|((packet, _), number)| packet == [number; 50]));
        batch.retain(1, |packet, _| (packet[0] % 2 == 0).then_some(1..3));
        assert!(batch.iter().skip(1).zip(1..).all(|((packet, _), number)| packet == [2 * number; 2]));
    }

    #[test]
    fn a_full_batch_gives_no_slot() {
        let mut batch = ReceiveBatch::new(1, 0);
        assert!(batch.slot(BYTES_MIN + 1).is_none());
        assert!(batch.push(&[0; BYTES_MIN], RxMeta::default()));
        assert!(!batch.is_full(), "nothing more was asked for");
        assert!(batch.slot(1).is_none() && batch.is_full(), "the packet limit");
        let mut batch = ReceiveBatch::new(9, 100);
        batch.limit(2);
        assert!(batch.push(&[0], RxMeta::default()) && batch.push(&[0], RxMeta::default()));
        assert!(batch.slot(1).is_none(), "the limit until it is emptied");
        batch.clear();
        assert!(batch.push(&[0; BYTES_MIN], RxMeta::default()) && !batch.is_full());
        assert!(batch.slot(1).is_none() && batch.is_full(), "the byte limit");
    }
}
