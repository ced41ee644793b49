//! The states of a connection (RFC 9293 §3.3.2, Figure 5).

/// The states of RFC 9293 §3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum State {
    /// No connection.
    Closed,
    /// Waiting for a SYN.
    Listen,
    /// SYN sent, none received.
    SynSent,
    /// SYN received, ours not acknowledged.
    SynReceived,
    /// Open in both directions.
    Established,
    /// FIN sent, not acknowledged.
    #[cfg_attr(feature = "serde", serde(rename = "fin-wait-1"))]
    FinWait1,
    /// FIN acknowledged, the peer's direction open.
    #[cfg_attr(feature = "serde", serde(rename = "fin-wait-2"))]
    FinWait2,
    /// The peer's FIN received, our direction open.
    CloseWait,
    /// Both FINs sent, ours not acknowledged.
    Closing,
    /// The peer's FIN received, then ours sent, not acknowledged.
    LastAck,
    /// Both FINs acknowledged, waiting for old segments to die.
    TimeWait,
}

impl State {
    const ALL: [Self; 11] = [
        Self::Closed,
        Self::Listen,
        Self::SynSent,
        Self::SynReceived,
        Self::Established,
        Self::FinWait1,
        Self::FinWait2,
        Self::CloseWait,
        Self::Closing,
        Self::LastAck,
        Self::TimeWait,
    ];

    /// The number in trace records: the index in the list of RFC 9293 §3.3.2, from CLOSED on.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Whether both ends have exchanged SYNs: ESTABLISHED and all later states.
    pub(crate) fn is_synchronized(self) -> bool {
        !matches!(self, Self::Closed | Self::Listen | Self::SynSent | Self::SynReceived)
    }

    /// Whether text from the peer is accepted (RFC 9293 §3.10.7.4, seventh).
    pub(crate) fn takes_text(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether our data may be outstanding or waiting.
    pub(crate) fn may_send_data(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck)
    }

    /// The state after the application's CLOSE (RFC 9293 §3.10.4).
    pub(crate) fn after_close(self) -> Self {
        match self {
            Self::SynReceived | Self::Established => Self::FinWait1,
            Self::CloseWait => Self::LastAck,
            other => other,
        }
    }

    /// The state after the peer's FIN was taken (RFC 9293 §3.10.7.4, eighth). `fin_acked`: ours is
    /// acknowledged.
    pub(crate) fn after_fin(self, fin_acked: bool) -> Self {
        match self {
            Self::SynReceived | Self::Established => Self::CloseWait,
            Self::FinWait1 if fin_acked => Self::TimeWait,
            Self::FinWait1 => Self::Closing,
            Self::FinWait2 => Self::TimeWait,
            other => other,
        }
    }

    /// The state after our FIN was acknowledged (RFC 9293 §3.10.7.4, fifth).
    pub(crate) fn after_fin_acked(self) -> Self {
        match self {
            Self::FinWait1 => Self::FinWait2,
            Self::Closing => Self::TimeWait,
            Self::LastAck => Self::Closed,
            other => other,
        }
    }
}

ackclock_form::form! {
    enum State {
        0 Closed, 1 Listen, 2 SynSent, 3 SynReceived, 4 Established, 5 FinWait1, 6 FinWait2, 7 CloseWait,
        8 Closing, 9 LastAck, 10 TimeWait
    }
}

#[cfg(test)]
mod tests {
    use super::State::*;

    /// RFC 9293 §3.10.7.4, eighth: the FIN bit. Our own may be acknowledged by the same segment.
    #[test]
    fn state_after_the_peers_fin_is_the_rfcs() {
        for (state, acked, after) in [
            (SynReceived, false, CloseWait),
            (Established, false, CloseWait),
            (FinWait1, false, Closing),
            (FinWait1, true, TimeWait),
            (FinWait2, true, TimeWait),
            (CloseWait, false, CloseWait),
            (Closing, false, Closing),
            (LastAck, false, LastAck),
            (TimeWait, true, TimeWait),
        ] {
            assert_eq!(state.after_fin(acked), after, "{state:?}, acknowledged: {acked}");
        }
    }

    /// RFC 9293 §3.10.4 (CLOSE) and §3.10.7.4, fifth (our FIN is acknowledged).
    #[test]
    fn states_after_our_fin_and_its_acknowledgement_are_the_rfcs() {
        for (state, closed, acked) in [
            (SynReceived, FinWait1, SynReceived),
            (Established, FinWait1, Established),
            (CloseWait, LastAck, CloseWait),
            (FinWait1, FinWait1, FinWait2),
            (Closing, Closing, TimeWait),
            (LastAck, LastAck, Closed),
            (FinWait2, FinWait2, FinWait2),
            (TimeWait, TimeWait, TimeWait),
        ] {
            assert_eq!((state.after_close(), state.after_fin_acked()), (closed, acked), "{state:?}");
        }
    }
}
