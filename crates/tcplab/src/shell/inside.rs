//! The process that enters the namespace, makes the TUN device, passes it out, and becomes the command.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use ackclock_cli::{Exit, Failure, output};
use ackclock_device::PassedFd;
use ackclock_device::configure::{Cidr, add_route, configure, set_up};
use ackclock_device::netns::{self, Identity, replace_file};
use anyhow::Context;
use rustix::process::{Signal, getegid, set_parent_process_death_signal};

use super::channel;

/// Options of the process that `tcplab shell` starts. Its stdin is the channel.
#[derive(Debug, clap::Args)]
pub(crate) struct InsideArgs {
    /// The address of the kernel in the namespace
    #[arg(long)]
    address: IpAddr,
    #[arg(long)]
    mtu: u32,
    /// Where it asks for names
    #[arg(long)]
    name_server: IpAddr,
    /// Names that it knows without asking, each as a line of hosts(5)
    #[arg(long = "host")]
    hosts: Vec<String>,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the command. Returns only if that fails.
pub(crate) fn enter(args: &InsideArgs) -> anyhow::Result<ExitCode> {
    let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let stdin = channel::receive(&channel)?.context("this command is started by `tcplab shell`")?;
    netns::enter_private_as(Identity::Same).map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    let tun = network(args)?;
    names(args);
    channel::send(&channel, &tun)?;
    drop(tun);
    // Set it after entering the namespace, because the new rights would clear it. Without the network there
    // is nothing to run in.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if channel::wait(&channel).is_err() {
        return Ok(Exit::Failed.into());
    }
    drop(channel);
    let Some((program, words)) = args.command.split_first() else { return Ok(Exit::Usage.into()) };
    let error = Command::new(program).args(words).stdin(Stdio::from(stdin)).exec();
    output::say(format_args!("tcplab: cannot run {}: {error}", program.display()));
    // As shells say it.
    Ok(ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 }))
}

/// The namespace's network: a loopback, and a TUN device to which everything else goes.
fn network(args: &InsideArgs) -> anyhow::Result<PassedFd> {
    set_up("lo", true)?;
    let tun = PassedFd::make(TUN)?;
    let (own, all) = if args.address.is_ipv4() { (32, "0.0.0.0/0") } else { (128, "::/0") };
    configure(TUN).address(Cidr::new(args.address, own)?).mtu(args.mtu).apply()?;
    add_route(TUN, all.parse()?)?;
    // Programs without privileges may ping. A kernel that knows this setting not does without.
    let group = getegid().as_raw();
    fs::write("/proc/sys/net/ipv4/ping_group_range", format!("{group} {group}")).ok();
    Ok(tun)
}

/// Has programs know the scenario's hosts by name, and ask for other names through the network. Where that
/// cannot be, they ask whom they are used to.
fn names(args: &InsideArgs) {
    let servers = |text: &str| {
        let others = text.lines().filter(|line| !line.trim_start().starts_with("nameserver"));
        let others: String = others.flat_map(|line| [line, "\n"]).collect();
        format!("{others}nameserver {}\n", args.name_server)
    };
    // The first line that has a name decides.
    let hosts = |text: &str| format!("{}\n{text}", args.hosts.join("\n"));
    if let Err(error) = rewrite(RESOLV_CONF, servers).and_then(|()| rewrite(HOSTS, hosts)) {
        output::say(format_args!("tcplab: names are not looked up through the network: {error:#}"));
    }
}

/// Shows a system's file changed, here and in the command; a system without the file does without.
fn rewrite(path: &str, change: impl FnOnce(&str) -> String) -> anyhow::Result<()> {
    let Ok(text) = fs::read_to_string(path) else { return Ok(()) };
    let new = Temporary::new(&change(&text))?;
    Ok(replace_file(&new.0, Path::new(path))?)
}

/// A file that is removed in the end. Mounts bound to it stay.
struct Temporary(PathBuf);

impl Temporary {
    fn new(text: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("tcplab-names-{}", std::process::id()));
        let mut file = File::create_new(&path)?;
        let temporary = Self(path);
        file.write_all(text.as_bytes())?;
        Ok(temporary)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

const TUN: &str = "tun0";
const RESOLV_CONF: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";
