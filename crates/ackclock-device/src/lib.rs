//! Network devices: where packets come from and go to.
//!
//! This is the only crate of the workspace with `unsafe` code: the system calls of the offload backend.

#![warn(missing_docs)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod batch;

use std::fmt;
use std::io;
use std::task::{Context, Poll};

use ackclock_wire::TxPacket;

pub use batch::ReceiveBatch;

/// What a device speaks at its lowest layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Medium {
    /// IP packets, as a TUN device carries.
    Ip,
    /// Frames with a link-layer header in front of the IP packet, whose length in bytes is given.
    Link {
        /// Bytes in front of each IP packet.
        header_len: usize,
    },
}

/// What a device can do for a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The lowest layer.
    pub medium: Medium,
    /// Largest IP packet on the wire in bytes.
    pub mtu: usize,
    /// Largest IPv4 packet in bytes that the device accepts with a segment size and cuts itself; equal to
    /// `mtu` or less: it cuts nothing.
    pub gso_max_v4: usize,
    /// The same for IPv6.
    pub gso_max_v6: usize,
    /// Whether the device finishes TCP checksums of packets sent as [`ackclock_wire::ChecksumState::Partial`].
    pub tx_checksum: bool,
    /// How many queues can be served at once.
    pub queues: usize,
}

/// A network device.
///
/// A stack's driver calls `poll_receive` until it is pending, hands what came to the endpoint, then sends what the
/// endpoint has: for each packet first `poll_send_ready`, then `send`. Errors are fatal for the device unless
/// they are of kind [`io::ErrorKind::Interrupted`].
pub trait Device: fmt::Debug + Send {
    /// What the device can do. It may change while the device is up (its MTU is set anew), so a driver asks
    /// from time to time.
    fn capabilities(&self) -> Capabilities;

    /// Receives packets into `batch` until it is full or nothing is left; ready with how many were added (at
    /// least one).
    ///
    /// # Errors
    /// The device is gone or broken.
    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>>;

    /// Ready when [`Device::send`] would take a packet at once.
    ///
    /// # Errors
    /// The device is gone or broken.
    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends one packet; a packet that the device has no room for is dropped and counted, as a network
    /// interface does.
    ///
    /// # Errors
    /// The device is gone or broken.
    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()>;
}
