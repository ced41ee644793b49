//! One sender on one bottleneck, segment by segment, in virtual time. It drives the controllers of the
//! conformance kit and of the tables of windows by round.
//!
//! It models a path, not TCP: a segment is lost once three sent after it are acknowledged, lost bytes are
//! sent again as new ones, and every acknowledgement arrives. `ackclock-sim` runs experiments with real
//! connections.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Instant;
use crate::congestion::{
    Ack, Controller, ControllerFactory, LossCause, LossEpisode, Lost, RecoveryEnd, Sent, Start, Timeout,
};
use crate::divide::{SECOND, at_least_one, times};
use crate::rtt::{RtoConfig, RttEstimator};
use crate::tally::Tally;
use crate::time::nanos;

/// A bottleneck. Everything arrives in order, after the queue and the propagation delay.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Rate of the bottleneck in bytes a second.
    pub rate: u64,
    /// Round-trip time without a queue.
    pub base_rtt: Duration,
    /// Bytes that the queue holds; a segment that does not fit is dropped.
    pub buffer: u64,
    /// Queue above which a segment is marked; `None` means never.
    pub mark_above: Option<u64>,
    /// The number of segments that the receiver acknowledges at once.
    pub segments_per_ack: u32,
    /// The segment size in bytes.
    pub smss: u32,
}

impl Path {
    /// 10 Mbit/s, 100 ms, a queue of one bandwidth-delay product, segments of 1000 bytes.
    pub const TYPICAL: Self = Self {
        rate: 1_250_000,
        base_rtt: Duration::from_millis(100),
        buffer: 125_000,
        mark_above: None,
        segments_per_ack: 1,
        smss: 1000,
    };

    /// Bytes in flight that fill the path without a queue.
    #[must_use]
    pub fn bandwidth_delay_product(&self) -> u64 {
        times(self.rate, nanos(self.base_rtt), SECOND).unwrap_or(u64::MAX)
    }

    /// The receiver's window: large enough not to limit a controller that answers losses.
    fn receive_window(&self) -> u64 {
        self.bandwidth_delay_product().saturating_add(self.buffer).saturating_mul(4)
    }

    fn transmission(&self, bytes: u64) -> Duration {
        time_at(self.rate, bytes)
    }
}

/// The time in which `bytes` leave at `rate` bytes a second.
fn time_at(rate: u64, bytes: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(SECOND.get()) / at_least_one(rate))
}

/// A sender with a controller on a [`Path`]. It always has data to send, unless its application is limited.
#[derive(Debug)]
pub struct Flow {
    path: Path,
    controller: Box<dyn Controller>,
    now: Instant,
    rtt: RttEstimator,
    in_flight: VecDeque<Segment>,
    bytes_in_flight: u64,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Bytes found to be lost.
    lost: u64,
    /// When the bottleneck will have sent all that it holds.
    bottleneck_free_at: Instant,
    /// When pacing releases the next segment.
    paced_until: Instant,
    next_number: u64,
    /// The segment whose acknowledgement ends the episode.
    recover: Option<u64>,
    /// Only the loss of this segment or a later one begins an episode. Earlier segments were sent before the
    /// last episode.
    episode_from: u64,
    /// Whether the window, and not the application, limited sending.
    cwnd_limited: bool,
    /// Bytes in flight beyond which the application has nothing to send.
    application_limit: u64,
    expiries: u32,
    totals: Totals,
}

/// The events of a [`Flow`], added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes delivered.
    pub delivered: u64,
    /// Bytes dropped.
    pub dropped: u64,
    /// Loss episodes.
    pub episodes: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// The largest queue in bytes.
    pub queue_max: u64,
    /// The largest `cwnd` in bytes.
    pub cwnd_max: u64,
}

impl Flow {
    /// A connection with an initial window of ten segments.
    #[must_use]
    pub fn new(factory: &dyn ControllerFactory, path: Path) -> Self {
        Self::with_initial_window(factory, path, 10)
    }

