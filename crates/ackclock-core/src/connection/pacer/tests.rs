//! The schedule alone, then connections that keep to it, all in virtual time.

use std::time::Duration;

use proptest::prelude::*;

use super::Pacer;
use crate::connection::Connection;
use crate::connection::tests::{DELAY, Fate, Pair, Path, perfect, software};
use crate::trace::{Entry, Limit, SendReason};
use crate::{Instant, Limits, TcpConfig};

const SMSS: u64 = 1448;
const MILLISECOND: u64 = 1_000_000;

fn quantum(rate: u64, granularity_ns: u64, smss: u64) -> u64 {
    (u128::from(rate) * u128::from(granularity_ns) / 1_000_000_000).max(2 * u128::from(smss)) as u64
}

/// A sender that always has data, in segments of `smss`, and a timer that is `late` nanoseconds late; the times and
/// sizes of what it sends until `until`.
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
        // Segments of which 1 % of a second holds at least a quantum.
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
    // A timer that was a minute late is made up for by 40 ms.
    pacer.is_owed = true;
    assert_eq!(pacer.allowance(Instant::from_millis(60_000), 2 * SMSS), 2 * SMSS + rate / 25);
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
                // A nanosecond, which is several bytes at such rates, for the rounding of times.
                let span = u128::from(until - from + late_max + 1);
        let most = span * u128::from(rate) / 1_000_000_000 + burst + 1;
                prop_assert!(through - before <= most, "{} of {most} in {span} ns", through - before);
            }
        }
    }
}

/// Times, payloads and reasons of what end 0 of a pair sent while it moved `bytes`, from its trace.
fn departures(pair: &mut Pair, bytes: usize) -> Vec<(Instant, SendReason, u32)> {
    pair.trace(0);
    pair.transfer(bytes);
    let entries = pair.traced(0).into_iter().filter_map(|(at, entry)| match entry {
        Entry::Sent { reason, len, .. } if len > 0 => Some((at, reason, len)),
        _ => None,
    });
    entries.collect()
}

/// Whether the pacing rate ever held end 0 back, as its trace tells.
fn was_paced(pair: &Pair) -> bool {
    pair.traced(0).iter().any(|(_, entry)| matches!(entry, Entry::Limited { by: Limit::Pacing, .. }))
}

/// The most payload that left at one instant.
fn burst_max(departures: &[(Instant, SendReason, u32)]) -> u32 {
    let same_time = departures.chunk_by(|one, next| one.0 == next.0);
    same_time.map(|burst| burst.iter().map(|&(_, _, len)| len).sum()).max().unwrap_or(0)
}

fn established(tcp: &TcpConfig) -> Pair {
    let mut pair = Pair::established([tcp.clone(), tcp.clone()], perfect());
    // Crossing opens measure nothing, and a receiver that knows no round trip cannot tune its window by it.
    let now = pair.now;
    pair.ends[1].write(now, &[0]).unwrap();
    pair.run_for(Duration::from_millis(100));
    pair
}

fn unpaced() -> TcpConfig {
    TcpConfig { pacing: false, ..TcpConfig::default() }
}

#[test]
fn first_flight_leaves_at_once_and_later_ones_are_spread() {
    let mut pair = established(&TcpConfig::default());
    let sent = departures(&mut pair, 400_000);
    let first = sent[0].0;
    assert_eq!(sent.iter().filter(|&&(at, ..)| at == first).count(), 10, "RFC 6928: ten segments");
    let later: Vec<_> = sent.iter().filter(|&&(at, ..)| at > first).copied().collect();
    // The window is at most 400 KB in 20 ms, and twice that in slow start: 40 MB/s.
    assert!(burst_max(&later) <= 40_000, "{}", burst_max(&later));
    assert!(was_paced(&pair));
}

#[test]
fn without_pacing_each_window_leaves_as_it_opens() {
    let mut pair = established(&unpaced());
    let sent = departures(&mut pair, 400_000);
    assert_eq!(pair.ends[0].info(pair.now).pacing_rate, None);
    assert!(!was_paced(&pair));
    // On a path without a rate, all that was sent at one time is acknowledged at one time, and doubled.
    let times: std::collections::BTreeSet<_> = sent.iter().map(|(at, ..)| *at).collect();
    assert!(times.len() < 12, "{} instants", times.len());
}

#[test]
fn pacing_costs_a_start_three_round_trips_and_no_throughput() {
    for bytes in [1 << 20, 4 << 20, 16 << 20] {
        let took = |tcp: &TcpConfig| established(tcp).transfer(bytes);
        let (with, without) = (took(&TcpConfig::default()), took(&unpaced()));
        assert!(with <= without + 6 * DELAY, "{with:?}, {without:?} without");
    }
}

#[test]
fn retransmissions_are_paced_and_a_transfer_with_losses_ends() {
    let path =
        || -> Path {
            Box::new(|side, number| {
                if side == 0 && (100..130).contains(&number) { Fate::Drop } else { Fate::Deliver(DELAY) }
            })
        };
    let tcp = TcpConfig::default();
    let mut pair = Pair::established([tcp.clone(), tcp], path());
    let sent = departures(&mut pair, 1 << 20);
    let again: Vec<_> =
        sent.iter().filter(|(_, reason, _)| *reason == SendReason::Retransmission).copied().collect();
    assert!(again.len() >= 30, "{}", again.len());
    assert!(burst_max(&again) <= 20 * 1448, "{}", burst_max(&again));
    assert_eq!(pair.ends[0].info(pair.now).timeouts, 0);
}

