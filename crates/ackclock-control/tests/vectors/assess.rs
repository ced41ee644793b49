use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::assess::timeouts::{Event, Why, assess};
use ackclock_control::rtt::presets;

use super::{SMSS, number, rows, words};

fn events(trace: u64) -> impl Iterator<Item = Event> {
    let rows = rows(include_str!("assess_events.csv"));
    rows.filter(move |row| row[0].unsigned_abs() == trace).map(|row| {
        let (at, from) = (Instant::from_micros(row[2].unsigned_abs()), row[3].unsigned_abs() * SMSS);
        let to = from + SMSS;
        match row[1] {
            0 => Event::Sent { at, from, to, why: Why::New },
            1 => Event::Sent { at, from, to, why: Why::Timeout { avoidable: false } },
            _ => Event::Acked { at, to },
        }
    })
}

#[test]
fn timeouts_of_the_traces() {
    // Tests: A2
    for row in words(include_str!("assess_timeouts.csv")) {
        let config = presets::find(row[1]).unwrap().config;
        let timeouts = assess(events(number(row[0])), &config, None);
        let counts = [timeouts.good, timeouts.repeated, timeouts.bad].map(u64::from);
        assert_eq!(counts, [3, 4, 5].map(|column| number(row[column])), "{row:?}");
        // Allows a millisecond of the clock for each timeout.
        let slack = Duration::from_millis(counts[0]);
        assert!(
            timeouts.waited.abs_diff(Duration::from_micros(number(row[2]))) <= slack,
            "{timeouts:?}, {row:?}"
        );
        let cost = Duration::from_micros(number(row[6])).as_secs_f64() * 1000.0;
        assert!((timeouts.cost.unwrap_or(0.0) - cost).abs() < 0.05, "{timeouts:?}, {row:?}");
    }
}
