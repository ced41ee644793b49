//! Ctrl-C and SIGTERM. A conversation ends in order at the first and at once at the second; a file is not
//! whole at the first, so there the first ends it.

use std::io;

use ackclock_cli::Exit;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How often the user has interrupted, and how first.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<Seen>);

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    count: u32,
    terminated: bool,
}

/// What the first interrupt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// Connections are closed in order.
    Closes,
    /// Connections are reset.
    Aborts,
}

impl Interrupt {
    /// Takes the signals from now on.
    pub(crate) fn install(first: First) -> io::Result<Self> {
        let (sender, receiver) = watch::channel(Seen::default());
        let (interrupts, terminations) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::spawn(count(interrupts, terminations, sender, first));
        Ok(Self(receiver))
    }

    /// Completes when the user has interrupted.
    pub(crate) async fn first(&self) {
        self.reached(1).await;
    }

    /// Completes when the user has interrupted twice.
    pub(crate) async fn second(&self) {
        self.reached(2).await;
    }

    /// Whether the user has interrupted.
    pub(crate) fn is_set(&self) -> bool {
        self.0.borrow().count > 0
    }

    /// The code of a process that the first signal ended.
    pub(crate) fn exit(&self) -> Exit {
        if self.0.borrow().terminated { Exit::Terminated } else { Exit::Interrupted }
    }

    async fn reached(&self, times: u32) {
        if self.0.clone().wait_for(|seen| seen.count >= times).await.is_err() {
            // No one counts any more: no interrupt will come.
            std::future::pending::<()>().await;
        }
    }
}

async fn count(mut interrupts: Signal, mut terminations: Signal, sender: watch::Sender<Seen>, first: First) {
    loop {
        let terminated = tokio::select! {
            _ = interrupts.recv() => false,
            _ = terminations.recv() => true,
        };
        sender.send_modify(|seen| {
            seen.terminated |= terminated && seen.count == 0;
            seen.count += 1;
        });
        match (sender.borrow().count, first) {
            (1, First::Closes) => say!("tcpcat: closing; interrupt again to abort"),
            (1, First::Aborts) => say!("tcpcat: interrupted"),
            _ => say!("tcpcat: aborted"),
        }
    }
}
