//! One run: senders over the path of a cell, measured for some seconds.

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::cell::{Cell, Party};
use super::emulator::PathReport;
use super::ground::Ground;
use super::meter::Seen;
use super::party::{Receiver, Sender, SenderReport};

/// How a run is done.
#[derive(Clone, Debug)]
pub struct Run {
    /// The path, the controller, the receiver.
    pub cell: Cell,
    /// Who sends; with several, all at once over the same path.
    pub senders: Vec<Party>,
    /// How long is measured, from the end of the handshakes.
    pub time: Duration,
    /// Which packets are lost.
    pub seed: u64,
    /// Where the trace of this stack's sender goes.
    pub trace: Option<PathBuf>,
    /// Where the packets at the sender's end go.
    pub pcap: Option<PathBuf>,
}

/// The result of a run.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct RaceResult {
    /// Each sender in turn.
    pub flows: Vec<Flow>,
    /// The path's report.
    pub path: PathReport,
    /// Packets that the two kernels dropped in front of the path or of a stack, beyond the emulated loss.
    pub dropped_besides: u64,
    /// Seconds measured.
    pub seconds: f64,
}

/// The result of one sender.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Flow {
    /// Whose TCP.
    pub party: Party,
    /// Bytes that the receiving application has read.
    pub bytes: u64,
    /// The goodput in bits a second.
    pub goodput_bps: f64,
    /// Its report about itself.
    pub says: SenderReport,
    /// The observations of it at the near end of the path.
    pub seen: Seen,
    /// Tail loss probes that it sent.
    pub probes: Option<u64>,
}

impl Run {
    /// Runs it.
    ///
    /// # Errors
    /// Namespaces, devices or connections are not available.
    pub fn run(&self) -> io::Result<RaceResult> {
        let Self { cell, .. } = self;
        let ground = Ground::build(cell, self.seed, self.pcap.as_deref())?;
        let mut flows = Vec::new();
        for (&party, port) in self.senders.iter().zip(PORT..) {
            let receiver = Receiver::listen(&ground.far, cell.receiver, port)?;
            let trace = self.trace.as_deref().filter(|_| party == Party::Ackclock);
            let sender = Sender::start(&ground.near, party, receiver.addr, cell.controller_of(party), trace)?;
            flows.push((party, sender, receiver));
        }
        let began = Instant::now();
        let before: Vec<u64> = flows.iter().map(|(_, _, receiver)| receiver.received()).collect();
        ground.path.measure_until(began + self.time);
        thread::sleep(self.time);
        let seconds = began.elapsed().as_secs_f64();
        let received: Vec<u64> = flows.iter().map(|(_, _, receiver)| receiver.received()).collect();
        let says: Vec<SenderReport> = flows.iter().map(|(_, s, _)| s.report()).collect::<io::Result<_>>()?;
        let dropped_besides = ground.near.dropped() + ground.far.dropped();
        let probes = ground.near.netstat(&["TCPLossProbes"]);
        let mut parties = Vec::new();
        for (party, sender, receiver) in flows {
            parties.push((party, sender.end()?, receiver));
        }
        let path = ground.finish()?;
        let flows = parties.iter().zip(says).zip(received.iter().zip(before));
        let flows = flows.map(|(((party, from, _), says), (received, before))| {
            let bytes = received - before;
            let seen = path.senders.iter().find(|(sender, _)| *sender == from.to_string());
            Flow {
                party: *party,
                bytes,
                goodput_bps: bytes as f64 * 8.0 / seconds,
                says,
                seen: seen.map(|(_, seen)| *seen).unwrap_or_default(),
                probes: (*party == Party::Linux).then_some(probes[0]),
            }
        });
        Ok(RaceResult { flows: flows.collect(), path, dropped_besides, seconds })
    }
}

const PORT: u16 = 5001;
