//! The schedule alone, in virtual time.

use std::time::Duration;

use proptest::prelude::*;

use super::{Pacer, Pacing};
use crate::Instant;
use crate::position::Position;
use crate::sending::Chosen;
use crate::trace::SendReason;

const SMSS: u64 = 1448;
const MILLISECOND: u64 = 1_000_000;

fn quantum(rate: u64, granularity_ns: u64, smss: u64) -> u64 {
    (u128::from(rate) * u128::from(granularity_ns) / 1_000_000_000).max(2 * u128::from(smss)) as u64
}

/// A sender that always has data, in segments of `smss`, and a timer that is `late` nanoseconds late. Returns
/// the times and sizes of what it sends until `until`.
fn greedy(rate: u64, smss: u64, until: u64, mut late: impl FnMut() -> u64) -> Vec<(u64, u64)> {
    let mut pacer = Pacer::new(Instant::ZERO);
    pacer.set_rate(rate);
    let quantum = quantum(rate, MILLISECOND, smss);
    let mut sent = Vec::new();
    let mut now = 0;
    while now < until {
        let at = Instant::from_nanos(now);
        let burst = pacer.allowance(at, quantum) / smss * smss;
        if burst > 0 {
            pacer.charge(at, burst);
            sent.push((now, burst));
        } else {
            pacer.is_owed = true;
            now = pacer.even_at.as_nanos() + late();
        }
    }
    sent
}

fn total(sent: &[(u64, u64)]) -> u64 {
    sent.iter().map(|&(_, bytes)| bytes).sum()
}

#[test]
fn departures_are_a_quantum_apart() {
    // 1.25 MB/s, so that a quantum is two segments.
    let sent = greedy(1_250_000, SMSS, 100 * MILLISECOND, || 0);
    for pair in sent.windows(2) {
        assert_eq!(pair[0].1, 2 * SMSS);
        let expected = 2 * SMSS * 1_000_000_000 / 1_250_000;
        assert!((pair[1].0 - pair[0].0).abs_diff(expected) <= 1, "{pair:?}");
    }
}

#[test]
fn rate_is_met_within_one_percent_from_8_kbit_to_100_gbit() {
    for rate in [1_000, 12_345, 125_000, 1_000_003, 125_000_000, 1_250_000_000, 12_500_000_000_u64] {
        // Segment sizes for which 1 % of a second holds at least a quantum.
        let smss = SMSS.min(rate / 200);
        let sent = total(&greedy(rate, smss, 1_000 * MILLISECOND, || 0));
        assert!(sent.abs_diff(rate) <= rate / 100, "{sent} bytes in a second at {rate}");
    }
}

#[test]
fn nothing_drifts_in_an_hour() {
    // 7 does not divide a second; each segment leaves a remainder.
    let rate = 700_001;
    let seconds = 3600;
    let sent = total(&greedy(rate, SMSS, seconds * 1_000 * MILLISECOND, || 0));
    assert!((sent - rate * seconds) <= 2 * SMSS, "{} bytes off", sent.abs_diff(rate * seconds));
}

#[test]
fn timers_thirty_milliseconds_late_cost_nothing() {
    for rate in [125_000, 1_250_000, 125_000_000] {
        let sent = total(&greedy(rate, SMSS, 10_000 * MILLISECOND, || 30 * MILLISECOND));
        assert!(sent >= rate * 10 / 100 * 95, "{sent} of {}", rate * 10);
        assert!(sent <= rate * 10 + quantum(rate, MILLISECOND, SMSS) + rate * 31 / 1000);
    }
}

#[test]
fn what_was_not_used_is_lost() {
    let rate = 1_250_000;
    let mut pacer = Pacer::new(Instant::ZERO);
    pacer.set_rate(rate);
    pacer.charge(Instant::ZERO, 2 * SMSS);
    assert_eq!(pacer.allowance(Instant::from_millis(60_000), 2 * SMSS), 2 * SMSS);
    // After a timer that is a minute late, at most 40 ms are made up for.
    pacer.is_owed = true;
    assert_eq!(pacer.allowance(Instant::from_millis(60_000), 2 * SMSS), 2 * SMSS + rate / 25);
}

