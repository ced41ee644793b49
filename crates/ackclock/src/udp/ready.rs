//! Waiting until a socket can receive or send.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use super::UdpSocket;
use crate::readiness::{Interest, Ready};
use crate::shared::{Seat, WaitSlot};
use crate::state::{Queue, Side, StackState};

impl UdpSocket {
    /// Waits until one of `interest` is ready, and returns what is. Readiness is the state of the socket at
    /// that moment, not a remembered edge, so nothing has to be cleared. An error that the network reported
    /// makes it ready, and shows as [`Ready::ERROR`] to those that ask for [`Interest::ERROR`].
    ///
    /// # Cancel safety
    /// Cancel-safe: it only waits.
    ///
    /// # Errors
    /// The stack is gone.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let id = self.id;
        let attempt = |state: &mut StackState, _| state.poll_udp_ready(id, interest);
        // A task that asks for both waits in both lists.
        let seat = |side| Seat::new(&self.shared, Queue::UdpReady(id, side, interest));
        let (mut read, mut write) = (seat(Side::Read), interest.is_writable().then(|| seat(Side::Write)));
        poll_fn(|cx| match (read.poll(cx, attempt), &mut write) {
            (Poll::Pending, Some(write)) => write.poll(cx, attempt),
            (ready, _) => ready,
        })
        .await
    }

    /// Calls `io`, which should use a `try_*` method, if the socket is ready for it.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it is not ready; else what `io` returns; or the stack is
    /// gone.
    pub fn try_io<R>(&self, interest: Interest, io: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        match self.shared.call(|state, _| state.poll_udp_ready(self.id, interest)) {
            Poll::Ready(ready) => ready.and_then(|_| io()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Calls `io`, which should use a `try_*` method, each time the socket is ready for it, until it returns
    /// anything but [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// # Cancel safety
    /// As cancel-safe as `io`.
    ///
    /// # Errors
    /// What `io` returns; or the stack is gone.
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        mut io: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            self.ready(interest).await?;
            match io() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::task::yield_now().await,
                result => return result,
            }
        }
    }

    /// Waits until there is a datagram or an error.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// The stack is gone.
    pub async fn readable(&self) -> io::Result<()> {
        let id = self.id;
        self.shared.wait(Queue::UdpRead(id), |state, _| state.poll_udp_readable(id)).await
    }

    /// Waits until there is room to send, or an error.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// The stack is gone.
    pub async fn writable(&self) -> io::Result<()> {
        let id = self.id;
        self.shared.wait(Queue::UdpWrite(id), |state, _| state.poll_udp_writable(id)).await
    }

    /// Polls for readability. Only the waker of the last call of a receiving `poll_*` method is kept.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = |state: &mut StackState, _| state.poll_udp_readable(self.id);
        self.shared.poll(cx, Queue::UdpRead(self.id), WaitSlot::Poller, attempt)
    }

    /// Polls for writability. Only the waker of the last call of a sending `poll_*` method is kept.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = |state: &mut StackState, _| state.poll_udp_writable(self.id);
        self.shared.poll(cx, Queue::UdpWrite(self.id), WaitSlot::Poller, attempt)
    }
}
