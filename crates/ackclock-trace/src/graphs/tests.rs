//! Goal: the graphs show what happened: for a scripted connection point by point, for simulated ones against
//! their report.

use std::net::SocketAddr;

use ackclock_core::trace::{Entry, LossRule, SendReason, Timer, WindowCause};
use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Direction, Report, Scenario, TcpSettings, TrafficConfig};

use super::timeline::Timeline;
use super::*;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// 16 segments of 1000 bytes, a millisecond apart, from 100 ms on. The third is lost and retransmitted at
/// 300 ms.
fn scripted() -> TracedSource {
    let sent = |reason, seq| Entry::Sent { reason, flags: 0x10, seq, len: 1000 };
    let window = |cause, cwnd, ssthresh| Entry::Window { cause, cwnd, ssthresh };
    let mut entries = vec![(at(50), window(WindowCause::Start, 16_000, u32::MAX))];
    entries
        .extend((0..16).map(|index| (at(100 + index), sent(SendReason::NewData, 1 + 1000 * index as u32))));
    entries.extend([
        (at(150), Entry::RoundTrip { sample_us: 50_000, rto_us: 200_000 }),
        (at(150), Entry::Acked { duplicate: false, ack: 2001, window: 40_000 }),
        (at(151), Entry::Acked { duplicate: true, ack: 2001, window: 40_000 }),
        (at(300), Entry::TimerFired { timer: Timer::Retransmission, late_us: 500, count: 1 }),
        (at(300), Entry::Lost { rule: LossRule::Timeout, start: 2001, end: 3001 }),
        (at(300), window(WindowCause::Timeout, 1000, 8000)),
        (at(300), sent(SendReason::Retransmission, 2001)),
        (at(350), Entry::Acked { duplicate: false, ack: 16_001, window: 40_000 }),
    ]);
    let address = |last: u8| SocketAddr::from(([10, 0, 0, last], 1000));
    let source = Source::Connection {
        host: "a".to_owned(),
        number: 0,
        local: address(1),
        remote: address(2),
        profile: "reno-1990".to_owned(),
        congestion: "reno".to_owned(),
        names: vec![],
        captured: false,
    };
    TracedSource { number: 0, source, entries, missed: 0, unknown: 0, cause: None }
}

/// The points of the series with this name: position and note.
fn points<'a>(figure: &'a Figure, name: &str) -> Vec<(f64, f64, &'a str)> {
    let mut series = figure.panels.iter().flat_map(|panel| &panel.series);
    let found = series.find(|series| series.name == name);
    let points = found.map(|series| series.points.as_slice()).unwrap_or_default();
    points.iter().map(|point| (point.x, point.y, point.note.as_str())).collect()
}

fn places(figure: &Figure, name: &str) -> Vec<(f64, f64)> {
    points(figure, name).into_iter().map(|(x, y, _)| (x, y)).collect()
}

#[test]
fn the_windows_graph_shows_the_script() {
    let figure = windows(&scripted(), at(50));
    assert_eq!(places(&figure, "cwnd"), [(0.0, 16.0), (0.25, 1.0), (0.3, 1.0)]);
    // It is unset at first. Then comes a corner, because dashes are drawn straight.
    let ssthresh = places(&figure, "ssthresh");
    assert!(ssthresh[0].1.is_nan() && ssthresh.contains(&(0.25, 8.0)), "{ssthresh:?}");
    assert!(places(&figure, "send window").is_empty());
    assert!(
        figure.caption.ends_with("The send window, at least 40 KB, lies above the graph."),
        "{}",
        figure.caption
    );
    assert_eq!(figure.panels[0].y.range, Some((0.0, 16.8)));
    let transit = places(&figure, "in transit");
    assert!(transit.contains(&(0.065, 16.0)) && transit.contains(&(0.1, 14.0)), "{transit:?}");
    assert_eq!(transit.last(), Some(&(0.3, 0.0)));
    let lost = points(&figure, "sent again later");
    assert_eq!(lost.iter().map(|point| point.0).collect::<Vec<_>>(), [0.052]);
    assert_eq!(lost[0].2, "byte 2000 and on, sent again at 0.250000 s");
    assert_eq!(points(&figure, "timeout"), [(0.25, f64::INFINITY, "timeout 1 in a row")]);
    assert_eq!(places(&figure, "sent").len(), 17);
    let acked = points(&figure, "acknowledgement");
    assert_eq!(acked[1], (0.101, f64::NEG_INFINITY, "duplicate, 2000 bytes acknowledged"));
    let kilobytes: Vec<_> = points(&figure, "KB sent").into_iter().map(|(x, _, note)| (x, note)).collect();
    assert_eq!((kilobytes[0], kilobytes[15]), ((0.05, "1"), (0.065, "16")));
    // Twelve segments of 1000 bytes in 12 ms.
    let rate = places(&figure, "over the last 12 segments");
    assert!((rate[0].0 - 0.062).abs() < 1e-9 && (rate[0].1 - 1000.0).abs() < 1e-6, "{rate:?}");
}

