//! Half-open connections: small records between a SYN and the acknowledgement of its SYN-ACK.
//!
//! Only such a record is kept for a peer that has not completed a handshake. Their number is bounded for each
//! listener and, within it, for each source network. SYNs beyond that are answered by cookies.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::time::Duration;

use ackclock_control::tally::Tally;
use ackclock_wire::{Codepoint, Experiment, Flags, Segment, SeqNum};

use super::compact::{Limiter, is_acceptable, is_old_timestamp};
use super::keys::KeyedState;
use super::slots::{Slot, Slots};
use super::timers::{TIMER_BYTES, TimerWheel};
use crate::connection::{Offer, WINDOW_SCALE_MAX, believed_mtu, default_mss};
use crate::{FourTuple, IncomingId, Instant, ListenerId, TcpConfig};

/// All half-open connections of an endpoint. Each turn of a driver queries the timers, which come first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct SynQueue {
    timers: TimerWheel,
    records: Slots<HalfOpen>,
    /// How many of them are gone.
    gone: usize,
    /// The experimental options of SYNs, at listeners that take part; at most one for each record.
    experiments: HashMap<u32, Experiment, KeyedState>,
    by_source: HashMap<Source, usize, KeyedState>,
}

/// A connection in SYN-RECEIVED that came from LISTEN.
// RFC 9293 MUST-11: being in this table means that it came from a passive OPEN; an active one that crossed
// with its peer's SYN is a `Connection`.
#[derive(Clone, Copy, Debug)]
pub(super) struct HalfOpen {
    pub(super) tuple: FourTuple,
    pub(super) listener: ListenerId,
    pub(super) peer: PeerSyn,
    pub(super) iss: SeqNum,
    pub(super) phase: Phase,
    /// Whether it was reported to the application, which must then learn how it ends.
    pub(super) told: bool,
    /// Whether the peer's SYN came again, and drew the SYN-ACK again.
    pub(super) repeated: bool,
    /// When the SYN arrived or, later, when the first SYN-ACK was sent.
    pub(super) since: Instant,
    limiter: Limiter,
}

/// The fields of a SYN that are needed later, without options that the listener does not want.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerSyn {
    pub(super) irs: SeqNum,
    /// TS.Recent.
    pub(super) timestamps: Option<u32>,
    pub(super) window: u16,
    pub(super) mss: Option<u16>,
    pub(super) window_scale: Option<u8>,
    pub(super) sack: bool,
    pub(super) ecn: Offer,
    /// Whether the SYN-ACK gives a Fast Open cookie.
    pub(super) wants_cookie: bool,
}

/// What a half-open record waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// For [`crate::Endpoint::decide`]: nothing has been sent.
    Undecided,
    /// For the acknowledgement of the SYN-ACK.
    Answered { retransmits: u8, window: u16 },
    /// For the application to learn that it is over: it has neither a name nor a timer any more.
    Gone,
}

/// What to do about a segment for a half-open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HalfOpenAction {
    /// Nothing.
    Drop,
    /// Remove the record: the connection returns to LISTEN.
    Forget,
    /// Send the SYN-ACK again.
    Repeat,
    /// Send <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>.
    Acknowledge,
    /// Send <SEQ=SEG.ACK><CTL=RST>.
    Reset,
    /// The handshake is complete.
    Establish,
}

/// What to do when a half-open connection's timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// Send the SYN-ACK again.
    Repeat(u32),
    /// Remove the record.
    GiveUp(u32),
}

/// A listener's source network: an IPv4 address or an IPv6 /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Source {
    listener: u32,
    is_v6: bool,
    prefix: u64,
}

impl SynQueue {
    pub(super) fn new(now: Instant, state: KeyedState) -> Self {
        Self {
            records: Slots::default(),
            gone: 0,
            timers: TimerWheel::new(now),
            experiments: HashMap::with_hasher(state.clone()),
            by_source: HashMap::with_hasher(state),
        }
    }

