//! One TCP connection, sans-IO.
//!
//! The code map: a segment arrives in [`arrives`], one file per step of RFC 9293 §3.10.7.4; the user's calls
//! (§3.10.1 to §3.10.6) are in [`calls`], [`options`] and [`choices`]; what leaves is decided in [`transmit`] and put into
//! bytes in [`header`]; that there is nothing, in [`quiet`]; how it is spaced in [`pacer`]; deadlines are in [`timeouts`];
//! losses are judged in [`loss`], and that judgement in [`undo`]; what of all this a trace tells, in [`tracing`]; marks are negotiated, told and answered in [`ecn`]; what the congestion controller is told
//! is in [`controller`].

mod arrives;
mod calls;
mod choices;
mod controller;
mod ecn;
mod header;
mod icmp;
mod limiter;
mod loss;
mod open;
mod options;
mod pacer;
mod quiet;
mod receiver;
mod sender;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod timeouts;
mod timers;
mod timestamps;
mod tracing;
mod transmit;
mod undo;

use std::sync::Arc;
use std::time::Duration;

use ackclock_control::bandwidth;
use ackclock_control::congestion::{Controller, StartUp, Validation};
use ackclock_control::rtt::RttEstimator;
use ackclock_wire::{Flags, HeaderTemplate, SeqNum};

use self::ecn::EcnState;
use self::limiter::Limiter;
use self::loss::RecoveryState;
use self::pacer::Pacer;
use self::receiver::Receiver;
use self::sender::Sender;
use self::timers::Timers;
use self::timestamps::Timestamps;
use self::tracing::Trace;
use self::undo::Undo;
use crate::position::Position;
use crate::recovery::{Scoreboard, SendMoment};
use crate::trace::{BatchCause, Entry};
use crate::{ConnectionError, FourTuple, IcmpError, Instant, Readiness, TcpConfig};

pub(crate) use self::ecn::negotiation::{Agreement, Offer};
pub(crate) use self::ecn::option_of_syn_ack;
pub(crate) use self::header::Outgoing;
pub(crate) use self::open::{
    Environment, Handshake, WINDOW_SCALE_MAX, advertised_mss, default_mss, initial_receive_window,
    window_scale_for,
};
pub use self::state::State;
pub(crate) use self::timestamps::clock as timestamp_clock;

/// One TCP connection of an [`Endpoint`](crate::Endpoint).
///
/// The application's calls are methods here; they never block and take the time as an argument. Whatever changes a
/// connection goes through [`Endpoint::update`](crate::Endpoint::update), which sees to the segments and timers
/// that follow from it.
#[derive(Debug)]
pub struct Connection {
    tuple: FourTuple,
    state: State,
    // RFC 9293 MUST-11: whether SYN-RECEIVED came from an active open. A passive one is a half-open record of the
    // endpoint, never a `Connection`, so here it always did.
    established: bool,
    snd: Sender,
    rcv: Receiver,
    timestamps: Option<Timestamps>,
    sack: bool,
    template: HeaderTemplate,
    timers: Timers,
    timer_granularity_ns: u32,
    /// Made when a rate first asks for it.
    pacer: Option<Box<Pacer>>,
    rtt: RttEstimator,
    congestion: Box<dyn Controller>,
    extras: Option<Box<Extras>>,
    scoreboard: Scoreboard,
    recovery: RecoveryState,
    /// Where ECN was agreed on.
    ecn: Option<Box<EcnState>>,
    /// Of a connection whose window was ever reduced.
    undo: Option<Box<Undo>>,
    acks: Acks,
    reply: Option<Reply>,
    pending: Pending,
    limiter: Limiter,
    /// Shared with the connections of the same listener until an option is set.
    tcp: Arc<TcpConfig>,
    corked: bool,
    /// The application found no room to write.
    awaiting_room: bool,
    delivery: Delivery,
    give_up: GiveUp,
    counts: Counts,
    readiness: Readiness,
    error: Option<ConnectionError>,
    error_taken: bool,
    soft_error: Option<IcmpError>,
    orphaned: bool,
    trace: Trace,
}

