//! The arrival of a segment: an independent reading of RFC 9293 §3.10.7 for the tests, in the order of its
//! text.
//!
//! It was written without looking at the stack under test. Where the RFCs leave a choice, the oracle lists
//! every outcome that they allow; where a project decision departs from RFC 9293 (a SYN that carries FIN
//! opens nothing; RFC 1337: a reset in TIME-WAIT is ignored; a bare ACK at the window's edge is processed),
//! the oracle says so. Sequence numbers are those on the wire.

use crate::segment::{ACK, FIN, RST, SYN, Seg};

/// The states of RFC 9293 §3.3.2; SYN-RECEIVED twice, since its behaviour depends on who opened (MUST-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No connection, no listener.
    Closed,
    /// A listener.
    Listen,
    /// SYN sent.
    SynSent,
    /// SYN received by a listener.
    SynReceivedPassive,
    /// SYN received in a simultaneous open.
    SynReceivedActive,
    /// Open in both directions.
    Established,
    /// FIN sent, not acknowledged.
    FinWait1,
    /// FIN sent and acknowledged.
    FinWait2,
    /// FIN received.
    CloseWait,
    /// FIN sent, not acknowledged, and received.
    Closing,
    /// FIN received, then sent, not acknowledged.
    LastAck,
    /// Both FINs acknowledged.
    TimeWait,
}

/// All of them.
pub const PHASES: [Phase; 12] = [
    Phase::Closed,
    Phase::Listen,
    Phase::SynSent,
    Phase::SynReceivedPassive,
    Phase::SynReceivedActive,
    Phase::Established,
    Phase::FinWait1,
    Phase::FinWait2,
    Phase::CloseWait,
    Phase::Closing,
    Phase::LastAck,
    Phase::TimeWait,
];

/// The state of a connection that the oracle needs to know (RFC 9293 §3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The state.
    pub phase: Phase,
    /// SND.UNA.
    pub una: u32,
    /// SND.NXT.
    pub nxt: u32,
    /// ISS.
    pub iss: u32,
    /// The largest window that the peer advertised.
    pub max_wnd: u32,
    /// Payload bytes that the peer has acknowledged.
    pub acked: u32,
    /// RCV.NXT.
    pub rcv_nxt: u32,
    /// RCV.WND as advertised.
    pub rcv_wnd: u32,
}

/// A permitted answer of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nothing,
    /// `<SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>` with this RCV.NXT.
    Ack(u32),
    /// As `Ack`, now or (RFC 9293 §3.8.6.3) a little later.
    AckSoon(u32),
    /// `<SEQ=n><CTL=RST>`.
    Rst(u32),
    /// `<SEQ=0><ACK=n><CTL=RST,ACK>`.
    RstAck(u32),
    /// `<SEQ=ISS><ACK=n><CTL=SYN,ACK>`.
    SynAck(u32),
}

/// One way in which processing may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The answer.
    pub reply: Reply,
    /// The state afterwards.
    pub phase: Phase,
    /// By how much SND.UNA advanced.
    pub acked: u32,
    /// Payload bytes that became readable.
    pub delivered: u32,
}

/// All outcomes that the RFCs allow; never empty.
#[must_use]
pub fn outcomes(view: &View, seg: &Seg) -> Vec<Ending> {
    match view.phase {
        Phase::Closed => vec![view.stays(closed(seg))],
        Phase::Listen => vec![listen(view, seg)],
        Phase::SynSent => syn_sent(view, seg),
        _ => synchronized(view, seg),
    }
}

/// RFC 9293 §3.10.7.1.
fn closed(seg: &Seg) -> Reply {
    if seg.has(RST) {
        Reply::Nothing
    } else if seg.has(ACK) {
        Reply::Rst(seg.ack)
    } else {
        Reply::RstAck(seg.end())
    }
}

/// RFC 9293 §3.10.7.2.
fn listen(view: &View, seg: &Seg) -> Ending {
    if seg.has(RST) {
        return view.stays(Reply::Nothing);
    }
    if seg.has(ACK) {
        return view.stays(Reply::Rst(seg.ack));
    }
    // docs/security.md C15: RFC 9293 would take a SYN that carries FIN; no honest sender makes one.
    if seg.has(SYN) && !seg.has(FIN) {
        return Ending {
            phase: Phase::SynReceivedPassive,
            ..view.stays(Reply::SynAck(seg.seq.wrapping_add(1)))
        };
    }
    view.stays(Reply::Nothing)
}

