//! [`Step`]: a call of a [`Script`] as a value, which runs, or prints as the line of a test that makes it.

use std::time::Duration;

use ackclock_core::{ConnectionError, Decision};

use crate::script::Script;
use crate::segment::{Seg, number};

/// Declares each step once: its variant, and the call that both runs and is printed.
macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident$(($($argument:ident: $type:ty),+))? => $call:ident;)*) => {
        /// A call of a [`Script`].
        #[derive(Clone, Debug, PartialEq)]
        pub enum Step {
            $($(#[$doc])* $name$(($($type),+))?,)*
        }

        impl Step {
            /// Makes the call.
            ///
            /// # Panics
            /// If the endpoint does not act as the step expects.
            pub fn run(&self, script: &mut Script) {
                match self {
                    $(Self::$name$(($($argument),+))? => {
                        script.$call($($($argument.passed()),+)?);
                    })*
                }
            }

            /// The line that makes the call.
            #[must_use]
            pub fn code(&self) -> String {
                match self {
                    $(Self::$name$(($($argument),+))? => {
                        let arguments: Vec<String> = vec![$($($argument.code()),+)?];
                        format!("script.{}({});", stringify!($call), arguments.join(", "))
                    })*
                }
            }
        }
    };
}

steps! {
    /// A segment of the peer arrives.
    Peer(segment: Seg) => peer;
    /// The peer refuses a segment that acknowledged nothing.
    PeerRefuses(ack: u32) => peer_refuses;
    /// The endpoint has refused one.
    ExpectRefusal(ack: u32) => expect_refusal;
    /// The endpoint has sent this.
    Expect(segment: Seg) => expect;
    /// The endpoint has sent nothing more.
    Nothing => nothing;
    /// Time passes. Timers that are due at its end wait.
    Pass(by: Duration) => pass;
    /// Time passes, and all timers that are due expire.
    Advance(by: Duration) => advance;
    /// The host sleeps.
    Sleep(by: Duration) => sleep;
    /// The application opens a connection.
    Connect => connect;
    /// The application accepts each connection as soon as it can, and gives all but the first up.
    AcceptAtOnce => accept_at_once;
    /// The application decides on a SYN.
    Decide(decision: Decision) => decide;
    /// The application writes bytes of the pattern.
    Write(seq: u32, len: usize) => write;
    /// The application reads all there is: bytes of the pattern.
    ExpectRead(seq: u32, len: usize) => expect_read;
    /// The application reads the end of the stream.
    ExpectEnd => expect_end;
    /// The application reads an error.
    ExpectError(error: ConnectionError) => expect_error;
    /// The application ends its stream.
    Shutdown => shutdown;
    /// The application resets the connection.
    Abort => abort;
    /// The application gives the connection up.
    Release => release;
    /// No acknowledgement lies beyond this place.
    AcknowledgesUpTo(place: u32) => acknowledges_up_to;
    /// No SACK block reports anything but these ranges.
    ReportsOnly(ranges: Vec<(u32, u32)>) => reports_only;
    /// The window ends at this place or beyond.
    KeepsEdge(place: u32) => keeps_edge;
    /// Nothing is sent beyond this place.
    StaysWithin(place: u32) => stays_within;
    /// All text is what was written.
    SendsWhatWasWritten => sends_what_was_written;
    /// At most the first number of bytes counts as acknowledged, the second as acknowledged or held.
    BelievesAtMost(acked: u64, held: u64) => believes_at_most;
    /// A window beyond this place was announced.
    HasOpenedItsWindow(place: u32) => has_opened_its_window;
    /// The connection has not failed.
    HasNotFailed => has_not_failed;
    /// The connection is not over.
    IsNotOver => is_not_over;
    /// Nothing is left of any connection.
    HasFinished => has_finished;
    /// No SYN has vanished.
    HasToldOfEachSyn => has_told_of_each_syn;
    /// The byte at this place is sent in time.
    GoesOn(place: u32, limit: Duration) => goes_on;
}

/// An argument of a call.
trait Argument {
    /// Its type in the call.
    type Passed<'a>
    where
        Self: 'a;

    /// The argument itself.
    fn passed(&self) -> Self::Passed<'_>;

    /// The expression for it.
    fn code(&self) -> String;
}

macro_rules! arguments {
    ($($type:ty, $self:ident => $code:expr;)*) => {
        $(impl Argument for $type {
            type Passed<'a> = Self;

            fn passed(&self) -> Self {
                self.clone()
            }

            fn code(&$self) -> String {
                $code
            }
        })*
    };
}

arguments! {
    Seg, self => Self::code(self);
    u32, self => number(*self);
    u64, self => self.to_string();
    usize, self => self.to_string();
    Decision, self => format!("Decision::{self:?}");
    ConnectionError, self => format!("ConnectionError::{self:?}");
    Duration, self => duration(*self);
}

impl Argument for Vec<(u32, u32)> {
    type Passed<'a> = &'a [(u32, u32)];

    fn passed(&self) -> &[(u32, u32)] {
        self
    }

    fn code(&self) -> String {
        format!("&{self:?}")
    }
}

/// A duration in the largest unit that makes it a whole number.
fn duration(time: Duration) -> String {
    const UNITS: [(u128, &str); 3] =
        [(1_000_000_000, "from_secs"), (1_000_000, "from_millis"), (1_000, "from_micros")];
    let nanos = time.as_nanos();
    let unit = UNITS.iter().find(|(unit, _)| nanos.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or(&(1, "from_nanos"));
    format!("Duration::{name}({})", nanos / unit)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::script::{Setup, pattern, untimed};
    use crate::segment::{ACK, FIN, Opt, PSH, RST, SYN, seg};

    #[test]
    fn steps_print_as_the_calls_they_make() {
        let data = seg(PSH | ACK).seq(1).ack(1).data(&pattern(1, 2));
        for (step, line) in [
            (Step::Peer(data), "peer(seg(PSH | ACK).seq(1).ack(1).window(65535).data(&pattern(1, 2)))"),
            (Step::Nothing, "nothing()"),
            (Step::Pass(Duration::from_micros(1_000_001)), "pass(Duration::from_micros(1000001))"),
            (Step::Advance(Duration::from_secs(60)), "advance(Duration::from_secs(60))"),
            (Step::Decide(Decision::Accept), "decide(Decision::Accept)"),
            (Step::ExpectError(ConnectionError::Reset), "expect_error(ConnectionError::Reset)"),
            (Step::ReportsOnly(vec![(1, 2), (4, 6)]), "reports_only(&[(1, 2), (4, 6)])"),
            (Step::GoesOn(3, Duration::from_millis(200)), "goes_on(3, Duration::from_millis(200))"),
        ] {
            assert_eq!(step.code(), format!("script.{line};"));
        }
    }

    /// Each of these fails in a script that begins so, and each of those passes.
    #[track_caller]
    fn tells_apart(begin: impl Fn() -> Script, pass: &[Step], fail: &[Step]) {
        let runs = |step: &Step| {
            let mut script = begin();
            catch_unwind(AssertUnwindSafe(|| step.run(&mut script))).is_ok()
        };
        let [failed, passed] = [(pass, true), (fail, false)]
            .map(|(steps, is_right)| steps.iter().find(|step| runs(step) != is_right));
        assert_eq!((failed, passed), (None, None), "the step that fails, and the one that passes");
    }

    fn accepted() -> Script {
        let peer_options = vec![Opt::Mss(1460), Opt::SackPermitted];
        Script::accepted(&Setup { tcp: untimed(64), peer_options, peer_window: 64, ..Setup::default() })
    }

    #[test]
    fn rules_tell_a_segment_that_breaks_them() {
        let writes = || {
            let mut script = accepted();
            script.write(1, 3);
            script
        };
        tells_apart(
            writes,
            &[
                Step::AcknowledgesUpTo(1),
                Step::KeepsEdge(65),
                Step::StaysWithin(4),
                Step::SendsWhatWasWritten,
            ],
            &[Step::AcknowledgesUpTo(0), Step::KeepsEdge(66), Step::StaysWithin(3), Step::Nothing],
        );
        let writes_other_text = || {
            let mut script = accepted();
            let _ = script.update(|connection, now| connection.write(now, &[7, 7]));
            script
        };
        tells_apart(writes_other_text, &[Step::StaysWithin(3)], &[Step::SendsWhatWasWritten]);
        let reports = || {
            let mut script = accepted();
            script.peer(seg(PSH | ACK).seq(3).ack(1).window(64).data(&pattern(3, 2)));
            script
        };
        tells_apart(
            reports,
            &[Step::ReportsOnly(vec![(1, 2), (3, 5)]), Step::ExpectRead(1, 0)],
            &[Step::ReportsOnly(vec![(3, 4)]), Step::ReportsOnly(vec![]), Step::ExpectRead(1, 1)],
        );
        let answers_at_the_edge = || {
            let mut script = accepted();
            script.write(1, 64);
            script.take_sent();
            script.peer(seg(PSH | ACK).seq(1).ack(65).window(0).data(&pattern(1, 2)));
            script.advance(Duration::from_millis(500));
            script
        };
        tells_apart(answers_at_the_edge, &[Step::StaysWithin(65)], &[Step::StaysWithin(64)]);
    }

    #[test]
    fn rules_tell_a_state_that_breaks_them() {
        let three_acknowledged = || {
            let mut script = accepted();
            script.write(1, 5);
            script.take_sent();
            script.peer(seg(ACK).seq(1).ack(4).window(64));
            script
        };
        let minute = Duration::from_secs(60);
        tells_apart(
            three_acknowledged,
            &[
                Step::BelievesAtMost(3, 3),
                Step::HasOpenedItsWindow(64),
                Step::HasNotFailed,
                Step::IsNotOver,
                Step::GoesOn(4, minute),
            ],
            &[
                Step::BelievesAtMost(2, 3),
                Step::BelievesAtMost(3, 2),
                Step::HasOpenedItsWindow(65),
                Step::HasFinished,
                Step::GoesOn(3, minute),
                Step::GoesOn(6, minute),
                Step::GoesOn(4, Duration::from_millis(1)),
                Step::ExpectEnd,
                Step::ExpectError(ConnectionError::Reset),
            ],
        );
        let reset = || {
            let mut script = accepted();
            script.peer(seg(RST).seq(1).window(0));
            script
        };
        tells_apart(
            reset,
            &[Step::ExpectError(ConnectionError::Reset)],
            &[Step::HasNotFailed, Step::IsNotOver, Step::ExpectError(ConnectionError::Refused)],
        );
        let ended = || {
            let mut script = accepted();
            script.peer(seg(FIN | ACK).seq(1).ack(1).window(64));
            script
        };
        tells_apart(ended, &[Step::ExpectEnd, Step::HasNotFailed], &[Step::HasFinished]);
        let aborted = || {
            let mut script = accepted();
            script.abort();
            script.release();
            script
        };
        tells_apart(aborted, &[Step::HasFinished], &[Step::IsNotOver, Step::Nothing]);
    }

    #[test]
    fn a_syn_may_not_vanish() {
        let waits = || {
            let mut script = Script::listening(&Setup { deferred: true, ..Setup::default() });
            script.peer(seg(SYN));
            script
        };
        tells_apart(waits, &[Step::HasToldOfEachSyn, Step::Decide(Decision::Accept)], &[]);
        let accepted = || {
            let mut script = waits();
            script.decide(Decision::Accept);
            script
        };
        tells_apart(accepted, &[], &[Step::HasToldOfEachSyn, Step::Decide(Decision::Accept)]);
        let over = || {
            let mut script = accepted();
            script.peer(seg(RST).seq(1));
            script
        };
        tells_apart(over, &[Step::HasToldOfEachSyn], &[]);
    }

    #[test]
    fn a_refusal_has_the_number_0() {
        let refused = || {
            let mut script = Script::closed(&Setup::default());
            script.peer(seg(SYN));
            script
        };
        tells_apart(refused, &[Step::ExpectRefusal(1)], &[Step::ExpectRefusal(2), Step::Nothing]);
        let connecting = || {
            let mut script = Script::connecting(&Setup::default());
            script.peer_refuses(1);
            script
        };
        tells_apart(
            connecting,
            &[Step::ExpectError(ConnectionError::Refused)],
            &[Step::HasNotFailed, Step::ExpectRefusal(1)],
        );
    }
}
