//! Goal: the trace of a connection alone shows the data sent, the losses and their rules, the causes of
//! window changes, and the limits of sending.

use std::time::Duration;

use ackclock_wire::icmp::IcmpKind;

use super::{ConnectionPair, Fate};
use crate::profile::Choices;
use crate::trace::{Entry, Limit, LossRule, Reader, SendReason, Timer, TraceConfig, WindowCause};
use crate::{Instant, TcpConfig};

const MS: Duration = Duration::from_millis(1);

/// 200 KB from end 0 to end 1, 10 ms each way, without the packets of end 0 in `lost`.
fn transfer(tcp: TcpConfig, lost: &'static [u64]) -> ConnectionPair {
    let path =
        move |side, n| if side == 0 && lost.contains(&n) { Fate::Drop } else { Fate::Deliver(10 * MS) };
    let mut pair = ConnectionPair::established([tcp.clone(), tcp], Box::new(path));
    pair.trace(0);
    pair.trace(1);
    pair.transfer(200_000);
    pair
}

fn entries(pair: &ConnectionPair, end: usize) -> impl Iterator<Item = Entry> {
    pair.traced(end).into_iter().map(|(_, entry)| entry)
}

#[test]
fn what_left_is_what_arrived() {
    let pair = transfer(TcpConfig::default(), &[]);
    let sent: Vec<_> = entries(&pair, 0)
        .filter_map(|entry| match entry {
            Entry::Sent { seq, len, .. } if len > 0 => Some((seq, len)),
            _ => None,
        })
        .collect();
    let received: Vec<_> = entries(&pair, 1)
        .filter_map(|entry| match entry {
            Entry::Received { seq, len, .. } if len > 0 => Some((seq, len)),
            _ => None,
        })
        .collect();
    assert_eq!(sent, received);
    // The first begins one byte after the SYN, and each where the last ended.
    assert_eq!(sent[0].0, 1);
    assert!(sent.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0));
    assert_eq!(sent.iter().map(|&(_, len)| len).sum::<u32>(), 200_000);
}

#[test]
fn each_retransmission_lies_in_what_a_rule_had_declared_lost() {
    let pair = transfer(TcpConfig::default(), &[20, 21, 40]);
    let mut lost = Vec::new();
    let mut repeated = 0;
    for entry in entries(&pair, 0) {
        match entry {
            Entry::Lost { rule, start, end } => lost.push((rule, start, end)),
            Entry::Sent { reason: SendReason::Retransmission, seq, len, .. } => {
                repeated += len;
                assert!(
                    lost.iter().any(|&(_, start, end)| start <= seq && seq + len <= end),
                    "{seq} {lost:?}"
                );
            }
            _ => {}
        }
    }
    assert_eq!(u64::from(repeated), pair.ends[0].info(pair.now).bytes_retransmitted);
    assert!(
        repeated >= 2 * 1400 && lost.iter().all(|&(rule, ..)| rule == LossRule::LaterDelivered),
        "{lost:?}"
    );
}

#[test]
fn windows_follow_from_their_causes() {
    let pair = transfer(TcpConfig::default(), &[40]);
    let windows: Vec<_> = entries(&pair, 0)
        .filter_map(|entry| match entry {
            Entry::Window { cause, cwnd, ssthresh } => Some((cause, cwnd, ssthresh)),
            _ => None,
        })
        .collect();
    let loss = windows.iter().position(|&(cause, ..)| cause == WindowCause::LossEpisode).expect("a loss");
    assert!(windows[1..loss].iter().all(|&(cause, ..)| cause == WindowCause::Acked), "{windows:?}");
    assert!(windows[loss].1 < windows[loss - 1].1, "a loss halves, or nearly: {windows:?}");
    let last = windows.last().expect("a window");
    let info = pair.ends[0].info(pair.now);
    assert_eq!((u64::from(last.1), Some(u64::from(last.2))), (info.cwnd, info.ssthresh));
}

