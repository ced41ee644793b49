//! Gives the same segments and calls to the Linux kernel's TCP and to this stack, and compares the answers.
//!
//! A [`Sequence`] is drawn from a seed: segments of a remote host, right and wrong, and calls of a program.
//! It runs once against the kernel ([`kernel`]), to which a TUN device brings the segments, and once against
//! an endpoint in virtual time ([`stack`]). The [`remote`] host builds the segments from what it has
//! received, so each run has its own numbers. [`answer`] defines what is compared. The first difference ends
//! a sequence: either a row of [`rows`], which is the table in `docs/linux.md`, explains it, or it is an
//! error of one of the two. [`shrink`] removes what a sequence does not need.
//!
//! Nothing waits, so thousands of sequences run in a second. Effects of time (retransmissions, delayed
//! acknowledgements, probes, the end of TIME-WAIT) are not compared.

pub mod answer;
pub mod kernel;
pub mod remote;
pub mod rows;
pub mod sequence;
pub mod shrink;
pub mod stack;

use ackclock_core::State;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use self::answer::{Answer, Said};
use self::kernel::Kernel;
use self::remote::Remote;
use self::rows::{ROWS, Seen};
use self::sequence::{Call, Sequence, Step};
use self::stack::StackSide;
use crate::netns::Namespace;
use crate::segment::Frame;

/// One of the two stacks, with a program's sockets.
pub trait Side {
    /// A packet of the remote host arrives.
    fn deliver(&mut self, packet: &[u8]);
    /// The program calls.
    fn call(&mut self, call: Call) -> Said;
    /// The frames that were sent at once.
    fn sent(&mut self) -> Vec<Frame>;
    /// Waits as long as the next step requires, and returns what was sent meanwhile.
    fn pause(&mut self) -> Vec<Frame>;
    /// The state of the program's stream.
    fn status(&mut self) -> Option<State>;
    /// The state of the connection, if it is visible.
    fn inner(&self) -> Option<State> {
        None
    }
}

/// The result of a sequence.
#[derive(Clone, Debug)]
pub enum Comparison {
    /// Both answered alike.
    Same,
    /// They differ as the row with this number says.
    Known(usize),
    /// They differ.
    Different(Box<Difference>),
    /// The machine was too busy: timers of the kernel may have expired in each of many attempts.
    Unjudged,
}

/// The first answers that differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The sequence.
    pub sequence: Sequence,
    /// The index of the step.
    pub at: usize,
    /// The kernel's answers up to there.
    pub linux: Vec<Answer>,
    /// This stack's.
    pub here: Vec<Answer>,
}

/// The results of many sequences.
#[derive(Clone, Debug, Default)]
pub struct SequenceResults {
    /// How many answered alike.
    pub same: u64,
    /// How many differed as each row says.
    pub known: BTreeMap<usize, u64>,
    /// How many differed once and not when repeated.
    pub passing: u64,
    /// How many could not be judged.
    pub unjudged: u64,
    /// How many steps were compared.
    pub steps: u64,
    /// Those that differ, one of each kind, shortened, and how often the kind occurred.
    pub different: BTreeMap<String, (u64, Difference)>,
}

/// Runs a sequence on both until they differ.
pub fn judge(kernel: &mut Kernel, sequence: &Sequence) -> Comparison {
    for _ in 0..ATTEMPTS_MAX {
        let mut side = kernel.side(sequence.v6, sequence.active);
        let (local, remote) = side.names();
        let began = Instant::now();
        let (linux, last_word) = run(&mut side, sequence, local, remote);
        let in_time = began.elapsed() < TIME_MAX;
        side.end(&last_word);
        if !in_time {
            continue;
        }
        let mut stack = StackSide::new(sequence.active, local, remote);
        let (here, _) = run(&mut stack, sequence, local, remote);
        let Some(at) = linux.iter().zip(&here).position(|(linux, here)| !linux.differences(here).is_empty())
        else {
            return Comparison::Same;
        };
        let seen = Seen { sequence, at, linux: &linux[..=at], here: &here[..=at] };
        if let Some(row) = ROWS.iter().position(|row| (row.explains)(&seen)) {
            return Comparison::Known(row);
        }
        let (linux, here) = (linux[..=at].to_vec(), here[..=at].to_vec());
        return Comparison::Different(Box::new(Difference { sequence: sequence.clone(), at, linux, here }));
    }
    Comparison::Unjudged
}

/// Runs the sequences of these seeds in a namespace.
///
/// # Panics
/// The namespace can have no TUN device, or the kernel lacks a setting.
pub fn judge_seeds(home: &Namespace, seeds: RangeInclusive<u64>) -> SequenceResults {
    let mut kernel = home.run(async { Kernel::open().expect("a TUN device, and the kernel's settings") });
    let mut report = SequenceResults::default();
    for from in seeds.clone().step_by(CHUNK) {
        let part = from..=(*seeds.end()).min(from + CHUNK as u64 - 1);
        let judged;
        (kernel, judged) = home.run(async move {
            let report = judge_all(&mut kernel, part);
            (kernel, report)
        });
        report = report.plus(judged);
    }
    report
}

