//! RFC 6937 §3.1: what each acknowledgement of the first round trip after a loss lets go.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_sim::observe::{Observer, PacketEvent, What};
use ackclock_sim::scenario::Scripted;
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario, TcpSettings, TrafficConfig};
use anyhow::Context;

use crate::many::{Summary, each};
use crate::{Band, Experiment, Findings, Table, Value, changes};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "PRR",
    source: "RFC 6937 §3.1",
    title: "the RFC's examples of PRR and RFC 6675, acknowledgement by acknowledgement",
    set_up: "Reno's window, 20 segments in flight and more to send; the first is lost, or the first 15. \
             Profile modern (RACK-TLP and PRR) for PRR, profile sack-2003 for RFC 6675, both without \
             timestamps and pacing and with an initial window of 20. The table shows what the sender sends \
             at each acknowledgement, new (N) or again (R). The value is by how many segments the sum is \
             ever more or less than the RFC's. Of the two bounds after many losses, RFC 9937 leaves the \
             conservative one (CRB) until data is acknowledged.",
    run,
};

/// A line of the RFC's tables: what each acknowledgement lets go.
struct Example {
    name: &'static str,
    profile: &'static str,
    lost: u64,
    sent: &'static [&'static str],
    reason: Option<&'static str>,
}

const EXAMPLES: [Example; 4] = [
    Example {
        name: "PRR, 1 of 20 lost",
        profile: "modern",
        lost: 1,
        sent: &["N", "N", "R", "", "N", "", "N", "", "N", "", "N", "", "N", "", "N", "", "", "N", "N"],
        reason: Some(BYTES),
    },
    Example {
        name: "PRR-CRB, 15 of 20 lost",
        profile: "modern",
        lost: 15,
        sent: &["N", "N", "R", "R", "R"],
        reason: None,
    },
    Example {
        name: "RFC 6675, 1 of 20 lost",
        profile: "sack-2003",
        lost: 1,
        sent: &["N", "N", "R", "", "", "", "", "", "", "", "", "N", "N", "N", "N", "N", "N", "N", "N"],
        reason: Some(TWO_MORE),
    },
    Example {
        name: "RFC 6675, 15 of 20 lost",
        profile: "sack-2003",
        lost: 15,
        sent: &["N", "N", "7R", "R", "R"],
        reason: Some(TWO_MORE),
    },
];

fn run() -> anyhow::Result<Findings> {
    let outcomes = each(&EXAMPLES, |example| Ok((example, sent(example)?)))?;
    let value = |(example, sent): &(&Example, Vec<String>)| {
        let name = format!("{}: furthest from the RFC's sum", example.name);
        let value = Summary::of([furthest(example.sent, sent)]).value(name, "segments");
        Value { paper: "0", band: Band::Printed { number: 0.0, half: 0.0 }, reason: example.reason, ..value }
    };
    let rows = |(example, sent): &(&Example, Vec<String>)| {
        let row =
            |who: &str, what: Vec<String>| vec![example.name.to_owned(), who.to_owned(), what.join(" ")];
        let dotted = |sent: &str| if sent.is_empty() { ".".to_owned() } else { sent.to_owned() };
        [
            row("RFC 6937", example.sent.iter().map(|sent| dotted(sent)).collect()),
            row("here", sent.iter().map(|sent| dotted(sent)).collect()),
        ]
    };
    let table = Table {
        title: "What each acknowledgement lets go".to_owned(),
        head: ["example", "whose", "sent"].map(str::to_owned).to_vec(),
        rows: outcomes.iter().flat_map(rows).collect(),
    };
    Ok(Findings { values: outcomes.iter().map(value).collect(), tables: vec![table], ..Findings::default() })
}

/// By how many segments the sums of what was sent differ at most.
fn furthest(paper: &[&str], here: &[String]) -> f64 {
    let here = sums(here.iter().map(String::as_str));
    sums(paper.iter().copied()).zip(here).map(|(paper, here)| (paper - here).abs()).fold(0.0, f64::max)
}

