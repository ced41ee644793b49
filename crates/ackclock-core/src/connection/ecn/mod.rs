//! Explicit congestion notification: negotiated, stamped on what leaves, counted and echoed on arrival, and
//! answered once a window.
//!
//! K. Ramakrishnan, S. Floyd and D. Black, "The Addition of Explicit Congestion Notification (ECN) to IP",
//! RFC 3168, 2001, §6.1 ([`classic`]); B. Briscoe, M. Kühlewind and R. Scheffenegger, "More Accurate Explicit
//! Congestion Notification (AccECN) Feedback in TCP", RFC 9768, 2026 ([`accurate`]). Both begin in
//! [`negotiation`].
//!
//! Deviations: a simultaneous open agrees on nothing. RFC 3168 §6.1.2 makes a sender whose window is one
//! segment wait for the retransmission timer when it is marked again; here the controller's smallest window
//! is the limit.

mod accurate;
mod classic;
pub(crate) mod negotiation;

use ackclock_control::congestion::Ect;
use ackclock_control::profile::Ecn;
use ackclock_control::tally::Tally;
use ackclock_wire::{AccEcn, Codepoint, Flags};

use self::classic::Classic;
use self::negotiation::{Agreement, answer_of, handshake_ace, handshake_codepoint, syn_flags};
use super::segment::Segment;
use crate::info::EcnInfo;
use crate::sending::{AckNews, Call, Flight};
use crate::trace::SendReason;

/// ECN on a connection: nothing but an empty box unless it was agreed on.
#[derive(Clone, Debug)]
pub(super) struct Marking(Option<Box<EcnState>>);

/// The ECN state of a connection that agreed on it.
#[derive(Clone, Debug)]
struct EcnState {
    feedback: Feedback,
    /// Whether new data leaves as ECN-capable.
    capable: bool,
    totals: Totals,
}

/// How marks are reported.
#[derive(Clone, Debug)]
enum Feedback {
    Classic(Classic),
    Accurate(Accurate),
}

#[derive(Clone, Debug)]
struct Accurate {
    receiver: accurate::Receiver,
    sender: accurate::Sender,
    opening: Opening,
    /// Whether the first segment after the handshake has been checked.
    tested: bool,
}

/// ECN on a connection, without the state of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortableMarking {
    /// Whether new data leaves as ECN-capable.
    capable: bool,
    feedback: PortableFeedback,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortableFeedback {
    Classic(Classic),
    Accurate(accurate::Portable),
}

/// The special segments at the end of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// Active: the pure acknowledgement of the SYN,ACK, which arrived with this codepoint, has yet to leave.
    Tells(Codepoint),
    /// Passive: the peer's acknowledgement of the SYN,ACK is the next segment.
    Hears,
    Over,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    packets_marked: u64,
    bytes_marked: u64,
    marks_reported: u64,
    reductions: u64,
}

impl EcnState {
    // RFC 9293 SHLD-8: ECN as in RFC 3168, and the more accurate form beside it; off unless asked for.
    fn new(form: Ecn, capable: bool, opening: Opening) -> Self {
        let feedback = if form == Ecn::Accurate {
            let (receiver, sender) = (accurate::Receiver::new(), accurate::Sender::new());
            Feedback::Accurate(Accurate { receiver, sender, opening, tested: false })
        } else {
            Feedback::Classic(Classic::default())
        };
        Self { feedback, capable, totals: Totals::default() }
    }

    fn info(&self) -> EcnInfo {
        let form = match self.feedback {
            Feedback::Classic(_) => Ecn::Classic,
            Feedback::Accurate(_) => Ecn::Accurate,
        };
        let Totals { packets_marked, bytes_marked, marks_reported, reductions } = self.totals;
        EcnInfo { form, capable: self.capable, packets_marked, bytes_marked, marks_reported, reductions }
    }

