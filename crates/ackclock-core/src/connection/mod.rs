//! One TCP connection, sans-IO.
//!
//! A [`Connection`] conducts the owners of its state:
//!
//! - [`send`]: the sending half, with the peer's window and the [`Flight`](crate::sending::Flight), which
//!   decides what is outstanding, lost, or may be sent;
//! - [`receive`]: the receiving half, with its window and the acknowledgements that it owes;
//! - [`life`]: the state of RFC 9293 §3.3.2; [`errors`]: what the application learns of the end;
//! - [`ecn`]: ECN marks, negotiated, echoed and read;
//! - [`pending`]: what must be sent besides data; [`silence`]: keep-alives; [`quiet`]: the idle timeout;
//! - [`cold`]: state that few connections need.
//!
//! Its own methods follow RFC 9293 §3.10: [`open`]; [`calls`], the user's calls, and [`info`], STATUS and
//! the trace; [`arrives`], SEGMENT ARRIVES; and here the timeouts. [`transmit`] decides what leaves and
//! writes its header.

mod arrives;
mod calls;
mod cold;
mod ecn;
mod errors;
mod fast_open;
mod flow_labels;
mod idle;
mod info;
mod known;
mod life;
mod limiter;
mod open;
mod pending;
mod pmtu;
mod portable;
mod quiet;
mod receive;
mod segment;
mod send;
mod silence;
mod state;
ackclock_form::form! {
    struct Connection {
        tcp as settings, life, snd, rcv, timestamps, sack, progressed, template, ecn, pending, cold,
        silence, idle_buffers, segments_sent as lifetime, segments_received as lifetime, readiness,
        errors, trace
    } => |connection| connection.violated().is_none() && connection.is_timed();
    struct TimeWaitParams { snd_nxt, rcv_nxt, window, timestamps, label_changes }
}

/// A connection's settings, which are lent to what is read after them.
mod settings {
    use std::sync::Arc;

    use ackclock_form::{FormError, Reader, Writer, shared};

    use crate::TcpConfig;

    pub(super) fn write(tcp: &Arc<TcpConfig>, out: &mut Writer) {
        shared::write(tcp, out);
    }

    pub(super) fn read(input: &mut Reader<'_>) -> Result<Arc<TcpConfig>, FormError> {
        let tcp: Arc<TcpConfig> = shared::read(input)?;
        input.lend(Arc::clone(&tcp));
        Ok(tcp)
    }
}

#[cfg(test)]
mod tests;
mod timestamps;
mod transmit;
mod user_timeout;

use std::sync::Arc;
use std::time::Duration;

use ackclock_form::lifetime;
use ackclock_wire::SeqNum;

use self::cold::Cold;
use self::ecn::Marking;
use self::errors::Errors;
use self::flow_labels::LabelledTemplate;
use self::idle::IdleBuffers;
use self::life::Life;
use self::pending::Pending;
use self::quiet::Quiet;
use self::receive::ReceiveHalf;
use self::send::{Expired, SendHalf};
use self::silence::{Silence, Verdict};
use self::timestamps::Timestamps;
use crate::event::ReadinessBits;
use crate::later::{self, Kept};
use crate::trace::{BatchCause, Entry, Timer, Trace};
use crate::{ConnectionError, Instant, Readiness, TcpConfig};

pub(crate) use self::ecn::negotiation::Offer;
pub(crate) use self::ecn::option_of_syn_ack;
pub(crate) use self::fast_open::{FastOpenOffer, FastOpenOutcome};
pub(crate) use self::flow_labels::FlowLabels;
pub(crate) use self::info::AtEnd;
pub(crate) use self::known::Known;
pub(crate) use self::open::{
    EXPERIMENT_SYNS, Environment, Handshake, WINDOW_SCALE_MAX, advertised_mss, default_mss,
    initial_receive_window, window_scale_for,
};
pub(crate) use self::pmtu::believed_mtu;
#[cfg(test)]
pub(crate) use self::pmtu::{PMTU_MIN_V4, plateau_below};
pub(crate) use self::portable::Portable;
pub use self::state::State;
pub(crate) use self::transmit::Outgoing;
pub(crate) use self::user_timeout::told_user_timeout;
pub(crate) use crate::sending::clock as timestamp_clock;

