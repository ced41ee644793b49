//! The command line.
//!
//! Without a subcommand the arguments are nc's: `tcpcat HOST PORT` and `tcpcat -l PORT`.

mod common;
mod control;
mod device;
mod foreign;
mod inspect;
mod target;

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use ackclock::profile::CHOICES;
use ackclock_cli::manual::{CompletionsArgs, ManArgs};
use ackclock_control::quantity::Share;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

pub(crate) use self::common::{Common, ImpairArgs, ObserveArgs, TcpArgs};
pub(crate) use self::control::{ControlArgs, is_simulated_only};
pub(crate) use self::device::{DeviceArgs, DeviceFlag, MacChoice};
pub(crate) use self::inspect::{SsArgs, TopArgs, TraceArgs, TraceCommand};
use self::target::port;
pub(crate) use self::target::{Target, is_loopback, scoped};
use crate::bench::{BLOCK_MAX, DATAGRAM_MIN};
use crate::net::DATAGRAM_MAX;
use crate::units;

/// Move data over TCP in user space: on a TUN or TAP device, an Ethernet interface, addresses of this host,
/// or a recording.
///
/// Data goes to stdout, everything else to stderr. Exit codes: 0 done, 1 reset or failed, 2 usage, 3 refused,
/// 4 timeout or unreachable, 5 device or permission, 6 local file, 7 verification; 129, 130, 131 and 143:
/// SIGHUP, SIGINT, SIGQUIT or SIGTERM ended send or recv; 141: the reader of stdout left.
///
/// Sizes, rates and times need a unit, as in 64KiB, 100Mbit/s and 20ms. As for dd and iperf3, 1M is 1048576
/// bytes as a size, and 1000000 bits a second as a rate.
#[derive(Debug, Parser)]
#[command(name = "tcpcat", version, args_conflicts_with_subcommands = true, override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    bare: BareArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send a file (`-` for stdin) to a peer; an incomplete transfer always ends in a reset
    #[command(
        override_usage = "tcpcat send [OPTIONS] FILE HOST PORT\n       tcpcat send [OPTIONS] FILE -l [HOST] \
            PORT"
    )]
    Send(FileArgs),
    /// Receive a file (`-` for stdout); a complete file gets its name, a part stays .NAME.PID.part
    #[command(
        override_usage = "tcpcat recv [OPTIONS] FILE -l [HOST] PORT\n       tcpcat recv [OPTIONS] FILE HOST \
            PORT"
    )]
    Recv(RecvArgs),
    /// Connect to a peer, and join the connection to stdin and stdout
    #[command(override_usage = "tcpcat connect [OPTIONS] HOST PORT")]
    Connect(PipeArgs),
    /// Wait for a peer, and join the connection to stdin and stdout
    #[command(override_usage = "tcpcat listen [OPTIONS] [HOST] PORT")]
    Listen(PipeArgs),
    /// Measure throughput, by iperf3's protocol: either end may be iperf3
    #[command(subcommand)]
    Bench(BenchRole),
    /// Show transfers in a private network: two user-space hosts, the kernel's TCP, loss; needs no root
    Demo(DemoArgs),
    /// Check what this machine is missing and print the commands to fix it
    Doctor(DoctorArgs),
    /// List the connections of a running stack, as ss does those of the kernel
    #[command(override_usage = "tcpcat ss [--control PATH] [-alipH] [--json] [FILTER]")]
    Ss(SsArgs),
    /// Watch the connections of a running stack: rates, windows, what each waits for
    Top(TopArgs),
    /// Trace one connection of a running stack, or fetch what its flight recorder holds
    Trace(TraceArgs),
    /// List the profiles, congestion controllers, recovery policies and timeouts, with their sources
    Profiles(ProfilesArgs),
    /// Print the manual page, or write one for each command: tcpcat man --out ~/.local/share/man/man1
    Man(ManArgs),
    /// Print a shell's completions: source <(tcpcat completions bash)
    Completions(CompletionsArgs),
}

/// The arguments without a subcommand.
#[derive(Args, Debug)]
struct BareArgs {
    /// Wait for a peer instead of connecting to one
    #[arg(short = 'l', long = "listen")]
    listen: bool,
    #[command(flatten)]
    pipe: PipeArgs,
}

