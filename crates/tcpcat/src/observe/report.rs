//! The `--json` report: start, intervals and end, divided as iperf3 does.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ackclock::{ConnectionInfo, FourTuple};
use ackclock_cli::{Exit, Failure};
use serde::Serialize;

use super::bounded::Bounded;
use super::{Look, stats};
use crate::bench::Figures;
use crate::json::SCHEMA;
use crate::net::Stream;
use crate::session::{Meter, TransferResult};
use crate::units::bits_per_second;

/// The whole report.
#[derive(Debug, Serialize)]
pub(super) struct SessionReport {
    schema: u32,
    pub(super) start: Start,
    pub(super) intervals: Bounded<Interval>,
    pub(super) end: Option<End>,
    /// Counts of entries that the lists of a long-running process leave out.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<LeftOut>,
}

/// How many items are missing in the lists of a report.
#[derive(Debug, Serialize)]
struct LeftOut {
    connected: u64,
    intervals: u64,
    streams: u64,
}

/// The facts at the beginning, and each connection as it opened.
#[derive(Debug, Serialize)]
pub(super) struct Start {
    version: &'static str,
    mode: &'static str,
    device: String,
    /// Seconds since 1970.
    timestamp: u64,
    pub(super) connected: Bounded<Connected>,
}

/// A new connection.
#[derive(Debug, Serialize)]
pub(super) struct Connected {
    local: Option<String>,
    remote: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rto_estimator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mss: Option<u32>,
}

/// The changes between two looks.
#[derive(Debug, Serialize)]
pub(super) struct Interval {
    start: f64,
    end: f64,
    bytes_sent: u64,
    bytes_received: u64,
    bits_per_second: f64,
    streams: Vec<StreamReport>,
}

/// The results at the end.
#[derive(Debug, Serialize)]
pub(super) struct End {
    seconds: f64,
    bytes_sent: u64,
    bytes_received: u64,
    bits_per_second: f64,
    retransmits: u64,
    verified: Option<bool>,
    blake3: Option<String>,
    streams: Vec<StreamReport>,
    /// Of a measurement: what each end found of each of its streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    bench: Option<Figures>,
    exit_code: u8,
    error_kind: Option<&'static str>,
    error: Option<String>,
    /// Advice, if any is known.
    help: Option<String>,
}

/// A connection at one moment; totals since it began.
#[derive(Debug, Serialize)]
pub(super) struct StreamReport {
    local: String,
    remote: String,
    state: &'static str,
    profile: &'static str,
    congestion: &'static str,
    recovery: &'static str,
    cwnd: u64,
    ssthresh: Option<u64>,
    rtt_us: u128,
    rttvar_us: u128,
    min_rtt_us: u128,
    rto_ms: u128,
    rto_min_ms: u128,
    rto_estimator: String,
    start_up: Option<StartUpReport>,
    mss: u32,
    bytes_sent: u64,
    bytes_acked: u64,
    bytes_received: u64,
    bytes_retransmitted: u64,
    retransmits: u64,
    timeouts: u64,
    in_flight: u64,
    snd_wnd: u32,
    rcv_wnd: u32,
    delivery_rate_bps: u64,
    pacing_rate_bps: Option<u64>,
}

/// The result of the estimation at the start.
#[derive(Debug, Serialize)]
struct StartUpReport {
    bandwidth_bps: u64,
    set_ssthresh: bool,
}

impl SessionReport {
    pub fn new(mode: &'static str, device: &str) -> Self {
        let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let version = env!("CARGO_PKG_VERSION");
        let start =
            Start { version, mode, device: device.to_owned(), timestamp, connected: Bounded::default() };
        Self { schema: SCHEMA, start, intervals: Bounded::default(), end: None, left_out: None }
    }

    /// Says how many items are missing, `streams` of them at the end.
    pub fn note_left_out(&mut self, streams: u64) {
        let (connected, intervals) = (self.start.connected.left_out(), self.intervals.left_out());
        let any = connected + intervals + streams > 0;
        self.left_out = any.then_some(LeftOut { connected, intervals, streams });
    }

    /// Prints the report where it does not mix with data.
    pub fn print(&self, data_on_stdout: bool) {
        match serde_json::to_string_pretty(self) {
            Ok(text) if data_on_stdout => say!("{text}"),
            Ok(text) => show!("{text}"),
            Err(error) => say!("tcpcat: cannot write the report: {error}"),
        }
    }
}

