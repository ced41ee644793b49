//! DCTCP: the window shrinks in proportion to the share of marked bytes.
//!
//! S. Bensley, D. Thaler, P. Balasubramanian, L. Eggert and G. Judd, "Data Center TCP (DCTCP)", RFC 8257,
//! 2017, §3.3 and §3.5. The name `prague` selects the sender's part of K. De Schepper, O. Tilmans, B. Briscoe
//! and V. Goel, "Prague Congestion Control" (draft-briscoe-iccrg-prague-congestion-control), as far as a
//! window alone can do it: DCTCP's response, growth that does not favour short round trips, and pacing.
//!
//! Marks arrive in [`Ack::ecn_marked`]. An episode with the cause [`LossCause::EcnEcho`] says when to answer
//! them, once a round trip. With feedback that only reports that a mark arrived (RFC 3168), it is a slower
//! Reno.
//!
//! Deviations: growth counts bytes. Prague's fractional windows below two segments and its fall-back to a
//! classic response at classic bottlenecks are left out. Keep it off paths that it may share with other
//! flows.

use super::pacing::window_rate;
use super::round::Rounds;
use super::window::{SlowStart, Window, window_methods};
use super::{
    About, Ack, Controller, Ect, IdleRestart, LossCause, LossEpisode, Signal, Snapshot, Start, Timeout, Undo,
};
use crate::divide::{at_least_one, times};

/// The controller of RFC 8257.
#[derive(Clone, Debug)]
pub struct Dctcp {
    window: Window,
    kind: Kind,
    rounds: Rounds,
    /// DCTCP.Alpha: the fraction of bytes that are marked, in 2^-20.
    alpha: u64,
    /// Bytes acknowledged and marked in this round trip.
    bytes_acked: u64,
    bytes_marked: u64,
    /// Smoothed round-trip time in nanoseconds.
    srtt: u64,
    /// Bytes that Prague's slower growth has not counted yet, in units of 2^-16.
    uncounted: u64,
    /// Whether the latest episode was the answer to a mark, not to a loss.
    answers_mark: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dctcp,
    Prague,
}

impl Dctcp {
    /// The name in the registry.
    pub const NAME: &'static str = "dctcp";
    /// The name in the registry of the variant for L4S.
    pub const NAME_PRAGUE: &'static str = "prague";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 2017,
        source: "Bensley, Thaler, Balasubramanian, Eggert and Judd, DCTCP, RFC 8257",
        signal: Signal::Marks,
        keeps_in_queue: "about the marking threshold; as Reno without marks",
        deviations: "counts bytes; for networks under one administration",
        exceptions: &[],
    };
    /// The variant for L4S.
    pub const ABOUT_PRAGUE: About = About {
        year: 2021,
        source: "De Schepper, Tilmans, Briscoe and Goel, Prague Congestion Control (draft)",
        signal: Signal::Marks,
        keeps_in_queue: "about the marking threshold; as Reno without marks",
        deviations: "no window below a segment, no fall-back for classic bottlenecks",
        exceptions: &[],
    };

    /// DCTCP for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::of_kind(start, Kind::Dctcp)
    }

    /// The Prague variant for one connection.
    #[must_use]
    pub fn prague(start: &Start) -> Self {
        Self::of_kind(start, Kind::Prague)
    }

    fn of_kind(start: &Start, kind: Kind) -> Self {
        Self {
            window: Window::new(start),
            kind,
            rounds: Rounds::default(),
            // RFC 8257 §4.2: alpha starts at 1, so that the first marks are answered in full.
            alpha: ONE,
            bytes_acked: 0,
            bytes_marked: 0,
            srtt: 0,
            uncounted: 0,
            answers_mark: false,
        }
    }

    /// Ends an observation window, which is a round trip.
    fn update_alpha(&mut self) {
        if self.bytes_acked == 0 {
            return;
        }
        // RFC 8257 §3.3 (6)-(7): M = bytes marked / bytes acknowledged; alpha = alpha * (1 - g) + g * M, g =
        // 1/16.
        let marked = self.bytes_marked.min(self.bytes_acked);
        let fraction = times(ONE, marked, at_least_one(self.bytes_acked)).unwrap_or(ONE);
        let kept = self.alpha.saturating_sub(self.alpha >> GAIN_SHIFT);
        self.alpha = kept.saturating_add(fraction >> GAIN_SHIFT);
        (self.bytes_acked, self.bytes_marked) = (0, 0);
    }

    /// Prague, unlike DCTCP, also grows in the round trip after it has answered a mark: with two marks a
    /// round trip, hardly any time is left between such rounds.
    fn may_grow(&self, ack: &Ack) -> bool {
        let exempt = self.kind == Kind::Prague && self.answers_mark;
        Window::may_grow(&Ack { in_recovery: ack.in_recovery && !exempt, ..*ack })
    }

    /// The bytes that make the window grow in congestion avoidance. For Prague, these are the ones that were
    /// acknowledged without a mark; and on a round trip below 25 ms, the window grows as if it were 25 ms
    /// long ("reduced RTT dependence").
    fn growth_bytes(&mut self, ack: &Ack) -> u64 {
        if self.kind == Kind::Dctcp {
            return ack.bytes_acked;
        }
        let bytes = ack.bytes_acked.saturating_sub(ack.ecn_marked);
        if self.srtt >= VIRTUAL_RTT || self.srtt == 0 {
            return bytes;
        }
        // One segment per (virtual) round trip in rate terms: the time and the window are both smaller by the
        // ratio.
        let ratio = (self.srtt << 16) / VIRTUAL_RTT;
        let scaled = bytes
            .min(1 << 32)
            .saturating_mul(ratio.saturating_mul(ratio) >> 16)
            .saturating_add(self.uncounted);
        self.uncounted = scaled & 0xffff;
        scaled >> 16
    }
}