/// A connection joined to stdin and stdout.
#[derive(Args, Debug)]
pub(crate) struct PipeArgs {
    #[command(flatten)]
    pub peer: PeerArgs,
    /// Listen for the next connection when one ends
    #[arg(short = 'k', long)]
    pub keep_open: bool,
    /// Close the sending side at the end of stdin, as nc does; without it the connection stays open until the
    /// peer closes
    #[arg(short = 'N')]
    pub shutdown: bool,
    /// Quit this long after the end of stdin, whatever the peer does; implies -N; a bare number counts
    /// seconds
    #[arg(short = 'q', value_name = "SECS", value_parser = units::seconds)]
    pub quit_after: Option<Duration>,
    /// Do not read stdin
    #[arg(short = 'd')]
    pub no_stdin: bool,
    /// Check whether the port answers, or which of a range do (HOST 7990-8001); move no data
    #[arg(short = 'z')]
    pub zero_io: bool,
    #[command(flatten)]
    pub move_: MoveArgs,
    #[command(flatten)]
    pub common: Common,
}

/// A file received.
#[derive(Args, Clone, Debug)]
pub(crate) struct RecvArgs {
    #[command(flatten)]
    pub file: FileArgs,
    /// Receive one file after another: with FILE a directory, each under a name of its own; otherwise each
    /// complete one replaces the one before, or follows it on stdout
    #[arg(short = 'k', long)]
    pub keep_open: bool,
}

/// A file sent or received.
#[derive(Args, Clone, Debug)]
pub(crate) struct FileArgs {
    /// The file; `-` stands for stdin or stdout
    pub file: PathBuf,
    /// Wait for the peer instead of connecting to it (implied without HOST)
    #[arg(short = 'l', long = "listen")]
    listen: bool,
    #[command(flatten)]
    pub peer: PeerArgs,
    /// Split the file into N parts that move over N connections at once; implies --verify. The sender's N
    /// counts, whichever end listens
    #[arg(short = 'P', long = "parallel", value_name = "N", default_value_t = 1, value_parser = streams)]
    pub streams: u16,
    /// Send the file's length in the handshake, so that recv shows progress without --verify: a TCP option
    /// (RFC 6994) that middleboxes may drop and that reveals the length; both ends need the flag
    #[arg(long, conflicts_with = "kernel")]
    pub announce_length: bool,
    #[command(flatten)]
    pub move_: MoveArgs,
    #[command(flatten)]
    pub common: Common,
}

/// The two ends of a measurement.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchRole {
    /// Serve measurements, to iperf3 or another tcpcat, until interrupted
    Server(BenchServerArgs),
    /// Run a measurement against a server, iperf3's or another tcpcat's
    Client(BenchClientArgs),
}

/// Serves measurements.
#[derive(Args, Debug)]
pub(crate) struct BenchServerArgs {
    /// Port to serve on
    #[arg(default_value = BENCH_PORT)]
    pub port: String,
    /// Exit after the first test
    #[arg(short = '1', long)]
    pub one_off: bool,
    /// Send and receive without copying between this program and its stack
    #[arg(short = 'Z', long)]
    pub zerocopy: bool,
    #[command(flatten)]
    pub common: Common,
}

/// Runs a measurement.
#[derive(Args, Debug)]
pub(crate) struct BenchClientArgs {
    /// The server's name or address, also as HOST:PORT
    pub host: String,
    /// Its port [default: 5201]
    pub port: Option<String>,
    /// Try again every second until the server listens
    #[arg(long)]
    pub retry: bool,
    /// How long to run; a bare number counts seconds, as for iperf3 [default: 10s, or until -n or -k is
    /// reached]
    #[arg(short = 't', long, value_name = "SECS", value_parser = units::seconds)]
    pub time: Option<Duration>,
    /// The server sends
    #[arg(short = 'R', long)]
    pub reverse: bool,
    /// Both ends send at once
    #[arg(long, conflicts_with = "reverse")]
    pub bidir: bool,
    /// Measure UDP: datagrams lost, out of order, and their jitter
    #[arg(short = 'u', long, conflicts_with_all = for_tcp_alone())]
    pub udp: bool,
    /// Number datagrams with 64 bits, for more than four thousand million of them
    #[arg(long, requires = "udp")]
    pub udp_counters_64bit: bool,
    /// Number of streams in one direction
    #[arg(short = 'P', long = "parallel", value_name = "N", default_value_t = 1, value_parser = streams)]
    pub streams: u16,
    /// Run until SIZE bytes have moved in one direction, of all streams together
    #[arg(short = 'n', long, value_name = "SIZE", value_parser = units::size)]
    pub bytes: Option<u64>,
    /// Run until that many blocks of the length -l have moved
    #[arg(short = 'k', long = "blockcount", value_name = "N", conflicts_with = "bytes")]
    pub blocks: Option<u64>,
    /// Bytes written or read at once, or of a datagram [default: 128K; with -u, those of a TCP segment]
    #[arg(short = 'l', long, value_name = "SIZE", value_parser = block_length)]
    pub length: Option<u64>,
    /// Limit the rate of all streams together: 10M is 10 Mbit/s, 10MB/s is 80 Mbit/s, 0 lifts the limit
    /// [default: 0; with -u, 1M]
    #[arg(short = 'b', long, visible_alias = "bitrate", value_name = "RATE",
          value_parser = units::rate_or_none)]
    pub rate: Option<u64>,
    /// Send and receive without copying between this program and its stack
    #[arg(short = 'Z', long)]
    pub zerocopy: bool,
    /// Show a progress bar with rate and congestion window, on a terminal
    #[arg(long)]
    pub progress: bool,
    #[command(flatten)]
    pub common: Common,
}

