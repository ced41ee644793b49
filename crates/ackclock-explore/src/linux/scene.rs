//! [`Scene`]: both ends as the rules of the rows see them, and the rules.

use ackclock_core::{ConnectionInfo, State};
use ackclock_wire::{Fields, Flags, SackBlocks, Segment, TcpOptions};

use super::packet::header_of;
use super::{Act, Answer, Arrival};
use crate::judge;
use crate::step::Call;
use crate::wire::Wire;

/// Both ends, as a rule sees them.
#[derive(Debug)]
pub(crate) struct Scene {
    pub client: Seen,
    pub server: Seen,
    /// The server's connection.
    pub info: Option<ConnectionInfo>,
    /// The room of each receive buffer.
    pub receive_buffer: usize,
    /// Whether the server's SYN offers SACK.
    pub offers_sack: bool,
    /// Whether small segments wait.
    pub nagle: bool,
}

/// One end, as a rule sees it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub wire: Wire,
    pub written: u32,
    pub read: u32,
    pub shut: bool,
    pub released: bool,
    pub aborted: bool,
}

impl Seen {
    /// The place of its FIN, if its application has ended its stream.
    fn fin(&self) -> Option<u32> {
        ((self.shut || self.released) && !self.aborted).then(|| self.written.saturating_add(1))
    }
}

impl Scene {
    pub fn state(&self) -> Option<State> {
        self.info.as_ref().map(|info| info.state)
    }

    /// How many bytes of the client's stream have arrived in order; its end is one.
    fn in_order(&self) -> u32 {
        self.client.wire.arrived.trailing_ones()
    }

    /// RCV.NXT and SND.UNA of the server, as places, once it is synchronised.
    fn next_and_una(&self) -> Option<(u32, u32)> {
        let info = self.info.as_ref()?;
        if matches!(info.state, State::Closed | State::Listen | State::SynSent | State::SynReceived) {
            return None;
        }
        let fin = u64::from(matches!(info.state, State::FinWait2 | State::TimeWait));
        let una = info.bytes_acked.saturating_add(1 + fin);
        Some((u32::try_from(judge::rcv_nxt(info)).ok()?, u32::try_from(una).ok()?))
    }

    /// The first and the last place, the latter exclusive, of a segment of the client.
    fn span(&self, segment: &Segment<'_>) -> Option<(u32, u32)> {
        let start = self.client.wire.place(segment.seq)?;
        Some((start, start.wrapping_add(segment.seq_len())))
    }

    /// The acknowledgement of a segment of the client, unless it is a SYN or a reset.
    fn acked(&self, segment: &Segment<'_>) -> Option<u32> {
        let plain = segment.flags.contains(Flags::ACK) && !segment.flags.intersects(Flags::SYN | Flags::RST);
        self.server.wire.place(segment.ack).filter(|_| plain)
    }

    /// An acknowledgement of the server that begins at its SND.NXT.
    fn acknowledgement(&self, next: u32, flags: Flags) -> Option<Fields> {
        Some(Fields {
            seq: self.server.wire.at(self.server.wire.sent)?,
            ack: self.client.wire.at(next)?,
            flags: flags | Flags::ACK,
            window: u16::try_from(self.server.wire.edge.saturating_sub(next)).unwrap_or(u16::MAX),
            ..Fields::default()
        })
    }

    /// Once the client's FIN was next in order, duplicates are not reported; nor from the short record of
    /// TIME-WAIT.
    pub fn without_blocks(&self, segment: &Segment<'_>, in_time_wait: bool) -> Option<Answer> {
        let ended = self.client.wire.place(segment.ack)? == self.client.fin()?.saturating_add(1);
        let waits = self.state() == Some(State::TimeWait);
        let mut header = header_of(segment);
        header.options.sack = SackBlocks::default();
        (ended && waits == in_time_wait && !segment.options.sack.is_empty()).then_some(Answer::Header(header))
    }

