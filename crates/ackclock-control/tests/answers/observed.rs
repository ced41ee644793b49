//! A controller that notes each call made to it, and all that can be seen of it afterwards.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ackclock_control::congestion::{
    Ack, Controller, ControllerFactory, Ect, IdleRestart, LossCause, LossEpisode, Lost, RecoveryEnd, Sent,
    Snapshot, Start, Timeout, Undo, described,
};
use ackclock_control::time::nanos;

use crate::recorder::Recorder;

/// A recorder that several controllers share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared(Arc<Mutex<Recorder>>);

impl Shared {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self(Arc::new(Mutex::new(recorder)))
    }

    pub(crate) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn taken(&self) -> Recorder {
        std::mem::take(&mut self.recorder())
    }

    /// A factory of the same controllers, observed.
    pub(crate) fn observe(&self, factory: Arc<dyn ControllerFactory>) -> Arc<dyn ControllerFactory> {
        let shared = self.clone();
        described(factory.name(), factory.about(), move |start| shared.observed(factory.create(start), start))
    }

    pub(crate) fn observed(&self, inner: Box<dyn Controller>, start: &Start) -> Box<dyn Controller> {
        let observed = Observed { inner, shared: self.clone() };
        let Start { smss, initial_window, now } = *start;
        observed.note(&[u64::from(smss), initial_window, now.as_nanos()], &start);
        Box::new(observed)
    }
}

#[derive(Debug)]
struct Observed {
    inner: Box<dyn Controller>,
    shared: Shared,
}

impl Observed {
    fn note(&self, call: &[u64], words: &dyn std::fmt::Debug) {
        let inner = &self.inner;
        let flags = u64::from(inner.ect() == Ect::Ect1) << 1 | u64::from(inner.reduces_window());
        let rate = inner.pacing_rate().map_or(0, |rate| rate.wrapping_add(1));
        let seen = [inner.cwnd(), inner.ssthresh(), rate, flags];
        let snapshot = inner.snapshot();
        let mut numbers = [0; 64];
        let named = snapshot.iter().flat_map(|(name, value)| [letters(name), value.cast_unsigned()]);
        let all = call.iter().copied().chain(seen).chain(named);
        let len = numbers.iter_mut().zip(all).map(|(slot, number)| *slot = number).count();
        self.shared.recorder().note(&numbers[..len], || {
            let [cwnd, ssthresh, rate, flags] = seen;
            let snapshot: Vec<_> = snapshot.iter().collect();
            let seen = format!("cwnd {cwnd} ssthresh {ssthresh} rate {rate} flags {flags} {snapshot:?}");
            format!("{words:?}\n        {seen}")
        });
    }
}

fn letters(name: &str) -> u64 {
    name.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(131).wrapping_add(u64::from(byte)))
}

fn of_ack(ack: &Ack) -> [u64; 19] {
    let Ack { now, bytes_acked, bytes_cumulative, rtt, srtt, rtt_min, delivered, prior_delivered, .. } = *ack;
    let Ack { sent_at, delivery_interval, app_limited, tx_in_flight, lost, prior_in_flight, .. } = *ack;
    let Ack { in_flight, cwnd_limited, in_recovery, ecn_marked, .. } = *ack;
    let rtt = rtt.map_or(u64::MAX, nanos);
    let (at, sent_at) = (now.as_nanos(), sent_at.as_nanos());
    let times = [at, rtt, nanos(srtt), nanos(rtt_min), sent_at, nanos(delivery_interval)];
    let [at, rtt, srtt, rtt_min, sent_at, interval] = times;
    let [app, cwnd, recovery] = [app_limited, cwnd_limited, in_recovery].map(u64::from);
    [
        1,
        at,
        bytes_acked,
        bytes_cumulative,
        rtt,
        srtt,
        rtt_min,
        delivered,
        prior_delivered,
        sent_at,
        interval,
        app,
        tx_in_flight,
        lost,
        prior_in_flight,
        in_flight,
        cwnd,
        recovery,
        ecn_marked,
    ]
}

impl Controller for Observed {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.inner.on_ack(ack);
        self.note(&of_ack(ack), ack);
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.inner.on_loss_episode(loss);
        let LossEpisode { now, cause, flight_size, bytes_lost, delivered } = *loss;
        let cause = match cause {
            LossCause::DuplicateAcks => 0,
            LossCause::Reordering => 1,
            _ => 2,
        };
        self.note(&[2, now.as_nanos(), cause, flight_size, bytes_lost, delivered], loss);
    }

    fn on_lost(&mut self, event: &Lost) {
        self.inner.on_lost(event);
        let Lost { now, bytes, delivered, prior_delivered, app_limited, tx_in_flight, lost } = *event;
        let app_limited = u64::from(app_limited);
        let numbers = [3, now.as_nanos(), bytes, delivered, prior_delivered, app_limited, tx_in_flight, lost];
        self.note(&numbers, event);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.inner.on_timeout(timeout);
        let Timeout { now, flight_size, expiries, delivered } = *timeout;
        self.note(&[4, now.as_nanos(), flight_size, u64::from(expiries), delivered], timeout);
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.inner.on_sent(sent);
        let Sent { now, bytes, in_flight, retransmission } = *sent;
        self.note(&[5, now.as_nanos(), bytes, in_flight, u64::from(retransmission)], sent);
    }

    fn on_recovery_end(&mut self, end: &RecoveryEnd) {
        self.inner.on_recovery_end(end);
        let RecoveryEnd { now, in_flight, delivered } = *end;
        self.note(&[6, now.as_nanos(), in_flight, delivered], end);
    }

    fn on_idle_restart(&mut self, restart: &IdleRestart) {
        self.inner.on_idle_restart(restart);
        let IdleRestart { now, idle, rto, restart_window } = *restart;
        self.note(&[7, now.as_nanos(), nanos(idle), nanos(rto), restart_window], restart);
    }

    fn on_undo(&mut self, undo: &Undo) {
        self.inner.on_undo(undo);
        self.note(&[8, undo.now.as_nanos()], undo);
    }

    fn on_mss_change(&mut self, smss: u32) {
        self.inner.on_mss_change(smss);
        self.note(&[9, u64::from(smss)], &("smss", smss));
    }

    fn limit_slow_start(&mut self, bytes: u64) {
        self.inner.limit_slow_start(bytes);
        self.note(&[10, bytes], &("limit_slow_start", bytes));
    }

    fn reduces_window(&self) -> bool {
        self.inner.reduces_window()
    }

    fn cwnd(&self) -> u64 {
        self.inner.cwnd()
    }

    fn ssthresh(&self) -> u64 {
        self.inner.ssthresh()
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.inner.pacing_rate()
    }

    fn ect(&self) -> Ect {
        self.inner.ect()
    }

    fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
    }
}
