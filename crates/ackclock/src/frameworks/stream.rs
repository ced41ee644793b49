//! [`TcpListenerStream`]: a listener as a stream of connections.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use crate::{StackError, TcpListener, TcpStream};

/// A listener as a `Stream` of connections, like `tokio_stream::wrappers::TcpListenerStream`; tonic's
/// `serve_with_incoming` takes it. Unlike tokio's it ends: after the stack drains or shuts down, there is no
/// next connection. If the stack failed, its error comes first.
#[derive(Debug)]
pub struct TcpListenerStream {
    inner: TcpListener,
    ended: bool,
}

impl TcpListenerStream {
    /// The connections of this listener.
    #[must_use]
    pub fn new(listener: TcpListener) -> Self {
        Self { inner: listener, ended: false }
    }

    /// The listener.
    #[must_use]
    pub fn into_inner(self) -> TcpListener {
        self.inner
    }
}

impl AsRef<TcpListener> for TcpListenerStream {
    fn as_ref(&self) -> &TcpListener {
        &self.inner
    }
}

impl Stream for TcpListenerStream {
    type Item = io::Result<TcpStream>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match ready!(self.inner.poll_accept(cx)) {
            Ok((stream, _)) => Poll::Ready(Some(Ok(stream))),
            Err(error) => {
                // Every error of a listener is permanent: the stack is gone.
                self.ended = true;
                Poll::Ready((!was_asked_for(&error)).then_some(Err(error)))
            }
        }
    }
}

/// Whether the program itself ended the stack.
fn was_asked_for(error: &io::Error) -> bool {
    let stack = error.get_ref().and_then(|error| error.downcast_ref::<StackError>());
    matches!(stack, Some(StackError::Shutdown | StackError::Draining))
}
