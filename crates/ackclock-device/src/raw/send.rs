//! The raw socket of one family, and the packets that wait for the next call of sendmmsg(2).

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use ackclock_wire::TxPacket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::sys::{self, Outgoing};
use super::too_big;
use crate::Counters;

/// Sends the packets of one family.
#[derive(Debug)]
pub(super) struct Sender {
    fd: AsyncFd<OwnedFd>,
    /// The bytes of the waiting packets, one after the other.
    bytes: Vec<u8>,
    waiting: Vec<Outgoing>,
    /// How many of these the kernel has taken.
    taken: usize,
}

impl Sender {
    pub fn open(v6: bool, interface: Option<&str>) -> io::Result<Self> {
        let fd = sys::raw_socket(v6)?;
        if let Some(name) = interface {
            sys::bind_to_interface(fd.as_fd(), name)?;
        }
        // A kernel that gives less sends less at once.
        let _ = sys::set_buffer(fd.as_fd(), false, BUFFER_BYTES);
        let fd = sys::register(fd, Interest::WRITABLE)?;
        Ok(Self { fd, bytes: Vec::new(), waiting: Vec::new(), taken: 0 })
    }

    /// Whether a flush is needed before more is taken.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= sys::BATCH || self.bytes.len() >= WAITING_BYTES_MAX
    }

    /// Takes a finished packet. Returns `false` if there is no room.
    pub fn push(&mut self, packet: &TxPacket<'_>, dst: IpAddr) -> bool {
        if self.is_full() {
            return false;
        }
        let start = self.bytes.len();
        for part in packet.parts() {
            self.bytes.extend_from_slice(part);
        }
        self.waiting.push(Outgoing { start, end: self.bytes.len(), dst });
        true
    }

    /// Sends what waits. Returns `false` if the socket takes no more now. A packet that the kernel refuses is
    /// counted; for one that is too long, `told` gets the ICMP message.
    pub fn flush(&mut self, counters: &mut Counters, told: &mut VecDeque<Vec<u8>>) -> io::Result<bool> {
        while let Some(rest) = self.waiting.get(self.taken..).filter(|rest| !rest.is_empty()) {
            let sent = self.fd.try_io(Interest::WRITABLE, |fd| sys::send(fd.as_fd(), &self.bytes, rest));
            match sent {
                Ok(sent) => {
                    self.taken += sent;
                    counters.sent += sent as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    // The error is the first packet's: if one had been sent, the call would return a count.
                    refused(&error, &self.bytes, rest[0], counters, told)?;
                    self.taken += 1;
                }
            }
        }
        self.taken = 0;
        self.waiting.clear();
        self.bytes.clear();
        Ok(true)
    }

    /// Ready when the socket may take packets again.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        match self.fd.poll_write_ready(cx) {
            Poll::Ready(guard) => guard.map(|_| Poll::Ready(())),
            Poll::Pending => Ok(Poll::Pending),
        }
    }
}

/// Counts a packet that the kernel did not take. An error not caused by the packet ends the device.
fn refused(
    error: &io::Error,
    bytes: &[u8],
    packet: Outgoing,
    counters: &mut Counters,
    told: &mut VecDeque<Vec<u8>>,
) -> io::Result<()> {
    match error.raw_os_error() {
        Some(libc::EMSGSIZE) => {
            counters.send_refused += 1;
            let bytes = &bytes[packet.start..packet.end];
            let fits = sys::path_mtu(packet.dst).ok().filter(|mtu| *mtu < bytes.len());
            if let Some(message) = fits.and_then(|mtu| too_big::message(bytes, mtu))
                && told.len() < TOLD_MAX
            {
                told.push_back(message);
            }
        }
        // The link is down or gone, or there is no route now.
        Some(
            libc::ENETDOWN
            | libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::EHOSTDOWN
            | libc::ENODEV
            | libc::ENXIO,
        ) => {
            counters.send_link_down += 1;
        }
        Some(libc::ENOBUFS | libc::ENOMEM) => counters.send_no_room += 1,
        Some(libc::EBADF) => return Err(io::Error::from_raw_os_error(libc::EBADF)),
        // A rule of the host's firewall, an address that the host no longer has, a packet that is not IP.
        _ => counters.send_refused += 1,
    }
    Ok(())
}

/// Bytes that wait for one call: 64 packets, or fewer on the loopback interface.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// Room in the kernel's queue for the interface.
const BUFFER_BYTES: libc::c_int = 4 << 20;

/// Messages that the stack has not fetched. Each lowers a path's MTU, and a lost one is repeated.
const TOLD_MAX: usize = 16;
