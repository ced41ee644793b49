//! The task that owns the device: it carries packets and time between the device, the clock and the endpoint.
//!
//! One turn receives a batch, hands it to the endpoint, does what is due, sends what the endpoint has, and wakes
//! those who wait for what happened. When a turn found nothing to do, the driver sleeps until the device, the
//! timer or a call wakes it. It contains no decision of TCP.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock_core::{Instant, Limits};
use ackclock_device::{Capabilities, Device, ReceiveBatch};
use tokio::time::Sleep;

use crate::StackError;
use crate::clock::TokioClock;
use crate::shared::Shared;
use crate::state::{Phase, State};

/// Drives a stack on tokio.
#[derive(Debug)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
    clock: TokioClock,
    batch: ReceiveBatch,
    sleep: Pin<Box<Sleep>>,
    /// When `sleep` ends; `None`: it has no end that matters.
    sleep_until: Option<Instant>,
    woken: Vec<Waker>,
    busy_poll: Duration,
    active_until: Instant,
    capabilities_due: Instant,
    /// What the device was like when it was asked last, and what it is like.
    generations: (Option<u64>, Option<u64>),
}

/// What a turn came to.
enum Turn {
    /// Something was done: there may be more.
    Busy,
    /// Nothing to do, but the driver polls busily.
    Spinning,
    /// Nothing to do before `sleep_until`; the driver is noted as asleep.
    Idle,
    /// The stack is down.
    Over,
}

/// Where sending stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    packets: usize,
    more: bool,
    /// Whether the stack sent something to itself: others may wait for what came of that.
    looped: bool,
}

impl Driver {
    pub(crate) fn new(
        shared: Arc<Shared>,
        clock: TokioClock,
        capabilities: &Capabilities,
        busy_poll: Duration,
    ) -> Self {
        let whole = capabilities.gso_max_v4.max(capabilities.gso_max_v6) > capabilities.mtu;
        let batch_bytes = if whole { BATCH_BYTES_OFFLOAD } else { BATCH_BYTES };
        Self {
            shared,
            clock,
            batch: ReceiveBatch::new(BATCH_PACKETS, batch_bytes),
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            sleep_until: None,
            woken: Vec::new(),
            busy_poll,
            active_until: Instant::ZERO,
            capabilities_due: Instant::ZERO,
            generations: (None, None),
        }
    }

    /// Drives the stack until it is down, then drops the device.
    pub(crate) async fn run(mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURNS_PER_POLL {
            match self.turn(cx) {
                Turn::Busy => {}
                Turn::Spinning => break,
                Turn::Idle if self.sleeps(cx) => return Poll::Pending,
                Turn::Idle => {}
                Turn::Over => return Poll::Ready(()),
            }
        }
        // Fairness: others of this thread have their turn, and the runtime looks for what arrived.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Turn {
        let received = self.receive(cx);
        let now = self.shared.now();
        let mut locked = self.shared.lock();
        locked.driver.unpark();
        if self.generations.0 != self.generations.1 {
            self.generations.0 = self.generations.1;
            refresh_capabilities(&self.shared, &mut locked.stack, now);
        }
        let worked = match received {
            Ok(()) => Self::work(&self.shared, &mut locked.stack, &self.batch, cx, now),
            Err(error) => Err(error),
        };
        let busy = worked.unwrap_or_else(|error| {
            locked.stack.go_down(now, StackError::Device(Arc::new(error)));
            true
        });
        std::mem::swap(&mut self.woken, &mut locked.stack.woken);
        let turn = if matches!(locked.stack.phase, Phase::Down(_)) {
            Turn::Over
        } else if busy || !self.woken.is_empty() {
            self.active_until = now + self.busy_poll;
            if now >= self.capabilities_due {
                self.capabilities_due = now + CAPABILITIES_EVERY;
                refresh_capabilities(&self.shared, &mut locked.stack, now);
            }
            Turn::Busy
        } else if now < self.active_until {
            Turn::Spinning
        } else {
            self.sleep_until = sleep_until(self.sleep_until, locked.stack.poll_timeout(), now);
            locked.driver.park(cx.waker(), self.sleep_until);
            Turn::Idle
        };
        if matches!(turn, Turn::Over) {
            // Before anyone can know of it: who waited for the end may open the device again.
            drop(self.shared.device().take());
        }
        let has_news = locked.stack.has_news();
        drop(locked);
        self.woken.drain(..).for_each(Waker::wake);
        if has_news {
            self.shared.tell();
        }
        turn
    }

    /// Receives what there is, with the device's lock only.
    fn receive(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.batch.clear();
        let mut device = self.shared.device();
        let Some(device) = device.as_mut() else { return Ok(()) };
        let received = device.poll_receive(cx, &mut self.batch);
        self.generations.1 = Some(device.generation());
        match received {
            Poll::Ready(Err(error)) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            Poll::Ready(_) | Poll::Pending => Ok(()),
        }
    }

