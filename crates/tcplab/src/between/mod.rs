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
//!
//! The rest is that of every network in real time: `src/real_time/`.

mod args;
mod datagrams;
mod streams;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use ackclock::Stack;
use ackclock_cli::output::Described;
use ackclock_cli::{Exit, Failure, output};
use ackclock_sim::units::Span;
use ackclock_sim::{RunError, VirtualNetwork};
use tokio::task::JoinSet;

use crate::live::Live;
use crate::real_time;
use crate::real_time::outcome::{Outcome, Tally};
use crate::real_time::stacks::Stacks;
pub(crate) use args::BetweenArgs;

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
    output::distinct(&args.network.files())?;
    let scenario = args.network.read()?;
    let (mut net, ends) = args.network(&scenario)?;
    let tally = Arc::<Tally>::default();
    let ways = args.ways(&net, &ends, &tally)?;
    let control = args.network.control_listener()?;
    let stacks = Stacks::default();
    start(&mut net, &ends[1], &ways, &stacks, streams::to_program, datagrams::to_program)?;
    start(&mut net, &ends[0], &ways, &stacks, streams::from_programs, datagrams::from_programs)?;
    for way in &*ways {
        let listening = way.listener.local_addr()?;
        output::say(format_args!("{listening} leads from {} to {}, and on to {}", ends[0], ends[1], way.to));
    }
    if let Some(control) = &control {
        output::say(format_args!("control: http://{}/links", control.local_addr()?));
    }

    let live = args.network.live(&scenario, &ends)?;
    let (faults, stop_after) = (net.faults(), args.duration);
    let ended = net.run(async {
        let mut beside = JoinSet::new();
        real_time::watch(&mut beside, control, live.as_ref().map(|live| (live, stacks)), &faults, &tally)?;
        stopped(stop_after).await
    });
    match ended {
        Ok(stopped) => stopped?,
        // After a century.
        Err(RunError::OutOfTime { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    live.map_or(Ok(()), Live::end)?;
    let outcome = Outcome::new(&tally, net.lateness().unwrap_or_default(), net.report());
    output::print_beside(args.network.report.as_ref(), &outcome.text())?;
    if let Some(path) = &args.network.report {
        Described::new(&outcome).write(path)?;
    }
    if outcome.valid {
        return Ok(Exit::Done);
    }
    Err(outcome.invalid().into())
}

/// Starts a host, which serves each of the ways with both. A change may crash it and start it again.
fn start<S, D>(
    net: &mut VirtualNetwork,
    host: &str,
    ways: &Arc<[Way]>,
    stacks: &Stacks,
    streams: fn(Arc<[Way]>, usize, Stack) -> S,
    datagrams: fn(Arc<[Way]>, usize, Stack) -> D,
) -> Result<(), Failure>
where
    S: Future<Output = anyhow::Result<()>> + Send + 'static,
    D: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let (ways, stacks, name) = (Arc::clone(ways), stacks.clone(), host.to_owned());
    let started = net.start_with(host, real_time::reassembling, move |stack| {
        let mut tasks = JoinSet::new();
        let ways = Arc::clone(&ways);
        let entry = stacks.enter(&name, &stack);
        async move {
            let _entry = entry;
            for index in 0..ways.len() {
                tasks.spawn(streams(Arc::clone(&ways), index, stack.clone()));
                tasks.spawn(datagrams(Arc::clone(&ways), index, stack.clone()));
            }
            real_time::until_done(tasks).await;
        }
    });
    started.map_err(|error| real_time::cannot_be_end(error, "--client and --server"))
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
        signalled = real_time::terminated() => signalled,
    }
}
