//! When received data is acknowledged: today's policy and that of 4.3BSD, at the receiver of a live
//! connection.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_wire::{Codepoint, Fields};

use super::lone::{Lone, SMSS};
use super::*;
use crate::profile::{AckPolicy, Choices};

const LAZY: AckPolicy = AckPolicy::BSD_4_3;
const SEGMENTS: usize = 410;
/// With segments four milliseconds apart, these have not arrived four milliseconds after the last one has
/// left.
const IN_TRANSIT: u64 = 2;
const SPACING: Duration = Duration::from_millis(4);
/// 35 % of it are eight segments.
const WINDOW: usize = 32 << 10;

/// A receiver of this policy, with a window that does not grow.
fn receiver(acks: AckPolicy) -> TcpConfig {
    TcpConfig {
        receive_buffer_max: WINDOW,
        choices: Choices { acks, sack: false, ..Choices::default() },
        ..TcpConfig::default()
    }
}

/// A sender that only the application and the receiver limit.
fn sender() -> TcpConfig {
    TcpConfig {
        choices: Choices { initial_window_segments: 40, ..Choices::default() },
        ..TcpConfig::default()
    }
}

/// Evenly spaced data segments from side 0 to side 1, each read at once, and the acknowledgements for them.
fn exchanged(configs: [TcpConfig; 2], segments: usize) -> [u64; 2] {
    let mut pair = ConnectionPair::established(configs, perfect());
    send_evenly(&mut pair, segments);
    pair.packets
}

fn send_evenly(pair: &mut ConnectionPair, segments: usize) {
    let smss = pair.ends[0].info(pair.now).snd_mss as usize;
    let mut buffer = vec![0; 1 << 16];
    for _ in 0..segments {
        pair.ends[0].write(pair.now, &vec![1; smss]).unwrap();
        pair.run_for(SPACING);
        let _ = pair.ends[1].read(pair.now, &mut buffer);
    }
    assert_eq!(pair.ends[0].info(pair.now).retransmits, 0);
}

// J5: at least every second full segment.
#[test]
fn every_second_segment_is_acknowledged_at_once() {
    // Tests: J5
    let [data, acks] = exchanged([sender(), receiver(AckPolicy::EVERY_SECOND)], SEGMENTS);
    assert_eq!((data, acks), (SEGMENTS as u64, (SEGMENTS as u64 - IN_TRANSIT) / 2));
}

// J5: "an ack was delayed for 5-7 packets on the average" (Jacobson and Karels 1988, fig. 9).
#[test]
fn lazy_receiver_waits_for_a_share_of_the_window() {
    // Tests: J5
    // Eight segments, or fewer where the clock ticks: every 200 ms, in which 50 come.
    let [data, acks] = exchanged([sender(), receiver(LAZY)], SEGMENTS);
    let ticks = SEGMENTS as u64 * 4 / 200 + 1;
    let full = SEGMENTS as u64 / 8;
    assert_eq!(data, SEGMENTS as u64);
    assert!((full..=full + ticks).contains(&acks), "{acks} for {full} shares and {ticks} ticks");
}

/// When side 1 acknowledges, after `segments` have been sent to it at the start of this.
fn acknowledged(acks: AckPolicy, segments: usize, lost: Option<u64>) -> Vec<Duration> {
    let times = Rc::new(RefCell::new(Vec::new()));
    let mut pair = ConnectionPair::established([receiver(acks), receiver(acks)], perfect());
    let (start, counted) = (pair.now, Rc::clone(&times));
    let clock = Rc::new(RefCell::new(start));
    let seen = Rc::clone(&clock);
    pair.path = Box::new(move |side, number| {
        if side == 1 {
            counted.borrow_mut().push(seen.borrow().saturating_since(start));
        }
        if side == 0 && Some(number) == lost { Fate::Drop } else { Fate::Deliver(DELAY) }
    });
    let smss = pair.ends[0].info(pair.now).snd_mss as usize;
    pair.ends[0].set_nodelay(pair.now, true);
    pair.ends[0].write(pair.now, &vec![1; segments * smss]).unwrap();
    // Below the sender's own timers.
    while pair.step(start + Duration::from_millis(199) + DELAY) {
        *clock.borrow_mut() = pair.now;
    }
    times.take()
}

