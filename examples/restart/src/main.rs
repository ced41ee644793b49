//! A server under load that replaces itself.
//!
//! ```text
//! sudo cargo run --release -p ackclock-restart -- --restarts 100 --transfers 10000
//! ```
//!
//! The program makes a network namespace of its own, in which the kernel's TCP is the client. The server is a
//! process on a TUN device that sends back what it gets. As soon as its successor has started, it hands over
//! and ends. Each transfer compares the BLAKE3 hash of what came back with that of what was sent; a reset
//! fails it, and so does a packet that found no room while it waited for the successor.
//!
//! The transfers run in rounds. During the first tenth of each round the server stays: the longest silence of
//! these is the path's, on this machine at this time. The run fails if a silence was longer than that by more
//! than `--silence-max-ms`. Each server also measures how long neither it nor its predecessor ran.

mod client;
mod server;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use ackclock::Stack;
use ackclock::device::PassedFd;
use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use tokio::process::{Child, Command};
use tokio::time::{Duration, Instant, sleep};

use self::client::Met;

#[derive(Parser)]
#[command(about = "A server under load that replaces itself")]
struct Args {
    /// How often the server is replaced.
    #[arg(long, default_value_t = 100)]
    restarts: u32,
    /// How many transfers run meanwhile.
    #[arg(long, default_value_t = 10_000)]
    transfers: u64,
    /// How many run at a time.
    #[arg(long, default_value_t = 16)]
    at_once: u64,
    /// The longest silence beyond the path's own, in milliseconds.
    #[arg(long, default_value_t = 50)]
    silence_max_ms: u64,
    /// Bytes of each.
    #[arg(long, default_value_t = 64 << 10)]
    bytes: usize,
    #[command(subcommand)]
    role: Option<Role>,
}

/// The part as which the program starts itself.
#[derive(Clone, Copy, Subcommand)]
enum Role {
    /// The first server: its successor is at standard output.
    #[command(hide = true)]
    First,
    /// A later one: its predecessor is at standard input, its successor at standard output.
    #[command(hide = true)]
    Next,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if args.role.is_none() {
        ackclock::device::netns::enter_private()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args.role {
        None => runtime.block_on(measure(&args)),
        Some(role) => runtime.block_on(server::run(matches!(role, Role::Next))),
    }
}

async fn measure(args: &Args) -> anyhow::Result<()> {
    let (end, to) = UnixStream::pair()?;
    let mut servers = Servers { server: start(Role::First, None, to)?, end, replaced: 0 };
    client::wait_for_server().await?;
    let (mut path, mut restarted) = (Met::default(), Met::default());
    for round in 1..=ROUNDS {
        let end = args.transfers * round / ROUNDS;
        let all = end - path.transfers - restarted.transfers;
        let load = client::Load { transfers: all / 10, at_once: args.at_once, bytes: args.bytes };
        let alone = client::run(load, end - all).await?;
        path.add(alone);

        let load = client::Load { transfers: all - load.transfers, ..load };
        let mut transfers = tokio::spawn(client::run(load, end - load.transfers));
        let restarts = u32::try_from(u64::from(args.restarts) * round / ROUNDS)? - servers.replaced;
        // Spread over the transfers, as long as these last.
        let every = alone.took.mul_f64(9.0 / f64::from(restarts.max(1))).max(Duration::from_millis(20));
        let begun = Instant::now();
        for restart in 1..=restarts {
            servers.replace().await?;
            if !transfers.is_finished() {
                sleep((begun + every * restart).saturating_duration_since(Instant::now())).await;
            }
        }
        restarted.add((&mut transfers).await??);
    }
    println!(
        "{} transfers of {} bytes, {} of them while the server was replaced {} times: all equal, no reset",
        path.transfers + restarted.transfers,
        args.bytes,
        restarted.transfers,
        args.restarts,
    );
    let beyond = restarted.silence.saturating_sub(path.silence);
    println!(
        "longest silence: {} ms with one server, {} ms while it was replaced ({} ms beyond)",
        millis(path.silence),
        millis(restarted.silence),
        millis(beyond),
    );
    let dropped = dropped()?;
    let mut stood_still = servers.end().await?;
    ensure!(stood_still.len() == usize::try_from(args.restarts)?, "{} replacements", stood_still.len());
    stood_still.sort_unstable();
    let [median, longest] = [stood_still.get(stood_still.len() / 2), stood_still.last()]
        .map(|time| millis(time.copied().unwrap_or_default()));
    println!("no server ran for {median} ms in the median, {longest} ms at most; {dropped} packets dropped");
    ensure!(dropped == 0, "the device dropped {dropped} packets; a longer queue (txqueuelen) holds them");
    let most = Duration::from_millis(args.silence_max_ms);
    ensure!(
        beyond <= most,
        "a transfer heard nothing for {} ms more than with one server, which is above the bound of {} ms; \
         replacing a server took {longest} ms at most: if that is little, run this on an idle machine",
        millis(beyond),
        args.silence_max_ms,
    );
    Ok(())
}

/// The server that runs, and how it learns of its successor.
struct Servers {
    server: Child,
    end: UnixStream,
    replaced: u32,
}

impl Servers {
    async fn replace(&mut self) -> anyhow::Result<()> {
        let (end, to) = UnixStream::pair()?;
        let next = start(Role::Next, Some(std::mem::replace(&mut self.end, end)), to)?;
        self.replaced += 1;
        ended(std::mem::replace(&mut self.server, next)).await
    }

    /// Takes the stack over and ends it. Returns how long no server ran, for each replacement.
    async fn end(self) -> anyhow::Result<Vec<Duration>> {
        let taken = Stack::builder().take_over(&self.end, |fd| PassedFd::new(fd)?.open(None))?;
        ended(self.server).await?;
        let state = server::State::read(&taken.application).context("the state of the last server")?;
        taken.stack.shutdown().await;
        Ok(state.stood_still)
    }
}

async fn ended(mut server: Child) -> anyhow::Result<()> {
    let status = server.wait().await.context("waiting for a server that was replaced")?;
    ensure!(status.success(), "a server failed when it was replaced: {status}");
    Ok(())
}

/// How many packets found no room in the queue of the server's device.
fn dropped() -> anyhow::Result<u64> {
    let devices = std::fs::read_to_string("/proc/net/dev")?;
    let figures =
        devices.lines().find_map(|line| line.trim().strip_prefix("tun0:")).context("tun0 is there")?;
    let dropped = figures.split_whitespace().nth(SENT_DROPPED).context("it has sixteen figures")?;
    Ok(dropped.parse()?)
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// Starts a server between two sockets. It ends with this process.
fn start(role: Role, from: Option<UnixStream>, to: UnixStream) -> anyhow::Result<Child> {
    let word = match role {
        Role::First => "first",
        Role::Next => "next",
    };
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(word).kill_on_drop(true).stdout(Stdio::from(OwnedFd::from(to)));
    command.stdin(from.map_or_else(Stdio::null, |from| Stdio::from(OwnedFd::from(from))));
    command.spawn().context("starting a server")
}

const ROUNDS: u64 = 5;
/// The place of `drop` among the figures of `/proc/net/dev`, after the eight of packets that were received.
const SENT_DROPPED: usize = 11;
