//! The congestion controller of a connection, and what stands between the two: an estimation at the start, the
//! validation of a window that is not used. Both are made when they are first needed, so that a connection without
//! either, or that never sends much, does not pay.

use ackclock_control::congestion::{
    Ack, IdlePolicy, IdleRestart, LossCause, LossEpisode, Lost, RecoveryEnd, Sent, Start, StartUp, Timeout,
    Undo, Validation,
};

use super::Connection;
use crate::Instant;
use crate::trace::WindowCause;

impl Connection {
    /// ESTABLISHED is reached: the controller starts, from a window of `initial_window` bytes.
    pub(super) fn start_controller(&mut self, now: Instant, initial_window: u64) {
        let start = Start { smss: self.smss(), initial_window, now };
        self.congestion = self.tcp.congestion.create(&start);
        self.trace_window(now, WindowCause::Start);
        if let Some(kind) = self.tcp.start_up {
            self.extras.get_or_insert_default().start_up = Some(Box::new(StartUp::new(kind, &start)));
        }
    }

    /// IW in bytes, if nothing was lost in the handshake.
    pub(super) fn initial_window(&self) -> u64 {
        u64::from(self.tcp.initial_window_segments.max(1)) * u64::from(self.smss())
    }

    /// New data was acknowledged.
    #[inline]
    pub(super) fn tell_ack(&mut self, ack: &Ack) {
        if let Some(extras) = &mut self.extras {
            if let Some(start_up) = &mut extras.start_up {
                start_up.before_ack(self.congestion.as_mut(), ack);
            }
            if let Some(validation) = &mut extras.validation {
                validation.before_ack(self.congestion.as_mut(), ack);
            }
        }
        if self.tcp.idle == IdlePolicy::Validated {
            self.validate_if_grown(ack.now);
        }
        self.congestion.on_ack(ack);
        self.trace_window(ack.now, WindowCause::Acked);
    }

    /// A loss episode begins.
    pub(super) fn tell_loss_episode(&mut self, loss: LossEpisode) {
        self.end_start_up();
        let validation = self.extras.as_ref().and_then(|extras| extras.validation.as_ref());
        let loss = validation.map_or(loss, |validation| validation.as_used(self.congestion.cwnd(), loss));
        self.congestion.on_loss_episode(&loss);
        let marked = loss.cause == LossCause::EcnEcho;
        self.trace_window(loss.now, if marked { WindowCause::Marked } else { WindowCause::LossEpisode });
    }

    /// The retransmission timer expired.
    pub(super) fn tell_timeout(&mut self, timeout: &Timeout) {
        self.note_loss_answer();
        self.end_start_up();
        self.congestion.on_timeout(timeout);
        self.trace_window(timeout.now, WindowCause::Timeout);
    }

    /// Bytes were found to be lost.
    pub(super) fn tell_lost(&mut self, lost: &Lost) {
        self.congestion.on_lost(lost);
        self.trace_window(lost.now, WindowCause::Lost);
    }

    /// A loss episode, or the answer to a mark, ended.
    pub(super) fn tell_recovery_end(&mut self, end: &RecoveryEnd) {
        self.congestion.on_recovery_end(end);
        self.trace_window(end.now, WindowCause::RecoveryEnd);
    }

    /// The last reduction was wrong.
    pub(super) fn tell_undo(&mut self, undo: &Undo) {
        self.congestion.on_undo(undo);
        self.trace_window(undo.now, WindowCause::Undone);
    }

    /// Something left.
    #[inline]
    pub(super) fn tell_sent(&mut self, sent: &Sent) {
        self.congestion.on_sent(sent);
        self.trace_window(sent.now, WindowCause::Sent);
    }

    fn end_start_up(&mut self) {
        if let Some(start_up) = self.extras.as_mut().and_then(|extras| extras.start_up.as_mut()) {
            start_up.end();
        }
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
            self.trace_window(now, WindowCause::Idle);
        }
    }

    /// RFC 7661 §4.4.3: an unused window falls back to IW and no further, so one that never grew stays as it is.
    fn validate_if_grown(&mut self, now: Instant) {
        let validates = self.extras.as_ref().is_some_and(|extras| extras.validation.is_some());
        let initial_window = self.initial_window();
        if !validates && self.congestion.cwnd() > initial_window {
            let start = Start { smss: self.smss(), initial_window, now };
            self.extras.get_or_insert_default().validation = Some(Validation::new(&start));
        }
    }
}
