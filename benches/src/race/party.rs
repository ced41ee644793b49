//! The two TCPs as senders and as receivers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ackclock::{ConnectionInfo, FourTuple, Stack};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::cell::Party;
use super::ground::Host;
use super::trace::Tracing;
use crate::sys;

/// A receiver that takes one connection.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) addr: SocketAddr,
    received: Arc<AtomicU64>,
    /// Of the kernel's receiver: the connection that a thread reads from, once it is accepted.
    accepted: Arc<OnceLock<TcpStream>>,
}

/// A sender that sends until it is dropped.
#[derive(Debug)]
pub(super) enum Sender {
    Linux(TcpStream),
    Ackclock(Stack, Option<Tracing>),
}

/// A sender's report about itself.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct SenderReport {
    /// The controller that it reports.
    pub controller: String,
    /// Bytes of payload sent.
    pub bytes_sent: u64,
    /// Of these, retransmitted.
    pub bytes_again: u64,
    /// Expiries of its retransmission timer.
    pub timeouts: u64,
    /// Episodes of loss, if it counts them.
    pub loss_episodes: Option<u64>,
    /// Its smallest round trip in microseconds.
    pub rtt_min_us: u64,
    /// Its smoothed round trip in microseconds.
    pub srtt_us: u64,
    /// Its congestion window in segments.
    pub cwnd_segments: u64,
    /// Its slow-start threshold in segments, if it has one.
    pub ssthresh_segments: Option<u64>,
}

impl Receiver {
    /// Listens.
    pub(super) fn listen(host: &Host, party: Party, port: u16) -> io::Result<Self> {
        let received = Arc::new(AtomicU64::new(0));
        let addr = host.listens_at(party, port);
        let count = Arc::clone(&received);
        let accepted = Arc::new(OnceLock::new());
        match party {
            Party::Linux => {
                let listener = host.namespace.run(async move { TcpListener::bind(addr) })?;
                let accepted = Arc::clone(&accepted);
                host.namespace.run(async move {
                    drop(tokio::task::spawn_blocking(move || swallow(&listener, &accepted, &count)))
                });
            }
            Party::Ackclock => {
                let listener = host.stack(None, None).listen(addr)?;
                host.namespace.handle().spawn(async move {
                    let Ok((mut stream, _)) = listener.accept().await else { return };
                    let mut buffer = vec![0; CHUNK];
                    while let Ok(len @ 1..) = stream.read(&mut buffer).await {
                        count.fetch_add(len as u64, Ordering::Relaxed);
                    }
                });
            }
        }
        Ok(Self { addr, received, accepted })
    }

