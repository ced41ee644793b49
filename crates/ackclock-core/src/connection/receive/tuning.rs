//! How wide the receive window should be: twice what the application takes in a round trip, which is one for
//! the path and one for a repair.
//!
//! While what it takes grows, as in slow start, the next round trip's is reckoned to grow by the same factor.
//! That part of the window is a loan: it is asked back when the growth ends, so that a sender which has found
//! its bottleneck does not keep its queue. Without it a window that limits the sender would double every
//! second round trip only, because a sender doubles what it has in flight while the first half of it arrives.
//!
//! The idea of measuring at the receiver is that of dynamic right-sizing (E. Weigle and W. Feng, "Dynamic
//! right-sizing: a simulation study", ICCCN 2001; not read, cited by its title). A round trip is the smallest
//! of the sending side's and of the receiver's own: data beyond all that has been offered takes one at least,
//! and little more if the sender waits for the window.
//!
//! Round trips that stay twice as long have two causes. Where the path is longer, a wider window is needed;
//! where the window fills a queue, or the application at either end is slow, a wider one only makes it
//! longer. The difference shows when the window is narrowed by a quarter: on a longer path the time to
//! receive a window stays the same, elsewhere it shrinks likewise. A wider window would show it too, and
//! lengthen the queue meanwhile.

use crate::Instant;
use crate::position::Position;

/// Counts the bytes that the application takes, and the round trips in which it does.
#[derive(Debug)]
pub(super) struct Tuning {
    started: Instant,
    /// The bytes taken since then.
    taken: u32,
    /// Those of the round trip before; 0 if that was not the one just before.
    before: u32,
    /// The limit without what is lent; the largest number if nothing is.
    lasting: u32,
    /// The smallest time in which a window was received; the largest number before the first.
    rtt_ns: u32,
    /// When RCV.NXT is beyond this, which nothing offered before `marked_at` allows, a round trip has passed.
    mark: Option<Position>,
    marked_at: Instant,
    /// Present once a round trip took more than twice the smallest.
    doubt: Option<Box<Doubt>>,
}

/// Whether the smallest round trip is still the path's.
#[derive(Debug)]
struct Doubt {
    /// The last time at which it was.
    confirmed_at: Instant,
    /// How many long ones there were since, and the last of them.
    count: u32,
    last_ns: u64,
    /// How long round trips must be longer before the window is narrowed on trial. Each trial that finds no
    /// longer path doubles it.
    patience_ns: u64,
    /// The sending side's smallest round trip, if that was found to be too short.
    refuted_ns: Option<u64>,
    trial: Option<Trial>,
}

/// The window is narrower by a quarter, to see whether it is received sooner.
#[derive(Clone, Copy, Debug)]
struct Trial {
    limit: u32,
    limit_before: u32,
    round_trips: u32,
}

/// Where the receiver is when the application reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// RCV.NXT.
    pub next: Position,
    /// The right edge of all that has been offered, and of what is offered next.
    pub edge: Position,
    /// The sending side's smallest round trip; 0 if it has measured none.
    pub rtt_min_ns: u64,
    /// The bytes that may wait unread.
    pub limit: u32,
}

impl Tuning {
    /// The shortest time over which the application's reading is measured.
    const PERIOD_MIN_NS: u64 = 250_000;
    /// A longer time is not a round trip: the sender had nothing to send.
    const RTT_MAX_NS: u32 = 3_000_000_000;

    pub fn new() -> Self {
        Self {
            started: Instant::ZERO,
            taken: 0,
            before: 0,
            lasting: u32::MAX,
            rtt_ns: u32::MAX,
            mark: None,
            marked_at: Instant::ZERO,
            doubt: None,
        }
    }

    /// The application took `bytes`. Returns how many may wait unread from now on.
    #[inline]
    pub fn on_read(&mut self, now: Instant, bytes: usize, place: &Place) -> u32 {
        self.taken = self.taken.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        let mut limit = place.limit;
        if self.mark.is_none_or(|mark| place.next > mark) {
            limit = self.on_round_trip(now, place);
            (self.mark, self.marked_at) = (Some(place.edge), now);
        }
        let (elapsed_ns, period_ns) = (now.nanos_since(self.started), self.period_ns(place));
        if elapsed_ns < period_ns {
            return limit;
        }
        let is_one = elapsed_ns < period_ns.saturating_mul(2);
        let taken = std::mem::take(&mut self.taken);
        let before = std::mem::replace(&mut self.before, if is_one { taken } else { 0 });
        self.started = now;
        let tries = self.doubt.as_ref().is_some_and(|doubt| doubt.trial.is_some());
        if tries {
            return limit;
        }
        limit = limit.min(std::mem::replace(&mut self.lasting, u32::MAX));
        limit = taken.saturating_mul(2).max(limit);
        let wanted = if is_one { Self::expected(taken, before).saturating_mul(2) } else { 0 };
        if wanted <= limit {
            return limit;
        }
        self.lasting = limit;
        wanted
    }

