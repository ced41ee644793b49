//! The facts behind the words of `ss -ti`: a connection of this process, or one that a control socket
//! reports.

use std::time::Duration;

use ackclock::{ConnectionInfo, State};
use serde::Deserialize;

/// The fields of [`ConnectionInfo`] that are shown, under the same names.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Facts {
    /// In the words of the control socket.
    pub state: String,
    pub profile: String,
    pub congestion: String,
    pub timestamps: bool,
    pub sack: bool,
    pub window_scale: Option<(u8, u8)>,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub pmtu: u32,
    #[serde(rename = "srtt_us", deserialize_with = "micros::one")]
    pub srtt: Duration,
    #[serde(rename = "rttvar_us", deserialize_with = "micros::one")]
    pub rttvar: Duration,
    #[serde(rename = "rtt_min_us", deserialize_with = "micros::one")]
    pub rtt_min: Duration,
    #[serde(rename = "rto_us", deserialize_with = "micros::one")]
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
    #[serde(rename = "last_sent_us", deserialize_with = "micros::optional")]
    pub last_sent: Option<Duration>,
    #[serde(rename = "last_received_us", deserialize_with = "micros::optional")]
    pub last_received: Option<Duration>,
    #[serde(rename = "idle_left_us", deserialize_with = "micros::optional")]
    pub idle_left: Option<Duration>,
    pub start_up: Option<StartUp>,
    /// The name of the recovery policy.
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
            state: word(info.state).to_owned(),
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
        STATES.into_iter().find(|(_, word, _)| *word == self.state).map_or("UNKNOWN", |(.., name)| name)
    }
}

/// The word of the control socket for a state.
fn word(state: State) -> &'static str {
    STATES.into_iter().find(|(of, ..)| *of == state).map_or("unknown", |(_, word, _)| word)
}

/// The states, in the words of the control socket and of ss.
pub(super) const STATES: [(State, &str, &str); 11] = [
    (State::Closed, "closed", "CLOSED"),
    (State::Listen, "listen", "LISTEN"),
    (State::SynSent, "syn-sent", "SYN-SENT"),
    (State::SynReceived, "syn-received", "SYN-RECV"),
    (State::Established, "established", "ESTAB"),
    (State::FinWait1, "fin-wait-1", "FIN-WAIT-1"),
    (State::FinWait2, "fin-wait-2", "FIN-WAIT-2"),
    (State::CloseWait, "close-wait", "CLOSE-WAIT"),
    (State::Closing, "closing", "CLOSING"),
    (State::LastAck, "last-ack", "LAST-ACK"),
    (State::TimeWait, "time-wait", "TIME-WAIT"),
];

/// Times of the control socket.
mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer};

    pub(super) fn one<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }

    pub(super) fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_micros))
    }
}