    /// Flags and codepoint of a segment that is neither SYN nor RST.
    fn stamp(&mut self, segment: &Segment, ect: Ect) -> (Flags, Codepoint) {
        let new_data = segment.payload_len > 0 && segment.reason == SendReason::NewData;
        // RFC 3168 §6.1.4, §6.1.5, §6.1.6: no acknowledgements, retransmissions or window probes; RFC 9768
        // does not change that.
        let codepoint = match ect {
            _ if !new_data || !self.capable => Codepoint::NotEct,
            Ect::Ect0 => Codepoint::Ect0,
            Ect::Ect1 => Codepoint::Ect1,
        };
        let flags = match &mut self.feedback {
            Feedback::Classic(classic) => classic.stamp(new_data),
            Feedback::Accurate(accurate) => {
                accurate.sender.on_sent(codepoint);
                accurate.ace_of(segment)
            }
        };
        (flags, codepoint)
    }

    /// Whether the next new data carries CWR, which only the first of several segments would keep, or the
    /// option of Accurate ECN, which all of them would repeat.
    fn needs_lone_segment(&self) -> bool {
        match &self.feedback {
            // RFC 3168 §6.1.2.
            Feedback::Classic(classic) => classic.cwr_due(),
            // A bit of the ACE field, which devices that cut segments may take for CWR.
            Feedback::Accurate(Accurate { receiver, .. }) => {
                receiver.option(false).is_some() || Flags::from_ace(receiver.ace()).contains(Flags::CWR)
            }
        }
    }
}

impl Accurate {
    fn ace_of(&mut self, segment: &Segment) -> Flags {
        let pure_ack = segment.payload_len == 0 && !segment.flags.contains(Flags::FIN);
        let ace = match self.opening {
            // RFC 9768 §3.2.2.1: only a pure acknowledgement has the encoding of the handshake.
            Opening::Tells(codepoint) if pure_ack => {
                self.opening = Opening::Over;
                handshake_ace(codepoint)
            }
            _ => self.receiver.ace(),
        };
        Flags::from_ace(ace)
    }

    /// The first segments after the handshake show whether the feedback passes the path. Returns whether it
    /// does.
    fn passes(&mut self, segment: &ackclock_wire::Segment<'_>) -> bool {
        let flags = segment.flags;
        let pure_ack = segment.seq_len() == 0 && segment.options.sack.is_empty();
        let hears = self.opening == Opening::Hears;
        if hears {
            self.opening = Opening::Over;
        }
        if hears && pure_ack {
            // RFC 9768 §3.2.2.1, Table 4; §3.2.2.3: our SYN,ACK is never ECN-capable, so it cannot have
            // become so.
            return match handshake_codepoint(flags.ace()) {
                Some(codepoint) => codepoint == Codepoint::NotEct,
                None => flags.ace() != 0,
            };
        }
        // RFC 9768 §3.2.2.4: a field of zero this early was zeroed on the way, unless the option reports
        // marks too.
        let marked = segment.options.accecn.and_then(|option| option.ce()).is_some_and(|bytes| bytes > 0);
        std::mem::replace(&mut self.tested, true) || flags.ace() != 0 || marked
    }
}

impl Marking {
    /// ECN was not agreed on.
    pub const OFF: Self = Self(None);

    /// The state after a passive handshake with this agreement.
    pub fn passive(agreement: Option<Agreement>) -> Self {
        let state = |Agreement { form, capable }| Box::new(EcnState::new(form, capable, Opening::Hears));
        Self(agreement.map(state))
    }

    /// The state once a SYN,ACK with these flags has answered our SYN. `retries`: how often the SYN was
    /// repeated.
    pub fn active(wanted: Ecn, retries: u32, flags: Flags, codepoint: Codepoint) -> Self {
        let Some((form, told)) = answer_of(wanted, flags) else { return Self::OFF };
        // RFC 9768 §3.1.5, RFC 3168 §6.1.1: a host that has sent a SYN without the flags even once sends
        // nothing ECN-capable.
        let offered = syn_flags(wanted, retries) != Flags::NONE;
        if form == Ecn::Classic && !offered {
            return Self::OFF;
        }
        // RFC 9768 §3.2.2.3: the SYN was not ECN-capable and cannot have become so.
        let capable = offered && told == Codepoint::NotEct;
        let mut state = Box::new(EcnState::new(form, capable, Opening::Tells(codepoint)));
        if let Feedback::Accurate(accurate) = &mut state.feedback {
            accurate.receiver.on_syn_ack(codepoint);
        }
        Self(Some(state))
    }