    /// The endpoint's part of a turn; whether there was anything to do.
    fn work(
        shared: &Shared,
        stack: &mut State,
        batch: &ReceiveBatch,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> io::Result<bool> {
        for (packet, meta) in batch.iter() {
            stack.endpoint.handle_packet(now, packet, meta);
        }
        stack.handle_timeout(now);
        let mut device = shared.device();
        let Some(device) = device.as_mut() else { return Ok(false) };
        let sent = transmit(stack, device, cx, now)?;
        stack.dispatch(now);
        if stack.has_finished() && !sent.more {
            stack.go_down(now, StackError::Shutdown);
        }
        Ok(!batch.is_empty() || sent.packets > 0 || sent.looped || stack.endpoint.has_looped())
    }

    /// Sets the timer; whether it has not expired yet.
    fn sleeps(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(until) = self.sleep_until else { return true };
        let deadline = self.clock.deadline(until);
        if self.sleep.deadline() != deadline {
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(cx).is_pending()
    }
}

impl Drop for Driver {
    /// The runtime may drop the task at any time: nobody may wait for a driver that is gone.
    fn drop(&mut self) {
        let now = self.shared.now();
        let mut locked = self.shared.lock();
        if std::thread::panicking() {
            locked.stack.stop(StackError::DriverGone);
        } else if !matches!(locked.stack.phase, Phase::Down(_)) {
            locked.stack.go_down(now, StackError::DriverGone);
        }
        let woken = std::mem::take(&mut locked.stack.woken);
        drop(locked);
        drop(self.shared.device().take());
        woken.into_iter().for_each(Waker::wake);
        self.shared.tell();
    }
}

/// How long to sleep when `due` is the next deadline. A timer that is set and ends before it is left alone: with
/// each segment the retransmission timer is stopped and started anew, and one wake-up too many in hundreds of
/// milliseconds costs less than setting tokio's timer, and waking the driver for that, each time.
fn sleep_until(set: Option<Instant>, due: Option<Instant>, now: Instant) -> Option<Instant> {
    let is_early = |set: &Instant| *set > now && due.is_none_or(|due| *set <= due);
    set.filter(is_early).or(due)
}

/// Asks the device again what it can do.
fn refresh_capabilities(shared: &Shared, stack: &mut State, now: Instant) {
    let asked = shared.device().as_ref().map(|device| (device.capabilities(), device.routes()));
    let Some((capabilities, routes)) = asked else { return };
    stack.limits = limits(&capabilities);
    stack.set_device_mtu(now, capabilities.mtu);
    stack.set_device_routes(now, routes);
}

/// Sends what the endpoint has, until it has no more, the device is full or enough was sent for once.
pub(crate) fn transmit(
    stack: &mut State,
    device: &mut Box<dyn Device>,
    cx: &mut Context<'_>,
    now: Instant,
) -> io::Result<Sent> {
    let sent = hand_over(stack, device, cx, now)?;
    if sent.packets > 0 {
        device.flush()?;
    }
    Ok(sent)
}

fn hand_over(
    stack: &mut State,
    device: &mut Box<dyn Device>,
    cx: &mut Context<'_>,
    now: Instant,
) -> io::Result<Sent> {
    let looped = stack.endpoint.packets_looped();
    for packets in 0..TRANSMIT_PACKETS {
        match device.poll_send_ready(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Err(error),
            // The device wakes the driver once there is room.
            Poll::Pending => return Ok(Sent::all(stack, packets, looped)),
        }
        let Some(packet) = stack.endpoint.poll_transmit(now, stack.limits) else {
            return Ok(Sent::all(stack, packets, looped));
        };
        match device.send(&packet) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if let Some(addr) = stack.endpoint.take_reached() {
            device.reached(addr);
        }
    }
    Ok(Sent { more: true, ..Sent::all(stack, TRANSMIT_PACKETS, looped) })
}

impl Sent {
    /// All that could be sent now; `looped`: how many packets the stack had sent to itself before.
    fn all(stack: &State, packets: usize, looped: u64) -> Self {
        Self { packets, more: false, looped: stack.endpoint.packets_looped() != looped }
    }

    /// Whether nothing is left that could be sent now, nor anyone to be told of what was.
    pub(crate) fn is_complete(self) -> bool {
        !self.more && !self.looped
    }
}

pub(crate) fn limits(capabilities: &Capabilities) -> Limits {
    Limits {
        gso_max_v4: capabilities.gso_max_v4,
        gso_max_v6: capabilities.gso_max_v6,
        tx_checksum: capabilities.tx_checksum,
    }
}

/// Packets of one batch: they are processed under one lock.
const BATCH_PACKETS: usize = 64;
/// Bytes of one batch from a device that carries packets of the MTU's size; room for one of 64 KB at any time.
const BATCH_BYTES: usize = 256 << 10;
/// Bytes of one batch from a device that carries packets of 64 KB whole.
const BATCH_BYTES_OFFLOAD: usize = 1 << 20;
/// Packets sent under one lock.
const TRANSMIT_PACKETS: usize = 64;
/// Turns before other tasks of the thread have theirs.
const TURNS_PER_POLL: usize = 8;
/// How often a device is asked what it can do.
const CAPABILITIES_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Option<Instant> {
        Some(Instant::from_millis(millis))
    }

    #[test]
    fn a_timer_that_ends_early_is_kept_and_a_late_one_replaced() {
        let now = Instant::from_millis(100);
        for (set, due, expected) in [
            (None, None, None),
            (None, at(300), at(300)),
            (at(200), at(300), at(200)),
            (at(200), None, at(200)),
            (at(400), at(300), at(300)),
            (at(90), at(300), at(300)),
            (at(100), None, None),
        ] {
            assert_eq!(sleep_until(set, due, now), expected, "{set:?} {due:?}");
        }
    }
}
