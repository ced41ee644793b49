//! `tcplab shell`: a command in a network namespace whose packets all pass the network of a scenario.
//!
//! The kernel of the namespace is one host: its packets leave by a TUN device and enter the network there. At
//! another host, a stack takes whatever arrives, for any address, and goes on with sockets of this system. So
//! it takes no privilege, as long as users may make namespaces.
//!
//! | question | file |
//! |---|---|
//! | How does the command get into its namespace? | `inside.rs` |
//! | How does the TUN device come out of it? | `channel.rs` |
//! | How do connections and datagrams go on? | `outside.rs` |

mod channel;
mod inside;
mod outside;

use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;

use ackclock_cli::output::Described;
use ackclock_cli::{Exit, Failure, output};
use ackclock_device::PassedFd;
use ackclock_sim::{RunError, VirtualNetwork};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::live::Live;
use crate::real_time;
use crate::real_time::args::RealTimeArgs;
use crate::real_time::outcome::{Outcome, Tally};
use crate::real_time::stacks::Stacks;
pub(crate) use inside::{InsideArgs, enter};
use outside::Outside;

/// Options of `tcplab shell`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    network: RealTimeArgs,
    /// The host of the scenario at which the command is [default: the first]
    #[arg(long, value_name = "HOST")]
    inside: Option<String>,
    /// The host of the scenario at which this system's network begins [default: the last]
    #[arg(long, value_name = "HOST")]
    outside: Option<String>,
    /// The command and its arguments [default: the shell that $SHELL names]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &ShellArgs) -> anyhow::Result<ExitCode> {
    output::distinct(&args.network.files())?;
    let scenario = args.network.read()?;
    let chosen = [("--inside", args.inside.as_ref()), ("--outside", args.outside.as_ref())];
    let (mut net, [inside, far]) = args.network.network(&scenario, chosen)?;
    let address = |host: &str| net.lookup(host).map_err(|problem| Failure::usage(problem.to_string()));
    let (inner, gateway) = (address(&inside)?, address(&far)?);
    let control = args.network.control_listener()?;

    let tally = Arc::new(Tally::at_far_end());
    let outside = Outside::new(gateway);
    let (served, stacks) = (Arc::clone(&tally), Stacks::default());
    let (shown, name) = (stacks.clone(), far.clone());
    net.set_gateway(&far).map_err(|problem| Failure::usage(problem.to_string()))?;
    net.start_with(&far, real_time::reassembling, move |stack| {
        let tally = Arc::clone(&served);
        let entry = shown.enter(&name, &stack);
        async move {
            let _entry = entry;
            let mut tasks = JoinSet::new();
            tasks.spawn(outside::connections(stack.clone(), outside, Arc::clone(&tally)));
            tasks.spawn(outside::datagrams(stack, outside, tally));
            real_time::until_done(tasks).await;
        }
    })
    .map_err(cannot_be_end)?;
    let Some(mtu) = net.mtu(&inside) else {
        let what = format!("`{inside}` is a router, which sends nothing itself");
        return Err(Failure::usage(what).remedy("choose other ends with --inside and --outside").into());
    };

    let hosts = hosts(&net);
    let mut namespace = Namespace::start(&args.command, inner, gateway, mtu, &hosts)?;
    let Some(tun) = namespace.tun()? else {
        // It has said why.
        return Ok(code(namespace.child.wait()?));
    };
    let device = {
        let _within = net.enter();
        PassedFd::new(tun)?.open(Some(mtu))?
    };
    net.attach(&inside, device).map_err(cannot_be_end)?;

    let live = args.network.live(&scenario, &[far])?;
    let faults = net.faults();
    let ended: Result<io::Result<ExitStatus>, RunError> = net.run(async {
        let mut beside = JoinSet::new();
        real_time::watch(&mut beside, control, live.as_ref().map(|live| (live, stacks)), &faults, &tally)?;
        namespace.run().await
    });
    let status = ended??;
    live.map_or(Ok(()), Live::end)?;
    let outcome = Outcome::new(&tally, net.lateness().unwrap_or_default(), net.report());
    // The command's own output may go on to another program.
    output::say(outcome.text());
    if let Some(path) = &args.network.report {
        Described::new(&outcome).write(path)?;
    }
    if !outcome.valid {
        output::say(format_args!("tcplab: {}", outcome.invalid()));
    }
    let failed = !status.success();
    Ok(if outcome.valid || failed { code(status) } else { Exit::Failed.into() })
}

/// The network's hosts and routers as lines of hosts(5). A name that such a line cannot hold, or that
/// programs take for their own machine, is left out.
fn hosts(net: &VirtualNetwork) -> Vec<String> {
    let is_host_name = |name: &str| {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        name.chars().all(fits) && name != "localhost"
    };
    let named = net.simulation().addresses().filter(|(name, _)| is_host_name(name));
    named.take(HOSTS_MAX).map(|(name, addr)| format!("{addr} {name}")).collect()
}

fn cannot_be_end(error: ackclock_sim::HostedError) -> Failure {
    real_time::cannot_be_end(error, "--inside and --outside")
}

/// The code that a shell would return.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// The process that becomes the command.
struct Namespace {
    child: Child,
    channel: UnixStream,
}

impl Namespace {
    /// Starts this program again, because only a process with one thread can enter a user namespace.
    fn start(
        command: &[OsString],
        inner: IpAddr,
        gateway: IpAddr,
        mtu: usize,
        hosts: &[String],
    ) -> anyhow::Result<Self> {
        let (channel, other) = UnixStream::pair()?;
        let shell = || std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
        let command = if command.is_empty() { vec![shell()] } else { command.to_vec() };
        let child = Command::new("/proc/self/exe")
            .arg("shell-inside")
            .args(["--address", &inner.to_string(), "--name-server", &gateway.to_string()])
            .args(["--mtu", &mtu.to_string()])
            .args(hosts.iter().flat_map(|line| ["--host", line]))
            .arg("--")
            .args(command)
            .stdin(Stdio::from(OwnedFd::from(other)))
            .spawn()?;
        channel::send(&channel, &io::stdin())?;
        Ok(Self { child, channel })
    }

    /// The TUN device, unless the process has ended because it could not make one.
    fn tun(&self) -> io::Result<Option<OwnedFd>> {
        channel::receive(&self.channel)
    }

    /// Lets the command run until it ends. Ctrl-C and Ctrl-\ reach it from the terminal; what is sent to
    /// this process to end it is passed on.
    async fn run(&mut self) -> io::Result<ExitStatus> {
        let (_interrupts, _quits) = (signal(SignalKind::interrupt())?, signal(SignalKind::quit())?);
        let (mut terminations, mut hangups) =
            (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        let mut children = signal(SignalKind::child())?;
        channel::go(&self.channel)?;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            let passed_on = tokio::select! {
                _ = children.recv() => continue,
                _ = terminations.recv() => Signal::TERM,
                _ = hangups.recv() => Signal::HUP,
            };
            // It was not waited for yet, so the number is still its own.
            if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
                kill_process(pid, passed_on).ok();
            }
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Without effect once it has ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// How many of the network's hosts the command knows by name: what a command line holds.
const HOSTS_MAX: usize = 10_000;
