//! [`Port`]: a stack driven by other code, for instance a simulator.

use std::net::IpAddr;
use std::task::{Context, Poll, Waker};

use ackclock_core::{Instant, Limits};
use ackclock_wire::{RxMeta, TxPacket};

use crate::StackError;
use crate::shards::ShardRef;
use crate::shared::Locked;
use crate::sleepers;
use crate::state::Phase;

/// The other side of a [`StackBuilder::detached`](crate::StackBuilder::detached) stack: packets and time go
/// in, packets and deadlines come out, in the shape of [`ackclock_core::Endpoint`]. It uses no clock, timer
/// or device except those that its owner supplies; the same seed and the same calls give the same packets.
///
/// These calls wake the tasks that wait for their effects. Dropping the port fails every pending call.
///
/// ```
/// use ackclock::{Clock, Instant, Limits, Stack};
/// use std::future::Future;
/// use std::task::{Context, Waker};
///
/// #[derive(Debug)]
/// struct Stopped;
///
/// impl Clock for Stopped {
///     fn now(&self) -> Instant {
///         Instant::ZERO
///     }
/// }
///
/// let (stack, mut port) = Stack::builder().address("10.0.0.1/24".parse()?).detached(Stopped, 1500)?;
/// let mut connect = Box::pin(stack.connect("10.0.0.2:80".parse()?));
/// assert!(connect.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
///
/// // The SYN waits to be sent, and later to be sent again.
/// let limits = Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };
/// assert!(port.poll_transmit(Instant::ZERO, limits, |syn| assert_eq!(syn.payload_len(), 0)));
/// assert!(!port.poll_transmit(Instant::ZERO, limits, |_| unreachable!()));
/// assert_eq!(port.poll_timeout().map(|at| at.as_millis().abs_diff(1000) < 10), Some(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Port {
    shared: ShardRef,
}

impl Port {
    pub(crate) fn new(shared: ShardRef) -> Self {
        Self { shared }
    }

    /// An IP packet arrived.
    #[doc(alias = "ingress")]
    #[doc(alias = "receive")]
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8], meta: RxMeta) {
        self.turn(now, |locked| locked.stack.endpoint.handle_packet(now, packet, meta));
    }

    /// A timer may be due; a spurious call does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.turn(now, |locked| locked.stack.handle_timeout(now));
    }

    /// The latest time for the next call of `handle_timeout`.
    #[must_use]
    #[doc(alias = "poll_at")]
    #[doc(alias = "poll_delay")]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.shared.look(|state| state.poll_timeout())
    }

    /// Hands the next packet to `send`; `false` if there is none. The packet counts as sent.
    #[doc(alias = "egress")]
    pub fn poll_transmit(&mut self, now: Instant, limits: Limits, send: impl FnOnce(&TxPacket<'_>)) -> bool {
        let packet_sent = self.turn(now, |locked| {
            let packet = locked.stack.endpoint.poll_transmit(now, limits);
            packet.as_ref().map(send).is_some()
        });
        if !packet_sent {
            self.turn(now, |locked| {
                if locked.stack.has_finished() {
                    locked.stack.go_down(now, StackError::Shutdown);
                }
            });
        }
        packet_sent
    }

    /// The multicast groups that the stack's sockets listen to, in order, if they have changed since the last
    /// call; `None`: they have not. An owner whose network needs to know takes them after each
    /// [`poll_work`](Self::poll_work), as a device learns of them by
    /// [`listen_to`](ackclock_device::Device::listen_to). Another need not: packets for a group are received
    /// either way, but each call of the application counts as work until they are taken.
    ///
    /// ```
    /// # use ackclock::{Clock, Instant, Stack};
    /// # #[derive(Debug)]
    /// # struct Stopped;
    /// # impl Clock for Stopped {
    /// #     fn now(&self) -> Instant {
    /// #         Instant::ZERO
    /// #     }
    /// # }
    /// let (stack, mut port) = Stack::builder().address("10.0.0.1/24".parse()?).detached(Stopped, 1500)?;
    /// let socket = stack.udp("0.0.0.0:5353".parse()?)?;
    /// socket.join_multicast_v4([224, 0, 0, 251].into(), [0, 0, 0, 0].into())?;
    /// assert_eq!(port.take_groups(), Some(vec!["224.0.0.251".parse()?]));
    /// assert_eq!(port.take_groups(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_groups(&mut self) -> Option<Vec<IpAddr>> {
        self.shared.lock().stack.endpoint.take_groups()
    }

    /// Ready when a call of the application has left something to do since the port was last looked at:
    /// something to send, an earlier deadline, or other groups ([`take_groups`](Self::take_groups)).
    pub fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut locked = self.shared.lock();
        // A call that left something to do has cleared the mark of the parked driver.
        let worked = locked.driver.unpark().is_none();
        locked.driver.park(cx.waker(), None);
        if worked { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether the stack has closed: it will send nothing more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.look(|state| matches!(state.phase, Phase::Down(_)))
    }

    fn turn<R>(&self, now: Instant, f: impl FnOnce(&mut Locked) -> R) -> R {
        let mut locked = self.shared.lock();
        let result = f(&mut locked);
        locked.stack.dispatch(now);
        if cfg!(debug_assertions) {
            sleepers::check(&locked.stack);
        }
        let woken = std::mem::take(&mut locked.stack.woken);
        let has_news = locked.stack.has_news();
        drop(locked);
        woken.into_iter().for_each(Waker::wake);
        if has_news {
            self.shared.tell();
        }
        result
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let now = self.shared.now();
        self.turn(now, |locked| {
            if !matches!(locked.stack.phase, Phase::Down(_)) {
                locked.stack.go_down(now, StackError::DriverGone);
            }
        });
    }
}
