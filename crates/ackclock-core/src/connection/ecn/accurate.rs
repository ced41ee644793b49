//! The feedback of Accurate ECN.
//!
//! B. Briscoe, M. Kühlewind and R. Scheffenegger, "More Accurate Explicit Congestion Notification (AccECN)
//! Feedback in TCP", RFC 9768, §3.2: the receiver counts marked packets, and bytes by codepoint; the sender
//! computes differences.
//!
//! Deviations: options are sent on acknowledgements, and on data only for a while after the kind of mark
//! changed (§3.2.3.3 has them there too, at the expense of payload). A path that drops segments because of
//! the options (§3.2.3.2.2) is only detected by the repeated SYN,ACK, which has none.

use ackclock_control::tally::Tally;
use ackclock_wire::{AccEcn, AccEcnOrder, Codepoint};

/// The receiver's counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiver {
    /// r.cep: packets that were marked, plus 5.
    packets: u64,
    /// r.e0b, r.ceb, r.e1b: payload bytes by codepoint.
    bytes: Counters,
    /// Marked packets since the last acknowledgement.
    unreported: u32,
    /// The codepoint of the last data.
    last: Codepoint,
    /// This many more segments carry the option because something changed.
    options_due: u8,
    /// The counters in the last option.
    told: Counters,
}

/// Bytes that arrived with each of the three codepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counters {
    ect0: u32,
    ce: u32,
    ect1: u32,
}

impl Counters {
    // RFC 9768 §3.2.1: not zero, so that counters zeroed on the way are noticed.
    const INITIAL: Self = Self { ect0: 1, ce: 0, ect1: 1 };
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self {
            packets: PACKETS_INITIAL,
            bytes: Counters::INITIAL,
            unreported: 0,
            last: Codepoint::NotEct,
            options_due: OPTION_REPEATS,
            told: Counters::INITIAL,
        }
    }

    /// The SYN,ACK arrived with this codepoint.
    pub(super) fn on_syn_ack(&mut self, codepoint: Codepoint) {
        self.packets.grow(u64::from(codepoint == Codepoint::Ce));
    }

    /// An acceptable segment arrived that represents `segments` on the wire. Returns whether to acknowledge
    /// it at once. `waiting`: whether received data waits for an acknowledgement.
    pub(super) fn on_segment(
        &mut self,
        codepoint: Codepoint,
        segments: u32,
        payload: u32,
        waiting: bool,
    ) -> bool {
        let marked = codepoint == Codepoint::Ce;
        if marked {
            self.packets = self.packets.wrapping_add(u64::from(segments));
            self.unreported = self.unreported.saturating_add(segments);
        }
        let mut changed = false;
        if payload > 0 {
            let counter = match codepoint {
                Codepoint::NotEct => None,
                Codepoint::Ect0 => Some(&mut self.bytes.ect0),
                Codepoint::Ect1 => Some(&mut self.bytes.ect1),
                Codepoint::Ce => Some(&mut self.bytes.ce),
            };
            if let Some(counter) = counter {
                *counter = counter.wrapping_add(payload);
            }
            if codepoint != self.last {
                // RFC 9768 §3.2.3.3: an option reports a change of the counters, and not only once.
                self.options_due = OPTION_REPEATS;
                changed = true;
            }
            self.last = codepoint;
        }
        // RFC 9768 §3.2.2.5.1: an ACK at once when marks begin, and for every second mark; for every third if
        // only acknowledgements are marked, or two ends would answer each other for ever.
        marked && (changed || self.unreported >= if waiting || payload > 0 { 2 } else { 3 })
    }

    /// The value of the ACE field.
    pub(super) fn ace(&self) -> u8 {
        u8::try_from(self.packets & 7).unwrap_or(0)
    }

    /// An acknowledgement leaves, with or without the option.
    pub(super) fn on_ack_sent(&mut self, with_option: bool) {
        self.unreported = 0;
        if with_option {
            self.options_due = self.options_due.saturating_sub(1);
            self.told = self.bytes;
        }
    }

    /// The option for a segment, if any.
    // RFC 9768 §3.2.3.3: the counters that change come first, because the last is left out if room is short.
    pub(super) fn option(&self, pure_ack: bool) -> Option<AccEcn> {
        let due = self.options_due > 0 || pure_ack && self.told != self.bytes;
        let Counters { ect0, ce, ect1 } = self.bytes;
        let order =
            if ect1 == Counters::INITIAL.ect1 { AccEcnOrder::Ect0First } else { AccEcnOrder::Ect1First };
        due.then(|| AccEcn::new(order, ect0, ce, ect1))
    }
}

