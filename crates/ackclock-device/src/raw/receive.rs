//! The packet socket of one family: whole IP packets, with what the kernel knows about their checksums.

use std::io;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use ackclock_wire::RxMeta;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::sys::{self, Instruction};
use crate::{Counters, ReceiveBatch, status};

/// Receives the packets of one family.
#[derive(Debug)]
pub(super) struct Receiver(AsyncFd<OwnedFd>);

/// Why receiving stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing is left. The task is woken when a packet arrives.
    Drained,
    /// The batch has no room.
    Full,
}

impl Receiver {
    pub fn open(v6: bool, index: libc::c_int, program: &[Instruction]) -> io::Result<Self> {
        let fd = sys::packet_socket()?;
        sys::attach_filter(fd.as_fd(), program)?;
        // With less, a burst is lost while the stack does something else. A kernel that gives less is
        // tolerated.
        let _ = sys::set_buffer(fd.as_fd(), true, BUFFER_BYTES);
        sys::bind_packets(fd.as_fd(), v6, index)?;
        sys::register(fd, Interest::READABLE).map(Self)
    }

    /// Receives into `batch` until it is full or nothing is left. Adds to `received`.
    pub fn poll(
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
                    // The interface went down. The socket works again once it is up.
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

    /// How many packets were lost since the last call because the socket's buffer was full.
    pub fn lost(&self) -> u64 {
        sys::lost_packets(self.0.get_ref().as_fd()).unwrap_or(0).into()
    }
}

/// The metadata from the kernel's status and from the packet itself.
fn meta(packet: &[u8], status: u32, mtu: usize) -> RxMeta {
    let checksum = status::checksum(packet, status);
    // The kernel reports that segments were coalesced, but not their length. The MTU is the upper bound.
    let segment_size =
        status::transport(packet).filter(|_| packet.len() > mtu).and_then(|(_, header_len)| {
            let size = mtu.checked_sub(header_len)?;
            u16::try_from(size).ok().and_then(NonZeroU16::new)
        });
    RxMeta { checksum, segment_size }
}

/// Room for the largest IP packet without a jumbo option.
const ROOM: usize = 40 + 65_535;
const _: () = assert!(ROOM <= crate::batch::BYTES_MIN);

/// Room in the socket while the stack does something else: a burst of 4 MB.
const BUFFER_BYTES: libc::c_int = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::testing::packet;

    #[test]
    fn packet_above_the_mtu_was_coalesced() {
        let size = |len| meta(&packet(false, 6, len), 1, 1500).segment_size.map(NonZeroU16::get);
        assert_eq!(size(1500), None);
        assert_eq!(size(1501), Some(1448));
        assert_eq!(size(65_000), Some(1448));
        assert_eq!(meta(&packet(true, 17, 3000), 1, 1500).segment_size.map(NonZeroU16::get), Some(1452));
        assert_eq!(meta(&packet(false, 6, 3000), 1, 20).segment_size, None);
    }
}
