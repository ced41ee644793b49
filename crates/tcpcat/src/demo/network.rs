//! The network of the demonstration: hosts A and B in user space, each on its own device, the kernel between.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use ackclock::{Cidr, Stack};
use ackclock_cli::{Exit, Failure};
use ackclock_control::quantity::Share;
use ackclock_device::impair::{Impaired, Settings};
use ackclock_device::{Device, memory, netns};

use tokio::time::Instant;

use super::table::percent;
use super::wires::{self, End};
use crate::args::DemoDevice;
use crate::device::Label;
use crate::net::Net;
use crate::trace::{Recorder, TraceFile, Wanted};

/// The network under the demonstration.
#[derive(Debug)]
pub(crate) enum Ground {
    /// The process's own network namespace.
    Namespace { as_root: bool, device: DemoDevice },
    /// A cable of memory, and the reason for it.
    Memory { why: String },
}

/// The hosts, ready to exchange data.
#[derive(Debug)]
pub(super) struct Hosts {
    pub(super) a: Net,
    pub(super) b: Net,
    recorders: Vec<Recorder>,
}

/// A trace of all hosts in one file; their clocks share one time zero.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) file: TraceFile,
    epoch: Instant,
}

impl Trace {
    pub fn begin(path: &Path) -> Result<Self, Failure> {
        let wanted = Wanted::whole(path)?;
        Ok(Self { epoch: Instant::now(), file: wanted.begin(ackclock::Instant::ZERO)? })
    }
}

impl Ground {
    pub fn enter(device: DemoDevice) -> Self {
        match netns::enter_private() {
            Ok(right) => Self::Namespace { as_root: right == netns::Right::Privileged, device },
            Err(error) => Self::memory(&error.to_string()),
        }
    }

    pub fn memory(why: &str) -> Self {
        Self::Memory { why: why.to_owned() }
    }

    pub fn is_memory(&self) -> bool {
        matches!(self, Self::Memory { .. })
    }
}

impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace { as_root, device } => {
                let right = if *as_root { "" } else { ", without root" };
                write!(
                    f,
                    "Two hosts in user space ({ADDR_A} {}, {ADDR_B} {}) and this kernel's TCP between \
                     them,\nin this process's private network namespace{right}.",
                    wires::place(*device, End::A),
                    wires::place(*device, End::B)
                )
            }
            Self::Memory { why } => write!(
                f,
                "Two hosts in user space on a cable of memory; the kernel takes no part.\nNo devices: {why}"
            ),
        }
    }
}

impl Hosts {
    /// Creates new devices and hosts; host A's device loses packets in each direction with probability
    /// `loss`.
    pub async fn build(
        ground: &Ground,
        loss: Share,
        trace: Option<&Trace>,
        control: Option<&Path>,
    ) -> Result<Self, Failure> {
        let (a, b): (Box<dyn Device>, Box<dyn Device>) = match ground {
            Ground::Namespace { device, .. } => wires::lay(*device).await?,
            Ground::Memory { .. } => {
                let cable = memory::Config { gso: true, queue_packets: 4096, ..memory::Config::default() };
                let (a, b) = memory::pair(cable);
                (Box::new(a), Box::new(b))
            }
        };
        let a: Box<dyn Device> = if loss > Share::ZERO {
            let lossy = Settings { loss, ..Settings::default() };
            Box::new(Impaired::new(a, SEED, lossy, lossy).map_err(|error| Failure::usage(error.to_string()))?)
        } else {
            a
        };
        let (a, b) = (host(a, ADDR_A, trace, control)?, host(b, ADDR_B, trace, None)?);
        let mut recorders = Vec::new();
        for (name, stack) in [("A", &a), ("B", &b)] {
            let name = format!("{name} at {} loss", percent(loss));
            recorders.extend(trace.map(|trace| trace.file.record(&name, stack)).transpose()?);
        }
        let label = |name: &str| Label::new(name, "tcpcat doctor");
        Ok(Self { a: Net::user(a, label("host A")), b: Net::user(b, label("host B")), recorders })
    }

    /// Closes the hosts and their devices.
    pub async fn close(self) {
        self.a.close().await;
        self.b.close().await;
        for recorder in self.recorders {
            recorder.end().await;
        }
        wires::gone().await;
    }
}

fn host(
    device: Box<dyn Device>,
    addr: IpAddr,
    trace: Option<&Trace>,
    control: Option<&Path>,
) -> Result<Stack, Failure> {
    let address = Cidr::new(addr, PREFIX).map_err(|error| Failure::usage(error.to_string()))?;
    let builder = Stack::builder().device(device).address(address);
    let mut builder =
        builder.congestion_control(CONTROLLER).map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(trace) = trace {
        builder = builder.trace(trace.file.config()).epoch(trace.epoch);
    }
    if let Some(path) = control {
        builder = builder.control(path);
    }
    builder.spawn().map_err(|error| Failure::new(Exit::Device, error.to_string()))
}

pub(super) const ADDR_A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 1, 2));
pub(super) const ADDR_B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 2, 2));
/// The kernel's own addresses on the two devices.
pub(super) const KERNEL_A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 1, 1));
pub(super) const KERNEL_B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 2, 1));
pub(super) const PREFIX: u8 = 24;
/// Every sender's controller: the kernel's default is not the same on every machine.
pub(super) const CONTROLLER: &str = "cubic";

/// The seed of the losses: each run that sends the same packets loses the same ones.
const SEED: u64 = 1;
