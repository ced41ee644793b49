//! What a controller is, for tables and reports.

/// What a controller is: the row of the table in the module documentation of [`congestion`](super), and what
/// `tcpcat profiles` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Year of the source.
    pub year: u16,
    /// Author, title and place.
    pub source: &'static str,
    /// What tells it of congestion.
    pub signal: Signal,
    /// What it keeps in the queue of an otherwise empty path.
    pub keeps_in_queue: &'static str,
    /// Where it departs from its source.
    pub deviations: &'static str,
    /// Checks of the conformance kit that do not apply to it.
    pub exceptions: &'static [Exception],
}

impl About {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        year: 0,
        source: "unknown",
        signal: Signal::Loss,
        keeps_in_queue: "unknown",
        deviations: "unknown",
        exceptions: &[],
    };
}

/// What tells a controller of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// Loss alone.
    Loss,
    /// Delay, and loss.
    Delay,
    /// The rate of delivery, and loss.
    Rate,
    /// Congestion Experienced marks, and loss.
    Marks,
    /// Nothing.
    None,
}

/// A check of the conformance kit that a controller does not pass, by design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Name of the check.
    pub check: &'static str,
    /// Why it is meant so.
    pub why: &'static str,
}
