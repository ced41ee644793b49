//! Connections with a pacing schedule, in virtual time.

use std::time::Duration;

use super::{ConnectionPair, DELAY, Fate, PathRule, perfect, software};
use crate::profile::Choices;
use crate::trace::{Entry, Limit, SendReason};
use crate::{Instant, Limits, TcpConfig};

/// Times, payloads and reasons of what end 0 of a pair sent while it moved `bytes`, from its trace.
fn departures(pair: &mut ConnectionPair, bytes: usize) -> Vec<(Instant, SendReason, u32)> {
    pair.trace(0);
    pair.transfer(bytes);
    let entries = pair.traced(0).into_iter().filter_map(|(at, entry)| match entry {
        Entry::Sent { reason, len, .. } if len > 0 => Some((at, reason, len)),
        _ => None,
    });
    entries.collect()
}

/// Whether the pacing rate ever held end 0 back, by its trace.
fn was_paced(pair: &ConnectionPair) -> bool {
    let rates = [Limit::Pacing, Limit::PacedCwnd, Limit::RateCap];
    pair.traced(0).iter().any(|(_, entry)| matches!(entry, Entry::Limited { by, .. } if rates.contains(by)))
}

/// The most payload that left at one instant.
fn burst_max(departures: &[(Instant, SendReason, u32)]) -> u32 {
    let same_time = departures.chunk_by(|one, next| one.0 == next.0);
    same_time.map(|burst| burst.iter().map(|&(_, _, len)| len).sum()).max().unwrap_or(0)
}

fn established(tcp: &TcpConfig) -> ConnectionPair {
    let mut pair = ConnectionPair::established([tcp.clone(), tcp.clone()], perfect());
    // A simultaneous open measures no round trip, and a receiver without one cannot tune its window by it.
    let now = pair.now;
    pair.ends[1].write(now, &[0]).unwrap();
    pair.run_for(Duration::from_millis(100));
    pair
}

fn unpaced() -> TcpConfig {
    TcpConfig { choices: Choices { pacing: false, ..Choices::default() }, ..TcpConfig::default() }
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
    // On a path without a rate, everything sent at one time is acknowledged at one time, and doubled.
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
        || -> PathRule {
            Box::new(|side, number| {
                if side == 0 && (100..130).contains(&number) { Fate::Drop } else { Fate::Deliver(DELAY) }
            })
        };
    let tcp = TcpConfig::default();
    let mut pair = ConnectionPair::established([tcp.clone(), tcp], path());
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
    let path: PathRule =
        Box::new(|side, number| if side == 0 && number == 2 { Fate::Drop } else { Fate::Deliver(DELAY) });
    let tcp = TcpConfig { pacing_rate_max: Some(1_000), ..TcpConfig::default() };
    let mut pair = ConnectionPair::established([tcp.clone(), tcp], path);
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
fn large_segments_are_no_larger_than_what_one_wait_lets_go() {
    let size_max = |tcp: &TcpConfig| {
        let mut pair = established(tcp);
        pair.limits = Limits { gso_max_v4: 65_536, gso_max_v6: 65_536, tx_checksum: true };
        let sent = departures(&mut pair, 2 << 20);
        sent.iter().map(|&(_, _, len)| len).max()
    };
    let slow = TcpConfig { pacing_rate_max: Some(10_000_000), ..TcpConfig::default() };
    assert_eq!(size_max(&slow), Some(13 * 1448), "10 MB/s: 20,000 bytes in two granularities");
    assert_eq!(size_max(&unpaced()), Some(65_160 / 1448 * 1448));
}

#[test]
fn a_packet_that_is_not_whole_waits_for_a_writer_that_goes_on_if_one_is_in_flight() {
    // A whole one has 45 segments; the window has room for more than two of them.
    let whole = 65_160;
    let unsent = |pair: &ConnectionPair| pair.ends[0].snd.unsent();
    let mut pair = established(&unpaced());
    pair.limits = Limits { gso_max_v4: 65_536, gso_max_v6: 65_536, tx_checksum: true };
    pair.transfer(2 << 20);
    let write = |pair: &mut ConnectionPair, len: usize, more: bool| {
        let now = pair.now;
        pair.ends[0].set_more_follows(more);
        assert_eq!(pair.ends[0].write(now, &vec![0; len]), Ok(len));
        pair.run_for(Duration::ZERO);
        unsent(pair)
    };
    assert_eq!(write(&mut pair, 5 * 1448, true), 0, "nothing is in flight");
    assert_eq!(write(&mut pair, whole + 1448, true), 1448, "a whole one, and a segment behind it");
    assert_eq!(write(&mut pair, whole, true), 1448, "which the next one takes along");
    assert_eq!(write(&mut pair, 1448, false), 0, "nothing follows");
    assert_eq!(write(&mut pair, 1448, true), 1448);
    let now = pair.now;
    pair.ends[0].shutdown(now).unwrap();
    pair.run_for(Duration::ZERO);
    assert_eq!(unsent(&pair), 0, "nothing can follow the end");
}

#[test]
fn a_window_keeps_its_throughput_where_timers_tick_by_a_good_part_of_its_round_trip() {
    // Losses keep the window small, so that a larger one cannot make up for a wait that is too long. Slow
    // start, whose losses meet different windows, is over when the clock starts. Fewer bytes would measure
    // which of few losses met which window.
    let took = |tcp: TcpConfig, late: Duration, rtt: Duration| {
        let path = move |side, number| {
            if side == 0 && number % 200 == 199 { Fate::Drop } else { Fate::Deliver(rtt / 2) }
        };
        let mut pair = ConnectionPair::established([tcp.clone(), tcp], Box::new(path));
        pair.late = late;
        pair.transfer(2 << 20);
        pair.transfer(24 << 20)
    };
    for rtt in [3_000, 5_000].map(Duration::from_micros) {
        for late in [0, 500, 1_000].map(Duration::from_micros) {
            let paced = took(TcpConfig::default(), late, rtt);
            let unpaced = took(unpaced(), late, rtt);
            let ratio = paced.as_secs_f64() / unpaced.as_secs_f64();
            assert!((0.95..1.05).contains(&ratio), "{rtt:?}, timers {late:?} late: {ratio}");
        }
    }
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
    let path: PathRule = Box::new(|_, _| Fate::Deliver(Duration::from_micros(50)));
    let mut pair = ConnectionPair::crossing([tcp.clone(), tcp], software(1500), path);
    pair.run_for(Duration::from_millis(10));
    pair.transfer(1 << 20);
    assert!(pair.ends.iter().all(|end| end.snd.flight().is_unpaced()));
    assert!(pair.ends[0].info(pair.now).pacing_rate.is_some(), "the rate is reported all the same");
}
