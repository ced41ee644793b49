//! Names that the entries of a trace use: reasons, rules, causes.

use ackclock_control::tally::Tally;

use crate::ConnectionError;

coded! {
    /// Why a segment was sent.
    pub enum SendReason {
        /// Data that had not been sent before.
        NewData = "new-data",
        /// Data held to be lost.
        Retransmission = "retransmission",
        /// Data that may be lost, or the last segment, when nothing else could be sent (RFC 6675 §4 NextSeg
        /// (3), (4)).
        Rescue = "rescue",
        /// A probe for a lost tail (RFC 8985 §7).
        TailProbe = "tail-probe",
        /// A probe of a closed window.
        WindowProbe = "window-probe",
        /// A keep-alive probe.
        Keepalive = "keepalive",
        /// An acknowledgement.
        Ack = "ack",
        /// An answer to a segment that was not accepted.
        Challenge = "challenge",
        /// SYN or SYN,ACK.
        Handshake = "handshake",
        /// RST.
        Reset = "reset",
        /// A segment larger than the others, to probe the path (RFC 4821).
        MtuProbe = "mtu-probe",
    }
}

coded! {
    /// A decision of an extension, and the meaning of its number.
    pub enum Extension {
        /// The peer's user timeout changed this end's (RFC 5482) to this many seconds.
        UserTimeoutAdopted = "user-timeout-adopted",
        /// A SYN left with a cookie and this many bytes (RFC 7413).
        FastOpenSent = "fast-open-sent",
        /// The SYN,ACK acknowledged this many of them.
        FastOpenAcked = "fast-open-acked",
        /// A SYN with a valid cookie brought this many bytes.
        FastOpenTaken = "fast-open-taken",
        /// Full segments do not get through: packets have at most this many bytes from here on (RFC 4821).
        MtuBlackHole = "mtu-black-hole",
        /// A packet of this many bytes left to probe the path.
        MtuProbed = "mtu-probed",
        /// It arrived: packets may be that large from here on.
        MtuRaised = "mtu-raised",
        /// It was lost repeatedly: packets of this many bytes are too large.
        MtuTooLarge = "mtu-too-large",
        /// Segments leave signed with the key of this KeyID from here on (RFC 5925).
        KeySent = "key-sent",
        /// The peer is asked to sign with the key of this KeyID (RNextKeyID).
        KeyWanted = "key-wanted",
        /// The peer signs with the key of this KeyID.
        KeyReceived = "key-received",
        /// A segment was refused because it is not signed.
        RefusedUnsigned = "refused-unsigned",
        /// A segment was refused because no key has this KeyID.
        RefusedKey = "refused-key",
        /// A segment was refused because its MAC does not match the key with this KeyID.
        RefusedMac = "refused-mac",
        /// A router has no way to the peer: the timeout is backed off only this many times from here on
        /// (RFC 6069).
        BackoffUndone = "backoff-undone",
        /// An earlier connection found that the path takes packets of at most this many bytes (RFC 9040).
        KnownMtu = "known-mtu",
        /// Earlier connections measured a round trip: the first timeout is this many microseconds.
        KnownRtt = "known-rtt",
        /// Earlier connections lost data beyond a window of this many bytes: slow start ends there.
        KnownSsthresh = "known-ssthresh",
    }
}

coded! {
    /// Which rule declared a loss.
    pub enum LossRule {
        /// Three duplicate acknowledgements (RFC 5681 §3.2).
        DuplicateAcks = "duplicate-acks",
        /// SACK evidence (RFC 6675 §4 IsLost).
        SackEvidence = "sack-evidence",
        /// A segment sent later was delivered, a reordering window earlier (RFC 8985 §6).
        LaterDelivered = "later-delivered",
        /// The acknowledgement of a tail loss probe that repeated data (RFC 8985 §7.4).
        TailProbe = "tail-probe",
        /// A partial acknowledgement during recovery (RFC 6582 §3.2).
        PartialAck = "partial-ack",
        /// The first segment was older than the fine timeout when a duplicate acknowledgement came (Vegas).
        OverdueAtDuplicate = "overdue-at-duplicate",
        /// A segment was overdue at the first or second new acknowledgement after a retransmission (Vegas).
        OverdueAfterRetransmission = "overdue-after-retransmission",
        /// The retransmission timer expired (RFC 6298 §5).
        Timeout = "timeout",
        /// Data sent beyond a window that had closed was not accepted.
        WindowReopened = "window-reopened",
        /// A router could not carry it (RFC 1191, RFC 8201).
        TooBig = "too-big",
    }
}

coded! {
    /// The proof that a window reduction was wrong.
    pub enum UndoRule {
        /// An echoed timestamp older than the retransmission (RFC 3522).
        Timestamps = "timestamps",
        /// Everything retransmitted was reported as a duplicate (RFC 3708).
        Dsack = "dsack",
        /// Acknowledgements of data that the timer did not retransmit (RFC 5682).
        Frto = "frto",
        /// An acknowledgement sooner than the path allows (Allman and Paxson 1999, §2.8).
        MinRtt = "min-rtt",
    }
}