    /// The bytes taken in the next round trip if they grow by the factor of the last, which is two at most: a
    /// sender in slow start doubles.
    fn expected(taken: u32, before: u32) -> u32 {
        if before == 0 || u64::from(taken).saturating_mul(4) < u64::from(before).saturating_mul(5) {
            return taken;
        }
        let grown = u64::from(taken).saturating_mul(taken.into()).checked_div(before.into());
        u32::try_from(grown.unwrap_or_default()).unwrap_or(u32::MAX).min(taken.saturating_mul(2))
    }

    /// The smallest round trip, or the shortest time that is measured.
    #[inline]
    fn period_ns(&self, place: &Place) -> u64 {
        let sent = if place.rtt_min_ns > 0 { place.rtt_min_ns } else { u64::MAX };
        let refuted = self.doubt.as_ref().and_then(|doubt| doubt.refuted_ns);
        let sent = if refuted.is_some_and(|refuted| sent >= refuted) { u64::MAX } else { sent };
        let own = if self.rtt_ns == u32::MAX { u64::MAX } else { self.rtt_ns.into() };
        let least = sent.min(own);
        if least == u64::MAX { Self::PERIOD_MIN_NS } else { least.max(Self::PERIOD_MIN_NS) }
    }

    /// A time that may be a round trip.
    fn round_trip(nanos: u64) -> Option<u32> {
        u32::try_from(nanos).ok().filter(|&nanos| nanos <= Self::RTT_MAX_NS)
    }

    /// A window has been received since the last mark.
    #[inline(never)]
    fn on_round_trip(&mut self, now: Instant, place: &Place) -> u32 {
        let Place { limit, rtt_min_ns, .. } = *place;
        let elapsed = now.nanos_since(self.marked_at);
        let Some(rtt_ns) = Self::round_trip(elapsed).filter(|_| self.mark.is_some()) else { return limit };
        let known = self.rtt_ns != u32::MAX || rtt_min_ns > 0;
        if !known || elapsed <= self.period_ns(place).saturating_mul(2) {
            self.rtt_ns = self.rtt_ns.min(rtt_ns);
            return self.doubt.as_mut().map_or(limit, |doubt| doubt.end_trial(now, limit));
        }
        let doubt = self.doubt.get_or_insert_with(|| Box::new(Doubt::new(now)));
        let (limit, path_is_longer) = doubt.on_long_round_trip(now, elapsed, limit);
        if path_is_longer {
            self.rtt_ns = rtt_ns;
            doubt.refuted_ns = (rtt_min_ns > 0).then_some(rtt_min_ns);
        }
        limit
    }
}

impl Doubt {
    /// How long round trips must be longer before the window is narrowed on trial, at first and at most.
    const PATIENCE_NS: u64 = 1_000_000_000;
    const PATIENCE_MAX_NS: u64 = 64_000_000_000;
    /// This many come before the trial, which is compared with the last.
    const ROUND_TRIPS: u32 = 4;
    /// The trial's window is what is received from the second round trip on. All from there to the last must
    /// have stayed long.
    const TRIAL_FIRST: u32 = 2;
    const TRIAL_LAST: u32 = 4;
    /// No smaller window is narrowed.
    const LIMIT_MIN: u32 = 16 << 10;

    fn new(now: Instant) -> Self {
        Self {
            confirmed_at: now,
            count: 0,
            last_ns: 0,
            patience_ns: Self::PATIENCE_NS,
            refuted_ns: None,
            trial: None,
        }
    }

    /// The smallest round trip is the path's, or counts as such from now on.
    fn settle(&mut self, now: Instant) {
        (self.confirmed_at, self.count, self.trial) = (now, 0, None);
    }