/// RFC 9293 §3.10.7.3.
fn syn_sent(view: &View, seg: &Seg) -> Vec<Ending> {
    let ack_acceptable = seg.has(ACK) && follows(view.iss, seg.ack, view.nxt);
    if seg.has(ACK) && !ack_acceptable {
        return vec![view.stays(if seg.has(RST) { Reply::Nothing } else { Reply::Rst(seg.ack) })];
    }
    if seg.has(RST) {
        let reset = Ending { phase: Phase::Closed, ..view.stays(Reply::Nothing) };
        return vec![if ack_acceptable { reset } else { view.stays(Reply::Nothing) }];
    }
    if !seg.has(SYN) {
        return vec![view.stays(Reply::Nothing)];
    }
    let irs_next = seg.seq.wrapping_add(1);
    let (phase, reply, acked) = if ack_acceptable {
        (Phase::Established, Reply::Ack(irs_next), 1)
    } else {
        (Phase::SynReceivedActive, Reply::SynAck(irs_next), 0)
    };
    let opened = Ending { reply, phase, acked, delivered: 0 };
    let mut allowed = vec![opened];
    if seg.has(FIN) {
        // docs/security.md C15, and §3.10.7.4: no FIN is processed in SYN-SENT.
        allowed.push(view.stays(Reply::Nothing));
    }
    // Text on a SYN may be kept for later, or dropped and sent again.
    let synchronized = View { phase, una: view.una.wrapping_add(acked), rcv_nxt: irs_next, ..*view };
    let text = Seg { seq: irs_next, flags: seg.flags & !SYN, ..seg.clone() };
    for outcome in text_and_fin(&synchronized, &text, acked) {
        let reply = match (outcome.reply, ack_acceptable) {
            (Reply::Ack(ack) | Reply::AckSoon(ack), true) => Reply::Ack(ack),
            (Reply::Ack(ack) | Reply::AckSoon(ack), false) => Reply::SynAck(ack),
            _ => continue,
        };
        allowed.push(Ending { reply, ..outcome });
        // In SYN-RECEIVED the text waits, whether acknowledged or not, until the handshake is complete.
        if !ack_acceptable {
            allowed.push(Ending { reply, phase, delivered: 0, ..outcome });
            allowed.push(Ending { reply: Reply::SynAck(irs_next), phase, ..outcome });
        }
    }
    allowed
}

/// RFC 9293 §3.10.7.4.
fn synchronized(view: &View, seg: &Seg) -> Vec<Ending> {
    // MAY-2, RFC 6191 §2: TIME-WAIT looks for a new connection first. Without timestamps a SYN qualifies
    // when its sequence number is beyond the last one received.
    if view.phase == Phase::TimeWait && seg.flags & (SYN | ACK | RST | FIN) == SYN {
        let mut allowed = vec![view.stays(Reply::Ack(view.rcv_nxt))];
        // Half the circle away is neither before nor after.
        let distance = seg.seq.wrapping_sub(view.rcv_nxt);
        if distance <= 1 << 31 {
            allowed.push(Ending {
                phase: Phase::SynReceivedPassive,
                ..view.stays(Reply::SynAck(seg.seq.wrapping_add(1)))
            });
        }
        return allowed;
    }
    // First: the sequence number.
    if !acceptable(view, seg) {
        return unacceptable(view, seg);
    }
    // Second: RST (RFC 5961 §3).
    if seg.has(RST) {
        return reset(view, seg);
    }
    // Fourth: SYN (RFC 5961 §4).
    if seg.has(SYN) {
        let mut allowed = [acknowledged(view, seg), crossing_syn_ack(view, seg)].concat();
        if view.phase == Phase::SynReceivedPassive {
            allowed.push(Ending { phase: Phase::Listen, ..view.stays(Reply::Nothing) });
        }
        return allowed;
    }
    // Fifth: ACK.
    if !seg.has(ACK) {
        return vec![view.stays(Reply::Nothing)];
    }
    check_ack(view, seg).into_iter().flat_map(|checked| after_ack(view, seg, checked)).collect()
}