    /// Bytes that its application has read so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // Its path is gone, or about to be: the end of the stream would never come, and the thread would keep
        // its namespace.
        if let Some(stream) = self.accepted.get() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Sender {
    /// Connects to `to` and keeps sending.
    pub(super) fn start(
        host: &Host,
        party: Party,
        to: SocketAddr,
        controller: &str,
        trace: Option<&std::path::Path>,
    ) -> io::Result<Self> {
        if party == Party::Linux {
            let (socket, writer) = host.namespace.run(async move {
                let socket = tokio::task::spawn_blocking(move || TcpStream::connect(to)).await??;
                let writer = socket.try_clone()?;
                io::Result::Ok((socket, writer))
            })?;
            host.namespace.run(async move { drop(tokio::task::spawn_blocking(move || pour(writer))) });
            return Ok(Self::Linux(socket));
        }
        let stack = host.stack(Some(controller), trace.map(|_| ackclock::trace::TraceConfig::FULL));
        let tracing = trace.map(|path| Tracing::start(path, &stack, host.namespace.handle())).transpose()?;
        let own = stack.clone();
        host.namespace.run(async move {
            let mut stream = own.connect(to).await?;
            tokio::spawn(async move {
                let chunk = vec![0x5a; CHUNK];
                while stream.write_all(&chunk).await.is_ok() {}
            });
            io::Result::Ok(())
        })?;
        Ok(Self::Ackclock(stack, tracing))
    }

    /// The sender's report now.
    pub(super) fn report(&self) -> io::Result<SenderReport> {
        match self {
            Self::Linux(socket) => linux_report(socket),
            Self::Ackclock(stack, _) => {
                let (_, info) = connection(stack)?;
                let segments = |bytes: u64| bytes / u64::from(info.snd_mss.max(1));
                Ok(SenderReport {
                    controller: info.congestion.to_owned(),
                    bytes_sent: info.bytes_sent,
                    bytes_again: info.bytes_retransmitted,
                    timeouts: info.timeouts,
                    loss_episodes: Some(info.loss_episodes),
                    rtt_min_us: micros(info.rtt_min),
                    srtt_us: micros(info.srtt),
                    cwnd_segments: segments(info.cwnd),
                    ssthresh_segments: info.ssthresh.map(segments),
                })
            }
        }
    }

    /// Ends it, and the trace if there is one. Returns the address that it sent from.
    pub(super) fn end(self) -> io::Result<SocketAddr> {
        match self {
            Self::Linux(socket) => {
                let from = socket.local_addr()?;
                // It may be down already.
                let _ = socket.shutdown(Shutdown::Both);
                Ok(from)
            }
            Self::Ackclock(stack, tracing) => {
                let from = connection(&stack)?.0.local();
                tracing.map_or(Ok(()), |tracing| tracing.end(&stack))?;
                Ok(from)
            }
        }
    }
}

/// The connection of a stack that sends.
fn connection(stack: &Stack) -> io::Result<(FourTuple, ConnectionInfo)> {
    stack.connections().into_iter().next().ok_or_else(|| io::Error::other("the connection is gone"))
}

/// The kernel's report: what `ss -ti` shows, from the offsets of `struct tcp_info` in
/// `include/uapi/linux/tcp.h`.
fn linux_report(socket: &TcpStream) -> io::Result<SenderReport> {
    let mut info = [0; 512];
    let len = sys::tcp_option(socket.as_fd(), libc::TCP_INFO, &mut info)?;
    if len < TOTAL_RTO + 2 {
        return Err(io::Error::other(
            "this kernel's TCP_INFO lacks tcpi_total_rto: Linux 6.7 or later is needed",
        ));
    }
    let word = |at: usize| u64::from(u32::from_ne_bytes(info[at..at + 4].try_into().expect("four bytes")));
    let long = |at: usize| u64::from_ne_bytes(info[at..at + 8].try_into().expect("eight bytes"));
    let ssthresh = word(76);
    let mut name = [0; 16];
    let len = sys::tcp_option(socket.as_fd(), libc::TCP_CONGESTION, &mut name)?;
    let name = String::from_utf8_lossy(&name[..len]);
    Ok(SenderReport {
        controller: name.trim_end_matches('\0').to_owned(),
        bytes_sent: long(200),
        bytes_again: long(208),
        timeouts: u64::from(u16::from_ne_bytes([info[TOTAL_RTO], info[TOTAL_RTO + 1]])),
        loss_episodes: None,
        rtt_min_us: word(148),
        srtt_us: word(68),
        cwnd_segments: word(80),
        ssthresh_segments: (ssthresh < 0x7fff_ffff).then_some(ssthresh),
    })
}

fn swallow(listener: &TcpListener, accepted: &OnceLock<TcpStream>, count: &AtomicU64) {
    let Ok((mut stream, _)) = listener.accept() else { return };
    if let Ok(same) = stream.try_clone() {
        let _ = accepted.set(same);
    }
    let mut buffer = vec![0; CHUNK];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        count.fetch_add(len as u64, Ordering::Relaxed);
    }
}

fn pour(mut stream: TcpStream) {
    let chunk = vec![0x5a; CHUNK];
    while stream.write_all(&chunk).is_ok() {}
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

const CHUNK: usize = 256 << 10;
/// The offset of `tcpi_total_rto`.
const TOTAL_RTO: usize = 240;