/// A demonstration.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// The device under the hosts [default: TUN devices, or a cable of memory where TUN is unavailable]
    #[arg(long, value_enum)]
    pub device: Option<DemoDevice>,
    /// How much each transfer moves
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = units::size)]
    pub bytes: u64,
    /// Loss rate of the second round, in each direction
    #[arg(long, value_name = "P", default_value = "1%")]
    pub loss: Share,
    /// Write a trace file: what the two hosts' connections do, and why
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Use the cable of memory even where TUN devices are available
    #[arg(long, conflicts_with = "device")]
    pub memory: bool,
    /// Open a control socket of host A here for ss, top and trace, to this user alone
    #[arg(long = "control", value_name = "PATH")]
    pub control_socket: Option<PathBuf>,
    /// Print the table as JSON on stdout
    #[arg(long)]
    pub json: bool,
}

/// The devices of the demonstration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoDevice {
    /// A TUN device each
    #[default]
    Tun,
    /// Addresses of the network namespace, by raw and packet sockets
    Raw,
    /// A packet socket each, on one end of a veth pair whose other end is the kernel's
    Packet,
    /// A TAP device each
    Tap,
}

/// A diagnosis.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Short for --device raw
    #[arg(long, conflicts_with = "device")]
    pub raw: bool,
    /// Used by doctor itself: tries to make the demo's namespaces in a separate process
    #[arg(long, hide = true)]
    pub probe_namespaces: bool,
}

/// A list of the choices by name.
#[derive(Args, Debug)]
pub(crate) struct ProfilesArgs {
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// The peer.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PeerArgs {
    /// The peer's name or address and its port, a number or a service, also as HOST:PORT; when listening, the
    /// local address (default: all) and the port
    #[arg(value_names = ["HOST", "PORT"], num_args = 0..=2)]
    words: Vec<String>,
    /// Local port
    #[arg(short = 'p', value_name = "PORT")]
    local_port: Option<String>,
    /// Local address, if the stack has several
    #[arg(short = 's', value_name = "ADDR")]
    pub source: Option<IpAddr>,
    /// Give up after this long without a connection or without data; a bare number counts seconds
    #[arg(short = 'w', value_name = "SECS", value_parser = units::seconds)]
    pub wait: Option<Duration>,
    /// Try again every second until a program listens at the peer, or -w is over
    #[arg(long)]
    pub retry: bool,
    /// Accept addresses only; do not resolve names
    #[arg(short = 'n')]
    pub numeric: bool,
    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6')]
    pub ipv6: bool,
}

/// How data is moved.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Transfer")]
pub(crate) struct MoveArgs {
    /// Show a progress bar with rate and congestion window, on a terminal
    #[arg(long)]
    pub progress: bool,
    /// Limit the rate: 10M is 10 Mbit/s, 10MB/s is 80 Mbit/s
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub rate: Option<u64>,
    /// Stop after SIZE bytes; when receiving, fewer bytes is an error
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub bytes: Option<u64>,
    /// Compare BLAKE3 hashes of the data sent and received (with nc as the peer: print this end's)
    #[arg(long)]
    pub verify: bool,
}

