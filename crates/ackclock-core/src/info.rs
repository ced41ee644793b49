//! The state of a connection: what `ss -ti` shows, typed.

use std::time::Duration;

use ackclock_control::bandwidth::ReceiverEstimates;
use ackclock_control::congestion::{Snapshot, StartUpEstimate};
use ackclock_control::profile::{AckPolicy, Ecn, Recovery};
use ackclock_control::rtt::RtoConfig;

use crate::trace::{LossCounts, UndoRule};
use crate::{ListenAddr, State};

/// The state of one connection at one moment. Counts are totals since it began; bytes are of payload.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ConnectionInfo {
    /// State of RFC 9293 §3.3.2.
    pub state: State,
    /// Name of the profile. Single settings may differ from it.
    pub profile: &'static str,
    /// Name of the congestion controller.
    pub congestion: &'static str,
    /// How losses are found and repaired, as far as the peer's options allow.
    pub recovery: Recovery,
    /// Parameters of the retransmission timeout.
    pub rto_config: RtoConfig,
    /// When received data is acknowledged.
    pub acks: AckPolicy,
    /// The result of the estimation at the start ([`Choices::start_up`](crate::profile::Choices::start_up)).
    pub start_up: Option<StartUpEstimate>,
    /// The bandwidth estimated from the arrivals while the peer started
    /// ([`Choices::receiver_bandwidth`](crate::profile::Choices::receiver_bandwidth)).
    pub bandwidth: Option<ReceiverEstimates>,
    /// Whether timestamps are in use.
    pub timestamps: bool,
    /// Whether selective acknowledgements are in use.
    pub sack: bool,
    /// Shift counts of the peer's window and of ours; `None` when not negotiated.
    pub window_scale: Option<(u8, u8)>,
    /// Largest payload this end sends in one segment.
    pub snd_mss: u32,
    /// Largest payload that the peer may send in a segment.
    pub rcv_mss: u32,
    /// Path MTU in bytes.
    pub pmtu: u32,
    /// Smoothed round-trip time; zero before the first sample.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "srtt_us", serialize_with = "ackclock_control::micros::one")
    )]
    pub srtt: Duration,
    /// Its mean deviation.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "rttvar_us", serialize_with = "ackclock_control::micros::one")
    )]
    pub rttvar: Duration,
    /// Smallest round-trip time seen.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "rtt_min_us", serialize_with = "ackclock_control::micros::one")
    )]
    pub rtt_min: Duration,
    /// Retransmission timeout, backoff included.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "rto_us", serialize_with = "ackclock_control::micros::one")
    )]
    pub rto: Duration,
    /// How many times in a row the retransmission timer has expired.
    pub backoff: u32,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes; `None` while unknown.
    pub ssthresh: Option<u64>,
    /// Pacing rate in bytes a second, if any.
    pub pacing_rate: Option<u64>,
    /// Most recent rate of delivery in bytes a second; zero before the first sample.
    pub delivery_rate: u64,
    /// Bytes in flight: sent, neither acknowledged nor held to be lost.
    pub in_flight: u64,
    /// Bytes sent and not yet acknowledged cumulatively.
    pub unacked: u64,
    /// Bytes acknowledged selectively, above the cumulative acknowledgement.
    pub sacked: u64,
    /// Bytes held to be lost and not yet retransmitted.
    pub lost: u64,
    /// Peer's receive window in bytes.
    pub snd_wnd: u32,
    /// Our receive window in bytes.
    pub rcv_wnd: u32,
    /// Bytes in the send buffer, sent or not.
    pub send_queue: usize,
    /// Bytes in the receive buffer that the application has not read.
    pub receive_queue: usize,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes acknowledged.
    pub bytes_acked: u64,
    /// Payload bytes received in order.
    pub bytes_received: u64,
    /// Payload bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Segments sent; a large one counts as the segments it is cut into.
    pub segments_sent: u64,
    /// Segments received, counted likewise.
    pub segments_received: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Loss episodes that did not begin with a timeout.
    pub loss_episodes: u64,
    /// Bytes held to be lost, by rule.
    pub losses: LossCounts,
    /// Reductions of the window that were taken back, by proof.
    pub undone: UndoCounts,
    /// Bytes that arrived more than once.
    pub bytes_duplicate: u64,
    /// Segments that arrived out of order.
    pub out_of_order: u64,
    /// Time since data was last sent.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "last_sent_us", serialize_with = "ackclock_control::micros::optional")
    )]
    pub last_sent: Option<Duration>,
    /// Time since data was last received.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "last_received_us", serialize_with = "ackclock_control::micros::optional")
    )]
    pub last_received: Option<Duration>,
    /// Time after which the idle timeout ends the connection if no data moves; `None` without one.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "idle_left_us", serialize_with = "ackclock_control::micros::optional")
    )]
    pub idle_left: Option<Duration>,
    /// ECN state and counts; `None` without ECN.
    pub ecn: Option<EcnInfo>,
    /// The controller's own numbers.
    pub controller: Snapshot,
}

