//! The sequence number extension (SNE, RFC 5925 §6.2): the upper half of a 64-bit sequence number whose lower
//! half is in the segment. Without it a segment could be replayed after 4 GiB.
//!
//! RFC 5925 keeps flags for the wrap of the lower half; the number nearest to the highest seen gives the same
//! result.

/// The numbers of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extended {
    highest: u64,
}

impl Extended {
    /// For a connection that begins with `isn`, where the SNE is 0.
    pub fn new(isn: u32) -> Self {
        Self { highest: u64::from(isn) }
    }

    /// The SNE of a segment with this sequence number.
    pub fn sne(self, seq: u32) -> u32 {
        (self.nearest(seq) >> 32) as u32
    }

    /// A segment with this sequence number was sent, or authenticated.
    pub fn note(&mut self, seq: u32) {
        self.highest = self.highest.max(self.nearest(seq));
    }

    fn nearest(self, seq: u32) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let ahead = seq.wrapping_sub(self.highest as u32).cast_signed();
        self.highest.checked_add_signed(ahead.into()).unwrap_or(u64::from(seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_counts_the_wraps_and_old_segments_keep_theirs() {
        let mut numbers = Extended::new(u32::MAX - 100);
        assert_eq!(numbers.sne(u32::MAX), 0);
        assert_eq!(numbers.sne(50), 1, "beyond the first wrap");
        numbers.note(50);
        assert_eq!((numbers.sne(60), numbers.sne(u32::MAX - 10)), (1, 0));
        for seq in [1 << 30, 2 << 30, 3 << 30, 10] {
            numbers.note(seq);
        }
        assert_eq!((numbers.sne(20), numbers.sne(u32::MAX)), (2, 1));
    }

    #[test]
    fn nothing_lies_below_the_beginning() {
        assert_eq!(Extended::new(5).sne(u32::MAX), 0);
    }
}