#[test]
fn delays_end_at_their_time() {
    let ms = Duration::from_millis;
    assert_eq!(acknowledged(AckPolicy::EVERY_SECOND, 1, None), [DELAY + ms(40)]);
    // Whenever the segment came, the tick is the clock's. Tests: J5
    for ticks in [
        AckPolicy::EverySecondByTick { tick: ms(70) },
        AckPolicy::WindowShare { percent: 35, delay_max: ms(70) },
    ] {
        let mut pair = ConnectionPair::established([receiver(ticks), receiver(ticks)], perfect());
        let mut deadlines = [0, 33, 500].map(|pause| {
            pair.now += ms(pause);
            pair.ends[0].write(pair.now, b"x").unwrap();
            pair.step(pair.now + DELAY);
            let deadline = pair.ends[1].poll_timeout().unwrap();
            assert!(deadline > pair.now && deadline <= pair.now + ms(70), "{deadline:?}");
            pair.run_for(ms(200));
            deadline
        });
        deadlines.sort();
        assert_eq!(deadlines[1].nanos_since(deadlines[0]) % 70_000_000, 0, "{deadlines:?}");
        assert_eq!(deadlines[2].nanos_since(deadlines[0]) % 70_000_000, 0, "{deadlines:?}");
    }
    // No configuration delays longer than RFC 9293 allows. Tests: RFC 9293 MUST-40
    let forever = AckPolicy::EverySecondSegment { delay_max: ms(5000) };
    let mut pair = ConnectionPair::established([receiver(forever), receiver(forever)], perfect());
    pair.ends[0].write(pair.now, b"x").unwrap();
    pair.step(pair.now + DELAY);
    let deadline = pair.ends[1].poll_timeout().unwrap();
    assert!(deadline < pair.now + ms(500), "{deadline:?}");
}

// Tests: RFC 9293 MAY-13
#[test]
fn gap_is_told_at_once_today_and_was_not_in_1987() {
    // Tests: J5
    let today = acknowledged(AckPolicy::EVERY_SECOND, 8, Some(2));
    assert_eq!(
        today.iter().filter(|&&at| at == DELAY).count(),
        6,
        "one for two in order, five duplicates: {today:?}"
    );
    let lazy = acknowledged(
        AckPolicy::WindowShare { percent: 35, delay_max: Duration::from_millis(150) },
        8,
        Some(2),
    );
    assert!(
        matches!(lazy[..], [at] if (DELAY..=DELAY + Duration::from_millis(150)).contains(&at)),
        "{lazy:?}"
    );
}

#[test]
fn policy_of_an_open_connection_changes() {
    let mut pair = ConnectionPair::established([sender(), receiver(AckPolicy::EVERY_SECOND)], perfect());
    pair.ends[1].set_acks(LAZY).unwrap();
    assert!(pair.ends[1].set_acks(AckPolicy::WindowShare { percent: 101, delay_max: DELAY }).is_err());
    send_evenly(&mut pair, SEGMENTS);
    assert!(pair.packets[1] < pair.packets[0] / 7, "{:?}", pair.packets);
}

/// RFC 9293 §3.4: an acknowledgement says what has arrived when it leaves. A lazy receiver owes one for text
/// that came twice in part, more arrives, and its own data leaves first with the news: the older one never
/// follows.
#[test]
fn acknowledgements_never_go_back_where_a_lazy_receiver_sends_data() {
    let tcp = TcpConfig { choices: Choices { acks: LAZY, ..Choices::default() }, ..TcpConfig::default() };
    let mut lone = Lone::new(tcp);
    let una = lone.end.snd.flight().una().seq();
    let first = lone.ack(una, 65_535);
    let half = SMSS as u32 / 2;
    for seq in [0, half, 3 * half].map(|ahead| first.seq + ahead) {
        lone.give(&Fields { seq, ..first }, Codepoint::NotEct, &[1; SMSS]);
    }
    lone.end.write(lone.now, &[1; 100]).unwrap();
    let mut header = [0; HEADER_MAX];
    let mut acks = Vec::new();
    loop {
        while let Some(out) = lone.end.poll_transmit(lone.now, lone.limits, true, &mut header) {
            let at = usize::from(out.transport_offset) + 8;
            let ack = SeqNum::new(u32::from_be_bytes(header[at..at + 4].try_into().unwrap()));
            acks.push((out.payload_len, ack.offset_from(first.seq)));
        }
        if acks.last().is_some_and(|&(len, _)| len == 0) || lone.now >= Instant::from_millis(101_000) {
            break;
        }
        lone.expire();
    }
    let all = 5 * half;
    assert_eq!(acks[0], (100, all));
    assert!(acks.iter().all(|&(_, ack)| ack == all), "{acks:?}");
}
