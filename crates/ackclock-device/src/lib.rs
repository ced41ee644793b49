//! Network devices: the source and destination of packets.
//!
//! A [`Device`] carries IP packets. These types are devices:
//!
//! - a TUN interface: [`open`], or [`PassedFd`] if another process opened it;
//! - a TAP interface or a packet socket under a link layer: [`EthernetOptions`];
//! - addresses of this host: [`RawDevice`];
//! - one end of a cable in memory: [`memory::pair`];
//! - a capture file: [`Replay`];
//! - anything that carries packets: [`over`];
//! - a wrapper around another device: [`impair::Impaired`], [`capture::Captured`];
//! - your own type.
//!
//! A [`FrameDevice`] carries Ethernet frames, and [`EthernetDevice`] makes a [`Device`] of it.
//! [`mod@configure`] gives the kernel's end of a TUN or TAP interface its addresses and routes.
//!
//! ```
//! use std::task::{Context, Poll, Waker};
//! use ackclock_device::{Device, ReceiveBatch, memory};
//! use ackclock_wire::TxPacket;
//!
//! let (mut left, mut right) = memory::pair(memory::Config::default());
//! left.send(&TxPacket::complete(&[0x45; 20]))?;
//!
//! let mut batch = ReceiveBatch::new(64, 1 << 16);
//! let received = right.poll_receive(&mut Context::from_waker(Waker::noop()), &mut batch);
//! assert!(matches!(received, Poll::Ready(Ok(1))));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Features and limits
//!
//! Devices of the operating system (TUN, TAP, packet and raw sockets, [`mod@configure`]) come with the
//! feature `os`, which is on by default and needs Linux. Everything else builds anywhere: memory, Ethernet
//! over any [`FrameDevice`], impairment, several devices and captures. `over` runs a device over streams.
//! The feature `net` adds sockets, `sink` adds sinks, and `tun-rs` adds the crate of that name. The feature
//! `recordings`, which is on by default, brings recordings (`Replay`, `recording`). The feature `xdp` adds
//! AF_XDP (`XdpDevice`) to `os`.
//!
//! This is the only crate of the workspace with `unsafe` code: the system calls of `sys`, and descriptors
//! that change their owner.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod addresses;
mod batch;
#[cfg(feature = "os")]
mod busy;
pub mod capture;
#[cfg(feature = "os")]
pub mod configure;
#[cfg(not(feature = "os"))]
pub mod configure {
    //! Networks. Configuring the kernel's end comes with the feature `os`.

    pub use crate::addresses::kernel_has;
    pub use ackclock_wire::{Cidr, CidrError};
}
mod deadline;
mod error;
pub mod ethernet;
#[cfg(feature = "os")]
mod fd;
mod frame;
#[cfg(feature = "os")]
mod framing;
#[cfg(feature = "os")]
mod holder;
pub mod impair;
pub mod memory;
#[cfg(feature = "os")]
pub mod netns;
#[cfg(feature = "os")]
mod offload;
#[cfg(feature = "os")]
mod open;
pub mod outlet;
pub mod over;
#[cfg(feature = "os")]
pub mod packet;
#[cfg(feature = "os")]
mod passed;
#[cfg(feature = "os")]
mod queues;
#[cfg(feature = "os")]
mod raw;
#[cfg(feature = "recordings")]
pub mod recording;
#[cfg(feature = "recordings")]
mod replay;
pub mod several;
#[cfg(feature = "os")]
mod status;
#[cfg(feature = "os")]
mod sys;
#[cfg(feature = "os")]
mod tap;
#[cfg(feature = "os")]
mod tun;
#[cfg(feature = "os")]
mod vnet;
#[cfg(feature = "xdp")]
mod xdp;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::task::{Context, Poll};

use ackclock_wire::{Egress, Route, TxPacket};

pub use ackclock_link as link;
pub use batch::ReceiveBatch;
#[cfg(feature = "os")]
pub use configure::configure;
#[cfg(feature = "os")]
pub use error::explain;
pub use error::{NAME_MAX, OpenError, QUEUES_MAX};
pub use ethernet::{EthernetDevice, EthernetOptions, LinkHandle};
pub use frame::FrameDevice;
#[cfg(feature = "os")]
pub use offload::OffloadDevice;
#[cfg(feature = "os")]
pub use open::{OffloadMode, open};
#[cfg(feature = "os")]
pub use packet::{PacketDevice, PacketOptions};
#[cfg(feature = "os")]
pub use passed::{FdError, PassedFd};
#[cfg(feature = "os")]
pub use queues::{Queues, open_queues};
#[cfg(feature = "os")]
pub use raw::{Ports, RawConfig, RawDevice, RawError, reset_command};
#[cfg(feature = "recordings")]
pub use replay::{Pace, Replay, ReplayConfig};
#[cfg(feature = "os")]
pub use tap::TapDevice;
#[cfg(feature = "os")]
pub use tun::TunDevice;
#[cfg(feature = "xdp")]
pub use xdp::{XdpDevice, XdpMode};

/// The medium of a device at its lowest layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Medium {
    /// IP packets, as on a TUN device.
    Ip,
    /// Frames with a link-layer header in front of the IP packet.
    Link {
        /// Bytes in front of each IP packet.
        header_len: usize,
    },
}

/// The capabilities of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The lowest layer.
    pub medium: Medium,
    /// Largest IP packet on the wire in bytes.
    pub mtu: usize,
    /// The largest IPv4 packet in bytes with a segment size that the device accepts and cuts itself. If it is
    /// at most `mtu`, the device cuts nothing.
    pub gso_max_v4: usize,
    /// As `gso_max_v4`, for IPv6.
    pub gso_max_v6: usize,
    /// Whether the device finishes the checksums, TCP's or others, of packets sent as
    /// [`ackclock_wire::ChecksumState::Partial`].
    pub tx_checksum: bool,
    /// The number of queues that the interface was opened with. Each is a separate device with its share of
    /// the flows.
    pub queues: usize,
}