    /// After `close`, only a FIN that is next in order finds the record. This stack resets at text, too.
    pub fn orphan_resets(&self, segment: &Segment<'_>) -> Option<Arrival> {
        let (next, _) = self.next_and_una()?;
        let (start, _) = self.span(segment)?;
        let orphan = self.server.released && matches!(self.state(), Some(State::FinWait1 | State::FinWait2));
        let lone = segment.flags.contains(Flags::FIN) && segment.payload.is_empty();
        (orphan && lone && start > next && start != u32::MAX).then_some(Arrival::Reset)
    }

    /// The reset of a `close` is a FIN if only text beyond a gap is unread. This end is gone then, and resets
    /// whatever comes: a Linux resets what comes for a closed stream.
    pub fn close_at_gap(&self, segment: &Segment<'_>) -> Option<Answer> {
        let (server, in_order) = (&self.server, self.in_order());
        let text = self.client.wire.arrived & ((1 << self.client.written.min(63)) - 1);
        let beyond_gap = text.checked_shr(in_order).unwrap_or(0) != 0;
        let of_close = segment.flags.contains(Flags::RST | Flags::ACK) && server.released && !server.aborted;
        let all_sent = server.wire.place(segment.seq)? == server.written.saturating_add(1);
        let header = self.acknowledgement(in_order.saturating_add(1), Flags::FIN)?;
        let header = Fields { seq: segment.seq, ..header };
        (of_close && all_sent && beyond_gap && server.read == in_order).then_some(Answer::Header(header))
    }

    /// The acknowledgement of text that is repeated up to RCV.NXT counts. This stack takes it only if the
    /// segment has a single number.
    pub fn late_ack(&self, segment: &Segment<'_>) -> Option<Arrival> {
        let ((next, una), (start, end)) = (self.next_and_una()?, self.span(segment)?);
        let is_late = start < end && end == next && segment.seq_len() > 1;
        let first = self.bare(segment, next)?;
        (is_late && self.acked(segment)? > una).then_some(Arrival::After(first))
    }

    /// The window of a segment that fills a gap counts if it acknowledges more, although text from beyond the
    /// gap is newer.
    pub fn old_segments_window(&self, segment: &Segment<'_>) -> Option<Arrival> {
        let ((next, una), (start, end)) = (self.next_and_una()?, self.span(segment)?);
        let beyond = self.client.wire.arrived.checked_shr(end.saturating_sub(1)).unwrap_or(0) != 0;
        let fills = start <= next && next < end && beyond;
        let first = self.bare(segment, self.client.wire.sent.min(self.server.wire.edge))?;
        (fills && self.acked(segment)? > una).then_some(Arrival::After(first))
    }

    /// The acknowledgement of a segment as one without text, from this place on.
    fn bare(&self, segment: &Segment<'_>, place: u32) -> Option<Fields> {
        let seq = self.client.wire.at(place)?;
        Some(Fields { seq, flags: Flags::ACK, options: TcpOptions::default(), ..header_of(segment) })
    }

    /// A FIN beyond a gap is in a block.
    pub fn fin_reported(&self, segment: &Segment<'_>) -> Option<Answer> {
        let (fin, wire) = (self.client.fin()?, &self.client.wire);
        let has_fin = wire.arrived.checked_shr(fin.saturating_sub(1)).unwrap_or(0) & 1 != 0;
        // A FIN beyond the window would not be kept. The window's edge is never below this.
        let fits = usize::try_from(fin).is_ok_and(|fin| fin <= self.receive_buffer);
        let opens = segment.flags.intersects(Flags::SYN | Flags::RST);
        if !has_fin || !fits || opens || !self.info.as_ref()?.sack || wire.place(segment.ack)? > fin {
            return None;
        }
        let block = (wire.at(fin)?, wire.at(fin.saturating_add(1))?);
        let before = segment.options.sack.as_slice();
        if before.iter().any(|&(_, right)| right == block.1) {
            return None;
        }
        let mut blocks = SackBlocks::default();
        [block].iter().chain(before).for_each(|&(left, right)| blocks.push(left, right));
        let mut header = header_of(segment);
        header.options.sack = blocks;
        Some(Answer::Header(header))
    }

