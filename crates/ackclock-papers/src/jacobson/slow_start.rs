//! JE3/4: how a conversation starts, without slow start and with it.

use ackclock_chart::{Figure, Style};
use ackclock_control::Instant;
use ackclock_sim::TcpSettings;
use ackclock_sim::papers::jacobson::{PATH, PathOf, slow_start as scenario};
use ackclock_sim::units::Span;

use super::{A_PLUS_2V, LINK_DATA, SEGMENT_BYTES, bsd, bsd_plus, old};
use crate::many::{Summary, each};
use crate::printed::Place;
use crate::segments::{self, Conversation, share};
use crate::{Band, Experiment, Findings, Table, Value, changes, draw};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "JE3/4",
    source: "Jacobson & Karels 1988, figs. 3 and 4",
    title: "how a conversation starts, without slow start and with it",
    set_up: "One conversation over 230.4 kbit/s, which carry 25 KB/s of data, with 30 packets \
             of buffer, segments of 512 bytes, buffers of 16 KB at both ends; the first 10 s of it, and \
             a minute. Others' transfers of 2 KB on average take a fifth of the link, since 20 of its \
             25 KB/s were available. Without: profile bsd43-1986 at both ends. With: bsd43-plus-1987. \
             The path's delay is not given; 110 ms each way are taken because slow start then takes the \
             two seconds of fig. 4, and others beside them. The paper's path has six store-and-forward \
             hops and this one three links; what the others took is part of the delay. 20 runs, whose \
             starts fall differently on the 500 ms tick of the timers.",
    run,
};

/// One run, first without and then with slow start.
struct Run {
    /// KB/s that were acknowledged in the first 10 s, and in a minute.
    rate: f64,
    rate_minute: f64,
    /// Share of the segments of the first 10 s that were sent more than once, and the highest count for one
    /// segment.
    repeated: f64,
    times_max: f64,
    /// Segments that were retransmissions.
    sent_again: f64,
    lost: f64,
    conversation: Conversation,
}

fn run() -> anyhow::Result<Findings> {
    let path = PathOf {
        delay_ms: changes::open("delay-ms", PATH.delay_ms)?,
        others_percent: changes::open("others-percent", PATH.others_percent)?,
    };
    let without = runs(&old(), path, 0..RUNS)?;
    let with = runs(&bsd_plus(), path, 0..RUNS)?;
    let of = |runs: &[Run], measure: fn(&Run) -> f64| Summary::of(runs.iter().map(measure));
    let values = vec![
        Value {
            paper: "7: 35 % of 20",
            band: Band::Printed { number: Place::JACOBSON_3.number(RATE, "without slow start"), half: 0.1 },
            reason: Some(NOT_SO_LOW),
            ..of(&without, |run| run.rate).value("without: first 10 s", "KB/s")
        },
        Value {
            paper: "7, however long",
            band: Band::printed("7"),
            reason: Some(NOT_SO_LOW),
            ..of(&without, |run| run.rate_minute).value("without: first minute", "KB/s")
        },
        Value {
            paper: "almost everything",
            band: Band::AtLeast(0.9),
            reason: Some(NOT_SO_MUCH),
            ..of(&without, |run| run.repeated).value("without: share of segments sent more than once", "")
        },
        Value {
            paper: "5",
            band: Band::printed("5"),
            reason: Some(NOT_SO_MUCH),
            ..of(&without, |run| run.times_max).value("without: most times that a segment was sent", "")
        },
        Value {
            paper: "none",
            band: Band::AtMost(0.0),
            reason: Some(OTHERS_FILL),
            ..of(&with, |run| run.sent_again).value("with: segments sent again", "")
        },
        Value {
            paper: Place::JACOBSON_4.words(RATE, "with slow start"),
            band: Band::printed(Place::JACOBSON_4.words(RATE, "with slow start")),
            reason: Some(DELAY_OFFSETS),
            ..of(&with, |run| run.rate).value("with: first 10 s", "KB/s")
        },
        Value {
            paper: "19",
            band: Band::printed("19"),
            reason: Some(OTHERS_FILL),
            ..of(&with, |run| run.rate_minute).value("with: first minute", "KB/s")
        },
    ];
    let figures = [
        ("JE3", &without, "without slow start", draw::BEFORE, Place::JACOBSON_3),
        ("JE4", &with, "with slow start", draw::SINCE, Place::JACOBSON_4),
    ];
    let figures = figures.into_iter().filter_map(|(stem, runs, how, sender, place)| {
        Some((stem.to_owned(), sequence_graph(&runs.first()?.conversation, how, sender, place)))
    });
    Ok(Findings {
        values,
        tables: changes::tables(|| Ok(vec![delays()?]))?,
        figures: figures.collect(),
        notes: vec![NOTE.to_owned()],
    })
}

