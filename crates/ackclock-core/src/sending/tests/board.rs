//! A naive model of a flight: what became of every byte.

use super::super::policy::Policy;
use super::super::scoreboard::Condition;
use super::*;
use crate::profile::Recovery;
use crate::trace::{LossCounts, LossRule};

/// A byte that was sent and not acknowledged.
#[derive(Clone, Copy)]
struct Byte {
    /// When it left last, probes of a closed window aside.
    sent: Instant,
    /// It left more than once.
    again: bool,
    /// The peer reported that it has it.
    held: bool,
    lost: bool,
}

/// All bytes from SND.UNA to SND.NXT, and what of the past decides what may follow.
pub(super) struct Board {
    una: Position,
    bytes: Vec<Byte>,
    heeds_sack: bool,
    /// When that left last which was delivered and had left last.
    newest: Instant,
    losses: LossCounts,
    timeouts: u64,
    undone: u32,
}

impl Board {
    /// The largest flight that is worth its time.
    pub const BYTES_MAX: u64 = 150_000;

    pub fn new(flight: &Flight) -> Self {
        Self {
            una: flight.una(),
            bytes: Vec::new(),
            heeds_sack: flight.policy.heeds_sack(),
            newest: Instant::ZERO,
            losses: LossCounts::default(),
            timeouts: 0,
            undone: 0,
        }
    }

    fn nxt(&self) -> Position {
        self.una + self.bytes.len() as u64
    }

    fn index(&self, place: Position) -> usize {
        place.since(self.una) as usize
    }

    pub fn depart(&mut self, now: Instant, departure: &Departure) {
        let (start, end) = (departure.start, departure.end);
        if start >= self.nxt() {
            return;
        }
        let range = self.index(start)..self.index(end);
        let is_window_probe = departure.reason == SendReason::WindowProbe;
        for byte in &mut self.bytes[range] {
            byte.again = true;
            if !is_window_probe {
                (byte.sent, byte.lost) = (now, false);
            }
        }
    }

    /// How many bytes this acknowledgement delivers for the first time.
    pub fn hear(&mut self, flight: &Flight, seen: &Acknowledgement<'_>) -> u64 {
        if seen.ack == self.una && self.bytes.is_empty() {
            return 0;
        }
        let advanced = self.index(seen.ack.max(self.una));
        let mut fresh = 0;
        let mut deliver = |byte: &mut Byte, newest: &mut Instant| {
            fresh += u64::from(!byte.held);
            if !byte.held {
                *newest = byte.sent.max(*newest);
            }
            (byte.held, byte.lost) = (true, false);
        };
        for byte in &mut self.bytes[..advanced] {
            deliver(byte, &mut self.newest);
        }
        let (una, nxt) = (seen.ack.max(self.una), self.nxt());
        for &(left, right) in seen.sack.iter().filter(|_| flight.policy.heeds_sack()) {
            // As the numbers on the wire are read: near SND.UNA.
            let (left, right) = (una.near(left), una.near(right));
            if una < left && left < right && right <= nxt {
                // One block closes at most eight gaps.
                let mut gaps = 0;
                let mut in_gap = false;
                for place in self.index(left)..self.index(right) {
                    gaps += usize::from(!self.bytes[place].held && !in_gap);
                    in_gap = !self.bytes[place].held;
                    if in_gap && gaps <= 8 {
                        deliver(&mut self.bytes[place], &mut self.newest);
                    }
                }
            }
        }
        fresh
    }