    /// Without the state of one version; `None` if ECN was not agreed on.
    pub fn portable(&self) -> Option<PortableMarking> {
        let EcnState { feedback, capable, .. } = &**self.0.as_ref()?;
        let feedback = match feedback {
            Feedback::Classic(classic) => PortableFeedback::Classic(*classic),
            Feedback::Accurate(accurate) => {
                PortableFeedback::Accurate(accurate::Portable::of(&accurate.receiver, &accurate.sender))
            }
        };
        Some(PortableMarking { capable: *capable, feedback })
    }

    /// Goes on after a handshake in an earlier life.
    pub fn resumed(PortableMarking { capable, feedback }: PortableMarking) -> Self {
        let feedback = match feedback {
            PortableFeedback::Classic(classic) => Feedback::Classic(classic),
            PortableFeedback::Accurate(accurate) => {
                let (receiver, sender) = accurate.resumed();
                Feedback::Accurate(Accurate { receiver, sender, opening: Opening::Over, tested: true })
            }
        };
        Self(Some(Box::new(EcnState { feedback, capable, totals: Totals::default() })))
    }

    /// Whether ECN was not agreed on.
    #[inline]
    pub fn is_off(&self) -> bool {
        self.0.is_none()
    }

    pub fn info(&self) -> Option<EcnInfo> {
        self.0.as_ref().map(|ecn| ecn.info())
    }

    fn accurate(&mut self) -> Option<&mut Accurate> {
        match &mut self.0.as_mut()?.feedback {
            Feedback::Accurate(accurate) => Some(accurate),
            Feedback::Classic(_) => None,
        }
    }

    /// The SYN,ACK came again, before anything else was acknowledged: its acknowledgement is again that of
    /// the handshake (RFC 9768 §3.2.2.1).
    pub fn on_syn_again(&mut self, codepoint: Codepoint) {
        if let Some(accurate) = self.accurate()
            && accurate.opening == Opening::Over
        {
            accurate.opening = Opening::Tells(codepoint);
        }
    }

    /// Whether the acknowledgement of the handshake must leave alone, before any data (RFC 9768 §3.2.2.1).
    #[inline]
    pub fn owes_handshake_ack(&self) -> bool {
        self.0.as_ref().is_some_and(|ecn| match &ecn.feedback {
            Feedback::Accurate(accurate) => matches!(accurate.opening, Opening::Tells(_)),
            Feedback::Classic(_) => false,
        })
    }

    /// An acceptable segment arrived. It represents `segments` on the wire, all with this codepoint; `waits`:
    /// others wait to be acknowledged. Returns whether it must be acknowledged at once.
    pub fn on_segment(
        &mut self,
        segment: &ackclock_wire::Segment<'_>,
        segments: u32,
        codepoint: Codepoint,
        waits: bool,
    ) -> bool {
        let Some(ecn) = &mut self.0 else { return false };
        let payload = u32::try_from(segment.payload.len()).unwrap_or(u32::MAX);
        if codepoint == Codepoint::Ce {
            ecn.totals.packets_marked.grow(u64::from(segments));
            ecn.totals.bytes_marked.grow(u64::from(payload));
        }
        match &mut ecn.feedback {
            // RFC 3168 §6.1.4: a mark on an acknowledgement is not answered.
            Feedback::Classic(classic) if payload > 0 => {
                classic.on_data(segment.flags, codepoint);
                false
            }
            Feedback::Classic(_) => false,
            Feedback::Accurate(accurate) => {
                if !segment.flags.contains(Flags::SYN) && !accurate.passes(segment) {
                    // RFC 9768 §3.2.2.3, §3.2.2.4: this end keeps counting and reporting.
                    ecn.capable = false;
                    accurate.sender.ignore();
                }
                accurate.receiver.on_segment(codepoint, segments, payload, waits)
            }
        }
    }

    /// Puts ECN on a segment that leaves.
    #[inline]
    pub fn stamp(
        &mut self,
        segment: &Segment,
        flags: Flags,
        ect: impl FnOnce() -> Ect,
    ) -> (Flags, Codepoint) {
        match &mut self.0 {
            Some(ecn) if !flags.intersects(Flags::SYN | Flags::RST) => {
                let (marks, codepoint) = ecn.stamp(segment, ect());
                (flags | marks, codepoint)
            }
            _ => (flags, Codepoint::NotEct),
        }
    }