#[test]
fn the_trace_says_what_sending_waits_for() {
    let limits = |tcp: TcpConfig| -> Vec<Limit> {
        let limit = |entry| match entry {
            Entry::Limited { by, .. } => Some(by),
            _ => None,
        };
        entries(&transfer(tcp, &[]), 0).filter_map(limit).collect()
    };
    let unpaced =
        TcpConfig { choices: Choices { pacing: false, ..Choices::default() }, ..TcpConfig::default() };
    let found = limits(unpaced.clone());
    assert!(found.contains(&Limit::Cwnd) && !found.contains(&Limit::PacedCwnd), "{found:?}");
    assert_eq!(found.last(), Some(&Limit::Application));
    // The window's pace is not a rate that anyone chose.
    let paced = limits(TcpConfig::default());
    assert!(paced.contains(&Limit::PacedCwnd) && !paced.contains(&Limit::RateCap), "{paced:?}");
    let capped = limits(TcpConfig { pacing_rate_max: Some(1_000_000), ..TcpConfig::default() });
    assert!(capped.contains(&Limit::RateCap), "{capped:?}");
    let small = TcpConfig { receive_buffer_max: 8 << 10, ..unpaced };
    assert!(limits(small).contains(&Limit::PeerWindow));
}

#[test]
fn writer_without_room_is_limited_by_the_send_buffer_and_then_by_the_host() {
    let tcp = TcpConfig { send_buffer_max: 8 << 10, ..TcpConfig::default() };
    let mut pair = ConnectionPair::established([tcp.clone(), tcp], Box::new(|_, _| Fate::Deliver(10 * MS)));
    let now = pair.now;
    let written = pair.ends[0].write(now, &[0; 100_000]).expect("there is room");
    assert!(written < 100_000);
    pair.run_for(MS);
    // Nagle's algorithm holds the rest of the buffer, but only because no more fits behind it.
    assert_eq!(pair.ends[0].limited_by(), Limit::SendBuffer);
    pair.run_for(40 * MS);
    assert_eq!(pair.ends[0].limited_by(), Limit::Host, "the writer has heard of room, and has not run");
    // A write that fits shows that the application has no more.
    let now = pair.now;
    assert_eq!(pair.ends[0].write(now, &[0; 100]), Ok(100));
    pair.run_for(40 * MS);
    assert_eq!(pair.ends[0].limited_by(), Limit::Application);
}

#[test]
fn data_that_the_driver_leaves_is_held_by_the_host() {
    let held = |late: Duration| {
        let path = Box::new(|_, _| Fate::Deliver(10 * MS));
        let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], path);
        pair.trace(0);
        let now = pair.now;
        pair.ends[0].write(now, &[0; 100]).expect("there is room");
        assert_eq!(pair.ends[0].limited_by(), Limit::Host);
        pair.now = now + late;
        pair.run_for(40 * MS);
        entries(&pair, 0).filter(|entry| matches!(entry, Entry::HeldByHost { .. })).collect::<Vec<_>>()
    };
    assert_eq!(held(5 * MS), [Entry::HeldByHost { for_us: 5000 }]);
    assert_eq!(held(Duration::ZERO), []);
}

#[test]
fn a_timer_that_fires_late_says_by_how_much() {
    let mut pair = ConnectionPair::established(
        [TcpConfig::default(), TcpConfig::default()],
        Box::new(|side, _| if side == 0 { Fate::Drop } else { Fate::Deliver(10 * MS) }),
    );
    pair.trace(0);
    let now = pair.now;
    pair.ends[0].write(now, &[0; 100]).expect("there is room");
    pair.run_for(MS);
    let deadline = pair.ends[0].poll_timeout().expect("a timer runs");
    pair.ends[0].handle_timeout(deadline + 7 * MS);
    let traced = pair.traced(0);
    let set: Vec<Instant> = traced
        .iter()
        .filter_map(|&(at, entry)| match entry {
            Entry::TimerSet { timer: Timer::TailProbe | Timer::Retransmission, in_us } => {
                Some(at + Duration::from_micros(in_us.into()))
            }
            _ => None,
        })
        .collect();
    let close = |at: &Instant| deadline.saturating_since(*at) < Duration::from_micros(1);
    assert!(set.iter().any(close), "{set:?}, not {deadline:?}");
    let late: Vec<_> = traced
        .iter()
        .filter_map(|&(at, entry)| match entry {
            Entry::TimerFired { late_us, .. } => Some((at, late_us)),
            _ => None,
        })
        .collect();
    assert_eq!(late, [(deadline + 7 * MS, 7000)]);
}

