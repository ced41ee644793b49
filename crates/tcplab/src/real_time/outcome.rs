//! The carried traffic, and whether the machine was fast enough.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use ackclock::pump::{Counts, End};
use ackclock_cli::table::number;
use ackclock_cli::{Exit, Failure};
use ackclock_sim::{Lateness, Report};
use serde::Serialize;

use crate::run::tables;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The traffic carried so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Programs that connected.
    connections: Count,
    /// Of these, those that did not get through.
    refused: Count,
    finished: Count,
    reset: Count,
    /// Their bytes, counted at one of the ends.
    carried: Arc<Counts>,
    /// Whether that is the end where connections arrive.
    counted_at_far_end: bool,
    /// Datagrams that entered the network.
    datagrams: Count,
    /// Of these, those that reached the program behind it.
    datagrams_through: Count,
    /// Those for which a socket was missing or full.
    datagrams_dropped: Count,
}

impl Tally {
    /// A tally whose bytes are counted where connections leave the network, as `shell` does.
    #[cfg(target_os = "linux")]
    pub fn at_far_end() -> Self {
        Self { counted_at_far_end: true, ..Self::default() }
    }

    /// A program has connected.
    pub fn connected(&self) {
        self.connections.add();
    }

    /// It did not get through.
    pub fn refused(&self) {
        self.refused.add();
    }

    /// Its connection has ended.
    pub fn ended(&self, end: &End) {
        match end {
            End::Finished => self.finished.add(),
            _ => self.reset.add(),
        }
    }

    /// The counts of its bytes.
    pub fn carried(&self) -> Arc<Counts> {
        Arc::clone(&self.carried)
    }

    /// The counts of datagrams that enter the network, and of those that cannot.
    pub fn entering(&self) -> [&Count; 2] {
        [&self.datagrams, &self.datagrams_dropped]
    }

    /// The counts of datagrams that reach the program behind it, and of those that cannot.
    pub fn leaving(&self) -> [&Count; 2] {
        [&self.datagrams_through, &self.datagrams_dropped]
    }
}

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    /// Whether all events came in time.
    pub(crate) valid: bool,
    pub(crate) lateness: Lateness,
    connections: Connections,
    datagrams: Datagrams,
    network: Report,
}

#[derive(Debug, Serialize)]
struct Connections {
    accepted: u64,
    refused: u64,
    finished: u64,
    reset: u64,
    /// Bytes from the programs that connected.
    bytes_there: u64,
    /// Bytes to them.
    bytes_back: u64,
}

#[derive(Debug, Serialize)]
struct Datagrams {
    sent: u64,
    arrived: u64,
    dropped_beside: u64,
}

impl Outcome {
    pub fn new(tally: &Tally, lateness: Lateness, network: Report) -> Self {
        let (to_stream, to_socket) = (tally.carried.to_stream(), tally.carried.to_socket());
        let (bytes_there, bytes_back) =
            if tally.counted_at_far_end { (to_socket, to_stream) } else { (to_stream, to_socket) };
        Self {
            valid: lateness.is_valid(),
            lateness,
            connections: Connections {
                accepted: tally.connections.get(),
                refused: tally.refused.get(),
                finished: tally.finished.get(),
                reset: tally.reset.get(),
                bytes_there,
                bytes_back,
            },
            datagrams: Datagrams {
                sent: tally.datagrams.get(),
                arrived: tally.datagrams_through.get(),
                dropped_beside: tally.datagrams_dropped.get(),
            },
            network,
        }
    }

    /// The error of a run with which the machine did not keep up.
    pub fn invalid(&self) -> Failure {
        let why =
            format!("the machine fell behind, so this was not the scenario's network: {}", self.lateness);
        let remedy = "free a processor, poll for longer (--poll 20ms) or lower the rates; --late allows more";
        Failure::new(Exit::Failed, why).remedy(remedy)
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let Connections { accepted, refused, finished, reset, bytes_there, bytes_back } = &self.connections;
        let (time, seed) = (number(self.network.time), self.network.seed);
        let mut text = format!(
            "{time} s with seed {seed}; {accepted} connections, of which {finished} finished, {reset} were \
             reset and {refused} refused; {bytes_there} B there, {bytes_back} B back\n"
        );
        let Datagrams { sent, arrived, dropped_beside } = &self.datagrams;
        if sent + dropped_beside > 0 {
            text +=
                &format!("{sent} datagrams there, of which {arrived} arrived; {dropped_beside} dropped\n");
        }
        format!("{text}\n{}\n{}\n", tables::links(&self.network), self.lateness)
    }
}
