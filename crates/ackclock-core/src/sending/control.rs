//! The congestion controller of a connection with its layers: an estimation at the start, and the validation
//! of an unused window. Both are created when first needed, so that a connection that needs neither, or never
//! sends much, does not pay for them.

use std::time::Duration;

use ackclock_control::congestion::{
    Ack, Controller, IdlePolicy, IdleRestart, LossEpisode, Lost, RecoveryEnd, Sent, Start, StartUp,
    StartUpEstimate, Timeout, Undo, Validation,
};

use super::Call;
use crate::later::{self, Kept};
use crate::{Instant, TcpConfig};
use ackclock_form::{Form, FormError, Reader, Writer};

/// The controller and its layers.
#[derive(Debug)]
pub(super) struct Control {
    congestion: Box<dyn Controller>,
    layers: Option<Box<Layers>>,
}

#[derive(Debug, Default)]
struct Layers {
    /// Validates the window by use (RFC 7661), once it has grown.
    validation: Option<Validation>,
    /// The estimation that may end the first slow start, if one was chosen.
    start_up: Option<Box<StartUp>>,
}

impl Control {
    /// Before there is a window.
    pub fn new() -> Self {
        Self { congestion: Box::new(NotStarted), layers: None }
    }

    /// ESTABLISHED is reached: the controller starts.
    pub fn start(&mut self, tcp: &TcpConfig, start: &Start) {
        self.replace(tcp.congestion.create(start));
        if let Some(kind) = tcp.choices.start_up {
            self.layers.get_or_insert_default().start_up = Some(Box::new(StartUp::new(kind, start)));
        }
    }

    pub fn replace(&mut self, congestion: Box<dyn Controller>) {
        let old = std::mem::replace(&mut self.congestion, congestion);
        later::keep(|| Kept::Controller(old));
    }

    /// Slow start ends at this window, if the controller has a threshold.
    pub fn limit_slow_start(&mut self, bytes: u64) {
        self.congestion.limit_slow_start(bytes);
    }

    #[inline]
    pub fn controller(&self) -> &dyn Controller {
        &*self.congestion
    }

    #[inline]
    pub fn cwnd(&self) -> u64 {
        self.congestion.cwnd()
    }

    #[inline]
    pub fn ssthresh(&self) -> u64 {
        self.congestion.ssthresh()
    }

    pub fn start_up_estimate(&self) -> Option<StartUpEstimate> {
        self.layers.as_ref()?.start_up.as_ref()?.estimate()
    }

    /// New data was acknowledged.
    // Always inlined, for the row "acknowledgement received" of the counted instructions.
    #[inline(always)]
    pub fn on_ack(&mut self, ack: &Ack, tcp: &TcpConfig, smss: u32) {
        if let Some(layers) = &mut self.layers {
            if let Some(start_up) = &mut layers.start_up {
                start_up.before_ack(self.congestion.as_mut(), ack);
            }
            if let Some(validation) = &mut layers.validation {
                validation.before_ack(self.congestion.as_mut(), ack);
            }
        }
        if tcp.choices.idle == IdlePolicy::Validated
            && self.layers.as_ref().is_none_or(|layers| layers.validation.is_none())
        {
            self.validate_if_grown(&Start { smss, initial_window: initial_window(tcp, smss), now: ack.now });
        }
        self.congestion.on_ack(ack);
    }

    /// RFC 7661 §4.4.3: an unused window falls back to IW and no further, so one that never grew stays.
    fn validate_if_grown(&mut self, start: &Start) {
        if self.congestion.cwnd() > start.initial_window {
            self.layers.get_or_insert_default().validation = Some(Validation::new(start));
        }
    }