/// A command line that has been understood.
#[derive(Debug)]
pub(crate) enum Invocation {
    Pipe(PipeArgs, Target),
    Send(FileArgs, Target),
    Recv(RecvArgs, Target),
    BenchServer(BenchServerArgs, Target),
    BenchClient(BenchClientArgs, Target),
    Demo(DemoArgs),
    Doctor(DoctorArgs),
    Ss(SsArgs),
    Top(TopArgs),
    Trace(TraceArgs),
    Profiles(ProfilesArgs),
    Man(ManArgs),
    Completions(CompletionsArgs),
}

/// The command line, as manual and completions show it.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

impl Invocation {
    /// How many queues the device has, each with a driver.
    pub fn queues(&self) -> usize {
        let common = match self {
            Self::Pipe(args, _) => &args.common,
            Self::Send(args, _) => &args.common,
            Self::Recv(args, _) => &args.file.common,
            Self::BenchServer(args, _) => &args.common,
            Self::BenchClient(args, _) => &args.common,
            Self::Demo(_)
            | Self::Doctor(_)
            | Self::Ss(_)
            | Self::Top(_)
            | Self::Trace(_)
            | Self::Profiles(_)
            | Self::Man(_)
            | Self::Completions(_) => {
                return 1;
            }
        };
        common.device.queues().unwrap_or_else(|| common.device.device.queues())
    }
}

/// Understands a command line, the program's name first.
pub(crate) fn parse(words: &[OsString]) -> Result<Invocation, clap::Error> {
    let cli = Cli::try_parse_from(words).map_err(foreign::explain)?;
    understood(cli, words).map_err(|error| error.format(&mut named_by(words)))
}

/// The command that the words name, the innermost one, whose usage an error shows.
fn named_by(words: &[OsString]) -> clap::Command {
    let mut command = Cli::command();
    command.build();
    for word in words.iter().skip(1) {
        let Some(below) = word.to_str().and_then(|word| command.find_subcommand(word)) else { break };
        command = below.clone();
    }
    command
}

fn understood(cli: Cli, words: &[OsString]) -> Result<Invocation, clap::Error> {
    let Some(command) = cli.command else {
        if !cli.bare.pipe.zero_io {
            cli.bare.pipe.peer.refuse_range()?;
        }
        let target = cli.bare.pipe.peer.target(cli.bare.listen);
        // A word that is not a host may be a misspelt subcommand; clap then suggests one.
        let target = target.map_err(|error| misspelt(words).unwrap_or(error))?;
        return Ok(Invocation::Pipe(cli.bare.pipe, target));
    };
    Ok(match command {
        Command::Connect(args) => {
            if !args.zero_io {
                args.peer.refuse_range()?;
            }
            let target = args.peer.target(false)?;
            Invocation::Pipe(args, target)
        }
        Command::Listen(args) => {
            args.peer.refuse_range()?;
            let target = args.peer.target(true)?;
            Invocation::Pipe(args, target)
        }
        Command::Send(args) => {
            let target = args.target()?;
            Invocation::Send(args, target)
        }
        Command::Recv(args) => {
            let target = args.file.target()?;
            if args.keep_open && matches!(target, Target::Connect { .. }) {
                return Err(usage(
                    ErrorKind::ArgumentConflict,
                    "-k listens again after each file, and HOST PORT connects; leave out HOST, or add -l",
                ));
            }
            Invocation::Recv(args, target)
        }
        Command::Bench(BenchRole::Server(args)) => {
            let target = Target::Listen { host: None, port: port(&args.port)? };
            Invocation::BenchServer(args, target)
        }
        Command::Bench(BenchRole::Client(args)) => {
            let words = [Some(args.host.clone()), args.port.clone()].into_iter().flatten().collect();
            let target = bench_target(words)?;
            args.check()?;
            Invocation::BenchClient(args, target)
        }
        Command::Demo(args) => Invocation::Demo(args),
        Command::Doctor(args) => Invocation::Doctor(args),
        Command::Ss(args) => Invocation::Ss(args),
        Command::Top(args) => Invocation::Top(args),
        Command::Trace(args) => Invocation::Trace(args),
        Command::Profiles(args) => Invocation::Profiles(args),
        Command::Man(args) => Invocation::Man(args),
        Command::Completions(args) => Invocation::Completions(args),
    })
}

/// The server of a measurement, on iperf3's port unless another is named.
fn bench_target(mut words: Vec<String>) -> Result<Target, clap::Error> {
    if let [word] = words.as_slice()
        && target::joined(word).is_none()
    {
        words.push(BENCH_PORT.to_owned());
    }
    PeerArgs { words, ..PeerArgs::default() }.target(false)
}

