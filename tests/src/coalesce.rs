//! Receive offload, as a device does it: consecutive packets of one flow become one of up to 64 KB.
//!
//! The rules are those of GRO: a packet is merged only if the segment can be cut out of the whole again
//! unchanged. Like the rest of the tests' own wire format, it uses only etherparse.

use std::num::NonZeroU16;

use ackclock_wire::{ChecksumState, RxMeta};

use crate::segment::{FIN, Frame, PSH, RST, SYN, URG};

/// Packets in order of arrival, merged where they may be, each with the device's metadata.
#[must_use]
pub fn coalesce(packets: Vec<Vec<u8>>) -> Vec<(Vec<u8>, RxMeta)> {
    let mut out = Vec::new();
    let mut train: Option<Train> = None;
    for packet in packets {
        // A damaged packet, and one that is not TCP, is passed on for the stack to judge.
        let Ok(frame) = Frame::parse(&packet) else {
            out.extend(train.take().map(Train::finish));
            out.push((packet, RxMeta { checksum: ChecksumState::Complete, segment_size: None }));
            continue;
        };
        match &mut train {
            Some(train) if train.takes(&frame) => train.push(&frame),
            train => out.extend(train.replace(Train::new(frame)).map(Train::finish)),
        }
    }
    out.extend(train.map(Train::finish));
    out
}

/// Packets that are being merged.
#[derive(Debug)]
struct Train {
    frame: Frame,
    /// Payload bytes of each segment but the last, which may have fewer.
    segment_size: usize,
    segments: usize,
    /// A shorter segment, or one with PSH or FIN, was the last.
    ended: bool,
}

impl Train {
    fn new(frame: Frame) -> Self {
        let segment_size = frame.seg.payload.len();
        let ended = segment_size == 0 || frame.seg.flags & ENDING != 0;
        Self { frame, segment_size, segments: 1, ended }
    }

    fn takes(&self, next: &Frame) -> bool {
        let (first, seg) = (&self.frame.seg, &next.seg);
        let same_header = (next.src, next.dst, next.ttl, next.traffic_class, next.flow_label)
            == (
                self.frame.src,
                self.frame.dst,
                self.frame.ttl,
                self.frame.traffic_class,
                self.frame.flow_label,
            );
        !self.ended
            && same_header
            && (seg.flags & !(PSH | FIN), seg.ae) == (first.flags, first.ae)
            && seg.seq == first.end()
            && (seg.ack, seg.window, &seg.options) == (first.ack, first.window, &first.options)
            && (1..=self.segment_size).contains(&seg.payload.len())
            && first.payload.len() + seg.payload.len() <= PAYLOAD_MAX
    }

    fn push(&mut self, next: &Frame) {
        self.segments += 1;
        self.ended = next.seg.flags & ENDING != 0 || next.seg.payload.len() < self.segment_size;
        self.frame.seg.flags |= next.seg.flags;
        self.frame.seg.payload.extend_from_slice(&next.seg.payload);
    }

    fn finish(self) -> (Vec<u8>, RxMeta) {
        let size = u16::try_from(self.segment_size).ok().and_then(NonZeroU16::new);
        let segment_size = size.filter(|_| self.segments > 1);
        (self.frame.to_bytes(), RxMeta { checksum: ChecksumState::Verified, segment_size })
    }
}

/// Nothing is merged behind a segment with one of these. The ECN flags only have to be equal.
const ENDING: u8 = FIN | SYN | RST | PSH | URG;
/// So that a packet's length, with the longest headers, fits into 16 bits.
const PAYLOAD_MAX: usize = 65_535 - 120;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{ACK, Seg, seg};

    fn packets(segments: &[Seg]) -> Vec<Vec<u8>> {
        let (src, dst) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        segments.iter().map(|segment| Frame::new(src, dst, segment.clone()).to_bytes()).collect()
    }

    fn lengths(segments: &[Seg]) -> Vec<(usize, Option<u16>)> {
        let merged = coalesce(packets(segments));
        let length = |packet: &[u8]| Frame::parse(packet).unwrap().seg.payload.len();
        merged.iter().map(|(packet, meta)| (length(packet), meta.segment_size.map(NonZeroU16::get))).collect()
    }

    fn data(seq: u32, len: usize) -> Seg {
        seg(ACK).seq(seq).ack(1).data(&vec![7; len])
    }

    #[test]
    fn segments_in_a_row_become_one_up_to_the_short_one() {
        assert_eq!(
            lengths(&[data(1, 100), data(101, 100), data(201, 40), data(241, 100)]),
            [(240, Some(100)), (100, None)]
        );
    }

    #[test]
    fn what_could_not_be_cut_out_again_stays_apart() {
        let apart = |second: Seg| lengths(&[data(1, 100), second]).len() == 2;
        assert!(apart(data(102, 100)), "a gap");
        assert!(apart(data(101, 101)), "a longer one");
        assert!(apart(data(101, 0)), "no data");
        assert!(apart(data(101, 100).ack(2)), "another acknowledgement");
        assert!(apart(data(101, 100).window(1)), "another window");
        assert!(apart(Seg { flags: ACK | SYN, ..data(101, 100) }), "a SYN");
        assert!(!apart(Seg { flags: ACK | PSH, ..data(101, 100) }));
        let pushed = Seg { flags: ACK | PSH, ..data(1, 100) };
        assert_eq!(lengths(&[pushed, data(101, 100)]).len(), 2);
    }

    #[test]
    fn a_merged_packet_fits_its_length_field() {
        let long: Vec<Seg> = (0..100).map(|i| data(1 + 1_460 * i, 1_460)).collect();
        let merged = coalesce(packets(&long));
        assert!(merged.len() == 3 && merged.iter().all(|(packet, _)| packet.len() <= 65_535));
    }
}
