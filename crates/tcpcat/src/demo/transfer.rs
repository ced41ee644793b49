//! One transfer of the demonstration.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ackclock_cli::{Exit, Failure};
use tokio::io::AsyncWriteExt;

use super::exchange::{receive, send};
use super::network::{ADDR_A, ADDR_B, Hosts, KERNEL_A};
use crate::device::Label;
use crate::exit;
use crate::net::{Net, Stream};
use crate::transfer::{Broken, Copied};

/// Source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    UserToUser,
    UserToKernel,
    KernelToUser,
}

/// The result of a transfer.
#[derive(Clone, Debug)]
pub(super) struct Done {
    /// The sender's congestion controller, as reported by the sender.
    pub controller: String,
    pub bytes: u64,
    pub took: Duration,
    pub retransmits: u64,
}

impl Route {
    /// All routes; only one without the kernel.
    pub fn all(memory: bool) -> Vec<Self> {
        if memory {
            vec![Self::UserToUser]
        } else {
            vec![Self::UserToUser, Self::UserToKernel, Self::KernelToUser]
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::UserToUser => "user space → user space",
            Self::UserToKernel => "user space → kernel TCP",
            Self::KernelToUser => "kernel TCP → user space",
        }
    }
}

/// Moves `bytes` from one end to the other, or as many as possible in [`TIME_MAX`], and compares the hashes.
pub(super) async fn run(hosts: &Hosts, route: Route, bytes: u64) -> Result<Done, Failure> {
    let kernel = Net::kernel();
    let (from, from_addr, to, to_addr) = match route {
        Route::UserToUser => (&hosts.a, ADDR_A, &hosts.b, ADDR_B),
        Route::UserToKernel => (&hosts.a, ADDR_A, &kernel, KERNEL_A),
        Route::KernelToUser => (&kernel, KERNEL_A, &hosts.a, ADDR_A),
    };
    let listener =
        to.listen(SocketAddr::new(to_addr, PORT)).map_err(|error| to.failure("listening", &error))?;
    let connecting = from.connect(SocketAddr::new(from_addr, 0), SocketAddr::new(to_addr, PORT));
    let (sender, accepted) = tokio::join!(connecting, listener.accept());
    let sender = sender.map_err(|error| from.failure("connecting", &error))?;
    let (receiver, _) = accepted.map_err(|error| to.failure("accepting", &error))?;

    let (started, resent_before) = (Instant::now(), kernel_retransmits());
    let receiving = tokio::spawn(async move {
        let mut receiver = receiver;
        ended(receive(&mut receiver).await, &mut receiver).await
    });
    let mut sender = sender;
    let sent = ended(send(&mut sender, bytes, TIME_MAX).await, &mut sender).await?;
    let received = receiving.await.map_err(|error| Failure::new(Exit::Failed, error.to_string()))??;
    let took = started.elapsed();
    let bytes = compare(&sent, &received)?;
    let retransmits = match sender.info() {
        Some(info) => info.retransmits,
        None => kernel_retransmits().saturating_sub(resent_before),
    };
    let controller =
        sender.congestion().map_err(|error| from.failure("asking for the controller", &error))?;
    Ok(Done { controller, bytes, took, retransmits })
}

/// Closes one end's stream; the bytes that it moved with the other's consent.
async fn ended(moved: Result<Copied, Broken>, stream: &mut Stream) -> Result<Copied, Failure> {
    let moved = moved.map_err(|broken| match broken {
        Broken::Read(error) if error.kind() == io::ErrorKind::InvalidData => {
            exit::verification(error.to_string())
        }
        Broken::Read(error) | Broken::Write(error) => exit::network("moving data", &error, &label()),
        Broken::Interrupted => Failure::interrupted("the demonstration is incomplete"),
    })?;
    stream.shutdown().await.map_err(|error| exit::network("closing", &error, &label()))?;
    Ok(moved)
}

/// The device, which the demonstration makes itself.
fn label() -> Label {
    Label::new("the demo's device", "tcpcat doctor")
}

/// The number of bytes on which both ends agree.
fn compare(sent: &Copied, received: &Copied) -> Result<u64, Failure> {
    match sent.hash == received.hash && sent.bytes == received.bytes {
        true => Ok(sent.bytes),
        false => Err(exit::verification("the hashes of the data sent and received differ")),
    }
}

/// Segments that the kernel retransmitted in this network namespace: Tcp RetransSegs of RFC 4022.
fn kernel_retransmits() -> u64 {
    let text = fs::read_to_string("/proc/self/net/snmp").unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let at = names.split_whitespace().position(|name| name == "RetransSegs");
    at.and_then(|at| values.split_whitespace().nth(at)?.parse().ok()).unwrap_or(0)
}

const PORT: u16 = 7000;

/// After this long a transfer ends with what it has moved: six of them take less than two minutes.
pub(super) const TIME_MAX: Duration = Duration::from_secs(12);
