//! Halves that borrow a stream, as `tokio::net::tcp::{ReadHalf, WriteHalf}`.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use ackclock_core::DeliveryInfo;
use bytes::{BufMut, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Delivered, DeliveryWatch, TcpStream};
use crate::readiness::{Interest, Ready};

/// The borrowed read half of a [`TcpStream`], made by [`TcpStream::split`].
#[derive(Debug)]
pub struct ReadHalf<'a>(&'a TcpStream);

/// The borrowed write half of a [`TcpStream`], made by [`TcpStream::split`]. Dropping it closes nothing.
#[derive(Debug)]
pub struct WriteHalf<'a>(&'a TcpStream);

pub(super) fn split(stream: &mut TcpStream) -> (ReadHalf<'_>, WriteHalf<'_>) {
    (ReadHalf(stream), WriteHalf(stream))
}

/// The reading methods, which both kinds of read half pass on to the stream.
macro_rules! read_methods {
    () => {
        /// See [`TcpStream::poll_peek`].
        ///
        /// # Errors
        /// The connection's error.
        pub fn poll_peek(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
            self.0.poll_peek(cx, buf)
        }

        /// See [`TcpStream::peek`]. Cancel-safe.
        ///
        /// # Errors
        /// The connection's error.
        pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.peek(buf).await
        }

        /// See [`TcpStream::read_bytes`]. Cancel-safe.
        ///
        /// # Errors
        /// The connection's error.
        pub async fn read_bytes(&mut self, max: usize) -> io::Result<Bytes> {
            self.0.read_bytes_priv(max).await
        }

        /// See [`TcpStream::try_read_bytes`].
        ///
        /// # Errors
        /// As [`TcpStream::try_read`].
        pub fn try_read_bytes(&self, max: usize) -> io::Result<Bytes> {
            self.0.try_read_bytes(max)
        }

        /// See [`TcpStream::poll_read_bytes`].
        ///
        /// # Errors
        /// The connection's error.
        pub fn poll_read_bytes(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
            self.0.poll_read_bytes(cx, max)
        }

        /// See [`TcpStream::ready`]. Cancel-safe.
        ///
        /// # Errors
        /// The stack is gone.
        pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
            self.0.ready(interest).await
        }

        /// See [`TcpStream::readable`]. Cancel-safe.
        ///
        /// # Errors
        /// The stack is gone.
        pub async fn readable(&self) -> io::Result<()> {
            self.0.readable().await
        }

        /// See [`TcpStream::try_read`].
        ///
        /// # Errors
        /// As [`TcpStream::try_read`].
        pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.try_read(buf)
        }

        /// See [`TcpStream::try_read_vectored`].
        ///
        /// # Errors
        /// As [`TcpStream::try_read`].
        pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            self.0.try_read_vectored(bufs)
        }

        /// See [`TcpStream::try_read_buf`].
        ///
        /// # Errors
        /// As [`TcpStream::try_read`].
        pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
            self.0.try_read_buf(buf)
        }

        /// See [`TcpStream::peer_addr`].
        ///
        /// # Errors
        /// None while the stack lives.
        pub fn peer_addr(&self) -> io::Result<SocketAddr> {
            self.0.peer_addr()
        }

        /// See [`TcpStream::local_addr`].
        ///
        /// # Errors
        /// None while the stack lives.
        pub fn local_addr(&self) -> io::Result<SocketAddr> {
            self.0.local_addr()
        }
    };
}