    /// A connection with an initial window of `segments`.
    #[must_use]
    pub fn with_initial_window(factory: &dyn ControllerFactory, path: Path, segments: u32) -> Self {
        let now = Instant::from_millis(1);
        let initial_window = u64::from(segments).saturating_mul(path.smss.into());
        Self {
            path,
            controller: factory.create(&Start { smss: path.smss, initial_window, now }),
            now,
            rtt: RttEstimator::new(&RtoConfig::default()),
            in_flight: VecDeque::new(),
            bytes_in_flight: 0,
            delivered: 0,
            delivered_at: now,
            first_sent_at: now,
            lost: 0,
            bottleneck_free_at: now,
            paced_until: now,
            next_number: 0,
            recover: None,
            episode_from: 0,
            cwnd_limited: false,
            application_limit: path.receive_window(),
            expiries: 0,
            totals: Totals::default(),
        }
    }

    /// Runs for a round trip: until the segments now in flight, or the first to come, are acknowledged.
    pub fn round(&mut self) {
        self.send();
        let last = self.next_number;
        while self.in_flight.front().is_some_and(|segment| segment.number < last) {
            self.step();
        }
    }

    /// Runs for `rounds` round trips. Returns the window after each, in whole segments.
    pub fn rounds(&mut self, rounds: usize) -> Vec<u64> {
        (0..rounds)
            .map(|_| {
                self.round();
                self.segments()
            })
            .collect()
    }

