//! A controller that the reader has written in another language: the page's JavaScript.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use ackclock_control::congestion::{
    About, Ack, Controller, ControllerFactory, IdleRestart, LossEpisode, Start, Timeout, Undo,
};

/// Answers the events of connections with windows.
pub trait Script: fmt::Debug + Send + Sync {
    /// The windows after an event of the connection with this number.
    ///
    /// # Errors
    /// The error of the reader's code, in its own words.
    fn answer(&self, connection: u32, event: ScriptEvent, state: &ScriptState) -> Result<Windows, String>;
}

/// The event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ScriptEvent {
    /// The connection is established.
    Start,
    /// New data was acknowledged.
    Ack,
    /// A loss episode begins.
    Loss,
    /// The retransmission timer expired.
    Timeout,
    /// Sending resumes after a pause.
    Idle,
    /// The last reduction was wrong.
    Undo,
}

/// The script's view: times in seconds, the rest in bytes. A value that an event does not have is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScriptState {
    /// Now.
    pub now: f64,
    /// The congestion window.
    pub cwnd: f64,
    /// The threshold of slow start; infinite while it is unknown.
    pub ssthresh: f64,
    /// The largest segment.
    pub smss: f64,
    /// Newly acknowledged.
    pub acked: f64,
    /// The round trip that this acknowledgement measured.
    pub rtt: f64,
    /// The smallest round trip so far.
    pub rtt_min: f64,
    /// In flight after the event; with a loss or a timeout, before it.
    pub in_flight: f64,
    /// Delivered since the connection began.
    pub delivered: f64,
    /// Newly marked with Congestion Experienced.
    pub marked: f64,
    /// Whether a loss episode is under way, as 1 or 0.
    pub in_recovery: f64,
    /// Whether the window limited sending, as 1 or 0. An unused window should not grow.
    pub limited: f64,
    /// With a timeout, how many times in a row the timer has expired.
    pub expiries: f64,
}

/// The script's answer, in bytes and bytes a second. `None` keeps a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Windows {
    /// The congestion window.
    pub cwnd: Option<f64>,
    /// The threshold of slow start.
    pub ssthresh: Option<f64>,
    /// The rate at which to space segments.
    pub pacing_rate: Option<f64>,
}

impl ScriptState {
    /// The names of its values, in their order.
    pub const NAMES: [&'static str; 13] = [
        "now",
        "cwnd",
        "ssthresh",
        "smss",
        "acked",
        "rtt",
        "rttMin",
        "inFlight",
        "delivered",
        "marked",
        "inRecovery",
        "limited",
        "expiries",
    ];

    /// Its values, in the order of [`NAMES`](Self::NAMES).
    #[must_use]
    pub fn values(&self) -> [f64; 13] {
        let Self { now, cwnd, ssthresh, smss, acked, rtt, rtt_min, .. } = *self;
        let Self { in_flight, delivered, marked, in_recovery, limited, expiries, .. } = *self;
        [
            now,
            cwnd,
            ssthresh,
            smss,
            acked,
            rtt,
            rtt_min,
            in_flight,
            delivered,
            marked,
            in_recovery,
            limited,
            expiries,
        ]
    }
}

/// Makes the script's controllers, and keeps its first error.
#[derive(Clone, Debug)]
pub(crate) struct Scripted {
    script: Arc<dyn Script>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    connections: AtomicU32,
    error: Mutex<Option<String>>,
}

impl Scripted {
    /// The name under which it is chosen.
    pub const NAME: &'static str = "yours";

    pub fn new(script: Arc<dyn Script>) -> Self {
        Self { script, shared: Arc::default() }
    }

    /// The first error since the last call, if any.
    pub fn take_error(&self) -> Option<String> {
        self.shared.error.lock().ok()?.take()
    }
}

impl ControllerFactory for Scripted {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn create(&self, start: &Start) -> Box<dyn Controller> {
        let connection = self.shared.connections.fetch_add(1, Ordering::Relaxed);
        let mut made = ScriptedController {
            scripted: self.clone(),
            connection,
            smss: u64::from(start.smss),
            cwnd: start.initial_window,
            ssthresh: u64::MAX,
            pacing_rate: None,
            rtt_min: 0.0,
        };
        made.ask(
            ScriptEvent::Start,
            ScriptState { now: seconds(start.now.as_nanos()), ..ScriptState::default() },
        );
        Box::new(made)
    }

