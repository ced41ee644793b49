//! Traces of links: when a link may carry packets, or how its rate, delay and loss change over time.
//!
//! Two formats are read. The first line tells which: that of rates begins with `time`.
//!
//! | format | file |
//! |---|---|
//! | delivery opportunities, as Mahimahi's `mm-link` reads them | `opportunities.rs` |
//! | rate, delay and loss over time, as CSV | `conditions.rs` |
//!
//! In both, lines that begin with `#` are skipped.

mod conditions;
pub mod models;
mod opportunities;

use std::fmt;
use std::sync::Arc;

use crate::units::Rate;

pub(crate) use conditions::{Conditions, Position};
pub(crate) use opportunities::{OPPORTUNITY_BYTES, Opportunities};

/// A link over time: its rate, delay and loss.
///
/// ```
/// use ackclock_sim::LinkTrace;
///
/// // One opportunity in each millisecond, and two in every third.
/// let trace = LinkTrace::parse("1\n2\n3\n3\n")?;
/// assert_eq!(trace.mean_rate().map(|rate| rate.bits()), Some(4 * 1504 * 8 * 1000 / 3));
///
/// let error = LinkTrace::parse("time,rate (Mbit/s)\n0,10\n1s,fast\n").unwrap_err();
/// assert!(error.to_string().starts_with("line 3: found `fast`"), "{error}");
/// # Ok::<(), ackclock_sim::LinkTraceError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct LinkTrace(Arc<Kind>);

#[derive(Debug, PartialEq)]
pub(crate) enum Kind {
    Opportunities(Opportunities),
    Conditions(Conditions),
}

/// The properties of a link that a trace sets. A scenario must not set them beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Governed {
    pub rate: bool,
    pub delay: bool,
    pub loss: bool,
}

/// Why a text cannot be read as a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkTraceError {
    /// A line is wrong.
    #[error("line {line}: {what}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The text found there, and the values that are allowed.
        what: String,
    },
    /// The trace never carries anything.
    #[error("the trace carries nothing; it needs {0}")]
    Empty(&'static str),
    /// The trace is too long.
    #[error("the trace has more than {0} lines; cut it, or repeat a part of it")]
    TooLong(usize),
}

impl LinkTrace {
    /// Reads a trace in one of the two formats.
    ///
    /// # Errors
    /// The first line that is wrong, with what is allowed there; or a trace without anything in it.
    pub fn parse(text: &str) -> Result<Self, LinkTraceError> {
        let mut lines = lines(text).peekable();
        let is_table = lines.peek().is_some_and(|(_, line)| line.starts_with("time"));
        let kind = if is_table {
            Kind::Conditions(Conditions::parse(lines)?)
        } else {
            Kind::Opportunities(Opportunities::parse(lines)?)
        };
        Ok(Self(Arc::new(kind)))
    }

    /// The trace of a model, by its name ([`models::all`]).
    #[must_use]
    pub fn model(name: &str) -> Option<Self> {
        models::all().iter().find(|model| model.name == name).map(models::Model::trace)
    }

    /// The mean rate over the length of the trace, as far as it sets one; outages count.
    #[must_use]
    pub fn mean_rate(&self) -> Option<Rate> {
        match self.kind() {
            Kind::Opportunities(opportunities) => Some(opportunities.mean_rate()),
            Kind::Conditions(conditions) => conditions.mean_rate(),
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.0
    }

    /// Whether it is one of opportunities.
    pub(crate) fn has_opportunities(&self) -> bool {
        matches!(self.kind(), Kind::Opportunities(_))
    }

    pub(crate) fn governed(&self) -> Governed {
        match self.kind() {
            Kind::Opportunities(_) => Governed { rate: true, ..Governed::default() },
            Kind::Conditions(conditions) => conditions.governed(),
        }
    }
}

impl fmt::Debug for LinkTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkTrace({:?})", self.mean_rate())
    }
}

/// The lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn wrong(line: usize, what: impl Into<String>) -> LinkTraceError {
    LinkTraceError::Line { line, what: what.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a file holds, it is read or refused.
        #[test]
        fn no_text_is_too_strange(
            heading in prop_oneof![Just(""), Just("time,rate\n"), Just("time (ms),rate (kbit/s),delay (us),loss (%)\n")],
            text in "[0-9.,a-zM/%() #µ\n-]{0,80}",
            now in any::<u64>(),
        ) {
            if let Ok(trace) = LinkTrace::parse(&format!("{heading}{text}")) {
                match trace.kind() {
                    Kind::Opportunities(times) => _ = times.time(times.first_from(now)),
                    Kind::Conditions(rows) => _ = (rows.at(now, true), rows.capacity_until(now, false)),
                }
                prop_assert!(trace.governed() != Governed::default());
            }
        }
    }
}