/// Borrows the parts of the connection that its sending half needs for one call.
macro_rules! lend {
    ($connection:ident, $now:expr) => {
        crate::connection::send::Lent {
            state: $connection.life.state(),
            call: crate::sending::Call { now: $now, tcp: &$connection.tcp, trace: &mut $connection.trace },
            readiness: &mut $connection.readiness,
        }
    };
}
use lend;

/// One TCP connection of an [`Endpoint`](crate::Endpoint).
///
/// The application's calls are methods here. They never block and take the time as an argument. Make changes
/// through [`Endpoint::update`](crate::Endpoint::update), which handles the resulting segments and timers.
#[derive(Debug)]
pub struct Connection {
    life: Life,
    snd: SendHalf,
    rcv: ReceiveHalf,
    timestamps: Option<Timestamps>,
    /// Both ends send SACKs.
    sack: bool,
    /// Something has arrived since the last segment left that shows that earlier ones reach the peer.
    progressed: bool,
    template: LabelledTemplate,
    ecn: Marking,
    pending: Pending,
    cold: Cold,
    /// Shared with the connections of the same listener until an option is set.
    tcp: Arc<TcpConfig>,
    silence: Silence,
    idle_buffers: IdleBuffers,
    segments_sent: u64,
    segments_received: u64,
    readiness: ReadinessBits,
    errors: Errors,
    trace: Trace,
}

/// The values that the endpoint keeps of a connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeWaitParams {
    pub snd_nxt: SeqNum,
    pub rcv_nxt: SeqNum,
    /// The window as in the header, shifted.
    pub window: u16,
    /// TS.Recent and our offset, if timestamps are in use.
    pub timestamps: Option<(u32, u32)>,
    /// How often its flow label has changed.
    pub label_changes: u8,
}

impl Drop for Connection {
    /// Its settings have a factory, which may be the program's.
    fn drop(&mut self) {
        later::keep(|| Kept::Settings(Arc::clone(&self.tcp)));
    }
}

impl Connection {
    /// Whether there are changes to report to the application.
    #[inline]
    pub(crate) fn has_changes(&self) -> bool {
        !self.readiness.is_empty()
    }

    /// ReadinessBits to report to the application, since the last call.
    #[inline]
    pub(crate) fn take_readiness(&mut self) -> Readiness {
        self.readiness.take()
    }