coded! {
    /// The cause of a change of the congestion window or the slow-start threshold.
    pub enum WindowCause {
        /// The connection was established, or its controller replaced.
        Start = "start",
        /// New data was acknowledged.
        Acked = "acked",
        /// A loss episode began.
        LossEpisode = "loss-episode",
        /// Bytes were found to be lost.
        Lost = "lost",
        /// The retransmission timer expired.
        Timeout = "timeout",
        /// A loss episode ended.
        RecoveryEnd = "recovery-end",
        /// A reduction was taken back.
        Undone = "undone",
        /// A Congestion Experienced mark was reported (RFC 3168, RFC 9768).
        Marked = "marked",
        /// Nothing had been sent for a timeout (RFC 5681 §4.1, RFC 7661).
        Idle = "idle",
        /// Something was sent.
        Sent = "sent",
        /// The segment size changed.
        SegmentSize = "segment-size",
    }
}

coded! {
    /// The limit that keeps a connection from sending more.
    pub enum Limit {
        /// Nothing waits to be sent, and the application is not known to have more.
        Application = "application",
        /// The congestion window is full.
        Cwnd = "cwnd",
        /// Loss recovery allows no more for now.
        Recovery = "recovery",
        /// The peer's window is full, or too small for a segment.
        PeerWindow = "peer-window",
        /// The pacing rate of a controller that sets one.
        Pacing = "pacing",
        /// Nagle's algorithm waits for more to fill a segment, or for acknowledgements.
        Nagle = "nagle",
        /// The application has corked the stream.
        Cork = "cork",
        /// Everything has been sent: the stream is closed.
        Finished = "finished",
        /// The connection is not open yet, or no longer.
        NotOpen = "not-open",
        /// The congestion window, which is spread over its round trip.
        PacedCwnd = "paced-cwnd",
        /// The largest pacing rate that the application allows.
        RateCap = "rate-cap",
        /// The application has more to write, and the send buffer, or the memory budget, has no room for it.
        SendBuffer = "send-buffer",
        /// Nothing in TCP: data may leave and the driver has yet to send it, or the application has more to
        /// write, and room for it, and has yet to run.
        Host = "host",
    }
}

coded! {
    /// The timers of a connection.
    pub enum Timer {
        /// An acknowledgement is overdue (RFC 6298).
        Retransmission = "retransmission",
        /// A probe of a window too small to send into (RFC 9293 §3.8.6.1).
        Persist = "persist",
        /// The reordering window closes (RFC 8985 §6).
        Reordering = "reordering",
        /// A probe for a lost tail (RFC 8985 §7).
        TailProbe = "tail-probe",
        /// The pacing rate releases the next data.
        Pacing = "pacing",
        /// An acknowledgement is owed (RFC 9293 §3.8.6.3).
        DelayedAck = "delayed-ack",
        /// A keep-alive probe (RFC 9293 §3.8.4).
        Keepalive = "keepalive",
        /// TIME-WAIT or an orphan's FIN-WAIT-2 ends, or no data has moved for the idle timeout.
        Close = "close",
        /// The latest time for corked data to leave.
        Cork = "cork",
    }
}

coded! {
    /// How a connection failed.
    pub enum Failure {
        /// Nothing listens at the peer's port.
        Refused = "refused",
        /// The peer reset the connection.
        Reset = "reset",
        /// The peer stopped answering.
        TimedOut = "timed-out",
        /// The peer did not answer keep-alive probes.
        KeepaliveTimedOut = "keepalive-timed-out",
        /// The network reported that the peer cannot be reached.
        Unreachable = "unreachable",
        /// This end aborted the connection.
        Aborted = "aborted",
        /// The memory budget was spent.
        OutOfMemory = "out-of-memory",
        /// No data moved either way for the idle timeout.
        IdleTimedOut = "idle-timed-out",
    }
}

impl From<ConnectionError> for Failure {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::Refused => Self::Refused,
            ConnectionError::Reset => Self::Reset,
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::KeepaliveTimedOut => Self::KeepaliveTimedOut,
            ConnectionError::Unreachable(_) => Self::Unreachable,
            ConnectionError::Aborted => Self::Aborted,
            ConnectionError::OutOfMemory => Self::OutOfMemory,
            ConnectionError::IdleTimedOut => Self::IdleTimedOut,
        }
    }
}

/// Bytes held to be lost, by rule: totals since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossCounts([u64; LossRule::ALL.len()]);

impl LossCounts {
    /// Bytes that this rule declared lost.
    #[must_use]
    pub fn of(&self, rule: LossRule) -> u64 {
        self.0.get(usize::from(rule.code())).copied().unwrap_or(0)
    }

    /// Every rule with its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (LossRule, u64)> + '_ {
        LossRule::ALL.iter().copied().zip(self.0)
    }

    pub(crate) fn add(&mut self, rule: LossRule, bytes: u64) {
        if let Some(count) = self.0.get_mut(usize::from(rule.code())) {
            count.grow(bytes);
        }
    }
}

/// A map from the names of rules to bytes.
#[cfg(feature = "serde")]
impl serde::Serialize for LossCounts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(rule, bytes)| (rule.name(), bytes)))
    }
}

ackclock_form::form! {
    struct LossCounts(bytes)
}
