//! JE3/4: how a conversation starts, without slow start and with it.

use ackclock_chart::{Figure, Style};
use ackclock_control::Instant;
use ackclock_sim::scenario::{Arrivals, SizeOf, TimeOf};
use ackclock_sim::units::{Bytes, Span};
use ackclock_sim::{Scenario, TcpSettings, TrafficConfig, TrafficKind};

use super::{A_PLUS_2V, LINK, LINK_DATA, PACKET_BYTES, SEGMENT_BYTES, bsd, bsd_plus, figure_7, old};
use crate::many::{Summary, each};
use crate::segments::{self, Conversation, share};
use crate::{Band, Experiment, Findings, Table, Value, draw};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "JE3/4",
    source: "Jacobson & Karels 1988, figs. 3 and 4",
    title: "how a conversation starts, without slow start and with it",
    set_up: "One conversation over 230.4 kbit/s with 30 packets of buffer, segments of 512 bytes, a window \
             of 16 KB; the first 10 s of it, and a minute. Without: profile none-1987 at both ends. With: \
             tahoe-1988's window, the timer alone for losses. The path's delay is not given; 110 ms each way \
             are taken because slow start then takes the two seconds of fig. 4, and others beside them, also \
             with others' transfers, since 20 of the link's 25 KB/s were available. 20 runs, whose starts \
             fall differently on the 500 ms tick of the timers.",
    run,
};

/// Properties of the path that the paper does not give.
#[derive(Clone, Copy)]
struct PathOf {
    delay_ms: u64,
    /// The share of the link taken by other traffic, in hundredths.
    others_percent: u64,
}

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
    let without = runs(&old(), PATH, 0..RUNS)?;
    let with = runs(&bsd_plus(), PATH, 0..RUNS)?;
    let of = |runs: &[Run], measure: fn(&Run) -> f64| Summary::of(runs.iter().map(measure));
    let values = vec![
        Value {
            paper: "35 % of 20 KB/s",
            band: Band::Within(0.345, 0.355),
            limit: Some(Band::Below(0.6)),
            reason: Some(NOT_SO_LOW),
            ..of(&without, |run| run.rate).value("without: share of the link used, 10 s", "")
        },
        Value {
            paper: "7 of 20 KB/s, however long",
            // 6.5 to 7.5 KB/s.
            band: Band::Within(0.325, 0.375),
            reason: Some(DELAY_DECIDES),
            ..of(&without, |run| run.rate_minute).value("without: the same, 60 s", "")
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
            limit: Some(Band::AtLeast(3.0)),
            reason: Some(NOT_SO_OFTEN),
            ..of(&without, |run| run.times_max).value("without: most times that a segment was sent", "")
        },
        Value {
            paper: "none",
            band: Band::AtMost(0.0),
            ..of(&with, |run| run.sent_again).value("with: segments sent again", "")
        },
        Value {
            paper: "16 of 20 KB/s",
            // 15.5 to 16.5 KB/s.
            band: Band::Within(0.775, 0.825),
            reason: Some(DELAY_OFFSETS),
            ..of(&with, |run| run.rate).value("with: share of the link used, 10 s", "")
        },
        Value {
            paper: "19 of 20 KB/s",
            // 18.5 to 19.5 KB/s.
            band: Band::Within(0.925, 0.975),
            ..of(&with, |run| run.rate_minute).value("with: the same, 60 s", "")
        },
    ];
    let figures = [("JE3", &without, "without slow start"), ("JE4", &with, "with slow start")];
    let figures = figures.iter().filter_map(|(stem, runs, how)| {
        Some(((*stem).to_owned(), sequence_graph(&runs.first()?.conversation, how)))
    });
    Ok(Findings { values, tables: vec![delays()?], figures: figures.collect(), notes: vec![NOTE.to_owned()] })
}

fn runs(settings: &TcpSettings, path: PathOf, runs: std::ops::Range<u64>) -> anyhow::Result<Vec<Run>> {
    each(runs, |run| {
        let start = Span::millis(FIRST_START_MS + run * TICK_MS / RUNS);
        let seen = segments::observe(&scenario(settings, path, start).seed(run), &["a1"])?;
        let conversation = seen.conversations.into_iter().next().unwrap_or_default();
        Ok(measure(conversation, start))
    })
}