    /// The flight was called: it agrees, byte by byte, and what it holds to be lost may be held to be so.
    pub fn follow(&mut self, flight: &Flight, tcp: &TcpConfig, now: Instant) {
        let info = flight.info(tcp);
        let nxt = self.nxt();
        if flight.nxt() > nxt {
            let new = Byte { sent: now, again: false, held: false, lost: false };
            self.bytes.resize(flight.nxt().since(self.una) as usize, new);
        }
        let timed_out = info.timeouts > self.timeouts;
        let reneged = timed_out && self.bytes.first().is_some_and(|byte| byte.held);
        if reneged || self.heeds_sack && !flight.policy.heeds_sack() {
            // RFC 2018 §8: a peer that held the first byte would have acknowledged it.
            self.bytes.iter_mut().for_each(|byte| byte.held = false);
        }
        let advanced = self.index(flight.una());
        for byte in self.bytes.drain(..advanced).filter(|byte| !byte.held) {
            self.newest = byte.sent.max(self.newest);
        }
        self.una = flight.una();
        assert_eq!(self.nxt(), flight.nxt());

        let rules: Vec<_> =
            LossRule::ALL.iter().filter(|rule| info.losses.of(**rule) > self.losses.of(**rule)).collect();
        let undone = info.undone.total() != self.undone;
        let mut newly_lost = Vec::new();
        let (mut at, mut lost, mut held) = (0, 0, 0);
        for record in flight.scoreboard.records() {
            assert_eq!(record.start, self.una + at as u64, "records lie side by side");
            let until = self.index(record.end);
            let is_held = record.condition == Condition::Sacked;
            let is_lost = record.condition == Condition::Lost;
            for (place, byte) in (at..until).zip(&mut self.bytes[at..until]) {
                assert!(byte.held == is_held, "held: {place}");
                assert!(undone || is_lost || !byte.lost, "lost until it leaves again: {place}");
                if is_lost && !byte.lost {
                    newly_lost.push(place);
                }
                byte.lost = is_lost;
                // Karn's rule knows of each byte that left twice, and may know of its neighbours.
                assert!(record.retransmitted || !byte.again, "it left twice: {place}");
                assert!(record.moment.at == byte.sent, "when it left last: {place}");
            }
            held += if is_held { record.end.since(record.start) } else { 0 };
            lost += if is_lost { record.end.since(record.start) } else { 0 };
            at = until;
        }
        assert_eq!(at, self.bytes.len());
        self.check_losses(flight, &rules, &newly_lost, now);
        assert_eq!((info.lost, info.sacked), (lost, held));
        let pipe = at as u64 - lost - held;
        assert!(info.in_flight <= pipe && (info.in_flight == pipe || !flight.policy.heeds_sack()));
        assert_eq!(flight.has_data(), !self.bytes.is_empty());
        check_deadlines(flight);
        (self.losses, self.timeouts, self.undone) = (info.losses, info.timeouts, info.undone.total());
        self.heeds_sack = flight.policy.heeds_sack();
    }

    /// Checks the demands of each rule on a byte that it holds to be lost.
    fn check_losses(&self, flight: &Flight, rules: &[&LossRule], newly_lost: &[usize], now: Instant) {
        assert!(newly_lost.is_empty() || !rules.is_empty(), "each loss has a rule");
        let [rule] = rules else { return };
        match rule {
            LossRule::LaterDelivered => {
                // RFC 8985 §6.2: something that left later was delivered, and a round trip has passed.
                for place in newly_lost {
                    let sent = self.bytes[*place].sent;
                    assert!(sent <= self.newest && sent + flight.rtt().rtt_min() <= now);
                }
            }
            LossRule::SackEvidence if flight.recovery() == Recovery::Sack => {
                // RFC 6675 §4, IsLost: three stretches above, or more than two segments.
                let smss = flight.smss() as usize;
                for place in newly_lost {
                    let above = &self.bytes[*place..];
                    let held = above.iter().filter(|byte| byte.held).count();
                    let stretches = above.windows(2).filter(|two| !two[0].held && two[1].held).count();
                    assert!(stretches >= 3 || held > 2 * smss, "{stretches} stretches, {held} bytes");
                }
            }
            LossRule::Timeout if flight.recovery() != Recovery::RackTlp => {
                assert!(self.bytes.iter().all(|byte| byte.held || byte.lost), "all is lost");
            }
            LossRule::Timeout | LossRule::PartialAck | LossRule::WindowReopened => {
                // At least, or at most, what lies at SND.UNA.
                assert!(newly_lost.is_empty() || self.bytes[0].lost);
            }
            LossRule::TooBig => assert!(self.bytes.iter().all(|byte| byte.held || byte.lost)),
            _ => {}
        }
    }

    /// RFC 6298 §5.2 and §5.3: an acknowledgement of new data starts the timer again, or stops it.
    pub fn check_restart(&self, flight: &Flight, seen: &Acknowledgement<'_>, advanced: u64, now: Instant) {
        if advanced > 0 {
            let due = flight.expiries().retransmission;
            let runs = flight.is_outstanding() && seen.window > 0;
            assert_eq!(due < Instant::FAR_FUTURE, runs);
            assert!(!runs || due > now);
        }
    }
}

/// The deadlines of a flight, one by one.
fn check_deadlines(flight: &Flight) {
    let due = flight.expiries();
    let all = [due.retransmission, due.reordering, due.tail_probe, due.pacing];
    assert_eq!(flight.next_timeout(), all.into_iter().min().unwrap());
    assert_eq!(flight.is_timed(), due.retransmission < Instant::FAR_FUTURE);
    assert!(!flight.is_timed() || flight.is_outstanding(), "nothing waits");
    assert!(due.tail_probe == Instant::FAR_FUTURE || due.tail_probe <= due.retransmission);
}
