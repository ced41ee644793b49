//! Acknowledgements report data that arrived out of order or twice (RFC 2018, RFC 2883). They report packets
//! that are received together as fully as packets that arrive one by one.

use std::time::Duration;

use ackclock_control::quantity::Share;
use ackclock_core::congestion::Registry;
use ackclock_core::{Limits, TcpConfig};
use ackclock_tests::host_pair::{HostPair, Scenario};
use ackclock_tests::link::Faults;
use ackclock_tests::script::{Script, Setup, modern_options, pattern};
use ackclock_tests::segment::{ACK, FIN, Opt, PSH, Seg, seg};
use proptest::prelude::*;

/// Bytes of a segment, as in the examples of RFC 2883.
const LEN: u32 = 500;

/// With timestamps three blocks fit into an acknowledgement, without them four.
fn peers() -> [Vec<Opt>; 2] {
    [modern_options(7), vec![Opt::Mss(1460), Opt::SackPermitted, Opt::WindowScale(7)]]
}

fn accepted(peer_options: Vec<Opt>) -> Script {
    let tcp = TcpConfig { receive_buffer_initial: 1 << 20, ..TcpConfig::default() };
    Script::accepted(&Setup { tcp, peer_options, ..Setup::default() })
}

/// Where segment `number` begins.
fn at(number: u32) -> u32 {
    1 + number * LEN
}

/// Segments `from..to` in one.
fn span(from: u32, to: u32) -> Seg {
    seg(PSH).seq(at(from)).ack(1).data(&pattern(at(from), ((to - from) * LEN) as usize))
}

fn segment(number: u32) -> Seg {
    span(number, number + 1)
}

/// The block of segments `from..to`.
fn block(from: u32, to: u32) -> (u32, u32) {
    (at(from), at(to))
}

/// A connection that has read the first `count` segments.
fn after(peer_options: Vec<Opt>, count: u32) -> Script {
    let mut s = accepted(peer_options);
    if count > 0 {
        s.peer(span(0, count));
    }
    s.advance(Duration::from_millis(100));
    s.take_sent();
    s
}

/// The SACK blocks of the next segment, which is a pure acknowledgement of the first `count` segments.
#[track_caller]
fn reported(s: &mut Script, count: u32) -> Vec<(u32, u32)> {
    s.expect_ack(at(count)).sack().to_vec()
}

/// RFC 2883 §4.1.
#[test]
fn duplicate_below_the_acknowledgement_is_reported() {
    let mut s = after(modern_options(7), 4);
    s.peer(segment(1));
    assert_eq!(reported(&mut s, 4), [block(1, 2)]);
    // RFC 2883 §4 (2): at most once.
    s.peer(segment(5));
    assert_eq!(reported(&mut s, 4), [block(5, 6)]);
    s.nothing();
}

/// RFC 2883 §4.1 and §4 (4): the second block is the one that the duplicate is part of.
#[test]
fn duplicate_beyond_a_gap_is_reported_before_the_block_that_holds_it() {
    for options in peers() {
        let mut s = after(options, 2);
        for number in [3, 4, 5, 7] {
            s.peer(segment(number));
        }
        s.take_sent();
        s.peer(segment(4));
        assert_eq!(reported(&mut s, 2), [block(4, 5), block(3, 6), block(7, 8)]);
        assert_eq!(s.info().bytes_duplicate, u64::from(LEN));
        s.nothing();
    }
}

/// RFC 2883 §4.2: the first part of a segment had been received and acknowledged, the rest is new.
#[test]
fn partial_duplicate_below_the_acknowledgement_is_reported_at_once() {
    let mut s = after(modern_options(7), 2);
    s.peer(span(1, 3));
    assert_eq!(reported(&mut s, 3), [block(1, 2)]);
    // A FIN with the rest is reported alike.
    s.peer(Seg { flags: ACK | FIN, ..span(2, 3) });
    let ack = s.expect_ack(at(3) + 1);
    assert_eq!(ack.sack(), [block(2, 3)]);
}

