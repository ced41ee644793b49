//! What the words of `ss -ti` are made of: a connection of this process, or one that a control socket
//! reports.

use std::time::Duration;

use ackclock::{ConnectionInfo, State};
use serde::Deserialize;

/// The fields of [`ConnectionInfo`] that are shown, under the same names.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Facts {
    /// As the variants of [`State`] are written.
    pub(crate) state: String,
    pub(crate) profile: String,
    pub(crate) congestion: String,
    pub(crate) timestamps: bool,
    pub(crate) sack: bool,
    pub(crate) window_scale: Option<(u8, u8)>,
    pub(crate) snd_mss: u32,
    pub(crate) rcv_mss: u32,
    pub(crate) pmtu: u32,
    pub(crate) srtt: Duration,
    pub(crate) rttvar: Duration,
    pub(crate) rtt_min: Duration,
    pub(crate) rto: Duration,
    pub(crate) backoff: u32,
    pub(crate) cwnd: u64,
    pub(crate) ssthresh: Option<u64>,
    pub(crate) pacing_rate: Option<u64>,
    pub(crate) delivery_rate: u64,
    pub(crate) in_flight: u64,
    pub(crate) unacked: u64,
    pub(crate) sacked: u64,
    pub(crate) lost: u64,
    pub(crate) snd_wnd: u32,
    pub(crate) rcv_wnd: u32,
    pub(crate) send_queue: u64,
    pub(crate) receive_queue: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_retransmitted: u64,
    pub(crate) segments_sent: u64,
    pub(crate) segments_received: u64,
    pub(crate) retransmits: u64,
    pub(crate) timeouts: u64,
    pub(crate) out_of_order: u64,
    pub(crate) last_sent: Option<Duration>,
    pub(crate) last_received: Option<Duration>,
    pub(crate) start_up: Option<StartUp>,
    /// The name of the recovery policy; a control socket sends the variant's.
    pub(crate) recovery: String,
    /// The name of the timeout's estimator, if it has one.
    #[serde(skip)]
    pub(crate) rto_estimator: Option<String>,
}

/// The result of the bandwidth estimation at the start.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct StartUp {
    /// Bytes a second.
    pub(crate) bandwidth: u64,
}

impl From<&ConnectionInfo> for Facts {
    fn from(info: &ConnectionInfo) -> Self {
        Self {
            state: format!("{:?}", info.state),
            profile: info.profile.to_owned(),
            congestion: info.congestion.to_owned(),
            timestamps: info.timestamps,
            sack: info.sack,
            window_scale: info.window_scale,
            snd_mss: info.snd_mss,
            rcv_mss: info.rcv_mss,
            pmtu: info.pmtu,
            srtt: info.srtt,
            rttvar: info.rttvar,
            rtt_min: info.rtt_min,
            rto: info.rto,
            backoff: info.backoff,
            cwnd: info.cwnd,
            ssthresh: info.ssthresh,
            pacing_rate: info.pacing_rate,
            delivery_rate: info.delivery_rate,
            in_flight: info.in_flight,
            unacked: info.unacked,
            sacked: info.sacked,
            lost: info.lost,
            snd_wnd: info.snd_wnd,
            rcv_wnd: info.rcv_wnd,
            send_queue: info.send_queue as u64,
            receive_queue: info.receive_queue as u64,
            bytes_sent: info.bytes_sent,
            bytes_acked: info.bytes_acked,
            bytes_received: info.bytes_received,
            bytes_retransmitted: info.bytes_retransmitted,
            segments_sent: info.segments_sent,
            segments_received: info.segments_received,
            retransmits: info.retransmits,
            timeouts: info.timeouts,
            out_of_order: info.out_of_order,
            last_sent: info.last_sent,
            last_received: info.last_received,
            start_up: info.start_up.map(|found| StartUp { bandwidth: found.bandwidth }),
            recovery: info.recovery.name().to_owned(),
            rto_estimator: Some(super::stats::rto_estimator(info)),
        }
    }
}

impl Facts {
    /// The state's name as ss writes it.
    pub(crate) fn state(&self) -> &'static str {
        STATES
            .into_iter()
            .find(|(state, _)| format!("{state:?}") == self.state)
            .map_or("UNKNOWN", |(_, name)| name)
    }
}

/// The names that ss writes.
pub(super) const STATES: [(State, &str); 11] = [
    (State::Closed, "CLOSED"),
    (State::Listen, "LISTEN"),
    (State::SynSent, "SYN-SENT"),
    (State::SynReceived, "SYN-RECV"),
    (State::Established, "ESTAB"),
    (State::FinWait1, "FIN-WAIT-1"),
    (State::FinWait2, "FIN-WAIT-2"),
    (State::CloseWait, "CLOSE-WAIT"),
    (State::Closing, "CLOSING"),
    (State::LastAck, "LAST-ACK"),
    (State::TimeWait, "TIME-WAIT"),
];