#[test]
fn window_kept_through_idleness_leaves_paced() {
    let mut pair = established(&TcpConfig::default());
    pair.transfer(1 << 20);
    pair.run_for(Duration::from_secs(10));
    let cwnd = pair.ends[0].info(pair.now).cwnd;
    assert!(cwnd > 200_000, "RFC 7661: the window stays: {cwnd}");
    let sent = departures(&mut pair, 200_000);
    assert!(u64::from(burst_max(&sent)) < cwnd / 5, "{} of {cwnd}", burst_max(&sent));
}

#[test]
fn bound_of_the_rate_holds_and_can_be_taken_back() {
    for tcp in [TcpConfig::default(), unpaced()] {
        let mut pair = established(&tcp);
        let now = pair.now;
        assert!(pair.ends[0].set_max_pacing_rate(now, Some(0)).is_err());
        pair.ends[0].set_max_pacing_rate(now, Some(100_000)).unwrap();
        assert_eq!(pair.ends[0].max_pacing_rate(), Some(100_000));
        assert_eq!(pair.ends[0].info(now).pacing_rate, Some(100_000));
        let took = pair.transfer(200_000);
        assert!((1_900..2_100).contains(&took.as_millis()), "2 s at 100 kB/s: {took:?}");
        assert_eq!(pair.ends[0].info(pair.now).timeouts, 0);
        let cwnd = pair.ends[0].info(pair.now).cwnd;
        assert!(cwnd < 50_000, "what the rate does not use does not grow: {cwnd}");
        let now = pair.now;
        pair.ends[0].set_max_pacing_rate(now, None).unwrap();
        assert!(pair.transfer(200_000) < Duration::from_millis(500));
    }
}

#[test]
fn bound_below_a_segment_a_timeout_gives_nobody_up() {
    // 8 kbit/s: two segments take three seconds, longer than any retransmission timeout here.
    let path: Path =
        Box::new(|side, number| if side == 0 && number == 2 { Fate::Drop } else { Fate::Deliver(DELAY) });
    let tcp = TcpConfig { pacing_rate_max: Some(1_000), ..TcpConfig::default() };
    let mut pair = Pair::established([tcp.clone(), tcp], path);
    let took = pair.transfer(20_000);
    assert!(took < Duration::from_secs(25), "{took:?}");
    assert!(pair.ends[0].info(pair.now).timeouts <= 1, "{}", pair.ends[0].info(pair.now).timeouts);
}

#[test]
fn acknowledgements_and_a_lone_fin_do_not_wait() {
    let tcp = TcpConfig { pacing_rate_max: Some(1_000), ..TcpConfig::default() };
    let mut pair = established(&tcp);
    let now = pair.now;
    pair.ends[0].write(now, &[0; 2_800]).unwrap();
    pair.ends[1].write(now, &[0; 1_000]).unwrap();
    pair.run_for(Duration::from_millis(30));
    // End 0 has used up three seconds of its rate.
    let now = pair.now;
    pair.ends[0].shutdown(now).unwrap();
    pair.run_for(Duration::from_millis(30));
    assert!(pair.ends[1].is_flushed() && pair.ends[0].is_flushed(), "{:?}", pair.ends[0].info(pair.now));
}

#[test]
fn large_segments_are_no_larger_than_a_quantum() {
    let size_max = |tcp: &TcpConfig| {
        let mut pair = established(tcp);
        pair.limits = Limits { gso_max_v4: 65_536, gso_max_v6: 65_536, tx_checksum: true };
        let sent = departures(&mut pair, 2 << 20);
        sent.iter().map(|&(_, _, len)| len).max()
    };
    let slow = TcpConfig { pacing_rate_max: Some(10_000_000), ..TcpConfig::default() };
    assert_eq!(size_max(&slow), Some(6 * 1448), "10 MB/s: 10,000 bytes in a millisecond");
    assert_eq!(size_max(&unpaced()), Some(65_160 / 1448 * 1448));
}

#[test]
fn late_timers_do_not_slow_a_transfer_down() {
    let took = |late: Duration| {
        let tcp = TcpConfig { pacing_rate_max: Some(1_250_000), ..TcpConfig::default() };
        let mut pair = established(&tcp);
        pair.late = late;
        pair.transfer(4 << 20)
    };
    let (prompt, late) = (took(Duration::ZERO), took(Duration::from_millis(30)));
    assert!(late <= prompt + prompt / 20, "{late:?}, {prompt:?} with prompt timers");
}

#[test]
fn round_trip_below_the_timer_needs_no_pacer() {
    let tcp = TcpConfig::default();
    let path: Path = Box::new(|_, _| Fate::Deliver(Duration::from_micros(50)));
    let mut pair = Pair::crossing([tcp.clone(), tcp], software(1500), path);
    pair.run_for(Duration::from_millis(10));
    pair.transfer(1 << 20);
    assert!(pair.ends.iter().all(|end: &Connection| end.pacer.is_none()));
    assert!(pair.ends[0].info(pair.now).pacing_rate.is_some(), "it is told all the same");
}