/// The legend of a connection's first graph names each line once, and lines that are named differ in colour
/// or form.
#[test]
fn a_legend_names_each_line_once() {
    let (_, trace) = brakmo("reno-1990");
    let (_, figure) = of_source(&trace, sender(&trace)).into_iter().next().expect("the windows");
    let series: Vec<_> = figure.panels.iter().flat_map(|panel| &panel.series).collect();
    let named = |of: fn(&Series) -> String| {
        let mut all: Vec<String> = series.iter().map(|series| of(series)).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        (count, all)
    };
    let (count, names) = named(|series| series.name.clone());
    assert_eq!(names.len(), count, "{names:?}");
    for name in ["for cwnd", "cwnd", "timer ran out (retransmission)", "timeout", "sent again later"] {
        assert!(names.iter().any(|other| other == name), "{name} in {names:?}");
    }
    let (count, looks) = named(|series| format!("{:?} {}", series.style, series.colour));
    assert_eq!(looks.len(), count, "{looks:?}");
}

/// The legend names the timers that ran out, since "0 timeouts" stands beside it.
#[test]
fn a_timer_that_ran_out_is_named() {
    let mut source = scripted();
    for (_, entry) in &mut source.entries {
        if let Entry::TimerFired { timer, .. } = entry {
            *timer = Timer::TailProbe;
        }
    }
    let figure = windows(&source, at(50));
    assert_eq!(places(&figure, "timer ran out (tail-probe)"), [(0.25, f64::INFINITY)]);
    assert!(places(&figure, "timeout").is_empty());
    assert!(figure.caption.contains("timeouts (circles): 0"), "{}", figure.caption);
}

/// "Sorted by what matters": lost time, then bytes.
#[test]
fn connections_are_listed_by_lost_time_and_then_by_bytes() {
    let quiet = |number: usize, segments: usize| {
        let mut source = scripted();
        source.number = number;
        // The first segments, acknowledged and nothing lost.
        source.entries.retain(|(_, entry)| matches!(entry, Entry::Window { .. } | Entry::Sent { .. }));
        source.entries.truncate(1 + segments);
        source
    };
    let mut lost = scripted();
    lost.number = 2;
    let trace = Trace { sources: vec![quiet(0, 2), quiet(1, 9), lost], ..Trace::default() };
    assert_eq!(worst(&trace), [2, 1, 0]);
    let page = super::report(&trace, "Three", &[0, 1, 2].into());
    let places = [2, 1, 0].map(|number| page.find(&format!("href=\"#connection-{number}\"")).expect("a row"));
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("timeouts, tail probes"), "{page}");
}

