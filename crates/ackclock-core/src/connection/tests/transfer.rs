//! Transfers over paths with loss, and the sender's response.

use std::time::Duration;

use ackclock_wire::random::Rng;

use super::*;
use crate::profile::{Choices, Recovery};
use crate::trace::Limit;

pub(super) fn losing(numbers: &'static [u64]) -> PathRule {
    Box::new(
        move |side, number| {
            if side == 0 && numbers.contains(&number) { Fate::Drop } else { Fate::Deliver(DELAY) }
        },
    )
}

fn without_sack() -> TcpConfig {
    TcpConfig { choices: Choices { sack: false, ..Choices::default() }, ..TcpConfig::default() }
}

#[test]
fn crossing_opens_meet_in_established() {
    // Tests: RFC 9293 MUST-10
    let pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    assert!(pair.ends.iter().all(|end| end.is_established() && end.error().is_none()));
    // RFC 7323 §2.2: the window of a SYN is never scaled, and nothing else has arrived yet.
    assert!(pair.ends.iter().all(|end| end.info(pair.now).snd_wnd <= 65_535));
}

#[test]
fn megabytes_arrive_on_a_perfect_path_without_retransmission() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    pair.transfer(4 << 20);
    let info = pair.ends[0].info(pair.now);
    assert_eq!((info.retransmits, info.timeouts), (0, 0));
}

#[test]
fn super_segments_arrive_whole() {
    // With pacing their size would follow the rate, which is small while the window is.
    let tcp = TcpConfig { choices: Choices { pacing: false, ..Choices::default() }, ..TcpConfig::default() };
    let mut pair = ConnectionPair::established([tcp.clone(), tcp], perfect());
    pair.limits = Limits { gso_max_v4: 65_536, gso_max_v6: 65_536, tx_checksum: true };
    pair.transfer(4 << 20);
    let info = pair.ends[0].info(pair.now);
    assert!(
        info.segments_sent > 10 * pair.packets[0],
        "{} segments in {} packets",
        info.segments_sent,
        pair.packets[0]
    );
}

#[test]
fn one_lost_segment_is_sent_again_once_and_without_a_timeout() {
    for tcp in [TcpConfig::default(), without_sack()] {
        let mut pair = ConnectionPair::established([tcp.clone(), tcp], losing(&[40]));
        pair.transfer(1 << 20);
        let info = pair.ends[0].info(pair.now);
        assert_eq!((info.retransmits, info.timeouts, info.loss_episodes), (1, 0, 1));
    }
}

#[test]
fn a_writer_that_always_has_more_is_the_limit_at_no_time_of_a_recovery() {
    // SND.UNA does not move for a round trip, so no written data leaves the buffer: what may be sent beyond
    // the hole must find room behind it.
    let offers_much = TcpConfig { receive_buffer_initial: 4 << 20, ..TcpConfig::default() };
    for lost in (50..400).step_by(10) {
        let path = move |side, number| {
            if side == 0 && number == lost { Fate::Drop } else { Fate::Deliver(DELAY) }
        };
        let mut pair =
            ConnectionPair::established([TcpConfig::default(), offers_much.clone()], Box::new(path));
        pair.trace(0);
        pair.transfer(4 << 20);
        let traced = pair.traced(0);
        let begins = traced.iter().position(|(_, entry)| matches!(entry, Entry::Lost { .. })).unwrap();
        let ends = traced.iter().position(|(_, entry)| matches!(entry, Entry::Recovered)).unwrap();
        let starved = |entry: &Entry| matches!(entry, Entry::Limited { by: Limit::Application, .. });
        let starved: Vec<_> = traced[begins..ends].iter().filter(|(_, entry)| starved(entry)).collect();
        assert!(starved.is_empty(), "packet {lost}: {starved:?}");
    }
}

#[test]
fn several_losses_in_one_window_are_one_episode() {
    // Tests: V2
    for tcp in [TcpConfig::default(), without_sack()] {
        let mut pair = ConnectionPair::established([tcp.clone(), tcp], losing(&[60, 62, 64]));
        pair.transfer(1 << 20);
        let info = pair.ends[0].info(pair.now);
        assert_eq!((info.retransmits, info.timeouts, info.loss_episodes), (3, 0, 1));
    }
}