fn runs(settings: &TcpSettings, path: PathOf, runs: std::ops::Range<u64>) -> anyhow::Result<Vec<Run>> {
    each(runs, |run| {
        let start = Span::millis(FIRST_START_MS + run * TICK_MS / RUNS);
        let seen = segments::observe(&scenario(settings, path, start).seed(run), &["a1"])?;
        let conversation = seen.conversations.into_iter().next().unwrap_or_default();
        Ok(measure(conversation, start))
    })
}

fn measure(conversation: Conversation, start: Span) -> Run {
    let rate = |seconds: u64| {
        let until = Instant::from_nanos(start.0 + Span::seconds(seconds).0);
        conversation.acked_by(until) as f64 / seconds as f64 / 1000.0
    };
    let ten = Instant::from_nanos(start.0 + Span::seconds(10).0);
    let mut early = Conversation::default();
    early.sent = conversation.sent.iter().copied().take_while(|sent| sent.at <= ten).collect();
    let times = early.times_sent(SEGMENT_BYTES);
    Run {
        rate: rate(10),
        rate_minute: rate(60),
        repeated: share(times.iter().filter(|times| **times > 1).count() as f64, times.len() as f64),
        times_max: times.iter().max().copied().unwrap_or(0).into(),
        sent_again: early.sent.iter().filter(|sent| sent.again).count() as f64,
        lost: conversation.lost.len() as f64,
        conversation,
    }
}

