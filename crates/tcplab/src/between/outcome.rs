//! What was carried, and whether the machine was fast enough.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use ackclock::pump::Counts;
use ackclock_cli::table::number;
use ackclock_sim::{Lateness, Report};
use serde::Serialize;

use crate::run::tables;

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What was carried so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Programs that connected.
    pub(super) connections: Count,
    /// Of these, those that did not get through.
    pub(super) refused: Count,
    pub(super) finished: Count,
    pub(super) reset: Count,
    /// Their bytes, at the first host.
    pub(super) carried: Arc<Counts>,
    /// Datagrams that entered the network.
    pub(super) datagrams: Count,
    /// Of these, those that reached the program behind it.
    pub(super) datagrams_through: Count,
    /// Those for which a socket was missing or full.
    pub(super) datagrams_dropped: Count,
}

/// The results of a run.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// Whether all events came in time.
    pub(super) valid: bool,
    pub(super) lateness: Lateness,
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
    /// Bytes from programs at `--listen` that the network has taken.
    bytes_there: u64,
    /// Bytes that they got from it.
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
        Self {
            valid: lateness.is_valid(),
            lateness,
            connections: Connections {
                accepted: tally.connections.get(),
                refused: tally.refused.get(),
                finished: tally.finished.get(),
                reset: tally.reset.get(),
                bytes_there: tally.carried.to_stream(),
                bytes_back: tally.carried.to_socket(),
            },
            datagrams: Datagrams {
                sent: tally.datagrams.get(),
                arrived: tally.datagrams_through.get(),
                dropped_beside: tally.datagrams_dropped.get(),
            },
            network,
        }
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
