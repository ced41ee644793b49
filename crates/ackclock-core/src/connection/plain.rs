//! The header of an ordinary segment: the template with five fields changed.
//!
//! It is the counterpart of [`arrives::predicted`](super::arrives) for sending, and V. Jacobson's idea again
//! ("4BSD TCP Header Prediction", Computer Communication Review 20(2), 1990; not read, cited by its title):
//! almost nothing differs from one segment of a transfer to the next. What a header may say, and where the
//! slow path finds it:
//!
//! | field | the slow path | the answer here |
//! |---|---|---|
//! | sequence number, length | [`Segment`] | the same |
//! | flags | [`Segment`]; URG, and those of ECN | ACK, and PSH behind the last of what is buffered |
//! | acknowledgement number | [`ReceiveHalf::ack_position`](super::receive::ReceiveHalf::ack_position): RCV.NXT, or that of a report | RCV.NXT; none waits |
//! | window | [`ReceiveHalf::offer`](super::receive::ReceiveHalf::offer) | the same |
//! | urgent pointer | SND.UP | there is none |
//! | ECN field of IP | [`Connection::stamp_ecn`] | not agreed on |
//! | timestamps | [`Connection::data_options`] | the same |
//! | SACK blocks | [`Connection::data_options`], [`Connection::ack_options`] | no gap, and no report |
//! | other options | the handshake's, and those of rare segments | given by the flags |
//!
//! With debug assertions, as in all tests, each header is written both ways, and the two are compared byte
//! for byte.

use ackclock_wire::Flags;
use ackclock_wire::template::{HEADER_MAX, Plain, TxChecksum};

use super::Connection;
use super::header::Segment;
use crate::Instant;

impl Connection {
    /// Whether the segment's header is a plain one.
    #[inline]
    pub(super) fn is_plain(&self, segment: &Segment) -> bool {
        segment.flags.contains(Flags::ACK) && !segment.flags.intersects(UNUSUAL) && self.is_unremarkable()
    }

    /// Whether a segment only has its sequence numbers, window and timestamps to say, and is not traced.
    #[inline]
    pub(super) fn is_unremarkable(&self) -> bool {
        self.snd.up.is_none() && self.ecn.is_none() && self.rcv.is_in_order() && !self.trace.is_on()
    }

    /// Writes a plain header. Returns its length.
    #[inline]
    pub(super) fn write_plain(
        &mut self,
        now: Instant,
        header: &mut [u8; HEADER_MAX],
        segment: &Segment,
        checksum: TxChecksum,
    ) -> usize {
        let ack = self.rcv.nxt();
        let plain = Plain {
            seq: segment.start.seq(),
            ack: ack.seq(),
            push: segment.flags.contains(Flags::PSH),
            window: self.rcv.offer(ack),
            timestamps: self.timestamps.as_ref().map(|timestamps| (timestamps.value(now), timestamps.echo())),
        };
        let (start, len) = (segment.start, segment.payload_len);
        let payload = || self.snd.slices(start, len);
        let header_len = self.template.write_plain(header, &plain, len, payload, checksum);
        #[cfg(debug_assertions)]
        self.check_plain(now, segment, checksum, header.get(..header_len));
        // No report waits that it could carry.
        self.ack_was_sent(ack, false);
        header_len
    }

    /// Checks that the slow path writes the same. Offering the same window twice changes nothing.
    #[cfg(debug_assertions)]
    fn check_plain(&mut self, now: Instant, segment: &Segment, checksum: TxChecksum, plain: Option<&[u8]>) {
        let ack = self.rcv.ack_position(true);
        let fields = self.fields(now, segment, ack);
        let payload = self.snd.slices(segment.start, segment.payload_len);
        let mut long = [0; HEADER_MAX];
        let len = self.template.write(&mut long, &fields, payload, checksum);
        assert_eq!(plain, long.get(..len), "a plain header, both ways");
    }
}

/// What a segment may say besides ACK and PSH, before urgent data and ECN are considered. Comparing flags
/// would not work: equality ignores RARE.
const UNUSUAL: Flags = Flags::SYN.union(Flags::FIN).union(Flags::RST).union(Flags::RARE);