/// What only some connections need, made when it is first needed.
#[derive(Debug, Default)]
struct Extras {
    /// What validates the window by use (RFC 7661), once it has grown.
    validation: Option<Validation>,
    /// The estimation that may end the first slow start.
    start_up: Option<Box<StartUp>>,
    /// What the receiver makes of the peer's slow start.
    arrivals: Option<Box<bandwidth::Receiver>>,
}

/// Acknowledgements that are owed.
#[derive(Clone, Copy, Debug, Default)]
struct Acks {
    /// Full-sized segments, or their worth, received since the last acknowledgement was sent.
    segments: u32,
    /// One is to leave at once.
    now: bool,
    /// Without SACK, the peer counts duplicates: so many more are to leave, one for each segment beyond the gap.
    repeats: u8,
    /// The next reports this as received twice (RFC 2883).
    duplicate: Option<(SeqNum, SeqNum)>,
}

/// A segment that answers one that was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    /// `<SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>`.
    Ack,
    /// `<SEQ=SEG.ACK><CTL=RST>`.
    Reset(SeqNum),
}

/// Things to be sent, besides data and acknowledgements.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// A SYN, or in SYN-RECEIVED a SYN,ACK.
    syn: bool,
    /// A RST that ends the connection.
    reset: bool,
    /// A window probe.
    probe: bool,
    /// A tail loss probe.
    tail_probe: bool,
    /// A keep-alive probe.
    keepalive: bool,
    /// Less than sender silly-window avoidance asks for may be sent: it has held data back for long enough.
    override_sws: bool,
    /// Corked data may go.
    cork_expired: bool,
    /// The controller has been told of the pause that the next data ends.
    restarted: bool,
}

/// What was delivered, for samples of the delivery rate.
#[derive(Clone, Copy, Debug, Default)]
struct Delivery {
    bytes: u64,
    at: Instant,
    rate: u64,
    /// When what was delivered last had been sent (C.first_send_time).
    sent_at: Instant,
    /// Sending was limited by the application until this much was delivered.
    app_limited_until: u64,
    /// The window was full when data up to here was sent.
    cwnd_limited_until: Option<Position>,
    /// Bytes found to be lost (C.lost), modulo 2^32.
    lost: u32,
}

impl Delivery {
    /// The longer of the times over which what was delivered since `moment` was sent and delivered (draft-ietf-ccwg-bbr
    /// §4.1.2.3): acknowledgements that were held up and arrive together do not make a path look fast.
    fn interval(&self, now: Instant, moment: &SendMoment) -> Duration {
        now.saturating_since(moment.delivered_at).max(Duration::from_micros(u64::from(moment.sending_us)))
    }

    /// Bytes found to be lost since `moment`.
    fn lost_since(&self, moment: &SendMoment) -> u64 {
        u64::from(self.lost.wrapping_sub(moment.lost))
    }
}

/// How long the peer has been silent, towards R2 and the user timeout.
#[derive(Clone, Copy, Debug, Default)]
struct GiveUp {
    /// When the first transmission left that has not been answered since; unset: nothing waits.
    waiting_since: Option<Instant>,
    /// Expiries of the retransmission timer since then.
    expiries: u32,
    /// Window probes since the window closed.
    probes: u32,
    /// Keep-alive probes since the peer was last heard of.
    keepalives: u32,
    /// When the last segment arrived.
    heard_at: Instant,
}

/// Totals since the connection began.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    bytes_sent: u64,
    bytes_acked: u64,
    bytes_received: u64,
    bytes_retransmitted: u64,
    bytes_duplicate: u64,
    segments_sent: u64,
    segments_received: u64,
    retransmits: u64,
    timeouts: u64,
    loss_episodes: u64,
    out_of_order: u64,
    sent_at: Option<Instant>,
    received_at: Option<Instant>,
}

/// What the endpoint keeps of a connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeWaitParams {
    pub(crate) snd_nxt: SeqNum,
    pub(crate) rcv_nxt: SeqNum,
    /// The window as it stands in the header, shifted.
    pub(crate) window: u16,
    /// TS.Recent, and our offset, where timestamps are in use.
    pub(crate) timestamps: Option<(u32, u32)>,
}

impl Connection {
    /// Changes that the application should hear of, since last asked.
    pub(crate) fn take_readiness(&mut self) -> Readiness {
        std::mem::take(&mut self.readiness)
    }

