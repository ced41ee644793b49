//! One TCP connection, sans-IO.
//!
//! The code map:
//!
//! - [`arrives`]: an arriving segment, one file per step of RFC 9293 §3.10.7.4, and one for the predicted
//!   segment;
//! - [`calls`], [`options`], [`choices`]: the user's calls (§3.10.1 to §3.10.6);
//! - [`transmit`] decides what leaves, mostly in [`fresh`]; [`quiet`] finds that nothing does; [`header`]
//!   writes the bytes;
//! - [`receive`]: the receiving half, with its window and the acknowledgements that it owes;
//! - [`timeouts`]: timers and deadlines;
//! - [`pinned`]: connections that hold memory without progress;
//! - [`ecn`]: ECN marks are negotiated, echoed and read;
//! - [`tracing`]: what a trace records;
//! - [`feedback`]: what became of what was written, if the application asks;
//! - [`cold`]: state that few connections need.
//!
//! [`Flight`] decides what is outstanding, lost, or may be sent.

mod arrives;
mod calls;
mod choices;
mod cold;
mod cork;
mod ecn;
mod errors;
mod fast_open;
mod feedback;
mod flow_labels;
mod fresh;
mod header;
mod icmp;
mod limiter;
mod mtu_search;
mod open;
mod options;
mod persist;
mod pinned;
mod plain;
mod quiet;
mod receive;
mod send_space;
mod sender;
mod silence;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod timeouts;
mod timestamps;
mod tracing;
mod transmit;
mod user_timeout;
#[cfg(feature = "prefetch")]
mod warm;

use std::sync::Arc;
use std::time::Duration;

use ackclock_wire::{Flags, SeqNum};

use self::cold::Cold;
use self::cork::Cork;
use self::ecn::EcnState;
use self::errors::Errors;
use self::flow_labels::LabelledTemplate;
use self::persist::Persist;
use self::receive::ReceiveHalf;
use self::sender::Sender;
use self::silence::Silence;
use self::timestamps::Timestamps;
use crate::deadline::Deadline;
use crate::later::{self, Kept};
use crate::sending::Flight;
use crate::trace::{BatchCause, Entry, Trace};
use crate::{ConnectionError, FourTuple, Instant, Readiness, TcpConfig};

pub(crate) use self::ecn::negotiation::{Agreement, Offer};
pub(crate) use self::ecn::option_of_syn_ack;
pub(crate) use self::fast_open::{FastOpenOffer, FastOpenOutcome};
pub(crate) use self::flow_labels::FlowLabels;
pub(crate) use self::header::Outgoing;
pub(crate) use self::icmp::believed_mtu;
#[cfg(test)]
pub(crate) use self::icmp::{PMTU_MIN_V4, plateau_below};
pub(crate) use self::open::{
    EXPERIMENT_SYNS, Environment, Handshake, WINDOW_SCALE_MAX, advertised_mss, default_mss,
    initial_receive_window, window_scale_for,
};
pub use self::state::State;
pub(crate) use self::timeouts::R2_SYN;
pub(crate) use self::user_timeout::told_user_timeout;
pub(crate) use crate::sending::clock as timestamp_clock;

/// What the connection lends its flight for one call.
macro_rules! lend {
    ($connection:ident, $now:expr) => {
        &mut crate::sending::Call { now: $now, tcp: &$connection.tcp, trace: &mut $connection.trace }
    };
}
use lend;

/// One TCP connection of an [`Endpoint`](crate::Endpoint).
///
/// The application's calls are methods here. They never block and take the time as an argument. Make changes
/// through [`Endpoint::update`](crate::Endpoint::update), which handles the resulting segments and timers.
#[derive(Debug)]
pub struct Connection {
    tuple: FourTuple,
    state: State,
    // RFC 9293 MUST-11: whether SYN-RECEIVED came from an active open. A passive one is a half-open record of
    // the endpoint, never a `Connection`, so here it always did.
    established: bool,
    snd: Sender,
    rcv: ReceiveHalf,
    timestamps: Option<Timestamps>,
    sack: bool,
    template: LabelledTemplate,
    flight: Flight,
    /// Present if ECN was agreed on.
    ecn: Option<Box<EcnState>>,
    reply: Option<Reply>,
    pending: Pending,
    cold: Cold,
    /// Shared with the connections of the same listener until an option is set.
    tcp: Arc<TcpConfig>,
    persist: Persist,
    cork: Cork,
    silence: Silence,
    /// The end of TIME-WAIT, or of an orphan's FIN-WAIT-2.
    closing: Deadline,
    /// Until then empty buffers keep their memory.
    keeps_buffers: Deadline,
    counts: Counts,
    readiness: Readiness,
    errors: Errors,
    orphaned: bool,
    /// Whether something has arrived since the last segment left that shows that earlier ones reach the peer.
    progressed: bool,
    trace: Trace,
}

