//! The intended differences, as `docs/linux.md` shows them.

use super::answer::Answer;
use super::sequence::{AckBase, Call, Extra, RemoteSegment, SeqBase, Sequence, Stamp, Step};
use crate::segment::{ACK, FIN, RST, SYN};
use ackclock_core::State;

/// An intended difference.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The event.
    pub what: &'static str,
    /// Linux's behaviour.
    pub linux: &'static str,
    /// This stack's behaviour.
    pub here: &'static str,
    /// The reason, with the section that gives it.
    pub why: &'static str,
    /// Whether it explains a difference.
    pub explains: fn(&Seen<'_>) -> bool,
}

/// A difference, and what led to it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The sequence.
    pub sequence: &'a Sequence,
    /// The step whose answers differ.
    pub at: usize,
    /// The kernel's answers up to there.
    pub linux: &'a [Answer],
    /// This stack's.
    pub here: &'a [Answer],
}

/// The table. If several rows explain a difference, the first does.
pub const ROWS: [Row; 33] = [
    Row {
        what: "a segment without timestamps, after both ends have agreed on them",
        linux: "taken",
        here: "dropped, unless it is a reset",
        why: "RFC 7323 §3.2: such a segment SHOULD be dropped",
        explains: |seen| {
            let forced = seen.had(|sent| sent.timestamps == Stamp::Forced);
            let lacks = |sent: &RemoteSegment| sent.timestamps == Stamp::Absent || forced;
            seen.agreed_on_timestamps() && seen.had(|sent| lacks(sent) && !sent.has(SYN) && !sent.has(RST))
        },
    },
    Row {
        what: "an option with an illegal length",
        linux: "the options before it count, and so does the segment",
        here: "the segment is dropped and counted",
        why: "RFC 9293 §3.1 suggests a reset; this stack does not guess at what it cannot read",
        explains: |seen| {
            seen.had(|sent| matches!(sent.extra, Extra::LengthZero | Extra::LengthBeyond | Extra::ShortMss))
        },
    },
    Row {
        what: "bytes that arrive twice and disagree",
        linux: "later bytes may stand, if they fill a whole segment beyond a gap",
        here: "the first bytes stand",
        why: "one rule on every path; the RFCs state none",
        explains: |seen| seen.had(|sent| sent.alien),
    },
    Row {
        what: "text beyond a FIN, or two FINs at different places",
        linux: "the FIN that is next in order; what lies beyond it is forgotten",
        here: "the first FIN to arrive; what lies beyond it is forgotten",
        why: "as for bytes; an honest peer never moves its end",
        explains: |seen| seen.ends_disagree(),
    },
    Row {
        what: "a FIN that is next in order and repeats bytes, or after which bytes are repeated",
        linux: "acknowledged without blocks, or with earlier ones",
        here: "the repeated bytes are reported (D-SACK)",
        why: "RFC 2883 §4",
        explains: |seen| seen.fields() == ["sack"] && seen.ends_here(),
    },
    Row {
        what: "a segment with none of SYN, RST and ACK, outside the window",
        linux: "dropped",
        here: "answered by an acknowledgement",
        why: "RFC 9293 §3.10.7.4: the sequence number is looked at first",
        explains: |seen| {
            seen.only(&REPLY) && seen.sent().is_some_and(|sent| sent.flags & (SYN | RST | ACK) == 0)
        },
    },
    Row {
        what: "text after the peer's FIN, or another FIN",
        linux: "text beyond the FIN resets the connection; another FIN draws nothing",
        here: "not taken; it is acknowledged again where it has a FIN or is out of the window",
        why: "RFC 9293 §3.10.7.4: segment text in CLOSE-WAIT, CLOSING and LAST-ACK is ignored",
        explains: |seen| {
            matches!(seen.before(), Some(State::CloseWait | State::Closing | State::LastAck))
                && seen.sent().is_some_and(|sent| sent.len > 0 || sent.has(FIN))
        },
    },
    Row {
        what: "a segment in TIME-WAIT",
        linux: "answered, unless it is empty and at RCV.NXT",
        here: "answered if it is unacceptable or repeats the FIN",
        why: "RFC 9293 §3.10.7.4",
        explains: |seen| seen.only(&["ack", "closed", "sack", "echo"]) && seen.waits(),
    },
    Row {
        what: "FIN-WAIT-1 and FIN-WAIT-2 after the program has closed its stream",
        linux: "a short record: SYNs, data and FINs out of order are answered by a reset, whatever they \
            acknowledge, resets out of the window by an acknowledgement",
        here: "as before: challenges (RFC 5961), no answer to resets; new data is answered by a reset",
        why: "RFC 9293 §3.10.7.4, RFC 5961 §3 to §5",
        explains: |seen| {
            seen.only(&REPLY)
                && seen.closed()
                && matches!(seen.before(), Some(State::FinWait1 | State::FinWait2))
        },
    },
    Row {
        what: "an acknowledgement of the SYN's own number or of something before it",
        linux: "no answer, within a window of SND.UNA",
        here: "challenged",
        why: "RFC 5961 §5 bounds what is taken by what the peer can have acknowledged, and a peer cannot \
            have acknowledged that",
        explains: |seen| seen.had_at(|sent, (_, ack), _| sent.has(ACK) && ack as i32 <= 0),
    },
    Row {
        what: "an echo, in SYN-SENT or of a SYN-ACK, of a timestamp that was not sent",
        linux: "answered by a reset in SYN-SENT; otherwise the handshake stays incomplete",
        here: "only the measurement is left out",
        why: "RFC 9293 §3.10.7.3 has no such test, and a reset would serve an attacker",
        explains: |seen| {
            let opens = matches!(seen.before(), None | Some(State::SynSent | State::SynReceived));
            let wrong = |sent: &RemoteSegment| matches!(sent.timestamps, Stamp::WrongEcho | Stamp::Forced);
            opens && seen.sent().is_some_and(wrong)
        },
    },
    Row {
        what: "`close` with data beyond a gap",
        linux: "a FIN: only what could be read counts as unread",
        here: "a reset",
        why: "RFC 9293 SHLD-3: received data is lost",
        explains: |seen| matches!(seen.call(), Some(Call::Close)) && seen.here().reset.is_some(),
    },
    Row {
        what: "a duplicate that lies before the first byte or far outside the window, has an old timestamp, \
            or acknowledges what was not sent",
        linux: "reported (D-SACK)",
        here: "not reported",
        why: "RFC 2883 §4 reports what was received; such a segment is not taken (RFC 5961 §5.2, RFC 7323 \
            §5.3)",
        explains: |seen| {
            let old = seen.sent().is_some_and(|sent| matches!(sent.timestamps, Stamp::Behind(_)));
            let unsent = seen.ack() <= 0 || seen.ack() > seen.here().sent as i32;
            let outside = |&(left, _): &(u32, u32)| (left as i32) < 1 || left > FAR;
            seen.fields().contains(&"sack") && (old || unsent || seen.linux().sack.iter().any(outside))
        },
    },
    Row {
        what: "a segment that ends just before RCV.NXT",
        linux: "acceptable: its timestamp and its acknowledgement count",
        here: "not acceptable",
        why: "RFC 9293 §3.4: a part of it must lie in the window; RFC 7323 §5.3 R2",
        explains: |seen| {
            seen.had_at(|sent, (seq, _), next| seq.wrapping_add(seg_len(sent)) == next && seg_len(sent) > 0)
        },
    },
    Row {
        what: "a FIN without text beyond a gap",
        linux: "reported (SACK)",
        here: "kept, and not reported by itself",
        why: "RFC 2018 §3 reports data; the acknowledgement covers it once the gap is filled",
        explains: |seen| {
            let lone = |sent: &RemoteSegment, (seq, _): (u32, u32), next| {
                sent.has(FIN) && sent.len == 0 && seq_after(seq, next)
            };
            seen.fields().contains(&"sack") && seen.had_at(lone)
        },
    },
    Row {
        what: "the SYN-ACK of a simultaneous open",
        linux: "the options of the SYN again",
        here: "only the options that the peer's SYN has too",
        why: "RFC 7323 §2.2, §3.2: a SYN-ACK has them if the SYN had",
        explains: |seen| {
            matches!(seen.before(), Some(State::SynSent | State::SynReceived))
                && seen.fields().contains(&"opening")
        },
    },
    Row {
        what: "a segment that begins or ends just at the window's edge",
        linux: "taken whole, also from the edge on; a reset from the edge is challenged",
        here: "cut at the edge, and nothing is taken from the edge on but an empty acknowledgement",
        why: "RFC 9293 §3.4, §3.10.7.4; RFC 5961 §3",
        explains: |seen| seen.had(|sent| sent.seq.0 == SeqBase::Edge),
    },
    Row {
        what: "a reset that begins before RCV.NXT with text that reaches into the window",
        linux: "challenged",
        here: "dropped",
        why: "RFC 5961 §3: SEG.SEQ decides",
        explains: |seen| {
            seen.only(&REPLY) && seen.sent().is_some_and(|sent| sent.has(RST) && seg_len(sent) > 0)
        },
    },
    Row {
        what: "an empty segment or a FIN one before RCV.NXT",
        linux: "acknowledged; its acknowledgement does not count",
        here: "acknowledged; its acknowledgement counts",
        why: "RFC 9293 Appendix A.2: both ends may be one off",
        explains: |seen| {
            seen.had_at(|sent, (seq, _), next| seq.wrapping_add(1) == next && seg_len(sent) <= 1)
        },
    },
    Row {
        what: "an empty segment before RCV.NXT with an old timestamp",
        linux: "dropped",
        here: "answered by an acknowledgement",
        why: "RFC 7323 §5.3 R1",
        explains: |seen| {
            let old =
                |sent: &RemoteSegment| matches!(sent.timestamps, Stamp::Behind(_)) && seg_len(sent) == 0;
            seen.only(&REPLY) && seen.sent().is_some_and(old)
        },
    },
    Row {
        what: "the timestamp of a segment that acknowledges less than was acknowledged before",
        linux: "not kept",
        here: "kept",
        why: "RFC 7323 §5.3 R3: SEG.SEQ and the clock decide",
        explains: |seen| {
            seen.fields() == ["echo"]
                && seen.had(|sent| sent.has(ACK) && sent.ack.0 != AckBase::All || sent.ack.1 < 0)
        },
    },
    Row {
        what: "`close` with a linger time of zero in LAST-ACK or CLOSING, before all text is acknowledged",
        linux: "no reset",
        here: "a reset",
        why: "RFC 9293 §3.10.5 requires none; without one the peer would wait for ever",
        explains: |seen| {
            matches!(seen.before(), Some(State::LastAck | State::Closing))
                && matches!(seen.call(), Some(Call::Abort))
        },
    },
    Row {
        what: "a second SYN, at another number, for a handshake that is not complete",
        linux: "a reset, and the handshake is over",
        here: "the handshake is over",
        why: "RFC 9293 §3.10.7.4, fourth: back to LISTEN",
        explains: |seen| {
            seen.fields() == ["reset"]
                && matches!(seen.before(), None | Some(State::Closed))
                && seen.sent().is_some_and(|sent| sent.has(SYN))
        },
    },
    Row {
        what: "a SYN with a FIN for a handshake that is not complete",
        linux: "the SYN-ACK again",
        here: "dropped",
        why: "honest senders never send one; a listener drops it too",
        explains: |seen| {
            matches!(seen.before(), None | Some(State::Closed | State::TimeWait))
                && seen.sent().is_some_and(|sent| sent.has(SYN | FIN))
        },
    },
    Row {
        what: "a segment out of the window, for a handshake that is not complete, that acknowledges what was \
            not sent",
        linux: "a reset",
        here: "an acknowledgement",
        why: "RFC 9293 §3.10.7.4: the sequence number is looked at first",
        explains: |seen| {
            seen.only(&REPLY)
                && matches!(seen.before(), None | Some(State::Closed | State::TimeWait))
                && seen.linux().reset.is_some()
                && seen.here().reset.is_none()
        },
    },
    Row {
        what: "text or a FIN on a SYN-ACK",
        linux: "ignored",
        here: "taken",
        why: "RFC 9293 §3.10.7.3, fourth: other controls and text are processed",
        explains: |seen| {
            let more = |sent: &RemoteSegment| sent.has(SYN) && (sent.has(FIN) || sent.len > 0);
            matches!(seen.before(), Some(State::SynSent)) && seen.sent().is_some_and(more)
        },
    },
    Row {
        what: "`close` with a linger time of zero in TIME-WAIT",
        linux: "TIME-WAIT continues",
        here: "TIME-WAIT ends, and later segments are answered by a reset",
        why: "RFC 9293 §3.10.5: ABORT in TIME-WAIT deletes the connection",
        explains: |seen| {
            let steps = seen.sequence.steps[..seen.at].iter().enumerate();
            let waited = |at: usize| at > 0 && seen.here[at - 1].inner == Some(State::TimeWait);
            let mut aborts = steps.filter(|(at, step)| **step == Step::Call(Call::Abort) && waited(*at));
            aborts.next().is_some()
        },
    },
    Row {
        what: "a SYN in TIME-WAIT for a port on which nothing listens any more",
        linux: "acknowledged",
        here: "answered by a reset; TIME-WAIT continues",
        why: "RFC 9293 §3.10.7.1: a client learns at once that nothing listens",
        explains: |seen| {
            let listens = !seen.sequence.active
                && !seen.sequence.steps[..seen.at].contains(&Step::Call(Call::Unlisten));
            let syn = |sent: &RemoteSegment| sent.has(SYN) && !sent.has(ACK);
            !listens && seen.only(&REPLY) && seen.waits() && seen.sent().is_some_and(syn)
        },
    },
    Row {
        what: "an MSS of 0",
        linux: "as without the option: 536",
        here: "216, the smallest that is believed",
        why: "RFC 9293 §3.7.1 does not say; CVE-2019-11479",
        explains: |seen| seen.fields().contains(&"sent") && seen.sequence.offer.mss == Some(0),
    },
    Row {
        what: "less than a segment behind full ones that are not acknowledged (Nagle)",
        linux: "sent, unless a small one is outstanding",
        here: "waits for the acknowledgement",
        why: "RFC 9293 §3.7.4",
        explains: |seen| {
            let (linux, here) = (seen.linux().sent, seen.here().sent);
            seen.fields().contains(&"sent")
                && linux > here
                && linux - here < 700
                && seen.sequence.offer.mss != Some(1460)
        },
    },
    Row {
        what: "the end of the stream while the peer's window is closed, all text being sent",
        linux: "the FIN waits for the probe's timer",
        here: "the FIN is sent, and repeated as a probe",
        why: "RFC 9293 MUST-35: one octet may be sent into a closed window; a FIN takes no room there",
        explains: |seen| seen.fields().contains(&"fin") && seen.had(|sent| sent.window == 0),
    },
    Row {
        what: "a small window",
        linux: "a smaller window counts only from a segment with a newer SEG.SEQ or SEG.ACK, unless it is 0; \
            an older SEG.SEQ with a newer SEG.ACK counts, too; less than a segment waits for the probe's \
            timer",
        here: "SND.WL1 and SND.WL2 decide; less than a segment waits for the override timeout",
        why: "RFC 9293 §3.10.7.4, fifth; §3.8.6.2.1 (4)",
        explains: |seen| seen.fields().contains(&"sent") && seen.had(|sent| sent.window < 8_000),
    },
    Row {
        what: "`shutdown` while connecting",
        linux: "the attempt is given up",
        here: "refused: not connected",
        why: "`close` gives an attempt up (RFC 9293 §3.10.4)",
        explains: |seen| {
            matches!(seen.before(), Some(State::SynSent)) && matches!(seen.call(), Some(Call::Shutdown))
        },
    },
];

