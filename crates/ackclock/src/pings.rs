//! [`PingReceiver`]: pings to addresses that are not the stack's, for proxies and VPNs.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::task::{Context, Poll};

use ackclock_core::{PingAnswer, Unreachable};

use crate::shards::Handle;
use crate::shared::WaitSlot;
use crate::state::{Queue, StackState};

/// Receives pings (ICMP echo requests) to addresses that are not the stack's own, so that the program may
/// find out whether the host behind the address is there before it answers. For
/// [`PingPolicy::Deferred`](crate::PingPolicy::Deferred), [`Stack::pings`](crate::Stack::pings) returns it.
///
/// At most 256 pings wait here, within the memory budget; later ones are dropped and counted
/// ([`Counters::dropped_pings`](crate::Counters::dropped_pings)). After the receiver is dropped, pings to
/// other addresses are treated as with [`PingPolicy::Own`](crate::PingPolicy::Own).
///
/// ```
/// use ackclock::{PingPolicy, Stack, Unreachable};
/// # use ackclock_device::memory;
/// # use ackclock_wire::{ChecksumState, TxPacket};
/// # use ackclock::device::Device;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (left, mut client) = memory::pair(memory::Config::default());
/// let gateway = Stack::builder().device(left).pings(PingPolicy::Deferred).spawn()?;
/// let mut pings = gateway.pings().expect("asked for, and not taken before");
/// # let request = [0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 1, 0xf4, 0xd8, 10, 0, 0, 1, 203, 0, 113, 7,
/// #     8, 0, 0xf6, 0xff, 1, 0, 0, 0];
/// # let packet = TxPacket { header: &request, transport_offset: 20, payload: [&[], &[]], segment_size: None,
/// #     checksum: ChecksumState::Complete };
/// # client.send(&packet)?;
/// let ping = pings.recv().await.expect("the stack is up");
/// assert_eq!((ping.peer_addr(), ping.local_addr()), ("10.0.0.1".parse()?, "203.0.113.7".parse()?));
/// # let is_there = false;
/// if is_there {
///     ping.reply();
/// } else {
///     ping.unreachable(Unreachable::Host);
/// }
/// assert_eq!(gateway.counters().icmp_errors_sent, 1);
/// # Ok(()) }
/// ```
pub struct PingReceiver {
    shared: Handle,
}

/// A ping that waits for an answer: [`reply`](Self::reply) or [`unreachable`](Self::unreachable). Dropping it
/// leaves it without one. Its sender decides how long to wait, usually a second or more.
pub struct Ping {
    ping: ackclock_core::Ping,
    shared: Handle,
}

impl PingReceiver {
    pub(crate) fn new(shared: Handle) -> Self {
        Self { shared }
    }

    /// The next ping; `None` once the stack is down.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing is taken by a future that is dropped before it is ready.
    pub async fn recv(&mut self) -> Option<Ping> {
        let next = self.shared.wait(Queue::Pings, |state, _| poll_ping(state)).await;
        next.map(|ping| self.waiting(ping))
    }

    /// The next ping, if there is one.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none,
    /// [`NetworkDown`](io::ErrorKind::NetworkDown) if the stack is down.
    pub fn try_recv(&mut self) -> io::Result<Ping> {
        let next = self.shared.call(|state, _| match poll_ping(state) {
            Poll::Ready(Some(ping)) => Ok(ping),
            Poll::Ready(None) => state.check_alive().and(Err(io::ErrorKind::NetworkDown.into())),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        });
        next.map(|ping| self.waiting(ping))
    }

    /// Polls for a ping. Only the waker of the last call is kept.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Ping>> {
        let next = self.shared.poll(cx, Queue::Pings, WaitSlot::Poller, |state, _| poll_ping(state));
        next.map(|ping| ping.map(|ping| self.waiting(ping)))
    }

    fn waiting(&self, ping: ackclock_core::Ping) -> Ping {
        Ping { ping, shared: self.shared.clone() }
    }
}

impl Drop for PingReceiver {
    fn drop(&mut self) {
        self.shared.each(|state, _| state.endpoint.close_pings());
    }
}

impl Ping {
    /// The host that sent it.
    #[must_use]
    pub fn peer_addr(&self) -> IpAddr {
        self.ping.from()
    }

    /// The address that it was sent to, for which the stack answers.
    #[must_use]
    pub fn local_addr(&self) -> IpAddr {
        self.ping.to()
    }

    /// The identifier, by which a program that pings tells its own requests.
    #[must_use]
    pub fn identifier(&self) -> u16 {
        self.ping.identifier()
    }

    /// The sequence number within those.
    #[must_use]
    pub fn sequence(&self) -> u16 {
        self.ping.sequence()
    }

    /// The data that the reply returns.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.ping.data()
    }

    /// Answers with the ping's data, from the address that it was sent to. Returns `false` if none leaves:
    /// the rate of [`StackBuilder::echo_replies`](crate::StackBuilder::echo_replies) is used up, memory is
    /// short, or the stack is down.
    pub fn reply(self) -> bool {
        self.answer(PingAnswer::Reply)
    }

    /// Answers with an ICMP error (RFC 1122 §3.2.2.1, RFC 4443 §3.1). Returns `false` if none leaves: at
    /// most six at once and one a second for each peer do, and 1,000 a second for all.
    pub fn unreachable(self, why: Unreachable) -> bool {
        self.answer(PingAnswer::Unreachable(why))
    }

    fn answer(self, answer: PingAnswer) -> bool {
        self.shared.call(|state, now| {
            state.check_alive().is_ok() && state.endpoint.answer_ping(now, &self.ping, answer)
        })
    }
}

fn poll_ping(state: &mut StackState) -> Poll<Option<ackclock_core::Ping>> {
    match state.endpoint.poll_ping() {
        None if state.poll_down().is_pending() => Poll::Pending,
        ping => Poll::Ready(ping),
    }
}

impl fmt::Debug for PingReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PingReceiver").finish_non_exhaustive()
    }
}

impl fmt::Debug for Ping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Ping");
        shown.field("peer", &self.peer_addr()).field("local", &self.local_addr());
        shown.field("sequence", &self.sequence()).finish_non_exhaustive()
    }
}