/// A segment that answers one that was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    /// `<SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>`; within the window, if SND.NXT is not.
    Ack,
    /// `<SEQ=SEG.ACK><CTL=RST>`.
    Reset(SeqNum),
    /// An acknowledgement with the user timeout.
    UserTimeout,
}

/// What must be sent, besides data and acknowledgements.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// A SYN, or in SYN-RECEIVED a SYN,ACK.
    syn: bool,
    /// A RST that ends the connection.
    reset: bool,
    /// A window probe.
    probe: bool,
    /// A keep-alive probe.
    keepalive: bool,
    /// The writer is about to write more.
    more_follows: bool,
}

/// Totals since the connection began.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    bytes_sent: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segments_sent: u64,
    segments_received: u64,
    received_at: Option<Instant>,
}

/// What the endpoint keeps of a connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeWaitParams {
    pub(crate) snd_nxt: SeqNum,
    pub(crate) rcv_nxt: SeqNum,
    /// The window as in the header, shifted.
    pub(crate) window: u16,
    /// TS.Recent and our offset, if timestamps are in use.
    pub(crate) timestamps: Option<(u32, u32)>,
    /// How often its flow label has changed.
    pub(crate) label_changes: u8,
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

    /// Changes to report to the application, since the last call.
    #[inline]
    pub(crate) fn take_readiness(&mut self) -> Readiness {
        std::mem::take(&mut self.readiness)
    }

    /// Whether the peer was shown to be reached since the last call: it acknowledged or sent something new.
    #[inline]
    pub(crate) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progressed)
    }

    /// Whether the connection is CLOSED with nothing left to send, so that its slot can be reused.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.state == State::Closed && !self.pending.reset && self.reply.is_none()
    }

    /// What to keep of a connection in TIME-WAIT.
    pub(crate) fn time_wait(&self) -> Option<TimeWaitParams> {
        (self.state == State::TimeWait && self.reply.is_none()).then(|| TimeWaitParams {
            snd_nxt: self.flight.nxt().seq(),
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

    /// The connection is over, for this reason. Data received in order can still be read.
    // Deviation from RFC 9293 §3.10.7.4 (RST) and §3.10.8 (user timeout): both flush all queues. The bytes in
    // order had been received, and mostly acknowledged, before the end came. As with the kernel's sockets,
    // the application reads all of them and then gets the reason.
    fn close_with(&mut self, now: Instant, error: Option<ConnectionError>) {
        if self.state == State::Closed {
            return;
        }
        self.trace_state(now, State::Closed);
        if let Some(error) = error {
            self.trace.note(now, Entry::Failed(error.into()));
            self.trace.call(BatchCause::Failed);
        }
        self.state = State::Closed;
        self.errors.end(error);
        self.stop_timers();
        self.persist = Persist::default();
        self.cork.release();
        self.pending = Pending::default();
        self.snd.clear(self.flight.una());
        self.flight.close();
        self.rcv.finish();
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
        self.trace_state(now, state);
        match state {
            State::Closed => return self.close_with(now, None),
            // RFC 9293 MUST-13: linger for 2 MSL.
            State::TimeWait => self.start_time_wait(now),
            // The search for the path's MTU ends with the data.
            State::FinWait1 | State::LastAck => self.stop_mtu_search(),
            State::FinWait2 if self.orphaned => self.closing.set(now + self.tcp.fin_wait_2_max),
            _ => {}
        }
        self.state = state;
    }

    fn start_time_wait(&mut self, now: Instant) {
        self.stop_timers();
        self.flight.stop_timers();
        self.closing.set(now + self.tcp.time_wait);
        self.readiness.closed = true;
    }

    /// Flags of a segment that carries an acknowledgement.
    const ACK: Flags = Flags::ACK;

    /// Checks what must hold between any two calls.
    #[inline]
    fn check_invariants(&self) {
        #[cfg(debug_assertions)]
        {
            assert!(
                self.rcv.nxt() <= self.rcv.edge() + 1,
                "RCV.NXT is not beyond the offered window and a FIN"
            );
            self.flight.check_invariants();
        }
    }
}
