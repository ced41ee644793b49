//! [`OtherReceiver`] and [`OtherSender`]: whole IP packets that are not the stack's own, for proxies and
//! VPNs.

use std::fmt;
use std::io;
use std::task::{Context, Poll};

use ackclock_core::{Instant, OtherPacket};

use crate::error;
use crate::shards::Handle;
use crate::shared::{WaitSlot, now_or_would_block};
use crate::state::{Queue, StackState};

/// Receives arriving packets that are not the stack's own: protocols other than the TCP, ICMP and UDP that
/// the stack handles; TCP to addresses that are neither the stack's nor listened on; errors about connections
/// that it does not have; fragments. [`Stack::other_packets`](crate::Stack::other_packets) returns it.
///
/// The packets are as the device delivered them. Only the lengths in their IP header are checked: sources may
/// be forged, checksums wrong. [`StackBuilder::other_packets`](crate::StackBuilder::other_packets) and the
/// memory budget bound the waiting packets; beyond that, packets are dropped and counted
/// ([`Counters::dropped_other_full`](crate::Counters::dropped_other_full)), as by a full interface. Dropping
/// the receiver closes the channel: from then on the stack treats such packets as it does without one.
///
/// ```
/// use ackclock::{OtherPacket, Stack};
/// # use ackclock_device::memory;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (left, right) = memory::pair(memory::Config::default());
/// // A tunnel: what arrives at one stack's device and is not its own leaves by the other's.
/// let inside = Stack::builder().device(left).address("10.0.0.1/24".parse()?).other_packets(256).spawn()?;
/// let outside = Stack::builder().device(right).address("10.0.0.2/24".parse()?).other_packets(256).spawn()?;
/// let (sender, _unread) = inside.other_packets().expect("asked for, and not taken before");
/// let (_, mut receiver) = outside.other_packets().expect("asked for, and not taken before");
///
/// // An IPv4 packet of protocol 253, which RFC 3692 sets aside for experiments.
/// let mut packet = vec![0x45, 0, 0, 24, 0, 0, 0x40, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4];
/// let sum: u32 = packet[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
/// let checksum = !((sum >> 16) + (sum & 0xffff)) as u16;
/// packet[10..12].copy_from_slice(&checksum.to_be_bytes());
///
/// sender.send(&OtherPacket::new(packet.clone())).await?;
/// assert_eq!(receiver.recv().await.expect("the stack is up").bytes, packet);
/// # Ok(()) }
/// ```
pub struct OtherReceiver {
    shared: Handle,
}

/// Sends whole IP packets of any kind from any address. Cloning gives another sender for the same stack.
///
/// A TCP or UDP checksum labelled as unfinished is completed, and a packet with a segment size is split, so
/// packets received from one stack can be sent from another as they are. The IP header is not checked.
#[derive(Clone)]
pub struct OtherSender {
    shared: Handle,
}

impl OtherReceiver {
    /// The next packet; `None` once the stack is down.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing is taken by a future that is dropped before it is ready.
    pub async fn recv(&mut self) -> Option<OtherPacket> {
        self.shared.wait(Queue::OtherReceive, |state, _| poll_other(state)).await
    }

    /// The next packet, if there is one.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none,
    /// [`NetworkDown`](io::ErrorKind::NetworkDown) if the stack is down.
    pub fn try_recv(&mut self) -> io::Result<OtherPacket> {
        self.shared.call(|state, _| match poll_other(state) {
            Poll::Ready(Some(packet)) => Ok(packet),
            Poll::Ready(None) => state.check_alive().and(Err(io::ErrorKind::NetworkDown.into())),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        })
    }

    /// Polls for a packet. Only the waker of the last call is kept.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<OtherPacket>> {
        self.shared.poll(cx, Queue::OtherReceive, WaitSlot::Poller, |state, _| poll_other(state))
    }
}

impl Drop for OtherReceiver {
    fn drop(&mut self) {
        self.shared.each(|state, _| {
            state.endpoint.close_others();
            state.others.send.wake(&mut state.woken);
        });
    }
}

impl OtherSender {
    /// Sends a packet, after waiting for room.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing has been sent by a future that is dropped before it is ready.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the bytes are not an IP packet, or one longer than
    /// the MTU; [`NotConnected`](io::ErrorKind::NotConnected) if the receiver has been dropped;
    /// [`OutOfMemory`](io::ErrorKind::OutOfMemory) if the memory budget is used up;
    /// [`NetworkDown`](io::ErrorKind::NetworkDown) if the stack is down. Inside is an
    /// [`OtherError`](crate::OtherError).
    pub async fn send(&self, packet: &OtherPacket) -> io::Result<()> {
        self.shared.wait(Queue::OtherSend, |state, now| poll_send(state, now, packet)).await
    }

    /// Sends a packet if there is room.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none; else as [`send`](Self::send).
    pub fn try_send(&self, packet: &OtherPacket) -> io::Result<()> {
        now_or_would_block(self.shared.call(|state, now| poll_send(state, now, packet)))
    }

    /// Polls to send a packet. Only the waker of the last call is kept.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn poll_send(&self, cx: &mut Context<'_>, packet: &OtherPacket) -> Poll<io::Result<()>> {
        let attempt = |state: &mut StackState, now| poll_send(state, now, packet);
        self.shared.poll(cx, Queue::OtherSend, WaitSlot::Poller, attempt)
    }
}

fn poll_other(state: &mut StackState) -> Poll<Option<OtherPacket>> {
    match state.endpoint.poll_other() {
        None if state.poll_down().is_pending() => Poll::Pending,
        packet => Poll::Ready(packet),
    }
}

fn poll_send(state: &mut StackState, now: Instant, packet: &OtherPacket) -> Poll<io::Result<()>> {
    if let Err(error) = state.check_alive() {
        return Poll::Ready(Err(error));
    }
    if !state.endpoint.has_other_room() {
        return Poll::Pending;
    }
    Poll::Ready(state.endpoint.send_other(now, packet).map_err(error::other))
}

pub(crate) fn channel(shared: &Handle) -> (OtherSender, OtherReceiver) {
    (OtherSender { shared: shared.clone() }, OtherReceiver { shared: shared.clone() })
}

impl fmt::Debug for OtherReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtherReceiver").finish_non_exhaustive()
    }
}

impl fmt::Debug for OtherSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtherSender").finish_non_exhaustive()
    }
}
