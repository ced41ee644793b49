//! Reading a datagram without taking it.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::UdpSocket;
use crate::shared::{WaitSlot, now_or_would_block};
use crate::state::{Queue, StackState};

impl UdpSocket {
    /// Reads a datagram and leaves it to be received again.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.peek_from(buf).await.map(|(len, _)| len)
    }

    /// The same, if there is a datagram.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.try_peek_from(buf).map(|(len, _)| len)
    }

    /// The same, polled. Only the waker of the last call of a receiving `poll_*` method is kept.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_peek_from(cx, buf).map_ok(drop)
    }

    /// Reads a datagram and leaves it to be received again; returns its sender too.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let id = self.id;
        let meta = self.shared.wait(Queue::UdpRead(id), |state, _| state.udp_peek(id, buf)).await?;
        Ok((meta.len, meta.from))
    }

    /// The same, if there is a datagram.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let meta = now_or_would_block(self.shared.call(|state, _| state.udp_peek(self.id, buf)))?;
        Ok((meta.len, meta.from))
    }

    /// The same, polled. Only the waker of the last call of a receiving `poll_*` method is kept.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let room = buf.initialize_unfilled();
        let attempt = |state: &mut StackState, _| state.udp_peek(self.id, room);
        self.shared.poll(cx, Queue::UdpRead(self.id), WaitSlot::Poller, attempt).map_ok(|meta| {
            buf.advance(meta.len);
            meta.from
        })
    }

    /// The sender of the next datagram, which stays.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn peek_sender(&self) -> io::Result<SocketAddr> {
        self.peek_from(&mut []).await.map(|(_, from)| from)
    }

    /// The same, if there is a datagram.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.try_peek_from(&mut []).map(|(_, from)| from)
    }

    /// The same, polled. Only the waker of the last call of a receiving `poll_*` method is kept.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        self.poll_peek_from(cx, &mut ReadBuf::new(&mut []))
    }
}