#[test]
fn sequence_and_round_trips_show_the_script() {
    let figure = sequence(&scripted(), at(0));
    let why = "declared lost: the retransmission timer ran out (RFC 6298 §5)";
    let again = format!("Bytes 2001 to 3000, sent again because it was {why}; acknowledged 50.0 ms later.");
    assert_eq!(points(&figure, "again: timeout"), [(0.3, 2.0, again.as_str())]);
    let sent = points(&figure, "sent");
    assert_eq!(sent[0].2, "Bytes 1 to 1000, new data; acknowledged 50.0 ms later.");
    let lost = why.replace(':', " 198.0 ms later:");
    assert_eq!(sent[2].2, format!("Bytes 2001 to 3000, new data; {lost}."));
    assert_eq!(points(&figure, "declared lost"), [(0.3, 2.0, "timeout, to byte 3000")]);
    assert_eq!(places(&figure, "acknowledged"), [(0.15, 2.0), (0.35, 16.0)]);
    assert_eq!(places(&figure, "sent").len(), 16);
    // The acknowledgement of the second packet ended the round trip, though it is recorded after it.
    let figure = round_trips(&scripted());
    assert_eq!(places(&figure, "round trip"), [(2.0, 50.0)]);
    assert_eq!(places(&figure, "timeout (RTO)"), [(2.0, 200.0)]);
    assert_eq!(places(&round_trips_by_window(&scripted()), ""), [(16.0, 50.0)]);
}

/// 2000 bytes are acknowledged at 150 ms, the rest at 350 ms: nothing in the intervals between.
#[test]
fn progress_shows_round_trips_and_throughput_over_time() {
    let figure = progress(&scripted(), at(50)).expect("acknowledged data");
    assert_eq!(places(&figure, "round trip"), [(0.1, 50.0)]);
    let rate = places(&figure, "acknowledged");
    assert_eq!((rate.len(), rate[0].0), (101, 0.1));
    // 14,000 bytes in the last of 100 intervals of 2 ms.
    assert!(
        (rate[99].1 - 7000.0).abs() < 1e-6 && rate[1..99].iter().all(|&(_, rate)| rate == 0.0),
        "{rate:?}"
    );
    assert_eq!(figure.panels[1].y.range, Some((0.0, rate[99].1 * 1.05)));
    let silent = TracedSource { entries: scripted().entries[..17].to_vec(), ..scripted() };
    assert!(progress(&silent, at(50)).is_none());
}

#[test]
fn sequence_numbers_that_wrap_go_on() {
    let mut source = scripted();
    let by = u32::MAX - 4999;
    for (_, entry) in &mut source.entries {
        match entry {
            Entry::Sent { seq, .. } => *seq = seq.wrapping_add(by),
            Entry::Acked { ack, .. } => *ack = ack.wrapping_add(by),
            _ => {}
        }
    }
    let line = Timeline::new(&source, at(0));
    let starts: Vec<u64> = line.sent[..16].iter().map(|sent| sent.start).collect();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 1000), "{starts:?}");
    assert_eq!(line.in_transit.last().map(|last| last.1), Some(0));
}

/// Brakmo and Peterson's network (fig. 6) with one transfer of 1 MB.
fn brakmo(profile: &str) -> (Report, Trace) {
    let access = Direction::new(Rate::mbit(10), Span::millis(1));
    let bottleneck = Direction::new(Rate::bytes_per_second(200_000), Span::millis(48)).buffers(10);
    let mut scenario = Scenario::new(Span::seconds(30))
        .host("a")
        .host("b")
        .router("r")
        .link("a", "r", access)
        .link("r", "b", bottleneck)
        .traffic(TrafficConfig::bulk("transfer", "a", "b", Some(Bytes(1_000_000))));
    scenario.tcp = TcpSettings::profile(profile).traced();
    crate::testing::traced(&scenario, Some(("r", "b")))
}

fn sender(trace: &Trace) -> &TracedSource {
    trace.connections().find(|source| timeline::has_data(source)).expect("a sender")
}

