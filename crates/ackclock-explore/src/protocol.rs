//! [`ProtocolTest`]: a world as each of its ends saw it, in the language of the protocol tests.
//!
//! There one end is real, and the other's segments are written down. So a counterexample becomes a test of
//! the end that misbehaves. The test makes its setup, repeats its life, and closes with the rule that it
//! broke.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};

use ackclock_test_script::script::Script as Runner;
use ackclock_test_script::step::Step;

use crate::judge::{Breach, Rule, Unfinished, message};
use crate::script::Script;
use crate::setup::Setup;
use crate::step::{Call, Move, Side};
use crate::world::{PATIENCE, World};

/// A file of protocol tests, which compiles as printed.
#[derive(Clone, Debug)]
pub struct ProtocolTest {
    /// The tests, one for each end that may be the cause.
    pub ends: Vec<OneEnd>,
}

/// The protocol test of one end.
#[derive(Clone, Debug)]
pub struct OneEnd {
    setup: &'static Setup,
    side: Side,
    name: String,
    why: String,
    steps: Vec<Step>,
}

/// Why a world has no protocol test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprintable(String);

impl fmt::Display for Unprintable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no protocol test of this: {}", self.0)
    }
}

impl std::error::Error for Unprintable {}

impl Script {
    /// The life of one end, as a protocol test without a verdict.
    ///
    /// # Errors
    /// Why it has none.
    pub fn one_end(&self, side: Side) -> Result<OneEnd, Unprintable> {
        let recorded = Recorded::of(self.setup, &self.moves);
        let steps = recorded.world.steps(side).map_err(Unprintable)?.to_vec();
        let why = format!("The small world `{}` as the {} sees it.", self.setup.name, side.name());
        Ok(self.test(side, "goes_on_as_in_a_small_world", why, steps))
    }

    /// The breach to which the moves lead, as a protocol test of the end that is the cause.
    ///
    /// # Errors
    /// Why it has none.
    pub fn protocol_test(&self) -> Result<ProtocolTest, Unprintable> {
        let (moves, breach) = self.to_the_end();
        let breach = breach.ok_or_else(|| Unprintable("nothing is wrong".into()))?;
        let recorded = Recorded::of(self.setup, &moves);
        let last = moves.last().copied();
        let sides: Vec<Side> = breach.by.map_or(Side::BOTH.into(), |side| vec![side]);
        let ends = sides.into_iter().map(|side| self.of_breach(side, &breach, &recorded, last));
        let (ends, without): (Vec<_>, Vec<_>) = ends.partition(Result::is_ok);
        let ends: Vec<OneEnd> = ends.into_iter().flatten().flatten().collect();
        match without.into_iter().find_map(Result::err) {
            Some(why) if ends.is_empty() => Err(why),
            None if ends.is_empty() => Err(Unprintable("neither end is the cause on its own".into())),
            _ => Ok(ProtocolTest { ends }),
        }
    }

    /// All moves up to the breach, those of the healthy network among them.
    fn to_the_end(&self) -> (Vec<Move>, Option<Breach>) {
        let mut moves = self.moves.clone();
        let replayed = panic::catch_unwind(AssertUnwindSafe(|| self.replay_to(&mut moves)));
        let at = moves.last().and_then(Move::side);
        let breach = replayed.unwrap_or_else(|panic| Err(Breach::panic(at, &*panic))).err();
        (moves, breach)
    }

