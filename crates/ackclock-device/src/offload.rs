//! A TUN device with a virtio-net header: whole 64 KB packets in both directions, with checksums left to the
//! kernel.
//!
//! Source: Linux `Documentation/networking/tuntap.rst` and `include/uapi/linux/if_tun.h`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::task::{Context, Poll};

use ackclock_wire::{TxPacket, gso};
use libc::c_short;

use crate::busy::when_free;
use crate::configure::TunTap;
use crate::error::{TUN_PATH, check_name};
use crate::fd::{Attachment, ReadStep, TunFd};
use crate::vnet::{self, VnetHeader};
use crate::{Capabilities, Counters, Device, OpenError, ReceiveBatch, sys};

/// A TUN device with segmentation and checksum offload.
#[derive(Debug)]
pub struct OffloadDevice {
    fd: TunFd,
    queues: usize,
}

impl OffloadDevice {
    /// Attaches to the interface `name`. If it does not exist, it is created and lives as long as the device.
    ///
    /// # Errors
    /// [`OpenError::OffloadUnsupported`] where a plain [`TunDevice`](crate::TunDevice) might still work. The
    /// others apply to both.
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    pub fn open(name: &str) -> Result<Self, OpenError> {
        let file = attach(name, TunTap::TUN)?;
        Ok(Self::queue(TunFd::register(file, name, Attachment::Tun)?, 1))
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

impl Device for OffloadDevice {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            gso_max_v4: GSO_MAX,
            gso_max_v6: GSO_MAX,
            tx_checksum: true,
            queues: self.queues,
            ..Capabilities::ip(self.fd.mtu())
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.fd.poll_receive(cx, |file, counters| read_packet(file, batch, counters))
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fd.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        if let Some(header) = VnetHeader::describe(packet)
            && packet.len() <= GSO_MAX
        {
            return self.fd.send(&header.to_bytes(), packet);
        }
        let mut result = Ok(());
        gso::cut(packet, |segment| {
            if result.is_ok() {
                result = self.fd.send(&VnetHeader::default().to_bytes(), segment);
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

/// Attaches a descriptor of the TUN driver with offload to the interface `name`, a TUN or TAP device.
pub(crate) fn attach(name: &str, kind: TunTap) -> Result<File, OpenError> {
    check_name(name)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(TUN_PATH)
        .map_err(|error| OpenError::from_io(name, kind, error))?;
    let features = sys::tun_features(file.as_fd()).map_err(|e| unsupported(name, "TUNGETFEATURES", &e))?;
    if features & libc::IFF_VNET_HDR == 0 {
        let error = io::Error::from(io::ErrorKind::Unsupported);
        return Err(unsupported(name, "the kernel's TUN driver has no IFF_VNET_HDR", &error));
    }
    let flags = kind.flags() as c_short | FLAGS;
    when_free(|| sys::attach_interface(file.as_fd(), name, flags), io::Error::raw_os_error)
        .map_err(|error| OpenError::from_io(name, kind, error))?;
    agree(file.as_fd(), name)?;
    Ok(file)
}

/// Tells the kernel how long the header of an attached descriptor is, and what may come unfinished behind it.
pub(crate) fn agree(fd: BorrowedFd<'_>, name: &str) -> Result<(), OpenError> {
    sys::set_vnet_header_len(fd, HEADER_LEN).map_err(|e| unsupported(name, "TUNSETVNETHDRSZ", &e))?;
    sys::set_offload(fd, OFFLOADS).map_err(|e| unsupported(name, "TUNSETOFFLOAD", &e))
}

fn unsupported(name: &str, what: &str, error: &io::Error) -> OpenError {
    OpenError::OffloadUnsupported { name: name.to_owned(), reason: format!("{what}: {error}") }
}

fn read_packet(mut file: &File, batch: &mut ReceiveBatch, counters: &mut Counters) -> io::Result<ReadStep> {
    let Some(slot) = batch.slot(ROOM) else { return Ok(ReadStep::Full) };
    let len = file.read(slot)?;
    let Some((header, packet)) = slot.get(..len).and_then(|bytes| bytes.split_first_chunk::<{ vnet::LEN }>())
    else {
        counters.receive_malformed += 1;
        return Ok(ReadStep::Dropped);
    };
    if packet.is_empty() || len == ROOM {
        counters.receive_malformed += 1;
        return Ok(ReadStep::Dropped);
    }
    let meta = VnetHeader::from_bytes(header).meta(packet).unwrap_or_else(|believed| {
        counters.receive_malformed += 1;
        believed
    });
    batch.commit(vnet::LEN, len, meta);
    counters.received += 1;
    Ok(ReadStep::Added)
}

// All fit the 16 bits of `ifr_flags`.
const FLAGS: c_short = (libc::IFF_NO_PI | libc::IFF_VNET_HDR) as c_short;
const OFFLOADS: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
const HEADER_LEN: libc::c_int = vnet::LEN as libc::c_int;

/// The largest length in an IPv4 length field. Linux takes no larger packet by default (`gso_max_size`).
pub(crate) const GSO_MAX: usize = 65_535;

/// The virtio-net header, the largest IPv6 packet without a jumbo option, and one byte that reveals anything
/// larger.
const ROOM: usize = vnet::LEN + 40 + 65_535 + 1;

const _: () = assert!(ROOM <= crate::batch::BYTES_MIN);