    /// The SYN-ACK of an end that opens actively has the options of its SYN.
    pub fn options_again(&self, segment: &Segment<'_>) -> Option<Answer> {
        let crosses = self.state() == Some(State::SynReceived);
        let lacks = self.offers_sack && !segment.options.sack_permitted;
        let mut header = header_of(segment);
        header.options.sack_permitted = true;
        (crosses && lacks && segment.flags.contains(Flags::SYN | Flags::ACK))
            .then_some(Answer::Header(header))
    }

    /// A reset from the window's edge is challenged.
    pub fn edge_reset_challenged(&self, segment: &Segment<'_>) -> Option<Arrival> {
        let ((next, _), (start, _)) = (self.next_and_una()?, self.span(segment)?);
        let at_edge = start == self.server.wire.edge && start != next;
        let challenge = self.acknowledgement(next, Flags::default())?;
        (segment.flags.contains(Flags::RST) && at_edge).then_some(Arrival::Answered(challenge))
    }

    /// The acknowledgement of an empty segment or a FIN one before RCV.NXT does not count, and its window
    /// neither.
    pub fn ack_one_before(&self, segment: &Segment<'_>) -> Option<Arrival> {
        let ((next, una), (start, _)) = (self.next_and_una()?, self.span(segment)?);
        let one_before = start.wrapping_add(1) == next && segment.payload.is_empty();
        let (_, edge) = self.server.wire.heard?;
        let window = u16::try_from(edge.saturating_sub(una)).unwrap_or(u16::MAX);
        let header = Fields { ack: self.server.wire.at(una)?, window, ..header_of(segment) };
        (one_before && self.acked(segment)? > una).then_some(Arrival::Header(header))
    }

    /// No reset tells of an abort after both FINs.
    pub fn abort_unsaid(&self, segment: &Segment<'_>) -> Option<Answer> {
        let server = &self.server;
        let both = self.client.fin()? == self.in_order()
            && server.wire.place(segment.seq)? == server.written.saturating_add(2);
        let of_abort = segment.flags.contains(Flags::RST | Flags::ACK) && server.aborted;
        (both && of_abort).then_some(Answer::Nothing)
    }

    /// Less than a segment goes out behind full ones.
    pub fn small_behind_full(&self, call: Call) -> Option<Act> {
        let Call::Write(bytes) = call else { return None };
        let info = self.info.as_ref().filter(|info| info.snd_mss > 0)?;
        let (queued, full) = (u32::try_from(info.send_queue).ok()?, info.snd_mss);
        let all = queued.saturating_add(bytes.into());
        let small = queued % full == 0 && all % full != 0 && all > full;
        (self.nagle && small && !self.server.shut && !self.server.released).then_some(Act::AtOnce)
    }

    /// A FIN waits while the client's window is closed. The server repeats it as a probe.
    pub fn fin_waits(&self, segment: &Segment<'_>) -> Option<Answer> {
        let lone = segment.flags.contains(Flags::FIN) && segment.payload.is_empty();
        let (_, edge) = self.server.wire.heard?;
        (lone && self.server.wire.place(segment.seq)? >= edge).then_some(Answer::Nothing)
    }

    /// Less than a segment waits if the window cut it short: it has no PSH, because more is to come. The
    /// server sends it again later.
    pub fn small_waits(&self, segment: &Segment<'_>) -> Option<Answer> {
        let (len, info) = (u32::try_from(segment.payload.len()).ok()?, self.info.as_ref()?);
        let (_, edge) = self.server.wire.heard?;
        let end = self.server.wire.place(segment.seq)?.saturating_add(len);
        let cut = len < info.snd_mss && end == edge && !segment.flags.intersects(Flags::PSH | Flags::FIN);
        (len > 0 && cut).then_some(Answer::Nothing)
    }

    /// An acknowledgement that says nothing new is not sent.
    pub fn silent(&self, segment: &Segment<'_>) -> Option<Answer> {
        let bare = segment.seq_len() == 0 && segment.flags == Flags::ACK;
        let ack = self.client.wire.place(segment.ack)?;
        let said = self.client.wire.heard? == (ack, ack.saturating_add(u32::from(segment.window)));
        (bare && said && segment.options.sack.is_empty() && self.server.wire.place(segment.seq).is_some())
            .then_some(Answer::Nothing)
    }
}
