//! A device for IP packets, made of a device for frames and the link layer between them.
//!
//! Packets cross without a copy. A received frame becomes a packet where it lies, and a sent packet goes out
//! behind an Ethernet header, both with their offload state. Only a packet that waits for its neighbour's
//! address is copied.

mod handle;
mod options;

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock_link::{HEADER_LEN, Instant, Link, LinkConfig, MacAddr, Sending};
use ackclock_wire::TxPacket;
use tokio::time::Sleep;

use crate::{Capabilities, Counters, Device, FrameDevice, Medium, ReceiveBatch};

pub use handle::LinkHandle;
pub use options::EthernetOptions;
#[cfg(feature = "os")]
pub use options::PacketQueues;
#[cfg(feature = "xdp")]
pub use options::XdpQueues;

/// A device for IP packets on an Ethernet.
///
/// Create it with [`EthernetOptions`], or with [`EthernetDevice::new`] from any [`FrameDevice`]. It sends
/// nothing until every configured address has been found free or taken; [`EthernetDevice::ready`] waits for
/// that.
///
/// Poll it on a tokio runtime with its timer enabled.
#[derive(Debug)]
pub struct EthernetDevice<F> {
    device: F,
    shared: Arc<Mutex<Shared>>,
    /// The largest packet in bytes, whatever the interface allows.
    mtu_max: Option<usize>,
    /// Groups that the device receives, and the link's revision when they were set.
    groups: Vec<MacAddr>,
    groups_revision: Option<u64>,
    timer: Option<Pin<Box<Sleep>>>,
    /// When `timer` ends.
    armed: Option<Instant>,
    /// The receiving task, to wake when a packet starts a timer, and the task that waits for the first chance
    /// to send.
    receiver: Waker,
    sender: Option<Waker>,
    /// Whether every configured address has been found free or taken.
    started: bool,
    was_up: bool,
    up_asked_at: Option<Instant>,
    refused: u64,
    /// The neighbour last known to be reached, and since when.
    reached: Option<(IpAddr, tokio::time::Instant)>,
}

/// The state shared by a device and its handles.
#[derive(Debug)]
struct Shared {
    link: Link,
    epoch: tokio::time::Instant,
}

impl<F: FrameDevice> EthernetDevice<F> {
    /// Puts a link with this configuration on `device`, which must receive frames for its Ethernet address.
    #[must_use]
    pub fn new(device: F, config: LinkConfig) -> Self {
        let shared = Shared { link: Link::new(config, Instant::ZERO), epoch: tokio::time::Instant::now() };
        Self {
            device,
            shared: Arc::new(Mutex::new(shared)),
            mtu_max: None,
            groups: Vec::new(),
            groups_revision: None,
            timer: None,
            armed: None,
            receiver: Waker::noop().clone(),
            sender: None,
            started: false,
            was_up: true,
            up_asked_at: None,
            refused: 0,
            reached: None,
        }
    }

    /// Puts one link on several queues of an interface. Each becomes a device. Poll all of them, as a stack
    /// polls its queues, because frames without a flow may come by any.
    #[must_use]
    pub fn queues(devices: Vec<F>, config: LinkConfig) -> Vec<Self> {
        let mut queues: Vec<Self> = Vec::new();
        for device in devices {
            let queue = Self::new(device, config.clone());
            let shared = Arc::clone(&queues.first().unwrap_or(&queue).shared);
            queues.push(Self { shared, ..queue });
        }
        queues
    }

    /// A handle for inspecting the link while the device is in use.
    #[must_use]
    pub fn handle(&self) -> LinkHandle {
        LinkHandle::new(Arc::clone(&self.shared))
    }

    /// The underlying device for frames.
    pub fn frame_device(&self) -> &F {
        &self.device
    }

    /// Waits until every configured address is usable and, if routers are asked, until one has answered or
    /// all questions have been sent. IP packets that arrive meanwhile are dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if another station has an address; or the device is gone or broken.
    pub async fn ready(&mut self) -> io::Result<()> {
        Self::ready_queues(std::slice::from_mut(self)).await
    }