impl BenchClientArgs {
    /// Refuses a length that no datagram has.
    fn check(&self) -> Result<(), clap::Error> {
        let fits = |len: u64| (DATAGRAM_MIN as u64..=DATAGRAM_MAX as u64).contains(&len);
        if !self.udp || self.length.is_none_or(fits) {
            return Ok(());
        }
        let message =
            format!("with -u, -l has from {DATAGRAM_MIN} to {DATAGRAM_MAX} bytes: those of a datagram");
        Err(usage(ErrorKind::ValueValidation, &message))
    }
}

impl FileArgs {
    fn target(&self) -> Result<Target, clap::Error> {
        self.peer.refuse_range()?;
        let no_host = match self.peer.words.as_slice() {
            [word] => target::joined(word).is_none(),
            words => words.is_empty(),
        };
        self.peer.target(self.listen || no_host)
    }
}

/// Clap's own error for the first word, if it resembles a subcommand.
fn misspelt(words: &[OsString]) -> Option<clap::Error> {
    #[derive(Debug, Parser)]
    #[command(name = "tcpcat")]
    struct Subcommands {
        #[command(subcommand)]
        _command: Command,
    }
    let error = Subcommands::try_parse_from(words).err()?;
    let suggests = error.get(clap::error::ContextKind::SuggestedSubcommand).is_some();
    (error.kind() == ErrorKind::InvalidSubcommand && suggests).then_some(error)
}

fn streams(word: &str) -> Result<u16, String> {
    let number = word.parse().ok().filter(|streams| (1..=STREAMS_MAX).contains(streams));
    number.ok_or_else(|| format!("the number of connections is from 1 to {STREAMS_MAX}"))
}

fn block_length(word: &str) -> Result<u64, String> {
    let length = units::size(word).map_err(|error| error.to_string())?;
    let fits = (1..=BLOCK_MAX).contains(&length);
    fits.then_some(length).ok_or_else(|| format!("a block has from 1 to {BLOCK_MAX} bytes, as for iperf3"))
}

/// The options that say nothing about datagrams.
fn for_tcp_alone() -> Vec<&'static str> {
    let single = ["zerocopy", "mss", "sndbuf", "rcvbuf", "nodelay", "profile", "cc"];
    single.into_iter().chain(CHOICES.iter().map(|choice| choice.key)).collect()
}

fn usage(kind: ErrorKind, message: &str) -> clap::Error {
    clap::Error::raw(kind, message)
}

/// The most connections of one transfer.
pub(crate) const STREAMS_MAX: u16 = 128;

/// iperf3's, too.
const BENCH_PORT: &str = "5201";

const USAGE: &str = "\
tcpcat [OPTIONS] HOST PORT
       tcpcat [OPTIONS] -l [HOST] PORT
       tcpcat COMMAND";

const EXAMPLES: &str = "\
Examples:
  tcpcat demo                                        see it work, no root needed
  tcpcat doctor                                      see what is missing here
  tcpcat --configure --addr 10.9.0.2/24 10.9.0.1 80  talk to a server of this machine's kernel
  tcpcat recv big.iso -l 7000 --verify --configure --addr 10.9.0.2/24
  tcpcat send big.iso 10.9.0.2 7000 --verify --progress --configure --tun tun1 --addr 10.9.1.2/24
  tcpcat bench client 10.9.0.1 --stats --cc bbr --configure --addr 10.9.0.2/24
  tcpcat bench client 10.9.0.1 --profile vegas-1995 --rto rfc6298,min=1s --configure --addr 10.9.0.2/24
  tcpcat send big.iso 192.0.2.9 7000 --device raw --ports 40000-40999 --addr 192.0.2.7/24
  tcpcat send big.iso 192.0.2.9 7000 --device packet --interface eth0 --addr 192.0.2.50/24 --gateway 192.0.2.1
  tcpcat recv big.iso -l 7000 --device tap --configure --addr 10.9.3.2/24
  tcpcat -l 7000 --device transfer.pcapng --addr 10.9.0.2/24     play a capture's other side
  tcpcat send big.iso 10.9.0.2 7000 --control /run/send.socket --configure --tun tun1 --addr 10.9.1.2/24
  tcpcat top --control /run/send.socket              watch it
  tcpcat ss -i --control /run/send.socket dst 10.9.0.2
  tcpcat profiles                                    see what --profile, --cc, --recovery, --rto take";

#[cfg(test)]
mod tests;
