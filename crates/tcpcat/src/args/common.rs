//! Options that every transfer has: TCP, observation, impairment; the device's are in `device`.

use std::path::PathBuf;
use std::time::Duration;

use ackclock::Shaping;
use ackclock_control::quantity::{Share, UnitError};
use clap::Args;

use super::{ControlArgs, DeviceArgs};
use crate::trace::FlightRecorder;
use crate::units;

/// Options of every transfer.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// Say what happens
    #[arg(short = 'v', long, help_heading = "Observation")]
    pub verbose: bool,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Use the kernel's TCP instead of the stack's, to compare
    #[arg(long, help_heading = "Device", conflicts_with_all = ["device", "tun", "addr", "queues", "peer", "mtu", "offload", "configure", "ports", "interface", "autoconf", "gateway", "mac", "promiscuous", "no_probe", "at_once", "pcap", "trace", "flight_recorder", "record", "control_socket", "shape", "Impairment"])]
    pub kernel: bool,
    #[command(flatten)]
    pub tcp: TcpArgs,
    #[command(flatten)]
    pub control: ControlArgs,
    #[command(flatten)]
    pub observe: ObserveArgs,
    #[command(flatten)]
    pub impair: ImpairArgs,
}

/// The connection's settings.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "TCP")]
pub(crate) struct TcpArgs {
    /// Largest payload of a segment in bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(48..))]
    pub mss: Option<u16>,
    /// Send buffer: most bytes that wait to be sent or acknowledged
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub sndbuf: Option<u64>,
    /// Receive buffer: most bytes that wait to be read; bounds the window
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub rcvbuf: Option<u64>,
    /// Send small segments at once (turns Nagle's algorithm off)
    #[arg(long)]
    pub nodelay: bool,
    /// Give up when the peer acknowledges nothing for this long, for example 30s
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub user_timeout: Option<Duration>,
    /// Give up when no data moves in either direction for this long, for example 5min
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub idle_timeout: Option<Duration>,
    /// Send no faster than this in all, whatever the number of connections, which share it evenly by bytes:
    /// 20Mbit/s or 20Mbit/s,burst=64KiB [default burst: 5 ms of the rate, at least 15,000 bytes]
    #[arg(long, value_name = "RATE[,burst=SIZE]", value_parser = units::shape)]
    pub shape: Option<Shaping>,
}

/// How a transfer is shown.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Observation")]
pub(crate) struct ObserveArgs {
    /// Print a line about each connection every TIME (1s), in the words of `ss -ti`
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1s",
          value_parser = interval)]
    pub stats: Option<Duration>,
    /// Print start, intervals and end as JSON (on stdout, or on stderr when stdout carries data)
    #[arg(long)]
    pub json: bool,
    /// Write all packets to a pcapng file, for Wireshark
    #[arg(long, value_name = "FILE", conflicts_with = "queues")]
    pub pcap: Option<PathBuf>,
    /// Write a trace file: what each connection does and why; segments, losses, timers, changes of the
    /// windows
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Keep each connection's newest records (1024); write them when it fails or stalls, or on SIGUSR1
    #[arg(long, value_name = "FILE[,RECORDS]")]
    pub flight_recorder: Option<FlightRecorder>,
    /// Record every call of the stack to a new file, which `tcplab replay` repeats: packets without their
    /// payload, times and the stack's secret
    #[arg(long, value_name = "FILE", conflicts_with = "queues")]
    pub record: Option<PathBuf>,
    /// Greatest size of the recording; beyond it the transfer goes on unrecorded [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = units::size, requires = "record")]
    pub record_limit: Option<u64>,
    /// Open a control socket here for ss, top and trace, to this user alone
    #[arg(long = "control", value_name = "PATH")]
    pub control_socket: Option<PathBuf>,
}

/// An emulated bad network between the stack and the device, in each direction.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Impairment (each way)")]
#[group(id = "Impairment", multiple = true, conflicts_with = "queues")]
pub(crate) struct ImpairArgs {
    /// Lose packets with this probability: 1% or 0.01
    #[arg(long, value_name = "P")]
    pub loss: Option<Share>,
    /// Delay packets by this long, for example 1.5ms
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub delay: Option<Duration>,
    /// A bottleneck of this rate, and the size of its queue: 10Mbit/s,queue=64KiB or
    /// 10Mbit/s,queue=100packets [default queue: 1000packets]
    #[arg(long, value_name = "RATE[,queue=SIZE]", value_parser = units::bottleneck)]
    pub rate_limit: Option<units::Bottleneck>,
    /// Mark ECN-capable packets with Congestion Experienced, with this probability
    #[arg(long, value_name = "P")]
    pub mark: Option<Share>,
    /// Mark packets that find this many waiting for the bottleneck of --rate-limit
    #[arg(long, value_name = "PACKETS", requires = "rate_limit")]
    pub mark_above: Option<usize>,
    /// Hold packets back until others overtake them, with this probability
    #[arg(long, value_name = "P")]
    pub reorder: Option<Share>,
    /// Duplicate packets, with this probability
    #[arg(long, value_name = "P")]
    pub dup: Option<Share>,
    /// Flip a bit in packets, with this probability
    #[arg(long, value_name = "P")]
    pub corrupt: Option<Share>,
    /// Seed of these probabilities: the same seed gives the same impairment
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

fn interval(word: &str) -> Result<Duration, String> {
    long_enough(units::duration(word))
}

/// As [`interval`], after a letter that counts seconds.
pub(super) fn interval_in_seconds(word: &str) -> Result<Duration, String> {
    long_enough(units::seconds(word))
}

fn long_enough(interval: Result<Duration, UnitError>) -> Result<Duration, String> {
    let interval = interval.map_err(|error| error.to_string())?;
    let shortest = Duration::from_millis(10);
    if interval < shortest { Err("the shortest interval is 10ms".to_owned()) } else { Ok(interval) }
}
