//! Ctrl-C, SIGTERM, SIGHUP and SIGQUIT. A conversation ends in order at the first and at once at the
//! second; a file is not whole at the first, so there the first ends it.

use std::fs;
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
    /// The code of the first.
    exit: Option<Exit>,
}

/// The effect of the first interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// Connections are closed in order.
    Closes,
    /// Connections are reset.
    Aborts,
}

impl Interrupt {
    /// Takes the signals from now on.
    pub fn install(first: First) -> io::Result<Self> {
        let (sender, receiver) = watch::channel(Seen::default());
        for (kind, exit) in SIGNALS {
            if !is_ignored(kind) {
                tokio::spawn(count(signal(kind)?, exit, sender.clone(), first));
            }
        }
        Ok(Self(receiver))
    }

    /// Completes when the user has interrupted.
    pub async fn first(&self) {
        self.reached(1).await;
    }

    /// Completes when the user has interrupted twice.
    pub async fn second(&self) {
        self.reached(2).await;
    }

    /// Whether the user has interrupted.
    pub fn is_set(&self) -> bool {
        self.0.borrow().count > 0
    }

    /// The code of a process that the first signal ended.
    pub fn exit(&self) -> Exit {
        self.0.borrow().exit.unwrap_or(Exit::Interrupted)
    }

    async fn reached(&self, times: u32) {
        if self.0.clone().wait_for(|seen| seen.count >= times).await.is_err() {
            // No one counts any more: no interrupt will come.
            std::future::pending::<()>().await;
        }
    }
}

async fn count(mut signals: Signal, exit: Exit, sender: watch::Sender<Seen>, first: First) {
    while signals.recv().await.is_some() {
        let mut count = 0;
        sender.send_modify(|seen| {
            seen.exit.get_or_insert(exit);
            seen.count += 1;
            count = seen.count;
        });
        match (count, first) {
            (1, First::Closes) => say!("tcpcat: closing; interrupt again to abort"),
            (1, First::Aborts) => say!("tcpcat: interrupted"),
            _ => say!("tcpcat: aborted"),
        }
    }
}

/// Whether a signal is to stay ignored: nohup asks for that with SIGHUP, and a shell with SIGQUIT for a
/// program in the background.
fn is_ignored(kind: SignalKind) -> bool {
    if kind != SignalKind::hangup() && kind != SignalKind::quit() {
        return false;
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored >> (kind.as_raw_value() - 1) & 1 == 1
}

/// The signals that end a transfer, and its exit code then.
const SIGNALS: [(SignalKind, Exit); 4] = [
    (SignalKind::interrupt(), Exit::Interrupted),
    (SignalKind::terminate(), Exit::Terminated),
    (SignalKind::hangup(), Exit::HungUp),
    (SignalKind::quit(), Exit::Quit),
];
