//! Devices over anything that carries whole packets: sockets, streams, sinks, the devices of other crates.
//!
//! [`PacketIo`] is the trait of such a carrier. [`IpOver`] turns one into a [`Device`] for IP packets, and
//! [`EthernetOver`] turns one into a [`FrameDevice`] for Ethernet frames. Both cut large packets, count, and
//! keep to the MTU. Carriers are:
//!
//! - tokio's `UdpSocket` and `UnixDatagram` (feature `net`), one in each datagram;
//! - [`PacketStream`] around any `AsyncRead + AsyncWrite`, each behind its length, as QEMU and passt send
//!   frames, or one in each call, as the asynchronous devices of the crate `tun` do;
//! - `TunRs`, a TUN interface of macOS or Windows by the crate `tun-rs` (feature of that name);
//! - `Items` around any `Stream + Sink` (feature `sink`);
//! - a type of your own.
//!
//! ```
//! use ackclock_device::Device;
//! use ackclock_device::over::{IpOver, PacketStream};
//! let (near, far) = tokio::io::duplex(1 << 16);
//! let left = IpOver::new(PacketStream::prefixed(near), 1400);
//! let right = IpOver::new(PacketStream::prefixed(far), 1400);
//! assert_eq!((left.capabilities().mtu, right.capabilities().mtu), (1400, 1400));
//! ```

#[cfg(feature = "sink")]
mod items;
#[cfg(feature = "net")]
mod sockets;
mod stream;
#[cfg(feature = "tun-rs")]
mod tun_rs;

use std::fmt;
use std::io;
use std::task::{Context, Poll, Waker};

use ackclock_link::HEADER_LEN;
use ackclock_wire::{ChecksumState, RxMeta, TxPacket, gso};

use crate::batch::BYTES_MIN;
use crate::{Capabilities, Counters, Device, FrameDevice, Medium, ReceiveBatch};

#[cfg(feature = "tun-rs")]
pub use self::tun_rs::{TunRs, TunRsError};
#[cfg(feature = "sink")]
pub use items::Items;
#[cfg(all(feature = "net", unix))]
pub use sockets::accept_datagrams;
pub use stream::PacketStream;

/// A carrier of whole packets, which are IP packets or Ethernet frames.
///
/// One task calls `poll_receive` again and again. A carrier that holds packets back sends more of them there.
pub trait PacketIo: fmt::Debug + Send {
    /// Receives one packet into `buffer`. Ready with its length, or with as much as fits.
    ///
    /// # Errors
    /// The carrier is gone or broken.
    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Ready when [`send`](Self::send) would take a packet at once.
    ///
    /// # Errors
    /// The carrier is gone or broken.
    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends one packet, or nothing of it.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock): there is no room.
    /// [`InvalidInput`](io::ErrorKind::InvalidInput): the carrier does not take such a packet, which may be
    /// too long. [`ConnectionRefused`](io::ErrorKind::ConnectionRefused),
    /// [`HostUnreachable`](io::ErrorKind::HostUnreachable) and
    /// [`NetworkUnreachable`](io::ErrorKind::NetworkUnreachable): the peer is not there at the moment. After
    /// these the packet is lost and counted, as on any network. After any other, the carrier is gone or
    /// broken.
    fn send(&mut self, packet: &[u8]) -> io::Result<()>;

    /// Sends what [`send`](Self::send) has accepted and holds back, as far as the carrier takes it now.
    ///
    /// # Errors
    /// The carrier is gone or broken.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A device whose IP packets `P` carries.
#[derive(Debug)]
pub struct IpOver<P> {
    carrier: Carrier<P>,
    mtu: usize,
}

/// A device whose Ethernet frames `P` carries. [`EthernetOptions::on`](crate::EthernetOptions::on) puts a
/// link layer on it.
#[derive(Debug)]
pub struct EthernetOver<P> {
    carrier: Carrier<P>,
    mtu: usize,
    checksum: ChecksumState,
}

impl<P: PacketIo> IpOver<P> {
    /// A device for packets up to `mtu` bytes, at most 65,535.
    #[must_use]
    pub fn new(io: P, mtu: usize) -> Self {
        Self { carrier: Carrier::new(io), mtu: mtu.min(MTU_MAX) }
    }

    /// The carrier.
    pub fn carrier(&self) -> &P {
        &self.carrier.io
    }
}

impl<P: PacketIo> EthernetOver<P> {
    /// A device for frames with packets up to `mtu` bytes, at most 65,535. Longer ones are received, too.
    #[must_use]
    pub fn new(io: P, mtu: usize) -> Self {
        Self { carrier: Carrier::new(io), mtu: mtu.min(MTU_MAX), checksum: ChecksumState::Complete }
    }

    /// Trusts checksums. A guest of libkrun leaves them unfinished by default, and the socket does not carry
    /// the flag that says so. Use it only for a carrier that damages nothing, such as a Unix socket.
    #[must_use]
    pub fn trusting_checksums(mut self) -> Self {
        self.checksum = ChecksumState::Verified;
        self
    }
}