/// RFC 2883 §4.2: part of it lies in a block beyond the gap.
#[test]
fn partial_duplicate_beyond_a_gap_is_reported() {
    let mut s = after(modern_options(7), 1);
    s.peer(span(2, 4));
    s.take_sent();
    s.peer(span(3, 5));
    assert_eq!(reported(&mut s, 1), [block(3, 4), block(2, 5)]);
    // It fills the gap, and more.
    s.peer(span(1, 4));
    assert_eq!(reported(&mut s, 5), [block(2, 4)]);
}

/// RFC 2883 §4.2: of two duplicate parts the first is reported.
#[test]
fn first_of_two_duplicate_parts_is_reported() {
    let mut s = after(modern_options(7), 1);
    for number in [2, 4] {
        s.peer(segment(number));
    }
    s.take_sent();
    s.peer(span(1, 6));
    assert_eq!(reported(&mut s, 6), [block(2, 3)]);
    // The first part below what is acknowledged, the second beyond it.
    s.peer(segment(7));
    s.take_sent();
    s.peer(span(5, 8));
    assert_eq!(reported(&mut s, 8), [block(5, 6)]);
}

#[test]
fn each_duplicate_of_a_batch_has_an_acknowledgement_of_its_own() {
    for options in peers() {
        let mut s = after(options, 10);
        s.peer_batch((0..10).map(segment));
        let acks = s.take_sent();
        let first: Vec<_> = acks.iter().map(|ack| ack.sack()[0]).collect();
        assert_eq!(first, (0..10).map(|number| block(number, number + 1)).collect::<Vec<_>>());
        assert!(acks.iter().all(|ack| ack.ack == at(10) && ack.sack().len() == 1), "{acks:?}");
    }
}

/// RFC 2018 §4: the first block is the one received last, and the next acknowledgements repeat it, so that
/// the loss of one hides nothing.
#[test]
fn each_block_of_a_batch_has_an_acknowledgement_of_its_own_and_is_repeated() {
    for options in peers() {
        let room = if options.len() == 4 { 3 } else { 4 };
        let mut s = after(options, 1);
        let arrived: Vec<u32> = vec![20, 4, 12, 8, 16, 2, 18, 10, 6, 14];
        s.peer_batch(arrived.iter().map(|&number| segment(number)));
        let blocks: Vec<_> = s.take_sent().iter().map(|ack| ack.sack().to_vec()).collect();
        let newest_first =
            |count: usize| arrived[..count].iter().rev().map(|&n| block(n, n + 1)).take(room).collect();
        assert_eq!(blocks, (1..=arrived.len()).map(newest_first).collect::<Vec<Vec<_>>>());
        // A report is not repeated without a reason.
        s.advance(Duration::from_millis(100));
        s.nothing();
    }
}

#[test]
fn block_that_goes_on_growing_is_reported_once_and_whole() {
    for options in peers() {
        let mut s = after(options, 1);
        s.peer_batch([2, 3, 4, 7, 14, 15, 16, 8].map(segment));
        let first: Vec<_> = s.take_sent().iter().map(|ack| ack.sack()[0]).collect();
        assert_eq!(first, [block(2, 5), block(7, 8), block(14, 17), block(7, 9)]);
    }
}

#[test]
fn what_a_batch_itself_repairs_is_not_reported() {
    let mut s = after(modern_options(7), 1);
    s.peer_batch([2, 4, 6, 5, 3, 1, 7].map(segment));
    let acks: Vec<_> = s.take_sent().iter().map(|ack| (ack.ack, ack.sack().len())).collect();
    assert_eq!(acks, [(at(8), 0)]);
}

