use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use ackclock_control::assess::timeouts::{Event, Why};
use ackclock_core::trace::{Entry, SendReason, Timer};
use ackclock_sim::observe::Pcapng;
use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Direction, Scenario, Simulation, TcpSettings, TrafficConfig};

use super::{Estimator, LeftOut, Side, StartUp, TimedClass, Transfer, traced, transfers};
use crate::capture::testing::{Form, Tcp};
use crate::capture::{Vantage, read_one};
use crate::simulated::Recorder;

const UNAVOIDABLE: Why = Why::Timeout { avoidable: false };
const AVOIDABLE: Why = Why::Timeout { avoidable: true };

fn seen(file: usize, segments: &[Tcp]) -> Vec<Vantage> {
    let packets: Vec<_> = segments.iter().copied().map(Tcp::seen).collect();
    read_one(file, Path::new("made-by-hand"), &Form::default().file(&packets)[..]).unwrap().1
}

/// A handshake of 20 ms, one round trip of 20 ms, and then `rest`.
fn opened(rest: &[Tcp]) -> Vec<Tcp> {
    let first = [Tcp::data(20.0, 0), Tcp::acked(40.0, 1)];
    Tcp::handshake(20.0).into_iter().chain(first).chain(rest.iter().copied()).collect()
}

/// The transfer seen only at the sender.
fn one(rest: &[Tcp]) -> Transfer {
    at_sender(&opened(rest))
}

/// A transfer in which both ends permit SACK.
fn selective(rest: &[Tcp]) -> Transfer {
    let permitted = opened(rest).into_iter().map(|segment| Tcp { sack_permitted: segment.syn, ..segment });
    at_sender(&permitted.collect::<Vec<_>>())
}

fn at_sender(segments: &[Tcp]) -> Transfer {
    let (mut found, left_out) = transfers(&seen(0, segments), Side::Guess);
    assert!(left_out.is_empty(), "{left_out:?}");
    found.remove(0)
}

/// Why each segment was retransmitted.
fn why(transfer: &Transfer) -> Vec<Why> {
    let again = transfer.replay.events.iter().filter_map(|event| match event {
        Event::Sent { why, .. } if *why != Why::New => Some(*why),
        _ => None,
    });
    again.collect()
}

#[test]
fn third_duplicate_repairs_without_the_timer() {
    let burst = (1..6).map(|number| Tcp::data(41.0, number));
    let duplicates = [61.0, 62.0, 63.0].map(|at| Tcp::acked(at, 1));
    let rest: Vec<Tcp> = burst.chain(duplicates).chain([Tcp::data(63.1, 1), Tcp::acked(84.0, 6)]).collect();
    let transfer = one(&rest);
    assert_eq!(why(&transfer), [Why::FastRetransmit]);
    assert_eq!((transfer.replay.retransmissions, transfer.replay.timeouts), (1, 0));
}

#[test]
fn oldest_segment_sent_again_out_of_silence_is_the_timers() {
    let lost = [Tcp::data(41.0, 1), Tcp::data(1041.0, 1), Tcp::acked(1061.0, 2)];
    assert_eq!(why(&one(&lost)), [UNAVOIDABLE]);
    // Also shortly after a duplicate that requests nothing.
    let duplicate = [
        Tcp::data(41.0, 1),
        Tcp::data(41.1, 2),
        Tcp::acked(1040.0, 1),
        Tcp::data(1041.0, 1),
        Tcp::acked(1061.0, 3),
    ];
    assert_eq!(why(&one(&duplicate)), [UNAVOIDABLE]);
    // Segments sent in answer to acknowledgements belong to the same sequence.
    let sequence = [
        Tcp::data(41.0, 1),
        Tcp::data(41.1, 2),
        Tcp::data(1041.0, 1),
        Tcp::acked(1061.0, 2),
        Tcp::data(1061.1, 2),
        Tcp::acked(1081.0, 3),
    ];
    assert_eq!(why(&one(&sequence)), [UNAVOIDABLE, Why::FastRetransmit]);
}

#[test]
fn answer_sooner_than_half_a_round_trip_makes_a_timeout_avoidable() {
    for (answer, judged) in [(309.0, AVOIDABLE), (311.0, UNAVOIDABLE)] {
        let late = [Tcp::data(41.0, 1), Tcp::data(300.0, 1), Tcp::acked(answer, 2)];
        assert_eq!(why(&one(&late)), [judged], "{answer}");
    }
}

