//! TCP options: parsed and written (RFC 9293 §3.1 and §3.2, RFC 7323, RFC 2018, RFC 9768, RFC 6994, RFC 5482,
//! RFC 7413).
//!
//! The first option of a kind counts; later ones are skipped. An option of a known kind with another kind's
//! length is skipped like an unknown one. An impossible length (below 2, or beyond the header) makes the
//! whole segment illegal, because nothing after it can be trusted.

mod rare;

use std::{fmt, mem};

use self::rare::{FAST_OPEN, USER_TIMEOUT};
pub use self::rare::{FastOpenCookie, UserTimeout};
use crate::ecn::{AccEcn, KIND_ECT0_FIRST, KIND_ECT1_FIRST};
use crate::{SeqNum, TcpError};

/// The options of a segment that this stack understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window scale shift count as received; a receiver clamps it to 14 (RFC 7323 §2.3).
    pub window_scale: Option<u8>,
    /// SACK-permitted.
    pub sack_permitted: bool,
    /// Timestamps: (TSval, TSecr).
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks, in order; the first may be a D-SACK.
    pub sack: SackBlocks,
    /// Counters of Accurate ECN, in either order.
    pub accecn: Option<AccEcn>,
    /// An experimental option from the application.
    pub experiment: Option<Experiment>,
    /// The sender's user timeout.
    pub user_timeout: Option<UserTimeout>,
    /// A Fast Open cookie, or the request for one.
    pub fast_open: Option<FastOpenCookie>,
}

/// An experimental option with a 32-bit experiment identifier and eight bytes (RFC 6994). A peer that does
/// not know experiments, or this one, skips it like any unknown option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// The experiment identifier (ExID).
    pub id: u32,
    /// The option's value.
    pub value: [u8; 8],
}

/// Up to four SACK blocks: (left edge, right edge), right edge exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(SeqNum, SeqNum); Self::MAX],
    len: u8,
}

impl TcpOptions {
    /// Parses the bytes between the fixed header and the payload.
    ///
    /// # Errors
    /// [`TcpError::OptionLength`] when an option's length is below 2 or reaches beyond `bytes`.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, TcpError> {
        // RFC 7323 appendix A: the recommended layout of a segment whose only option is the timestamps.
        if let [NOP, NOP, TIMESTAMPS, 10, v0, v1, v2, v3, e0, e1, e2, e3] = *bytes {
            let timestamps = (u32::from_be_bytes([v0, v1, v2, v3]), u32::from_be_bytes([e0, e1, e2, e3]));
            return Ok(Self { timestamps: Some(timestamps), ..Self::default() });
        }
        Self::walk(bytes)
    }

    /// Out of line, so that the layout above stays cheap.
    #[inline(never)]
    fn walk(mut bytes: &[u8]) -> Result<Self, TcpError> {
        let mut options = Self::default();
        // RFC 9293 MUST-64: options may begin on any byte boundary, so the walk goes byte by byte.
        while let Some((&kind, rest)) = bytes.split_first() {
            match kind {
                // RFC 9293 MUST-4: end of option list, no-operation and maximum segment size are understood.
                END => break,
                NOP => bytes = rest,
                // RFC 9293 MUST-68: every option except END and NOP has a length, including unknown ones.
                _ => {
                    let len = rest.first().map_or(0, |len| usize::from(*len));
                    // RFC 9293 MUST-7: an illegal length, such as 0, is handled: the segment is refused.
                    // Deviation from RFC 9293 §3.1: the suggested reset is not sent, because an off-path
                    // attacker would exploit it.
                    let (option, behind) = bytes.split_at_checked(len).ok_or(TcpError::OptionLength)?;
                    let [_, _, data @ ..] = option else { return Err(TcpError::OptionLength) };
                    options.set(kind, data);
                    bytes = behind;
                }
            }
        }
        Ok(options)
    }

    /// Records one option, unless its length does not match its kind, or an option of its kind came before.
    fn set(&mut self, kind: u8, data: &[u8]) {
        match (kind, data) {
            (MSS, &[a, b]) => self.mss = self.mss.or(Some(u16::from_be_bytes([a, b]))),
            (WINDOW_SCALE, &[shift]) => self.window_scale = self.window_scale.or(Some(shift)),
            (SACK_PERMITTED, &[]) => self.sack_permitted = true,
            (SACK, blocks) if self.sack.is_empty() => self.sack = SackBlocks::parse(blocks),
            (TIMESTAMPS, &[v0, v1, v2, v3, e0, e1, e2, e3]) => {
                let timestamps = (u32::from_be_bytes([v0, v1, v2, v3]), u32::from_be_bytes([e0, e1, e2, e3]));
                self.timestamps = self.timestamps.or(Some(timestamps));
            }
            (KIND_ECT0_FIRST | KIND_ECT1_FIRST, counters) if self.accecn.is_none() => {
                self.accecn = Some(AccEcn::parse(kind, counters));
            }
            (EXPERIMENT, &[i0, i1, i2, i3, ref value @ ..]) if self.experiment.is_none() => {
                let id = u32::from_be_bytes([i0, i1, i2, i3]);
                self.experiment = value.try_into().ok().map(|value| Experiment { id, value });
            }
            (USER_TIMEOUT, &[a, b]) => {
                self.user_timeout = self.user_timeout.or(Some(UserTimeout::parse([a, b])));
            }
            (FAST_OPEN, cookie) => self.fast_open = self.fast_open.or(FastOpenCookie::new(cookie)),
            // RFC 9293 MUST-6: unknown options are ignored; they have a length.
            _ => {}
        }
    }

    /// Whether the only option is the timestamps, or there are none: true of nearly every segment.
    #[inline]
    pub(crate) fn only_timestamps(&self) -> bool {
        self.mss.is_none()
            && self.window_scale.is_none()
            && !self.sack_permitted
            && self.sack.is_empty()
            && self.accecn.is_none()
            // One test for all rare options.
            && (self.experiment.is_none() & self.user_timeout.is_none() & self.fast_open.is_none())
    }

    /// Drops what only a SYN may have.
    #[inline]
    pub(crate) fn drop_those_of_syns(&mut self) {
        // RFC 9293 MUST-65: only SYN segments have an MSS; the same holds for the other two
        // (RFC 7323 §2.2, RFC 2018 §2).
        self.mss = None;
        self.window_scale = None;
        self.sack_permitted = false;
    }

    /// Writes the options over zeros. Returns their length.
    pub(crate) fn write(&self, out: &mut [u8; OPTIONS_MAX]) -> usize {
        // RFC 9293 MUST-69: padding is zero; none is needed, because NOPs in front align each group.
        let mut out = Writer { rest: out };
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            out.append([MSS, 4, high, low]);
        }
        match self.timestamps {
            Some((value, echo)) => {
                out.append(if self.sack_permitted { [SACK_PERMITTED, 2] } else { [NOP, NOP] });
                out.append([TIMESTAMPS, 10]);
                out.append(value.to_be_bytes());
                out.append(echo.to_be_bytes());
            }
            None if self.sack_permitted => out.append([NOP, NOP, SACK_PERMITTED, 2]),
            None => {}
        }
        if let Some(shift) = self.window_scale {
            out.append([NOP, WINDOW_SCALE, 3, shift]);
        }
        if let Some(accecn) = self.accecn {
            accecn.write(&mut out);
        }
        self.write_rare(&mut out);
        self.sack.write(&mut out);
        out.used()
    }
}