    /// Whether the peer was shown to be reached since the last call: it acknowledged or sent something new.
    #[inline]
    pub(crate) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progressed)
    }

    /// Whether the connection is CLOSED with nothing left to send, so that its slot can be reused.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.life.state() == State::Closed && !self.pending.outlives_the_end()
    }

    /// Whether `poll_transmit` would find nothing to send or change, if called before anything else happens
    /// to the connection: it is established, everything in its buffer has left, nothing is marked lost, and
    /// no ACK is pending. `false` means: ask `poll_transmit`.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.life.state() == State::Established
            && self.snd.is_idle()
            && !self.snd.owes_probe()
            && !self.rcv.owes_ack_now()
            && self.pending.is_empty()
            // A trace records what sending waits for, which `poll_transmit` finds out.
            && !self.trace.is_on()
    }

    /// Whether what it has to send fits into one segment, as an acknowledgement or a short message does.
    #[inline]
    pub(crate) fn sends_little(&self) -> bool {
        self.snd.queued() <= self.snd.smss() as usize
    }

    /// Returns the values to keep, once the connection is in TIME-WAIT and has no reply left to send.
    pub(crate) fn time_wait(&self) -> Option<TimeWaitParams> {
        (self.life.state() == State::TimeWait && !self.pending.has_reply()).then(|| TimeWaitParams {
            snd_nxt: self.snd.nxt().seq(),
            rcv_nxt: self.rcv.nxt().seq(),
            window: u16::try_from(self.rcv.wnd() >> self.rcv.scale()).unwrap_or(u16::MAX),
            timestamps: self.timestamps.map(|timestamps| (timestamps.echo(), timestamps.offset())),
            label_changes: self.template.label_changes(),
        })
    }

    /// How long its TIME-WAIT lasts.
    pub(crate) fn time_wait_lasts(&self) -> Duration {
        self.tcp.time_wait
    }

    /// Since when it has held memory without progress, if that is long enough for a reset: its peer takes
    /// nothing, its application does not read, or bytes wait for a gap to be filled.
    // RFC 9293 MUST-37: a connection stays open as long as its peer answers window probes, so no timer ends
    // one. But when the budget is spent and a connection that makes progress is refused memory, those that
    // have stalled are reset, the longest first (CVE-2008-4609).
    pub(crate) fn stalled_since(&self, now: Instant) -> Option<Instant> {
        self.snd.stalled_since(now, self.rcv.holds_since())
    }

    /// Resets a stalled connection in favour of those that make progress: buffered data in both directions is
    /// lost, as in an abort.
    pub(crate) fn give_up_memory(&mut self, now: Instant) {
        self.rcv.clear();
        self.reset(now, ConnectionError::OutOfMemory);
    }

    /// Prefetches the congestion controller; see `endpoint/warm.rs`.
    #[cfg(feature = "prefetch")]
    pub(crate) fn warm_behind(&self) {
        let controller = self.snd.controller();
        crate::endpoint::fetch(controller, size_of_val(controller));
    }

    /// The connection is over, for this reason. Data received in order can still be read.
    // Deviation from RFC 9293 §3.10.7.4 (RST) and §3.10.8 (user timeout): both flush all queues. The bytes in
    // order had been received, and mostly acknowledged, before the end came. As with the kernel's sockets,
    // the application reads all of them and then gets the reason.
    fn close_with(&mut self, now: Instant, error: Option<ConnectionError>) {
        if self.life.state() == State::Closed {
            return;
        }
        self.trace_state(now, State::Closed);
        if let Some(error) = error {
            self.trace.note(now, Entry::Failed(error.into()));
            self.trace.call(BatchCause::Failed);
        }
        self.life.enter(now, State::Closed, &self.tcp);
        self.errors.end(error);
        self.silence.stop();
        self.idle_buffers.end();
        self.pending.close();
        self.snd.close();
        self.rcv.finish();
        for change in [ReadinessBits::READABLE, ReadinessBits::WRITABLE, ReadinessBits::CLOSED] {
            self.readiness.add(change);
        }
    }

    /// Ends the connection with `error`, and sends a RST if the peer still needs one.
    fn reset(&mut self, now: Instant, error: ConnectionError) {
        let tell = match self.life.state() {
            State::Closed | State::Listen | State::SynSent | State::TimeWait => false,
            State::Closing | State::LastAck => self.snd.queued() > 0,
            _ => true,
        };
        self.close_with(now, Some(error));
        // A reset that has not left yet still will, whatever follows.
        if tell {
            self.pending.owe_reset();
        }
    }

    fn enter(&mut self, now: Instant, state: State) {
        if state == self.life.state() {
            return;
        }
        if state == State::Closed {
            return self.close_with(now, None);
        }
        self.trace_state(now, state);
        match state {
            State::TimeWait => {
                self.silence.stop();
                self.idle_buffers.end();
                self.snd.stop_timers();
                self.readiness.add(ReadinessBits::CLOSED);
            }
            // The search for the path's MTU ends with the data.
            State::FinWait1 | State::LastAck => self.snd.end_search(),
            _ => {}
        }
        self.life.enter(now, state, &self.tcp);
    }

    fn trace_state(&mut self, now: Instant, to: State) {
        self.trace.note(now, Entry::State(self.life.state(), to));
    }

    /// The peer was heard: restarts its silence.
    #[inline]
    fn note_heard(&mut self, now: Instant) {
        self.silence.end(now);
        self.arm_keepalive(now);
    }

    /// Sets the keep-alive deadline if it is not running.
    #[inline]
    fn arm_keepalive(&mut self, now: Instant) {
        if !self.silence.deadline().is_set()
            && let Some(keepalive) = &self.tcp.keepalive
        {
            self.silence.watch(now, keepalive);
        }
    }

    /// Checks what must hold between any two calls.
    #[inline]
    fn check_invariants(&self) {
        #[cfg(debug_assertions)]
        {
            assert_eq!(self.violated(), None);
            self.snd.check_invariants();
        }
    }

    /// Returns an invariant that does not hold between two calls, if any; the sending half checks its own.
    fn violated(&self) -> Option<&'static str> {
        if self.rcv.nxt() > self.rcv.edge() + 1 {
            return Some("RCV.NXT is not beyond the offered window and a FIN");
        }
        let waits = self.snd.flight_size() > 0 && self.state() != State::Closed;
        (waits && !self.snd.has_what_it_sent()).then_some("SND.NXT is not beyond the text and a FIN")
    }

    /// Whether a timer runs while something is in flight; at the end of the clock's range none can.
    fn is_timed(&self) -> bool {
        self.snd.flight_size() == 0 || self.state() == State::Closed || self.poll_timeout().is_some()
    }
}