/// The segment test failed: `<SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>` unless RST.
fn unacceptable(view: &View, seg: &Seg) -> Vec<Ending> {
    let zero_window = view.rcv_wnd == 0 && seg.seq == view.rcv_nxt;
    if seg.has(RST) {
        // MUST-66: resets are processed at a zero window. One that carries text may be treated either way.
        let ignored = view.stays(Reply::Nothing);
        return if zero_window { [reset(view, seg), vec![ignored]].concat() } else { vec![ignored] };
    }
    let mut allowed = [acknowledged(view, seg), crossing_syn_ack(view, seg)].concat();
    // At a zero window "special allowance should be made to accept valid ACKs"; Appendix A.2 and
    // draft-gont-tcpm-tcp-seq-validation: also in a segment of no more than one byte at RCV.NXT - 1.
    let one_below = seg.seq == view.rcv_nxt.wrapping_sub(1) && seg.len() <= 1;
    if !(zero_window || one_below) || seg.has(SYN) {
        return allowed;
    }
    if !seg.has(ACK) {
        allowed.push(view.stays(Reply::Nothing));
        return allowed;
    }
    let mut remains = vec![Seg { payload: Vec::new(), flags: ACK, seq: view.rcv_nxt, ..seg.clone() }];
    if zero_window && seg.payload.is_empty() {
        // A FIN right at the window's edge takes no room.
        remains.push(Seg { flags: seg.flags, ..remains[0].clone() });
    }
    allowed.extend(remains.iter().flat_map(|rest| goes_on(view, rest)));
    allowed
}

/// `<SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>`. While our SYN is not acknowledged, repeating it with the ACK says
/// the same and lets the peer complete the handshake: a listener may do so when the peer's SYN arrives again,
/// a simultaneous open always may but to another SYN, whose sender has to learn that it has lost this
/// connection.
fn acknowledged(view: &View, seg: &Seg) -> Vec<Ending> {
    let syn_again = seg.has(SYN) && seg.seq == view.rcv_nxt.wrapping_sub(1);
    let mut allowed = vec![view.stays(Reply::Ack(view.rcv_nxt))];
    match view.phase {
        Phase::SynReceivedPassive if syn_again => allowed.push(view.stays(Reply::SynAck(view.rcv_nxt))),
        Phase::SynReceivedActive if syn_again || seg.has(RST) || !seg.has(SYN) => {
            allowed.push(view.stays(Reply::SynAck(view.rcv_nxt)));
        }
        _ => {}
    }
    allowed
}

/// RFC 9293 Figure 7: in a simultaneous open the SYN-ACK that crosses ours is old by its sequence number, and
/// completes the handshake by its ACK field. Its other contents may be accepted or arrive again.
fn crossing_syn_ack(view: &View, seg: &Seg) -> Vec<Ending> {
    let again = seg.has(SYN | ACK) && seg.seq == view.rcv_nxt.wrapping_sub(1);
    if !again || view.phase != Phase::SynReceivedActive {
        return Vec::new();
    }
    let all = Seg { seq: view.rcv_nxt, flags: seg.flags & !SYN, ..seg.clone() };
    let bare = Seg { payload: Vec::new(), flags: ACK, ..all.clone() };
    [all, bare].iter().flat_map(|rest| goes_on(view, rest)).collect()
}

/// The ACK check, and the steps after it, of a segment that passed the checks before; an ACK may be added.
fn goes_on(view: &View, seg: &Seg) -> Vec<Ending> {
    let outcomes = check_ack(view, seg).into_iter().flat_map(|checked| after_ack(view, seg, checked));
    let with_ack = |outcome: Ending| match outcome.reply {
        Reply::Nothing => vec![outcome, Ending { reply: Reply::Ack(view.rcv_nxt), ..outcome }],
        _ => vec![outcome],
    };
    outcomes.flat_map(with_ack).collect()
}

