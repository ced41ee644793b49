//! Undo by duplicates that the peer reports: everything that was retransmitted arrived twice.
//!
//! E. Blanton and M. Allman, "Using TCP Duplicate Selective Acknowledgement (DSACKs) and Stream Control
//! Transmission Protocol (SCTP) Duplicate Transmission Sequence Numbers (TSNs) to Detect Spurious
//! Retransmissions", RFC 3708, 2004, §3; the reports are those of RFC 2883.
//!
//! Each byte that an episode retransmitted must be reported, and nothing else. A report of bytes sent once
//! shows that the network duplicates, and bytes sent three times are ambiguous; either ends it for the
//! episode (§3). A tail loss probe is not part of the episode, and reports of it are skipped. Reports come a
//! round trip after the retransmission. They count until the data outstanding at the episode's end has been
//! acknowledged. So this rule restores a window, but stops no retransmission.
//!
//! Deviations: bytes are counted, not segments, and at most [`Reports::RANGES_MAX`] ranges of them; an
//! episode with more keeps its reduction.

use ackclock_control::tally::Tally;

use crate::buffer::RangeSet;
use crate::position::Position;

/// Which of an episode's retransmissions have been reported.
#[derive(Debug, Default)]
pub(super) struct Reports {
    sent_again: RangeSet,
    unreported: RangeSet,
    /// The last tail loss or window probe.
    probe: Option<(Position, Position)>,
    /// The reports no longer prove anything.
    void: bool,
}

impl Reports {
    /// The most ranges that are kept of one episode.
    const RANGES_MAX: usize = 64;

    /// The most bytes that the ranges take.
    pub fn bytes(&self) -> usize {
        RangeSet::bytes_of(self.sent_again.len()).saturating_add(RangeSet::bytes_of(self.unreported.len()))
    }

    pub fn on_retransmitted(&mut self, start: Position, end: Position) {
        let mut fresh = 0_u64;
        self.sent_again.for_each_gap(start, end, |from, until| fresh.grow(until.since(from)));
        let probed = self.probe.is_some_and(|probe| overlap(probe, (start, end)));
        // RFC 3708 §3: retransmitted more than once, a report does not show which copies were unnecessary.
        self.void |= fresh < end.since(start) || probed;
        self.sent_again.insert(start, end);
        self.unreported.insert(start, end);
        self.void |= self.sent_again.len().max(self.unreported.len()) > Self::RANGES_MAX;
        if self.void {
            self.sent_again.clear();
            self.unreported.clear();
        }
    }

    pub fn on_probe(&mut self, start: Position, end: Position) {
        self.void |= self.sent_again.first().is_some_and(|(lowest, _)| end > lowest)
            && self.sent_again.descending().any(|range| overlap(range, (start, end)));
        self.probe = Some((start, end));
    }

    /// The peer reports `start..end` as received twice. Returns whether that completes the proof.
    pub fn on_report(&mut self, start: Position, end: Position) -> bool {
        if self.void || self.probe.is_some_and(|probe| overlap(probe, (start, end))) {
            return false;
        }
        // RFC 3708 §3: the network made a duplicate of data that was not retransmitted.
        self.sent_again.for_each_gap(start, end, |_, _| self.void = true);
        self.unreported.remove(start, end);
        self.unreported.is_empty() && !self.void
    }
}

fn overlap(one: (Position, Position), other: (Position, Position)) -> bool {
    one.0 < other.1 && other.0 < one.1
}

ackclock_form::form! {
    struct Reports { sent_again, unreported, probe, void }
}

#[cfg(test)]
mod tests {
    use ackclock_wire::SeqNum;

    use super::Reports;
    use crate::position::Position;

    fn at(offset: u64) -> Position {
        Position::initial(SeqNum::new(u32::MAX - 50)) + offset
    }

    fn after(retransmitted: &[(u64, u64)]) -> Reports {
        let mut reports = Reports::default();
        retransmitted.iter().for_each(|&(start, end)| reports.on_retransmitted(at(start), at(end)));
        reports
    }

    #[test]
    fn every_retransmitted_byte_must_be_reported() {
        let mut reports = after(&[(0, 200), (500, 600)]);
        assert!(!reports.on_report(at(0), at(100)));
        assert!(!reports.on_report(at(500), at(600)));
        assert!(reports.on_report(at(100), at(200)));
    }

    #[test]
    fn duplicate_of_what_went_out_once_is_the_networks() {
        let mut reports = after(&[(0, 100)]);
        assert!(!reports.on_report(at(300), at(400)));
        assert!(!reports.on_report(at(0), at(100)), "the network duplicates");
    }

    #[test]
    fn byte_sent_three_times_proves_nothing() {
        assert!(!after(&[(0, 100), (50, 100)]).on_report(at(0), at(100)));
    }

    #[test]
    fn report_of_a_probe_is_passed_over() {
        let mut reports = after(&[(0, 100)]);
        reports.on_probe(at(900), at(1000));
        assert!(!reports.on_report(at(900), at(1000)));
        assert!(reports.on_report(at(0), at(100)));
        let mut reports = after(&[(900, 1000)]);
        reports.on_probe(at(900), at(1000));
        assert!(!reports.on_report(at(900), at(1000)), "probe or retransmission");
    }

    #[test]
    fn probe_beside_what_was_retransmitted_does_not_concern_it() {
        for probe in [(0, 100), (200, 300)] {
            let mut reports = after(&[(100, 200)]);
            reports.on_probe(at(probe.0), at(probe.1));
            assert!(reports.on_report(at(100), at(200)), "{probe:?} after it");
            let mut reports = Reports::default();
            reports.on_probe(at(probe.0), at(probe.1));
            reports.on_retransmitted(at(100), at(200));
            assert!(reports.on_report(at(100), at(200)), "{probe:?} before it");
        }
    }

    #[test]
    fn nothing_sent_again_is_no_proof() {
        assert!(!after(&[]).on_report(at(0), at(100)));
    }

    #[test]
    fn ranges_are_bounded() {
        let mut reports = Reports::default();
        for i in 0..10_000 {
            reports.on_retransmitted(at(200 * i), at(200 * i + 100));
            assert!(reports.sent_again.len() <= Reports::RANGES_MAX + 1);
        }
        assert!(!reports.on_report(at(200 * 9_999), at(200 * 9_999 + 100)));
    }
}