    /// When [`Self::handle_timeout`] is due.
    #[inline]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Whether the connection is CLOSED with nothing left to send: its place may be used again.
    pub(crate) fn is_gone(&self) -> bool {
        self.state == State::Closed && !self.pending.reset && self.reply.is_none()
    }

    /// What to keep of a connection in TIME-WAIT.
    pub(crate) fn time_wait(&self) -> Option<TimeWaitParams> {
        (self.state == State::TimeWait && self.reply.is_none()).then(|| TimeWaitParams {
            snd_nxt: self.snd.nxt.seq(),
            rcv_nxt: self.rcv.nxt.seq(),
            window: u16::try_from(self.rcv.wnd() >> self.rcv.scale).unwrap_or(u16::MAX),
            timestamps: self.timestamps.map(|timestamps| (timestamps.echo(), timestamps.offset())),
        })
    }

    /// The largest payload of one segment, all options of a data segment taken off (RFC 5681's SMSS).
    // RFC 9293 MUST-16: Eff.snd.MSS = min(SendMSS + 20, MMS_S) - TCPhdrsize - IPoptionsize.
    fn smss(&self) -> u32 {
        self.payload_max(if self.timestamps.is_some() { 12 } else { 0 })
    }

    /// The largest payload of a segment with `options_len` bytes of options.
    fn payload_max(&self, options_len: u32) -> u32 {
        let ip_and_tcp = u32::from(self.template.transport_offset()) + 20;
        let fits = self.snd.pmtu.saturating_sub(ip_and_tcp).min(self.snd.peer_mss);
        fits.saturating_sub(options_len).max(1)
    }

    /// Bytes in flight, as the recovery policy counts them.
    fn in_flight(&self) -> u64 {
        self.scoreboard.pipe().saturating_sub(self.recovery.left_network())
    }

    /// The connection is over, for this reason.
    fn close_with(&mut self, now: Instant, error: Option<ConnectionError>) {
        if self.state == State::Closed {
            return;
        }
        self.trace.state(now, self.state, State::Closed);
        if let Some(error) = error {
            self.trace.note(now, Entry::Failed(error.into()));
            self.trace.call(BatchCause::Failed);
        }
        self.state = State::Closed;
        if self.error.is_none() {
            self.error = error;
        }
        self.timers = Timers::new();
        self.pending = Pending::default();
        self.acks = Acks::default();
        self.snd.clear();
        self.scoreboard = Scoreboard::default();
        if error.is_some() {
            self.rcv.buffer.clear();
        }
        self.readiness = self.readiness.merged(Readiness {
            readable: true,
            writable: true,
            closed: true,
            ..Readiness::default()
        });
    }

    fn enter(&mut self, now: Instant, state: State) {
        if state == self.state {
            return;
        }
        self.trace.state(now, self.state, state);
        match state {
            State::Closed => return self.close_with(now, None),
            // RFC 9293 MUST-13: linger for 2 MSL.
            State::TimeWait => self.start_time_wait(now),
            State::FinWait2 if self.orphaned => self.timers.close = now + self.tcp.fin_wait_2_max,
            _ => {}
        }
        self.state = state;
    }

    fn start_time_wait(&mut self, now: Instant) {
        let delayed_ack = self.timers.delayed_ack;
        self.timers = Timers::new();
        self.timers.delayed_ack = delayed_ack;
        self.timers.close = now + self.tcp.time_wait;
        self.readiness.closed = true;
    }

    /// The smallest round-trip time seen, or none.
    fn rtt_min(&self) -> Duration {
        self.rtt.rtt_min()
    }

    /// Flags of a segment that carries an acknowledgement.
    const ACK: Flags = Flags::ACK;

    /// Checks what must hold between any two calls.
    #[inline]
    fn check_invariants(&self) {
        #[cfg(debug_assertions)]
        {
            assert!(self.snd.una <= self.snd.nxt, "SND.UNA is not beyond SND.NXT");
            assert!(self.rcv.nxt <= self.rcv.edge + 1, "RCV.NXT is not beyond the offered window and a FIN");
            if self.state.may_send_data() {
                assert!(self.congestion.cwnd() >= 1, "the congestion window is never empty");
            }
            self.scoreboard.check_invariants();
        }
    }
}