    /// Waits as [`ready`](Self::ready) does, for all queues of an interface.
    ///
    /// # Errors
    /// As for [`ready`](Self::ready).
    pub async fn ready_queues(queues: &mut [Self]) -> io::Result<()> {
        let mut batch = ReceiveBatch::new(64, 0);
        std::future::poll_fn(|cx| {
            loop {
                let (mut received, mut failed) = (false, None);
                for queue in &mut *queues {
                    batch.clear();
                    match queue.poll_receive(cx, &mut batch) {
                        Poll::Ready(Ok(_)) => received = true,
                        Poll::Ready(Err(error)) => failed = Some(error),
                        Poll::Pending => {}
                    }
                }
                if queues.iter().all(Self::is_settled) {
                    return Poll::Ready(Ok(()));
                }
                if let Some(error) = failed {
                    return Poll::Ready(Err(error));
                }
                if !received {
                    return Poll::Pending;
                }
            }
        })
        .await?;
        queues.first().map_or(Ok(()), |first| first.handle().check_addresses())
    }

    /// Whether it may send, and all questions have been answered. An address from a router's answer is probed
    /// too.
    fn is_settled(&self) -> bool {
        let shared = lock(&self.shared);
        self.started && !shared.link.is_searching() && shared.link.is_settled()
    }

    /// Handles the timer: timeouts that are due, and whether the interface is back.
    fn turn(&mut self, now: Instant, cx: &mut Context<'_>) -> io::Result<()> {
        let due = |link: &Link| link.poll_timeout().is_some_and(|due| due <= now);
        if self.up_asked_at.is_none_or(|at| now.saturating_since(at) >= UP_ASKED_EVERY) {
            self.up_asked_at = Some(now);
            let up = self.device.link_up();
            if up && !self.was_up {
                lock(&self.shared).link.link_restored(now);
            }
            self.was_up = up;
        }
        let mut shared = lock(&self.shared);
        if due(&shared.link) {
            shared.link.handle_timeout(now);
        }
        drop(shared);
        self.send_own(cx)
    }

    /// Sends the link's own frames as far as the device takes them, and updates its groups.
    fn send_own(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut shared = lock(&self.shared);
        let link = &mut shared.link;
        while link.has_transmit() && self.device.poll_send_ready(cx)?.is_ready() {
            let Some(frame) = link.poll_transmit() else { break };
            self.device.send(&frame.header, &frame.packet)?;
            self.device.flush()?;
        }
        if !self.started && link.is_settled() {
            self.started = true;
            if let Some(sender) = self.sender.take() {
                sender.wake();
            }
        }
        if self.groups_revision != Some(link.groups_revision()) {
            self.groups_revision = Some(link.groups_revision());
            let wanted = link.groups();
            for group in self.groups.iter().filter(|group| !wanted.contains(group)) {
                self.device.listen(*group, false)?;
            }
            for group in wanted.iter().filter(|group| !self.groups.contains(group)) {
                self.device.listen(*group, true)?;
            }
            self.groups = wanted;
        }
        Ok(())
    }

    /// Receives frames until some contain packets for the stack; `Pending` if nothing is left.
    fn receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        for _ in 0..ROUNDS {
            let first = batch.len();
            match self.device.poll_receive(cx, batch) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(0)),
                Poll::Ready(Ok(_)) => {}
                other => return other,
            }
            let mut shared = lock(&self.shared);
            let now = shared.now();
            let link = &mut shared.link;
            batch.retain(first, |frame, _| link.handle_frame(now, frame).map(|_| HEADER_LEN..frame.len()));
            drop(shared);
            self.send_own(cx)?;
            if batch.len() > first {
                return Poll::Ready(Ok(batch.len() - first));
            }
        }
        // Other stations' frames may come without end, so let other tasks run.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Sets the timer to the link's next timeout. Returns whether that has come.
    fn arm(&mut self, cx: &mut Context<'_>) -> bool {
        let shared = lock(&self.shared);
        let (due, epoch) = (shared.link.poll_timeout(), shared.epoch);
        drop(shared);
        self.armed = due;
        let Some(due) = due else { return false };
        let deadline = epoch + Duration::from_nanos(due.as_nanos());
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx).is_ready()
    }
}

