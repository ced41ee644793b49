//! A reusable buffer that a device receives packets into.

use ackclock_wire::RxMeta;

/// Received packets, one behind the other in one allocation that is kept from batch to batch.
#[derive(Debug)]
pub struct ReceiveBatch {
    bytes: Vec<u8>,
    used: usize,
    packets: Vec<(usize, usize, RxMeta)>,
    packets_max: usize,
}

impl ReceiveBatch {
    /// A batch that is full when it holds `packets_max` packets or `bytes_max` bytes.
    #[must_use]
    pub fn new(packets_max: usize, bytes_max: usize) -> Self {
        Self { bytes: vec![0; bytes_max], used: 0, packets: Vec::with_capacity(packets_max), packets_max }
    }

    /// Empties the batch, keeping its memory.
    pub fn clear(&mut self) {
        self.used = 0;
        self.packets.clear();
    }

    /// Room for one more packet of at most `len_max` bytes; `None` when the batch is full.
    pub fn slot(&mut self, len_max: usize) -> Option<&mut [u8]> {
        if self.packets.len() == self.packets_max {
            return None;
        }
        self.bytes.get_mut(self.used..self.used.checked_add(len_max)?)
    }

    /// Makes the first `len` bytes of the last [`slot`](Self::slot) a packet, whose first `skip` bytes (a header of
    /// the device's own) are not part of it.
    pub fn commit(&mut self, skip: usize, len: usize, meta: RxMeta) {
        let (start, end) = (self.used + skip.min(len), self.used + len);
        self.packets.push((start, end, meta));
        self.used = end;
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
