//! The congestion controller of a connection, and what stands between the two: an estimation at the start, the
//! validation of a window that is not used. Both are boxes made when they are first needed, so that a connection
//! without either, or that never sends much, does not pay.

use ackclock_control::congestion::{
    Ack, IdlePolicy, IdleRestart, LossEpisode, Start, StartUp, Timeout, Validation,
};

use super::Connection;
use crate::Instant;

impl Connection {
    /// ESTABLISHED is reached: the controller starts, from a window of `initial_window` bytes.
    pub(super) fn start_controller(&mut self, now: Instant, initial_window: u64) {
        let start = Start { smss: self.smss(), initial_window, now };
        self.congestion = self.tcp.congestion.create(&start);
        self.start_up = self.tcp.start_up.map(|kind| Box::new(StartUp::new(kind, &start)));
        self.validation = None;
    }

    /// IW in bytes, if nothing was lost in the handshake.
    pub(super) fn initial_window(&self) -> u64 {
        u64::from(self.tcp.initial_window_segments.max(1)) * u64::from(self.smss())
    }

    /// New data was acknowledged.
    #[inline]
    pub(super) fn tell_ack(&mut self, ack: &Ack) {
        if let Some(start_up) = &mut self.start_up {
            start_up.before_ack(self.congestion.as_mut(), ack);
        }
        if let Some(validation) = &mut self.validation {
            validation.before_ack(self.congestion.as_mut(), ack);
        } else if self.tcp.idle == IdlePolicy::Validated {
            self.validate_if_grown(ack.now);
        }
        self.congestion.on_ack(ack);
    }

    /// A loss episode begins.
    pub(super) fn tell_loss_episode(&mut self, loss: LossEpisode) {
        if let Some(start_up) = &mut self.start_up {
            start_up.end();
        }
        let cwnd = self.congestion.cwnd();
        let loss = self.validation.as_ref().map_or(loss, |validation| validation.as_used(cwnd, loss));
        self.congestion.on_loss_episode(&loss);
    }

    /// The retransmission timer expired.
    pub(super) fn tell_timeout(&mut self, timeout: &Timeout) {
        self.note_loss_answer();
        if let Some(start_up) = &mut self.start_up {
            start_up.end();
        }
        self.congestion.on_timeout(timeout);
    }

    /// RFC 5681 §4.1: a window that was last used more than a timeout ago says little about the path.
    pub(super) fn restart_after_idleness(&mut self, now: Instant) {
        let Some(sent_at) = self.counts.sent_at.filter(|_| self.snd.una == self.snd.nxt) else { return };
        let (idle, rto) = (now.saturating_since(sent_at), self.rtt.rto());
        // Once: data that Nagle's algorithm or a cork holds back comes by here again.
        if idle > rto && self.snd.unsent() > 0 && !std::mem::replace(&mut self.pending.restarted, true) {
            let (cwnd, initial) = (self.congestion.cwnd(), self.initial_window());
            let restart_window = self.tcp.idle.restart_window(idle, cwnd, initial, u64::from(self.smss()));
            self.congestion.on_idle_restart(&IdleRestart { now, idle, rto, restart_window });
        }
    }

    /// RFC 7661 §4.4.3: an unused window falls back to IW and no further, so one that never grew stays as it is.
    fn validate_if_grown(&mut self, now: Instant) {
        let initial_window = self.initial_window();
        if self.congestion.cwnd() > initial_window {
            let start = Start { smss: self.smss(), initial_window, now };
            self.validation = Some(Box::new(Validation::new(&start)));
        }
    }
}
