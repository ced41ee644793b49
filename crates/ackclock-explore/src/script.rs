//! [`Script`]: a world's name and moves as text, which a counterexample is printed as and replays from.

use std::fmt;
use std::str::FromStr;

use crate::judge::Breach;
use crate::setup::{SETUPS, Setup};
use crate::step::Move;
use crate::world::World;

/// A setup and the moves from its start. Its text begins with `world NAME`; each further line is a move, and
/// what follows `#` is a comment.
#[derive(Clone, Debug)]
pub struct Script {
    /// Where it begins.
    pub setup: &'static Setup,
    /// The next event.
    pub moves: Vec<Move>,
}

/// Why a text is not a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    line: usize,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}: neither `world NAME` at the start, nor a move such as `deliver server 0`",
            self.line
        )
    }
}

impl std::error::Error for ScriptError {}

impl Script {
    /// Reads a script of one of these setups.
    ///
    /// # Errors
    /// The first line that is neither the name of one nor a move.
    pub fn parse_among(text: &str, setups: &'static [Setup]) -> Result<Self, ScriptError> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let mut lines = (1..).zip(lines).filter(|(_, line)| !line.is_empty());
        let (line, head) = lines.next().unwrap_or((1, ""));
        let named =
            head.strip_prefix("world ").and_then(|name| setups.iter().find(|setup| setup.name == name));
        let setup = named.ok_or(ScriptError { line })?;
        let moves = lines.map(|(line, text)| text.parse().map_err(|()| ScriptError { line }));
        Ok(Self { setup, moves: moves.collect::<Result<_, _>>()? })
    }

    /// Makes the moves again.
    ///
    /// # Errors
    /// The breach, at the move that leads to it.
    pub fn replay(&self) -> Result<(), Breach> {
        self.replay_to(&mut Vec::new())
    }

    /// Makes the moves again, and appends those of the healthy network that follows to `trail`.
    pub(crate) fn replay_to(&self, trail: &mut Vec<Move>) -> Result<(), Breach> {
        let mut world = World::begin(self.setup);
        self.moves.iter().try_for_each(|&step| world.advance(step))?;
        world.check()?;
        world.run_out(trail)
    }
}

impl fmt::Display for Script {
    /// The moves, each with the segments that it brings, in the words of the protocol tests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "world {}", self.setup.name)?;
        let mut world = World::begin(self.setup);
        for &step in &self.moves {
            let line = step.to_string();
            match world.shown(step) {
                Some(shown) => writeln!(f, "{line:<22} # {shown}")?,
                None => writeln!(f, "{line}")?,
            }
            // A panic is a breach, too, and must not keep the rest from being shown.
            let advanced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.advance(step)));
            if !matches!(advanced, Ok(Ok(()))) {
                break;
            }
            for sent in world.sent() {
                writeln!(f, "{:<22} #     {sent}", "")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        Self::parse_among(text, &SETUPS)
    }
}
