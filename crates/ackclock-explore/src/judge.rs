//! [`Breach`]: what no world may do, and the checks of a single state.

use std::any::Any;
use std::fmt;

use ackclock_core::{ConnectionError, ConnectionInfo, State};

use crate::step::Side;
use crate::world::End;

/// Something that a world must not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    what: String,
    /// The end that broke the rule, if the breach itself shows which.
    pub(crate) by: Option<Side>,
    pub(crate) rule: Rule,
}

/// The rule that an end has broken. Numbers are places in a stream: a SYN has place 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// It acknowledges up to this place at most.
    AcknowledgeUpTo(u32),
    /// It reports only what lies in these ranges.
    Report(Vec<(u32, u32)>),
    /// It keeps the right edge of its window at this place or beyond.
    KeepEdge(u32),
    /// It sends no text, and no empty segment, beyond this place.
    StayWithin(u32),
    /// Its text is what the application wrote.
    SendStream,
    /// It counts this number of bytes as acknowledged at most, and with those that were reported the other.
    Believe(u64, u64),
    /// It reads what has arrived in order.
    Read,
    /// It announces a window beyond this place.
    OpenWindow(u32),
    /// It keeps the connection, which has no cause to fail.
    Live,
    /// It keeps the connection, which nothing in order has ended.
    StayOpen,
    /// It does not forget a SYN that waits.
    TellOfSyn,
    /// A healthy network has nothing to carry, or nothing that helps.
    GoOn(Unfinished),
    /// It stops to answer answers.
    Rest,
    /// It survives the move itself.
    NotPanic,
    /// No end broke one: the script is not of this world.
    Fit,
}

/// A thing that has not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// Bytes that this side wrote are not read.
    Bytes(Side),
    /// The end of this side's stream is not read.
    End(Side),
    /// This side's connection remains.
    Connection(Side),
    /// An accepted SYN has no outcome.
    Syn,
}

impl Breach {
    /// A breach by one end, which the text names.
    pub(crate) fn by(side: Side, rule: Rule, what: impl fmt::Display) -> Self {
        Self { what: format!("{}: {what}", side.name()), by: Some(side), rule }
    }

    /// A breach of which either end may be the cause.
    pub(crate) fn of_world(rule: Rule, what: impl fmt::Display) -> Self {
        Self { what: what.to_string(), by: None, rule }
    }

    /// A panic, in a move of this end if it is one's.
    pub(crate) fn panic(by: Option<Side>, panic: &(dyn Any + Send)) -> Self {
        let what = format!("it panics: {}", message(panic));
        by.map_or_else(|| Self::of_world(Rule::NotPanic, &what), |side| Self::by(side, Rule::NotPanic, &what))
    }

    /// A move that is not possible where the script makes it.
    pub(crate) fn misfit(why: impl fmt::Display) -> Self {
        Self::of_world(Rule::Fit, format_args!("this script does not fit: {why}"))
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Breach {}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes(_) => "bytes that were written are not read",
            Self::End(_) => "a stream's end is not read",
            Self::Connection(_) => "a closed connection remains",
            Self::Syn => "an accepted SYN has no outcome",
        })
    }
}

/// The message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic")
}

/// RCV.NXT as a place.
pub(crate) fn rcv_nxt(info: &ConnectionInfo) -> u64 {
    let has_fin = matches!(info.state, State::CloseWait | State::Closing | State::LastAck | State::TimeWait);
    info.bytes_received.saturating_add(1).saturating_add(u64::from(has_fin))
}

impl End {
    /// Names a belief that this sender must not have of its stream, if it has one.
    pub fn wrong_belief(&self, info: &ConnectionInfo) -> Option<(Rule, &'static str)> {
        let arrived = if self.wire.is_mixed { return None } else { self.wire.arrived };
        let (in_order, any) = (u64::from(arrived.trailing_ones()), u64::from(arrived.count_ones()));
        let rule = Rule::Believe(in_order, any);
        if info.bytes_acked > in_order {
            return Some((rule, "bytes count as acknowledged that have not arrived"));
        }
        if info.bytes_acked.saturating_add(info.sacked) > any {
            return Some((rule, "bytes count as selectively acknowledged that have not arrived"));
        }
        None
    }

    /// Whether its window stays closed although all was read, in a world in which nothing is on the way to
    /// tell of it.
    pub fn keeps_its_window_shut(&self, info: &ConnectionInfo) -> bool {
        let open = matches!(info.state, State::Established | State::FinWait1 | State::FinWait2);
        open && info.receive_queue == 0 && u64::from(self.wire.edge) <= rcv_nxt(info)
    }
}

/// Why an end must not have failed, given what the applications did. Faults are too few to use up a
/// connection's patience, so no time limit may strike.
pub(crate) fn failure(error: ConnectionError, reset_by_application: bool) -> Option<String> {
    let is_reset =
        matches!(error, ConnectionError::Reset | ConnectionError::Refused | ConnectionError::Aborted);
    (!(is_reset && reset_by_application)).then(|| format!("a connection fails without a cause: {error}"))
}
