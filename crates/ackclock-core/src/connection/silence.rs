//! How long the peer has been silent, and the keep-alive probes that ask whether it is still there
//! (RFC 9293 §3.8.4).

use crate::deadline::Deadline;
use crate::{Instant, Keepalive};

#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// When the last segment arrived.
    heard_at: Instant,
    /// Whether one ever did. Before that, the time is that of the opening.
    heard: bool,
    /// Keep-alive probes since then.
    probes: u32,
    /// When the next probe, or giving up, is due.
    deadline: Deadline,
}

/// The measure that a silent peer calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Wait,
    Probe,
    GiveUp,
}

impl Silence {
    pub fn since(now: Instant) -> Self {
        Self { heard_at: now, heard: false, probes: 0, deadline: Deadline::UNSET }
    }

    #[inline]
    pub fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// The time of the last arrival; `None` if nothing ever arrived.
    pub fn received_at(&self) -> Option<Instant> {
        self.heard.then_some(self.heard_at)
    }

    #[inline]
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// A segment arrived. It does not move the deadline, which is checked when it comes.
    #[inline]
    pub fn end(&mut self, now: Instant) {
        (self.heard_at, self.heard, self.probes) = (now, true, 0);
    }

    /// The handshake is over: counts from now on.
    pub fn begin(&mut self, now: Instant) {
        (self.heard_at, self.probes) = (now, 0);
    }

    /// Starts to watch.
    pub fn watch(&mut self, now: Instant, keepalive: &Keepalive) {
        self.deadline.set(now + keepalive.idle);
    }

    pub fn stop(&mut self) {
        self.deadline.clear();
    }

    /// Other settings: no probe has been sent under them.
    pub fn restart(&mut self) {
        self.probes = 0;
        self.stop();
    }

    /// Leaves at least one more probe before the end.
    pub fn allow_another_probe(&mut self, keepalive: &Keepalive) {
        self.probes = self.probes.min(keepalive.probes.saturating_sub(1));
    }

    /// The deadline has come, and nothing is outstanding that would show whether the peer is there.
    pub fn judge(&mut self, now: Instant, keepalive: &Keepalive) -> Verdict {
        if self.probes == 0 && now.saturating_since(self.heard_at) < keepalive.idle {
            self.deadline.set(self.heard_at + keepalive.idle);
            return Verdict::Wait;
        }
        // RFC 9293 MUST-29: one unanswered probe does not mean that the peer is dead.
        if self.probes >= keepalive.probes {
            return Verdict::GiveUp;
        }
        self.probes = self.probes.saturating_add(1);
        self.deadline.set(now + keepalive.interval);
        Verdict::Probe
    }
}

ackclock_form::form! {
    struct Silence { heard_at, heard, probes, deadline }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn peer_is_asked_after_an_idle_time_and_given_up_after_every_probe() {
        let second = Duration::from_secs(1);
        let at = |seconds: u64| Instant::from_millis(1000 * seconds);
        let keepalive = Keepalive { idle: 10 * second, interval: 2 * second, probes: 2 };
        let mut silence = Silence::since(at(0));
        silence.watch(at(0), &keepalive);
        silence.end(at(4));
        assert_eq!((silence.judge(at(10), &keepalive), silence.deadline().at()), (Verdict::Wait, at(14)));
        assert_eq!((silence.judge(at(14), &keepalive), silence.deadline().at()), (Verdict::Probe, at(16)));
        assert_eq!((silence.judge(at(16), &keepalive), silence.deadline().at()), (Verdict::Probe, at(18)));
        let mut after_pause = silence;
        after_pause.allow_another_probe(&keepalive);
        assert_eq!(after_pause.judge(at(18), &keepalive), Verdict::Probe);
        assert_eq!(silence.judge(at(18), &keepalive), Verdict::GiveUp);
    }
}