    /// Whether the next data must be one segment of the wire.
    #[inline]
    pub fn needs_lone_segment(&self) -> bool {
        self.0.as_ref().is_some_and(|ecn| ecn.needs_lone_segment())
    }

    /// The option of Accurate ECN, if one is due.
    #[inline]
    pub fn option(&self, pure_ack: bool, with_sack: bool) -> Option<AccEcn> {
        match &self.0.as_ref()?.feedback {
            Feedback::Classic(_) => None,
            // Two counters and two SACK blocks fit beside timestamps. The third counter hardly ever changes.
            Feedback::Accurate(accurate) => accurate
                .receiver
                .option(pure_ack)
                .map(|option| if with_sack { option.truncated(2) } else { option }),
        }
    }

    /// An acknowledgement left, on any segment.
    #[inline]
    pub fn on_ack_sent(&mut self, with_option: bool) {
        if let Some(accurate) = self.accurate() {
            accurate.receiver.on_ack_sent(with_option);
        }
    }

    /// Reads the marks in an acknowledgement and responds. Returns the bytes newly marked.
    #[inline]
    pub fn on_ack(
        &mut self,
        call: &mut Call<'_>,
        flight: &mut Flight,
        segment: &ackclock_wire::Segment<'_>,
        news: &AckNews,
    ) -> u64 {
        if self.is_off() {
            return 0;
        }
        // A loss that was just found may have reduced the window.
        self.note_reduction(|| flight.take_reduced());
        let (smss, newly_acked) = (u64::from(flight.smss()), news.newly_acked());
        flight.end_marked_window(call);
        let Some(ecn) = &mut self.0 else { return 0 };
        let bytes = match &mut ecn.feedback {
            // RFC 3168 §6.1.2; data that was not ECN-capable causes no echo.
            Feedback::Classic(_) if !ecn.capable || !segment.flags.contains(Flags::ECE) => return 0,
            Feedback::Classic(_) => {
                ecn.totals.marks_reported.count();
                newly_acked
            }
            Feedback::Accurate(accurate) => {
                let (ace, option) = (segment.flags.ace(), segment.options.accecn);
                let marks = accurate.sender.on_feedback(ace, option, newly_acked, smss);
                ecn.totals.marks_reported.grow(marks.packets);
                ecn.capable &= !marks.mangled;
                marks.bytes
            }
        };
        if bytes > 0 && flight.on_marked(call, news) {
            ecn.totals.reductions.count();
            if let Feedback::Accurate(accurate) = &mut ecn.feedback {
                ecn.capable &= !accurate.sender.on_answered();
            }
            self.note_reduction(|| flight.take_reduced());
        }
        bytes
    }

    /// Notes that congestion control has reduced the window, for any reason (RFC 3168 §6.1.2).
    #[inline]
    pub fn note_reduction(&mut self, reduced: impl FnOnce() -> bool) {
        if let Some(ecn) = &mut self.0
            && reduced()
            && let Feedback::Classic(classic) = &mut ecn.feedback
        {
            classic.on_reduction();
        }
    }
}

/// The option on a SYN,ACK that agrees on Accurate ECN (RFC 9768 §3.2.3.2.1): the initial counters.
pub(crate) fn option_of_syn_ack(agreement: Agreement) -> Option<AccEcn> {
    (agreement.form == Ecn::Accurate).then(|| accurate::Receiver::new().option(true)).flatten()
}

ackclock_form::form! {
    struct Marking(state)
    struct PortableMarking { capable, feedback }
    enum PortableFeedback { 0 Classic(value), 1 Accurate(value) }
    struct EcnState { feedback, capable, totals }
    enum Feedback { 0 Classic(value), 1 Accurate(value) }
    struct Accurate { receiver, sender, opening, tested }
    enum Opening { 0 Tells(value), 1 Hears, 2 Over }
    struct Totals { packets_marked, bytes_marked, marks_reported, reductions }
}

#[cfg(test)]
mod tests;