impl Controller for Dctcp {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Dctcp => Self::NAME,
            Kind::Prague => Self::NAME_PRAGUE,
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.srtt = ack.srtt_ns;
        self.bytes_acked = self.bytes_acked.saturating_add(ack.bytes_acked);
        self.bytes_marked = self.bytes_marked.saturating_add(ack.ecn_marked);
        if self.rounds.on_ack(ack) {
            self.update_alpha();
        }
        if !self.may_grow(ack) {
            return;
        }
        if self.window.in_slow_start() {
            self.window.slow_start(ack.bytes_acked, SlowStart::Counted);
        } else {
            let bytes = self.growth_bytes(ack);
            self.window.reno_step(bytes);
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.answers_mark = loss.cause == LossCause::EcnEcho;
        let ssthresh = if self.answers_mark {
            // RFC 8257 §3.3 (9): cwnd = cwnd * (1 - alpha / 2).
            let cwnd = self.window.cwnd();
            let cut = times(cwnd, self.alpha, at_least_one(2 * ONE)).unwrap_or(cwnd);
            cwnd.saturating_sub(cut).max(self.window.segments(2))
        } else {
            // RFC 8257 §3.5: on packet loss it MUST react as a conventional TCP does.
            self.window.half_of(loss.flight_size)
        };
        self.window.reduce(ssthresh);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.window.collapse(timeout, self.window.half_of(timeout.flight_size));
    }

    fn on_undo(&mut self, _: &Undo) {
        self.window.undo();
    }

    fn pacing_rate(&self) -> Option<u64> {
        let paced = self.kind == Kind::Prague;
        paced.then(|| window_rate(self.cwnd(), self.srtt, self.window.in_slow_start())).flatten()
    }

    fn ect(&self) -> Ect {
        // RFC 9331 §4.1: ECT(1) identifies L4S traffic.
        if self.kind == Kind::Prague { Ect::Ect1 } else { Ect::Ect0 }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::default()
            .with("alpha_ppm", i64::try_from(self.alpha.saturating_mul(1_000_000) >> 20).unwrap_or(0))
    }

    window_methods!();
}

/// Alpha of 1.
const ONE: u64 = 1 << 20;
/// RFC 8257 §4.2: g = 1/16.
const GAIN_SHIFT: u32 = 4;
/// Prague's virtual round trip, in nanoseconds.
const VIRTUAL_RTT: u64 = 25_000_000;