    /// A loss episode begins, or a mark is answered.
    pub fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.end_start_up();
        let validation = self.layers.as_ref().and_then(|layers| layers.validation.as_ref());
        let loss = validation.map_or(*loss, |validation| validation.as_used(&*self.congestion, *loss));
        self.congestion.on_loss_episode(&loss);
    }

    /// The retransmission timer expired.
    pub fn on_timeout(&mut self, timeout: &Timeout) {
        self.end_start_up();
        self.congestion.on_timeout(timeout);
    }

    /// Bytes were found to be lost.
    pub fn on_lost(&mut self, lost: &Lost) {
        self.congestion.on_lost(lost);
    }

    /// A loss episode, or the answer to a mark, ended.
    pub fn on_recovery_end(&mut self, end: &RecoveryEnd) {
        self.congestion.on_recovery_end(end);
    }

    /// The last reduction was wrong.
    pub fn on_undo(&mut self, undo: &Undo) {
        self.congestion.on_undo(undo);
    }

    /// Data left.
    #[inline]
    pub fn on_sent(&mut self, sent: &Sent) {
        self.congestion.on_sent(sent);
    }

    /// The window was last used `idle` ago, longer than a timeout (RFC 5681 §4.1).
    pub fn on_idle_restart(&mut self, call: &Call<'_>, idle: Duration, rto: Duration, smss: u32) {
        let (cwnd, initial) = (self.cwnd(), initial_window(call.tcp, smss));
        let restart_window = call.tcp.choices.idle.restart_window(idle, cwnd, initial, u64::from(smss));
        self.congestion.on_idle_restart(&IdleRestart { now: call.now, idle, rto, restart_window });
    }

    pub fn on_mss_change(&mut self, smss: u32) {
        self.congestion.on_mss_change(smss);
    }

    fn end_start_up(&mut self) {
        if let Some(start_up) = self.layers.as_mut().and_then(|layers| layers.start_up.as_mut()) {
            start_up.end();
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.replace(Box::new(NotStarted));
    }
}

/// The controller of a connection without a window yet. A passive connection has it from its creation until
/// it is established. It takes no memory, so each such connection allocates only one controller.
#[derive(Clone, Copy, Debug)]
struct NotStarted;

impl Controller for NotStarted {
    fn name(&self) -> &'static str {
        "none"
    }

    fn on_ack(&mut self, _: &Ack) {}

    fn on_loss_episode(&mut self, _: &LossEpisode) {}

    fn on_timeout(&mut self, _: &Timeout) {}

    fn on_mss_change(&mut self, _: u32) {}

    fn cwnd(&self) -> u64 {
        0
    }

    fn ssthresh(&self) -> u64 {
        u64::MAX
    }
}

/// IW in bytes (RFC 6928).
pub(super) fn initial_window(tcp: &TcpConfig, smss: u32) -> u64 {
    u64::from(tcp.choices.initial_window_segments.max(1)).saturating_mul(u64::from(smss))
}

ackclock_form::form! {
    struct Layers { validation, start_up }
}

/// The controller as its state, if it has a form; its window and threshold otherwise.
impl Form for Control {
    fn write(&self, out: &mut Writer) {
        let Self { congestion, layers } = self;
        layers.write(out);
        let before = out.len();
        out.push(HAS_FORM);
        if congestion.name() == NotStarted.name() {
            out.truncate(before);
            out.push(NOT_STARTED);
        } else if !congestion.freeze(out) {
            out.truncate(before);
            out.push(BEGINS_AGAIN);
            congestion.cwnd().write(out);
            congestion.ssthresh().write(out);
        }
    }

    /// Needs the connection's settings, its segment size and the time lent to the reader.
    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let layers = Form::read(input)?;
        let kind = input.byte()?;
        let (tcp, now) = (input.lent::<TcpConfig>(), input.lent::<Instant>());
        let (Some(tcp), Some(now), Some(smss)) = (tcp, now, input.lent::<Smss>()) else {
            return Err(FormError::Misplaced);
        };
        let start = |initial_window| Start { smss: smss.0.max(1), initial_window, now: *now };
        let congestion: Box<dyn Controller> = match kind {
            NOT_STARTED => Box::new(NotStarted),
            HAS_FORM => {
                let initial_window = initial_window(&tcp, smss.0.max(1));
                let mut congestion = tcp.congestion.create(&start(initial_window));
                congestion.thaw(input)?;
                congestion
            }
            BEGINS_AGAIN => {
                let cwnd = u64::read(input)?.max(u64::from(smss.0)).max(1);
                let mut congestion = tcp.congestion.create(&start(cwnd));
                congestion.limit_slow_start(u64::read(input)?);
                input.note(tcp.congestion.name());
                congestion
            }
            code => return Err(FormError::Code(code)),
        };
        Ok(Self { congestion, layers })
    }
}

/// A connection's segment size, lent to the controller that is read.
struct Smss(u32);

/// The segment size, lent to the values that are read after it.
pub(super) mod smss {
    use std::sync::Arc;

    use ackclock_form::{Form, FormError, Reader, Writer};

    use super::Smss;

    pub(in crate::sending) fn write(smss: &u32, out: &mut Writer) {
        smss.write(out);
    }

    pub(in crate::sending) fn read(input: &mut Reader<'_>) -> Result<u32, FormError> {
        let smss = u32::read(input)?;
        input.lend(Arc::new(Smss(smss)));
        Ok(smss)
    }
}

const NOT_STARTED: u8 = 0;
const HAS_FORM: u8 = 1;
const BEGINS_AGAIN: u8 = 2;