#[test]
fn a_lost_tail_waits_for_the_timer_which_sends_one_segment() {
    // Tests: RFC 2525 14
    let tcp = TcpConfig {
        choices: Choices { recovery: Recovery::Sack, ..Choices::default() },
        ..TcpConfig::default()
    };
    let mut pair = ConnectionPair::established([tcp.clone(), tcp], losing(&[5, 6]));
    let took = pair.transfer(7 * 1448);
    let info = pair.ends[0].info(pair.now);
    assert_eq!(info.timeouts, 1);
    assert!(took >= Duration::from_millis(200), "the timer is not shorter than its minimum: {took:?}");
}

#[test]
fn every_tenth_packet_lost_both_ways_still_completes() {
    for tcp in [TcpConfig::default(), without_sack()] {
        let path: PathRule =
            Box::new(
                |side, number| {
                    if number % 10 == 3 + side as u64 { Fate::Drop } else { Fate::Deliver(DELAY) }
                },
            );
        let mut pair = ConnectionPair::established([tcp.clone(), tcp], path);
        pair.transfer(1 << 19);
    }
}

#[test]
fn both_ends_close_and_time_wait_ends() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    let now = pair.now;
    pair.ends[0].shutdown(now).unwrap();
    pair.run_for(Duration::from_millis(50));
    assert_eq!(pair.states(), [State::FinWait2, State::CloseWait]);
    let now = pair.now;
    pair.ends[1].shutdown(now).unwrap();
    pair.run_for(Duration::from_millis(50));
    assert_eq!(pair.states(), [State::TimeWait, State::Closed]);
    pair.run_for(Duration::from_secs(61));
    assert_eq!(pair.states(), [State::Closed, State::Closed]);
    assert!(pair.ends.iter().all(|end| end.error().is_none() && end.is_gone()));
}

#[test]
fn the_window_offered_at_first_is_what_was_asked_for() {
    for (initial, max, offered) in
        [(3_000, 6 << 20, 3_000), (200_000, 200_000, 200_000), (9_000, 4_000, 4_000)]
    {
        let tcp =
            TcpConfig { receive_buffer_initial: initial, receive_buffer_max: max, ..TcpConfig::default() };
        let mut pair = ConnectionPair::established([TcpConfig::default(), tcp], perfect());
        for _ in 0..20 {
            let now = pair.now;
            let _ = pair.ends[0].write(now, &vec![1; 100_000]);
            pair.run_for(Duration::from_secs(1));
        }
        // The application does not read: what fits the advertised window is accepted, and no more.
        let held = pair.ends[1].readable();
        assert!((offered..offered + 1460).contains(&held), "{held} bytes of {offered}");
    }
}

/// 8 MB over 20 ms. At 64 KiB a round trip they take 2.6 s; where both windows double, twelve round trips are
/// enough for the first 8 MB, and the window offered may need as many again.
#[test]
fn the_window_offered_grows_where_the_receiver_has_no_sample() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    assert_eq!(pair.ends[1].info(pair.now).rtt_min, Duration::ZERO);
    let took = pair.transfer(8_000_000);
    assert!((12 * DELAY..=48 * DELAY).contains(&took), "{took:?}");
}

/// 8 MB over 100 ms, by ends that have measured 20 ms. At 64 KiB a round trip they take 12 s. A second passes
/// before the receiver doubts what it has measured, then its window doubles: seven times are enough.
#[test]
fn the_window_offered_grows_where_the_path_has_become_longer() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    let now = pair.now;
    // Two segments are acknowledged at once.
    pair.ends[1].write(now, &[0; 2920]).unwrap();
    pair.run_for(10 * DELAY);
    assert_eq!(pair.ends[1].info(pair.now).rtt_min, 2 * DELAY);
    pair.path = Box::new(|_, _| Fate::Deliver(5 * DELAY));
    let took = pair.transfer(8_000_000);
    assert!((12 * 5 * DELAY..=Duration::from_secs(5)).contains(&took), "{took:?}");
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    // Tests: RFC 9293 MUST-36, RFC 9293 MUST-37, RFC 9293 SHLD-30
    let receiver = TcpConfig { receive_buffer_max: 20_000, ..TcpConfig::default() };
    let mut pair = ConnectionPair::established([TcpConfig::default(), receiver], perfect());
    let data: Vec<u8> = (0..60_000).map(pattern).collect();
    let now = pair.now;
    assert_eq!(pair.ends[0].write(now, &data), Ok(data.len()));
    pair.run_for(Duration::from_secs(3600));
    assert_eq!(pair.states(), [State::Established; 2]);
    assert!(pair.ends[1].readable() >= 20_000);
    let mut out: Vec<u8> = Vec::new();
    let mut buffer = [0; 7000];
    for _ in 0..200 {
        while let Ok(n) = {
            let now = pair.now;
            pair.ends[1].read(now, &mut buffer)
        } {
            out.extend(&buffer[..n]);
        }
        pair.run_for(Duration::from_secs(1));
    }
    assert!(out == data, "{} bytes of {}", out.len(), data.len());
}