impl TcpOptions {
    /// The length of the experiment after `used` bytes of other options; 0 if it does not fit.
    fn experiment_len(&self, used: usize) -> usize {
        if self.experiment.is_some() && EXPERIMENT_LEN <= left(used) { EXPERIMENT_LEN } else { 0 }
    }

    fn write_experiment(&self, out: &mut Writer<'_>) {
        let len = self.experiment_len(out.used());
        if let Some(experiment) = self.experiment.filter(|_| len > 0) {
            out.append([NOP, NOP, EXPERIMENT, 14]);
            out.append(experiment.id.to_be_bytes());
            out.append(experiment.value);
        }
    }
}

/// The words of tcpdump, in the order of the fields; `no options` where there are none.
impl fmt::Display for TcpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut none = true;
        let mut word = |f: &mut fmt::Formatter<'_>, word: fmt::Arguments<'_>| {
            let separator = if mem::take(&mut none) { "" } else { ", " };
            write!(f, "{separator}{word}")
        };
        if let Some(mss) = self.mss {
            word(f, format_args!("mss {mss}"))?;
        }
        if let Some(shift) = self.window_scale {
            word(f, format_args!("wscale {shift}"))?;
        }
        if self.sack_permitted {
            word(f, format_args!("sackOK"))?;
        }
        if let Some((value, echo)) = self.timestamps {
            word(f, format_args!("TS val {value} ecr {echo}"))?;
        }
        for (left, right) in self.sack.as_slice() {
            word(f, format_args!("sack {left}:{right}"))?;
        }
        if let Some(counters) = self.accecn {
            let count = |count: Option<u32>| count.map_or("-".to_owned(), |count| count.to_string());
            let [ect0, ce, ect1] = [counters.ect0(), counters.ce(), counters.ect1()].map(count);
            word(f, format_args!("acc-ecn ect0 {ect0} ce {ce} ect1 {ect1}"))?;
        }
        if let Some(Experiment { id, value }) = self.experiment {
            word(f, format_args!("exp-{id:08x} {:016x}", u64::from_be_bytes(value)))?;
        }
        if let Some(timeout) = self.user_timeout.and_then(UserTimeout::duration) {
            word(f, format_args!("uto {} s", timeout.as_secs()))?;
        }
        if let Some(cookie) = self.fast_open {
            match cookie.as_slice() {
                [] => word(f, format_args!("tfo cookiereq"))?,
                bytes => word(f, format_args!("tfo cookie of {} bytes", bytes.len()))?,
            }
        }
        if none { f.write_str("no options") } else { Ok(()) }
    }
}