fn scenario(settings: &TcpSettings, path: PathOf, start: Span) -> Scenario {
    let scenario = figure_7(2, path.delay_ms, 30)
        .scenario(Span(start.0 + Span::seconds(60).0))
        .tcp(settings.clone())
        .traffic(TrafficConfig::bulk("conversation", "a1", "b1", None).start(start));
    if path.others_percent == 0 {
        return scenario;
    }
    let size = Bytes(4 * SEGMENT_BYTES);
    let bits = 8 * (4 * PACKET_BYTES + 80);
    let every = TimeOf::Exponential(Span(bits * 100 * 1_000_000_000 / (LINK.bits() * path.others_percent)));
    let others = TrafficKind::Arrivals(Arrivals { every, size: SizeOf::Exponential(size) });
    scenario.traffic(TrafficConfig::new("others", "a2", "b2", others).tcp(bsd_plus()))
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
        lost: conversation.lost as f64,
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
                format!("{:.2}", of(|run| run.rate)),
                format!("{:.2}", of(|run| run.rate_minute)),
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
        "link used, 10 s",
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
fn sequence_graph(conversation: &Conversation, how: &str) -> Figure {
    let began = conversation.sent.first().map_or(0, |sent| sent.at.as_nanos());
    let dots = |again: bool| {
        let sent = conversation.sent.iter().filter(move |sent| sent.again == again);
        sent.map(move |sent| ((sent.at.as_nanos() - began) as f64 / 1e9, sent.from as f64 / 1000.0))
            .take_while(|(time, _)| *time <= 10.0)
    };
    let line = [(0.0, 0.0), (10.0, LINK_DATA as f64 / 100.0)];
    let panel = draw::panel(
        "sequence number (KB)",
        vec![
            draw::series("what the link could carry", Style::Dashed, 2, line),
            draw::series("sent", Style::Dots, 0, dots(false)),
            draw::series("sent again", Style::Dots, 1, dots(true)),
        ],
    );
    let title = format!("Start of a conversation {how}");
    let caption = "A dot for each segment of 512 bytes as it leaves the sender: 230.4 kbit/s, 30 buffers, a \
        window of 16 KB.";
    draw::figure(&title, caption, "time (s)", vec![panel])
}

const PATH: PathOf = PathOf { delay_ms: 110, others_percent: 0 };
const NOTE: &str = "Whether the old sender stays in its failure depends on the path's delay and on its \
    timer. On a path of 150 ms or less the window goes out at once, the last packet is lost, and the timer \
    sends the window again; if the queue has not drained by then, the repeated window and the next are lost \
    in part, and so on. A timer that doubles breaks this at 110 ms (table): exponential backoff is one of \
    the paper's new algorithms, so profile none-1987 has none. Five times, as in fig. 3, nothing was sent \
    here. With others' traffic the new sender loses a few packets as well, where the paper's trace shows \
    none.";
const DELAY_DECIDES: &str = "the path's delay, the old timer's backoff and others' traffic decide, and the \
    paper gives none of them: over these the table has 0.22 to 0.96 of the link in a minute";
const NOT_SO_LOW: &str = "not known. The paper gives neither the path's delay nor the old timer's backoff \
    nor others' traffic; over these the table has 0.37 to 0.75 of the link in 10 s, and no row comes down to \
    the paper's share";
const NOT_SO_MUCH: &str = "not known. The path's delay, the old timer's backoff and others' traffic move it \
    from 0.23 to 0.75 (table); no row of the table comes up to the paper's";
const NOT_SO_OFTEN: &str =
    "not known. No row of the table sends a segment more than three times in the first 10 s";
const DELAY_OFFSETS: &str = "slow start takes as many round trips, whose length the paper does not give: \
    with 150 ms in the place of 110 ms the share is 0.74 (table), and the paper's lies between";
const RUNS: u64 = 20;
/// The tick of BSD's timers.
const TICK_MS: u64 = 500;
const FIRST_START_MS: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_slow_start_everything_goes_out_again_and_with_it_nothing() {
        let without = runs(&old(), PATH, 0..2).unwrap();
        let with = runs(&bsd_plus(), PATH, 0..2).unwrap();
        for (without, with) in without.iter().zip(&with) {
            assert!(without.rate < 0.6 && without.times_max >= 3.0, "{} {}", without.rate, without.times_max);
            assert!(with.sent_again == 0.0 && with.rate > without.rate, "{} {}", with.sent_again, with.rate);
        }
    }
}