/// RFC 9293 §3.10.7.4, "Second, check the RST bit".
fn reset(view: &View, seg: &Seg) -> Vec<Ending> {
    let ignored = view.stays(Reply::Nothing);
    if seg.seq == view.rcv_nxt {
        return vec![match view.phase {
            Phase::SynReceivedPassive => Ending { phase: Phase::Listen, ..ignored },
            // RFC 1337 §3 (F1): a reset must not cut TIME-WAIT short.
            Phase::TimeWait => ignored,
            _ => Ending { phase: Phase::Closed, ..ignored },
        }];
    }
    if !in_window(view, seg.seq) && !is_behind_probe(view, seg) {
        return vec![ignored];
    }
    let mut allowed = acknowledged(view, seg);
    if view.phase == Phase::TimeWait {
        allowed.push(ignored);
    }
    allowed
}

/// The result of the ACK check.
enum Checked {
    /// The segment goes no further.
    Done(Ending),
    /// SND.UNA advances by this much, and the segment goes on.
    Advance(u32),
}

/// RFC 9293 §3.10.7.4, "Fifth, check the ACK field": the range of RFC 5961 §5, tightened against ghost ACKs.
fn check_ack(view: &View, seg: &Seg) -> Vec<Checked> {
    let challenge = Checked::Done(view.stays(Reply::Ack(view.rcv_nxt)));
    if matches!(view.phase, Phase::SynReceivedPassive | Phase::SynReceivedActive) {
        if follows(view.una, seg.ack, view.nxt) {
            return vec![Checked::Advance(1)];
        }
        return vec![Checked::Done(view.stays(Reply::Rst(seg.ack))), challenge];
    }
    if follows(view.una, seg.ack, view.nxt) {
        return vec![Checked::Advance(seg.ack.wrapping_sub(view.una))];
    }
    // Only sent data can have been acknowledged: below SND.UNA there are `acked` bytes, and the SYN.
    let below_una = view.una.wrapping_sub(seg.ack);
    if below_una <= view.max_wnd.min(view.acked) {
        return vec![Checked::Advance(0)];
    }
    if below_una <= view.max_wnd.min(view.acked + 1) {
        return vec![challenge, Checked::Advance(0)];
    }
    vec![challenge]
}

/// The states' own reactions to an acceptable ACK, then URG, text and FIN.
fn after_ack(view: &View, seg: &Seg, checked: Checked) -> Vec<Ending> {
    let acked = match checked {
        Checked::Done(outcome) => return vec![outcome],
        Checked::Advance(acked) => acked,
    };
    let all_acked = view.una.wrapping_add(acked) == view.nxt;
    let phase = match view.phase {
        Phase::SynReceivedPassive | Phase::SynReceivedActive => Phase::Established,
        Phase::FinWait1 if all_acked => Phase::FinWait2,
        Phase::Closing if all_acked => Phase::TimeWait,
        Phase::LastAck if all_acked => {
            return vec![Ending { reply: Reply::Nothing, phase: Phase::Closed, acked, delivered: 0 }];
        }
        other => other,
    };
    text_and_fin(&View { phase, ..*view }, seg, acked)
}

/// RFC 9293 §3.10.7.4, "Seventh, process the segment text" and "Eighth, check the FIN bit".
fn text_and_fin(view: &View, seg: &Seg, acked: u32) -> Vec<Ending> {
    let outcome = |reply, phase, delivered| Ending { reply, phase, acked, delivered };
    let rcv_nxt = view.rcv_nxt;
    let len = seg.payload.len() as u32;
    if !matches!(
        view.phase,
        Phase::Established | Phase::FinWait1 | Phase::FinWait2 | Phase::SynReceivedActive
    ) {
        // Nothing can follow the peer's FIN: text is ignored, and what repeats the FIN is acknowledged.
        return match seg.is_empty() {
            true => vec![outcome(Reply::Nothing, view.phase, 0)],
            false => vec![outcome(Reply::AckSoon(rcv_nxt), view.phase, 0)],
        };
    }
    if seg.is_empty() {
        return vec![outcome(Reply::Nothing, view.phase, 0)];
    }
    let skipped = rcv_nxt.wrapping_sub(seg.seq);
    if skipped >= 1 << 31 {
        // Out of order: held, and acknowledged at once (RFC 5681 §4.2). A FIN alone has nothing to hold.
        let reply = if len > 0 { Reply::Ack(rcv_nxt) } else { Reply::AckSoon(rcv_nxt) };
        return vec![outcome(reply, view.phase, 0)];
    }
    let delivered = len.saturating_sub(skipped).min(view.rcv_wnd);
    let cut = len.saturating_sub(skipped) > view.rcv_wnd;
    let text_only = outcome(Reply::AckSoon(rcv_nxt.wrapping_add(delivered)), view.phase, delivered);
    if !seg.has(FIN) || cut {
        return vec![text_only];
    }
    let closing = match view.phase {
        Phase::FinWait1 => Phase::Closing,
        Phase::FinWait2 => Phase::TimeWait,
        _ => Phase::CloseWait,
    };
    let finished = outcome(Reply::Ack(rcv_nxt.wrapping_add(delivered + 1)), closing, delivered);
    // A FIN right at the window's edge takes no room: it may be accepted or left.
    if delivered == view.rcv_wnd { vec![finished, text_only] } else { vec![finished] }
}

