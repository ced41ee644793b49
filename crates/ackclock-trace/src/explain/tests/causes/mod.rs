//! Goal: each cause of a slow transfer, known by construction, is named as the cause; and a second run, which
//! differs only in that the cause is lifted, is faster by the share of the time that the account gives it.
//!
//! Something else limits a transfer whose limit was lifted, so it may gain less than the share. It gains no
//! more, apart from what the wait delayed at its end.

mod host;
mod stage;

use ackclock_sim::scenario::{Loss, Scripted};
use ackclock_sim::units::Share;

use super::*;
use stage::{Reads, Stage, StageResult, Writes};

/// The share of `causes` must be at least `share_min`, and lifting it must save that much of the time, within
/// these limits of it.
fn check(limited: &StageResult, lifted: &StageResult, causes: &[Waiting], share_min: f64, spared: f64) {
    let share: f64 = causes.iter().filter_map(|cause| limited.shares.get(cause)).sum();
    let saved = 1.0 - lifted.took.as_secs_f64() / limited.took.as_secs_f64();
    let all =
        format!("{causes:?} has {share:.3}, and lifting it saves {saved:.3} of {limited:#?} {lifted:#?}");
    assert!(share >= share_min, "{all}");
    assert!((share - spared..=share + 0.02).contains(&saved), "{all}");
}

fn controlled(by: &str) -> TcpSettings {
    TcpSettings { congestion: Some(by.to_owned()), ..Stage::default().tcp }
}

fn dropping(packets: impl IntoIterator<Item = u64>, data: bool) -> Direction {
    let drop = vec![Scripted { packets: packets.into_iter().collect(), data, of: None }];
    Direction { drop, ..Stage::default().there }
}

#[test]
fn slow_application() {
    // 10,000 bytes every 10 ms are six segments and a part, which Nagle's algorithm holds until the next
    // write.
    let slow = Writes { piece: 10_000, work: 10 * MS, ..Writes::default() };
    let limited = Stage { writes: slow, ..Stage::default() }.run();
    check(&limited, &Stage::default().run(), &[Waiting::Application], 0.9, 0.05);
    assert!(limited.shares.get(&Waiting::Nagle).is_none_or(|share| *share < 0.01), "{limited:#?}");
    // Every 60 ms, the part leaves a round trip after the rest, with the acknowledgement. No one waits for
    // it.
    let slow = Writes { piece: 10_000, work: 60 * MS, ..Writes::default() };
    let limited = Stage { writes: slow.clone(), ..Stage::default() }.run();
    check(&limited, &Stage::default().run(), &[Waiting::Application], 0.9, 0.05);
    let tcp = TcpSettings { nodelay: Some(true), ..Stage::default().tcp };
    let nodelay = Stage { tcp, writes: slow, ..Stage::default() }.run();
    check(&limited, &nodelay, &[Waiting::Nagle], 0.0, 0.02);
}

#[test]
fn small_window_of_the_peer() {
    let peer = TcpSettings::default().fixed_window(20_000);
    let limited = Stage { peer, ..Stage::default() }.run();
    check(&limited, &Stage::default().run(), &[Waiting::PeerWindow], 0.9, 0.05);
}

#[test]
fn small_send_buffer() {
    let tcp = TcpSettings { send_buffer: Some(Bytes(20_000)), ..Stage::default().tcp };
    let limited = Stage { tcp, ..Stage::default() }.run();
    check(&limited, &Stage::default().run(), &[Waiting::SendBuffer], 0.9, 0.05);
}

#[test]
fn congestion_window_after_a_loss() {
    // The loss in the second round ends slow start at about ten segments: a megabyte then takes 690 segments
    // at one more in each round.
    let there = dropping([12], true);
    let limited = Stage { tcp: controlled("reno"), there: there.clone(), ..Stage::default() }.run();
    let lifted = Stage { there, ..Stage::default() }.run();
    check(&limited, &lifted, &[Waiting::Cwnd, Waiting::SlowStart], 0.8, 0.1);
}

#[test]
fn random_loss() {
    let loss = Loss::Independent(Share::percent(1));
    let there = Direction { loss: Some(loss), ..Stage::default().there };
    let limited = Stage { tcp: controlled("cubic"), there, ..Stage::default() }.run();
    let lifted = Stage { tcp: controlled("cubic"), ..Stage::default() }.run();
    check(&limited, &lifted, &[Waiting::Cwnd, Waiting::Recovery, Waiting::TailProbe], 0.4, 0.2);
}

#[test]
fn slow_start() {
    // 10, 20 and 12 segments in three rounds, where one would do: a window of 64 KB comes with the SYN,ACK.
    let writes = Writes { bytes: 60_000, ..Writes::default() };
    let limited = Stage { tcp: controlled("cubic"), writes: writes.clone(), ..Stage::default() }.run();
    let lifted = Stage { writes: writes.clone(), ..Stage::default() }.run();
    check(&limited, &lifted, &[Waiting::SlowStart], 0.5, 0.05);
    // A window that is paced is still the limit: unpaced, it takes as long.
    let paced = Stage { tcp: controlled("cubic").choose("pacing", "on"), writes, ..Stage::default() }.run();
    check(&paced, &lifted, &[Waiting::SlowStart], 0.5, 0.05);
}

#[test]
fn rate_that_the_application_caps() {
    let writes = Writes { rate_max: Some(1_000_000), ..Writes::default() };
    let limited = Stage { writes, ..Stage::default() }.run();
    check(&limited, &Stage::default().run(), &[Waiting::RateCap], 0.9, 0.05);
}

