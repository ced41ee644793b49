//! A reusable buffer that a device receives packets into.

use std::ops::Range;

use ackclock_wire::RxMeta;

/// Received packets, one behind the other in one allocation that is kept from batch to batch.
#[derive(Debug)]
pub struct ReceiveBatch {
    bytes: Vec<u8>,
    used: usize,
    packets: Vec<(usize, usize, RxMeta)>,
    packets_max: usize,
    limit: usize,
}

impl ReceiveBatch {
    /// A batch that is full when it holds `packets_max` packets or has no room for another one in `bytes_max` bytes.
    ///
    /// Both are raised so far that the largest packet of any device fits: 1 and 65,600.
    #[must_use]
    pub fn new(packets_max: usize, bytes_max: usize) -> Self {
        let packets_max = packets_max.max(1);
        Self {
            bytes: vec![0; bytes_max.max(BYTES_MIN)],
            used: 0,
            packets: Vec::with_capacity(packets_max),
            packets_max,
            limit: packets_max,
        }
    }

    /// Empties the batch, keeping its memory.
    pub fn clear(&mut self) {
        self.used = 0;
        self.packets.clear();
        self.limit = self.packets_max;
    }

    /// Until it is emptied the batch takes no more than `packets`, and one at least.
    pub fn limit(&mut self, packets: usize) {
        self.limit = packets.clamp(1, self.packets_max);
    }

    /// Room for one more packet of at most `len_max` bytes; `None` when the batch is full.
    pub fn slot(&mut self, len_max: usize) -> Option<&mut [u8]> {
        if self.packets.len() >= self.limit {
            return None;
        }
        self.bytes.get_mut(self.used..self.used.checked_add(len_max)?)
    }

    /// Makes the first `len` bytes of the last [`slot`](Self::slot) a packet, whose first `skip` bytes (a header of
    /// the device's own) are not part of it.
    ///
    /// # Panics
    /// When `len` is more than the slot had.
    pub fn commit(&mut self, skip: usize, len: usize, meta: RxMeta) {
        let (start, end) = (self.used + skip.min(len), self.used + len);
        assert!(end <= self.bytes.len(), "a packet longer than its slot");
        self.packets.push((start, end, meta));
        self.used = end;
    }

    /// Copies a packet into the batch; `false` when it has no room for it.
    pub fn push(&mut self, packet: &[u8], meta: RxMeta) -> bool {
        let Some(slot) = self.slot(packet.len()) else { return false };
        slot.copy_from_slice(packet);
        self.commit(0, packet.len(), meta);
        true
    }

    /// Looks at each packet from the `first`th on: keeps of it the bytes that `keep` names, or drops it. The room of
    /// dropped packets at the end is free again.
    ///
    /// # Panics
    /// When `keep` names bytes that the packet does not have.
    pub fn retain(&mut self, first: usize, mut keep: impl FnMut(&[u8], RxMeta) -> Option<Range<usize>>) {
        let mut kept = first;
        for at in first..self.packets.len() {
            let (start, end, meta) = self.packets[at];
            let Some(range) = keep(&self.bytes[start..end], meta) else { continue };
            let (from, to) = (start + range.start, start + range.end);
            assert!(from <= to && to <= end, "a part of a packet that lies outside it");
            self.packets[kept] = (from, to, meta);
            kept += 1;
        }
        self.packets.truncate(kept);
        self.used = self.packets.last().map_or(0, |&(_, end, _)| end);
    }

    /// How many packets the batch holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether the batch holds no packet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The packets in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], RxMeta)> + '_ {
        self.packets.iter().map(|&(start, end, meta)| (&self.bytes[start..end], meta))
    }
}

/// Room for the largest packet that any device receives and its own header in front of it.
pub(crate) const BYTES_MIN: usize = 65_600;

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
    fn a_full_batch_gives_no_slot() {
        let mut batch = ReceiveBatch::new(1, 0);
        assert!(batch.slot(BYTES_MIN + 1).is_none());
        assert!(batch.push(&[0; BYTES_MIN], RxMeta::default()));
        assert!(batch.slot(1).is_none(), "the packet limit");
        let mut batch = ReceiveBatch::new(9, 100);
        batch.limit(2);
        assert!(batch.push(&[0], RxMeta::default()) && batch.push(&[0], RxMeta::default()));
        assert!(batch.slot(1).is_none(), "the limit until it is emptied");
        batch.clear();
        assert!(batch.push(&[0; BYTES_MIN], RxMeta::default()));
        assert!(batch.slot(1).is_none(), "the byte limit");
    }
}