fn judge_all(kernel: &mut Kernel, seeds: impl Iterator<Item = u64>) -> SequenceResults {
    let mut report = SequenceResults::default();
    for seed in seeds {
        let sequence = Sequence::new(seed);
        report.steps += sequence.steps.len() as u64;
        match judge(kernel, &sequence) {
            Comparison::Same => report.same += 1,
            Comparison::Known(row) => *report.known.entry(row).or_default() += 1,
            Comparison::Unjudged => report.unjudged += 1,
            Comparison::Different(_) => report.different(kernel, sequence),
        }
    }
    report
}

impl SequenceResults {
    /// Records a sequence that differed once: if it does so again, the shortest that still does.
    fn different(&mut self, kernel: &mut Kernel, sequence: Sequence) {
        let Comparison::Different(first) = judge(kernel, &sequence) else {
            self.passing += 1;
            return;
        };
        let kind = first.kind();
        if let Some((count, _)) = self.different.get_mut(&kind) {
            *count += 1;
            return;
        }
        let short = shrink::shrink(sequence, |shorter| match judge(kernel, shorter) {
            Comparison::Different(difference) => difference.kind() == kind,
            _ => false,
        });
        let difference = match judge(kernel, &short) {
            Comparison::Different(difference) => *difference,
            _ => *first,
        };
        self.different.insert(kind, (1, difference));
    }

    /// The sum of both reports.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        self.same += other.same;
        self.passing += other.passing;
        self.unjudged += other.unjudged;
        self.steps += other.steps;
        for (row, count) in other.known {
            *self.known.entry(row).or_default() += count;
        }
        for (kind, (count, difference)) in other.different {
            self.different.entry(kind).and_modify(|(all, _)| *all += count).or_insert((count, difference));
        }
        self
    }
}

impl Difference {
    /// The kind of difference: two of a kind probably have one cause.
    #[must_use]
    pub fn kind(&self) -> String {
        let fields = self.linux[self.at].differences(&self.here[self.at]).join("+");
        let before = self.at.checked_sub(1).and_then(|before| self.linux[before].state);
        let step = match &self.sequence.steps[self.at] {
            Step::Call(call) => format!("{call:?}").split('(').next().unwrap_or_default().to_owned(),
            Step::Segment(sent) => format!("segment {:#04x}", sent.flags),
        };
        format!("{fields} after {step} in {before:?}")
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sequence = &self.sequence;
        writeln!(
            f,
            "seed {}, v6 {}, {:?}, irs {}",
            sequence.seed, sequence.v6, sequence.offer, sequence.irs
        )?;
        for (at, step) in sequence.steps.iter().enumerate().take(self.at + 1) {
            writeln!(f, "  {at}: {step:?}")?;
            if at < self.at {
                writeln!(f, "      both:  {:?}", self.linux[at])?;
            }
        }
        writeln!(f, "      linux: {:?}", self.linux[self.at])?;
        writeln!(f, "      here:  {:?}", self.here[self.at])
    }
}

impl fmt::Display for SequenceResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} alike, {} not judged, {} differed once, {} steps",
            self.same, self.unjudged, self.passing, self.steps
        )?;
        for (row, count) in &self.known {
            writeln!(f, "{count:>7}  {}", ROWS[*row].what)?;
        }
        for (kind, (count, difference)) in &self.different {
            writeln!(f, "\n{count} x {kind}; to repeat one:\n    {COMMAND} {}", difference.sequence.seed)?;
            write!(f, "{difference}")?;
        }
        Ok(())
    }
}

/// Runs a sequence on one side. Returns its answers, and the remote host's last packet.
fn run(
    side: &mut impl Side,
    sequence: &Sequence,
    local: SocketAddr,
    remote: SocketAddr,
) -> (Vec<Answer>, Vec<u8>) {
    let mut remote = Remote::new(sequence, local, remote);
    let mut answers = Vec::with_capacity(sequence.steps.len());
    let mut failed = false;
    for step in &sequence.steps {
        remote.read(side.pause(), &mut Answer::default());
        let mut answer = Answer::default();
        match step {
            Step::Segment(sent) => side.deliver(&remote.packet(sent)),
            Step::Call(call) => answer.said = side.call(*call),
        }
        // An error is reported once (RFC 9293 §3.9.2); the tests of the calls compare what later calls
        // return.
        if failed {
            answer.said = Said::Nothing;
        }
        remote.read(side.sent(), &mut answer);
        answer.state = side.status();
        (answer.inner, answer.segment) = (side.inner(), remote.last);
        failed |= matches!(answer.said, Said::Failed(_)) && answer.state == Some(State::Closed);
        answer.normalise(step);
        answers.push(answer);
    }
    (answers, remote.last_word())
}

/// Repeats a sequence, as root.
const COMMAND: &str = "cargo run -p ackclock-tests --bin linux-sequences --";

/// Sequences of one task: no task of a namespace may take longer than a test.
const CHUNK: usize = 1_000;
/// A sequence that takes longer runs again: the kernel's shortest timer is 200 ms.
const TIME_MAX: Duration = Duration::from_millis(100);
/// How often.
const ATTEMPTS_MAX: usize = 50;
