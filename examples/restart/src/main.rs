//! A server under load that replaces itself.
//!
//! ```text
//! sudo cargo run --release -p ackclock-restart -- --restarts 100 --transfers 10000
//! ```
//!
//! The program makes a network namespace of its own, in which the kernel's TCP is the client. The server is a
//! process on a TUN device that sends back what it gets. As soon as its successor has started, it hands over
//! and ends. Each transfer compares the BLAKE3 hash of what came back with that of what was sent; a reset
//! fails it. During the first tenth of the transfers the server stays: their longest silence is the path's.

mod client;
mod server;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use tokio::process::{Child, Command};
use tokio::time::{Duration, Instant, sleep};

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
    let (mut end, to) = UnixStream::pair()?;
    let mut server = start(Role::First, None, to)?;
    client::wait_for_server().await?;
    let load = client::Load { transfers: args.transfers / 10, at_once: args.at_once, bytes: args.bytes };
    let path = client::run(load, 0).await?;

    let load = client::Load { transfers: args.transfers - load.transfers, ..load };
    let begun = Instant::now();
    let mut transfers = tokio::spawn(client::run(load, path.transfers));
    let every = path.took.mul_f64(9.0 / f64::from(args.restarts.max(1))).max(Duration::from_millis(20));
    for restart in 1..=args.restarts {
        let (next_end, to) = UnixStream::pair()?;
        let next = start(Role::Next, Some(end), to)?;
        let mut last = std::mem::replace(&mut server, next);
        end = next_end;
        let status = last.wait().await.context("waiting for a server that was replaced")?;
        ensure!(status.success(), "server {restart} failed when it was replaced: {status}");
        // Spread over the transfers, as long as these last.
        if !transfers.is_finished() {
            sleep((begun + every * restart).saturating_duration_since(Instant::now())).await;
        }
    }
    let restarted = (&mut transfers).await??;
    println!(
        "{} transfers of {} bytes, {} of them while the server was replaced {} times: all equal, no reset",
        path.transfers + restarted.transfers,
        args.bytes,
        restarted.transfers,
        args.restarts,
    );
    let beyond = restarted.silence.saturating_sub(path.silence);
    println!(
        "longest silence: {:.1} ms with one server, {:.1} ms while it was replaced ({:.1} ms beyond)",
        path.silence.as_secs_f64() * 1e3,
        restarted.silence.as_secs_f64() * 1e3,
        beyond.as_secs_f64() * 1e3,
    );
    server.kill().await?;
    Ok(())
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
