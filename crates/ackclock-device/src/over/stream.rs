//! Packets in a byte stream.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{PacketIo, Waiting, closed};

/// Packets over an `AsyncRead + AsyncWrite`.
///
/// A stack waits while the stream takes no more, so nothing is lost; no more than 64 KiB wait here.
pub struct PacketStream<S> {
    stream: S,
    incoming: Incoming,
    /// Bytes that the stream has not taken yet, from `sent` on.
    unsent: Vec<u8>,
    sent: usize,
    flushed: bool,
    waiting: Waiting,
}

#[derive(Debug)]
enum Incoming {
    /// Each read and write is a packet.
    OnePerCall,
    /// Bytes that were read and not returned, between the two.
    Prefixed { buffer: Box<[u8]>, start: usize, end: usize },
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> PacketStream<S> {
    /// Each packet behind its length in four bytes, the most significant first: `-netdev stream` of QEMU,
    /// passt, libkrun's `unixstream`, `LengthDelimitedCodec` of tokio-util.
    ///
    /// A length above 69,632 bytes (QEMU's `NET_BUFSIZE`) is an error: no packet is that long, so the stream
    /// is another one, or has lost its place.
    #[must_use]
    pub fn prefixed(stream: S) -> Self {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self::new(stream, Incoming::Prefixed { buffer, start: 0, end: 0 })
    }

    /// One packet in each read and each write, as with a device of the operating system.
    #[must_use]
    pub fn one_per_call(stream: S) -> Self {
        Self::new(stream, Incoming::OnePerCall)
    }

    fn new(stream: S, incoming: Incoming) -> Self {
        Self { stream, incoming, unsent: Vec::new(), sent: 0, flushed: true, waiting: Waiting::new() }
    }

    fn has_room(&self) -> bool {
        match self.incoming {
            Incoming::OnePerCall => self.unsent.is_empty(),
            Incoming::Prefixed { .. } => self.unsent.len() - self.sent < UNSENT_MAX,
        }
    }

    /// Hands what waits to the stream. Ready when nothing is left.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.unsent.len() {
            let rest = &self.unsent[self.sent..];
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(closed()));
            }
            // A part of a packet cannot be followed by the rest in another call.
            let whole = matches!(self.incoming, Incoming::OnePerCall);
            self.sent = if whole { self.unsent.len() } else { self.sent + written };
        }
        self.unsent.clear();
        self.sent = 0;
        if !self.flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Goes on with what waits, on behalf of the receiving task.
    fn go_on(&mut self) -> io::Result<()> {
        let receiver = self.waiting.receiver.clone();
        if let Poll::Ready(done) = self.poll_unsent(&mut Context::from_waker(&receiver)) {
            done?;
        }
        if self.has_room() {
            self.waiting.room();
        }
        Ok(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> PacketIo for PacketStream<S> {
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.waiting.receiver.clone_from(cx.waker());
        self.go_on()?;
        let Incoming::Prefixed { buffer, start, end } = &mut self.incoming else {
            let len = ready!(poll_read(&mut self.stream, cx, into))?;
            return Poll::Ready(if len == 0 { Err(closed()) } else { Ok(len) });
        };
        loop {
            let read = &buffer[*start..*end];
            if let Some((prefix, rest)) = read.split_first_chunk::<4>() {
                let len = u32::from_be_bytes(*prefix) as usize; // at least 32 bits on every target
                if len > LEN_MAX {
                    return Poll::Ready(Err(out_of_place(len)));
                }
                if let Some(packet) = rest.get(..len) {
                    let len = packet.len().min(into.len());
                    into[..len].copy_from_slice(&packet[..len]);
                    *start += 4 + packet.len();
                    return Poll::Ready(Ok(len));
                }
            }
            buffer.copy_within(*start..*end, 0);
            (*start, *end) = (0, *end - *start);
            let len = ready!(poll_read(&mut self.stream, cx, &mut buffer[*end..]))?;
            if len == 0 {
                return Poll::Ready(Err(closed()));
            }
            *end += len;
        }
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.has_room() {
            // The sender is woken when the stream takes more, by itself or by the receiver.
            if let Poll::Ready(done) = self.poll_unsent(cx) {
                done?;
            }
            if !self.has_room() {
                self.waiting.sender = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        if !self.has_room() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if let Incoming::Prefixed { .. } = self.incoming {
            let Some(len) = u32::try_from(packet.len()).ok().filter(|_| packet.len() <= LEN_MAX) else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            if self.sent >= UNSENT_MAX {
                self.unsent.drain(..self.sent);
                self.sent = 0;
            }
            self.unsent.extend_from_slice(&len.to_be_bytes());
        }
        self.unsent.extend_from_slice(packet);
        self.flushed = false;
        if self.has_room() { Ok(()) } else { self.go_on() }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() && self.flushed { Ok(()) } else { self.go_on() }
    }
}

impl<S> fmt::Debug for PacketStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketStream")
            .field("unsent", &(self.unsent.len() - self.sent))
            .finish_non_exhaustive()
    }
}

fn poll_read<S: AsyncRead + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    into: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut read = ReadBuf::new(into);
    ready!(Pin::new(stream).poll_read(cx, &mut read))?;
    Poll::Ready(Ok(read.filled().len()))
}

fn out_of_place(len: usize) -> io::Error {
    let what = format!(
        "the stream announces a packet of {len} bytes, and none is longer than {LEN_MAX}: its other end must \
         send each packet behind its length, in four bytes, the most significant first"
    );
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// QEMU's `NET_BUFSIZE` (include/net/net.h).
const LEN_MAX: usize = 69_632;

const BUFFER_BYTES: usize = 128 << 10;

/// From here on a sender waits.
const UNSENT_MAX: usize = 64 << 10;

const _: () = assert!(BUFFER_BYTES > 4 + LEN_MAX);
