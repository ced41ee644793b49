//! Counters of connections, relays and dropped datagrams.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream, and the number of bytes that were written to it. They count at once, so that those of a
/// connection that fails count too.
pub(crate) struct Counted<'a, S> {
    pub(crate) stream: S,
    pub(crate) written: &'a Count,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<'_, S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.written.add(written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// All counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Clients that dialled.
    pub(crate) connections: Count,
    /// Of these, those that the proxy could not serve.
    pub(crate) refused: Count,
    /// Of these, those that a reset or an error ended.
    pub(crate) reset: Count,
    pub(crate) bytes_up: Count,
    pub(crate) bytes_down: Count,
    /// Relays of datagrams requested from the proxy.
    pub(crate) relays: Count,
    pub(crate) datagrams_up: Count,
    pub(crate) datagrams_down: Count,
    /// Dropped: the number of relays was at its limit.
    pub(crate) dropped_no_relay: Count,
    /// Dropped: too many datagrams were waiting.
    pub(crate) dropped_full: Count,
    /// Dropped: longer than a packet, or not something that a relay may pass on.
    pub(crate) dropped_malformed: Count,
}

impl Counters {
    /// In words.
    pub(crate) fn report(&self) -> String {
        let mut said = format!(
            "{} connections ({} refused, {} reset), {} bytes up, {} down; \
             {} relays, {} datagrams up, {} down",
            self.connections.get(),
            self.refused.get(),
            self.reset.get(),
            self.bytes_up.get(),
            self.bytes_down.get(),
            self.relays.get(),
            self.datagrams_up.get(),
            self.datagrams_down.get()
        );
        for (why, count) in [
            ("no relay is free", &self.dropped_no_relay),
            ("no room", &self.dropped_full),
            ("too long or malformed", &self.dropped_malformed),
        ] {
            if count.get() > 0 {
                said += &format!("; {} datagrams dropped: {why}", count.get());
            }
        }
        said
    }
}