impl Connected {
    pub fn new(stream: &Stream) -> Self {
        let info = stream.info();
        Self {
            local: stream.local_addr().ok().map(|addr| addr.to_string()),
            remote: stream.peer_addr().ok().map(|addr| addr.to_string()),
            profile: info.as_ref().map(|info| info.profile),
            congestion: info.as_ref().map(|info| info.congestion),
            recovery: info.as_ref().map(|info| info.recovery.name()),
            rto_estimator: info.as_ref().map(stats::rto_estimator),
            mss: info.as_ref().map(|info| info.snd_mss),
        }
    }
}

impl Interval {
    pub fn between(last: &Look, look: &Look, streams: Vec<StreamReport>) -> Self {
        let (sent, received) = (look.sent - last.sent, look.received - last.received);
        Self {
            start: last.at.as_secs_f64(),
            end: look.at.as_secs_f64(),
            bytes_sent: sent,
            bytes_received: received,
            bits_per_second: bits_per_second(sent + received, look.at.saturating_sub(last.at)),
            streams,
        }
    }
}

impl End {
    pub fn new(
        meter: &Meter,
        took: Duration,
        retransmits: u64,
        streams: Vec<StreamReport>,
        exit: Exit,
        result: &Result<TransferResult, Failure>,
    ) -> Self {
        let outcome = result.as_ref().ok();
        Self {
            seconds: took.as_secs_f64(),
            bytes_sent: meter.sent(),
            bytes_received: meter.received(),
            bits_per_second: bits_per_second(meter.sent() + meter.received(), took),
            retransmits,
            verified: outcome.and_then(|outcome| outcome.verified),
            blake3: outcome.and_then(|outcome| outcome.blake3).map(|hash| hash.to_string()),
            streams,
            bench: outcome.and_then(|outcome| outcome.bench.clone()),
            exit_code: exit.code(),
            error_kind: exit.kind(),
            error: result.as_ref().err().map(|failure| failure.message().to_owned()),
            help: result.as_ref().err().and_then(Failure::help).map(str::to_owned),
        }
    }

    pub fn failed_early(meter: &Meter, failure: &Failure) -> Self {
        Self {
            seconds: 0.0,
            bytes_sent: meter.sent(),
            bytes_received: meter.received(),
            bits_per_second: 0.0,
            retransmits: 0,
            verified: None,
            blake3: None,
            streams: Vec::new(),
            bench: None,
            exit_code: failure.exit().code(),
            error_kind: failure.exit().kind(),
            error: Some(failure.message().to_owned()),
            help: failure.help().map(str::to_owned),
        }
    }
}

impl StreamReport {
    pub fn new(tuple: &FourTuple, info: &ConnectionInfo) -> Self {
        Self {
            local: tuple.local().to_string(),
            remote: tuple.remote().to_string(),
            state: stats::state(info),
            profile: info.profile,
            congestion: info.congestion,
            recovery: info.recovery.name(),
            cwnd: info.cwnd,
            ssthresh: info.ssthresh,
            rtt_us: info.srtt.as_micros(),
            rttvar_us: info.rttvar.as_micros(),
            min_rtt_us: info.rtt_min.as_micros(),
            rto_ms: info.rto.as_millis(),
            rto_min_ms: info.rto_config.rto_min.as_millis(),
            rto_estimator: stats::rto_estimator(info),
            start_up: info.start_up.map(|start_up| StartUpReport {
                bandwidth_bps: start_up.bandwidth.saturating_mul(8),
                set_ssthresh: start_up.set_ssthresh,
            }),
            mss: info.snd_mss,
            bytes_sent: info.bytes_sent,
            bytes_acked: info.bytes_acked,
            bytes_received: info.bytes_received,
            bytes_retransmitted: info.bytes_retransmitted,
            retransmits: info.retransmits,
            timeouts: info.timeouts,
            in_flight: info.in_flight,
            snd_wnd: info.snd_wnd,
            rcv_wnd: info.rcv_wnd,
            delivery_rate_bps: info.delivery_rate.saturating_mul(8),
            pacing_rate_bps: info.pacing_rate.map(|rate| rate.saturating_mul(8)),
        }
    }
}