    /// A trial, if any, is over. Returns the limit, which is what it was before if nothing else has lowered
    /// it meanwhile.
    fn end_trial(&mut self, now: Instant, limit: u32) -> u32 {
        let before =
            self.trial.filter(|trial| limit >= trial.limit).map_or(limit, |trial| trial.limit_before);
        self.settle(now);
        before.max(limit)
    }

    /// Returns the limit, and whether the smallest round trip is no longer the path's.
    fn on_long_round_trip(&mut self, now: Instant, measured: u64, limit: u32) -> (u32, bool) {
        let Some(trial) = &mut self.trial else {
            return (self.prepare_trial(now, measured, limit), false);
        };
        trial.round_trips = trial.round_trips.saturating_add(1);
        let round_trips = trial.round_trips;
        if round_trips < Self::TRIAL_FIRST {
            return (limit, false);
        }
        // The window is a quarter narrower. Half of that counts as shorter.
        let stays_long = measured.saturating_mul(8) > self.last_ns.saturating_mul(7);
        if stays_long && round_trips < Self::TRIAL_LAST {
            return (limit, false);
        }
        let patience = if stays_long { Self::PATIENCE_NS } else { self.patience_ns.saturating_mul(2) };
        self.patience_ns = patience.min(Self::PATIENCE_MAX_NS);
        (self.end_trial(now, limit), stays_long)
    }

    /// Notes a long round trip. After enough of them the trial begins. Returns the limit.
    fn prepare_trial(&mut self, now: Instant, measured: u64, limit: u32) -> u32 {
        let before = std::mem::replace(&mut self.last_ns, measured);
        self.count = self.count.saturating_add(1);
        // While something changes, there is nothing to compare with.
        let is_steady = before.abs_diff(measured) <= before / 8;
        let is_due = self.count >= Self::ROUND_TRIPS
            && now.nanos_since(self.confirmed_at) >= self.patience_ns
            && limit >= Self::LIMIT_MIN;
        if !(is_steady && is_due) {
            return limit;
        }
        let narrower = limit.saturating_sub(limit / 4);
        self.trial = Some(Trial { limit: narrower, limit_before: limit, round_trips: 0 });
        narrower
    }
}

