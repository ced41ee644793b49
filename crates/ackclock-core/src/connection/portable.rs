//! A connection as the RFCs describe it, for another version of this stack, or another controller.
//!
//! [`Portable`] has the numbers, options, windows and bytes of both directions, and the figures of the path.
//! Everything that one version keeps beside that begins again: which segments were reported or lost, the
//! controller's own state, timers, the segments beyond a gap. A connection is made of it by a short life, of
//! the steps that any connection goes through: a handshake whose numbers lie right before the present ones,
//! the unread bytes arrive, the unacknowledged ones leave. The packets of that life stay here; to this end
//! they look lost, so the first acknowledgement from the peer, or a probe for the tail, shows the truth.

use std::sync::Arc;
use std::time::Duration;

use ackclock_form::FormError;
use ackclock_wire::SeqNum;

use super::ecn::{Marking, PortableMarking};
use super::lend;
use super::open::{Environment, Handshake, PEER_MSS_MIN};
use super::state::State;
use super::{Connection, WINDOW_SCALE_MAX};
use crate::event::ReadinessBits;
use crate::sending::clock;
use crate::tuple::FourTuple;
use crate::{Instant, TcpConfig};

/// A connection without the state of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Portable {
    pub tuple: FourTuple,
    /// SND.UNA.
    una: SeqNum,
    /// Text from SND.UNA on that was sent, in bytes.
    sent: u32,
    /// Text from SND.UNA on that was written.
    written: Vec<u8>,
    /// Whether the application has ended its stream, and whether the peer has acknowledged that.
    closed: bool,
    fin_acked: bool,
    /// SND.WND, and the largest that the peer has offered, in bytes.
    wnd: u32,
    wnd_max: u32,
    /// RCV.NXT without the peer's FIN.
    rcv_nxt: SeqNum,
    /// Text before RCV.NXT that the application has not read.
    unread: Vec<u8>,
    fin_received: bool,
    /// RCV.WND as the peer was last shown it, in bytes.
    shown: u32,
    /// The peer's MSS.
    mss: u16,
    /// Shift counts: the peer's, ours.
    scales: (u8, u8),
    sack: bool,
    /// The last value sent, and TS.Recent.
    timestamps: Option<(u32, u32)>,
    ecn: Option<PortableMarking>,
    cwnd: u64,
    ssthresh: u64,
    /// Smoothed round trip and its variation, in nanoseconds, once it was measured.
    rtt: Option<(u64, u64)>,
}

ackclock_form::form! {
    struct Portable {
        tuple, una, sent, written, closed, fin_acked, wnd, wnd_max, rcv_nxt, unread, fin_received, shown, mss,
        scales, sack, timestamps, ecn, cwnd, ssthresh, rtt
    } => |connection| connection.is_sound();
}

impl Portable {
    /// Whether the values may stand beside each other.
    fn is_sound(&self) -> bool {
        let (peers, own) = self.scales;
        let (sent, unread) = (u64::from(self.sent), self.unread.len() as u64);
        sent <= self.written.len() as u64
            && !(self.fin_acked && (!self.closed || !self.written.is_empty()))
            && peers.max(own) <= WINDOW_SCALE_MAX
            && self.mss >= PEER_MSS_MIN
            && self.wnd.max(self.wnd_max).max(self.shown) <= u32::from(u16::MAX) << WINDOW_SCALE_MAX
            && unread.max(self.written.len() as u64) < u64::from(u32::MAX / 2)
    }
}

impl Connection {
    /// The connection without the state of this version; `None` if it is not open.
    pub(crate) fn portable(&self, now: Instant) -> Option<Portable> {
        let state = self.life.state();
        if !state.is_synchronized() || state == State::TimeWait || self.errors.hard().is_some() {
            return None;
        }
        let (una, fin_acked) = (self.snd.una(), self.snd.fin_acked());
        let sent = self.snd.nxt().min(self.snd.data_end()).since(una.min(self.snd.data_end()));
        let fin_received = self.rcv.fin_taken();
        let rtt = self.snd.rtt();
        let measured = rtt.srtt_nanos() > 0;
        Some(Portable {
            tuple: self.tuple(),
            una: una.seq(),
            sent: u32::try_from(sent).unwrap_or(u32::MAX),
            written: self.snd.text(),
            closed: self.snd.is_closed(),
            fin_acked,
            wnd: self.snd.wnd(),
            wnd_max: self.snd.max_wnd(),
            rcv_nxt: self.rcv.nxt().back(u64::from(fin_received)).seq(),
            unread: self.rcv.slices().flatten().copied().collect(),
            fin_received,
            shown: u32::try_from(self.rcv.shown_wnd()).unwrap_or(u32::MAX),
            mss: u16::try_from(self.snd.peer_mss()).unwrap_or(u16::MAX),
            scales: (self.snd.scale(), self.rcv.scale()),
            sack: self.sack,
            timestamps: self.timestamps.map(|timestamps| (timestamps.value(now), timestamps.echo())),
            ecn: self.ecn.portable(),
            cwnd: self.snd.controller().cwnd(),
            ssthresh: self.snd.controller().ssthresh(),
            rtt: measured.then(|| (rtt.srtt_nanos(), nanos(rtt.rttvar()))),
        })
    }

