//! Congestion controllers: what a window does when acknowledgements, losses and timeouts happen.
//!
//! A [`Controller`] sees events and owns its window. It knows no sequence number; round trips are counted by
//! delivered bytes ([`Ack::delivered`] against [`Ack::prior_delivered`]). Which segment is lost, what is sent
//! again and when belongs to the recovery policy in `ackclock-core`.

use std::fmt;
use std::time::Duration;

use crate::Instant;

/// A congestion controller: one per connection.
///
/// Byte counts are of payload. Every method must be deterministic in its arguments and must not panic for any
/// sequence of events.
pub trait Controller: fmt::Debug + Send {
    /// The name under which the controller is registered, as `cubic`.
    fn name(&self) -> &'static str;

    /// New data was acknowledged, cumulatively or selectively. Called at most once for each arriving segment.
    fn on_ack(&mut self, ack: &Ack);

    /// A loss episode begins: the first loss found among segments sent after the last episode ended.
    /// Called once an episode, before anything is retransmitted.
    fn on_loss_episode(&mut self, loss: &LossEpisode);

    /// The retransmission timer expired. Called at every expiry, also of a segment retransmitted before.
    fn on_timeout(&mut self, timeout: &Timeout);

    /// Data left for the network: new or sent again.
    fn on_sent(&mut self, sent: &Sent) {
        let _ = sent;
    }

    /// All data outstanding when the episode began has been acknowledged.
    fn on_recovery_end(&mut self, end: &RecoveryEnd) {
        let _ = end;
    }

    /// Sending resumes after a pause of more than one retransmission timeout (RFC 5681 §4.1).
    fn on_idle_restart(&mut self, idle: &IdleRestart) {
        let _ = idle;
    }

    /// The last reduction turned out to be wrong: nothing had been lost. Restores what was before it.
    fn on_undo(&mut self, undo: &Undo) {
        let _ = undo;
    }

    /// The path's segment size changed (path-MTU discovery).
    fn on_mss_change(&mut self, smss: u32);

    /// The congestion window in bytes; never below one segment.
    fn cwnd(&self) -> u64;

    /// The slow-start threshold in bytes; `u64::MAX` while it is unknown.
    fn ssthresh(&self) -> u64;

    /// The rate at which to space segments, in bytes a second; `None` to send as the window opens.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// The controller's own numbers for traces and `info()`: at most [`Snapshot::MAX`] named values.
    fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }
}

/// What a controller is made from.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The sender's maximum segment size in bytes, options excluded (RFC 5681's SMSS); at least 1.
    pub smss: u32,
    /// The initial window in bytes (RFC 6928: ten segments).
    pub initial_window: u64,
    /// When the connection was established.
    pub now: Instant,
}

/// New data was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When the acknowledgement arrived.
    pub now: Instant,
    /// Bytes newly acknowledged, by the cumulative acknowledgement or by SACK, each byte once.
    pub bytes_acked: u64,
    /// Bytes by which the cumulative acknowledgement advanced.
    pub bytes_cumulative: u64,
    /// The round-trip time that this acknowledgement measured; `None` when Karn's rule forbids a sample.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time after this sample; zero before the first.
    pub srtt: Duration,
    /// Smallest round-trip time of the connection; zero before the first sample.
    pub rtt_min: Duration,
    /// Bytes delivered since the connection began, this acknowledgement included.
    pub delivered: u64,
    /// `delivered` at the moment when the newest segment acknowledged here was sent: a round trip ends when it
    /// reaches the `delivered` noted at the round's start.
    pub prior_delivered: u64,
    /// When the newest segment acknowledged here was sent.
    pub sent_at: Instant,
    /// Time over which the bytes `delivered - prior_delivered` were delivered; zero when unknown.
    pub delivery_interval: Duration,
    /// Whether the newest segment acknowledged here was sent while the application had too little to send.
    pub app_limited: bool,
    /// Bytes in flight before this acknowledgement arrived.
    pub prior_in_flight: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// Whether the congestion window was what limited sending when the acknowledged data was in flight
    /// (RFC 7661 §4.1); a window that is not used must not grow.
    pub cwnd_limited: bool,
    /// Whether a loss episode is under way: the window must not grow but by the controller's own rule.
    pub in_recovery: bool,
    /// Bytes newly reported as marked with Congestion Experienced.
    pub ecn_marked: u64,
}

/// Why a loss episode began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossCause {
    /// Duplicate acknowledgements or SACK evidence reached the threshold.
    DuplicateAcks,
    /// A segment sent later was delivered, a reordering window earlier (RACK).
    Reordering,
    /// The peer echoed a Congestion Experienced mark; nothing was lost.
    EcnEcho,
}

/// A loss episode begins.
#[derive(Clone, Copy, Debug)]
pub struct LossEpisode {
    /// When the loss was found.
    pub now: Instant,
    /// What found it.
    pub cause: LossCause,
    /// Bytes outstanding when the loss was found (RFC 5681's FlightSize).
    pub flight_size: u64,
    /// Bytes declared lost so far.
    pub bytes_lost: u64,
    /// Bytes delivered since the connection began.
    pub delivered: u64,
}

/// The retransmission timer expired.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    /// When it expired.
    pub now: Instant,
    /// Bytes outstanding before the timeout (RFC 5681's FlightSize).
    pub flight_size: u64,
    /// How many times in a row the timer has expired for the same segment; 1 for the first.
    /// RFC 5681 §3.1 lowers ssthresh only for the first.
    pub expiries: u32,
    /// Bytes delivered since the connection began.
    pub delivered: u64,
}

/// Data left for the network.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When.
    pub now: Instant,
    /// Payload bytes.
    pub bytes: u64,
    /// Bytes in flight, these included.
    pub in_flight: u64,
    /// Whether these bytes had been sent before.
    pub retransmission: bool,
}

/// A loss episode is over.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryEnd {
    /// When.
    pub now: Instant,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes delivered since the connection began.
    pub delivered: u64,
}

/// Sending resumes after idleness.
#[derive(Clone, Copy, Debug)]
pub struct IdleRestart {
    /// When.
    pub now: Instant,
    /// How long nothing was sent.
    pub idle: Duration,
    /// The retransmission timeout at that moment.
    pub rto: Duration,
    /// RFC 5681's restart window in bytes: min(IW, cwnd).
    pub restart_window: u64,
}

/// A reduction is taken back.
#[derive(Clone, Copy, Debug)]
pub struct Undo {
    /// When the reduction was found to be wrong.
    pub now: Instant,
}

/// Named numbers of a controller, for traces and `info()`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot {
    values: [(&'static str, i64); Self::MAX],
    len: usize,
}

impl Snapshot {
    /// The most values a snapshot holds.
    pub const MAX: usize = 8;

    /// Adds a value; beyond [`Self::MAX`] it is left out.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: i64) -> Self {
        if let Some(slot) = self.values.get_mut(self.len) {
            *slot = (name, value);
            self.len += 1;
        }
        self
    }

    /// The values in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, i64)> + '_ {
        self.values.iter().copied().take(self.len)
    }
}

/// Makes controllers of one kind. A closure `Fn(&Start) -> Box<dyn Controller>` with a name does: see
/// [`factory`].
pub trait ControllerFactory: fmt::Debug + Send + Sync {
    /// The name under which the kind is chosen.
    fn name(&self) -> &'static str;

    /// A controller for one connection.
    fn create(&self, start: &Start) -> Box<dyn Controller>;
}

/// The factory of the default controller.
#[must_use]
pub fn default_factory() -> std::sync::Arc<dyn ControllerFactory> {
    unimplemented!("CUBIC, by the control helper")
}