impl Capabilities {
    /// A device for IP packets up to `mtu` bytes without offload and with one queue.
    #[must_use]
    pub const fn ip(mtu: usize) -> Self {
        Self { medium: Medium::Ip, mtu, gso_max_v4: mtu, gso_max_v6: mtu, tx_checksum: false, queues: 1 }
    }
}

/// Counts of a device, in packets as they crossed it (a packet of 64 KB counts once).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Sent.
    pub sent: u64,
    /// Not sent because the link was down.
    pub send_link_down: u64,
    /// Not sent because there was no room.
    pub send_no_room: u64,
    /// Not sent because the device refuses the packet (too long for it, not an IP packet).
    pub send_refused: u64,
    /// Received.
    pub received: u64,
    /// Lost because they were not fetched in time.
    pub receive_no_room: u64,
    /// Discarded because it was malformed, or received with its offload header ignored.
    pub receive_malformed: u64,
}

/// A network device.
///
/// A stack's driver calls `poll_receive` until it is pending, hands the packets to the endpoint, then sends
/// what the endpoint has: `poll_send_ready`, then `send`, for each packet, and `flush` after the last. Errors
/// are fatal for the device unless they are of kind [`io::ErrorKind::Interrupted`].
///
/// The stack calls and drops its device under a lock of its own, in the context of its driver's runtime. A
/// device must not use the stack that it serves.
pub trait Device: fmt::Debug + Send {
    /// The device's capabilities. They may change while the device is up (a new MTU, for example), so a
    /// driver queries them from time to time.
    fn capabilities(&self) -> Capabilities;

    /// The routes of a device that combines several. A stack learns from them the MTU towards each
    /// destination, and which of its addresses is at the same device. The numbers of the devices are valid
    /// within one result. [`Route::longest`] says which route counts. A single device has no routes.
    fn routes(&self) -> Vec<Route<Egress>> {
        Vec::new()
    }

    /// A number that changes whenever a call of the program changes capabilities or routes. A driver then
    /// queries them at once, and not only from time to time.
    fn generation(&self) -> u64 {
        0
    }

    /// Receives packets into `batch`, which has room, until it is full or nothing is left. Ready with the
    /// number added (at least one).
    ///
    /// # Errors
    /// The device is gone or broken.
    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>>;

    /// Ready when [`Device::send`] would take a packet at once.
    ///
    /// # Errors
    /// The device is gone or broken.
    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends one packet. A packet for which the device has no room is dropped and counted, as by a network
    /// interface. Every device of this crate also takes packets with a segment size or an unfinished checksum
    /// beyond its capabilities, and does the work in software.
    ///
    /// # Errors
    /// The device is gone or broken.
    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()>;

    /// Sends what [`Device::send`] has accepted and holds back, so that one system call serves many packets.
    /// A device that holds nothing back does nothing. A caller of `send` calls this before it waits for
    /// anything.
    ///
    /// # Errors
    /// The device is gone or broken.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Sends several packets in order, and flushes. A stack's endpoint lends its packets one by one, so its
    /// driver calls `send` for each and `flush` at the end.
    ///
    /// # Errors
    /// The device is gone or broken.
    fn send_batch(&mut self, packets: &[TxPacket<'_>]) -> io::Result<()> {
        packets.iter().try_for_each(|packet| self.send(packet))?;
        self.flush()
    }

    /// Packets to `addr` are known to arrive, because of an answer. Called at most once for each packet sent,
    /// right after it. A device with a link layer needs fewer questions to its neighbours (RFC 4861 §7.3.1).
    /// Others do nothing.
    fn reached(&mut self, _addr: IpAddr) {}

    /// The multicast groups that the stack listens to from now on. A device with a link layer sees to it that
    /// their packets arrive (IGMP, MLD, filters of the interface); one that carries IP packets needs to do
    /// nothing (the default).
    fn listen_to(&mut self, _groups: &[IpAddr]) {}

    /// The device's counters; zeros if it does not count.
    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// Whether the link is up. While it is down, packets sent are dropped and counted, and the device stays
    /// usable.
    fn link_up(&self) -> bool {
        true
    }

    /// Whether this machine's kernel is at the other end, as of a TUN or TAP device, or beside the stack on
    /// the same interface. It keeps what it sends to its own addresses, and answers for them, so the stack
    /// must not have one.
    fn leads_to_kernel(&self) -> bool {
        false
    }

    /// The descriptor by which another process can go on with the device: it must hold everything that the
    /// device has not received or sent yet. `None` (the default): the device lives in this process.
    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn routes(&self) -> Vec<Route<Egress>> {
        (**self).routes()
    }

    fn generation(&self) -> u64 {
        (**self).generation()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        (**self).poll_receive(cx, batch)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        (**self).send(packet)
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }

    fn send_batch(&mut self, packets: &[TxPacket<'_>]) -> io::Result<()> {
        (**self).send_batch(packets)
    }

    fn reached(&mut self, addr: IpAddr) {
        (**self).reached(addr);
    }

    fn listen_to(&mut self, groups: &[IpAddr]) {
        (**self).listen_to(groups);
    }

    fn counters(&self) -> Counters {
        (**self).counters()
    }

    fn link_up(&self) -> bool {
        (**self).link_up()
    }

    fn leads_to_kernel(&self) -> bool {
        (**self).leads_to_kernel()
    }

    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        (**self).descriptor()
    }
}