impl<P: PacketIo> Device for IpOver<P> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ip(self.mtu)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let is_ip = |packet: &[u8]| packet.first().is_some_and(|first| matches!(first >> 4, 4 | 6));
        let room = self.mtu.max(ROOM_MIN) + 1;
        self.carrier.poll_receive(cx, batch, room, |packet| is_ip(packet).then(RxMeta::default))
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.carrier.io.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        self.carrier.send(&[], packet, self.mtu)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.carrier.io.flush()
    }

    fn counters(&self) -> Counters {
        self.carrier.counters
    }
}

impl<P: PacketIo> FrameDevice for EthernetOver<P> {
    fn capabilities(&self) -> Capabilities {
        Capabilities { medium: Medium::Link { header_len: HEADER_LEN }, ..Capabilities::ip(self.mtu) }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let meta = RxMeta { checksum: self.checksum, segment_size: None };
        self.carrier.poll_receive(cx, batch, FRAME_ROOM, |frame| (frame.len() > HEADER_LEN).then_some(meta))
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.carrier.io.poll_send_ready(cx)
    }

    fn send(&mut self, header: &[u8; HEADER_LEN], packet: &TxPacket<'_>) -> io::Result<()> {
        self.carrier.send(header, packet, self.mtu)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.carrier.io.flush()
    }

    fn counters(&self) -> Counters {
        self.carrier.counters
    }
}

/// The part that both devices share.
#[derive(Debug)]
struct Carrier<P> {
    io: P,
    counters: Counters,
    /// The packet that is sent, in one piece.
    whole: Vec<u8>,
    /// An error that came behind received packets.
    failed: Option<io::Error>,
}

impl<P: PacketIo> Carrier<P> {
    fn new(io: P) -> Self {
        Self { io, counters: Counters::default(), whole: Vec::new(), failed: None }
    }

    /// Receives packets into slots of `room` bytes; `meta` describes each or refuses it.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut ReceiveBatch,
        room: usize,
        meta: impl Fn(&[u8]) -> Option<RxMeta>,
    ) -> Poll<io::Result<usize>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        let mut received = 0;
        for _ in 0..PACKETS_PER_POLL {
            let Some(slot) = batch.slot(room) else { return Poll::Ready(Ok(received)) };
            let len = match self.io.poll_receive(cx, slot) {
                Poll::Ready(Ok(len)) => len,
                Poll::Pending if received == 0 => return Poll::Pending,
                Poll::Ready(Err(error)) if received == 0 => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Ready(Ok(received)),
                Poll::Ready(Err(error)) => {
                    self.failed = Some(error);
                    return Poll::Ready(Ok(received));
                }
            };
            // A packet that fills its slot may have been longer.
            match slot.get(..len).filter(|_| len < room).and_then(&meta) {
                Some(meta) => {
                    batch.commit(0, len, meta);
                    self.counters.received += 1;
                    received += 1;
                }
                None => self.counters.receive_malformed += 1,
            }
        }
        if received > 0 {
            return Poll::Ready(Ok(received));
        }
        // Much arrived, and nothing of use: others have their turn first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn send(&mut self, header: &[u8], packet: &TxPacket<'_>, mtu: usize) -> io::Result<()> {
        if packet.segment_size.is_none() && !packet.checksum.is_partial() {
            return self.send_whole(header, packet, mtu);
        }
        let mut result = Ok(());
        gso::cut(packet, |segment| {
            if result.is_ok() {
                result = self.send_whole(header, segment, mtu);
            }
        });
        result
    }

    fn send_whole(&mut self, header: &[u8], packet: &TxPacket<'_>, mtu: usize) -> io::Result<()> {
        if packet.len() > mtu {
            self.counters.send_refused += 1;
            return Ok(());
        }
        self.whole.clear();
        self.whole.extend_from_slice(header);
        for part in packet.parts() {
            self.whole.extend_from_slice(part);
        }
        let Err(error) = self.io.send(&self.whole) else {
            self.counters.sent += 1;
            return Ok(());
        };
        match error.kind() {
            io::ErrorKind::WouldBlock => self.counters.send_no_room += 1,
            io::ErrorKind::InvalidInput => self.counters.send_refused += 1,
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable => self.counters.send_link_down += 1,
            _ => return Err(error),
        }
        Ok(())
    }
}

/// The tasks that wait for a carrier with one waker for its writing half.
#[derive(Debug)]
struct Waiting {
    /// The task that receives. It also goes on with what is held back.
    receiver: Waker,
    /// The task that waits for room, which may be another.
    sender: Option<Waker>,
}

impl Waiting {
    fn new() -> Self {
        Self { receiver: Waker::noop().clone(), sender: None }
    }

    fn room(&mut self) {
        if let Some(sender) = self.sender.take() {
            sender.wake();
        }
    }
}

/// The error of a carrier whose other end has closed it.
fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the other end has closed what carries the packets")
}

/// The largest length in an IPv4 length field.
const MTU_MAX: usize = 65_535;

/// Room for a packet, however small the MTU.
const ROOM_MIN: usize = 2048;

/// A header, the largest IPv6 packet without a jumbo option, and one byte that reveals anything larger:
/// guests send large frames where they may.
const FRAME_ROOM: usize = HEADER_LEN + 40 + 65_535 + 1;

/// Packets that are looked at before others have their turn.
const PACKETS_PER_POLL: usize = 256;

const _: () = assert!(FRAME_ROOM <= BYTES_MIN && MTU_MAX < BYTES_MIN);

#[cfg(test)]
mod tests;