    fn about(&self) -> About {
        About { source: "the reader", ..About::UNKNOWN }
    }
}

#[derive(Debug)]
struct ScriptedController {
    scripted: Scripted,
    connection: u32,
    smss: u64,
    cwnd: u64,
    ssthresh: u64,
    pacing_rate: Option<u64>,
    rtt_min: f64,
}

impl ScriptedController {
    fn ask(&mut self, event: ScriptEvent, state: ScriptState) {
        let ssthresh = if self.ssthresh == u64::MAX { f64::INFINITY } else { self.ssthresh as f64 };
        let (cwnd, smss) = (self.cwnd as f64, self.smss as f64);
        let state = ScriptState { cwnd, ssthresh, smss, rtt_min: self.rtt_min, ..state };
        let answer = self.scripted.script.answer(self.connection, event, &state);
        if let Err(error) = answer.and_then(|windows| self.take(windows))
            && let Ok(mut first) = self.scripted.shared.error.lock()
        {
            first.get_or_insert(error);
        }
    }

    /// Takes windows that make sense: at least a segment, at most what a receiver can offer.
    fn take(&mut self, windows: Windows) -> Result<(), String> {
        let checked = |what: &str, value: f64| match value {
            value if value.is_nan() => Err(format!("{what} is not a number; return bytes")),
            value => Ok(value.clamp(self.smss as f64, WINDOW_MAX) as u64),
        };
        let cwnd = windows.cwnd.map(|value| checked("cwnd", value)).transpose()?;
        let ssthresh = windows.ssthresh.map(|value| checked("ssthresh", value)).transpose()?;
        let pacing_rate = windows.pacing_rate.map(|value| checked("pacingRate", value)).transpose()?;
        self.cwnd = cwnd.unwrap_or(self.cwnd);
        self.ssthresh = match windows.ssthresh {
            // As it is before the first loss.
            Some(f64::INFINITY) => u64::MAX,
            _ => ssthresh.unwrap_or(self.ssthresh),
        };
        self.pacing_rate = pacing_rate.or(self.pacing_rate);
        Ok(())
    }
}

impl Controller for ScriptedController {
    fn name(&self) -> &'static str {
        Scripted::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.rtt_min = seconds(ack.rtt_min_ns);
        let flag = |is: bool| if is { 1.0 } else { 0.0 };
        self.ask(
            ScriptEvent::Ack,
            ScriptState {
                now: seconds(ack.now.as_nanos()),
                acked: ack.bytes_acked as f64,
                rtt: ack.rtt_ns.map_or(0.0, seconds),
                in_flight: ack.in_flight as f64,
                delivered: ack.delivered as f64,
                marked: ack.ecn_marked as f64,
                in_recovery: flag(ack.in_recovery),
                limited: flag(ack.cwnd_limited),
                ..ScriptState::default()
            },
        );
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        let (in_flight, delivered) = (loss.flight_size as f64, loss.delivered as f64);
        let now = seconds(loss.now.as_nanos());
        self.ask(ScriptEvent::Loss, ScriptState { now, in_flight, delivered, ..ScriptState::default() });
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let (in_flight, delivered) = (timeout.flight_size as f64, timeout.delivered as f64);
        let now = seconds(timeout.now.as_nanos());
        let expiries = f64::from(timeout.expiries);
        let state = ScriptState { now, in_flight, delivered, expiries, ..ScriptState::default() };
        self.ask(ScriptEvent::Timeout, state);
    }

    fn on_idle_restart(&mut self, idle: &IdleRestart) {
        let now = seconds(idle.now.as_nanos());
        self.ask(ScriptEvent::Idle, ScriptState { now, ..ScriptState::default() });
    }

    fn on_undo(&mut self, undo: &Undo) {
        let now = seconds(undo.now.as_nanos());
        self.ask(ScriptEvent::Undo, ScriptState { now, ..ScriptState::default() });
    }

    fn on_mss_change(&mut self, smss: u32) {
        self.smss = u64::from(smss);
        self.cwnd = self.cwnd.max(self.smss);
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.pacing_rate
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// RFC 7323's largest window.
const WINDOW_MAX: f64 = (1u64 << 30) as f64;