/// A retransmission was sent after the data beyond the gap, and arrived after it. If it were reported first,
/// the sender would take that data for lost (RFC 8985 §6.2).
#[test]
fn retransmission_is_not_reported_before_data_that_came_before_it() {
    let mut s = after(modern_options(7), 1);
    s.peer(segment(2));
    s.take_sent();
    s.peer_batch([segment(4), span(7, 10), segment(1), segment(10)]);
    let acks: Vec<_> = s.take_sent().iter().map(|ack| (ack.ack, ack.sack().to_vec())).collect();
    // The retransmission and what arrived after it are reported together with the data before it, or later.
    assert_eq!(acks, [(at(1), vec![block(4, 5), block(2, 3)]), (at(3), vec![block(7, 11), block(4, 5)])]);
}

#[test]
fn duplicates_and_blocks_of_one_batch_are_all_reported() {
    for options in peers() {
        let mut s = after(options, 3);
        s.peer_batch([5, 0, 7, 5, 9, 1, 11, 13].map(segment));
        let acks = s.take_sent();
        let first: Vec<_> = acks.iter().map(|ack| ack.sack()[0]).collect();
        assert_eq!(first, [5, 0, 7, 5, 9, 1, 11, 13].map(|number| block(number, number + 1)));
        assert_eq!(acks[3].sack()[1], block(5, 6), "the block that holds the duplicate");
    }
}

proptest! {
    /// A batch triggers the acknowledgements that its segments would trigger one by one, some of them left
    /// out: reports are never out of order, and at the end complete.
    #[test]
    fn batch_is_reported_as_its_segments_are_one_by_one(
        batches in prop::collection::vec(prop::collection::vec((0u32..40, 1u32..4), 1..30), 1..4),
        timestamps in any::<bool>(),
    ) {
        let options = || peers()[usize::from(!timestamps)].clone();
        let (mut single, mut whole) = (after(options(), 5), after(options(), 5));
        let said = |s: &mut Script| -> Vec<_> {
            s.take_sent().iter().map(|ack| (ack.ack, ack.sack().to_vec())).collect()
        };
        for batch in batches {
            let mut one_by_one = Vec::new();
            for &(number, len) in &batch {
                single.peer(span(number, number + len));
                one_by_one.extend(said(&mut single));
            }
            single.advance(Duration::from_millis(100));
            one_by_one.extend(said(&mut single));
            whole.peer_batch(batch.iter().map(|&(number, len)| span(number, number + len)));
            whole.advance(Duration::from_millis(100));
            let together = said(&mut whole);
            let mut rest = one_by_one.iter();
            for ack in &together {
                prop_assert!(rest.any(|other| other == ack), "{ack:?} of {together:?} in {one_by_one:?}");
            }
            prop_assert_eq!(together.last(), one_by_one.last());
            // The segments of the batch beyond a gap that remains.
            let next = together.last().map_or(0, |last| last.0);
            let told: Vec<_> = together.iter().flat_map(|(_, blocks)| blocks.iter().copied()).collect();
            for start in batch.iter().map(|&(number, _)| at(number)).filter(|&start| start > next) {
                prop_assert!(told.iter().any(|b| b.0 <= start && start < b.1), "{start} in {together:?}");
            }
        }
    }
}

/// A device that merges what follows each other hands over one segment: it is one duplicate, and one block.
#[test]
fn merged_packets_are_reported_as_one() {
    let mut s = after(modern_options(7), 10);
    s.peer_batch([span(0, 5), span(5, 10), span(12, 15), span(18, 20)]);
    let blocks: Vec<_> = s.take_sent().iter().map(|ack| ack.sack().to_vec()).collect();
    let first: Vec<_> = blocks.iter().map(|blocks| blocks[0]).collect();
    assert_eq!(first, [block(0, 5), block(5, 10), block(12, 15), block(18, 20)]);
}

