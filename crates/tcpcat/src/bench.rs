//! `tcpcat bench`: measures how fast data moves, by iperf3's protocol. Either end may be iperf3.

mod client;
mod datagrams;
mod flows;
mod protocol;
mod server;

use std::io;
use std::time::Duration;

use ackclock_cli::{Exit, Failure};
use serde::Serialize;
use tokio::time::timeout;

use self::datagrams::DatagramFigures;
use self::flows::Flows;
use self::protocol::{ProtocolError, Results};
use crate::session::Session;
use crate::units::{bits_per_second, show_bytes, show_rate};

pub(crate) use self::client::run as run_client;
pub(crate) use self::datagrams::DATAGRAM_MIN;
pub(crate) use self::server::run as run_server;

/// Both ends' figures, for the report.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// How long the run took at this end, in seconds.
    seconds: f64,
    streams: Vec<StreamFigures>,
}

/// Both ends' figures of a stream.
#[derive(Clone, Debug, Serialize)]
struct StreamFigures {
    id: u64,
    /// Whether this end sends.
    sends: bool,
    /// By the sender.
    bytes_sent: u64,
    /// By the receiver.
    bytes_received: u64,
    /// By the sender, if it counts them.
    retransmits: Option<u64>,
    /// Over UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    datagrams: Option<DatagramFigures>,
}

impl Figures {
    /// Puts the two ends' results together. The peer's figures of a stream that does not exist are left out.
    fn new(flows: &Flows, own: &Results, peers: &Results) -> Self {
        let stream = |own: &protocol::StreamResult| {
            let peer = peers.streams.iter().find(|peer| peer.id == own.id)?;
            let sends = flows.sends(own.id)?;
            let (sender, receiver) = if sends { (own, peer) } else { (peer, own) };
            Some(StreamFigures {
                id: own.id,
                sends,
                bytes_sent: sender.bytes,
                bytes_received: receiver.bytes,
                retransmits: u64::try_from(sender.retransmits).ok(),
                datagrams: flows
                    .datagrams(own.id)
                    .map(|counts| counts.tally().figures(!sends, sender, receiver)),
            })
        };
        Self { seconds: flows.took().as_secs_f64(), streams: own.streams.iter().filter_map(stream).collect() }
    }

    /// A line for each direction.
    fn lines(&self) -> Vec<String> {
        let direction = |sends: bool| {
            let streams: Vec<_> = self.streams.iter().filter(|stream| stream.sends == sends).collect();
            // The peer's figures may be anything.
            let sum = |of: fn(&StreamFigures) -> u64| {
                streams.iter().fold(0, |sum: u64, one| sum.saturating_add(of(one)))
            };
            let received = sum(|stream| stream.bytes_received);
            let took = Duration::from_secs_f64(self.seconds);
            let resent =
                streams.iter().try_fold(0, |sum: u64, one| Some(sum.saturating_add(one.retransmits?)));
            let mut line = format!(
                "{}: {} sent, {} received, {}",
                if sends { "to the peer" } else { "from the peer" },
                show_bytes(sum(|stream| stream.bytes_sent)),
                show_bytes(received),
                show_rate(bits_per_second(received, took)),
            );
            if let Some(resent) = resent {
                line.push_str(&format!(", {resent} sent again"));
            }
            let datagrams: Vec<_> = streams.iter().filter_map(|stream| stream.datagrams).collect();
            if let Some(datagrams) = DatagramFigures::sum(&datagrams) {
                line.push_str(&format!(", {}", datagrams.line()));
            }
            (!streams.is_empty()).then_some(line)
        };
        [true, false].into_iter().filter_map(direction).collect()
    }
}

/// A step of the control connection to the `peer`, client or server, within its time.
async fn step<T>(
    session: &Session,
    peer: &str,
    doing: &str,
    step: impl Future<Output = Result<T, ProtocolError>>,
) -> Result<T, Failure> {
    match timeout(STEP_MAX, step).await {
        Ok(done) => done.map_err(|error| failure(session, doing, error)),
        Err(_) => Err(silent(peer)),
    }
}

fn silent(peer: &str) -> Failure {
    Failure::new(Exit::Unreachable, format!("the {peer} has said nothing for {STEP_MAX:?}"))
}

/// Why a test cannot go on.
fn failure(session: &Session, doing: &str, error: ProtocolError) -> Failure {
    match error {
        ProtocolError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Failure::new(Exit::Failed, format!("{doing}: the peer closed the connection"))
        }
        ProtocolError::Io(error) if is_too_long(&error) => {
            session.net.failure(doing, &error).remedy("choose shorter datagrams, as in -l 1200B")
        }
        ProtocolError::Io(error) => session.net.failure(doing, &error),
        other => Failure::new(Exit::Failed, format!("{doing}: {other}")),
    }
}

/// Whether a datagram did not fit the path.
fn is_too_long(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput || error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// How long a client may take for a step.
const STEP_MAX: Duration = Duration::from_secs(30);

/// The most bytes of a block: iperf3's limit.
pub(crate) const BLOCK_MAX: u64 = 1 << 20;

/// A block's bytes if the client names no number, as for iperf3.
pub(crate) const BLOCK_LEN: u64 = 128 << 10;
