//! Ctrl-C and SIGTERM: the first asks for a graceful end, the second for an immediate one.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How often the user has interrupted.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<u32>);

impl Interrupt {
    /// Takes the signals from now on.
    pub(crate) fn install() -> io::Result<Self> {
        let (sender, receiver) = watch::channel(0);
        let (interrupts, terminations) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::spawn(count(interrupts, terminations, sender));
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
        *self.0.borrow() > 0
    }

    async fn reached(&self, times: u32) {
        if self.0.clone().wait_for(|&count| count >= times).await.is_err() {
            // Nobody counts any more: no interrupt will come.
            std::future::pending::<()>().await;
        }
    }
}

async fn count(mut interrupts: Signal, mut terminations: Signal, sender: watch::Sender<u32>) {
    loop {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
        }
        sender.send_modify(|count| *count += 1);
        match *sender.borrow() {
            1 => say!("tcpcat: closing; interrupt again to abort"),
            _ => say!("tcpcat: aborted"),
        }
    }
}