/// How many segments were sent up to each acknowledgement: `7R` are seven.
fn sums<'a>(sent: impl Iterator<Item = &'a str> + 'a) -> impl Iterator<Item = f64> + 'a {
    sent.scan(0.0, |sum, sent| {
        let count = sent.trim_end_matches(['N', 'R']);
        *sum += if sent.is_empty() { 0.0 } else { count.parse().unwrap_or(1.0) };
        Some(*sum)
    })
}

/// The segments sent at each of the example's acknowledgements.
fn sent(example: &Example) -> anyhow::Result<Vec<String>> {
    let mut simulation = changes::simulation(&scenario(example))?;
    let sender = simulation.node("a").context("no sender")?.number;
    let answers = Rc::new(RefCell::new(Answers { sender, ..Answers::default() }));
    simulation.observe(Rc::clone(&answers));
    simulation.run();
    // The first answer is the initial window, at the acknowledgement of the SYN.
    let answers = answers.take().answers;
    let words = answers.iter().skip(1).take(example.sent.len()).map(|answer| answer.words());
    Ok(words.collect())
}

fn scenario(example: &Example) -> Scenario {
    let tcp = TcpSettings {
        mss: Some(1000),
        congestion: Some("reno".to_owned()),
        ..TcpSettings::profile(example.profile).fixed_window(1 << 20)
    };
    let tcp =
        [("initial-window", "20"), ("acks", "every-second:0s"), ("timestamps", "off"), ("pacing", "off")]
            .into_iter()
            .fold(tcp, |tcp, (key, value)| tcp.choose(key, value));
    let wire = Direction::new(Rate::mbit(10), Span::millis(100));
    let lost = Scripted { packets: (1..=example.lost).collect(), data: true, of: None };
    Scenario::new(Span::seconds(1))
        .tcp(tcp)
        .host("a")
        .host("b")
        .asymmetric("a", "b", Direction { drop: vec![lost], ..wire.clone() }, wire)
        .traffic(TrafficConfig::bulk("transfer", "a", "b", None))
}

/// The segments sent after each packet received.
#[derive(Debug, Default)]
struct Answers {
    sender: u32,
    /// The end of what was sent.
    highest: Option<u32>,
    answers: Vec<Answer>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    new: u32,
    again: u32,
}

impl Observer for Answers {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        let Some(segment) = event.packet.segment().filter(|_| event.node == self.sender) else { return };
        match event.what {
            What::Delivered => self.answers.push(Answer::default()),
            What::Sent if event.packet.payload_len() > 0 => {
                let Some(answer) = self.answers.last_mut() else { return };
                let is_new = self.highest.is_none_or(|highest| segment.seq.wrapping_sub(highest) as i32 > 0);
                if is_new {
                    self.highest = Some(segment.seq);
                    answer.new += 1;
                } else {
                    answer.again += 1;
                }
            }
            _ => {}
        }
    }
}

impl Answer {
    fn words(self) -> String {
        let of = |count: u32, letter: &str| match count {
            0 => String::new(),
            1 => letter.to_owned(),
            count => format!("{count}{letter}"),
        };
        of(self.again, "R") + &of(self.new, "N")
    }
}

const BYTES: &str = "the RFC's formula is in bytes and its example in segments. CEIL rounds half a segment \
    up to one there; in bytes it waits for the next acknowledgement, which is where each N is here. At \
    acknowledgements 17 and 18 the example departs from its formula, with a pipe one segment too small";
const TWO_MORE: &str = "the example's cwnd is 11, half of the 22 segments that are out after limited \
    transmit, although its text makes ssthresh 10. RFC 5681 §3.1 (4) leaves limited transmit out, and so \
    one segment fewer leaves here";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_many_losses_prr_sends_what_the_rfc_shows() {
        assert_eq!(sent(&EXAMPLES[1]).unwrap(), EXAMPLES[1].sent);
    }

    #[test]
    fn a_sum_counts_segments() {
        assert_eq!(sums(["N", "", "7R", "R"].into_iter()).collect::<Vec<_>>(), [1.0, 1.0, 8.0, 9.0]);
        assert_eq!(furthest(&["N", "", "N"], &["".to_owned(), "2N".to_owned(), "N".to_owned()]), 1.0);
    }
}
