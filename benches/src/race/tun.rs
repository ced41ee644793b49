//! An end of the emulated path: a TUN device whose packets are whole, and are cut here into packets of the
//! wire.
//!
//! It is for TCP over IPv4: other packets are not cut.

use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, BorrowedFd};

use ackclock_wire::{ChecksumAt, ChecksumState, RxMeta, gso};

use crate::sys;

/// One TUN device.
#[derive(Debug)]
pub struct Tun {
    file: File,
    buffer: Box<[u8]>,
}

impl Tun {
    /// Makes the device `name` in the network namespace of the calling thread; it exists as long as this
    /// value.
    ///
    /// # Errors
    /// The kernel refuses, or has no TUN.
    pub fn open(name: &str) -> io::Result<Self> {
        Ok(Self { file: sys::open_tun(name, true)?, buffer: vec![0; HEADER + PACKET_MAX].into() })
    }

    /// Reads what the kernel has sent and passes each packet, as it is on the wire, to `each`. Returns
    /// `false` if there was nothing.
    pub(super) fn read(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<bool> {
        let len = match (&self.file).read(&mut self.buffer) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some((header, packet)) = self.buffer.get(..len).and_then(|read| read.split_at_checked(HEADER))
        else {
            return Ok(true);
        };
        gso::cut_contiguous(packet, meta(header), &mut each);
        Ok(true)
    }

    /// Hands a packet to the kernel.
    pub(super) fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        // One buffer: given two, the kernel makes a packet of fragments, which costs more than copying these
        // bytes.
        self.buffer[..HEADER].fill(0);
        let whole = &mut self.buffer[..HEADER + packet.len()];
        whole[HEADER..].copy_from_slice(packet);
        match (&self.file).write(whole) {
            // The kernel does not want the packet, so it is lost, as on any network.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result.map(drop),
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Reads the virtio-net header of a packet:
fn meta(header: &[u8]) -> RxMeta {
    let field = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let is_cut = header[1] & !GSO_ECN == GSO_TCPV4;
    RxMeta {
        checksum: match header[0] & NEEDS_CSUM {
            0 => ChecksumState::Complete,
            _ => ChecksumState::Partial(ChecksumAt { start: field(6), offset: field(8) }),
        },
        segment_size: if is_cut { NonZeroU16::new(field(4)) } else { None },
    }
}

const HEADER: usize = 10;
const PACKET_MAX: usize = 65_535;
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_ECN: u8 = 0x80;
