//! The packet socket of one family: whole IP packets, with what the kernel knows of their checksums.

use std::io;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use ackclock_wire::{ChecksumAt, ChecksumState, RxMeta};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::sys::{self, Instruction};
use crate::{Counters, ReceiveBatch};

/// Receives the packets of one family.
#[derive(Debug)]
pub(super) struct Receiver(AsyncFd<OwnedFd>);

/// Why receiving stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing is left; the task is woken when something is.
    Drained,
    /// The batch has no room.
    Full,
}

impl Receiver {
    pub(super) fn open(v6: bool, index: libc::c_int, program: &[Instruction]) -> io::Result<Self> {
        let fd = sys::packet_socket()?;
        sys::attach_filter(fd.as_fd(), program)?;
        // With less a burst is lost while the stack does something else; a kernel that gives less is no matter.
        let _ = sys::set_buffer(fd.as_fd(), true, BUFFER_BYTES);
        sys::bind_packets(fd.as_fd(), v6, index)?;
        sys::register(fd, Interest::READABLE).map(Self)
    }

    /// Receives into `batch` until it is full or nothing is left; adds to `received`.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut ReceiveBatch,
        mtu: usize,
        counters: &mut Counters,
        received: &mut usize,
    ) -> io::Result<Step> {
        loop {
            let mut guard = match self.0.poll_read_ready(cx) {
                Poll::Ready(guard) => guard?,
                Poll::Pending => return Ok(Step::Drained),
            };
            loop {
                let Some(slot) = batch.slot(ROOM) else { return Ok(Step::Full) };
                match sys::receive(self.0.get_ref().as_fd(), slot) {
                    Ok(packet) if packet.len == 0 || packet.len > ROOM => counters.receive_malformed += 1,
                    Ok(packet) => {
                        let meta = meta(&slot[..packet.len], packet.status, mtu);
                        batch.commit(0, packet.len, meta);
                        counters.received += 1;
                        *received += 1;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // The interface went down; the socket hears of it again once it is up.
                    Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        guard.clear_ready();
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// How many packets were lost since the last question, because the socket's buffer was full.
    pub(super) fn lost(&self) -> u64 {
        sys::lost_packets(self.0.get_ref().as_fd()).unwrap_or(0).into()
    }
}

/// What the kernel's status and the packet itself say.
fn meta(packet: &[u8], status: u32, mtu: usize) -> RxMeta {
    let transport = transport(packet);
    let checksum = if status & libc::TP_STATUS_CSUMNOTREADY != 0 {
        // Where another transport has its checksum is not known: it has to be right as it stands.
        transport.map_or(ChecksumState::Complete, |(at, _)| ChecksumState::Partial(at))
    } else if status & TP_STATUS_CSUM_VALID != 0 {
        ChecksumState::Verified
    } else {
        ChecksumState::Complete
    };
    // The kernel says that segments were coalesced, and not how long they were. No longer than the MTU lets them be.
    let segment_size = transport.filter(|_| packet.len() > mtu).and_then(|(_, header_len)| {
        let size = mtu.checked_sub(header_len)?;
        u16::try_from(size).ok().and_then(NonZeroU16::new)
    });
    RxMeta { checksum, segment_size }
}

/// Where the checksum of a TCP or UDP packet stands, and how long its headers are.
fn transport(packet: &[u8]) -> Option<(ChecksumAt, usize)> {
    let first = *packet.first()?;
    let (protocol, start) = match first >> 4 {
        4 => (*packet.get(9)?, usize::from(first & 0xf) * 4),
        6 => (*packet.get(6)?, 40),
        _ => return None,
    };
    let start_u16 = u16::try_from(start).ok()?;
    match protocol {
        TCP => {
            let header_len = usize::from(packet.get(start + 12)? >> 4) * 4;
            Some((ChecksumAt::tcp(start_u16), start + header_len))
        }
        UDP => Some((ChecksumAt::udp(start_u16), start + 8)),
        _ => None,
    }
}

/// Room for the largest IP packet without jumbo option.
const ROOM: usize = 40 + 65_535;
const _: () = assert!(ROOM <= crate::batch::BYTES_MIN);

/// What the socket keeps while the stack does something else: a burst of 4 MB.
const BUFFER_BYTES: libc::c_int = 4 << 20;

/// `include/uapi/linux/if_packet.h`.
const TP_STATUS_CSUM_VALID: u32 = 1 << 7;
const TCP: u8 = 6;
const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(v6: bool, protocol: u8, len: usize) -> Vec<u8> {
        let mut packet = vec![0; len];
        let start = if v6 { 40 } else { 20 };
        (packet[0], packet[if v6 { 6 } else { 9 }]) = (if v6 { 0x60 } else { 0x45 }, protocol);
        packet[start + 12] = 8 << 4;
        packet
    }

    #[test]
    fn status_becomes_the_checksum_state() {
        for (v6, start) in [(false, 20), (true, 40)] {
            let state = |protocol, status| meta(&packet(v6, protocol, 100), status, 1500).checksum;
            let not_ready = libc::TP_STATUS_CSUMNOTREADY;
            assert_eq!(state(TCP, 1), ChecksumState::Complete);
            assert_eq!(state(TCP, 1 | TP_STATUS_CSUM_VALID), ChecksumState::Verified);
            assert_eq!(state(TCP, 1 | not_ready), ChecksumState::Partial(ChecksumAt::tcp(start)));
            assert_eq!(state(UDP, 1 | not_ready), ChecksumState::Partial(ChecksumAt::udp(start)));
            assert_eq!(state(47, 1 | not_ready), ChecksumState::Complete);
        }
    }

    #[test]
    fn packet_above_the_mtu_was_coalesced() {
        let size = |len| meta(&packet(false, TCP, len), 1, 1500).segment_size.map(NonZeroU16::get);
        assert_eq!(size(1500), None);
        assert_eq!(size(1501), Some(1448));
        assert_eq!(size(65_000), Some(1448));
        assert_eq!(meta(&packet(true, UDP, 3000), 1, 1500).segment_size.map(NonZeroU16::get), Some(1452));
        assert_eq!(meta(&packet(false, TCP, 3000), 1, 20).segment_size, None);
    }
}