/// The data sender's view of the marks, and how far it trusts them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    /// s.cep.
    packets: u64,
    /// s.e0b, s.ceb, s.e1b, modulo 2^24.
    bytes: Counters,
    /// Bytes counted as marked because of ACE only, since the last option.
    assumed: u64,
    /// The mean number of packets that one acknowledgement covers, in sixteenths.
    usual: u64,
    /// Packets acknowledged, up to [`TRIAL_PACKETS`], and how many of them were marked.
    trial: (u64, u64),
    /// Windows that were reduced for marks, up to [`TRIAL_ROUNDS`].
    rounds: u8,
    /// Whether ECT(0) and ECT(1) have been sent.
    sent: (bool, bool),
    options: Options,
    /// Whether the feedback is ignored as untrustworthy.
    ignored: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Options {
    None,
    Seen,
    Mangled,
}

/// The marks that an acknowledgement reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub packets: u64,
    pub bytes: u64,
    /// The path, or the peer, mangles ECN.
    pub mangled: bool,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            packets: PACKETS_INITIAL,
            bytes: Counters::INITIAL,
            assumed: 0,
            usual: 0,
            trial: (0, 0),
            rounds: 0,
            sent: (false, false),
            options: Options::None,
            ignored: false,
        }
    }

    /// Ignores the peer's feedback from now on.
    pub(super) fn ignore(&mut self) {
        self.ignored = true;
    }

    /// The window was reduced for marks, as it is once a round trip. Returns whether the path marks
    /// everything; its marks are then ignored.
    // RFC 9768 §3.2.2.3: after "the first three or four rounds".
    pub(super) fn on_answered(&mut self) -> bool {
        self.rounds = self.rounds.saturating_add(1).min(TRIAL_ROUNDS);
        let on_trial = self.trial.0 < TRIAL_PACKETS;
        self.ignored |= on_trial && self.rounds >= TRIAL_ROUNDS && self.trial.1 >= self.trial.0;
        self.ignored
    }

    /// Data leaves with this codepoint.
    pub(super) fn on_sent(&mut self, codepoint: Codepoint) {
        self.sent.0 |= codepoint == Codepoint::Ect0;
        self.sent.1 |= codepoint == Codepoint::Ect1;
    }

    /// An acknowledgement of `acked` more bytes arrived, sent in segments of `smss`.
    pub(super) fn on_feedback(&mut self, ace: u8, option: Option<AccEcn>, acked: u64, smss: u64) -> Marks {
        if self.ignored || acked == 0 {
            return Marks::default();
        }
        let covered = acked.div_ceil(smss.max(1));
        // Bytes assumed before are not new.
        let told = option
            .and_then(|option| self.take_option(&option))
            .map(|told| told.saturating_sub(std::mem::take(&mut self.assumed)));
        // RFC 9768 §A.1: the difference, modulo 8.
        let delta = u64::from(ace).wrapping_sub(self.packets) & 7;
        let packets = self.unwrap(delta, covered, told, smss);
        self.usual = self.usual.saturating_sub(self.usual / 16).saturating_add(covered);
        self.packets = self.packets.wrapping_add(packets);
        let bytes = match told {
            Some(told) => told,
            None => packets.saturating_mul(smss),
        }
        .min(acked);
        if told.is_none() {
            self.assumed = self.assumed.saturating_add(bytes);
        }
        let mangled = self.is_mangled(covered, packets);
        Marks { packets, bytes, mangled }
    }

    /// How many marks `delta` represents; it is known modulo 8.
    // RFC 9768 §3.2.2.5.2: "the safest likely case" if ACE may have cycled.
    fn unwrap(&self, delta: u64, covered: u64, told: Option<u64>, smss: u64) -> u64 {
        if let Some(told) = told {
            // The option counts bytes and does not cycle.
            let least = told.div_ceil(smss.max(1));
            return delta.saturating_add(least.saturating_sub(delta).next_multiple_of(8));
        }
        // The peer answers about every second mark: more than seven at once means lost acknowledgements,
        // unless one always covers that many, or nothing was ever marked.
        let usual = covered.saturating_mul(8) <= self.usual;
        let never = delta == 0 && self.packets == PACKETS_INITIAL;
        if covered <= 7 || usual || never {
            return delta;
        }
        covered.saturating_sub(covered.wrapping_sub(delta) & 7)
    }

    /// Takes an option's counters. Returns the bytes newly marked, if it has that counter.
    fn take_option(&mut self, option: &AccEcn) -> Option<u64> {
        // RFC 9768 §3.2.3.2.4: counters that begin at zero were zeroed on the way.
        if self.options == Options::None && (option.ect0() == Some(0) || option.ect1() == Some(0)) {
            self.options = Options::Mangled;
        }
        if self.options == Options::Mangled {
            return None;
        }
        self.options = Options::Seen;
        advance(&mut self.bytes.ect0, option.ect0());
        advance(&mut self.bytes.ect1, option.ect1());
        advance(&mut self.bytes.ce, option.ce())
    }

    /// RFC 9768 §3.2.2.3: marks on everything from the start, marks that vanish, and codepoints that were
    /// never sent.
    fn is_mangled(&mut self, covered: u64, marked: u64) -> bool {
        let Counters { ect0, ce, ect1 } = self.bytes;
        let changed = self.options == Options::Seen
            && (ect0 != Counters::INITIAL.ect0 && !self.sent.0
                || ect1 != Counters::INITIAL.ect1 && !self.sent.1);
        if self.trial.0 >= TRIAL_PACKETS || self.sent == (false, false) {
            return changed;
        }
        self.trial.0.grow(covered);
        self.trial.1.grow(marked.min(covered));
        let over = self.trial.0 >= TRIAL_PACKETS;
        let all_marked = self.trial.1 >= self.trial.0;
        // RFC 9768 §3.2.2.3: "it is advised not to respond" to continuous marks, and to go on responding
        // where other mangling was found.
        self.ignored |= over && all_marked;
        let bleached =
            self.options == Options::Seen && self.bytes == Counters::INITIAL && ce == Counters::INITIAL.ce;
        changed || over && (all_marked || bleached)
    }
}

