//! JE7-12: four conversations that share a link, without congestion avoidance and with it.

use std::ops::Range;

use ackclock_chart::{Figure, Style};
use ackclock_cli::table::number;
use ackclock_control::Instant;
use ackclock_sim::papers::jacobson::{self, DELAY_MS, END, LAZY, TRANSFER};
use ackclock_sim::units::Span;
use ackclock_sim::{Report, TcpSettings};

use super::{A_PLUS_2V, LINK_DATA, bsd, bsd_plus, old};
use crate::many::{Summary, each};
use crate::printed::Place;
use crate::segments::{self, Conversation, share};
use crate::witness::Witness;
use crate::{Band, Experiment, Findings, Table, Value, changes, draw};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "JE7-12",
    source: "Jacobson & Karels 1988, figs. 7 to 12",
    title: "four conversations over one link, without congestion avoidance and with it",
    set_up: "Four pairs of hosts, four transfers of 1 MB (2048 segments of 512 bytes) begun 3 s apart, one \
             link of 230.4 kbit/s, which carry 25 KB/s of data, with 50 packets of buffer; socket buffers of \
             16 KB at both ends; 200 s. Without: profile bsd43-1986. With: bsd43-plus-1987; the receivers of \
             conversations 2 and 4 are 4.3BSD's, which wait for 35 % of the window or the next tick of 200 \
             ms, those of 1 and 3 acknowledge every second segment. Which were which the paper does not say; \
             its rates fit this order. The link's delay is not given. Calibrated: 50 ms, with which the old \
             senders send 36 % again; everything else is held out, and 10 ms stand beside them. 20 seeds: \
             starts shifted by up to a tick of 500 ms, clocks of receivers by any phase, and up to 1 \
             ms of a host's time for each packet.",
    run,
};

/// One run.
struct Run {
    report: Report,
    conversations: Vec<Conversation>,
}