/// The senders: the paper's two, and one like each of them.
fn kinds() -> [(&'static str, TcpSettings); 4] {
    [
        ("without: bsd43-1986", old()),
        ("none-1987: no backoff, all sent again", bsd("none-1987")),
        ("with: bsd43-plus-1987", bsd_plus()),
        ("the same with a + 2v", bsd_plus().choose("rto", A_PLUS_2V)),
    ]
}

/// The effect of the path's delay, which the paper does not give.
fn delays() -> anyhow::Result<Table> {
    let mut rows = Vec::new();
    let paths = [(10, 0), (50, 0), (PATH.delay_ms, 0), (150, 0), (50, 20), (PATH.delay_ms, 20)];
    for path in paths.map(|(delay_ms, others_percent)| PathOf { delay_ms, others_percent }) {
        for (name, settings) in kinds() {
            let runs = runs(&settings, path, 0..RUNS)?;
            let of = |measure: fn(&Run) -> f64| Summary::of(runs.iter().map(measure)).mean;
            rows.push(vec![
                format!("{} ms", path.delay_ms),
                format!("{} %", path.others_percent),
                name.to_owned(),
                format!("{:.1}", of(|run| run.rate)),
                format!("{:.1}", of(|run| run.rate_minute)),
                format!("{:.2}", of(|run| run.repeated)),
                format!("{:.1}", of(|run| run.times_max)),
                format!("{:.1}", of(|run| run.sent_again)),
                format!("{:.1}", of(|run| run.lost)),
            ]);
        }
    }
    let head = [
        "one-way delay",
        "others take",
        "sender",
        "KB/s, 10 s",
        "60 s",
        "segments sent more than once",
        "most times",
        "sent again",
        "lost in 60 s",
    ];
    let title = "By the path's delay (means of 20 runs)".to_owned();
    Ok(Table { title, head: head.map(str::to_owned).to_vec(), rows })
}

/// The paper's graph: a dot for each packet, its number over the time of sending.
fn sequence_graph(conversation: &Conversation, how: &str, sender: &str, place: Place) -> Figure {
    let began = conversation.sent.first().map_or(0, |sent| sent.at.as_nanos());
    let dots = |again: bool| {
        let sent = conversation.sent.iter().filter(move |sent| sent.again == again);
        sent.map(move |sent| ((sent.at.as_nanos() - began) as f64 / 1e9, sent.from as f64 / 1000.0))
            .take_while(|(time, _)| *time <= 10.0)
    };
    let line = [(0.0, 0.0), (10.0, LINK_DATA as f64 / 100.0)];
    let mut series = vec![
        draw::series("what the link could carry", Style::Dashed, draw::OTHER, line),
        draw::series("sent", Style::Dots, draw::colour(sender), dots(false)),
        draw::series("sent again", Style::Dots, 15, dots(true)),
    ];
    let paper = vec![(0.0, 0.0), (10.0, 10.0 * place.number(RATE, how))];
    series.extend(place.dotted([(draw::colour(sender), paper)]));
    let panel = draw::panel("sequence number (KB)", series);
    let title = format!("Start of a conversation {how}");
    let caption = "A dot for each segment of 512 bytes as it leaves the sender: 230.4 kbit/s, 30 buffers, a \
        window of 16 KB. Dotted: the paper's mean rate.";
    draw::figure(&title, caption, "time (s)", vec![panel])
}

const NOTE: &str = "The old sender keeps failing only while others' packets are in the queue: its \
    32 packets then do not fit, the timer sends one segment and, after the next acknowledgement, the \
    rest of the window again, into the same queue. Without others' traffic it loses a few packets of \
    its first window and no more (table). A sender that sends everything at each timeout and never \
    backs off (none-1987, which no code of its time did) repeats up to four fifths, and has no less \
    throughput: what it sends in vain it sends while it would wait.";
const NOT_SO_LOW: &str = "the sender named by the paper, by its public source, wastes half as much \
    here. Over the path's delay and others' share, which the paper does not give, the table has 10.9 to \
    24.5 KB/s";
const NOT_SO_MUCH: &str = "4.3BSD's timer sends one segment, and its acknowledgement covers what \
    the receiver holds already, so that little is sent twice unless much was lost. No row of the table \
    with that sender has more than 0.23; a sender that sends all at each timeout has up to 0.80, and a \
    segment three times";
const OTHERS_FILL: &str = "others' transfers come in clumps of four packets and fill the queue at times: two \
    segments are sent again, whose timeouts cost 1 KB/s in the minute. Without others there are none (table)";
const DELAY_OFFSETS: &str = "slow start takes as many round trips, whose length the paper does not give: \
    with 50 ms in the place of 110 ms it has 16.4 KB/s (table)";
/// A quantity of the paper's.
const RATE: &str = "KB/s";
const RUNS: u64 = 20;
/// The tick of BSD's timers.
const TICK_MS: u64 = 500;
const FIRST_START_MS: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_slow_start_much_goes_out_again_and_with_it_hardly_anything() {
        let mean = |tcp: &TcpSettings, measure: fn(&Run) -> f64| {
            Summary::of(runs(tcp, PATH, 0..8).unwrap().iter().map(measure)).mean
        };
        let again = [old(), bsd_plus()].map(|tcp| mean(&tcp, |run| run.sent_again));
        let rate = [old(), bsd_plus()].map(|tcp| mean(&tcp, |run| run.rate_minute));
        assert!(again[0] > 5.0 * again[1], "{again:?}");
        assert!(rate[1] > 1.2 * rate[0], "{rate:?}");
    }
}
