//! Layers around any controller, for the tests of what a connection does beside it.

use std::fmt;
use std::sync::Arc;

use super::{
    About, Ack, Controller, ControllerFactory, Ect, IdleRestart, LossEpisode, Lost, RecoveryEnd, Sent,
    Snapshot, Start, Timeout, Undo,
};

/// The events that a layer changes; everything else goes to the controller inside.
pub(super) trait Layer: fmt::Debug + Send + 'static {
    fn on_ack(&mut self, inner: &mut dyn Controller, ack: &Ack) {
        inner.on_ack(ack);
    }

    fn on_loss_episode(&mut self, inner: &mut dyn Controller, loss: &LossEpisode) {
        inner.on_loss_episode(loss);
    }

    fn on_timeout(&mut self, inner: &mut dyn Controller, timeout: &Timeout) {
        inner.on_timeout(timeout);
    }
}

/// A factory that puts a layer around each controller of `inner`, under the same name.
pub(super) fn layered<L: Layer>(
    inner: Arc<dyn ControllerFactory>,
    layer: impl Fn(&Start) -> L + Send + Sync + 'static,
) -> Arc<dyn ControllerFactory> {
    Arc::new(LayeredFactory { inner, layer })
}

struct LayeredFactory<F> {
    inner: Arc<dyn ControllerFactory>,
    layer: F,
}

impl<F> fmt::Debug for LayeredFactory<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayeredFactory").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<F, L> ControllerFactory for LayeredFactory<F>
where
    F: Fn(&Start) -> L + Send + Sync,
    L: Layer,
{
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn create(&self, start: &Start) -> Box<dyn Controller> {
        Box::new(Layered { inner: self.inner.create(start), layer: (self.layer)(start) })
    }

    fn about(&self) -> About {
        self.inner.about()
    }
}

#[derive(Debug)]
struct Layered<L> {
    inner: Box<dyn Controller>,
    layer: L,
}

impl<L: Layer> Controller for Layered<L> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.layer.on_ack(self.inner.as_mut(), ack);
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.layer.on_loss_episode(self.inner.as_mut(), loss);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.layer.on_timeout(self.inner.as_mut(), timeout);
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.inner.on_lost(lost);
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.inner.on_sent(sent);
    }

    fn on_recovery_end(&mut self, end: &RecoveryEnd) {
        self.inner.on_recovery_end(end);
    }

    fn on_idle_restart(&mut self, idle: &IdleRestart) {
        self.inner.on_idle_restart(idle);
    }

    fn on_undo(&mut self, undo: &Undo) {
        self.inner.on_undo(undo);
    }

    fn on_mss_change(&mut self, smss: u32) {
        self.inner.on_mss_change(smss);
    }

    fn limit_slow_start(&mut self, bytes: u64) {
        self.inner.limit_slow_start(bytes);
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
