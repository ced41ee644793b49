//! A stream's calls, under the lock, common to the stream, its halves, and their `poll_*`, `try_*` and async
//! forms.

use std::io::{self, IoSlice};
use std::task::Poll;

use ackclock_core::{ConnectionId, IcmpError, Instant, ReadError, WriteError};
use bytes::{Buf, Bytes};

use crate::error;
use crate::readiness::{Interest, Ready};
use crate::state::StackState;

/// Something that the peer or the network reported, apart from the stream's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The peer's urgent pointer advanced: urgent data ends `remaining` bytes ahead in the stream; 0 if it
    /// has already been read.
    Urgent {
        /// Bytes to be read up to the end of the urgent data.
        remaining: u32,
    },
    /// The network reported an error that does not end the connection.
    SoftError(IcmpError),
    /// Data has been retransmitted repeatedly without an answer (RFC 9293's threshold R1 is passed). Reported
    /// with each further retransmission, until R2 or the user timeout ends the connection.
    Unanswered,
}

impl StackState {
    /// Passes up to `limit` received bytes to `put`; 0 is the end of the stream.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        id: ConnectionId,
        limit: usize,
        put: impl FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        if limit == 0 {
            return Poll::Ready(Ok(0));
        }
        if !self.connection_to_read(id)?.is_readable() {
            return Poll::Pending;
        }
        let read = self.endpoint.update(now, id, |connection, now| {
            let len = copy_out(connection.read_slices(), limit, put);
            if len == 0 {
                // No data: it is the end of the stream, or an error.
                return connection.read(now, &mut [0]);
            }
            connection.consume(now, len);
            Ok(len)
        });
        match read.ok_or_else(error::not_connected)? {
            Err(ReadError::WouldBlock) => Poll::Pending,
            read => Poll::Ready(read.map_err(error::read)),
        }
    }

    /// Takes at most `max` received bytes in one slice; an empty slice is the end of the stream.
    pub(crate) fn read_bytes(
        &mut self,
        now: Instant,
        id: ConnectionId,
        max: usize,
    ) -> Poll<io::Result<Bytes>> {
        if max == 0 {
            return Poll::Ready(Ok(Bytes::new()));
        }
        if !self.connection_to_read(id)?.is_readable() {
            return Poll::Pending;
        }
        let read = self.endpoint.update(now, id, |connection, now| connection.read_bytes(now, max));
        match read.ok_or_else(error::not_connected)? {
            Err(ReadError::WouldBlock) => Poll::Pending,
            read => Poll::Ready(read.map_err(error::read)),
        }
    }

    /// Like `read`, leaving the bytes where they are.
    pub(crate) fn peek(
        &mut self,
        now: Instant,
        id: ConnectionId,
        limit: usize,
        put: impl FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let connection = self.connection_to_read(id)?;
        if limit == 0 {
            return Poll::Ready(Ok(0));
        }
        match copy_out(connection.read_slices(), limit, put) {
            0 => match connection.peek(&mut [0]) {
                Err(ReadError::WouldBlock) => Poll::Pending,
                Err(error) => {
                    // The application now knows the error, so the next write reports a broken pipe.
                    self.update(now, id, |connection, _| connection.take_error())?;
                    Poll::Ready(Err(error::read(error)))
                }
                Ok(len) => Poll::Ready(Ok(len)),
            },
            len => Poll::Ready(Ok(len)),
        }
    }

    /// Takes as much of `bufs` as there is room for.
    pub(crate) fn write(
        &mut self,
        now: Instant,
        id: ConnectionId,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.connection(id)?.is_writable() {
            return self.await_room(now, id);
        }
        let written = self.write_with(now, id, |connection, now| {
            // The kernel does not check its socket for an empty vector of buffers, but does for one empty
            // buffer.
            if !bufs.is_empty() && bufs.iter().all(|buf| buf.is_empty()) {
                return connection.write(now, &[]);
            }
            let mut total = 0;
            for buf in bufs.iter().filter(|buf| !buf.is_empty()) {
                match connection.write(now, buf) {
                    // Anything after a partly taken buffer would leave a gap.
                    Ok(len) if len < buf.len() => return Ok(total + len),
                    Ok(len) => total += len,
                    Err(error) if total == 0 => return Err(error),
                    Err(_) => return Ok(total),
                }
            }
            Ok(total)
        })?;
        match written {
            Err(WriteError::WouldBlock) => Poll::Pending,
            written => Poll::Ready(written.map_err(error::write)),
        }
    }

    /// Takes as much as there is room for off the front of `bytes`.
    pub(crate) fn write_bytes(
        &mut self,
        now: Instant,
        id: ConnectionId,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<usize>> {
        if !self.connection(id)?.is_writable() {
            return self.await_room(now, id);
        }
        match self.write_with(now, id, |connection, now| connection.write_bytes(now, bytes))? {
            Err(WriteError::WouldBlock) => Poll::Pending,
            written => {
                let written = written.map_err(error::write)?;
                bytes.advance(written);
                Poll::Ready(Ok(written))
            }
        }
    }

    /// Closes the sending side. A second call does nothing, nor does a call on a connection that has ended.
    /// The error stays for the next read or write to report: tokio's `shutdown` takes the kernel's ENOTCONN
    /// for success.
    pub(crate) fn shutdown_write(&mut self, now: Instant, id: ConnectionId) -> io::Result<()> {
        match self.update(now, id, |connection, now| connection.shutdown(now))? {
            Ok(()) | Err(WriteError::Shutdown | WriteError::Connection(_)) => Ok(()),
            Err(error) => Err(error::write(error)),
        }
    }

    /// Ready once the handshake is complete or has failed. A connection that was established, received data
    /// and was reset before the caller looked counts as established: its data waits to be read.
    pub(crate) fn poll_connected(&mut self, now: Instant, id: ConnectionId) -> Poll<io::Result<()>> {
        let connection = self.connection(id)?;
        let has_data = connection.is_established() && connection.readable() > 0;
        if connection.error().is_some() && !has_data {
            let error = self.update(now, id, |connection, _| connection.take_error())?;
            return Poll::Ready(Err(error.map_or_else(error::not_connected, error::connection)));
        }
        if connection.is_established() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Ready when a read would not wait.
    pub(crate) fn poll_readable(&self, id: ConnectionId) -> Poll<io::Result<()>> {
        if self.connection_to_read(id)?.is_readable() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Ready when a write would not wait.
    pub(crate) fn poll_writable(&mut self, now: Instant, id: ConnectionId) -> Poll<io::Result<()>> {
        if self.connection(id)?.is_writable() { Poll::Ready(Ok(())) } else { self.await_room(now, id) }
    }

    /// Asks the endpoint to report when there is room.
    fn await_room<T>(&mut self, now: Instant, id: ConnectionId) -> Poll<io::Result<T>> {
        self.update(now, id, |connection, now| connection.await_room(now))?;
        Poll::Pending
    }

    /// The part of `interest` that is ready; pending when nothing is.
    pub(crate) fn poll_ready(
        &mut self,
        now: Instant,
        id: ConnectionId,
        interest: Interest,
    ) -> Poll<io::Result<Ready>> {
        let ready = self.readiness(id, interest)?;
        if ready != Ready::EMPTY {
            return Poll::Ready(Ok(ready));
        }
        if interest.is_writable() { self.await_room(now, id) } else { Poll::Pending }
    }

    /// The part of `interest` that is ready.
    pub(crate) fn readiness(&self, id: ConnectionId, interest: Interest) -> io::Result<Ready> {
        let connection = self.connection(id)?;
        let mut ready = Ready::EMPTY;
        let mut note = |asked: bool, is: bool, what: Ready| {
            if asked && is {
                ready |= what;
            }
        };
        let read_closed = connection.has_peer_ended();
        // As for the kernel's socket: a shutdown of this end alone does not hang up.
        let write_closed = read_closed && connection.is_write_closed();
        note(interest.is_readable(), connection.is_readable(), Ready::READABLE);
        note(interest.is_readable(), read_closed, Ready::READ_CLOSED);
        note(interest.is_writable(), connection.is_writable(), Ready::WRITABLE);
        note(interest.is_writable(), write_closed, Ready::WRITE_CLOSED);
        note(interest.is_error(), connection.error().is_some(), Ready::ERROR);
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            note(interest.is_priority(), connection.urgent_remaining() > 0, Ready::PRIORITY);
            note(interest.is_priority(), read_closed, Ready::READ_CLOSED);
        }
        Ok(ready)
    }

    /// The next notice; pending when there is none.
    // RFC 9293 MUST-32: the application learns asynchronously that the urgent pointer advanced.
    // RFC 9293 MUST-47: soft errors are reported to the application that asks for them.
    // RFC 9293 SHLD-9: it learns that R1 was passed.
    pub(crate) fn poll_notice(&mut self, now: Instant, id: ConnectionId) -> Poll<io::Result<Notice>> {
        let connection = self.connection(id)?;
        let remaining = connection.urgent_remaining();
        let over = connection.error();
        let Some(rare) = self.streams.get_mut(id).and_then(|slot| slot.rare.as_deref_mut()) else {
            return over.map_or(Poll::Pending, |error| Poll::Ready(Err(error::connection(error))));
        };
        if std::mem::take(&mut rare.urgent) {
            return Poll::Ready(Ok(Notice::Urgent { remaining }));
        }
        if std::mem::take(&mut rare.soft_error) {
            let error = self.update(now, id, |connection, _| connection.take_soft_error())?;
            return Poll::Ready(Ok(error.map_or(Notice::Unanswered, Notice::SoftError)));
        }
        over.map_or(Poll::Pending, |error| Poll::Ready(Err(error::connection(error))))
    }
}

/// Passes up to `limit` bytes of the slices to `put`; returns the number of bytes.
fn copy_out<'a>(slices: impl Iterator<Item = &'a [u8]>, limit: usize, mut put: impl FnMut(&[u8])) -> usize {
    let mut left = limit;
    for slice in slices {
        let len = slice.len().min(left);
        if len > 0 {
            put(&slice[..len]);
            left -= len;
        }
        if left == 0 {
            break;
        }
    }
    limit - left
}
