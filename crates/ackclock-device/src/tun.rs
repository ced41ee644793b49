//! A TUN device through the `tun-tap` crate: one IP packet per read and write, without offload.
//!
//! The device takes packets of up to 16 KiB and cuts them before it writes, so that the stack chooses, books
//! and times eleven segments at once. The kernel takes every packet written to a TUN device, so no part of a
//! cut packet is left over.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::task::{Context, Poll};

use ackclock_wire::{RxMeta, TxPacket, gso};
use tun_tap::{Iface, Mode};

use crate::busy::when_free;
use crate::configure::TunTap;
use crate::error::check_name;
use crate::fd::{Attachment, ReadStep, TunFd};
use crate::{Capabilities, Counters, Device, OpenError, ReceiveBatch, sys};

/// A TUN device without offload.
#[derive(Debug)]
pub struct TunDevice {
    fd: TunFd,
    queues: usize,
}

impl TunDevice {
    /// Attaches to the interface `name`. If it does not exist, it is created and lives as long as the device.
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    pub fn open(name: &str) -> Result<Self, OpenError> {
        check_name(name)?;
        let interface = when_free(|| Iface::without_packet_info(name, Mode::Tun), io::Error::raw_os_error)
            .map_err(|error| OpenError::from_io(name, TunTap::TUN, error))?;
        #[expect(unsafe_code, reason = "the crate gives up a bare descriptor")]
        // SAFETY: `into_raw_fd` gives up the only ownership of an open descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(interface.into_raw_fd()) };
        // A persistent interface keeps the offload that an earlier process set, and would deliver 64 KB
        // packets with unfinished checksums.
        sys::set_offload(fd.as_fd(), 0)
            .and_then(|()| sys::set_nonblocking(fd.as_fd()))
            .map_err(|source| OpenError::other(name, source))?;
        Ok(Self::queue(TunFd::register(File::from(fd), name, Attachment::Tun)?, 1))
    }

    /// One of the queues of an interface.
    pub(crate) fn queue(fd: TunFd, queues: usize) -> Self {
        Self { fd, queues }
    }

    /// The interface's name.
    ///
    /// # Errors
    /// The interface was deleted.
    pub fn name(&self) -> io::Result<String> {
        self.fd.name()
    }
}

impl Device for TunDevice {
    fn capabilities(&self) -> Capabilities {
        let plain = Capabilities::ip(self.fd.mtu());
        let gso_max = CUT_MAX.max(plain.mtu);
        Capabilities { gso_max_v4: gso_max, gso_max_v6: gso_max, queues: self.queues, ..plain }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        // One byte more than the MTU: a read that fills it shows that a packet was truncated because the MTU
        // has grown.
        let room = self.fd.mtu_known().max(ROOM_MIN) + 1;
        let mut cut_off = false;
        let received = self.fd.poll_receive(cx, |mut file, counters| {
            let Some(slot) = batch.slot(room) else { return Ok(ReadStep::Full) };
            let len = file.read(slot)?;
            if len == 0 || len == room {
                cut_off = len == room;
                counters.receive_malformed += 1;
                return Ok(ReadStep::Dropped);
            }
            batch.commit(0, len, RxMeta::default());
            counters.received += 1;
            Ok(ReadStep::Added)
        });
        if cut_off {
            self.fd.forget_link();
            self.fd.mtu();
        }
        received
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fd.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        if packet.segment_size.is_none() && !packet.checksum.is_partial() {
            return self.fd.send(&[], packet);
        }
        let mut result = Ok(());
        gso::cut(packet, |segment| {
            if result.is_ok() {
                result = self.fd.send(&[], segment);
            }
        });
        result
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

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.descriptor())
    }
}

/// The largest packet that is cut here, in bytes. Flows take turns by packets, and larger ones save little
/// more.
const CUT_MAX: usize = 16 << 10;
/// Room for a packet, however small the reported MTU.
const ROOM_MIN: usize = 2048;
