//! Descriptions of controllers, for tables and reports.

/// A controller's description: the row of the table in the module documentation of [`congestion`](super),
/// which `tcpcat profiles` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Year of the source.
    pub year: u16,
    /// Author, title and place.
    pub source: &'static str,
    /// The signal that it takes for congestion.
    pub signal: Signal,
    /// The queue that it keeps on an otherwise empty path.
    pub keeps_in_queue: &'static str,
    /// Where it departs from its source.
    pub deviations: &'static str,
    /// Conformance checks that do not apply to it.
    pub exceptions: &'static [Exception],
}

impl About {
    /// An empty description.
    pub const UNKNOWN: Self = Self {
        year: 0,
        source: "unknown",
        signal: Signal::Loss,
        keeps_in_queue: "unknown",
        deviations: "unknown",
        exceptions: &[],
    };
}

/// A signal that a controller takes for congestion.
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

/// A conformance check that a controller fails by design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Name of the check.
    pub check: &'static str,
    /// Why it fails.
    pub why: &'static str,
}
