//! A device in the place of a host, so that a stack outside of the network has its packets carried by it.
//!
//! The network takes packets from the device when that becomes readable, and hands it those that arrive.
//! Nothing waits in between.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use ackclock::device::{Device, ReceiveBatch};
use ackclock_core::{Instant, Limits};
use ackclock_wire::{RxMeta, TxPacket};

use super::pulse::Pulse;
use crate::guest::Guest;
use crate::host::destination;
use crate::packet::HEADER_MAX;

/// A device at a node. The clones are one.
#[derive(Clone, Debug)]
pub(super) struct Attached(Arc<Mutex<Place>>);

struct Place {
    device: Box<dyn Device>,
    /// The received packets.
    batch: ReceiveBatch,
    /// How many packets of it have been sent.
    sent: usize,
    bell: Waker,
    addr: IpAddr,
    mtu: usize,
    /// The device has failed, and the host is silent.
    failed: bool,
}

/// The device's waker.
#[derive(Debug)]
struct Bell {
    node: u32,
    pulse: Arc<Pulse>,
}

impl Attached {
    pub fn new(device: Box<dyn Device>, node: u32, addr: IpAddr, mtu: usize, pulse: Arc<Pulse>) -> Self {
        let (batch, bell) = (ReceiveBatch::new(BATCH, 0), Waker::from(Arc::new(Bell { node, pulse })));
        Self(Arc::new(Mutex::new(Place { device, batch, sent: 0, bell, addr, mtu, failed: false })))
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what was received while the host was down.
    pub fn drop_received(&self) {
        while self.place().poll_next(|_| ()) {}
    }
}

impl Guest for Attached {
    fn handle_packet(&mut self, _: Instant, packet: &[u8], _: RxMeta) {
        let mut place = self.place();
        let sent = place.device.send(&TxPacket::complete(packet)).and_then(|()| place.device.flush());
        place.failed |= sent.is_err();
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, _: Instant, _: Limits, send: &mut dyn FnMut(&TxPacket<'_>)) -> bool {
        self.place().poll_next(send)
    }
}

impl Place {
    /// Takes the next packet that may enter the network.
    fn poll_next(&mut self, take: impl FnOnce(&TxPacket<'_>)) -> bool {
        loop {
            while let Some((bytes, meta)) = self.batch.iter().nth(self.sent) {
                self.sent += 1;
                if let Some(packet) = self.entering(bytes, meta) {
                    take(&packet);
                    return true;
                }
            }
            self.batch.clear();
            self.sent = 0;
            if self.failed {
                return false;
            }
            match self.device.poll_receive(&mut Context::from_waker(&self.bell), &mut self.batch) {
                Poll::Ready(received) => self.failed = received.is_err(),
                Poll::Pending => return false,
            }
        }
    }

    /// The packet, if the host may send it.
    fn entering<'a>(&self, bytes: &'a [u8], meta: RxMeta) -> Option<TxPacket<'a>> {
        let from_host = source(bytes) == Some(self.addr);
        let multicast = destination(bytes).is_none_or(|to| to.is_multicast());
        let whole = !meta.checksum.is_partial() && meta.segment_size.is_none();
        if !from_host || multicast || !whole || bytes.len() > self.mtu {
            return None;
        }
        let packet = TxPacket::complete(bytes);
        let headers = headers_len(bytes, packet.transport_offset.into())?;
        let (header, payload) = bytes.split_at(headers);
        Some(TxPacket { header, payload: [payload, &[]], ..packet })
    }
}

/// The length of the headers of IP and of what it carries, as far as the network keeps them apart; `None`
/// for a packet that is cut off.
fn headers_len(bytes: &[u8], transport: usize) -> Option<usize> {
    let is_v6 = bytes.first()? >> 4 == 6;
    let rest = bytes.get(transport..).filter(|_| transport >= 20)?;
    let protocol = bytes[if is_v6 { 6 } else { 9 }];
    // RFC 791 §3.1: the offset of a fragment.
    let is_later_fragment = !is_v6 && (bytes[6] & 0x1f | bytes[7]) != 0;
    let len = match protocol {
        TCP => usize::from(*rest.get(12)? >> 4) * 4,
        UDP if !is_later_fragment => 8,
        _ => 0,
    };
    // RFC 9293 §3.1: a TCP header has 20 bytes at least.
    let is_cut = protocol == TCP && (is_later_fragment || len < 20);
    Some((transport + len).min(HEADER_MAX)).filter(|len| !is_cut && *len <= bytes.len())
}

fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => packet.get(12..16)?.first_chunk::<4>().map(|octets| IpAddr::from(*octets)),
        6 => packet.get(8..24)?.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
        _ => None,
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.pulse.ring(self.node);
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("device", &self.device)
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

/// Packets that are received at once.
const BATCH: usize = 64;
const TCP: u8 = 6;
const UDP: u8 = 17;
