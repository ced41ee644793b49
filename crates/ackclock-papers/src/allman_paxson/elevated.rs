//! §2.7: whether a bad timeout shows a passing or a lasting increase of the round trip.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use ackclock_control::assess::timeouts::{Event, Why, assess_each};
use ackclock_control::rtt::RtoConfig;
use ackclock_core::Instant;

/// For each bad timeout, not counting those that follow it in vain: how many round trips in a row after the
/// late acknowledgement were longer than the timeout.
pub(super) fn after_bad_timeouts(events: &[Event], config: &RtoConfig) -> Vec<usize> {
    // The replay reports an expiry at the acknowledgement after it.
    let replayed = Cell::new(0);
    let one_by_one = events.iter().enumerate().map(|(number, event)| {
        replayed.set(number);
        *event
    });
    let mut bad = Vec::new();
    assess_each(one_by_one, config, None, &mut |expiry| {
        if !expiry.good && !expiry.again {
            bad.push((replayed.get(), expiry.rto));
        }
    });
    let round_trips = round_trips(events);
    let longer = |(at, rto): (usize, Duration)| {
        let after = round_trips.iter().filter(|(number, _)| *number > at);
        after.take_while(|(_, round_trip)| *round_trip > rto).count()
    };
    bad.into_iter().map(longer).collect()
}

/// The round trip of each acknowledgement of segments that were sent once, with the number of its event.
fn round_trips(events: &[Event]) -> Vec<(usize, Duration)> {
    // End, time, and whether it was sent once.
    let mut outstanding: VecDeque<(u64, Instant, bool)> = VecDeque::new();
    let mut found = Vec::new();
    for (number, event) in events.iter().enumerate() {
        match *event {
            Event::Sent { at, to, why: Why::New, .. } => outstanding.push_back((to, at, true)),
            Event::Sent { from, to, .. } => {
                let again = outstanding.iter_mut().filter(|(end, ..)| from < *end && *end <= to);
                again.for_each(|(.., once)| *once = false);
            }
            Event::Acked { at, to } => {
                let covered = outstanding.iter().take_while(|(end, ..)| *end <= to).count();
                let mut acked = outstanding.drain(..covered);
                let last = acked.next_back();
                let clear = acked.all(|(.., once)| once);
                if let Some((_, sent_at, true)) = last.filter(|_| clear) {
                    found.push((number, at.saturating_since(sent_at)));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use ackclock_control::rtt::presets;

    use super::*;

    #[test]
    fn round_trips_after_a_late_acknowledgement_are_held_against_the_timeout() {
        let at = Instant::from_millis;
        let sent = |ms, segment: u64, why| Event::Sent {
            at: at(ms),
            from: segment * 1000,
            to: (segment + 1) * 1000,
            why,
        };
        let acked = |ms, segments: u64| Event::Acked { at: at(ms), to: segments * 1000 };
        // The estimator waits 300 ms after the first round trip of 100. The second takes 350, the third 320.
        let mut events = vec![
            sent(0, 0, Why::New),
            acked(100, 1),
            sent(200, 1, Why::New),
            acked(550, 2),
            sent(600, 2, Why::New),
            acked(920, 3),
            sent(1000, 3, Why::New),
            acked(1100, 4),
        ];
        let config = presets::find("ap-min-0").unwrap().config;
        assert_eq!(after_bad_timeouts(&events, &config), [1]);
        // One that was sent again shows no round trip.
        events.insert(5, sent(700, 2, Why::FastRetransmit));
        assert_eq!(after_bad_timeouts(&events, &config), [0]);
    }
}