#[test]
fn an_idle_connection_keeps_no_buffers() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    pair.transfer(1 << 20);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.ends.iter().map(Connection::buffer_capacity).sum::<usize>(), 0);
    assert!(size_of::<Connection>() <= 1128, "{}", size_of::<Connection>());
}

#[test]
fn one_percent_loss_is_repaired_without_timeouts() {
    let mut rng = Rng::new(1);
    let path: PathRule =
        Box::new(
            move |_, _| {
                if rng.one_in(100) { Fate::Drop } else { Fate::Deliver(Duration::from_micros(50)) }
            },
        );
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], path);
    let took = pair.transfer(16 << 20);
    let info = pair.ends[0].info(pair.now);
    assert!(info.retransmits > 50 && info.timeouts == 0, "{info:?}");
    assert!(took < Duration::from_millis(200), "{took:?}");
}

#[test]
fn a_lost_tail_is_probed_for_before_the_timer_expires() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], losing(&[5, 6]));
    pair.transfer(7 * 1448);
    let info = pair.ends[0].info(pair.now);
    assert_eq!(
        (info.timeouts, info.retransmits),
        (0, 2),
        "the probe repeats the last, the one before it follows"
    );
}

#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
    // Packet 70 is the retransmission of packet 60.
    let mut pair =
        ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], losing(&[60, 70]));
    pair.transfer(1 << 20);
    let info = pair.ends[0].info(pair.now);
    assert_eq!((info.timeouts, info.retransmits, info.loss_episodes), (0, 2, 1));
}

#[test]
fn a_little_reordering_is_no_loss() {
    let path: PathRule = Box::new(|side, number| {
        let late = side == 0 && number % 16 == 7;
        Fate::Deliver(if late { DELAY + Duration::from_millis(2) } else { DELAY })
    });
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], path);
    pair.transfer(1 << 20);
    let info = pair.ends[0].info(pair.now);
    assert!(info.retransmits <= 2, "the window widens after the first mistake: {info:?}");
}

#[test]
fn new_data_goes_when_an_acknowledgement_overtakes_the_tail_probe() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    pair.transfer(4 * 1448);
    pair.run_for(Duration::from_millis(100));
    pair.path = Box::new(|side, _| Fate::Deliver(if side == 1 { DELAY * 10 } else { DELAY }));
    let sender = |pair: &mut ConnectionPair, data: &[u8]| pair.ends[0].write(pair.now, data).unwrap();
    sender(&mut pair, &[1; 2 * 1448]);
    pair.run_for(DELAY);

    // The probe is due, but the device takes nothing now; meanwhile everything is acknowledged.
    pair.now = pair.ends[0].poll_timeout().unwrap();
    pair.ends[0].handle_timeout(pair.now);
    assert!(pair.ends[0].snd.flight().owes_tail_probe());
    sender(&mut pair, &[2; 1448]);
    pair.now = pair.wire.next_due().unwrap();
    let (_, (_, packet, meta)) = pair.wire.take_due(pair.now).unwrap();
    deliver(&mut pair.ends[0], pair.now, &packet, meta);
    assert_eq!(pair.ends[0].info(pair.now).unacked, 0);
    let sent = pair.ends[0].poll_transmit(pair.now, pair.limits, true, &mut [0; HEADER_MAX]);
    assert_eq!(sent.map(|segment| segment.payload_len), Some(1448));
}