/// An acknowledgement that comes 30 ms after the timer's time, and before the timer, shows how late that
/// is at least. One that comes sooner shows nothing; the timer itself shows all.
#[test]
fn event_before_the_timer_shows_how_late_it_is() {
    let (rate, smss) = (1_000_000, 1000);
    let mut pacing = Pacing::new(1_000_000);
    let mut now = Instant::from_millis(1000);
    let pace = |pacing: &mut Pacing, now: Instant| {
        let (start, reason) = (Position::default(), SendReason::NewData);
        pacing.pace_at(now, rate, smss, Chosen { start, end: start + smss, reason }).is_some()
    };
    let late_ms = |pacing: &Pacing| pacing.pacer.as_ref().unwrap().late_ns / MILLISECOND;
    assert!(pace(&mut pacing, now));
    // Three segments take 3 ms; the timer is a millisecond sooner.
    pacing.charge(now, 3 * smss);
    assert!(!pace(&mut pacing, now));
    assert_eq!(pacing.due(), now + Duration::from_millis(2));
    now += Duration::from_millis(32);
    assert!(pace(&mut pacing, now));
    assert_eq!((late_ms(&pacing), pacing.is_waiting()), (30, false));

    for (event_late, expected) in [(Some(1), 30), (None, 26)] {
        pacing.charge(now, 100 * smss);
        assert!(!pace(&mut pacing, now));
        now = pacing.due() + Duration::from_millis(event_late.unwrap_or(0));
        if event_late.is_none() {
            pacing.on_timer(now);
        }
        assert!(pace(&mut pacing, now));
        assert_eq!(late_ms(&pacing), expected);
    }
}

#[test]
fn extreme_rates_and_sizes_do_not_overflow() {
    for rate in [1, u64::MAX] {
        let mut pacer = Pacer::new(Instant::ZERO);
        pacer.set_rate(rate);
        for now in [0, 1, u64::MAX / 2, u64::MAX] {
            pacer.charge(Instant::from_nanos(now), u64::MAX);
            pacer.is_owed = !pacer.is_owed;
            pacer.allowance(Instant::from_nanos(now), u64::MAX);
            pacer.allowance(Instant::ZERO, 1);
        }
    }
}

proptest! {
    #[test]
    fn never_more_than_rate_and_a_burst_in_any_interval(
        rate in 1_000_u64..12_500_000_000,
        smss in 1_u64..9_000,
        lateness in prop::collection::vec(0_u64..50 * MILLISECOND, 1..20),
    ) {
        let mut turn = 0;
        let sent = greedy(rate, smss, 300 * MILLISECOND, || { turn += 1; lateness[turn % lateness.len()] });
        let late_max = lateness.iter().copied().max().unwrap_or(0).min(Pacer::LATE_MAX_NS);
        let burst = u128::from(quantum(rate, MILLISECOND, smss));
        let sums: Vec<(u64, u128)> = sent.iter().scan(0, |sum, &(at, bytes)| {
            let before = *sum;
            *sum += u128::from(bytes);
            Some((at, before))
        }).collect();
        let all = u128::from(total(&sent));
        for (first, &(from, before)) in sums.iter().enumerate().step_by(sums.len() / 50 + 1) {
            for (last, &(until, _)) in sums.iter().enumerate().skip(first).step_by(sums.len() / 50 + 1) {
                let through = sums.get(last + 1).map_or(all, |&(_, before)| before);
                // One nanosecond of rounding, which is several bytes at such rates.
                let span = u128::from(until - from + late_max + 1);
        let most = span * u128::from(rate) / 1_000_000_000 + burst + 1;
                prop_assert!(through - before <= most, "{} of {most} in {span} ns", through - before);
            }
        }
    }
}
