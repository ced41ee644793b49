//! Causes for which a connection can wait.

use ackclock_core::trace::Limit;

/// A cause for which a connection can wait. It has the time by which the stream would have arrived earlier if
/// this cause alone had been lifted, until the next cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waiting {
    /// The handshake.
    Handshake,
    /// The application, to write data.
    Application,
    /// Room in the send buffer, for an application that has more to write.
    SendBuffer,
    /// This host, to run the driver or the application, or to take a packet.
    Host,
    /// The peer's window, which is full of what is on its way.
    PeerWindow,
    /// The peer's application, which leaves its receive buffer more than half full.
    Reader,
    /// Acknowledgements, with the congestion window full.
    Cwnd,
    /// [`Self::Cwnd`], with the window still in slow start.
    SlowStart,
    /// The slowest link of the path, or a host on it, which is busy with what was sent before.
    Path,
    /// The peer, which delays its acknowledgement of a lone segment.
    DelayedAck,
    /// Acknowledgements, during loss recovery.
    Recovery,
    /// A retransmission timer, to expire.
    Timeout,
    /// A tail probe's timer, to expire.
    TailProbe,
    /// The rate of a controller that sets one.
    Pacing,
    /// The largest rate that the application allows.
    RateCap,
    /// Nagle's algorithm, which holds a small segment.
    Nagle,
    /// A cork, which holds a small segment.
    Cork,
    /// The end: all data is sent, and the peer has yet to acknowledge it or to close.
    Closing,
    /// A cause that a packet capture does not show: the congestion window, pacing, or the application.
    Unseen,
}

impl Waiting {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Handshake,
        Self::Application,
        Self::SendBuffer,
        Self::Host,
        Self::PeerWindow,
        Self::Reader,
        Self::Cwnd,
        Self::SlowStart,
        Self::Path,
        Self::DelayedAck,
        Self::Recovery,
        Self::Timeout,
        Self::TailProbe,
        Self::Pacing,
        Self::RateCap,
        Self::Nagle,
        Self::Cork,
        Self::Closing,
        Self::Unseen,
    ];

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Application => "application",
            Self::SendBuffer => "send-buffer",
            Self::Host => "host",
            Self::PeerWindow => "peer-window",
            Self::Reader => "peer-reader",
            Self::Cwnd => "cwnd",
            Self::SlowStart => "slow-start",
            Self::Path => "path",
            Self::DelayedAck => "delayed-ack",
            Self::Recovery => "recovery",
            Self::Timeout => "timeout",
            Self::TailProbe => "tail-probe",
            Self::Pacing => "pacing",
            Self::RateCap => "rate-cap",
            Self::Nagle => "nagle",
            Self::Cork => "cork",
            Self::Closing => "closing",
            Self::Unseen => "unseen",
        }
    }

    /// Whether lifting it while the path is busy would only lengthen the path's queue.
    pub(super) fn is_vain_on_a_busy_path(self) -> bool {
        !matches!(self, Self::Handshake | Self::Reader | Self::Host)
    }

    /// Whether a window or a buffer is full of what is on its way.
    pub(super) fn is_for_window(self) -> bool {
        matches!(self, Self::Cwnd | Self::SlowStart | Self::PeerWindow | Self::SendBuffer)
    }

    /// Whether it is a small segment's wait for more, or for an acknowledgement.
    pub(super) fn is_small_segment(self) -> bool {
        matches!(self, Self::Nagle | Self::Cork)
    }

    /// The cause that a recorded limit means before the windows are looked at.
    pub(super) fn at(limit: Limit) -> Self {
        match limit {
            Limit::Application => Self::Application,
            Limit::SendBuffer => Self::SendBuffer,
            Limit::Host => Self::Host,
            Limit::PeerWindow => Self::PeerWindow,
            // A window that is spread over its round trip allows no more than one sent at once.
            Limit::Cwnd | Limit::PacedCwnd => Self::Cwnd,
            Limit::Recovery => Self::Recovery,
            Limit::Pacing => Self::Pacing,
            Limit::RateCap => Self::RateCap,
            Limit::Nagle => Self::Nagle,
            Limit::Cork => Self::Cork,
            _ => Self::Closing,
        }
    }
}
