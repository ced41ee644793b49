//! A device behind a bad network: rate, delay, jitter, queue, loss, duplication, reordering, corruption.
//!
//! Each direction has its own settings and its own random numbers, drawn from one seed. The same packets in
//! the same order meet the same fate, whenever they come. The wrapper first cuts packets of 64 KB into
//! segments, as a network would see them, so the wrapped device shows no offload capability.
//!
//! Delays run on tokio's clock, which a test may pause. Unlike tokio's timers, they are exact to a tenth of a
//! millisecond.

mod lane;
mod settings;
mod timer;

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use ackclock_wire::random::Rng;
use ackclock_wire::{Egress, Route, RxMeta, TxPacket, gso};
use tokio::time::Instant;

use crate::{Capabilities, Counters, Device, ReceiveBatch};
use lane::Lane;
use timer::Timer;

pub use ackclock_control::quantity::Share;
pub use settings::{Settings, SettingsError, Statistics};

/// A device whose packets are impaired.
///
/// ```
/// use ackclock_device::{Device, impair, memory};
/// let (a, _b) = memory::pair(memory::Config::default());
/// let lossy = impair::Settings { loss: impair::Share::percent(1), ..impair::Settings::default() };
/// let device = impair::Impaired::new(a, 42, lossy, impair::Settings::default())?;
/// let network = device.handle();
/// network.set_blackout(true);
/// assert_eq!(network.statistics_sent().offered, 0);
/// # Ok::<(), impair::SettingsError>(())
/// ```
#[derive(Debug)]
pub struct Impaired<D> {
    device: D,
    network: Network,
    /// The batch that the wrapped device receives into.
    arrived: ReceiveBatch,
    /// A packet that is due but found no room in the caller's batch.
    waiting: Option<Vec<u8>>,
    /// Wakes at the next release. It needs a runtime, so it is made when first needed.
    timer: Option<Timer>,
    /// The receiving task. It is also woken for releases that a send has scheduled.
    receiver: Waker,
}

/// A handle on the network of an [`Impaired`] device, for inspecting and changing it while it is in use.
#[derive(Clone, Debug)]
pub struct Network(Arc<Mutex<Lanes>>);

#[derive(Debug)]
struct Lanes {
    sent: Lane,
    received: Lane,
}

impl<D: Device> Impaired<D> {
    /// Puts `device` behind a network with these settings for sent and received packets.
    ///
    /// The first delayed packet needs a tokio runtime with its time and I/O drivers.
    ///
    /// # Errors
    /// A rate of zero.
    pub fn new(device: D, seed: u64, sent: Settings, received: Settings) -> Result<Self, SettingsError> {
        sent.check()?;
        received.check()?;
        let mut seeds = Rng::new(seed);
        let (sent, received) = (Lane::new(sent, seeds.next_u64()), Lane::new(received, seeds.next_u64()));
        let lanes = Lanes { sent, received };
        Ok(Self {
            device,
            network: Network(Arc::new(Mutex::new(lanes))),
            arrived: ReceiveBatch::new(ARRIVED_PACKETS, ARRIVED_BYTES),
            waiting: None,
            timer: None,
            receiver: Waker::noop().clone(),
        })
    }

    /// A handle on the network.
    #[must_use]
    pub fn handle(&self) -> Network {
        self.network.clone()
    }

    /// Hands packets that are due to the device, as far as it takes them. Returns `false` if it takes no more
    /// now.
    fn release_sent(&mut self, now: Instant, cx: &mut Context<'_>) -> io::Result<bool> {
        loop {
            if self.network.lanes().sent.next_release().is_none_or(|at| at > now) {
                return Ok(true);
            }
            match self.device.poll_send_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return Ok(false),
            }
            let due = self.network.lanes().sent.pop_due(now);
            let Some(bytes) = due else { return Ok(true) };
            self.device.send(&TxPacket::complete(&bytes))?;
        }
    }

    /// Moves received packets that are due into `batch`. Returns how many, and whether all found room.
    fn release_received(&mut self, now: Instant, batch: &mut ReceiveBatch) -> (usize, bool) {
        let mut released = 0;
        let mut lanes = self.network.lanes();
        while let Some(bytes) = self.waiting.take().or_else(|| lanes.received.pop_due(now)) {
            if !batch.push(&bytes, RxMeta::default()) {
                self.waiting = Some(bytes);
                return (released, false);
            }
            released += 1;
        }
        (released, true)
    }

    /// Moves what the device has received into the network.
    fn take_in_arrived(&mut self, now: Instant) {
        let mut lanes = self.network.lanes();
        for (bytes, meta) in self.arrived.iter() {
            if meta == RxMeta::default() {
                lanes.received.offer(now, bytes.to_vec());
            } else {
                gso::cut_contiguous(bytes, meta, |segment| lanes.received.offer(now, segment.to_vec()));
            }
        }
    }

    /// Wakes the receiving task at the next release. Ready if that is now.
    fn poll_timer(&mut self, cx: &mut Context<'_>, with_sent: bool) -> Poll<io::Result<()>> {
        let lanes = self.network.lanes();
        let sent = if with_sent { lanes.sent.next_release() } else { None };
        let next = sent.into_iter().chain(lanes.received.next_release()).min();
        drop(lanes);
        let Some(next) = next else { return Poll::Pending };
        let timer = match &mut self.timer {
            Some(timer) => timer,
            none => none.insert(Timer::new()?),
        };
        timer.poll(next, cx)
    }
}