    /// The test of one end that the breach calls for; `None` if the end is not the cause.
    fn of_breach(
        &self,
        side: Side,
        breach: &Breach,
        recorded: &Recorded,
        last: Option<Move>,
    ) -> Result<Option<OneEnd>, Unprintable> {
        let all = recorded.world.steps(side).map_err(Unprintable)?;
        let ends = |name, rule: Step| Some(Verdict { name, after: all.len(), rule: vec![rule] });
        // The last segments may be the failure itself, such as a reset.
        let is_sent = |step: &Step| matches!(step, Step::Expect(_) | Step::ExpectRefusal(_));
        let acted = all.iter().rposition(|step| !is_sent(step)).map_or(0, |at| at + 1);
        let survives = |name, rule: Step| Some(Verdict { name, after: acted, rule: vec![rule] });
        let verdict = match &breach.rule {
            Rule::AcknowledgeUpTo(at) => {
                ends("acknowledges_only_what_has_arrived", Step::AcknowledgesUpTo(*at))
            }
            Rule::Report(ranges) => ends("reports_only_what_has_arrived", Step::ReportsOnly(ranges.clone())),
            Rule::KeepEdge(place) => ends("keeps_the_edge_of_its_window", Step::KeepsEdge(*place)),
            Rule::StayWithin(place) => ends("stays_within_the_window", Step::StaysWithin(*place)),
            Rule::SendStream => ends("sends_what_was_written", Step::SendsWhatWasWritten),
            Rule::Believe(acked, held) => {
                ends("believes_only_what_has_arrived", Step::BelievesAtMost(*acked, *held))
            }
            Rule::Read => ends("reads_what_has_arrived", recorded.reading(side)),
            Rule::OpenWindow(place) => ends("opens_its_window", Step::HasOpenedItsWindow(*place)),
            Rule::Live => survives("does_not_fail", Step::HasNotFailed),
            Rule::StayOpen => survives("stays_open", Step::IsNotOver),
            Rule::TellOfSyn => ends("tells_what_became_of_a_syn", Step::HasToldOfEachSyn),
            Rule::NotPanic if last == Some(Move::Call(side, Call::Read)) => {
                ends("does_not_panic", recorded.reading(side))
            }
            Rule::NotPanic => Some(Verdict { name: "does_not_panic", after: all.len(), rule: Vec::new() }),
            Rule::GoOn(what) => recorded.unfinished(side, *what),
            Rule::Rest => return Err(Unprintable("each end only answers the other's answers".into())),
            Rule::Fit => return Err(Unprintable(breach.to_string())),
        };
        Ok(verdict.map(|Verdict { name, after, rule }| {
            let why = format!("Found in the small world `{}`: {breach}.", self.setup.name);
            self.test(side, name, why, all.iter().take(after).cloned().chain(rule).collect())
        }))
    }

    fn test(&self, side: Side, name: &str, why: String, steps: Vec<Step>) -> OneEnd {
        OneEnd { setup: self.setup, side, name: format!("{}_{name}", side.name()), why, steps }
    }
}

/// A world that was recorded.
struct Recorded {
    world: World,
    /// After each move and for each end: how many steps it has made, and the place that it then owes.
    after: Vec<[(usize, Option<u32>); 2]>,
    setup: &'static Setup,
}

impl Recorded {
    fn of(setup: &'static Setup, moves: &[Move]) -> Self {
        let mut recorded = Self { world: World::begin_on_tape(setup), after: Vec::new(), setup };
        for &step in moves {
            // A panic ends it, as a breach does.
            let advanced = panic::catch_unwind(AssertUnwindSafe(|| recorded.world.advance(step)));
            if !matches!(advanced, Ok(Ok(()))) {
                break;
            }
            let world = &recorded.world;
            let after = |side| (world.steps(side).map_or(0, <[Step]>::len), world.owed(side));
            recorded.after.push(Side::BOTH.map(after));
        }
        recorded
    }

    /// The step that empties the receive buffer.
    fn reading(&self, side: Side) -> Step {
        let len = |step: &Step| if let Step::ExpectRead(_, len) = step { *len } else { 0 };
        let read: usize = self.world.steps(side).unwrap_or_default().iter().map(len).sum();
        let from = 1 + u32::try_from(read).unwrap_or(u32::MAX);
        let (past, _) = self.world.readable(side);
        Step::ExpectRead(from, past.saturating_sub(from) as usize)
    }