/// Advances a 24-bit counter. Returns by how much; `None` if the new value is older.
fn advance(counter: &mut u32, told: Option<u32>) -> Option<u64> {
    let told = told?;
    let difference = told.wrapping_sub(*counter) & (BYTES_MODULUS - 1);
    if difference >= BYTES_MODULUS / 2 {
        return None;
    }
    *counter = told;
    Some(difference.into())
}

/// The feedback of both directions, without the state of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Portable {
    /// r.cep; r.e0b, r.ceb, r.e1b.
    received: (u64, Counters),
    /// s.cep; s.e0b, s.ceb, s.e1b.
    reported: (u64, Counters),
    /// Whether ECT(0) and ECT(1) have been sent.
    sent: (bool, bool),
    /// Whether the peer's feedback is ignored.
    ignored: bool,
}

impl Portable {
    pub(super) fn of(receiver: &Receiver, sender: &Sender) -> Self {
        Self {
            received: (receiver.packets, receiver.bytes),
            reported: (sender.packets, sender.bytes),
            sent: sender.sent,
            ignored: sender.ignored,
        }
    }

    /// Both ends go on. Whether the path mangles marks is found out again.
    pub(super) fn resumed(&self) -> (Receiver, Sender) {
        let receiver = Receiver { packets: self.received.0, bytes: self.received.1, ..Receiver::new() };
        let (packets, bytes) = self.reported;
        let options = if bytes == Counters::INITIAL { Options::None } else { Options::Seen };
        let (sent, ignored) = (self.sent, self.ignored);
        (receiver, Sender { packets, bytes, sent, options, ignored, ..Sender::new() })
    }
}

/// RFC 9768 §3.2.1: the value from which marked packets are counted.
const PACKETS_INITIAL: u64 = 5;
const BYTES_MODULUS: u32 = 1 << 24;
/// This many segments carry the option after a change, in case the first is lost.
const OPTION_REPEATS: u8 = 3;
/// After this many packets the path has shown how it treats ECN.
const TRIAL_PACKETS: u64 = 64;
/// After this many round trips it has, if it marked everything.
const TRIAL_ROUNDS: u8 = 4;

ackclock_form::form! {
    struct Receiver { packets, bytes, unreported, last, options_due, told }
    struct Counters { ect0, ce, ect1 }
    struct Sender { packets, bytes, assumed, usual, trial, rounds, sent, options, ignored }
    enum Options { 0 None, 1 Seen, 2 Mangled }
    struct Portable { received, reported, sent, ignored }
}

#[cfg(test)]
mod tests;