#[test]
fn timestamps_and_reports_of_duplicates_are_better_witnesses() {
    let original = Tcp::data(41.0, 1).timestamps(41, 0);
    let again = Tcp::data(300.0, 1).timestamps(300, 0);
    for (echo, judged) in [(41, AVOIDABLE), (300, UNAVOIDABLE)] {
        let transfer = one(&[original, again, Tcp::acked(330.0, 2).timestamps(9, echo)]);
        assert_eq!(why(&transfer), [judged], "{echo}");
    }
    // The answer to the original came, and then that to the copy, which the receiver had already.
    let twice =
        [Tcp::data(41.0, 1), Tcp::data(330.0, 1), Tcp::acked(360.0, 2), Tcp::acked(361.0, 2).sack(1, 2)];
    assert_eq!(why(&one(&twice)), [AVOIDABLE]);
    // All answers to the original were lost.
    let lost_answers = [Tcp::data(41.0, 1), Tcp::data(330.0, 1), Tcp::acked(360.0, 2).sack(1, 2)];
    assert_eq!(why(&one(&lost_answers)), [UNAVOIDABLE]);
}

/// The classes of what the sender's timers retransmitted.
fn timed(transfer: &Transfer) -> Vec<TimedClass> {
    transfer.replay.timed.iter().map(|one| one.class).collect()
}

#[test]
fn lone_tail_sent_again_within_a_probes_time_is_no_timeout() {
    use TimedClass::{AvoidableTimeout, FirstTimeout, RepeatedTimeout, TailLossProbe};
    // The limit is 41 ms, two round trips of 20 ms and a delayed acknowledgement of 200 ms; an eighth of
    // these for late timers and 10 ms for the sender come on top.
    let again_at = |at| [Tcp::data(41.0, 1), Tcp::data(at, 1), Tcp::acked(at + 20.0, 2)];
    for (at, class) in [(82.0, TailLossProbe), (320.9, TailLossProbe), (321.1, FirstTimeout)] {
        let transfer = selective(&again_at(at));
        assert_eq!(timed(&transfer), [class], "{at}");
        let counts = (transfer.replay.probes, transfer.replay.timeouts + transfer.replay.avoidable);
        assert_eq!(counts, if class == TailLossProbe { (1, 0) } else { (0, 1) }, "{at}");
    }
    // A sender without SACK does not probe.
    assert_eq!(timed(&one(&again_at(282.0))), [FirstTimeout]);
    // A probe repeats the last segment, so the first of two is the timer's.
    let two = [Tcp::data(41.0, 1), Tcp::data(41.1, 2), Tcp::data(250.0, 1), Tcp::acked(270.0, 3)];
    assert_eq!(timed(&selective(&two)), [FirstTimeout]);
    // The timer follows a probe that is not answered.
    let [first, probe, _] = again_at(90.0);
    let unanswered = [first, probe, Tcp::data(310.0, 1), Tcp::acked(330.0, 2)];
    assert_eq!(timed(&selective(&unanswered)), [TailLossProbe, RepeatedTimeout]);
    let late = [first, probe, Tcp::data(310.0, 1), Tcp::acked(312.0, 2)];
    assert_eq!(timed(&selective(&late)), [TailLossProbe, AvoidableTimeout]);
}

/// A retransmission's round trip of 100 ms is known if its timestamp is echoed. It makes SRTT 30 ms, and the
/// next probe wait for 260 instead of 240 ms, and an eighth.
#[test]
fn echoed_timestamp_of_a_retransmission_gives_a_round_trip() {
    let again = |echo, at| {
        let stamped = |segment: Tcp| segment.timestamps(segment.at_ms as u32, 1);
        let repaired = [Tcp::data(41.0, 1), Tcp::data(400.0, 1)].map(stamped);
        let answer = Tcp::acked(500.0, 2).timestamps(2, echo);
        let tail = [Tcp::data(501.0, 2), Tcp::data(at, 2), Tcp::acked(at + 20.0, 3)].map(stamped);
        let segments = repaired.into_iter().chain([answer]).chain(tail).collect::<Vec<_>>();
        timed(&selective(&segments)).last().copied()
    };
    let (probe, timeout) = (Some(TimedClass::TailLossProbe), Some(TimedClass::AvoidableTimeout));
    assert_eq!([again(400, 803.4), again(400, 803.6)], [probe, timeout]);
    assert_eq!([again(41, 780.9), again(41, 781.1)], [probe, timeout]);
}