    /// The rule that an end breaks if something comes to no end; `None` if the end is not the cause.
    fn unfinished(&self, side: Side, what: Unfinished) -> Option<Verdict> {
        let after = self.world.steps(side).map_or(0, <[Step]>::len);
        let has_arrived = |of: Side| {
            let (past, at_end) = self.world.readable(of.peer());
            past > 1 + self.world.read(of.peer()) || at_end
        };
        match what {
            Unfinished::Connection(of) if of == side => {
                let rule = vec![Step::Advance(PATIENCE), Step::HasFinished];
                Some(Verdict { name: "comes_to_an_end", after, rule })
            }
            Unfinished::Syn if side == Side::Server => {
                let rule = vec![Step::HasToldOfEachSyn];
                Some(Verdict { name: "tells_what_became_of_a_syn", after, rule })
            }
            Unfinished::Bytes(of) | Unfinished::End(of) if of != side && has_arrived(of) => {
                let end = self.world.readable(side).1.then_some(Step::ExpectEnd);
                let rule = [self.reading(side)].into_iter().chain(end).collect();
                Some(Verdict { name: "reads_what_has_arrived", after, rule })
            }
            Unfinished::Bytes(of) | Unfinished::End(of) if of == side && !has_arrived(of) => {
                self.silence(side)
            }
            _ => None,
        }
    }

    /// The first time that an end owes something and does not send it although time passes. The peer says
    /// nothing from there on, so the end itself is the cause.
    fn silence(&self, side: Side) -> Option<Verdict> {
        let steps = self.world.steps(side).ok()?;
        self.after.iter().find_map(|ends| {
            let (after, owed) = ends[side as usize];
            let rule = vec![Step::GoesOn(owed?, PATIENCE)];
            let steps = steps.iter().take(after).chain(&rule).cloned().collect();
            let test = OneEnd { setup: self.setup, side, name: String::new(), why: String::new(), steps };
            test.run().is_err().then_some(Verdict { name: "goes_on_sending", after, rule })
        })
    }
}

/// The end of a test: the rule, and its name as that of the test.
struct Verdict {
    name: &'static str,
    /// How many steps come before it.
    after: usize,
    rule: Vec<Step>,
}

impl OneEnd {
    /// Runs the test.
    ///
    /// # Errors
    /// The step that the endpoint does not follow, and how.
    pub fn run(&self) -> Result<(), String> {
        let mut at = "the start".to_owned();
        let ran = panic::catch_unwind(AssertUnwindSafe(|| {
            let mut script = self.begin();
            for step in &self.steps {
                at = step.code();
                step.run(&mut script);
            }
        }));
        ran.map_err(|panic| format!("{at} {}", message(&*panic)))
    }

    /// All that it does.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// This test with other steps.
    #[must_use]
    pub fn with_steps(&self, steps: Vec<Step>) -> Self {
        Self { steps, ..self.clone() }
    }

    fn begin(&self) -> Runner {
        let setup = self.setup.of_protocol_test(self.side);
        match self.side {
            Side::Client => Runner::closed(&setup),
            Side::Server => Runner::listening(&setup),
        }
    }

    /// The statements of the test.
    fn body(&self) -> Vec<String> {
        let begin = match self.side {
            Side::Client => "let mut script = Script::closed(&setup);",
            Side::Server => "let mut script = Script::listening(&setup);",
        };
        let mut lines = self.setup.code(self.side);
        lines.push(begin.into());
        lines.extend(self.steps.iter().map(Step::code));
        lines
    }
}

impl fmt::Display for OneEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::from("///");
        for word in self.why.split_whitespace() {
            if line.len() + 1 + word.len() > WIDTH {
                writeln!(f, "{line}")?;
                line = String::from("///");
            }
            line = format!("{line} {word}");
        }
        writeln!(f, "{line}\n#[test]\nfn {}() {{", self.name)?;
        self.body().iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        writeln!(f, "}}")
    }
}