#[test]
fn nagle_and_a_delayed_acknowledgement() {
    // The second half is written once the first has left.
    let writes = Writes { bytes: 20 * 1000, in_halves: Some(500), work: MS, ..Writes::default() };
    let reads = Reads { answers: Some(1000), ..Reads::default() };
    let stage = Stage { writes, reads, ..Stage::default() };
    let nodelay = TcpSettings { nodelay: Some(true), ..Stage::default().tcp };
    check(&stage.run(), &Stage { tcp: nodelay, ..stage }.run(), &[Waiting::Nagle], 0.5, 0.05);
}

#[test]
fn cork() {
    let reads = Reads { answers: Some(500), ..Reads::default() };
    let writes = |cork| Writes { bytes: 20 * 500, in_halves: Some(250), cork, work: MS, ..Writes::default() };
    let stage = Stage { writes: writes(true), reads, ..Stage::default() };
    let nodelay = TcpSettings { nodelay: Some(true), ..Stage::default().tcp };
    let lifted = Stage { tcp: nodelay, writes: writes(false), ..stage.clone() };
    check(&stage.run(), &lifted.run(), &[Waiting::Cork], 0.7, 0.05);
}

#[test]
fn lost_syn() {
    let there = dropping([1], false);
    let limited = Stage { there, ..Stage::default() }.run();
    // One round trip of the handshake remains.
    check(&limited, &Stage::default().run(), &[Waiting::Handshake], 0.9, 0.05);
}

#[test]
fn lost_flight_and_probe() {
    // 20 segments, the tail probe, and the first retransmission.
    let writes = Writes { bytes: 20_000, ..Writes::default() };
    let limited = Stage { there: dropping(1..=17, true), writes: writes.clone(), ..Stage::default() }.run();
    let lifted = Stage { writes, ..Stage::default() }.run();
    check(&limited, &lifted, &[Waiting::Timeout, Waiting::TailProbe, Waiting::Recovery], 0.7, 0.1);
}

#[test]
fn recovery_of_one_hole_in_each_round() {
    // Without SACK, each partial acknowledgement shows one hole (RFC 6582 §3.2).
    let tcp = controlled("newreno").choose("sack", "off").choose("recovery", "newreno");
    let tcp = tcp.choose("initial-window", 200);
    let writes = Writes { bytes: 280_000, ..Writes::default() };
    let stage = Stage { tcp, writes, ..Stage::default() };
    let there = dropping((20..120).step_by(10), true);
    let limited = Stage { there, ..stage.clone() }.run();
    check(&limited, &stage.run(), &[Waiting::Recovery], 0.6, 0.15);
}

#[test]
fn reader_that_stops() {
    let reads = Reads { pause: Some((100_000, Duration::from_secs(1))), ..Reads::default() };
    let peer = TcpSettings::default().fixed_window(200_000);
    let stage = Stage { peer, ..Stage::default() };
    let limited = Stage { reads, ..stage.clone() }.run();
    check(&limited, &stage.run(), &[Waiting::Reader], 0.7, 0.1);
}

#[test]
fn reader_that_is_slow() {
    let reads = Reads { pace: Some((10_000, 10 * MS)), ..Reads::default() };
    let peer = TcpSettings::default().fixed_window(200_000);
    let writes = Writes { bytes: 3_000_000, ..Writes::default() };
    let stage = Stage { peer, writes, ..Stage::default() };
    let limited = Stage { reads, ..stage.clone() }.run();
    check(&limited, &stage.run(), &[Waiting::Reader], 0.7, 0.15);
}

#[test]
fn rate_of_the_path() {
    let slow = |mbit| Direction { rate: Rate::mbit(mbit), ..Stage::default().there };
    for by in ["none-1987", "cubic", "reno"] {
        let stage = Stage { tcp: controlled(by), there: slow(4), ..Stage::default() };
        let limited = stage.run();
        check(&limited, &Stage { there: slow(1000), ..stage }.run(), &[Waiting::Path], 0.7, 0.1);
        // The windows are not the limit: a transfer without them takes as long.
        let windows: f64 =
            [Waiting::Cwnd, Waiting::SlowStart].iter().filter_map(|cause| limited.shares.get(cause)).sum();
        let lifted = Stage { there: slow(4), ..Stage::default() }.run();
        check(&limited, &lifted, &[Waiting::Cwnd, Waiting::SlowStart], 0.0, 0.05);
        assert!(windows < 0.2, "{limited:#?}");
    }
}

#[test]
fn rate_of_a_path_that_takes_50_ms_for_a_segment() {
    // Each segment is acknowledged alone and 50 ms after the one before it, but no one delays anything.
    let rate = |bytes| Direction { rate: Rate::bytes_per_second(bytes), ..Stage::default().there };
    let peer = TcpSettings::default().fixed_window(15_000);
    let writes = Writes { bytes: 60_000, ..Writes::default() };
    let reads = Reads { quickack: true, ..Reads::default() };
    let stage = Stage { peer, writes, reads, there: rate(30_000), ..Stage::default() };
    let lifted = Stage { there: rate(125_000_000), ..stage.clone() };
    check(&stage.run(), &lifted.run(), &[Waiting::Path], 0.8, 0.1);
}

#[test]
fn delayed_acknowledgements_of_a_window_of_one_segment() {
    let tcp = TcpSettings { send_buffer: Some(Bytes(1448)), ..Stage::default().tcp };
    let writes = Writes { bytes: 100_000, ..Writes::default() };
    let stage = Stage { tcp, writes, ..Stage::default() };
    let lifted = Stage { reads: Reads { quickack: true, ..Reads::default() }, ..stage.clone() }.run();
    check(&stage.run(), &lifted, &[Waiting::DelayedAck], 0.4, 0.05);
}
