//! The shortest sequence that still differs.

use super::sequence::{Damage, Extra, Offer, RemoteSegment, Sequence, Stamp, Step};

/// Removes steps and special properties of segments as long as `differs` holds.
pub fn shrink(mut sequence: Sequence, mut differs: impl FnMut(&Sequence) -> bool) -> Sequence {
    let mut smaller = true;
    while smaller {
        smaller = false;
        for at in (0..sequence.steps.len()).rev() {
            let mut candidate = sequence.clone();
            candidate.steps.remove(at);
            if differs(&candidate) {
                (sequence, smaller) = (candidate, true);
            }
        }
    }
    for at in 0..sequence.steps.len() {
        for plainer in PLAINER {
            let mut candidate = sequence.clone();
            let Step::Segment(sent) = &mut candidate.steps[at] else { break };
            plainer(sent);
            if candidate.steps[at] != sequence.steps[at] && differs(&candidate) {
                sequence = candidate;
            }
        }
    }
    let plain = Offer { mss: Some(1460), scale: None, sack: false, timestamps: false };
    for candidate in [
        Sequence { v6: false, ..sequence.clone() },
        Sequence { v6: false, irs: 1_000, ..sequence.clone() },
        Sequence { v6: false, irs: 1_000, offer: plain, ..sequence.clone() },
    ] {
        if differs(&candidate) {
            sequence = candidate;
        }
    }
    sequence
}

/// Simplifications of a segment.
const PLAINER: [fn(&mut RemoteSegment); 8] = [
    |sent| sent.window = u16::MAX,
    |sent| sent.len = 0,
    |sent| sent.sack = None,
    |sent| sent.extra = Extra::None,
    |sent| sent.damage = Damage::None,
    |sent| sent.timestamps = Stamp::Agreed,
    |sent| sent.seq = RemoteSegment::plain(0).seq,
    |sent| sent.ack = RemoteSegment::plain(0).ack,
];