impl SackBlocks {
    /// The most blocks that fit into a segment's options (RFC 2018 §3).
    pub const MAX: usize = 4;

    /// Adds a block. A fifth one is left out.
    pub fn push(&mut self, left: SeqNum, right: SeqNum) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.len)) {
            *slot = (left, right);
            self.len = self.len.saturating_add(1);
        }
    }

    /// The blocks in order.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[(SeqNum, SeqNum)] {
        self.blocks.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Whether there are no blocks.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Parses a SACK option's data; empty unless it is one to four whole blocks.
    fn parse(data: &[u8]) -> Self {
        let mut blocks = Self::default();
        if let (pairs @ [_, ..], []) = data.as_chunks::<8>() {
            for [l0, l1, l2, l3, r0, r1, r2, r3] in pairs {
                let left = SeqNum::new(u32::from_be_bytes([*l0, *l1, *l2, *l3]));
                blocks.push(left, SeqNum::new(u32::from_be_bytes([*r0, *r1, *r2, *r3])));
            }
        }
        blocks
    }

    /// How many blocks fit after `used` bytes of other options (RFC 2018 §3).
    fn fitting(&self, used: usize) -> usize {
        let room = left(used).saturating_sub(4) / 8;
        room.min(self.len.into())
    }

    /// The length of the option with its NOPs, if this many blocks are in it.
    fn written_len(count: usize) -> usize {
        if count == 0 { 0 } else { count.saturating_mul(8).saturating_add(4) }
    }

    fn write(&self, out: &mut Writer<'_>) {
        let count = self.fitting(out.used());
        if count == 0 {
            return;
        }
        // At most four blocks: 34 bytes without the NOPs.
        let len = u8::try_from(Self::written_len(count)).unwrap_or(4).saturating_sub(2);
        out.append([NOP, NOP, SACK, len]);
        for (left, right) in self.as_slice().iter().take(count) {
            out.append(left.raw().to_be_bytes());
            out.append(right.raw().to_be_bytes());
        }
    }
}

/// The options of a segment, written one behind the other into zeros.
pub(crate) struct Writer<'a> {
    /// The room that is not written yet.
    rest: &'a mut [u8],
}

impl Writer<'_> {
    /// Writes the next bytes. Each option asks whether it fits, so these do.
    pub fn append<const N: usize>(&mut self, bytes: [u8; N]) {
        debug_assert!(N <= self.rest.len(), "{N} bytes behind {} of options", self.used());
        if let Some((place, rest)) = mem::take(&mut self.rest).split_first_chunk_mut() {
            *place = bytes;
            self.rest = rest;
        }
    }

    /// Bytes written.
    fn used(&self) -> usize {
        OPTIONS_MAX.saturating_sub(self.rest.len())
    }
}

/// The room for options that `used` bytes of them leave.
fn left(used: usize) -> usize {
    OPTIONS_MAX.saturating_sub(used)
}

/// The length of the options as written, a multiple of 4, without the rare options and SACK blocks that do
/// not fit.
#[must_use]
#[inline]
pub fn options_len(options: &TcpOptions) -> usize {
    let timestamps = if options.timestamps.is_some() { 12 } else { 0 };
    if options.only_timestamps() {
        return timestamps;
    }
    // SACK-permitted replaces the two NOPs in front of the timestamps.
    let permitted = if options.sack_permitted && timestamps == 0 { 4 } else { 0 };
    let mss = if options.mss.is_some() { 4 } else { 0 };
    let window_scale = if options.window_scale.is_some() { 4 } else { 0 };
    // Without SACK blocks the other options take at most 20 bytes, so this one always fits.
    let accecn = options.accecn.map_or(0, |accecn| accecn.written_len());
    let fixed = [timestamps, permitted, mss, window_scale, accecn].into_iter().sum();
    let used = options.with_rare(fixed);
    used.saturating_add(SackBlocks::written_len(options.sack.fitting(used)))
}

/// Room for options in a TCP header, in bytes: a data offset of 15 words minus the fixed 20 bytes.
pub const OPTIONS_MAX: usize = 40;

const END: u8 = 0;
pub(crate) const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
pub(crate) const TIMESTAMPS: u8 = 8;
/// RFC 6994: one of the two kinds for experiments.
const EXPERIMENT: u8 = 254;
/// An experiment with two NOPs in front.
const EXPERIMENT_LEN: usize = 16;

ackclock_form::form! {
    struct TcpOptions {
        mss, window_scale, sack_permitted, timestamps, sack, accecn, experiment, user_timeout, fast_open
    }
    struct Experiment { id, value }
    struct SackBlocks { blocks, len } => |sack| usize::from(sack.len) <= Self::MAX;
}

#[cfg(test)]
mod tests;