impl View {
    fn stays(&self, reply: Reply) -> Ending {
        Ending { reply, phase: self.phase, acked: 0, delivered: 0 }
    }
}

/// RFC 9293 §3.4, Table 6, and one number more for an acknowledgement without text: a peer that has filled
/// the window sends it from the window's edge, and may need what it acknowledges to continue. So does one
/// that has probed a closed window, which may also reset the connection from there.
fn acceptable(view: &View, seg: &Seg) -> bool {
    let bare_ack = seg.has(ACK) && !seg.has(RST);
    match (seg.len(), view.rcv_wnd) {
        (0, 0) => seg.seq == view.rcv_nxt || is_behind_probe(view, seg),
        (0, wnd) => in_window(view, seg.seq) || bare_ack && seg.seq == view.rcv_nxt.wrapping_add(wnd),
        (_, 0) => false,
        _ => in_window(view, seg.seq) || in_window(view, seg.end().wrapping_sub(1)),
    }
}

/// Whether an acknowledgement or a reset lies one number beyond a closed window. After its FIN the peer has
/// nothing to probe with.
fn is_behind_probe(view: &View, seg: &Seg) -> bool {
    let may_probe = matches!(view.phase, Phase::Established | Phase::FinWait1 | Phase::FinWait2);
    let counts = seg.is_empty() && (seg.has(ACK) || seg.has(RST));
    may_probe && view.rcv_wnd == 0 && counts && seg.seq == view.rcv_nxt.wrapping_add(1)
}

fn in_window(view: &View, seq: u32) -> bool {
    seq.wrapping_sub(view.rcv_nxt) < view.rcv_wnd
}

/// `low < ack <= high` on the circle.
fn follows(low: u32, ack: u32, high: u32) -> bool {
    let distance = ack.wrapping_sub(low);
    distance != 0 && distance <= high.wrapping_sub(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::seg;

    fn view(phase: Phase) -> View {
        View { phase, una: 1, nxt: 101, iss: 0, max_wnd: 1000, acked: 0, rcv_nxt: 501, rcv_wnd: 10 }
    }

    #[test]
    fn reset_is_exact_or_challenged_or_dropped() {
        let established = view(Phase::Established);
        let at = |seq| outcomes(&established, &seg(RST).seq(seq))[0];
        assert_eq!(at(501).phase, Phase::Closed);
        assert_eq!(at(502), established.stays(Reply::Ack(501)));
        assert_eq!(at(510), established.stays(Reply::Ack(501)));
        assert_eq!(at(511), established.stays(Reply::Nothing));
        assert_eq!(at(500), established.stays(Reply::Nothing));
    }

    #[test]
    fn fin_of_both_sides_ends_in_time_wait() {
        let all = outcomes(&view(Phase::FinWait1), &seg(FIN).seq(501).ack(101));
        assert_eq!(
            all,
            [Ending { reply: Reply::Ack(502), phase: Phase::TimeWait, acked: 100, delivered: 0 }]
        );
        let unacked = outcomes(&view(Phase::FinWait1), &seg(FIN).seq(501).ack(1));
        assert_eq!(unacked[0].phase, Phase::Closing);
    }
}