ackclock_form::form! {
    struct Dctcp { window, kind, rounds, alpha, bytes_acked, bytes_marked, srtt, uncounted, answers_mark }
    enum Kind { 0 Dctcp, 1 Prague }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Dctcp, ONE};
    use crate::congestion::testing::{SMSS, START, ack, loss};
    use crate::congestion::{Ack, Controller, Ect, LossCause, LossEpisode, Registry};
    use crate::kit::{Flow, Path};

    /// Runs rounds of ten segments, `marked` of them marked.
    fn rounds(dctcp: &mut Dctcp, rounds: u64, marked: u64) {
        for round in 0..rounds {
            for segment in 0..10 {
                let delivered = dctcp_delivered(round, segment);
                let ecn_marked = if segment < marked { SMSS } else { 0 };
                let prior_delivered = dctcp_delivered(round, 0) - SMSS;
                let cwnd_limited = false;
                dctcp.on_ack(&Ack { delivered, prior_delivered, ecn_marked, cwnd_limited, ..ack(0, SMSS) });
            }
        }
    }

    fn dctcp_delivered(round: u64, segment: u64) -> u64 {
        (round * 10 + segment + 1) * SMSS
    }

    fn mark(cwnd: u64) -> LossEpisode {
        LossEpisode { cause: LossCause::EcnEcho, bytes_lost: 0, ..loss(0, cwnd) }
    }

    #[test]
    fn first_marks_halve_the_window() {
        let mut dctcp = Dctcp::new(&START);
        dctcp.on_loss_episode(&mark(10 * SMSS));
        assert_eq!(dctcp.cwnd(), 5 * SMSS);
    }

    #[test]
    fn alpha_is_the_average_fraction_of_marked_bytes() {
        let mut dctcp = Dctcp::new(&START);
        rounds(&mut dctcp, 200, 2);
        let alpha = dctcp.alpha as f64 / ONE as f64;
        assert!((alpha - 0.2).abs() < 0.001, "{alpha}");
        dctcp.on_loss_episode(&mark(10 * SMSS));
        assert_eq!(dctcp.cwnd() / 100, 90, "a tenth less");
    }

    #[test]
    fn alpha_falls_to_nothing_without_marks() {
        let mut dctcp = Dctcp::new(&START);
        rounds(&mut dctcp, 300, 0);
        assert!(dctcp.alpha < ONE / 10_000);
    }

    #[test]
    fn loss_halves_whatever_alpha_is() {
        let mut dctcp = Dctcp::new(&START);
        rounds(&mut dctcp, 300, 0);
        dctcp.on_loss_episode(&loss(0, 10 * SMSS));
        assert_eq!(dctcp.cwnd(), 5 * SMSS);
    }

    #[test]
    fn short_round_trips_do_not_favour_prague() {
        let grown = |mut dctcp: Dctcp, rtt_ms: u64| {
            dctcp.window.set_ssthresh(0);
            for _ in 0..10_000 {
                dctcp.on_ack(&Ack { srtt_ns: rtt_ms * 1_000_000, ..ack(0, SMSS) });
            }
            dctcp.cwnd() / SMSS
        };
        assert_eq!(grown(Dctcp::prague(&START), 25), grown(Dctcp::new(&START), 25));
        assert!(grown(Dctcp::prague(&START), 5) < grown(Dctcp::new(&START), 5) / 3);
    }

    /// The draft on additive increase: irrespective of CWR, "but only for bytes that have been ACK'd without
    /// ECN feedback".
    #[test]
    fn prague_grows_while_it_answers_a_mark_and_dctcp_does_not() {
        let grown = |mut dctcp: Dctcp, episode: LossEpisode, ecn_marked: u64| {
            dctcp.on_loss_episode(&episode);
            let before = dctcp.cwnd();
            for _ in 0..10 {
                dctcp.on_ack(&Ack { in_recovery: true, ecn_marked, ..ack(0, before / 10) });
            }
            dctcp.cwnd() - before
        };
        let answered = mark(10 * SMSS);
        assert_eq!(grown(Dctcp::prague(&START), answered, 0), SMSS, "a segment a round trip");
        assert_eq!(grown(Dctcp::prague(&START), answered, SMSS), 0, "everything is marked");
        assert_eq!(grown(Dctcp::prague(&START), loss(0, 10 * SMSS), 0), 0, "after a loss");
        assert_eq!(grown(Dctcp::new(&START), answered, 0), 0);
    }

    #[test]
    fn only_prague_asks_for_the_codepoint_of_l4s() {
        assert_eq!(Dctcp::new(&START).ect(), Ect::Ect0);
        let prague = Registry::builtin().find(Dctcp::NAME_PRAGUE).unwrap();
        assert_eq!(prague.create(&START).ect(), Ect::Ect1);
    }

    #[test]
    fn queue_stays_near_the_marking_threshold() {
        let path = Path {
            rate: 12_500_000,
            base_rtt: Duration::from_millis(10),
            buffer: 500_000,
            mark_above: Some(30_000),
            ..Path::TYPICAL
        };
        for name in [Dctcp::NAME, Dctcp::NAME_PRAGUE] {
            let mut flow = Flow::new(Registry::builtin().find(name).unwrap().as_ref(), path);
            flow.run(Duration::from_secs(5));
            assert_eq!(flow.totals().dropped, 0, "{name}");
            let before = flow.totals().delivered;
            flow.run(Duration::from_secs(5));
            assert!(flow.totals().delivered - before > 5 * path.rate * 95 / 100, "{name}");
            assert!(flow.controller().cwnd() < path.bandwidth_delay_product() + 60_000, "{name}");
        }
    }
}