#[test]
fn trace_of_a_capture_shows_a_tail_probe_as_one() {
    let rest = [Tcp::data(41.0, 1), Tcp::data(282.0, 1), Tcp::acked(302.0, 2)];
    for (sack_permitted, reason) in [(true, SendReason::TailProbe), (false, SendReason::Retransmission)] {
        let segments = opened(&rest).into_iter();
        let segments = segments.map(|one| Tcp { sack_permitted: sack_permitted && one.syn, ..one });
        let trace = traced(&seen(0, &segments.collect::<Vec<_>>()), "test");
        let sent = trace.sources[0].entries.iter().filter_map(|(_, entry)| match entry {
            Entry::Sent { reason, len: 1000, .. } => Some(*reason),
            _ => None,
        });
        assert_eq!(sent.collect::<Vec<_>>(), [SendReason::NewData, SendReason::NewData, reason]);
        let fired = trace.sources[0].entries.iter().filter_map(|(_, entry)| match entry {
            Entry::TimerFired { timer, .. } => Some(*timer),
            _ => None,
        });
        let timer = if sack_permitted { Timer::TailProbe } else { Timer::Retransmission };
        assert_eq!(fired.collect::<Vec<_>>(), [timer]);
    }
}

#[test]
fn segment_sent_again_a_reordering_window_after_a_later_one_was_delivered_is_no_timeout() {
    // One SACK at 61 ms; the window is SRTT, 20 ms, and the sender takes up to 10 ms.
    let flight = [Tcp::data(41.0, 1), Tcp::data(41.1, 2)];
    let again = |report: Tcp, at: f64| {
        let rest = [flight[0], flight[1], report, Tcp::data(at, 1), Tcp::acked(at + 20.0, 3)];
        why(&selective(&rest))
    };
    let report = Tcp::acked(61.1, 1).sack(2, 3);
    assert_eq!(again(report, 90.9), [Why::FastRetransmit]);
    assert_eq!(again(report, 91.3), [UNAVOIDABLE]);
    // Neither a duplicate that reports nothing is evidence, nor a second copy of acknowledged data
    // (RFC 2883).
    assert_eq!(again(Tcp::acked(61.1, 1), 80.0), [UNAVOIDABLE]);
    assert_eq!(again(Tcp::acked(61.1, 1).sack(0, 1), 80.0), [UNAVOIDABLE]);
}

#[test]
fn retransmission_lost_again_needs_evidence_newer_than_itself() {
    let begin = [Tcp::data(41.0, 1), Tcp::data(41.1, 2), Tcp::data(41.2, 3), Tcp::data(41.3, 4)];
    let reports = [61.1, 61.2, 61.3].into_iter().zip(3..).map(|(at, to)| Tcp::acked(at, 1).sack(2, to));
    let begin: Vec<Tcp> = begin.into_iter().chain(reports).chain([Tcp::data(61.4, 1)]).collect();
    // An old segment's duplicate came shortly before; what it reports was sent before the retransmission.
    let old = [Tcp::acked(300.0, 1).sack(2, 5), Tcp::data(302.0, 1), Tcp::acked(322.0, 5)];
    assert_eq!(why(&selective(&[&begin[..], &old].concat())), [Why::FastRetransmit, UNAVOIDABLE]);
    // Segment 5 was sent after the retransmission, and is delivered.
    let newer =
        [Tcp::data(61.5, 5), Tcp::acked(81.5, 1).sack(5, 6), Tcp::data(100.0, 1), Tcp::acked(120.0, 6)];
    assert_eq!(why(&selective(&[&begin[..], &newer].concat())), [Why::FastRetransmit; 2]);
}

/// As seen at the server, whose clock differs by an hour.
fn at_server(segments: &[Tcp]) -> Vec<Tcp> {
    let hour = 3_600_000.0;
    let shifted = segments
        .iter()
        .map(|segment| segment.later(if segment.from_server { hour - 10.0 } else { hour + 10.0 }));
    let mut shifted: Vec<Tcp> = shifted.collect();
    shifted.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
    shifted
}

fn both(sent: &[Tcp], received: &[Tcp]) -> Vec<Vantage> {
    [seen(0, &opened(sent)), seen(1, &at_server(&opened(received)))].concat()
}

