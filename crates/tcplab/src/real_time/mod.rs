//! A scenario's network in real time, whatever is at its ends.
//!
//! | question | file |
//! |---|---|
//! | What can be asked for? | `args.rs` |
//! | How do connections leave the network? | `leave.rs` |
//! | How are datagrams relayed? | `datagrams.rs` |
//! | What can be changed meanwhile, and looked at? | `control.rs` |
//! | Which connections are there now? | `stacks.rs` |
//! | What was carried, and was the machine fast enough? | `outcome.rs` |

pub(crate) mod args;
pub(crate) mod control;
pub(crate) mod datagrams;
pub(crate) mod leave;
pub(crate) mod outcome;
pub(crate) mod stacks;

use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use ackclock::{ReassemblyConfig, StackBuilder};
use ackclock_cli::{Exit, Failure, output};
use ackclock_sim::{Faults, HostedError};
use tokio::task::JoinSet;

use crate::live::Live;
use outcome::Tally;
use stacks::Stacks;

/// Says when the network falls behind, serves the control, and keeps the page up to date, as long as `beside`
/// lives.
pub(crate) fn watch(
    beside: &mut JoinSet<()>,
    control: Option<TcpListener>,
    live: Option<(&Live, Stacks)>,
    faults: &Faults,
    tally: &Arc<Tally>,
) -> io::Result<()> {
    beside.spawn(warn(faults.clone()));
    if let Some((live, stacks)) = live {
        beside.spawn(live.watch(faults.clone(), stacks));
    }
    if let Some(control) = control {
        control.set_nonblocking(true)?;
        let control = tokio::net::TcpListener::from_std(control)?;
        beside.spawn(control::serve(control, faults.clone(), Arc::clone(tally)));
    }
    Ok(())
}

/// Datagrams may be longer than packets.
pub(crate) fn reassembling(builder: StackBuilder) -> io::Result<StackBuilder> {
    Ok(builder.reassembly(ReassemblyConfig::default()))
}

/// `options`: those that choose the ends.
pub(crate) fn cannot_be_end(error: HostedError, options: &str) -> Failure {
    match error {
        HostedError::Guest(error) => {
            Failure::usage(error.to_string()).remedy(format!("choose other ends with {options}"))
        }
        error => Failure::new(Exit::Failed, error.to_string()),
    }
}

/// All tasks. A crash of the host drops them with their sockets.
pub(crate) async fn until_done(mut tasks: JoinSet<anyhow::Result<()>>) {
    while let Some(done) = tasks.join_next().await {
        if let Ok(Err(error)) = done {
            output::say(format_args!("tcplab: {error:#}"));
        }
    }
}

/// Says once when the network falls behind.
async fn warn(faults: Faults) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Some(lateness) = faults.lateness().filter(|lateness| !lateness.is_valid()) {
            return output::say(format_args!("tcplab: the machine falls behind: {lateness}"));
        }
    }
}

/// Until SIGTERM.
#[cfg(unix)]
pub(crate) fn terminated() -> impl Future<Output = io::Result<()>> {
    use tokio::signal::unix::{SignalKind, signal};
    async { signal(SignalKind::terminate())?.recv().await.map_or_else(|| Ok(()), Ok) }
}

#[cfg(not(unix))]
pub(crate) fn terminated() -> impl Future<Output = io::Result<()>> {
    std::future::pending()
}