/// Fields of an answer that changes no state.
const REPLY: [&str; 5] = ["reset", "ack", "closed", "sack", "echo"];
/// No sequence sends as much in order.
const FAR: u32 = 1 << 20;

fn seq_after(seq: u32, other: u32) -> bool {
    seq.wrapping_sub(other) as i32 > 0
}

/// SEG.LEN.
fn seg_len(sent: &RemoteSegment) -> u32 {
    u32::from(sent.len) + u32::from(sent.has(SYN)) + u32::from(sent.has(FIN))
}

impl Seen<'_> {
    fn linux(&self) -> &Answer {
        &self.linux[self.at]
    }

    fn here(&self) -> &Answer {
        &self.here[self.at]
    }

    /// The segment of this step, if it is one.
    fn sent(&self) -> Option<&RemoteSegment> {
        match self.sequence.steps.get(self.at) {
            Some(Step::Segment(sent)) => Some(sent),
            _ => None,
        }
    }

    /// The call of this step, if it is one.
    fn call(&self) -> Option<Call> {
        match self.sequence.steps.get(self.at) {
            Some(Step::Call(call)) => Some(*call),
            _ => None,
        }
    }

    /// SEG.ACK of this step, relative to the initial sequence number.
    fn ack(&self) -> i32 {
        self.here().segment.1 as i32
    }

    /// The number of such segments, this one included.
    fn count(&self, is: impl Fn(&RemoteSegment) -> bool) -> usize {
        let steps = &self.sequence.steps[..=self.at];
        steps.iter().filter(|step| matches!(step, Step::Segment(sent) if is(sent))).count()
    }

    fn had(&self, is: impl Fn(&RemoteSegment) -> bool) -> bool {
        self.count(is) > 0
    }

    /// Whether such a segment occurred, given its numbers and the RCV.NXT acknowledged before it.
    fn had_at(&self, is: impl Fn(&RemoteSegment, (u32, u32), u32) -> bool) -> bool {
        let mut next = 0;
        self.sequence.steps[..=self.at].iter().zip(self.here).any(|(step, answer)| {
            let found = matches!(step, Step::Segment(sent) if is(sent, answer.segment, next));
            next = answer.ack.unwrap_or(next);
            found
        })
    }

    /// Whether the peer's FIN was processed.
    fn ended_in_order(&self) -> bool {
        has_fin(self.before())
    }

    /// Whether this step processes the peer's FIN.
    fn ends_here(&self) -> bool {
        !self.ended_in_order() && has_fin(self.here().inner)
    }

    /// Whether the peer has sent text beyond its own FIN, or FINs at different numbers.
    fn ends_disagree(&self) -> bool {
        let segments = || {
            self.sequence.steps[..=self.at].iter().zip(self.here).filter_map(|(step, answer)| match step {
                Step::Segment(sent) if !sent.has(SYN) => {
                    Some((sent, answer.segment.0.wrapping_add(u32::from(sent.len)) as i32))
                }
                _ => None,
            })
        };
        let text_end = segments().filter(|(sent, _)| sent.len > 0).map(|(_, end)| end).max();
        let fins = || segments().filter(|(sent, _)| sent.has(FIN)).map(|(_, end)| end);
        fins().any(|end| text_end.is_some_and(|text| text > end) || fins().any(|other| other != end))
    }

    /// Whether both ends have offered timestamps.
    fn agreed_on_timestamps(&self) -> bool {
        let offered =
            self.linux.iter().any(|answer| answer.opening.is_some_and(|opening| opening.timestamps));
        self.sequence.offer.timestamps && offered
    }

    /// Whether the program has closed its stream.
    fn closed(&self) -> bool {
        self.sequence.steps[..self.at].contains(&Step::Call(Call::Close))
    }

    /// The connection's state before this step.
    fn before(&self) -> Option<State> {
        self.at.checked_sub(1).and_then(|before| self.here[before].inner)
    }

    /// Whether the connection is in TIME-WAIT, or only its record is left.
    fn waits(&self) -> bool {
        let over = self.before().is_none() && self.here().fin;
        self.before() == Some(State::TimeWait) || over
    }

    /// The fields that differ.
    fn fields(&self) -> Vec<&'static str> {
        self.linux().differences(self.here())
    }

    /// Whether only these differ.
    fn only(&self, fields: &[&str]) -> bool {
        self.fields().iter().all(|field| fields.contains(field))
    }
}

/// Whether a connection in this state has processed the peer's FIN.
fn has_fin(state: Option<State>) -> bool {
    matches!(state, Some(State::CloseWait | State::Closing | State::LastAck | State::TimeWait))
}

/// The table as the document shows it.
#[must_use]
pub fn table() -> String {
    let mut text = "| what | Linux | this stack | why |\n|---|---|---|---|\n".to_owned();
    for row in ROWS {
        text += &format!("| {} | {} | {} | {} |\n", row.what, row.linux, row.here, row.why);
    }
    text
}