#[test]
fn with_both_ends_a_timeout_is_judged_by_what_became_of_the_packets() {
    // The segment is lost.
    let sent = [Tcp::data(41.0, 1), Tcp::data(300.0, 1), Tcp::acked(320.0, 2)];
    let judged = |vantages: &[Vantage]| {
        let (found, left_out) = transfers(vantages, Side::Guess);
        assert!(left_out.is_empty(), "{left_out:?}");
        assert!(found[0].received.is_some());
        why(&found[0])
    };
    assert_eq!(judged(&both(&sent, &[sent[1], sent[2]])), [UNAVOIDABLE]);
    // The segment arrives, but its acknowledgement does not.
    let answer = Tcp::acked(61.0, 2);
    assert_eq!(judged(&both(&sent, &[sent[0], answer, sent[1], sent[2]])), [UNAVOIDABLE]);
    // It arrives, and its acknowledgement is late.
    let late = [sent[0], sent[1], Tcp::acked(310.0, 2), Tcp::acked(320.0, 2)];
    let slow = Tcp::acked(62.0, 2);
    assert_eq!(judged(&both(&late, &[sent[0], slow, sent[1], late[3]])), [AVOIDABLE]);
    // It arrives, and the receiver still waits for another segment to acknowledge with it.
    assert_eq!(judged(&both(&sent, &[sent[0], sent[1], sent[2]])), [AVOIDABLE]);
    // In either order.
    let mut swapped = both(&sent, &[sent[1], sent[2]]);
    swapped.reverse();
    assert_eq!(judged(&swapped), [UNAVOIDABLE]);
}

#[test]
fn captures_of_different_times_are_not_paired() {
    let sent = [Tcp::data(41.0, 1), Tcp::acked(61.0, 2)];
    let other: Vec<Tcp> = (5..9).map(|number| Tcp::data(41.0, number)).collect();
    let (found, left_out) = transfers(&both(&sent, &other), Side::Guess);
    assert!(found.is_empty());
    assert_eq!(left_out[0].2, LeftOut::NotPaired);
}

#[test]
fn side_is_told_by_the_handshake_or_by_the_user() {
    let rest = [Tcp::data(41.0, 1), Tcp::acked(61.0, 2)];
    let at_receiver = seen(0, &at_server(&opened(&rest)));
    let left_out = |side| transfers(&at_receiver, side).1.first().map(|(.., why)| *why);
    assert_eq!(left_out(Side::Guess), Some(LeftOut::ReceiverOnly));
    assert_eq!(left_out(Side::Sender), None);
    let at_sender = seen(0, &opened(&rest));
    assert!(transfers(&at_sender, Side::Receiver).0.is_empty());
    assert_eq!(transfers(&at_sender, Side::Guess).0[0].doubts, []);
    // Without a handshake the side is unknown.
    let (found, _) = transfers(&seen(0, &rest), Side::Guess);
    assert_eq!(found[0].doubts, [super::Doubt::NoHandshake]);
}

#[test]
fn connections_that_lack_packets_are_left_out() {
    let dropped = opened(&[Tcp::data(41.0, 2), Tcp::acked(61.0, 3)]);
    assert_eq!(transfers(&seen(0, &dropped), Side::Guess).1[0].2, LeftOut::Holes);
    let one_way: Vec<Tcp> = opened(&[]).into_iter().filter(|segment| !segment.from_server).collect();
    assert_eq!(transfers(&seen(0, &one_way), Side::Guess).1[0].2, LeftOut::NoAcknowledgements);
    assert_eq!(transfers(&seen(0, &Tcp::handshake(20.0)), Side::Guess).1[0].2, LeftOut::NoData);
    let mut back = opened(&[Tcp::data(41.0, 1), Tcp::acked(61.0, 2)]);
    back.push(Tcp::data(20.0, 2));
    assert_eq!(transfers(&seen(0, &back), Side::Guess).1[0].2, LeftOut::ClockSetBack);
}

