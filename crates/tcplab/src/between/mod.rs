//! `tcplab between`: the network of a scenario, in real time, between programs of this system.
//!
//! Two hosts of the network are its ends. A program connects to `--listen`; the connection is carried by one
//! of the first host to the second, and from there to `--to`.
//!
//! | question | file |
//! |---|---|
//! | What can be asked for? | `args.rs` |
//! | How is a connection carried? | `streams.rs` |
//! | How are datagrams carried? | `datagrams.rs` |
//! | What can be changed meanwhile, and looked at? | `control.rs` |
//! | What was carried, and was the machine fast enough? | `outcome.rs` |

mod args;
mod control;
mod datagrams;
mod outcome;
mod streams;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use ackclock::{ReassemblyConfig, Stack, StackBuilder};
use ackclock_cli::{Exit, Failure, output};
use ackclock_sim::units::Span;
use ackclock_sim::{Faults, HostedError, RunError, VirtualNetwork};
use tokio::task::JoinSet;

pub(crate) use args::BetweenArgs;
use outcome::{Outcome, Tally};

/// One pair of `--listen` and `--to`.
#[derive(Debug)]
struct Way {
    listener: TcpListener,
    datagrams: Option<UdpSocket>,
    /// Where the second host listens.
    server: SocketAddr,
    /// `HOST:PORT`.
    to: String,
    datagrams_idle: Duration,
    tally: Arc<Tally>,
}

pub(crate) fn run(args: &BetweenArgs) -> anyhow::Result<Exit> {
    output::distinct(&[("", Some(args.scenario.as_path())), ("--report", args.report.as_deref())])?;
    let (mut net, ends) = args.network()?;
    let tally = Arc::<Tally>::default();
    let ways = args.ways(&net, &ends, &tally)?;
    let control = args.control_listener()?;
    start(&mut net, &ends[1], &ways, streams::to_program, datagrams::to_program)?;
    start(&mut net, &ends[0], &ways, streams::from_programs, datagrams::from_programs)?;
    for way in &*ways {
        let listening = way.listener.local_addr()?;
        output::say(format_args!("{listening} leads from {} to {}, and on to {}", ends[0], ends[1], way.to));
    }
    if let Some(control) = &control {
        output::say(format_args!("control: http://{}/links", control.local_addr()?));
    }

    let (faults, stop_after) = (net.faults(), args.duration);
    let ended = net.run(async {
        let mut beside = JoinSet::new();
        beside.spawn(warn(faults.clone()));
        if let Some(control) = control {
            control.set_nonblocking(true)?;
            let control = tokio::net::TcpListener::from_std(control)?;
            beside.spawn(control::serve(control, faults, Arc::clone(&tally)));
        }
        stopped(stop_after).await
    });
    match ended {
        Ok(stopped) => stopped?,
        // After a century.
        Err(RunError::OutOfTime { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let outcome = Outcome::new(&tally, net.lateness().unwrap_or_default(), net.report());
    output::print_beside(args.report.as_ref(), &outcome.text())?;
    if let Some(path) = &args.report {
        output::write_json(path, &outcome)?;
    }
    if outcome.valid {
        return Ok(Exit::Done);
    }
    let why =
        format!("the machine fell behind, so this was not the scenario's network: {}", outcome.lateness);
    let remedy = "free a processor, poll for longer (--poll 20ms) or lower the rates; --late allows more";
    Err(Failure::new(Exit::Failed, why).remedy(remedy).into())
}

/// Starts a host, which serves each of the ways with both. A change may crash it and start it again.
fn start<S, D>(
    net: &mut VirtualNetwork,
    host: &str,
    ways: &Arc<[Way]>,
    streams: fn(Arc<[Way]>, usize, Stack) -> S,
    datagrams: fn(Arc<[Way]>, usize, Stack) -> D,
) -> Result<(), Failure>
where
    S: Future<Output = anyhow::Result<()>> + Send + 'static,
    D: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let ways = Arc::clone(ways);
    let started = net.start_with(host, reassembling, move |stack| {
        let mut tasks = JoinSet::new();
        let ways = Arc::clone(&ways);
        async move {
            for index in 0..ways.len() {
                tasks.spawn(streams(Arc::clone(&ways), index, stack.clone()));
                tasks.spawn(datagrams(Arc::clone(&ways), index, stack.clone()));
            }
            until_done(tasks).await;
        }
    });
    started.map_err(cannot_be_end)
}

/// Datagrams may be longer than packets.
fn reassembling(builder: StackBuilder) -> io::Result<StackBuilder> {
    Ok(builder.reassembly(ReassemblyConfig::default()))
}

fn cannot_be_end(error: HostedError) -> Failure {
    match error {
        HostedError::Guest(error) => {
            Failure::usage(error.to_string()).remedy("choose other ends with --client and --server")
        }
        error => Failure::new(Exit::Failed, error.to_string()),
    }
}

/// All tasks. A crash of the host drops them with their sockets.
async fn until_done(mut tasks: JoinSet<anyhow::Result<()>>) {
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

/// Until a signal, or the time.
async fn stopped(after: Option<Span>) -> io::Result<()> {
    let time = async {
        match after {
            Some(after) => tokio::time::sleep(Duration::from_nanos(after.0)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = time => Ok(()),
        signalled = tokio::signal::ctrl_c() => signalled,
        signalled = terminated() => signalled,
    }
}

#[cfg(unix)]
fn terminated() -> impl Future<Output = io::Result<()>> {
    use tokio::signal::unix::{SignalKind, signal};
    async { signal(SignalKind::terminate())?.recv().await.map_or_else(|| Ok(()), Ok) }
}

#[cfg(not(unix))]
fn terminated() -> impl Future<Output = io::Result<()>> {
    std::future::pending()
}
