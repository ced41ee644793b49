//! Events of a connection, as its congestion controller sees them.

use std::time::Duration;

use crate::Instant;

/// The facts from which a controller is made.
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
    /// Bytes newly acknowledged, cumulatively or by SACK. Each byte counts once.
    pub bytes_acked: u64,
    /// Bytes by which the cumulative acknowledgement advanced.
    pub bytes_cumulative: u64,
    /// The round-trip time that this acknowledgement measured; `None` when Karn's rule forbids a sample.
    pub rtt_ns: Option<u64>,
    /// Smoothed round-trip time after this sample; zero before the first.
    pub srtt_ns: u64,
    /// Smallest round-trip time of the connection; zero before the first sample.
    pub rtt_min_ns: u64,
    /// Bytes delivered since the connection began, this acknowledgement included.
    pub delivered: u64,
    /// `delivered` when the newest segment acknowledged here was sent. A round trip ends when this reaches
    /// the `delivered` noted at the round's start.
    pub prior_delivered: u64,
    /// When the newest segment acknowledged here was sent.
    pub sent_at: Instant,
    /// The time over which `delivered - prior_delivered` bytes were delivered or, if longer, had been sent;
    /// zero if unknown.
    pub delivery_interval_ns: u64,
    /// Whether that segment was sent while the application had too little to send.
    pub app_limited: bool,
    /// Bytes in flight just after that segment was sent.
    pub tx_in_flight: u64,
    /// Bytes found to be lost since it was sent.
    pub lost: u64,
    /// Bytes in flight before this acknowledgement arrived.
    pub prior_in_flight: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// Whether the congestion window limited sending when the acknowledged data was in flight
    /// (RFC 7661 §4.1); an unused window must not grow. Duplicate acknowledgements carry it too. Most windows
    /// do not grow on them (RFC 5681 §3.2); their `bytes_cumulative` is zero.
    pub cwnd_limited: bool,
    /// Whether a loss episode is under way. During it the window grows only by the controller's own rule.
    pub in_recovery: bool,
    /// Bytes newly reported as marked with Congestion Experienced.
    pub ecn_marked: u64,
}

/// The ECN codepoint of data, which says how its marks are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ect {
    /// ECT(0): a mark is answered as a loss (RFC 3168), or by the fraction of marks within one administration
    /// (RFC 8257).
    #[default]
    Ect0,
    /// ECT(1): marks are frequent and are answered as L4S requires (RFC 9331).
    Ect1,
}

/// Why a loss episode began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossCause {
    /// Duplicate acknowledgements or SACK evidence reached the threshold.
    DuplicateAcks,
    /// A segment sent at least a reordering window later was delivered (RACK).
    Reordering,
    /// The peer echoed a Congestion Experienced mark; nothing was lost.
    EcnEcho,
}

/// A loss episode begins.
#[derive(Clone, Copy, Debug)]
pub struct LossEpisode {
    /// When the loss was found.
    pub now: Instant,
    /// The mechanism that found it.
    pub cause: LossCause,
    /// Bytes outstanding when the loss was found (RFC 5681's FlightSize), or the used part of the window if
    /// use validates it ([`Validation::as_used`](super::Validation::as_used)).
    pub flight_size: u64,
    /// The window that the peer offers, in bytes (RFC 9293's SND.WND).
    pub peer_window: u64,
    /// Bytes declared lost so far.
    pub bytes_lost: u64,
    /// Bytes delivered since the connection began.
    pub delivered: u64,
    /// Whether the first segment that is not acknowledged had been sent again before.
    pub repeated: bool,
}

/// Data was found to be lost.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// When the loss was found.
    pub now: Instant,
    /// Bytes newly found to be lost.
    pub bytes: u64,
    /// Bytes delivered since the connection began.
    pub delivered: u64,
    /// `delivered` when the newest segment found lost here was sent.
    pub prior_delivered: u64,
    /// Whether that segment was sent while the application had too little to send.
    pub app_limited: bool,
    /// Bytes in flight just after it was sent.
    pub tx_in_flight: u64,
    /// Bytes found to be lost since it was sent, `bytes` included.
    pub lost: u64,
}

/// The retransmission timer expired.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    /// When it expired.
    pub now: Instant,
    /// Bytes outstanding before the timeout (RFC 5681's FlightSize).
    pub flight_size: u64,
    /// The window that the peer offers, in bytes (RFC 9293's SND.WND).
    pub peer_window: u64,
    /// How many times in a row the timer has expired for the same segment; 1 the first time. RFC 5681 §3.1
    /// lowers ssthresh only then.
    pub expiries: u32,
    /// Bytes delivered since the connection began.
    pub delivered: u64,
}

/// Data was sent.
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
    /// Bytes by which duplicate acknowledgements had inflated the window (RFC 5681 §3.2 (3) and (4)); 0 if
    /// the peer sends SACKs.
    pub inflation: u64,
    /// Bytes delivered since the connection began.
    pub delivered: u64,
}

/// Sending resumes after idleness.
#[derive(Clone, Copy, Debug)]
pub struct IdleRestart {
    /// When.
    pub now: Instant,
    /// How long the sender was idle.
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