#[test]
fn round_trip_of_the_syn_is_not_the_paths() {
    // The SYN takes 20 ms; a full segment, on a slow line, 30, and 10 more for each before it.
    let mut segments = Tcp::handshake(20.0);
    for flight in 0..5 {
        let at = 20.0 + 100.0 * f64::from(flight);
        segments.extend((0..4).map(|number| Tcp::data(at, 4 * flight + number)));
        segments.extend(
            (1..5).map(|number| Tcp::acked(at + 20.0 + 10.0 * f64::from(number), 4 * flight + number)),
        );
    }
    let transfer = at_sender(&segments);
    assert_eq!(transfer.handshake, Some(Duration::from_millis(20)));
    assert_eq!(transfer.replay.rtt_min, Some(Duration::from_millis(30)));
    assert_eq!(StartUp::new(&transfer).unwrap().path.rtt, Duration::from_millis(30));
}

/// A lossy transfer, for the packets of both ends.
fn scenario(seed: u64) -> Scenario {
    let lan = Direction::new(Rate::mbit(10), Span(0));
    let middle = Direction::new(Rate::mbit(1), Span::millis(30)).buffers(8);
    let tcp = TcpSettings { mss: Some(512), ..TcpSettings::profile("reno-1990") };
    let transfer =
        |name: &str, from: &str, to: &str| TrafficConfig::bulk(name, from, to, Some(Bytes(200_000)));
    Scenario::new(Span::seconds(120))
        .seed(seed)
        .tcp(tcp)
        .host("a")
        .host("b")
        .host("c")
        .router("left")
        .router("right")
        .link("a", "left", lan.clone())
        .link("c", "left", lan.clone())
        .link("left", "right", middle)
        .link("right", "b", lan)
        .traffic(transfer("transfer", "a", "b"))
        .traffic(transfer("other", "c", "b").start(Span::millis(100 * seed)))
}

#[test]
fn a_simulated_capture_reads_as_the_simulation_in_memory() {
    let folder = std::env::temp_dir().join(format!("tcplab-assess-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut timeouts = 0;
    for seed in 1..6 {
        let path = folder.join("both.pcapng");
        let mut simulation = Simulation::new(&scenario(seed)).unwrap();
        let nodes = ["a", "b"].map(|name| simulation.node(name).unwrap().number);
        let file = File::create(&path).unwrap();
        let pcapng = Rc::new(RefCell::new(Pcapng::new(file, nodes.into_iter().zip(["a", "b"]))));
        let recorder = Rc::new(RefCell::new(Recorder::new(nodes.to_vec())));
        simulation.observe(pcapng.clone());
        simulation.observe(recorder.clone());
        let report = simulation.run();
        pcapng.borrow_mut().finish().unwrap();

        let in_memory = recorder.borrow_mut().take();
        let in_file = read_one(0, &path, File::open(&path).unwrap()).unwrap().1;
        assert_eq!(format!("{in_memory:?}"), format!("{in_file:?}"));
        // Only the receiver's side shows what `c` sends.
        let (found, left_out) = transfers(&in_file, Side::Guess);
        let (transfer, why) = (&found[0], left_out.iter().map(|(.., why)| *why).collect::<Vec<_>>());
        assert_eq!((found.len(), why), (1, vec![LeftOut::ReceiverOnly]));
        // The sender's own counters agree.
        let replay = &transfer.replay;
        assert_eq!(
            u64::from(replay.timeouts + replay.avoidable),
            report.flows[0].there.timeouts,
            "seed {seed}"
        );
        assert_eq!(u64::from(replay.retransmissions), report.flows[0].there.retransmits, "seed {seed}");
        timeouts += replay.timeouts;

        let start_up = StartUp::new(transfer).unwrap();
        // 512 of 552 bytes of a packet on a line of 1 Mbit/s: 115.9 KB/s; half of a flight of 8 packets is
        // queued.
        let found = start_up.path.bottleneck;
        assert!((110_000..120_000).contains(&found), "{found}");
        assert!(
            start_up.loss_point.is_some_and(|loss_point| loss_point > found / 2),
            "{:?}",
            start_up.loss_point
        );
        let receivers: Vec<Option<u64>> = Estimator::of_the_paper()
            .into_iter()
            .filter(|one| one.is_at_receiver())
            .map(|one| start_up.estimate(one))
            .collect();
        assert!(
            receivers.is_sorted_by_key(|estimate| estimate.is_some()) && receivers[3].is_some(),
            "{receivers:?}"
        );
        assert!(receivers[0] <= receivers[1] && receivers[1] <= receivers[3], "{receivers:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(timeouts >= 3, "{timeouts}: the comparison above is about timeouts");
}