ackclock_form::form! {
    struct Tuning { started, taken, before, lasting, rtt_ns, mark, marked_at, doubt }
    struct Doubt { confirmed_at, count, last_ns, patience_ns, refuted_ns, trial }
    struct Trial { limit, limit_before, round_trips }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use super::*;
    use crate::budget::Budget;
    use crate::connection::receive::ReceiveHalf;

    const MSS: u64 = 1000;

    /// A sender that is limited by the window alone, a bottleneck with a queue that drops nothing, and an
    /// application that takes each segment when it comes. All in the plainest way: a segment leaves when the
    /// window allows, passes the bottleneck behind the one before, and arrives a round trip later.
    struct Model {
        receiver: ReceiveHalf,
        now: Instant,
        /// When the bottleneck is free.
        free_at: Instant,
        /// The sending side's smallest round trip, as the connection knows it.
        rtt_min: Duration,
    }

    impl Model {
        fn new(rtt_min: Duration) -> Self {
            let budget = Budget::new(1 << 30);
            let mut receiver = ReceiveHalf::new(Position::default(), &budget, 64_000, 6 << 20);
            receiver.scale = 7;
            receiver.mss = MSS as u32;
            receiver.offer(receiver.nxt);
            let now = Instant::from_millis(1000);
            Self { receiver, now, free_at: now, rtt_min }
        }

        fn limit(&self) -> u64 {
            self.receiver.edge.since(self.receiver.nxt)
        }

        /// Sends for so long, with this round trip and rate. Returns the largest window, and the mean.
        fn run(&mut self, time: Duration, rtt: Duration, bytes_per_second: u64) -> (u64, u64) {
            let until = self.now + time;
            let gap = Duration::from_nanos(MSS * 1_000_000_000 / bytes_per_second);
            let mut on_the_way = VecDeque::new();
            let mut sent = self.receiver.nxt;
            let (mut largest, mut sum, mut count) = (0, 0, 0);
            loop {
                while self.now < until && sent + MSS <= self.receiver.edge {
                    self.free_at = self.free_at.max(self.now) + gap;
                    on_the_way.push_back(self.free_at + rtt);
                    sent += MSS;
                }
                let Some(arrives) = on_the_way.pop_front() else { break };
                self.arrive(arrives);
                (largest, sum, count) = (self.limit().max(largest), sum + self.limit(), count + 1);
            }
            (largest, sum / count)
        }

        /// A segment arrives, and the application takes it.
        fn arrive(&mut self, now: Instant) {
            self.now = now;
            self.receiver.nxt += MSS;
            let rtt_min = u64::try_from(self.rtt_min.as_nanos()).unwrap();
            self.receiver.on_read(now, MSS as usize, rtt_min, None);
            self.receiver.offer(self.receiver.nxt);
        }
    }

    const MS: Duration = Duration::from_millis(1);

    /// 10 MB/s over 100 ms: the product is a megabyte, and a window of 64,000 bytes reaches 6 % of the rate.
    #[test]
    fn window_grows_to_the_paths_product_without_a_sample_of_the_sending_side() {
        for rtt_min in [Duration::ZERO, 100 * MS] {
            let mut model = Model::new(rtt_min);
            model.run(2000 * MS, 100 * MS, 10_000_000);
            let limit = model.limit();
            assert!((1_000_000..=2_200_000).contains(&limit), "{limit} bytes, {rtt_min:?} known");
        }
    }

    /// The round trip was 20 ms and is 100, the product a megabyte. From seven eighths of that on the trial's
    /// verdict is open.
    #[test]
    fn window_grows_when_the_path_has_become_five_times_longer() {
        for rtt_min in [Duration::ZERO, 20 * MS] {
            let mut model = Model::new(rtt_min);
            // The window holds two products of this path. Without a sample it is first received in 43 ms, and
            // is widened once.
            model.run(2000 * MS, 20 * MS, 1_500_000);
            assert!(model.limit() <= 2 * 64_000 + 3000, "{} bytes", model.limit());
            model.run(6000 * MS, 100 * MS, 10_000_000);
            let limit = model.limit();
            assert!((870_000..=2_200_000).contains(&limit), "{limit} bytes, {rtt_min:?} known");
        }
    }

    /// 10 MB/s over 20 ms into a queue that drops nothing: twice the product of 200,000 bytes fills the path
    /// and lets one product wait. A wider window only lets more wait.
    #[test]
    fn queue_that_the_window_fills_does_not_widen_it() {
        for rtt_min in [Duration::ZERO, 20 * MS] {
            let mut model = Model::new(rtt_min);
            let (largest, _) = model.run(200 * MS, 20 * MS, 10_000_000);
            // Once, while what arrives in a round trip still grows by half.
            assert!((600_000..=660_000).contains(&largest), "{largest} bytes, {rtt_min:?} known");
            let (largest, mean) = model.run(60_000 * MS, 20 * MS, 10_000_000);
            assert!(largest <= 2 * 220_000, "{largest} bytes, {rtt_min:?} known");
            assert!((300_000..=420_000).contains(&mean), "{mean} bytes, {rtt_min:?} known");
        }
    }

    /// Ten segments, then two for each that is acknowledged, over 100 ms: 2.56 MB in the ninth round trip.
    #[test]
    fn window_never_holds_back_a_sender_in_slow_start() {
        let mut model = Model::new(100 * MS);
        let mut on_the_way: VecDeque<Instant> = (0..10).map(|gap| model.now + gap * MS / 100).collect();
        let end = model.now + 850 * MS;
        let mut sent = model.receiver.nxt + 10 * MSS;
        let mut arrived = 0;
        while let Some(at) = on_the_way.pop_front().filter(|at| *at < end) {
            model.arrive(at);
            arrived += 1;
            for _ in 0..2 {
                sent += MSS;
                assert!(sent <= model.receiver.edge, "{sent:?} of {:?} at {at:?}", model.receiver.edge);
                on_the_way.push_back(at + 100 * MS);
            }
        }
        assert_eq!(arrived, 10 * ((1 << 9) - 1));
    }

    /// A tenth of the rate is left: the window that filled the path once is now ten products, and no wider.
    #[test]
    fn bottleneck_that_becomes_slower_does_not_widen_the_window() {
        let mut model = Model::new(20 * MS);
        let (before, _) = model.run(2000 * MS, 20 * MS, 10_000_000);
        let (largest, mean) = model.run(60_000 * MS, 20 * MS, 1_000_000);
        assert!(largest <= before && mean <= before, "{largest}, {mean} of {before}");
    }
}
