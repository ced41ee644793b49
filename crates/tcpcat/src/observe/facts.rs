//! The facts behind the words of `ss -ti`: a connection of this process, or one that a control socket
//! reports.

use std::time::Duration;

use ackclock::{ConnectionInfo, State};
use serde::Deserialize;

/// The fields of [`ConnectionInfo`] that are shown, under the same names.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Facts {
    /// As the variants of [`State`] are written.
    pub state: String,
    pub profile: String,
    pub congestion: String,
    pub timestamps: bool,
    pub sack: bool,
    pub window_scale: Option<(u8, u8)>,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub pmtu: u32,
    pub srtt: Duration,
    pub rttvar: Duration,
    pub rtt_min: Duration,
    pub rto: Duration,
    pub backoff: u32,
    pub cwnd: u64,
    pub ssthresh: Option<u64>,
    pub pacing_rate: Option<u64>,
    pub delivery_rate: u64,
    pub in_flight: u64,
    pub unacked: u64,
    pub sacked: u64,
    pub lost: u64,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub send_queue: u64,
    pub receive_queue: u64,
    pub bytes_sent: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub bytes_retransmitted: u64,
    pub segments_sent: u64,
    pub segments_received: u64,
    pub retransmits: u64,
    pub timeouts: u64,
    pub out_of_order: u64,
    pub last_sent: Option<Duration>,
    pub last_received: Option<Duration>,
    /// Missing from a stack of an older version.
    #[serde(default)]
    pub idle_left: Option<Duration>,
    pub start_up: Option<StartUp>,
    /// The name of the recovery policy; a control socket sends the variant's.
    pub recovery: String,
    /// The name of the timeout's estimator, if it has one.
    #[serde(skip)]
    pub rto_estimator: Option<String>,
}

/// The result of the bandwidth estimation at the start.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct StartUp {
    /// Bytes a second.
    pub bandwidth: u64,
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
            idle_left: info.idle_left,
            start_up: info.start_up.map(|found| StartUp { bandwidth: found.bandwidth }),
            recovery: info.recovery.name().to_owned(),
            rto_estimator: Some(super::stats::rto_estimator(info)),
        }
    }
}

impl Facts {
    /// The state's name as ss writes it.
    pub fn state(&self) -> &'static str {
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