/// A kind of sender, in words and settings.
type Kind = (&'static str, fn() -> TcpSettings, bool);

const WITHOUT: Kind = ("bsd43-1986", old, true);
const WITH: Kind = ("bsd43-plus-1987", bsd_plus, false);
/// Possible alternatives.
const OTHERS: [Kind; 3] = [
    ("none-1987: no backoff, all sent again", none, true),
    ("bsd43-plus-1987 with fast retransmit", tahoe, false),
    ("bsd43-plus-1987 with a + 2v", two_v, false),
];

fn none() -> TcpSettings {
    bsd("none-1987")
}

fn tahoe() -> TcpSettings {
    bsd_plus().choose("recovery", "tahoe")
}

fn two_v() -> TcpSettings {
    bsd_plus().choose("rto", A_PLUS_2V)
}

fn run() -> anyhow::Result<Findings> {
    let delay_ms = changes::open("delay-ms", DELAY_MS)?;
    let without = runs(&WITHOUT, delay_ms, 0..RUNS)?;
    let with = runs(&WITH, delay_ms, 0..RUNS)?;
    let figures = figures(&without, &with);
    Ok(Findings {
        values: values(&without, &with),
        tables: changes::tables(|| Ok(vec![witness(&without, &with)?, by_senders()?]))?,
        figures,
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

fn by_senders() -> anyhow::Result<Table> {
    let mut rows = Vec::new();
    for kind in [WITHOUT, WITH].iter().chain(&OTHERS) {
        for delay_ms in [DELAY_MS, 10] {
            rows.push(row(kind, delay_ms, &runs(kind, delay_ms, 0..RUNS)?));
        }
    }
    let head = [
        "senders",
        "delay",
        "sent again",
        "lost",
        "link delivers, all four",
        "200 s",
        "lazy: sent again",
        "prompt",
        "lazy: lost",
        "prompt",
        "KB/s of each, lazy: 2 and 4",
    ];
    let title = "By senders and the link's delay (means of 20 runs)".to_owned();
    Ok(Table { title, head: head.map(str::to_owned).to_vec(), rows })
}

fn values(without: &[Run], with: &[Run]) -> Vec<Value> {
    let of = |runs: &[Run], measure: fn(&Run) -> f64| Summary::of(runs.iter().map(measure));
    vec![
        Value {
            paper: "36 %, 4,000 of 11,000: the delay is chosen by it",
            ..of(without, Run::sent_again).value("without: share sent again", "")
        },
        Value {
            // Fig. 8: conversations of 8, 5, 5 and 0.5 of 25 KB/s; fig. 11: "75 %". And 7,000 of 11,000
            // packets at 1.25 times the wire.
            paper: "0.74 to 0.80, by what it says in three places",
            band: Band::Within(0.74, 1.25 * 7.0 / 11.0),
            ..of(without, Run::delivered_by_all)
                .value("without: share of the link that delivers, all four sending", "")
        },
        Value {
            paper: Place::JACOBSON_10.words(SHARE, "without"),
            band: Band::printed(Place::JACOBSON_10.words(SHARE, "without")),
            ..of(without, Run::offered).value("without: sent, in units of the link's rate", "")
        },
        Value {
            paper: "1 %: 89 of 8,281",
            others: "ns-3.48, the same receivers: 71 [42-97]",
            band: Band::printed("89"),
            reason: Some(LAZY_LOSE_LESS),
            ..of(with, Run::segments_again).value("with: segments sent again", "")
        },
        Value {
            paper: "0.01",
            band: Band::printed("0.01"),
            limit: Some(Band::AtMost(0.02)),
            reason: Some(LAZY_LOSE_LESS),
            ..of(with, Run::sent_again).value("with: share sent again", "")
        },
        of(with, |run| seconds(run.first_end()))
            .value("with: when the first has sent everything", "s")
            .printed("110")
            .because(SPREAD),
        Value {
            paper: "wire speed",
            band: Band::AtLeast(0.95),
            ..of(with, Run::delivered_by_all)
                .value("with: share of the link that delivers, all four sending", "")
        },
        Value {
            paper: "0.018",
            band: Band::printed("0.018"),
            reason: Some(LAZY_LOSE_LESS),
            ..of(with, |run| run.again_of(LAZY)).value("with: share sent again to lazy receivers", "")
        },
        Value {
            paper: "0.005",
            band: Band::printed("0.005"),
            reason: Some(LAZY_LOSE_LESS),
            ..of(with, |run| run.again_of(PROMPT)).value("with: the same to prompt ones", "")
        },
        Value {
            // "three times the loss rate (1.8% vs. 0.5%)" (fig. 9).
            paper: "3: “three times”",
            band: Band::printed("3"),
            reason: Some(LAZY_LOSE_LESS),
            ..Summary::of([lazy_to_prompt(with)]).value("with: lazy to prompt, of the means", "")
        },
    ]
    .into_iter()
    .chain(losses(with))
    .chain(rates(with))
    .collect()
}

/// The segments that were really lost.
fn losses(with: &[Run]) -> [Value; 3] {
    let of = |measure: fn(&Run) -> f64| Summary::of(with.iter().map(measure));
    [
        of(|run| run.lost_of(LAZY))
            .value("with: share of lazy receivers' segments that is lost", "")
            .printed("0.018")
            .because(LAZY_LOSE_LESS),
        of(|run| run.lost_of(PROMPT))
            .value("with: the same of prompt ones", "")
            .printed("0.005")
            .because(LAZY_LOSE_LESS),
        Value {
            // The paper takes what is sent again for what was lost: "the loss rate (1.8% vs. 0.5%)".
            paper: "0: all were losses",
            band: Band::AtMost(0.0),
            reason: Some(VAIN),
            ..of(Run::spurious).value("with: share of what is sent again that was not lost", "")
        },
    ]
}

/// The values of a model of the same rules, which shares no code with this stack.
fn witness(without: &[Run], with: &[Run]) -> anyhow::Result<Table> {
    let row = |sender: &str, name: &str, measured: Summary, column: &str, paper: &str| {
        let cell = |of: Summary| format!("{} ± {}", number(of.mean), number(of.error()));
        let model = MODEL.of(&[sender], column)?;
        anyhow::Ok([sender, name, paper, &cell(measured), &cell(model)].map(str::to_owned).to_vec())
    };
    let mut rows = Vec::new();
    for (sender, runs, again, offered) in
        [("bsd43-1986", without, "0.36", "1.25"), ("bsd43-plus-1987", with, "0.01", "")]
    {
        let of = |measure: fn(&Run) -> f64| Summary::of(runs.iter().map(measure));
        rows.push(row(sender, "share sent again", of(Run::sent_again), "share_again", again)?);
        rows.push(row(
            sender,
            "share of the link that delivers",
            of(Run::delivered_by_all),
            "delivered",
            if offered.is_empty() { "1" } else { "0.75" },
        )?);
        rows.push(row(sender, "sent, in units of the link's rate", of(Run::offered), "offered", offered)?);
    }
    let of = |measure: &dyn Fn(&Run) -> f64| Summary::of(with.iter().map(measure));
    rows.push(row(
        "bsd43-plus-1987",
        "the first has sent everything (s)",
        of(&|run| seconds(run.first_end())),
        "first_end_s",
        "110",
    )?);
    for index in 0..4 {
        let paper = Place::JACOBSON_9.words(RATE, &(index + 1).to_string());
        let name = format!("KB/s of conversation {}", index + 1);
        let column = format!("kb_s_{}", index + 1);
        rows.push(row("bsd43-plus-1987", &name, of(&|run| run.rate_of(index)), &column, paper)?);
    }
    let head = ["sender", "value", "paper", "this stack ± SE", "the model ± SE"].map(str::to_owned).to_vec();
    let title = "Beside a model in Python, tests/reference/bsd43.py (20 runs of each)".to_owned();
    Ok(Table { title, head, rows })
}

/// KB/s of each conversation while all four were sending.
fn rates(with: &[Run]) -> Vec<Value> {
    let rate = |index: usize| {
        let paper = Place::JACOBSON_9.words(RATE, &(index + 1).to_string());
        let receiver = if LAZY.contains(&index) { "lazy" } else { "prompt" };
        let name = format!("with: conversation {}, {receiver}, while all four send", index + 1);
        let measured = Summary::of(with.iter().map(|run| run.rate_of(index)));
        measured.value(name, "KB/s").printed(paper).because(SPREAD)
    };
    (0..4).map(rate).collect()
}

/// How many times as much is retransmitted to lazy receivers.
fn lazy_to_prompt(runs: &[Run]) -> f64 {
    let mean = |which| Summary::of(runs.iter().map(|run| run.again_of(which))).mean;
    share(mean(LAZY), mean(PROMPT))
}

fn runs(kind: &Kind, delay_ms: u64, seeds: Range<u64>) -> anyhow::Result<Vec<Run>> {
    each(seeds, |seed| {
        let &(_, settings, all_lazy) = kind;
        let later = Span::millis(seed * TICK_MS / RUNS);
        let scenario = jacobson::conversations(&settings(), all_lazy, delay_ms, later).seed(seed);
        let seen = segments::observe(&scenario, &["a1", "a2", "a3", "a4"])?;
        Ok(Run { report: seen.report, conversations: seen.conversations })
    })
}

impl Run {
    fn all_sent(&self) -> f64 {
        self.conversations.iter().map(|conversation| conversation.sent.len()).sum::<usize>() as f64
    }

    fn segments_again(&self) -> f64 {
        let again = |conversation: &Conversation| conversation.sent.iter().filter(|sent| sent.again).count();
        self.conversations.iter().map(again).sum::<usize>() as f64
    }

    fn sent_again(&self) -> f64 {
        share(self.segments_again(), self.all_sent())
    }

    fn lost(&self) -> f64 {
        share(
            self.conversations.iter().map(|conversation| conversation.lost.len()).sum::<usize>() as f64,
            self.all_sent(),
        )
    }

    /// When the first of the conversations had sent everything.
    fn first_end(&self) -> Span {
        let ends = self.report.flows.iter().filter(|flow| flow.there.bytes == TRANSFER.0);
        let first = ends.filter_map(|flow| flow.last_byte).fold(seconds(END), f64::min);
        Span((first * 1e9) as u64)
    }

    /// Share of the link's data rate that was acknowledged while all four were sending, after the start.
    fn delivered_by_all(&self) -> f64 {
        self.delivered(START_UP, self.first_end())
    }

    fn delivered(&self, from: Span, to: Span) -> f64 {
        let (from_at, to_at) = (Instant::from_nanos(from.0), Instant::from_nanos(to.0));
        let acked = self.conversations.iter().map(|one| one.acked_by(to_at) - one.acked_by(from_at));
        acked.sum::<u64>() as f64 / (seconds(to) - seconds(from)) / LINK_DATA as f64
    }

    /// The rate sent in the same time.
    fn offered(&self) -> f64 {
        let (from, to) = (START_UP, self.first_end());
        let within = |at: Instant| (from.0..to.0).contains(&at.as_nanos());
        let bytes = |one: &Conversation| -> u64 {
            one.sent.iter().filter(|sent| within(sent.at)).map(|sent| sent.to - sent.from).sum()
        };
        let sent: u64 = self.conversations.iter().map(bytes).sum();
        sent as f64 / (seconds(to) - seconds(from)) / LINK_DATA as f64
    }

    fn again_of(&self, which: [usize; 2]) -> f64 {
        let one = |index: usize| self.conversations[index].share_sent_again();
        (one(which[0]) + one(which[1])) / 2.0
    }

    /// Share of the retransmissions whose segments were not lost.
    fn spurious(&self) -> f64 {
        let lost =
            self.conversations.iter().map(|conversation| conversation.lost.len()).sum::<usize>() as f64;
        share((self.segments_again() - lost).max(0.0), self.segments_again())
    }

    /// KB/s that a conversation had acknowledged while all four were sending, after the start.
    fn rate_of(&self, index: usize) -> f64 {
        let (from, to) = (START_UP, self.first_end());
        let [before, after] =
            [from, to].map(|at| self.conversations[index].acked_by(Instant::from_nanos(at.0)));
        (after - before) as f64 / 1000.0 / (seconds(to) - seconds(from))
    }

    fn lost_of(&self, which: [usize; 2]) -> f64 {
        let one = |index: usize| {
            let conversation = &self.conversations[index];
            share(conversation.lost.len() as f64, conversation.sent.len() as f64)
        };
        (one(which[0]) + one(which[1])) / 2.0
    }
}

fn row(&(name, _, _): &Kind, delay_ms: u64, runs: &[Run]) -> Vec<String> {
    let of = |measure: &dyn Fn(&Run) -> f64| Summary::of(runs.iter().map(measure)).mean;
    let percent = |value: f64| format!("{:.2} %", 100.0 * value);
    let rate = |index: usize| of(&|run: &Run| run.report.flows[index].goodput_bytes_per_second / 1000.0);
    vec![
        name.to_owned(),
        format!("{delay_ms} ms"),
        percent(of(&Run::sent_again)),
        percent(of(&Run::lost)),
        percent(of(&Run::delivered_by_all)),
        percent(of(&|run: &Run| run.delivered(Span(0), END))),
        percent(of(&|run: &Run| run.again_of(LAZY))),
        percent(of(&|run: &Run| run.again_of(PROMPT))),
        percent(of(&|run: &Run| run.lost_of(LAZY))),
        percent(of(&|run: &Run| run.lost_of(PROMPT))),
        (0..4).map(|index| format!("{:.1}", rate(index))).collect::<Vec<_>>().join(", "),
    ]
}

fn figures(without: &[Run], with: &[Run]) -> Vec<(String, Figure)> {
    let (Some(one_without), Some(one_with)) = (without.first(), with.first()) else { return Vec::new() };
    let conditions = "Four transfers of 1 MB over 230.4 kbit/s, begun 3 s apart; means of 20 runs, with \
                      the least and the most of single ones.";
    let rate = |name: &str, sender: &str, runs: &[Run], acked: bool, every: u64| {
        draw::measured(name, Style::Line, draw::colour(sender), rates_of(runs, acked, every))
    };
    let both = |title: &str, acked: bool, place: Place| {
        let mut series = vec![
            rate("without congestion avoidance", draw::BEFORE, without, acked, 5),
            rate("with", draw::SINCE, with, acked, 5),
        ];
        let level = |(how, sender, until): (&str, &str, f64)| {
            let share = place.number(SHARE, how);
            (draw::colour(sender), vec![(seconds(START_UP), share), (until, share)])
        };
        let ends = Summary::of(with.iter().map(|run| seconds(run.first_end()))).mean;
        let levels = [("without", draw::BEFORE, seconds(END)), ("with", draw::SINCE, ends)].map(level);
        series.extend(place.dotted(levels));
        let caption = format!(
            "{conditions} Spans of 5 s; the paper's averages, of the new senders until the first has sent everything."
        );
        draw::figure(title, &caption, "time (s)", vec![draw::panel("share of the link's data rate", series)])
    };
    let detail = draw::panel(
        "share of the link's data rate",
        vec![draw::series(
            "data acknowledged",
            Style::Line,
            draw::colour(draw::SINCE),
            one_with.rates(true, 3),
        )],
    );
    vec![
        ("JE8".to_owned(), one_without.sequences("without congestion avoidance", Place::JACOBSON_8)),
        (
            "JE9".to_owned(),
            one_with.sequences("with congestion avoidance; 2 and 4 to lazy receivers", Place::JACOBSON_9),
        ),
        ("JE10".to_owned(), both("What four senders send together", false, Place::JACOBSON_10)),
        ("JE11".to_owned(), both("What is delivered of it", true, Place::JACOBSON_11)),
        (
            "JE12".to_owned(),
            draw::figure(
                "Delivered with congestion avoidance, in detail",
                "Four transfers of 1 MB over 230.4 kbit/s, begun 3 s apart, one run. Means of 3 s: a loss \
                 is a dip of the size of the window, its repair a peak.",
                "time (s)",
                vec![detail],
            ),
        ),
    ]
}

/// The bytes sent, or acknowledged, in each span of this many seconds, over the runs.
fn rates_of(runs: &[Run], acked: bool, every: u64) -> Vec<(f64, Summary)> {
    let all: Vec<Vec<(f64, f64)>> = runs.iter().map(|run| run.rates(acked, every)).collect();
    let spans = all.first().map_or(0, Vec::len);
    (0..spans).map(|span| (all[0][span].0, Summary::of(all.iter().map(|run| run[span].1)))).collect()
}

impl Run {
    /// The bytes sent, or acknowledged, in each span of this many seconds.
    fn rates(&self, acked: bool, every: u64) -> Vec<(f64, f64)> {
        let spans = seconds(END) as u64 / every;
        let mut bytes = vec![0.0; spans as usize];
        let mut add = |at: Instant, more: u64| {
            if let Some(bytes) = bytes.get_mut((at.as_nanos() / Span::seconds(every).0) as usize) {
                *bytes += more as f64;
            }
        };
        for one in &self.conversations {
            if acked {
                let mut highest = 0;
                for &(at, to) in &one.acks {
                    add(at, to.saturating_sub(highest));
                    highest = highest.max(to);
                }
            } else {
                one.sent.iter().for_each(|sent| add(sent.at, sent.to - sent.from));
            }
        }
        let unit = every as f64 * LINK_DATA as f64;
        let middle = |index: usize| (index as f64 + 0.5) * every as f64;
        bytes.iter().enumerate().map(|(index, bytes)| (middle(index), bytes / unit)).collect()
    }

    fn sequences(&self, how: &str, place: Place) -> Figure {
        let mut series = Vec::new();
        for (number, one) in self.conversations.iter().enumerate() {
            let dots = one.sent.iter().step_by(DOT_EVERY);
            let dots = dots.map(|sent| (sent.at.as_nanos() as f64 / 1e9, sent.from as f64 / 1000.0));
            let name = format!("conversation {}", number + 1);
            series.push(draw::series(&name, Style::Dots, draw::KINDS[number], dots));
        }
        let paper = (0..4).map(|number| {
            let rate = place.number(RATE, &(number + 1).to_string());
            let begin = APART * number as f64;
            let end = (begin + TRANSFER.0 as f64 / 1000.0 / rate).min(seconds(END));
            (draw::KINDS[number], vec![(begin, 0.0), (end, (end - begin) * rate)])
        });
        series.extend(place.dotted(paper));
        let caption = format!(
            "One dot for {DOT_EVERY} segments of 512 bytes, as they leave the senders; one run. Dotted: \
             the paper's rates while all four send."
        );
        let panel = draw::panel("sequence number (KB)", series);
        draw::figure(&format!("Four conversations {how}"), &caption, "time (s)", vec![panel])
    }
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1e9
}

const LAZY_LOSE_LESS: &str = "receivers that wait release bursts of packets here, too, but a burst \
    that an acknowledgement releases takes the places of packets that have left the queue. What is lost \
    is what windows grow by, and lazy receivers' senders grow less often. No row of the table has the \
    paper's three times";
const VAIN: &str = "a + 4v still expires in vain while the queue grows behind the conversations that begin \
    (table: what is sent again, and what is lost)";
const SPREAD: &str = "single runs differ by more (column runs); the paper has one";
const NOTES: [&str; 2] = [
    "The old senders' numbers come from the release of 1986: a timer that backs off by a table and sends one \
     segment. A sender that sends everything at each timeout and never backs off (none-1987) sends half of \
     its packets again (table).",
    "Who gets how much depends on when lazy receivers acknowledge. Their clock of 200 ms runs freely, \
     so that they wait for 100 ms on average.",
];
/// Quantities of the paper's.
const RATE: &str = "KB/s";
const SHARE: &str = "share of the link";
/// Seconds between the beginnings of two conversations.
const APART: f64 = 3.0;
const MODEL: Witness = Witness::new(include_str!("../../tests/vectors/conversations.csv"));
/// "The first 5 second interval is low, then there is about 20 seconds of damped oscillation" (fig. 10).
const START_UP: Span = Span::seconds(25);
const RUNS: u64 = 20;
const TICK_MS: u64 = 500;
const PROMPT: [usize; 2] = [0, 2];
/// Graphs of thousands of segments show one in this many.
const DOT_EVERY: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_congestion_avoidance_much_is_sent_again_and_with_it_little() {
        let without = runs(&WITHOUT, DELAY_MS, 0..2).unwrap();
        let with = runs(&WITH, DELAY_MS, 0..2).unwrap();
        for (without, with) in without.iter().zip(&with) {
            assert!(
                without.sent_again() > 0.2 && with.sent_again() < 0.05,
                "{} {}",
                without.sent_again(),
                with.sent_again()
            );
            assert!(with.delivered_by_all() > without.delivered_by_all());
        }
    }
    #[test]
    fn with_avoidance_as_little_is_sent_again_and_as_much_delivered_as_in_the_model() {
        let with = runs(&WITH, DELAY_MS, 0..RUNS).unwrap();
        let apart = |of: fn(&Run) -> f64, column| {
            let model = MODEL.of(&["bsd43-plus-1987"], column).unwrap();
            Summary::of(with.iter().map(of)).mean - model.mean
        };
        let (again, delivered) =
            (apart(Run::sent_again, "share_again"), apart(Run::delivered_by_all, "delivered"));
        assert!(again.abs() < 0.001 && delivered.abs() < 0.005, "{again}, {delivered}");
    }
}