    /// Adds a record and sets its timer. Returns its index. The caller has checked [`Self::has_room`].
    pub(super) fn insert(&mut self, record: HalfOpen) -> u32 {
        self.by_source.entry(record.source()).or_default().count();
        let patience = match record.phase {
            Phase::Undecided => DECISION_MAX,
            Phase::Answered { .. } | Phase::Gone => SYN_ACK_TIMEOUT,
        };
        let deadline = record.since + patience;
        let (index, _) = self.records.insert(record);
        self.timers.arm(index, deadline);
        index
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<HalfOpen> {
        let record = self.records.remove(index)?;
        self.timers.disarm(index);
        self.gone.shrink(usize::from(record.phase == Phase::Gone));
        if !self.experiments.is_empty() {
            self.experiments.remove(&index);
        }
        if let Entry::Occupied(mut count) = self.by_source.entry(record.source()) {
            count.get_mut().shrink(1);
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(record)
    }

    /// The record is over and only waits for the application to learn that.
    pub(super) fn end(&mut self, index: u32) {
        if let Some(record) = self.records.at_mut(index) {
            record.phase = Phase::Gone;
            self.gone.count();
            self.timers.disarm(index);
        }
    }

    /// Whether there is room for another record of this source, which may have `per_source_max`, and of the
    /// endpoint.
    pub(super) fn has_room(&self, listener: ListenerId, remote: IpAddr, per_source_max: usize) -> bool {
        let count = self.by_source.get(&Source::new(listener, remote)).copied().unwrap_or(0);
        count < per_source_max && self.records.len() < HALF_OPEN_MAX
    }

    pub(super) fn at(&self, index: u32) -> Option<&HalfOpen> {
        self.records.at(index)
    }

    pub(super) fn at_mut(&mut self, index: u32) -> Option<&mut HalfOpen> {
        self.records.at_mut(index)
    }

    pub(super) fn generation(&self, index: u32) -> Option<u32> {
        self.records.generation(index)
    }

    /// Keeps the experimental option of a SYN.
    pub(super) fn keep_experiment(&mut self, index: u32, experiment: Experiment) {
        self.experiments.insert(index, experiment);
    }

    pub(super) fn experiment(&self, index: u32) -> Option<Experiment> {
        self.experiments.get(&index).copied()
    }

    /// The id under which the record was reported to the application, if it was.
    pub(super) fn told_id(&self, index: u32) -> Option<IncomingId> {
        let generation = self.generation(index)?;
        self.at(index).filter(|record| record.told).map(|_| IncomingId { index, generation })
    }

    /// The record of this generation, if it waits for a decision.
    pub(super) fn undecided(&self, index: u32, generation: u32) -> Option<&HalfOpen> {
        self.records.get(index, generation).filter(|record| record.phase == Phase::Undecided)
    }

    /// Notes that the SYN-ACK is being sent for the first time.
    pub(super) fn answer(&mut self, index: u32, now: Instant, iss: SeqNum, window: u16) {
        if let Some(record) = self.records.at_mut(index) {
            record.phase = Phase::Answered { retransmits: 0, window };
            record.since = now;
            record.iss = iss;
            self.timers.arm(index, now + SYN_ACK_TIMEOUT);
        }
    }

    /// The indices of all records of a listener.
    pub(super) fn of_listener(&self, listener: ListenerId) -> Vec<u32> {
        let mine = self.records.iter().filter(|(_, _, record)| record.listener == listener);
        mine.map(|(index, ..)| index).collect()
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The next timer that is due. The next timer of a SYN-ACK to repeat is set already.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<Expiry> {
        let index = self.timers.pop_expired(now)?;
        let Some(record) = self.records.at_mut(index) else { return Some(Expiry::GiveUp(index)) };
        Some(match &mut record.phase {
            Phase::Answered { retransmits, .. } if *retransmits < SYN_ACK_RETRIES => {
                *retransmits = retransmits.saturating_add(1);
                // RFC 6298 §5.5: back off the timer.
                let doubled = 1_u32.checked_shl((*retransmits).into()).unwrap_or(u32::MAX);
                self.timers.arm(index, now + SYN_ACK_TIMEOUT.saturating_mul(doubled));
                Expiry::Repeat(index)
            }
            _ => Expiry::GiveUp(index),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// How many have a name in the demultiplexer.
    pub(super) fn named(&self) -> usize {
        self.records.len().saturating_sub(self.gone)
    }
}

impl Phase {
    /// How often the SYN-ACK was repeated.
    pub(super) fn repetitions(self) -> u8 {
        match self {
            Self::Undecided | Self::Gone => 0,
            Self::Answered { retransmits, .. } => retransmits,
        }
    }
}

impl HalfOpen {
    pub(super) fn new(
        tuple: FourTuple,
        listener: ListenerId,
        peer: PeerSyn,
        iss: SeqNum,
        phase: Phase,
        now: Instant,
    ) -> Self {
        Self {
            tuple,
            listener,
            peer,
            iss,
            phase,
            told: false,
            repeated: false,
            since: now,
            limiter: Limiter::default(),
        }
    }

    /// RFC 9293 §3.10.7.4 in SYN-RECEIVED after a passive OPEN, in the order of its steps.
    pub(super) fn judge(&mut self, now: Instant, segment: &Segment<'_>) -> HalfOpenAction {
        let Phase::Answered { window, .. } = self.phase else { return self.judge_undecided(segment) };
        let flags = segment.flags;
        let rcv_nxt = self.peer.irs + 1;
        if self.is_same_syn(segment) {
            if let (Some(recent), Some((value, _))) = (&mut self.peer.timestamps, segment.options.timestamps)
                && !is_old_timestamp(value, *recent)
            {
                *recent = value;
            }
            self.repeated = true;
            return HalfOpenAction::Repeat;
        }

        // First, the sequence number; RFC 7323 §5.3 R1 puts the timestamp before it, of all but a reset
        // (§5.2).
        let old = self.has_old_timestamp(segment) && !flags.contains(Flags::RST);
        if old || !is_acceptable(segment, rcv_nxt, u32::from(window)) {
            return if flags.contains(Flags::RST) { HalfOpenAction::Drop } else { self.acknowledge(now) };
        }
        // Second, RST. RFC 5961 §3.2: only the exact number resets; RFC 9293: a passive open returns to
        // LISTEN.
        if flags.contains(Flags::RST) && segment.seq.before(self.peer.irs + 1) {
            // RFC 5961 §3.2 (1): judged by where it begins, not by text that reaches into the window.
            return HalfOpenAction::Drop;
        }
        if flags.contains(Flags::RST) {
            return if segment.seq == rcv_nxt { HalfOpenAction::Forget } else { self.acknowledge(now) };
        }
        // RFC 7323 §3.2: once timestamps are agreed on, a segment without them is dropped.
        if self.peer.timestamps.is_some() && segment.options.timestamps.is_none() {
            return HalfOpenAction::Drop;
        }
        // Fourth, SYN: a passive open returns to LISTEN.
        if flags.contains(Flags::SYN) {
            return HalfOpenAction::Forget;
        }
        // Fifth, ACK.
        if !flags.contains(Flags::ACK) {
            return HalfOpenAction::Drop;
        }
        if segment.ack == self.iss + 1 { HalfOpenAction::Establish } else { HalfOpenAction::Reset }
    }

    /// The same before a SYN-ACK has been sent: the peer can only repeat its SYN, or take it back.
    fn judge_undecided(&self, segment: &Segment<'_>) -> HalfOpenAction {
        let took_back = segment.flags.contains(Flags::RST) && segment.seq == self.peer.irs + 1;
        if took_back { HalfOpenAction::Forget } else { HalfOpenAction::Drop }
    }

    /// Whether a segment with this sequence number, the SYN-ACK's, may have been lost.
    pub(super) fn is_outstanding(&self, seq: SeqNum) -> bool {
        matches!(self.phase, Phase::Answered { .. }) && seq == self.iss
    }

    /// Records the path's MTU. Values below what every path carries are raised to that (RFC 5927 §7.2).
    pub(super) fn limit_mss(&mut self, mtu: u32) {
        let is_ipv4 = self.tuple.remote_addr.is_ipv4();
        let Some(mtu) = believed_mtu(mtu, 0, is_ipv4) else { return };
        let headers = if is_ipv4 { 40 } else { 60 };
        let fits = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
        let told = self.peer.mss.unwrap_or_else(|| default_mss(&self.tuple));
        self.peer.mss = Some(told.min(fits));
    }

    fn acknowledge(&mut self, now: Instant) -> HalfOpenAction {
        if self.limiter.allow(now) { HalfOpenAction::Acknowledge } else { HalfOpenAction::Drop }
    }

    fn is_same_syn(&self, segment: &Segment<'_>) -> bool {
        let control = Flags::SYN | Flags::ACK | Flags::RST | Flags::FIN;
        segment.seq == self.peer.irs && segment.flags.bits() & control.bits() == Flags::SYN.bits()
    }

    fn has_old_timestamp(&self, segment: &Segment<'_>) -> bool {
        match (self.peer.timestamps, segment.options.timestamps) {
            (Some(recent), Some((value, _))) => is_old_timestamp(value, recent),
            _ => false,
        }
    }

    fn source(&self) -> Source {
        Source::new(self.listener, self.tuple.remote_addr)
    }
}

impl PeerSyn {
    /// The fields of this SYN, without what `tcp` does not want.
    pub(super) fn new(segment: &Segment<'_>, codepoint: Codepoint, tcp: &TcpConfig) -> Self {
        let options = &segment.options;
        Self {
            irs: segment.seq,
            timestamps: options.timestamps.filter(|_| tcp.choices.timestamps).map(|(value, _)| value),
            window: segment.window,
            mss: options.mss,
            // RFC 7323 §2.3: a larger count is taken as 14.
            window_scale: options
                .window_scale
                .filter(|_| tcp.choices.window_scaling)
                .map(|shift| shift.min(WINDOW_SCALE_MAX)),
            sack: options.sack_permitted && tcp.choices.sack,
            ecn: Offer::of_syn(tcp.choices.ecn, segment.flags, codepoint),
            wants_cookie: false,
        }
    }
}

impl Source {
    fn new(listener: ListenerId, remote: IpAddr) -> Self {
        let (is_v6, prefix) = match remote {
            IpAddr::V4(addr) => (false, u64::from(addr.to_bits())),
            IpAddr::V6(addr) => (true, (addr.to_bits() >> 64) as u64),
        };
        Self { listener: listener.index, is_v6, prefix }
    }
}

/// The most half-open records of an endpoint. Beyond it every listener answers with cookies.
const HALF_OPEN_MAX: usize = 1 << 17;
/// How often a SYN-ACK is repeated: at 1, 3, 7, 15 and 31 s; given up at 63 s.
const SYN_ACK_RETRIES: u8 = 5;
/// RFC 6298 §2.1: the retransmission timeout before the first sample.
const SYN_ACK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a SYN waits for a decision.
const DECISION_MAX: Duration = Duration::from_secs(60);

const _: () =
    assert!(size_of::<Slot<HalfOpen>>() + TIMER_BYTES <= 128, "a half-open connection in 128 bytes");

#[cfg(test)]
mod tests {
    use ackclock_wire::TcpOptions;

    use super::*;

    const LISTENER: ListenerId = ListenerId { index: 0, generation: 0 };

    fn record() -> HalfOpen {
        let tuple = FourTuple::new("10.0.0.1:80".parse().unwrap(), "10.0.0.2:4000".parse().unwrap());
        let peer = PeerSyn {
            irs: SeqNum::new(u32::MAX),
            timestamps: None,
            window: 1000,
            mss: None,
            window_scale: None,
            sack: false,
            ecn: Offer::None,
            wants_cookie: false,
        };
        let phase = Phase::Answered { retransmits: 0, window: 100 };
        HalfOpen::new(tuple, LISTENER, peer, SeqNum::new(500), phase, Instant::ZERO)
    }

    fn segment(flags: Flags, seq: u32, ack: u32) -> Segment<'static> {
        Segment {
            src_port: 4000,
            dst_port: 80,
            seq: SeqNum::new(seq),
            ack: SeqNum::new(ack),
            flags,
            window: 1000,
            urgent: 0,
            options: TcpOptions::default(),
            payload: &[],
        }
    }

    fn judge(flags: Flags, seq: u32, ack: u32) -> HalfOpenAction {
        record().judge(Instant::ZERO, &segment(flags, seq, ack))
    }

    #[test]
    fn the_acknowledgement_of_the_syn_ack_establishes() {
        assert_eq!(judge(Flags::ACK, 0, 501), HalfOpenAction::Establish);
        assert_eq!(judge(Flags::ACK | Flags::FIN, 0, 501), HalfOpenAction::Establish);
        assert_eq!(judge(Flags::ACK, 99, 501), HalfOpenAction::Establish, "reordered before earlier data");
    }

    #[test]
    fn any_other_acknowledgement_is_reset() {
        for ack in [500, 502, 501_u32.wrapping_add(1 << 31), 0] {
            assert_eq!(judge(Flags::ACK, 0, ack), HalfOpenAction::Reset, "{ack}");
        }
    }

    #[test]
    fn a_segment_without_ack_is_dropped() {
        assert_eq!(judge(Flags::NONE, 0, 501), HalfOpenAction::Drop);
        assert_eq!(judge(Flags::FIN | Flags::PSH | Flags::URG, 0, 501), HalfOpenAction::Drop);
    }

    // Tests: RFC 9293 MUST-11
    #[test]
    fn sec_a1_only_the_exact_reset_returns_a_half_open_connection_to_listen() {
        assert_eq!(judge(Flags::RST, 0, 0), HalfOpenAction::Forget);
        for in_window in [1, 50, 99] {
            assert_eq!(judge(Flags::RST, in_window, 0), HalfOpenAction::Acknowledge, "{in_window}");
        }
        for outside in [u32::MAX, 100, 1 << 31] {
            assert_eq!(judge(Flags::RST, outside, 0), HalfOpenAction::Drop, "{outside}");
        }
    }

    #[test]
    fn the_same_syn_repeats_the_syn_ack() {
        assert_eq!(judge(Flags::SYN, u32::MAX, 0), HalfOpenAction::Repeat);
        assert_eq!(judge(Flags::SYN | Flags::ECE | Flags::CWR, u32::MAX, 0), HalfOpenAction::Repeat);
        assert_eq!(judge(Flags::SYN | Flags::ACK, u32::MAX, 501), HalfOpenAction::Acknowledge);
    }

    #[test]
    fn another_syn_outside_the_window_is_challenged_and_inside_it_forgets() {
        assert_eq!(judge(Flags::SYN, 70_000, 0), HalfOpenAction::Acknowledge);
        assert_eq!(judge(Flags::SYN, 5, 0), HalfOpenAction::Forget);
    }

    #[test]
    fn sec_a5_challenges_of_one_record_are_limited() {
        let mut record = record();
        let unacceptable = segment(Flags::ACK, 1 << 31, 501);
        let answers = (0..10_000).map(|ms| record.judge(Instant::from_millis(ms), &unacceptable));
        assert_eq!(answers.filter(|action| *action == HalfOpenAction::Acknowledge).count(), 20);
    }

    #[test]
    fn with_timestamps_old_segments_are_unacceptable_and_bare_ones_dropped() {
        let mut record = record();
        record.peer.timestamps = Some(1000);
        let mut ack = segment(Flags::ACK, 0, 501);
        assert_eq!(record.judge(Instant::ZERO, &ack), HalfOpenAction::Drop);
        ack.options.timestamps = Some((999, 0));
        assert_eq!(record.judge(Instant::ZERO, &ack), HalfOpenAction::Acknowledge);
        ack.options.timestamps = Some((1000, 0));
        assert_eq!(record.judge(Instant::ZERO, &ack), HalfOpenAction::Establish);
    }

    #[test]
    fn a_syn_ack_is_repeated_five_times_with_backoff_and_then_given_up() {
        let mut queue = SynQueue::new(Instant::ZERO, state());
        let index = queue.insert(record());
        let mut at = Vec::new();
        loop {
            let now = queue.next_timeout().unwrap();
            at.push(now.as_millis() / 1000);
            if queue.pop_expired(now).unwrap() == Expiry::GiveUp(index) {
                break;
            }
        }
        assert_eq!(at, [1, 3, 7, 15, 31, 63]);
    }

    #[test]
    fn sec_b13_one_source_has_a_bounded_share_and_gives_it_back() {
        let mut queue = SynQueue::new(Instant::ZERO, state());
        let from = |port| HalfOpen { tuple: FourTuple { remote_port: port, ..record().tuple }, ..record() };
        let indices: Vec<u32> = (0..4).map(|port| queue.insert(from(port))).collect();
        let remote = record().tuple.remote_addr;
        assert!(!queue.has_room(LISTENER, remote, 4));
        assert!(queue.has_room(LISTENER, "10.0.0.3".parse().unwrap(), 4));
        assert!(queue.has_room(ListenerId { index: 1, generation: 0 }, remote, 4));
        queue.remove(indices[0]);
        assert!(queue.has_room(LISTENER, remote, 4));
        indices[1..].iter().for_each(|index| assert!(queue.remove(*index).is_some()));
        assert!(queue.by_source.is_empty());
    }

    #[test]
    fn sec_b13_an_ipv6_source_is_its_64_bit_prefix() {
        let source = |addr: &str| Source::new(LISTENER, addr.parse().unwrap());
        assert_eq!(source("2001:db8:0:1::1"), source("2001:db8:0:1:ffff::"));
        assert_ne!(source("2001:db8:0:1::1"), source("2001:db8:0:2::1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
    }

    fn state() -> KeyedState {
        use super::super::keys::{Key, Purpose};
        KeyedState(Key::derive(&[1; 32], Purpose::Tables))
    }
}