// USER TIMEOUT, RETRANSMISSION TIMEOUT, TIME-WAIT TIMEOUT (RFC 9293 §3.10.8) and the other deadlines.
impl Connection {
    /// The next deadline, when [`Self::handle_timeout`] is due.
    #[inline]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let next = self
            .snd
            .next_timeout()
            .min(self.rcv.deadline().at())
            .min(self.silence.deadline().at())
            .min(self.life.deadline().at())
            .min(self.idle_buffers.deadline().at());
        (next != Instant::FAR_FUTURE).then_some(next)
    }

    /// A deadline may have come. A spurious call does nothing. Returns whether the idle timeout ended the
    /// connection.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> bool {
        self.note_data();
        self.on_send_timeout(now);
        let delayed_ack = self.rcv.deadline();
        if delayed_ack.has_come(now) {
            self.trace.fired(now, Timer::DelayedAck, delayed_ack.at(), 1);
            self.rcv.on_deadline();
        }
        let keepalive = self.silence.deadline();
        if keepalive.has_come(now) {
            self.trace.fired(now, Timer::Keepalive, keepalive.at(), 1);
            self.on_keepalive_timeout(now);
        }
        if self.idle_buffers.deadline().has_come(now) {
            self.release_buffers(now);
        }
        let ended_idle = self.life.deadline().has_come(now) && self.on_end(now);
        self.trace_freed(now);
        self.check_invariants();
        ended_idle
    }

    /// Time may end the connection. Returns whether it does because no data has moved.
    fn on_end(&mut self, now: Instant) -> bool {
        let (lingering, due) = (self.life.is_lingering(), self.life.deadline().at());
        let limit = self.tcp.idle_timeout.filter(|_| !lingering);
        let idle_until = limit.and_then(|limit| Some(self.quiet()?.since() + limit));
        if let Some(until) = idle_until.filter(|&until| now < until) {
            self.life.ends_idle(Some(until));
            return false;
        }
        self.trace.fired(now, Timer::Close, due, 1);
        match idle_until {
            Some(_) => self.reset(now, ConnectionError::IdleTimedOut),
            // TIME-WAIT is over, or the FIN-WAIT-2 of an orphan whose peer does not close.
            None => self.close_with(now, None),
        }
        idle_until.is_some()
    }

    /// The idle timeout counts from now on, if there is one.
    pub(super) fn watch_data(&mut self, now: Instant) {
        let progress = self.progress();
        if self.tcp.idle_timeout.is_some() {
            self.cold.need().quiet = Some(Quiet::new(now, progress));
        }
        self.life.ends_idle(self.tcp.idle_timeout.map(|limit| now + limit));
    }

    /// Something else than data is about to move the times of the last segments: data so far moved before.
    fn note_data(&mut self) {
        if self.tcp.idle_timeout.is_none() {
            return;
        }
        let quiet = self.quiet();
        if let Some(parts) = self.cold.parts_mut() {
            parts.quiet = quiet;
        }
    }

    /// Since when no data has moved, as far as it shows now.
    fn quiet(&self) -> Option<Quiet> {
        let mut quiet = self.cold.parts()?.quiet?;
        let heard_at = self.silence.heard_at();
        quiet.note(self.progress(), self.snd.sent_at().map_or(heard_at, |sent_at| sent_at.max(heard_at)));
        Some(quiet)
    }

    /// How far both directions have got: what was sent, acknowledged and received in order.
    fn progress(&self) -> u64 {
        let iss = self.snd.iss();
        let sent = self.snd.nxt().since(iss).wrapping_add(self.snd.una().since(iss));
        sent.wrapping_add(self.rcv.nxt().since(self.rcv.irs()))
    }

    /// How long the connection lasts yet if no data moves; `None`: for the lack of data it does not end.
    pub(super) fn idle_left(&self, now: Instant) -> Option<Duration> {
        let is_timed = self.life.is_established() && !self.life.is_lingering();
        let limit = self.tcp.idle_timeout.filter(|_| is_timed && self.life.deadline().is_set())?;
        Some((self.quiet()?.since() + limit).saturating_since(now))
    }

    /// The stack was paused until `now`. ACKs may have been lost meanwhile, so probe the peer once more
    /// before giving up.
    pub(crate) fn on_pause(&mut self, now: Instant) {
        self.snd.on_pause(now, self.give_up_after());
        if let Some(keepalive) = self.tcp.keepalive {
            self.silence.allow_another_probe(&keepalive);
        }
    }

    fn on_send_timeout(&mut self, now: Instant) {
        let (r2, heard_at, unread_since) =
            (self.give_up_after(), self.silence.heard_at(), self.rcv.holds_since());
        match self.snd.on_timeout(&mut lend!(self, now), r2, heard_at, unread_since) {
            Expired::Settled => {}
            Expired::Retransmit => self.on_retransmission_timeout(now),
            Expired::GiveUp => self.close_with(now, Some(ConnectionError::TimedOut)),
        }
    }

    fn on_retransmission_timeout(&mut self, now: Instant) {
        self.template.change_label();
        let expiries = self.snd.timeouts_in_a_row();
        if expiries == R1 {
            self.trace.call(BatchCause::Stalled);
        }
        // RFC 6069 §7.1: where backoffs were taken back, the expiries come sooner. R1 MUST then be the time
        // that they take otherwise.
        let r1 = self.snd.rtt().rto_unbacked().saturating_mul(R1_TIMEOUTS);
        if expiries >= R1 && self.snd.has_waited(now, r1) {
            // RFC 9293 SHLD-9: the application is notified between R1 and R2.
            self.readiness.add(ReadinessBits::SOFT_ERROR);
        }
        if !self.life.is_established() {
            // RFC 9293 MUST-22: a SYN is treated like any other segment.
            self.pending.owe_syn();
        }
        self.ecn.note_reduction(|| self.snd.take_reduced());
    }

    /// R2, or the user timeout.
    fn give_up_after(&self) -> Duration {
        // RFC 9293 SHLD-11: R2 of data is at least 100 s.
        let r2 = if self.life.is_established() { R2_DATA } else { R2_SYN };
        self.tcp.user_timeout.unwrap_or(r2)
    }

    // RFC 9293 MAY-5: keep-alives, off unless asked for.
    fn on_keepalive_timeout(&mut self, now: Instant) {
        // RFC 9293 MUST-26: only while nothing is outstanding; otherwise the retransmission timer serves.
        // Whatever ends that comes from the peer, which sets this timer again.
        let state = self.life.state();
        let serves = state.is_synchronized() && state != State::TimeWait && self.snd.is_silent();
        let Some(keepalive) = self.tcp.keepalive.filter(|_| serves) else {
            return self.silence.stop();
        };
        match self.silence.judge(now, &keepalive) {
            Verdict::Wait => {}
            Verdict::Probe => self.pending.owe_keepalive(),
            Verdict::GiveUp => self.reset(now, ConnectionError::KeepaliveTimedOut),
        }
    }

    fn release_buffers(&mut self, now: Instant) {
        let used = [self.snd.sent_at(), self.silence.received_at()].into_iter().flatten().max();
        if self.idle_buffers.judge(now, used) {
            self.rcv.release_if_empty();
            self.snd.release_memory(now);
        }
    }
}

/// R1 in retransmissions: from here on the application is notified (RFC 9293 §3.8.3).
// RFC 9293 SHLD-10: at least 3.
const R1: u32 = 3;
/// R1 in timeouts without backoff: 1, then 2 more, then 4 more.
const R1_TIMEOUTS: u32 = (1 << R1) - 1;
/// R2 for data: the time in which a 200 ms timer expires 16 times.
// RFC 9293 SHLD-11: at least 100 s.
const R2_DATA: Duration = Duration::from_millis(924_600);
/// R2 for a SYN.
// RFC 9293 MUST-23: at least 3 minutes.
pub(crate) const R2_SYN: Duration = Duration::from_secs(180);
