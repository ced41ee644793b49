//! Halves that can move to different tasks, as `tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf}`.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ackclock_core::DeliveryInfo;
use bytes::{BufMut, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::split::{read_methods, read_traits, write_methods, write_traits};
use super::{Delivered, DeliveryWatch, TcpStream};
use crate::readiness::{Interest, Ready};

/// The read half of a [`TcpStream`], made by [`TcpStream::into_split`].
#[derive(Debug)]
pub struct OwnedReadHalf(Arc<TcpStream>);

/// The write half of a [`TcpStream`], made by [`TcpStream::into_split`].
///
/// Dropping it closes the sending side, as `shutdown` does, unless that was done or [`forget`](Self::forget)
/// was called.
#[derive(Debug)]
pub struct OwnedWriteHalf(Arc<TcpStream>, ShutdownOnDrop);

/// The two halves belong to different streams; both are given back.
#[derive(Debug, thiserror::Error)]
#[error("tried to reunite halves that are not from the same socket")]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

#[derive(Debug, PartialEq, Eq)]
enum ShutdownOnDrop {
    Yes,
    No,
}

pub(super) fn split_owned(stream: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
    let stream = Arc::new(stream);
    (OwnedReadHalf(Arc::clone(&stream)), OwnedWriteHalf(stream, ShutdownOnDrop::Yes))
}

fn reunite(read: OwnedReadHalf, write: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
    if !Arc::ptr_eq(&read.0, &write.0) {
        return Err(ReuniteError(read, write));
    }
    write.forget();
    // There is one read half and there was one write half: this reference is the last.
    Ok(Arc::into_inner(read.0).expect("a stream has two halves"))
}

impl OwnedReadHalf {
    /// Reunites the halves.
    ///
    /// # Errors
    /// The halves are of different streams.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        reunite(self, other)
    }

    read_methods!();
}

impl OwnedWriteHalf {
    /// Reunites the halves.
    ///
    /// # Errors
    /// The halves are of different streams.
    pub fn reunite(self, other: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        reunite(other, self)
    }

    /// Drops the half without closing the sending side.
    pub fn forget(mut self) {
        self.1 = ShutdownOnDrop::No;
    }

    write_methods!();

    fn finish(mut self: Pin<&mut Self>) -> io::Result<()> {
        let result = self.0.shutdown_write();
        if result.is_ok() {
            self.1 = ShutdownOnDrop::No;
        }
        result
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.1 == ShutdownOnDrop::Yes {
            // A connection that has ended needs no end of stream.
            let _ = self.0.shutdown_write();
        }
    }
}

read_traits!(OwnedReadHalf);
write_traits!(OwnedWriteHalf);