impl<D: Device> Device for Impaired<D> {
    fn capabilities(&self) -> Capabilities {
        let inner = self.device.capabilities();
        Capabilities { gso_max_v4: inner.mtu, gso_max_v6: inner.mtu, tx_checksum: false, ..inner }
    }

    fn routes(&self) -> Vec<Route<Egress>> {
        self.device.routes()
    }

    fn generation(&self) -> u64 {
        self.device.generation()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.receiver.clone_from(cx.waker());
        let mut received = 0;
        loop {
            let now = Instant::now();
            if let Some(timer) = &mut self.timer {
                timer.woken(now);
            }
            let sends_flow = self.release_sent(now, cx)?;
            self.device.flush()?;
            let (released, had_room) = self.release_received(now, batch);
            received += released;
            if !had_room {
                return Poll::Ready(Ok(received));
            }
            self.arrived.clear();
            match self.device.poll_receive(cx, &mut self.arrived) {
                Poll::Ready(Ok(_)) => self.take_in_arrived(now),
                Poll::Ready(Err(error)) if received == 0 => return Poll::Ready(Err(error)),
                // The error recurs on the next call.
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(received)),
                Poll::Pending if received > 0 => return Poll::Ready(Ok(received)),
                Poll::Pending => ready!(self.poll_timer(cx, sends_flow))?,
            }
        }
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.device.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        let now = Instant::now();
        let mut lanes = self.network.lanes();
        if packet.segment_size.is_none() && !packet.checksum.is_partial() {
            lanes.sent.offer(now, packet.to_vec());
        } else {
            gso::cut(packet, |segment| lanes.sent.offer(now, segment.to_vec()));
        }
        drop(lanes);
        let receiver = self.receiver.clone();
        let cx = &mut Context::from_waker(&receiver);
        let sends_flow = self.release_sent(now, cx)?;
        if let Poll::Ready(now_due) = self.poll_timer(cx, sends_flow) {
            receiver.wake();
            now_due?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.device.flush()
    }

    fn counters(&self) -> Counters {
        self.device.counters()
    }

    fn reached(&mut self, addr: IpAddr) {
        self.device.reached(addr);
    }

    fn listen_to(&mut self, groups: &[IpAddr]) {
        self.device.listen_to(groups);
    }

    fn link_up(&self) -> bool {
        self.device.link_up()
    }

    fn leads_to_kernel(&self) -> bool {
        self.device.leads_to_kernel()
    }
}

impl Network {
    /// Changes the impairment of packets sent from now on.
    ///
    /// # Errors
    /// A rate of zero. Nothing is changed then.
    pub fn set_sent(&self, settings: Settings) -> Result<(), SettingsError> {
        settings.check()?;
        self.lanes().sent.set(settings);
        Ok(())
    }

    /// Changes the impairment of packets received from now on.
    ///
    /// # Errors
    /// A rate of zero. Nothing is changed then.
    pub fn set_received(&self, settings: Settings) -> Result<(), SettingsError> {
        settings.check()?;
        self.lanes().received.set(settings);
        Ok(())
    }

    /// Starts or stops dropping every packet that enters the network in either direction.
    pub fn set_blackout(&self, blackout: bool) {
        let mut lanes = self.lanes();
        lanes.sent.set_blackout(blackout);
        lanes.received.set_blackout(blackout);
    }

    /// Statistics of sent packets.
    #[must_use]
    pub fn statistics_sent(&self) -> Statistics {
        self.lanes().sent.statistics()
    }

    /// Statistics of received packets.
    #[must_use]
    pub fn statistics_received(&self) -> Statistics {
        self.lanes().received.statistics()
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // A panic in the middle of a packet loses only that packet.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The most packets received from the device at once.
const ARRIVED_PACKETS: usize = 64;
const ARRIVED_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests;
