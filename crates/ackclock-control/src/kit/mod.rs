//! A conformance kit: checks that a congestion controller behaves as a connection expects.
//!
//! [`examine`] runs every check on a factory's controllers and returns a [`KitReport`]. A controller that
//! departs from a check by design says so in its [`About::exceptions`](crate::congestion::About), and the
//! report shows why.
//!
//! ```
//! use ackclock_control::congestion::Registry;
//! use ackclock_control::kit;
//!
//! let factory = Registry::builtin().find("cubic").unwrap();
//! let report = kit::examine(factory.as_ref());
//! assert!(report.passed(), "{report}");
//! ```

mod checks;
mod operation;
mod path;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use operation::{Operation, State, sequence};
pub use path::{Flow, Path, Totals};

use crate::congestion::ControllerFactory;

/// Runs all checks on the controllers that `factory` makes. A panic in a controller fails the check.
#[must_use]
pub fn examine(factory: &dyn ControllerFactory) -> KitReport {
    let exceptions = factory.about().exceptions;
    let results = checks::ALL.iter().map(|&(check, run)| {
        let result = catch_unwind(AssertUnwindSafe(|| run(factory)))
            .unwrap_or_else(|_| Err("it panicked; the message is on stderr".to_owned()));
        let excuse = exceptions.iter().find(|exception| exception.check == check);
        let outcome = match (result, excuse) {
            (Ok(()), None) => Outcome::Passed,
            (Err(_), Some(exception)) => Outcome::Excused(exception.why),
            (Ok(()), Some(_)) => Outcome::Failed("it passes, although it is excepted".to_owned()),
            (Err(message), None) => Outcome::Failed(message),
        };
        (check, outcome)
    });
    KitReport { name: factory.name(), results: results.collect() }
}

/// The names of all checks, for [`Exception::check`](crate::congestion::Exception::check).
pub fn check_names() -> impl Iterator<Item = &'static str> {
    checks::ALL.iter().map(|&(name, _)| name)
}

/// The findings of [`examine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KitReport {
    /// The name of the controller.
    pub name: &'static str,
    /// Each check with its outcome, in the order in which they ran.
    pub results: Vec<(&'static str, Outcome)>,
}

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As expected.
    Passed,
    /// Not as expected, by design, for this reason.
    Excused(&'static str),
    /// Not as expected; what was seen.
    Failed(String),
}

impl KitReport {
    /// Whether no check failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The checks that failed, each with what was seen.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.results.iter().filter_map(|(check, outcome)| match outcome {
            Outcome::Failed(message) => Some((*check, message.as_str())),
            Outcome::Passed | Outcome::Excused(_) => None,
        })
    }
}

impl fmt::Display for KitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:", self.name)?;
        for (check, outcome) in &self.results {
            match outcome {
                Outcome::Passed => writeln!(f, "  ok       {check}")?,
                Outcome::Excused(why) => writeln!(f, "  excused  {check}: {why}")?,
                Outcome::Failed(message) => writeln!(f, "  FAILED   {check}: {message}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
