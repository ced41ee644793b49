//! Two devices joined by a cable of memory, for tests and for machines without TUN. They need no runtime.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ackclock_wire::{RxMeta, TxPacket, gso};

use crate::{Capabilities, Counters, Device, ReceiveBatch};

/// The configuration of a pair, for both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Largest IP packet in bytes.
    pub mtu: usize,
    /// Whether packets of up to 64 KB cross whole, with unfinished checksums.
    pub gso: bool,
    /// How many packets may be in flight in each direction. A stack waits for room, so nothing is lost. A
    /// program that sends without calling [`Device::poll_send_ready`] loses any further packets, and they are
    /// counted. A packet that has to be cut counts as one, so its segments may exceed the number.
    pub queue_packets: usize,
}

impl Default for Config {
    /// MTU 1500, no offload, 1,024 packets.
    fn default() -> Self {
        Self { mtu: 1500, gso: false, queue_packets: 1024 }
    }
}

/// Makes two devices. Each receives the packets that the other sends.
///
/// When one is dropped, the other receives what is still in flight and then fails with
/// [`io::ErrorKind::NetworkDown`].
///
/// ```
/// use ackclock_device::{Device, memory};
/// let (a, _b) = memory::pair(memory::Config { mtu: 9000, ..memory::Config::default() });
/// assert_eq!(a.capabilities().mtu, 9000);
/// ```
#[must_use]
pub fn pair(config: Config) -> (MemoryDevice, MemoryDevice) {
    let mtu = Arc::new(AtomicUsize::new(config.mtu));
    let queues = [(); 2].map(|()| Arc::new(Mutex::new(Queue::new(config.queue_packets))));
    let [forth, back] = queues;
    let device = |sends: &Arc<Mutex<Queue>>, receives: &Arc<Mutex<Queue>>| MemoryDevice {
        gso: config.gso,
        cable: Cable { mtu: Arc::clone(&mtu), sends: Arc::clone(sends), receives: Arc::clone(receives) },
        counters: Counters::default(),
    };
    (device(&forth, &back), device(&back, &forth))
}

/// One end of a pair.
#[derive(Debug)]
pub struct MemoryDevice {
    gso: bool,
    cable: Cable,
    counters: Counters,
}

/// A handle on the cable between two devices, for changing it while they are in use.
#[derive(Clone, Debug)]
pub struct Cable {
    mtu: Arc<AtomicUsize>,
    sends: Arc<Mutex<Queue>>,
    receives: Arc<Mutex<Queue>>,
}

impl MemoryDevice {
    /// A handle on the cable.
    #[must_use]
    pub fn cable(&self) -> Cable {
        self.cable.clone()
    }

    /// Whether the queue takes a packet now. Counts a dropped packet if not.
    fn has_room(&mut self) -> bool {
        let queue = lock(&self.cable.sends);
        // `push` reports the error.
        let room = queue.unplugged || queue.packets.len() < queue.packets_max;
        drop(queue);
        self.counters.send_no_room += u64::from(!room);
        room
    }

    /// Puts a packet on the cable, whether or not there is room.
    fn push(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        if packet.len() > self.len_max(packet) {
            self.counters.send_refused += 1;
            return Ok(());
        }
        let mut queue = lock(&self.cable.sends);
        if queue.unplugged {
            return Err(unplugged());
        }
        let mut bytes = queue.spare.pop().unwrap_or_default();
        for part in packet.parts() {
            bytes.extend_from_slice(part);
        }
        queue.packets.push_back((bytes, packet.meta()));
        self.counters.sent += 1;
        let receiver = queue.receiver.take();
        drop(queue);
        wake(receiver);
        Ok(())
    }

    fn len_max(&self, packet: &TxPacket<'_>) -> usize {
        if packet.segment_size.is_some() { GSO_MAX } else { self.cable.mtu.load(Ordering::Relaxed) }
    }
}

impl Device for MemoryDevice {
    fn capabilities(&self) -> Capabilities {
        let plain = Capabilities::ip(self.cable.mtu.load(Ordering::Relaxed));
        if self.gso {
            Capabilities { gso_max_v4: GSO_MAX, gso_max_v6: GSO_MAX, tx_checksum: true, ..plain }
        } else {
            plain
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let mut queue = lock(&self.cable.receives);
        let mut received = 0;
        while let Some((bytes, meta)) = queue.packets.pop_front() {
            if !batch.push(&bytes, meta) {
                queue.packets.push_front((bytes, meta));
                break;
            }
            received += 1;
            queue.recycle(bytes);
        }
        self.counters.received += received as u64;
        if received > 0 {
            let sender = queue.sender.take();
            drop(queue);
            wake(sender);
            Poll::Ready(Ok(received))
        } else if !queue.packets.is_empty() {
            Poll::Ready(Ok(0))
        } else if queue.unplugged {
            Poll::Ready(Err(unplugged()))
        } else {
            remember(&mut queue.receiver, cx);
            Poll::Pending
        }
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut queue = lock(&self.cable.sends);
        if queue.unplugged {
            Poll::Ready(Err(unplugged()))
        } else if queue.packets.len() < queue.packets_max {
            Poll::Ready(Ok(()))
        } else {
            remember(&mut queue.sender, cx);
            Poll::Pending
        }
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        if !self.has_room() {
            return Ok(());
        }
        let as_it_stands = packet.segment_size.is_none() && !packet.checksum.is_partial();
        if as_it_stands || self.gso {
            return self.push(packet);
        }
        // A sender that found room for a packet has room for all its segments.
        let mut result = Ok(());
        gso::cut(packet, |segment| {
            if result.is_ok() {
                result = self.push(segment);
            }
        });
        result
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl Drop for MemoryDevice {
    fn drop(&mut self) {
        self.cable.unplug();
    }
}

impl Cable {
    /// Sets the MTU of both devices.
    pub fn set_mtu(&self, mtu: usize) {
        self.mtu.store(mtu, Ordering::Relaxed);
    }

    /// Removes both devices, like a TUN interface that is deleted.
    pub fn unplug(&self) {
        for queue in [&self.sends, &self.receives] {
            let mut queue = lock(queue);
            queue.unplugged = true;
            let waiting = [queue.receiver.take(), queue.sender.take()];
            drop(queue);
            waiting.into_iter().for_each(wake);
        }
    }
}

/// One direction.
#[derive(Debug)]
struct Queue {
    packets: VecDeque<(Vec<u8>, RxMeta)>,
    packets_max: usize,
    /// Empty packet buffers, kept so that a packet costs no allocation.
    spare: Vec<Vec<u8>>,
    receiver: Option<Waker>,
    sender: Option<Waker>,
    unplugged: bool,
}

impl Queue {
    fn new(packets_max: usize) -> Self {
        let (packets, spare) = (VecDeque::new(), Vec::new());
        Self { packets, packets_max, spare, receiver: None, sender: None, unplugged: false }
    }

    fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    // A queue is consistent between any two statements that can panic.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remember(slot: &mut Option<Waker>, cx: &Context<'_>) {
    if !slot.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *slot = Some(cx.waker().clone());
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn unplugged() -> io::Error {
    io::Error::new(io::ErrorKind::NetworkDown, "the other end of the in-memory device is gone")
}

/// The largest length in an IPv4 length field.
const GSO_MAX: usize = 65_535;

/// 64 buffers of 64 KB: at most 4 MiB in each direction.
const SPARE_MAX: usize = 64;

#[cfg(test)]
mod tests;