/// The bounds: 64 duplicates, the newest of more are left out; 64 blocks, the oldest of more are.
#[test]
fn what_waits_to_be_reported_is_bounded() {
    let mut s = after(modern_options(7), 100);
    s.peer_batch((0..100).map(segment));
    let duplicates: Vec<_> = s.take_sent().iter().map(|ack| ack.sack()[0]).collect();
    assert_eq!(duplicates, (0..64).map(|n| block(n, n + 1)).collect::<Vec<_>>());

    s.advance(Duration::from_millis(100));
    s.read(100_000);
    s.take_sent();
    s.peer_batch((51..151).map(|number| segment(2 * number)));
    let acks = s.take_sent();
    let first: Vec<_> = acks.iter().map(|ack| ack.sack()[0]).collect();
    assert_eq!(first, (87..151).map(|number| block(2 * number, 2 * number + 1)).collect::<Vec<_>>());
}

/// RFC 2883 §4 (2): a device that cuts a large segment would repeat the report on each piece.
#[test]
fn reports_leave_on_pure_acknowledgements_before_data() {
    let mut s = after(modern_options(7), 3);
    s.peer(segment(5));
    s.take_sent();
    let (now, conn) = (s.host.now, s.conn.unwrap());
    for number in [7, 5] {
        let packet = s.packet(segment(number));
        s.host.receive(&packet);
    }
    s.host.endpoint.update(now, conn, |c, now| c.write(now, &pattern(1, 8_000))).unwrap().unwrap();
    let limits = Limits { gso_max_v4: 65_535, gso_max_v6: 65_535, tx_checksum: true };
    let mut lens = Vec::new();
    while let Some(packet) = s.host.endpoint.poll_transmit(now, limits) {
        lens.push((packet.payload_len(), packet.header.len()));
    }
    // IP, TCP and timestamps are 52 bytes, a SACK option of two blocks 20, of three 28.
    assert_eq!(lens[..2], [(0, 72), (0, 80)], "the block, then the duplicate and both blocks: {lens:?}");
    assert!(lens.len() > 2 && lens[2..].iter().all(|&(payload, header)| payload > 0 && header == 72));
}

// Tests: RFC 9293 MAY-13
#[test]
fn without_sack_each_segment_beyond_a_gap_has_a_duplicate_acknowledgement() {
    let mut s = after(vec![Opt::Mss(1460)], 1);
    s.peer_batch([2, 4, 6, 8, 4].map(segment));
    for _ in 0..5 {
        assert_eq!(reported(&mut s, 1), []);
    }
    s.nothing();
}

/// Packets that arrive together, as from a device that collects them: retransmissions beyond what was lost
/// are due to a missing report.
#[test]
fn sender_to_a_receiver_that_collects_packets_repeats_what_was_lost_and_nothing_else() {
    for loss in [1, 10].map(Share::percent) {
        let (mut lost, mut again, mut timeouts) = (0, 0, 0);
        for seed in 1..=8 {
            let path = Faults {
                rate_bps: Some(1_000_000_000),
                moderation: Duration::from_millis(10),
                ..Faults::none(Duration::from_millis(10))
            };
            let tcp = TcpConfig {
                congestion: Registry::builtin().find("bbr").expect("a built-in controller"),
                ..TcpConfig::default()
            };
            let mut scenario = Scenario::transfer(seed, 8 << 20, [tcp.clone(), tcp], &path);
            scenario.faults[0].loss = loss;
            let report = HostPair::new(scenario).run();
            lost += report.links[0].lost;
            again += report.retransmits[0];
            timeouts += report.timeouts[0];
        }
        println!("{lost} lost, {again} sent again, {timeouts} timeouts");
        assert!(again <= lost + lost / 50, "{lost} lost, {again} sent again");
    }
}

/// A FIN takes a sequence number (RFC 9293 §3.4): a sender that gets no report of it sends it again.
#[test]
fn block_that_ends_with_the_fin_covers_it() {
    let mut s = after(modern_options(7), 1);
    s.peer(Seg { flags: ACK | FIN, ..span(3, 4) });
    assert_eq!(reported(&mut s, 1), [(at(3), at(4) + 1)]);
    s.peer(segment(2));
    assert_eq!(reported(&mut s, 1), [(at(2), at(4) + 1)]);
    s.peer(segment(1));
    s.expect_ack(at(4) + 1);
}