impl<F: FrameDevice> Device for EthernetDevice<F> {
    fn capabilities(&self) -> Capabilities {
        let of_frames = self.device.capabilities();
        let told = [self.mtu_max, lock(&self.shared).link.mtu()];
        let mtu = told.into_iter().flatten().fold(of_frames.mtu, usize::min);
        // A packet that the device cuts may exceed the MTU; any other must fit it.
        let gso = |max: usize| if max > of_frames.mtu { max } else { mtu };
        Capabilities {
            medium: Medium::Ip,
            mtu,
            gso_max_v4: gso(of_frames.gso_max_v4),
            gso_max_v6: gso(of_frames.gso_max_v6),
            ..of_frames
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.receiver.clone_from(cx.waker());
        loop {
            let now = lock(&self.shared).now();
            self.turn(now, cx)?;
            if let Poll::Ready(received) = self.receive(cx, batch) {
                return Poll::Ready(received);
            }
            if !self.arm(cx) {
                return Poll::Pending;
            }
        }
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.started {
            self.sender = Some(cx.waker().clone());
            return Poll::Pending;
        }
        // Waiting packets leave first, or new ones would have to wait behind them.
        self.send_own(cx)?;
        self.device.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        let mut shared = lock(&self.shared);
        let now = shared.now();
        let sending = shared.link.send_packet(now, packet, None);
        let due = shared.link.poll_timeout();
        drop(shared);
        match sending {
            Sending::Frame(header) => self.device.send(&header, packet)?,
            Sending::Waiting => {}
            Sending::Refused(_) => self.refused += 1,
        }
        // The receiving task asks the neighbour, and sets its timer if the link wants to wake before the
        // present one ends.
        let earlier = due.is_some_and(|due| self.armed.is_none_or(|armed| due < armed));
        if earlier || sending == Sending::Waiting {
            self.receiver.wake_by_ref();
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.device.flush()
    }

    fn listen_to(&mut self, groups: &[IpAddr]) {
        let mut shared = lock(&self.shared);
        let now = shared.now();
        shared.link.listen_to(now, groups);
        drop(shared);
        // The receiving task sends the reports.
        self.receiver.wake_by_ref();
    }

    fn reached(&mut self, addr: IpAddr) {
        let now = tokio::time::Instant::now();
        let known = |(known, at): (IpAddr, tokio::time::Instant)| {
            known == addr && now.saturating_duration_since(at) < REACHED_TOLD_EVERY
        };
        if !self.reached.is_some_and(known) {
            self.reached = Some((addr, now));
            let mut shared = lock(&self.shared);
            let now = shared.now();
            shared.link.reached(now, addr);
        }
    }

    fn counters(&self) -> Counters {
        let counters = self.device.counters();
        Counters { send_refused: counters.send_refused + self.refused, ..counters }
    }

    fn link_up(&self) -> bool {
        self.device.link_up()
    }

    fn leads_to_kernel(&self) -> bool {
        self.device.leads_to_kernel()
    }
}

impl Shared {
    fn now(&self) -> Instant {
        Instant::ZERO + self.epoch.elapsed()
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // A link is consistent between any two statements that can panic.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Batches without a packet for the stack before other tasks run.
const ROUNDS: usize = 16;

/// How often the link hears that a neighbour is still reachable, well within the time for which it believes
/// so.
const REACHED_TOLD_EVERY: Duration = Duration::from_millis(100);

/// How often the device is asked whether its link is up.
const UP_ASKED_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
