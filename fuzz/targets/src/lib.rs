//! Entry points for fuzzers: each takes any bytes, and panics when something that must hold does not.
//!
//! libFuzzer calls them (`fuzz/libfuzzer`), and so do plain tests that replay the corpus and draw seeded
//! inputs (`tests/replay.rs`), and the program `fuzz` of this package, which runs a target for a time or a
//! number of inputs and needs no nightly compiler. `scripts/fuzz.py` starts either.
//!
//! | target | what the bytes are | what must hold |
//! |---|---|---|
//! | `packet` | a packet | every parser agrees with etherparse, and with what is printed of what it read |
//! | `print` | fields of headers | what is printed is read back, by etherparse and by the parsers |
//! | `link` | frames, packets and times | the link's tables stay within their bounds, its frames are well-formed, it comes to rest |
//! | `connection` | the life of one connection | `ackclock_tests::fuzz` |
//! | `endpoint` | steps of two endpoints and what lies between them | invariants after each step; all of it drains |
//! | `course` | the settings, the path and the steps of long transfers | the same |
//! | `short_way` | the same | two pairs of endpoints, one of which predicts nothing, leave the same after each step |
//! | `recording` | steps of two endpoints | what is recorded of each is replayed to the same packets and results |
//! | `thawed` | the same | so it is by endpoints that are frozen and thawed before one call in eight |
//! | `form` | a frozen endpoint | it is refused, or the thawed endpoint runs |
//! | `frozen` | steps of one connection that moves, and damages of its form | the exact form goes on with the same packets, the portable form loses no byte, a damaged one is refused or runs |
//! | `scenario` | a TOML file | what is read is written and read back; what passes the check runs |
//! | `trace` | a trace file | all explanations and conversions come to an end |
//! | `transfer` | one side of tcpcat's protocol | what is read is what was framed; nothing is taken for whole that is cut short |
//! | `capture` | a packet capture | what `tcplab` makes of captures comes to an end |
//!
//! The inputs of `connection`, `endpoint`, `course`, `short_way`, `recording`, `thawed`, `frozen`, `print`
//! and `link` are structure-aware: any bytes are a valid input. The others begin at a corpus and change it.

#![forbid(unsafe_code)]
// The module taken in from tcpcat has tests that need the rest of it; they run there.
#![cfg(not(test))]

mod files;
mod link;
pub mod mutate;
mod wire;
mod world;

// The reader of tcpcat's protocol is part of a program, which has no library to hand it out.
#[path = "../../../crates/tcpcat/src/transfer/protocol.rs"]
#[expect(dead_code, reason = "tcpcat uses the rest")]
mod protocol;

use std::time::Duration;

use ackclock_tests::fuzz::Answers;

/// Something that is fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs an input, and says how many of `unit` that was.
    ///
    /// # Panics
    /// If something that must hold does not.
    pub run: fn(&[u8]) -> u64,
    /// The unit that is counted.
    pub unit: &'static str,
    /// The longest input, in bytes.
    pub len_max: usize,
    /// Whether inputs that are drawn at random are worth anything; if not, inputs begin at the corpus.
    pub any_bytes: bool,
}

impl Target {
    /// The processor time that an input may take in an optimised build with debug assertions, if it came to
    /// that many units.
    ///
    /// A second is far more than any needs but the lives of a TCP of 1987 whose peer is silent: it sends its
    /// window once a second, without backing off, for as long as the user timeout lasts. That is a million
    /// segments at about 1.5 µs each with their checks. Work that grows with the square of a flight takes
    /// more than these five.
    #[must_use]
    pub const fn time_max(&self, units: u64) -> Duration {
        Duration::from_micros(1_000_000 + 5 * units)
    }
}

/// All targets.
pub const TARGETS: [Target; 16] = [
    target("packet", wire::packet, "parser executions", 400, false),
    target("print", wire::print, "parser executions", 600, true),
    target("link", link::run, "steps", 1200, true),
    target("connection", connection, "packets", 1500, true),
    target("endpoint", world::endpoint, "steps", 2400, true),
    target("course", world::course, "steps", 600, true),
    target("short_way", world::short_way, "steps", 1200, true),
    target("recording", world::recording, "steps", 1200, true),
    target("thawed", world::thawed, "cuts", 1200, true),
    target("form", world::form, "forms and packets", 12_000, false),
    target("frozen", world::frozen, "steps", 1500, true),
    target("scenario", files::scenario, "inputs", 3000, false),
    target("trace", files::trace, "inputs", 4000, false),
    target("transfer", files::transfer, "inputs", 600, false),
    target("journal", files::journal, "calls", 12_000, false),
    target("capture", files::capture, "inputs", 4000, false),
];

/// The target of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

const fn target(
    name: &'static str,
    run: fn(&[u8]) -> u64,
    unit: &'static str,
    len_max: usize,
    any_bytes: bool,
) -> Target {
    Target { name, run, unit, len_max, any_bytes }
}

/// Collects the endpoints' answers in the life that an input describes. Returns `false` for a target without
/// endpoints.
///
/// # Panics
/// If something that must hold does not.
pub fn answers(target: &Target, input: &[u8], into: &mut Answers) -> bool {
    match target.name {
        "connection" => ackclock_tests::fuzz::answers(input, into),
        "endpoint" => world::answers(input, into),
        "course" => world::course_answers(input, into),
        _ => return false,
    }
    true
}

fn connection(bytes: &[u8]) -> u64 {
    ackclock_tests::fuzz::run(bytes, None).packets
}