impl fmt::Display for ProtocolTest {
    /// The names that the tests use, and the tests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.ends.iter().flat_map(OneEnd::body).collect::<Vec<_>>().join("\n");
        let words: Vec<&str> = text.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        for (path, names) in NAMES {
            let used: Vec<_> = names.iter().copied().filter(|name| words.contains(name)).collect();
            match *used {
                [] => {}
                [name] => writeln!(f, "use {path}::{name};")?,
                _ => writeln!(f, "use {path}::{{{}}};", used.join(", "))?,
            }
        }
        self.ends.iter().try_for_each(|end| write!(f, "\n{end}"))
    }
}

/// All that a test may name, in the order of `rustfmt`.
const NAMES: [(&str, &[&str]); 5] = [
    ("std::time", &["Duration"]),
    ("ackclock_core", &["ConnectionError", "Decision", "Keepalive"]),
    ("ackclock_core::profile", &["Recovery"]),
    ("ackclock_test_script::script", &["Script", "Setup", "pattern", "untimed"]),
    ("ackclock_test_script::segment", &["ACK", "FIN", "Opt", "PSH", "RST", "SYN", "seg"]),
];

/// A line of a comment.
const WIDTH: usize = 110;

#[cfg(test)]
mod tests {
    use ackclock_wire::random::Rng;

    use super::*;
    use crate::setup::SETUPS;

    /// The rules hold in a healthy world with the numbers that a breach would give them, as a test of either
    /// end's last move.
    #[test]
    fn healthy_end_keeps_each_rule() {
        for setup in &SETUPS {
            let mut rng = Rng::derive(2, setup.name);
            for walk in 0..60 {
                let (mut world, mut all) = (World::begin(setup), Vec::new());
                for _ in 0..5 + walk % 20 {
                    let mut moves = Vec::new();
                    world.moves(&mut moves);
                    let Some(&step) = moves.get(rng.below(moves.len().max(1) as u64) as usize) else { break };
                    all.push(step);
                    assert_eq!(world.advance(step), Ok(()));
                }
                let before = Recorded::of(setup, all.split_last().expect("a world has moves").1);
                for side in Side::BOTH {
                    keeps_rules(setup, &before, &Recorded::of(setup, &all), side);
                }
            }
        }
    }

    fn keeps_rules(setup: &'static Setup, before: &Recorded, after: &Recorded, side: Side) {
        let (Ok(all), Ok(old)) = (after.world.steps(side), before.world.steps(side)) else { return };
        let (wire, peer) = (&after.world.end(side).wire, &after.world.end(side.peer()).wire);
        let rules = [
            Step::AcknowledgesUpTo(peer.known()),
            Step::ReportsOnly(peer.ranges()),
            Step::KeepsEdge(before.world.end(side).wire.edge),
            // A probe lies one beyond the edge.
            Step::StaysWithin(wire.heard_edge() + 1),
            Step::SendsWhatWasWritten,
            Step::HasToldOfEachSyn,
        ];
        let is_sent = |step: &&Step| matches!(step, Step::Expect(_) | Step::ExpectRefusal(_));
        let kept = all.iter().enumerate().filter(|(at, step)| *at < old.len() || !is_sent(step));
        let kept: Vec<Step> = kept.map(|(_, step)| step.clone()).collect();
        let script = Script { setup, moves: Vec::new() };
        for rule in rules {
            // Nothing is known of the peer's window, or a SYN may still wait for its outcome.
            let is_open = match rule {
                Step::StaysWithin(_) => wire.heard_edge() > 0,
                Step::HasToldOfEachSyn => !setup.deferred,
                _ => true,
            };
            if is_open {
                let steps = [&kept[..], &[rule]].concat();
                let test = script.test(side, "keeps_its_rules", String::new(), steps);
                assert_eq!(test.run(), Ok(()), "{test}");
            }
        }
    }
}
