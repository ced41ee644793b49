//! [`ROWS`]: a model of Linux for the server of a world, row by row of docs/linux.md.
//!
//! The server is an endpoint of this stack. A [`Variation`] changes one of its answers, an arrival or a call
//! of its application to what a row says of Linux. So the client meets a peer that may act either way.

mod packet;
mod scene;

use ackclock_core::State;
use ackclock_wire::{Fields, SackBlocks, Segment};

pub(crate) use self::packet::{answer_to, with_header};
pub(crate) use self::scene::{Scene, Seen};
use crate::step::Call;

/// A row of docs/linux.md.
#[derive(Debug)]
pub struct Row {
    /// Its first cell.
    pub what: &'static str,
    /// How it is modelled.
    pub model: Model,
}

/// How a row is modelled.
#[derive(Debug)]
pub enum Model {
    /// The server may act so.
    Varied(&'static [Entry]),
    /// Why it makes no difference between the two honest ends of a small world.
    Never(&'static str),
}

/// A way in which the server may act as a Linux.
#[derive(Debug)]
pub struct Entry {
    /// The way.
    pub variation: Variation,
    /// Its name in scripts.
    pub name: &'static str,
    pub(crate) rule: Rule,
}

/// An act of a Linux. The tables [`ROWS`] and [`BEYOND`] give each its name and its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the tables say what they mean")]
pub enum Variation {
    FinUnreported,
    TimeWaitUnreported,
    OrphanResets,
    CloseAtGap,
    LateAck,
    FinReported,
    OptionsAgain,
    EdgeResetChallenged,
    AckOneBefore,
    AbortUnsaid,
    AbortInTimeWait,
    SmallBehindFull,
    FinWaits,
    OldSegmentsWindow,
    SmallWaits,
    ShutdownGivesUp,
    Blockless,
    Silent,
}

/// When a variation is possible, and what it does.
#[derive(Debug)]
pub(crate) enum Rule {
    /// A packet that the server has just sent is another, or none.
    Answer(fn(&Scene, &Segment<'_>) -> Option<Answer>),
    /// The oldest packet on the way to the server is taken otherwise.
    Arrival(fn(&Scene, &Segment<'_>) -> Option<Arrival>),
    /// A call of the server's application does something else.
    Call(fn(&Scene, Call) -> Option<Act>),
}

/// An answer of the server, as a Linux gives it.
#[derive(Debug)]
pub(crate) enum Answer {
    /// This header, with the same text.
    Header(Fields),
    Nothing,
}

/// How a segment is taken.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// As if this acknowledgement had come before it.
    After(Fields),
    /// As if it had this header.
    Header(Fields),
    /// It is dropped and answered so.
    Answered(Fields),
    /// It is dropped, and the connection reset.
    Reset,
}

/// How a call is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// As if it were this call.
    As(Call),
    /// As if the Nagle algorithm were off.
    AtOnce,
}

/// The rows of docs/linux.md, in its order.
pub static ROWS: [Row; 33] = [
    Row {
        what: "a segment without timestamps, after both ends have agreed on them",
        model: Model::Never("an honest end puts them on every segment, and small worlds have none"),
    },
    Row { what: "an option with an illegal length", model: Model::Never("an honest end sends none") },
    Row {
        what: "bytes that arrive twice and disagree",
        model: Model::Never("an honest end repeats the bytes that it sent"),
    },
    Row {
        what: "text beyond a FIN, or two FINs at different places",
        model: Model::Never("an honest end never moves its end"),
    },
    Row {
        what: "a FIN that is next in order and repeats bytes, or after which bytes are repeated",
        model: Model::Varied(&[Entry {
            variation: Variation::FinUnreported,
            name: "fin-unreported",
            rule: Rule::Answer(|scene, segment| scene.without_blocks(segment, false)),
        }]),
    },
    Row {
        what: "a segment with none of SYN, RST and ACK, outside the window",
        model: Model::Never("an honest end sends none"),
    },
    Row {
        what: "text after the peer's FIN, or another FIN",
        model: Model::Never("an honest end sends neither; the FIN that it repeats is no other"),
    },
    Row {
        what: "a segment in TIME-WAIT",
        model: Model::Varied(&[Entry {
            variation: Variation::TimeWaitUnreported,
            name: "time-wait-unreported",
            rule: Rule::Answer(|scene, segment| scene.without_blocks(segment, true)),
        }]),
    },
    Row {
        what: "FIN-WAIT-1 and FIN-WAIT-2 after the program has closed its stream",
        model: Model::Varied(&[Entry {
            variation: Variation::OrphanResets,
            name: "orphan-resets",
            rule: Rule::Arrival(Scene::orphan_resets),
        }]),
    },
    Row {
        what: "an acknowledgement of the SYN's own number or of something before it",
        model: Model::Never("an honest end acknowledges the SYN at least"),
    },
    Row {
        what: "an echo, in SYN-SENT or of a SYN-ACK, of a timestamp that was not sent",
        model: Model::Never("an honest end echoes what it received, and small worlds have no timestamps"),
    },
    Row {
        what: "`close` with data beyond a gap",
        model: Model::Varied(&[Entry {
            variation: Variation::CloseAtGap,
            name: "close-at-gap",
            rule: Rule::Answer(Scene::close_at_gap),
        }]),
    },
    Row {
        what: "a duplicate that lies before the first byte or far outside the window, has an old timestamp, \
            or acknowledges what was not sent",
        model: Model::Never(
            "an honest end sends no text there, a whole stream is shorter than two windows, and small worlds \
                have no timestamps",
        ),
    },
    Row {
        what: "a segment that ends just before RCV.NXT",
        model: Model::Varied(&[Entry {
            variation: Variation::LateAck,
            name: "late-ack",
            rule: Rule::Arrival(Scene::late_ack),
        }]),
    },
    Row {
        what: "a FIN without text beyond a gap",
        model: Model::Varied(&[Entry {
            variation: Variation::FinReported,
            name: "fin-reported",
            rule: Rule::Answer(Scene::fin_reported),
        }]),
    },
    Row {
        what: "the SYN-ACK of a simultaneous open",
        model: Model::Varied(&[Entry {
            variation: Variation::OptionsAgain,
            name: "options-again",
            rule: Rule::Answer(Scene::options_again),
        }]),
    },
    Row {
        // An honest end sends two other things from the edge on, and there is no difference: a FIN is taken,
        // and the byte of a probe finds no room.
        what: "a segment that begins or ends just at the window's edge",
        model: Model::Varied(&[Entry {
            variation: Variation::EdgeResetChallenged,
            name: "edge-reset-challenged",
            rule: Rule::Arrival(Scene::edge_reset_challenged),
        }]),
    },
    Row {
        what: "a reset that begins before RCV.NXT with text that reaches into the window",
        model: Model::Never("an honest end's resets have no text"),
    },
    Row {
        what: "an empty segment or a FIN one before RCV.NXT",
        model: Model::Varied(&[Entry {
            variation: Variation::AckOneBefore,
            name: "ack-one-before",
            rule: Rule::Arrival(Scene::ack_one_before),
        }]),
    },
    Row {
        what: "an empty segment before RCV.NXT with an old timestamp",
        model: Model::Never("small worlds have no timestamps: their clocks would tell all states apart"),
    },
    Row {
        what: "the timestamp of a segment that acknowledges less than was acknowledged before",
        model: Model::Never("small worlds have no timestamps: their clocks would tell all states apart"),
    },
    Row {
        what: "`close` with a linger time of zero in LAST-ACK or CLOSING, before all text is acknowledged",
        model: Model::Varied(&[Entry {
            variation: Variation::AbortUnsaid,
            name: "abort-unsaid",
            rule: Rule::Answer(Scene::abort_unsaid),
        }]),
    },
    Row {
        what: "a second SYN, at another number, for a handshake that is not complete",
        model: Model::Never("each application opens once, so an end has one initial sequence number"),
    },
    Row {
        what: "a SYN with a FIN for a handshake that is not complete",
        model: Model::Never("an honest end sends none"),
    },
    Row {
        what: "a segment out of the window, for a handshake that is not complete, that acknowledges what was \
            not sent",
        model: Model::Never(
            "only the late answer of an earlier connection acknowledges that, and it lies within the window: \
                a whole stream is shorter",
        ),
    },
    Row {
        what: "text or a FIN on a SYN-ACK",
        model: Model::Never("without Fast Open an honest end sends none"),
    },
    Row {
        what: "`close` with a linger time of zero in TIME-WAIT",
        model: Model::Varied(&[Entry {
            variation: Variation::AbortInTimeWait,
            name: "abort-in-time-wait",
            rule: Rule::Call(|scene, call| {
                (scene.state() == Some(State::TimeWait) && call == Call::Abort)
                    .then_some(Act::As(Call::Close))
            }),
        }]),
    },
    Row {
        what: "a SYN in TIME-WAIT for a port on which nothing listens any more",
        model: Model::Never("a world's server listens to its end"),
    },
    Row { what: "an MSS of 0", model: Model::Never("an honest end sends none") },
    Row {
        what: "less than a segment behind full ones that are not acknowledged (Nagle)",
        model: Model::Varied(&[Entry {
            variation: Variation::SmallBehindFull,
            name: "small-behind-full",
            rule: Rule::Call(Scene::small_behind_full),
        }]),
    },
    Row {
        what: "the end of the stream while the peer's window is closed, all text being sent",
        model: Model::Varied(&[Entry {
            variation: Variation::FinWaits,
            name: "fin-waits",
            rule: Rule::Answer(Scene::fin_waits),
        }]),
    },
    Row {
        // A smaller window never comes alone: it would be one that shrinks.
        what: "a small window",
        model: Model::Varied(&[
            Entry {
                variation: Variation::OldSegmentsWindow,
                name: "old-segments-window",
                rule: Rule::Arrival(Scene::old_segments_window),
            },
            Entry {
                variation: Variation::SmallWaits,
                name: "small-waits",
                rule: Rule::Answer(Scene::small_waits),
            },
        ]),
    },
    Row {
        what: "`shutdown` while connecting",
        model: Model::Varied(&[Entry {
            variation: Variation::ShutdownGivesUp,
            name: "shutdown-gives-up",
            rule: Rule::Call(|scene, call| {
                let connecting = scene.state() == Some(State::SynSent);
                (connecting && call == Call::Shutdown).then_some(Act::As(Call::Close))
            }),
        }]),
    },
];

/// Variations without a row: a Linux may say less than the comparison of docs/linux.md lets it.
pub static BEYOND: [Entry; 2] = [
    // Its `tcp_dsack` may be off, and it may have forgotten what lay beyond a gap.
    Entry {
        variation: Variation::Blockless,
        name: "blockless",
        rule: Rule::Answer(|_, segment| {
            let mut header = packet::header_of(segment);
            header.options.sack = SackBlocks::default();
            (!segment.options.sack.is_empty()).then_some(Answer::Header(header))
        }),
    },
    // Its `tcp_invalid_ratelimit` allows one repeated answer in half a second.
    Entry { variation: Variation::Silent, name: "silent", rule: Rule::Answer(Scene::silent) },
];

impl Variation {
    /// All entries of both tables.
    pub fn entries() -> impl Iterator<Item = &'static Entry> {
        let rows = ROWS.iter().flat_map(|row| match row.model {
            Model::Varied(entries) => entries,
            Model::Never(_) => &[],
        });
        rows.chain(&BEYOND)
    }

    /// Whether it changes an answer of the server.
    pub(crate) fn is_answer(self) -> bool {
        self.entry().is_some_and(|entry| matches!(entry.rule, Rule::Answer(_)))
    }

    pub(crate) fn entry(self) -> Option<&'static Entry> {
        Self::entries().find(|entry| entry.variation == self)
    }
}