#[test]
fn graphs_of_a_transfer_agree_with_the_simulators_report() {
    let (report, trace) = brakmo("reno-1990");
    let (flow, zero) = (report.flow("transfer").expect("the transfer"), beginning(&trace));
    let figure = windows(sender(&trace), zero);
    let line = Timeline::new(sender(&trace), zero);
    let again: u64 = line.sent.iter().filter(|sent| sent.again).map(|sent| u64::from(sent.len)).sum();
    assert!(again > 0 && again == flow.there.bytes_retransmitted, "{again}");
    assert!(!places(&figure, "sent again later").is_empty());
    let transit = places(&figure, "in transit");
    assert_eq!(transit.last().map(|last| last.1), Some(0.0));
    let marks = points(&figure, "KB sent");
    assert_eq!(marks.last().map(|mark| mark.2), Some("1000"));
    assert!((8..=17).contains(&marks.len()), "{}", marks.len());

    let dropping = queue(trace.queues().next().expect("a queue"), zero);
    let link = report.link("r-b:there").expect("the bottleneck");
    assert_eq!(points(&dropping, "dropped").len() as u64, link.dropped());
    let most = places(&dropping, "in the queue").into_iter().map(|place| place.1).fold(0.0, f64::max);
    assert_eq!(most, f64::from(link.queue_peak));

    let number = sender(&trace).number;
    let stems: Vec<_> = all(&trace, &[number].into()).into_iter().map(|(stem, _)| stem).collect();
    let of_sender = ["windows", "sequence", "rtt", "rtt-by-window"].map(|graph| format!("{number}-{graph}"));
    assert_eq!(stems[..4], of_sender);
    assert_eq!(stems[4..], ["queue-0"]);
    let graphs = of_source(&trace, sender(&trace));
    let over_time: Vec<_> = graphs.iter().take_while(|(over_time, _)| *over_time).collect();
    assert!(over_time.len() == 3 && graphs.len() == 5, "{}", graphs.len());
    assert!(over_time.iter().all(|(_, graph)| graph.x.range == over_time[0].1.x.range));
    let page = report_page(&trace);
    assert!(page.contains(&format!("<h2 id=\"connection-{number}\">Connection {number}: a: ")), "{page}");
    assert!(page.contains("Queue before the link bottleneck"));
}

fn report_page(trace: &Trace) -> String {
    super::report(trace, "A transfer", &[0, 1].into())
}

/// Vegas changed its window at each comparison as the graph shows.
#[test]
fn comparisons_of_vegas_lead_to_the_windows_that_followed() {
    let (_, trace) = brakmo("vegas-1995");
    let (source, zero) = (sender(&trace), beginning(&trace));
    let line = Timeline::new(source, zero);
    let segment = f64::from(line.segment_bytes());
    let comparisons = cam::comparisons(source, zero);
    assert!(comparisons.len() > 30, "{comparisons:?}");
    let cwnd = |when: f64| {
        let until = line.windows.partition_point(|windows| windows.at <= when);
        f64::from(line.windows[until - 1].cwnd)
    };
    // The comparison that ends slow start sets the threshold and leaves the window.
    let started = line.windows.iter().find(|windows| windows.ssthresh.is_some()).expect("slow start ends").at;
    let steady: Vec<_> = comparisons.iter().filter(|now| now.at > started + 0.1).collect();
    for (number, now) in steady.iter().enumerate() {
        assert_eq!((now.alpha, now.beta), (1.0, 3.0));
        let extra = (now.expected - now.actual) * now.base / segment;
        assert!((extra - now.diff).abs() < 0.02, "{now:?} is {extra} segments of {segment}");
        // A comparison is recorded up to an eighth of a round trip later, and the next is a round trip away.
        let step = (cwnd(now.at) - cwnd(now.at - now.base / 2.0)) / segment;
        let expected = match now.diff {
            // The first removes what slow start has queued, except for one segment.
            diff if diff > 3.0 && number == 0 => 1.0 - diff,
            diff if diff < 1.0 => 1.0,
            diff if diff > 3.0 => -1.0,
            _ => 0.0,
        };
        assert!(f64::abs(step - expected) < 0.01, "{now:?}: window moved by {step}");
    }
    let between = steady.iter().filter(|now| (1.0..=3.0).contains(&now.diff)).count();
    assert!(steady.len() > 15 && between * 10 > steady.len() * 7, "{between} of {}", steady.len());
    let figure = congestion_avoidance(source, zero).expect("Vegas compares");
    assert_eq!(points(&figure, "comparison").len(), comparisons.len());
    let [expected, alpha, beta] =
        ["Expected", "α", "β"].map(|name| places(&figure, name).last().expect("points").1);
    assert!(expected > alpha && alpha > beta);
    assert!((expected - beta - 3.0 * (expected - alpha)).abs() < 1e-6, "three times as far below");
    assert!(congestion_avoidance(&scripted(), zero).is_none(), "Reno has no such numbers");
}