/// A listener at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerInfo {
    /// The addresses and the port that it listens on.
    pub addr: ListenAddr,
    /// Established connections that wait to be accepted.
    pub waiting: usize,
    /// The most that may wait.
    pub backlog: usize,
    /// Connections in SYN-RECEIVED, and SYNs that wait for a decision.
    pub half_open: usize,
    /// Whether the application decides on each SYN.
    pub deferred: bool,
}

/// Delivery of the written bytes, and the speed of the path, by the last acknowledgement. Bytes are of
/// payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DeliveryInfo {
    /// Bytes that the application wrote.
    pub written: u64,
    /// Of these, from the first on, how many the peer has acknowledged.
    pub acked: u64,
    /// Bytes written and not yet sent for the first time: what a change of mind comes in time for.
    pub not_sent: u64,
    /// Bytes in flight: sent, neither acknowledged nor held to be lost.
    pub in_flight: u64,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Most recent rate of delivery in bytes a second; zero before the first sample.
    pub delivery_rate: u64,
    /// Smoothed round-trip time; zero before the first sample.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "srtt_us", serialize_with = "ackclock_control::micros::one")
    )]
    pub srtt: Duration,
    /// Smallest round-trip time seen.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "rtt_min_us", serialize_with = "ackclock_control::micros::one")
    )]
    pub rtt_min: Duration,
    /// The delay that the queues on the path add to the round trip: [`srtt`](Self::srtt) less
    /// [`rtt_min`](Self::rtt_min), not below zero.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "queueing_delay_us", serialize_with = "ackclock_control::micros::one")
    )]
    pub queueing_delay: Duration,
}

/// Explicit congestion notification on a connection that agreed on it. Counts are totals since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EcnInfo {
    /// Which form was agreed on; never [`Ecn::Off`].
    pub form: Ecn,
    /// Whether this end's data leaves as ECN-capable. It does not if the path was found to damage ECN, or if
    /// the handshake needed segments without it.
    pub capable: bool,
    /// Segments received with Congestion Experienced; a coalesced one counts as those it represents.
    pub packets_marked: u64,
    /// Payload bytes in these.
    pub bytes_marked: u64,
    /// Marks on this end's segments that the peer reported: segments with the accurate form, acknowledgements
    /// with ECE with the classic one.
    pub marks_reported: u64,
    /// How often marks reduced the congestion window.
    pub reductions: u64,
}

/// How many window reductions were taken back, by proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UndoCounts {
    /// By an echoed timestamp (RFC 3522).
    pub timestamps: u32,
    /// By duplicates that the peer reported (RFC 3708).
    pub dsack: u32,
    /// By forward RTO-recovery (RFC 5682).
    pub frto: u32,
    /// By an acknowledgement sooner than the path allows (Allman and Paxson 1999, §2.8).
    pub min_rtt: u32,
}

impl UndoCounts {
    /// The total.
    #[must_use]
    pub fn total(&self) -> u32 {
        [self.timestamps, self.dsack, self.frto, self.min_rtt].into_iter().fold(0, u32::saturating_add)
    }

    pub(crate) fn add(&mut self, rule: UndoRule) {
        let count = match rule {
            UndoRule::Timestamps => &mut self.timestamps,
            UndoRule::Dsack => &mut self.dsack,
            UndoRule::Frto => &mut self.frto,
            UndoRule::MinRtt => &mut self.min_rtt,
        };
        *count = count.saturating_add(1);
    }
}

/// The sending side's part of [`ConnectionInfo`], by the names used there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlightInfo {
    pub start_up: Option<StartUpEstimate>,
    pub cwnd: u64,
    pub pacing_rate: Option<u64>,
    pub delivery_rate: u64,
    pub in_flight: u64,
    pub unacked: u64,
    pub sacked: u64,
    pub lost: u64,
    pub timeouts: u64,
    pub loss_episodes: u64,
    pub losses: LossCounts,
    pub undone: UndoCounts,
}

ackclock_form::form! {
    struct UndoCounts { timestamps, dsack, frto, min_rtt }
}
