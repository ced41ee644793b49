//! A TAP device: the Ethernet interface of the TUN driver, through the `tun-tap` crate or, for 64 KB packets
//! and unfinished checksums, with a virtio-net header.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, FromRawFd, IntoRawFd, OwnedFd};
use std::task::{Context, Poll};

use ackclock_link::{HEADER_LEN, MacAddr};
use ackclock_wire::TxPacket;
use tun_tap::{Iface, Mode};

use crate::busy::when_free;
use crate::configure::TunTap;
use crate::error::check_name;
use crate::fd::{Attachment, ReadStep, TunFd};
use crate::frame::made_mac;
use crate::framing::{self, Framing};
use crate::{Capabilities, Counters, FrameDevice, OffloadMode, OpenError, ReceiveBatch, offload, sys};

/// A TAP device. The kernel has an Ethernet interface at its other end, with separate addresses.
#[derive(Debug)]
pub struct TapDevice {
    fd: TunFd,
    framing: Framing,
    kernel_mac: MacAddr,
}

impl TapDevice {
    /// Attaches to the interface `name`. If it does not exist, it is created and lives as long as the device.
    ///
    /// With [`OffloadMode::Auto`], a kernel that cannot offload gets a plain device, and the second value
    /// says why.
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    pub fn open(name: &str, mode: OffloadMode) -> Result<(Self, Option<String>), OpenError> {
        check_name(name)?;
        if mode == OffloadMode::Off {
            return Ok((Self::plain(name)?, None));
        }
        match offload::attach(name, TunTap::TAP) {
            Ok(file) => {
                Ok((Self::on(TunFd::register(file, name, Attachment::Tun)?, name, Framing::Vnet)?, None))
            }
            Err(OpenError::OffloadUnsupported { reason, .. }) if mode == OffloadMode::Auto => {
                Ok((Self::plain(name)?, Some(reason)))
            }
            Err(error) => Err(error),
        }
    }

    /// The interface's name.
    ///
    /// # Errors
    /// The interface was deleted.
    pub fn name(&self) -> io::Result<String> {
        self.fd.name()
    }

    /// The Ethernet address of the kernel's end.
    #[must_use]
    pub fn kernel_mac(&self) -> MacAddr {
        self.kernel_mac
    }

    /// An address for this end: different from the kernel's, and always the same for the same interface.
    #[must_use]
    pub fn own_mac(&self) -> MacAddr {
        made_mac(&(self.kernel_mac, "tap"))
    }

    fn plain(name: &str) -> Result<Self, OpenError> {
        let interface = when_free(|| Iface::without_packet_info(name, Mode::Tap), io::Error::raw_os_error)
            .map_err(|error| OpenError::from_io(name, TunTap::TAP, error))?;
        #[expect(unsafe_code, reason = "the crate gives up a bare descriptor")]
        // SAFETY: `into_raw_fd` gives up the only ownership of an open descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(interface.into_raw_fd()) };
        // As for a TUN device: a persistent interface keeps an earlier process's offload.
        sys::set_offload(fd.as_fd(), 0)
            .and_then(|()| sys::set_nonblocking(fd.as_fd()))
            .map_err(|source| OpenError::other(name, source))?;
        Self::on(TunFd::register(File::from(fd), name, Attachment::Tun)?, name, Framing::Plain)
    }

    /// A device on the attached descriptor, which itself answers what the interface's Ethernet address is.
    pub(crate) fn on(fd: TunFd, name: &str, framing: Framing) -> Result<Self, OpenError> {
        let (_, mac) = sys::interface_hardware(fd.descriptor(), name)
            .map_err(|source| OpenError::other(name, source))?;
        Ok(Self { fd, framing, kernel_mac: MacAddr::new(mac) })
    }
}

impl FrameDevice for TapDevice {
    fn capabilities(&self) -> Capabilities {
        self.framing.capabilities(self.fd.mtu())
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let framing = self.framing;
        self.fd.poll_receive(cx, |mut file, counters| {
            let Some(slot) = batch.slot(framing::ROOM) else { return Ok(ReadStep::Full) };
            let len = file.read(slot)?;
            Ok(framing.take(len, framing::ROOM, None, batch, counters))
        })
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fd.poll_send_ready(cx)
    }

    fn send(&mut self, header: &[u8; HEADER_LEN], packet: &TxPacket<'_>) -> io::Result<()> {
        self.framing.send(&mut self.fd, header, packet)
    }

    fn counters(&self) -> Counters {
        self.fd.counters
    }

    fn link_up(&self) -> bool {
        self.fd.link_up()
    }

    fn leads_to_kernel(&self) -> bool {
        true
    }
}
