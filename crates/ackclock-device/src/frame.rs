//! Devices that carry Ethernet frames.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::task::{Context, Poll};

use ackclock_link::{HEADER_LEN, MacAddr};
use ackclock_wire::TxPacket;

use crate::{Capabilities, Counters, ReceiveBatch};

/// A device for Ethernet frames. [`EthernetDevice`](crate::EthernetDevice) makes a [`Device`](crate::Device)
/// of it.
///
/// The rules are those of [`Device`](crate::Device): the same caller, the same fatal errors.
pub trait FrameDevice: fmt::Debug + Send {
    /// The device's capabilities. Its medium is [`Medium::Link`](crate::Medium::Link); its sizes are those of
    /// IP packets.
    fn capabilities(&self) -> Capabilities;

    /// Receives frames into `batch`, with what is known about the packets inside.
    ///
    /// # Errors
    /// The device is gone or broken.
    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>>;

    /// Ready when [`FrameDevice::send`] would take a frame at once.
    ///
    /// # Errors
    /// The device is gone or broken.
    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends `packet` behind the Ethernet header `header`. Without room for it, drops and counts it.
    ///
    /// # Errors
    /// The device is gone or broken.
    fn send(&mut self, header: &[u8; HEADER_LEN], packet: &TxPacket<'_>) -> io::Result<()>;

    /// Sends what [`FrameDevice::send`] has accepted and holds back: see
    /// [`Device::flush`](crate::Device::flush).
    ///
    /// # Errors
    /// The device is gone or broken.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Starts or stops receiving frames for the group `group`. Devices that receive all frames do nothing.
    ///
    /// # Errors
    /// The device cannot.
    fn listen(&mut self, group: MacAddr, on: bool) -> io::Result<()> {
        let _ = (group, on);
        Ok(())
    }

    /// The device's counters.
    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// Whether the link is up.
    fn link_up(&self) -> bool {
        true
    }

    /// Whether this machine's kernel is on the link: see
    /// [`Device::leads_to_kernel`](crate::Device::leads_to_kernel).
    fn leads_to_kernel(&self) -> bool {
        false
    }
}

/// A locally administered Ethernet address, always the same for the same value.
pub(crate) fn made_mac(value: &impl Hash) -> MacAddr {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    MacAddr::local(hasher.finish())
}