/// The writing methods, which both kinds of write half pass on to the stream.
macro_rules! write_methods {
    () => {
        /// See [`TcpStream::write_bytes`]. Cancel-safe.
        ///
        /// # Errors
        /// As [`TcpStream::write_bytes`].
        pub async fn write_bytes(&mut self, bytes: &mut Bytes) -> io::Result<usize> {
            self.0.write_bytes_priv(bytes).await
        }

        /// See [`TcpStream::write_all_bytes`]. Cancel-safe.
        ///
        /// # Errors
        /// As [`TcpStream::write_bytes`].
        pub async fn write_all_bytes(&mut self, bytes: &mut Bytes) -> io::Result<()> {
            self.0.write_all_bytes_priv(bytes).await
        }

        /// See [`TcpStream::try_write_bytes`].
        ///
        /// # Errors
        /// As [`TcpStream::try_write`].
        pub fn try_write_bytes(&self, bytes: &mut Bytes) -> io::Result<usize> {
            self.0.try_write_bytes(bytes)
        }

        /// See [`TcpStream::poll_write_bytes`].
        ///
        /// # Errors
        /// As [`TcpStream::write_bytes`].
        pub fn poll_write_bytes(
            &mut self,
            cx: &mut Context<'_>,
            bytes: &mut Bytes,
        ) -> Poll<io::Result<usize>> {
            self.0.poll_write_bytes(cx, bytes)
        }

        /// See [`TcpStream::ready`]. Cancel-safe.
        ///
        /// # Errors
        /// The stack is gone.
        pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
            self.0.ready(interest).await
        }

        /// See [`TcpStream::writable`]. Cancel-safe.
        ///
        /// # Errors
        /// The stack is gone.
        pub async fn writable(&self) -> io::Result<()> {
            self.0.writable().await
        }

        /// See [`TcpStream::delivered`]. Cancel-safe.
        ///
        /// # Errors
        /// As [`TcpStream::delivered`].
        pub async fn delivered(&self) -> io::Result<Delivered> {
            self.0.delivered().await
        }

        /// See [`TcpStream::delivered_to`]. Cancel-safe.
        ///
        /// # Errors
        /// As [`TcpStream::delivered_to`].
        pub async fn delivered_to(&self, offset: u64) -> io::Result<Delivered> {
            self.0.delivered_to(offset).await
        }

        /// See [`TcpStream::not_sent`].
        ///
        /// # Errors
        /// The stack is gone.
        pub fn not_sent(&self) -> io::Result<u64> {
            self.0.not_sent()
        }

        /// See [`TcpStream::set_not_sent_lowat`].
        ///
        /// # Errors
        /// The stack is gone.
        pub fn set_not_sent_lowat(&self, bytes: Option<u32>) -> io::Result<()> {
            self.0.set_not_sent_lowat(bytes)
        }

        /// See [`TcpStream::delivery`].
        ///
        /// # Errors
        /// The stack is gone.
        pub fn delivery(&self) -> io::Result<DeliveryInfo> {
            self.0.delivery()
        }

        /// See [`TcpStream::watch_delivery`].
        pub fn watch_delivery(&self) -> DeliveryWatch {
            self.0.watch_delivery()
        }

        /// See [`TcpStream::try_write`].
        ///
        /// # Errors
        /// As [`TcpStream::try_write`].
        pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
            self.0.try_write(buf)
        }

        /// See [`TcpStream::try_write_vectored`].
        ///
        /// # Errors
        /// As [`TcpStream::try_write`].
        pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
            self.0.try_write_vectored(bufs)
        }

        /// See [`TcpStream::peer_addr`].
        ///
        /// # Errors
        /// None while the stack lives.
        pub fn peer_addr(&self) -> io::Result<SocketAddr> {
            self.0.peer_addr()
        }

        /// See [`TcpStream::local_addr`].
        ///
        /// # Errors
        /// None while the stack lives.
        pub fn local_addr(&self) -> io::Result<SocketAddr> {
            self.0.local_addr()
        }
    };
}

/// The traits of a read half.
macro_rules! read_traits {
    ($half:ty) => {
        impl AsyncRead for $half {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.0.poll_read_priv(cx, buf)
            }
        }

        impl AsRef<TcpStream> for $half {
            fn as_ref(&self) -> &TcpStream {
                &self.0
            }
        }
    };
}

/// The traits of a write half.
macro_rules! write_traits {
    ($half:ty) => {
        impl AsyncWrite for $half {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                self.0.poll_write_priv(cx, &[IoSlice::new(buf)])
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.0.poll_write_priv(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.finish())
            }
        }

        impl AsRef<TcpStream> for $half {
            fn as_ref(&self) -> &TcpStream {
                &self.0
            }
        }
    };
}

pub(super) use {read_methods, read_traits, write_methods, write_traits};

impl ReadHalf<'_> {
    read_methods!();
}

impl WriteHalf<'_> {
    write_methods!();

    fn finish(&self) -> io::Result<()> {
        self.0.shutdown_write()
    }
}

read_traits!(ReadHalf<'_>);
write_traits!(WriteHalf<'_>);