    /// Runs for this long.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.step();
        }
    }

    /// Limits the application to this many bytes in flight. The initial limit is four times what the path
    /// holds.
    pub fn limit_application(&mut self, bytes: u64) {
        self.application_limit = bytes;
    }

    /// Changes the path for segments sent from now on.
    pub fn set_path(&mut self, path: Path) {
        self.path = path;
    }

    /// The controller.
    #[must_use]
    pub fn controller(&self) -> &dyn Controller {
        self.controller.as_ref()
    }

    /// The window in whole segments.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.controller.cwnd() / at_least_one(self.path.smss.into())
    }

    /// Bytes queued at the bottleneck.
    #[must_use]
    pub fn queue(&self) -> u64 {
        let waiting = nanos(self.bottleneck_free_at.saturating_since(self.now));
        times(waiting, self.path.rate, SECOND).unwrap_or(u64::MAX)
    }

    /// The totals so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Tells the controller of something that the path did not do: now, with these bytes in flight, and
    /// delivered.
    #[cfg(test)]
    pub(crate) fn tell(&mut self, tell: impl FnOnce(&mut dyn Controller, Instant, u64, u64)) {
        tell(self.controller.as_mut(), self.now, self.bytes_in_flight, self.delivered);
    }

    /// One event: a paced segment, an acknowledgement, or a timeout.
    fn step(&mut self) {
        self.send();
        let arrival = self.in_flight.iter().find(|segment| !segment.dropped).map(|segment| segment.acked_at);
        let paced = self.may_send().then_some(self.paced_until);
        match (arrival, paced) {
            (Some(at), None) => self.acknowledge(at),
            (Some(at), Some(paced)) if at <= paced => self.acknowledge(at),
            (_, Some(paced)) => self.now = self.now.max(paced),
            (None, None) => self.time_out(),
        }
        self.totals.cwnd_max = self.totals.cwnd_max.max(self.controller.cwnd());
    }

    fn may_send(&self) -> bool {
        let after = self.bytes_in_flight.saturating_add(self.path.smss.into());
        after <= self.application_limit && (after <= self.controller.cwnd() || self.bytes_in_flight == 0)
    }

    fn send(&mut self) {
        while self.may_send() && self.now >= self.paced_until {
            self.transmit();
        }
        if self.may_send() {
            return;
        }
        let smss = u64::from(self.path.smss);
        self.cwnd_limited = self.bytes_in_flight.saturating_add(smss) <= self.application_limit;
    }

    fn transmit(&mut self) {
        let bytes = u64::from(self.path.smss);
        if self.bytes_in_flight == 0 {
            (self.first_sent_at, self.delivered_at) = (self.now, self.now);
        }
        let queue = self.queue();
        let dropped = queue > 0 && queue.saturating_add(bytes) > self.path.buffer;
        if !dropped {
            let starts = self.bottleneck_free_at.max(self.now);
            self.bottleneck_free_at = starts + self.path.transmission(bytes);
            self.totals.queue_max = self.totals.queue_max.max(queue);
        }
        self.bytes_in_flight.grow(bytes);
        self.in_flight.push_back(Segment {
            number: self.next_number,
            bytes,
            sent_at: self.now,
            acked_at: self.bottleneck_free_at + self.path.base_rtt,
            dropped,
            marked: self.path.mark_above.is_some_and(|above| queue > above),
            prior_delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.application_limit < self.controller.cwnd(),
            in_flight: self.bytes_in_flight,
            lost: self.lost,
        });
        self.next_number.count();
        self.totals.sent.grow(bytes);
        self.totals.dropped.grow(if dropped { bytes } else { 0 });
        self.controller.on_sent(&Sent {
            now: self.now,
            bytes,
            in_flight: self.bytes_in_flight,
            retransmission: false,
        });
        if let Some(rate) = self.controller.pacing_rate() {
            self.paced_until = self.now.max(self.paced_until) + time_at(rate, bytes);
        }
    }

    /// An acknowledgement arrives, for as many segments as the receiver acknowledges at once.
    fn acknowledge(&mut self, at: Instant) {
        self.now = self.now.max(at);
        let prior_in_flight = self.bytes_in_flight;
        let mut newest: Option<Segment> = None;
        let (mut bytes, mut marked) = (0_u64, 0_u64);
        for _ in 0..self.path.segments_per_ack.max(1) {
            let Some(segment) = self.take_next_arrival() else { break };
            self.now = self.now.max(segment.acked_at);
            bytes.grow(segment.bytes);
            marked.grow(if segment.marked { segment.bytes } else { 0 });
            newest = Some(segment);
        }
        let Some(newest) = newest else { return };
        self.delivered.grow(bytes);
        self.totals.delivered.grow(bytes);
        let interval = self.delivery_interval(&newest);
        (self.delivered_at, self.first_sent_at) = (self.now, newest.sent_at);
        let rtt = self.now.saturating_since(newest.sent_at);
        self.rtt.on_sample(rtt);
        self.expiries = 0;
        let lost = self.declare_lost(newest.number);
        self.end_episode(newest.number);
        if let Some(newest_lost) = &lost.newest {
            self.controller.on_lost(&Lost {
                now: self.now,
                bytes: lost.bytes,
                delivered: self.delivered,
                prior_delivered: newest_lost.prior_delivered,
                app_limited: newest_lost.app_limited,
                tx_in_flight: newest_lost.in_flight,
                lost: self.lost.saturating_sub(newest_lost.lost),
            });
        }
        if lost.newest.is_some_and(|newest_lost| newest_lost.number >= self.episode_from) {
            self.begin_episode(LossCause::DuplicateAcks, prior_in_flight, lost.bytes);
        } else if marked > 0 && newest.number >= self.episode_from {
            self.begin_episode(LossCause::EcnEcho, prior_in_flight, 0);
        }
        self.controller.on_ack(&Ack {
            now: self.now,
            bytes_acked: bytes,
            bytes_cumulative: bytes,
            rtt_ns: Some(nanos(rtt)),
            srtt_ns: self.rtt.srtt_nanos(),
            rtt_min_ns: self.rtt.rtt_min_nanos(),
            delivered: self.delivered,
            prior_delivered: newest.prior_delivered,
            sent_at: newest.sent_at,
            delivery_interval_ns: nanos(interval),
            app_limited: newest.app_limited,
            tx_in_flight: newest.in_flight,
            lost: self.lost.saturating_sub(newest.lost),
            prior_in_flight,
            in_flight: self.bytes_in_flight,
            cwnd_limited: self.cwnd_limited,
            in_recovery: self.recover.is_some(),
            ecn_marked: marked,
        });
    }

    fn take_next_arrival(&mut self) -> Option<Segment> {
        let position = self.in_flight.iter().position(|segment| !segment.dropped)?;
        let segment = self.in_flight.remove(position)?;
        self.bytes_in_flight.shrink(segment.bytes);
        Some(segment)
    }

    /// The longer of the times over which the segments were sent and delivered.
    fn delivery_interval(&self, newest: &Segment) -> Duration {
        let sending = newest.sent_at.saturating_since(newest.first_sent_at);
        sending.max(self.now.saturating_since(newest.delivered_at))
    }

    /// Returns the dropped segments that have three later ones delivered.
    fn declare_lost(&mut self, newest: u64) -> DeclaredLost {
        let mut lost = DeclaredLost::default();
        while let Some(front) = self.in_flight.front() {
            if !front.dropped || front.number.saturating_add(3) > newest {
                break;
            }
            lost.bytes.grow(front.bytes);
            lost.newest = self.in_flight.pop_front();
        }
        self.bytes_in_flight.shrink(lost.bytes);
        self.lost.grow(lost.bytes);
        lost
    }

    /// The episode is over when a segment sent after it began has been acknowledged.
    fn end_episode(&mut self, newest: u64) {
        if self.recover.is_some_and(|recover| newest >= recover) {
            self.recover = None;
            let (now, in_flight, delivered) = (self.now, self.bytes_in_flight, self.delivered);
            self.controller.on_recovery_end(&RecoveryEnd { now, in_flight, delivered, inflation: 0 });
        }
    }

    fn begin_episode(&mut self, cause: LossCause, flight_size: u64, bytes_lost: u64) {
        if self.recover.is_some() {
            return;
        }
        self.recover = Some(self.next_number);
        self.episode_from = self.next_number;
        self.totals.episodes.count();
        let (now, delivered) = (self.now, self.delivered);
        self.controller.on_loss_episode(&LossEpisode {
            now,
            cause,
            flight_size,
            bytes_lost,
            delivered,
            repeated: false,
            peer_window: u64::MAX,
        });
    }

    /// Nothing in flight will arrive.
    fn time_out(&mut self) {
        self.now += self.rtt.rto();
        if self.bytes_in_flight == 0 {
            return;
        }
        self.rtt.on_expiry();
        self.expiries.count();
        self.totals.timeouts.count();
        let (now, flight_size, delivered) = (self.now, self.bytes_in_flight, self.delivered);
        self.controller.on_timeout(&Timeout {
            now,
            flight_size,
            expiries: self.expiries,
            delivered,
            peer_window: u64::MAX,
        });
        self.in_flight.clear();
        self.bytes_in_flight = 0;
        self.recover = None;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct DeclaredLost {
    bytes: u64,
    newest: Option<Segment>,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    number: u64,
    bytes: u64,
    sent_at: Instant,
    acked_at: Instant,
    dropped: bool,
    marked: bool,
    prior_delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    app_limited: bool,
    /// Bytes in flight, these included.
    in_flight: u64,
    /// Bytes found to be lost by then.
    lost: u64,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Flow, Path};
    use crate::congestion::Registry;

    fn flow(name: &str, path: Path) -> Flow {
        Flow::new(Registry::builtin().find(name).unwrap().as_ref(), path)
    }

    #[test]
    fn reno_fills_the_path() {
        let mut flow = flow("reno", Path::TYPICAL);
        flow.run(Duration::from_secs(60));
        let share = flow.totals().delivered as f64 / (60.0 * Path::TYPICAL.rate as f64);
        assert!(share > 0.9, "{share} of the rate");
        assert!(flow.totals().episodes > 1);
    }

    #[test]
    fn losses_of_one_window_are_one_episode() {
        // The window grows by a segment a round trip. Each overflow drops one segment and halves the window
        // once.
        let mut flow = flow("reno", Path { rate: 250_000, buffer: 20_000, ..Path::TYPICAL });
        flow.run(Duration::from_secs(3));
        let mut smallest = u64::MAX;
        for _ in 0..1000 {
            flow.round();
            smallest = smallest.min(flow.segments());
        }
        assert!(smallest >= 22, "half of 45 segments, not {smallest}");
    }

    #[test]
    fn queue_is_bounded_by_the_buffer() {
        let mut flow = flow("cubic", Path::TYPICAL);
        flow.run(Duration::from_secs(60));
        assert!(flow.totals().queue_max <= Path::TYPICAL.buffer);
        assert!(flow.totals().dropped > 0);
    }

    #[test]
    fn round_trip_is_the_base_without_a_queue() {
        let mut flow = flow("reno", Path::TYPICAL);
        let start = flow.now();
        flow.round();
        let took = flow.now().saturating_since(start);
        assert!((100..110).contains(&took.as_millis()), "{took:?}");
    }

    #[test]
    fn application_with_little_to_send_keeps_the_window() {
        let mut flow = flow("reno", Path::TYPICAL);
        flow.limit_application(5_000);
        flow.run(Duration::from_secs(5));
        assert_eq!(flow.segments(), 10);
    }
}
