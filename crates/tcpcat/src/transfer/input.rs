//! Stdin, read by one connection after the other.

use std::fs::File;
use std::future::Future;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep};

/// This process's stdin. There is one for the life of the process: a read that a connection no longer waits
/// for goes on, and the next connection gets its bytes.
pub(super) struct Input {
    /// `None` with `-d`.
    stdin: Option<tokio::io::Stdin>,
    source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// It has an end.
    File,
    Terminal,
    /// It may stay open for ever.
    Pipe,
}

/// Stdin while one connection has it.
pub(super) struct Lent<'a> {
    input: &'a mut Input,
    /// Whether the peer has ended, after which stdin is not waited for.
    peer_ended: &'a AtomicBool,
    /// Runs since the peer's end or the last bytes.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Input {
    /// Nothing is read, and there is no end to wait for, if the user wants no stdin.
    pub fn new(wanted: bool) -> Self {
        let source = if io::stdin().is_terminal() {
            Source::Terminal
        } else if is_file() {
            Source::File
        } else {
            Source::Pipe
        };
        Self { stdin: wanted.then(tokio::io::stdin), source }
    }

    /// Whether a peer that has ended gets the rest of it, however long that takes: a file always, a pipe
    /// unless another peer may come for it. A user at a terminal cannot say more to a peer that is gone.
    pub fn is_for_one(&self, others_come: bool) -> bool {
        match self.source {
            Source::File => true,
            Source::Pipe => !others_come,
            Source::Terminal => false,
        }
    }

    /// Once `peer_ended` is set, it ends where it would have to wait.
    pub fn lend<'a>(&'a mut self, peer_ended: &'a AtomicBool) -> Lent<'a> {
        Lent { input: self, peer_ended, patience: None }
    }
}

impl AsyncRead for Lent<'_> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(stdin) = &mut this.input.stdin else { return Poll::Ready(Ok(())) };
        if let Poll::Ready(read) = Pin::new(stdin).poll_read(cx, buf) {
            this.patience = None;
            return Poll::Ready(read);
        }
        if !this.peer_ended.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        let due = Instant::now() + PATIENCE;
        let patience = this.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        patience.as_mut().poll(cx).map(Ok)
    }
}

fn is_file() -> bool {
    let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    stdin.and_then(|stdin| stdin.metadata()).is_ok_and(|metadata| metadata.is_file())
}

/// How long bytes that are already on their way through a pipe may take.
const PATIENCE: Duration = Duration::from_millis(100);