#[test]
fn the_controllers_own_numbers_have_names() {
    let mut pair = transfer(TcpConfig::default(), &[40]);
    // The numbers are recorded a few times in a round trip; this segment's acknowledgement is the last of
    // all.
    pair.run_for(100 * MS);
    pair.transfer(1000);
    pair.run_for(100 * MS);
    let values: Vec<_> = entries(&pair, 0)
        .filter_map(|entry| match entry {
            Entry::Controller { name, value } => Some((usize::from(name), value)),
            _ => None,
        })
        .collect();
    let now = pair.now;
    let snapshot = pair.ends[0].info(now).controller;
    let (names, ..) = pair.ends[0].take_trace(Reader::Trace);
    assert_eq!(snapshot.iter().map(|(name, _)| name).collect::<Vec<_>>(), names);
    for (place, (name, value)) in snapshot.iter().enumerate() {
        let last = values.iter().rev().find(|&&(at, _)| at == place);
        assert_eq!(last, Some(&(place, value)), "{name}");
    }
}

#[test]
fn what_a_router_could_not_carry_goes_out_again_for_that_reason() {
    let path = |_, _| Fate::Deliver(10 * MS);
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], Box::new(path));
    pair.trace(0);
    let now = pair.now;
    pair.ends[0].write(now, &[0; 5000]).expect("there is room");
    pair.run_for(MS);
    let first = pair.ends[0].snd.flight().una().seq();
    let outstanding = pair.ends[0].info(pair.now).in_flight;
    pair.ends[0].handle_icmp(pair.now, IcmpKind::PacketTooBig { mtu: 1000 }, first);
    pair.run_for(100 * MS);
    let lost = |entry: &Entry| matches!(entry, Entry::Lost { rule: LossRule::TooBig, .. });
    let declared = entries(&pair, 0).position(|entry| lost(&entry)).expect("declared lost");
    let again = |entry: &Entry| matches!(entry, Entry::Sent { reason: SendReason::Retransmission, .. });
    assert!(entries(&pair, 0).position(|entry| again(&entry)).is_some_and(|sent| sent > declared));
    assert!(pair.ends[0].info(pair.now).losses.of(LossRule::TooBig) == outstanding);
    assert!(outstanding > 1000);
}

/// The segment sizes that an end recorded.
fn segment_sizes(pair: &ConnectionPair, end: usize) -> Vec<u32> {
    let size = |entry| match entry {
        Entry::SegmentSize { bytes } => Some(bytes),
        _ => None,
    };
    entries(pair, end).filter_map(size).collect()
}

#[test]
fn the_segment_size_is_written_down_and_again_when_it_changes() {
    let traced = TcpConfig { trace: Some(TraceConfig::FULL), ..TcpConfig::default() };
    let mut pair =
        ConnectionPair::established([traced.clone(), traced], Box::new(|_, _| Fate::Deliver(10 * MS)));
    // 1,500 bytes less 20 of IP, 20 of TCP and 12 of timestamps.
    assert_eq!((segment_sizes(&pair, 0), segment_sizes(&pair, 1)), (vec![1448], vec![1448]));
    pair.ends[0].set_mtu(pair.now, 1500);
    assert_eq!(segment_sizes(&pair, 0), [1448], "nothing has changed");
    pair.ends[0].set_mtu(pair.now, 1000);
    assert_eq!(segment_sizes(&pair, 0), [1448, 948]);
    // A trace that starts during a connection begins with it.
    pair.trace(0);
    assert_eq!(segment_sizes(&pair, 0), [948]);
}

#[test]
fn a_duplicate_reported_when_nothing_is_outstanding_is_written_down() {
    // The first segment is slower than the timer's retransmission.
    let path = |side, n| Fate::Deliver(if side == 0 && n == 0 { 3000 * MS } else { 10 * MS });
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], Box::new(path));
    pair.trace(0);
    let reports = |pair: &ConnectionPair| {
        let entries: Vec<Entry> = entries(pair, 0).collect();
        let is_report = |window: &&[Entry]| match **window {
            [Entry::Acked { ack, .. }, Entry::Sacked { left, right }] => left < right && right <= ack,
            _ => false,
        };
        entries.windows(2).filter(is_report).count()
    };
    pair.ends[0].write(pair.now, &[0; 1000]).expect("there is room");
    pair.run_for(2900 * MS);
    let info = pair.ends[0].info(pair.now);
    assert_eq!((info.unacked, info.bytes_retransmitted, reports(&pair)), (0, 1000, 0));
    pair.run_for(200 * MS);
    assert_eq!(reports(&pair), 1);
}