    /// The connection goes on. `environment`: that of a new connection between the same addresses.
    ///
    /// # Errors
    /// The memory budget has no room for its bytes.
    pub(crate) fn resumed(
        now: Instant,
        mut tcp: TcpConfig,
        environment: Environment,
        from: &Portable,
    ) -> Result<Self, FormError> {
        let unread = u32::try_from(from.unread.len()).unwrap_or(u32::MAX);
        // The window that was offered stays offered.
        let offered =
            usize::try_from(u64::from(unread).saturating_add(u64::from(from.shown))).unwrap_or(usize::MAX);
        tcp.receive_buffer_initial = tcp.receive_buffer_initial.max(offered);
        tcp.receive_buffer_max = tcp.receive_buffer_max.max(offered);
        tcp.send_buffer_max = tcp.send_buffer_max.max(from.written.len());
        // Before SND.UNA comes the SYN, or the FIN that was acknowledged and the SYN before it.
        let iss = from.una - 1 - u32::from(from.fin_acked);
        let timestamp_offset = match from.timestamps {
            // A tick more, so that no value is sent twice and none goes back.
            Some((last, _)) => last.wrapping_add(1).wrapping_sub(clock(now)),
            None => environment.timestamp_offset,
        };
        let environment = Environment { iss, timestamp_offset, known: None, ..environment };
        let handshake = Handshake {
            irs: from.rcv_nxt - unread - 1,
            peer_mss: from.mss,
            window_scale: Some(from.scales),
            sack: from.sack,
            timestamps: from.timestamps.map(|(_, recent)| recent),
            rtt: None,
            repetitions: 0,
            peer_window: 0,
            ecn: None,
            experiment: None,
        };
        let mut connection = Self::passive(now, from.tuple, Arc::new(tcp), &environment, handshake);
        connection.ecn = from.ecn.map_or(Marking::OFF, Marking::resumed);
        connection.take_back(now, from).then_some(connection).ok_or(FormError::Invariant("Budget"))
    }

    /// Lives the short life. Returns whether there was room for the bytes.
    fn take_back(&mut self, now: Instant, from: &Portable) -> bool {
        if !self.rcv.resume(now, &from.unread, from.shown) {
            return false;
        }
        self.readiness.add_if(ReadinessBits::READABLE, !from.unread.is_empty());
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.on_ack_sent(self.rcv.nxt());
        }
        if let Some((srtt, rttvar)) = from.rtt {
            self.snd.expect_rtt(Duration::from_nanos(srtt), Duration::from_nanos(rttvar));
        }
        self.snd.resume_window(&mut lend!(self, now), (from.cwnd, from.ssthresh));
        self.snd.resume_offer(self.rcv.nxt(), (from.wnd, from.wnd_max));
        if !self.snd.resume_text(&mut lend!(self, now), &from.written, from.sent) {
            return false;
        }
        if from.fin_received {
            let fin = self.rcv.nxt();
            self.rcv.note_fin(fin);
            self.rcv.process_fin();
            self.readiness.add(ReadinessBits::READABLE);
            self.enter(now, State::CloseWait);
        }
        if from.closed {
            let closing = self.life.state().after_close();
            self.snd.shut_down(&mut lend!(self, now));
            self.enter(now, closing);
        }
        if from.fin_acked {
            self.snd.resume_acked_fin();
            if self.life.state() == State::FinWait1 {
                self.enter(now, State::FinWait2);
            }
        }
        // Text that waits for a window needs a timer, because the peer may say nothing more.
        self.snd.keep_time(|| lend!(self, now));
        // The peer may have missed an answer meanwhile.
        self.rcv.owe_ack_now();
        self.check_invariants();
        true
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
