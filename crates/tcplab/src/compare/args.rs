//! The options of `tcplab compare`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use ackclock_cli::Failure;
use ackclock_cli::manual::Suggested;
use ackclock_control::congestion::Registry;
use ackclock_control::profile::{Ecn, Profile};
use ackclock_sim::units::{Rate, Share, Span, UnitError};
use tcplab::grid::{Buffer, Grid, QueueKind};

use super::shard::Shard;

/// Options of `tcplab compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct CompareArgs {
    /// Controllers: cubic,bbr,vegas:alpha=2,beta=4
    #[arg(long, value_name = "NAMES", required_unless_present = "merge", hide_possible_values = true, value_parser = Suggested::new(known(), controllers))]
    cc: Vec<Controllers>,
    /// Everything except the controller
    #[arg(long, value_name = "NAME", default_value = "modern", hide_possible_values = true, value_parser = Suggested::new(profiles(), profile))]
    profile: String,
    /// Rates of the bottleneck
    #[arg(long, value_name = "RATES", value_delimiter = ',', default_value = "10Mbit/s", value_parser = Rate::read_limited)]
    rate: Vec<Rate>,
    /// Delays of the bottleneck, one way; the empty path's round trip takes twice as long
    #[arg(long, value_name = "TIMES", value_delimiter = ',', default_value = "20ms")]
    delay: Vec<Span>,
    /// Limits of its queue: bandwidth-delay products or packets, for example 0.5bdp,4bdp,20packets
    #[arg(long, value_name = "LIMITS", value_delimiter = ',', default_value = "1bdp")]
    buffer: Vec<Buffer>,
    /// Its random loss, towards the receivers
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_value = "0%")]
    loss: Vec<Share>,
    /// Number of flows that share it, all with the same controller
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    flows: u16,
    /// Its queue discipline: drop-tail, red, codel, fq-codel, pie, dualpi2 or cake
    #[arg(long, value_name = "NAME", default_value = "drop-tail")]
    queue: QueueKind,
    /// Explicit congestion notification: off, classic or accurate; the queue then marks
    #[arg(long, value_name = "FORM", default_value = "off", value_parser = Ecn::find)]
    ecn: Ecn,
    /// Length of each run, in virtual time
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    duration: Span,
    /// Number of runs of each cell; the table shows their mean
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Folder for the report, its pictures, and each run's result at once; the same command with the same
    /// folder continues where it was interrupted
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Run everything again, and ignore earlier results in the folder
    #[arg(long, requires = "out")]
    pub(super) fresh: bool,
    /// File for the results, as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Run one part of the grid, as 2/4 for the second of four; its results stay in the folder until --merge
    /// puts all parts together
    #[arg(long, value_name = "I/N", requires = "out", conflicts_with = "json")]
    pub(super) shard: Option<Shard>,
    /// Put together what all shards of a grid have in their folders; the grid is theirs
    #[arg(long, value_name = "DIR", num_args = 1.., requires = "out", conflicts_with_all = OF_THE_GRID)]
    pub(super) merge: Vec<PathBuf>,
    /// Number of runs at a time [default: the number of processors]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<NonZeroUsize>,
}

/// The options that a merge takes from the shards, and the one that it contradicts.
const OF_THE_GRID: [&str; 12] = [
    "cc", "profile", "rate", "delay", "buffer", "loss", "flows", "queue", "ecn", "duration", "seeds", "shard",
];

const NOTES: &str = "Each run is a bottleneck with endless flows through it, measured from its beginning, \
slow start included. Receivers offer a large window from the start (four times what path and queue hold): a \
window tuned to what arrives would hold senders to two bandwidth-delay products, and a deep queue would \
never fill. Access links are ten times as fast as the bottleneck and add a random delay of up to one \
packet's time.\n\nSeveral machines share a grid: each runs the same command with another --shard I/N and \
--out, and `tcplab compare --merge DIR.. --out ALL` makes what one run of all would have made, byte for \
byte. Shards of another grid, another division or another build of tcplab are refused.\n\nPower is \
throughput over delay (the empty round trip and the mean time in the queue). Jain's index is 1 if all flows \
have the same rate, 1/N if one has all of it.";

/// Names of one `--cc`.
#[derive(Clone, Debug)]
struct Controllers(Vec<String>);

impl CompareArgs {
    /// The grid that they describe; nothing stands in it twice.
    pub fn grid(&self) -> Result<Grid, Failure> {
        let cc: Vec<String> = self.cc.iter().flat_map(|names| names.0.clone()).collect();
        let grid = Grid {
            cc: once(&cc),
            rates: once(&self.rate),
            delays: once(&self.delay),
            buffers: once(&self.buffer),
            losses: once(&self.loss),
            profile: self.profile.clone(),
            queue: self.queue,
            ecn: self.ecn,
            flows: usize::from(self.flows),
            duration: self.duration,
            seeds: self.seeds,
        };
        let lengths =
            [grid.cc.len(), grid.rates.len(), grid.delays.len(), grid.buffers.len(), grid.losses.len()];
        let runs = lengths.iter().fold(self.seeds, |product, &length| product.saturating_mul(length as u64));
        if runs > RUNS_MAX {
            return Err(Failure::usage(format!(
                "this grid has {runs} runs; at most {RUNS_MAX} are done at once"
            )));
        }
        Ok(grid)
    }
}

fn once<T: Clone + PartialEq>(values: &[T]) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for value in values {
        if !kept.contains(value) {
            kept.push(value.clone());
        }
    }
    kept
}

/// Splits at commas, but not before a further parameter of the same controller: `cubic,vegas:alpha=2,beta=4`
/// are two.
fn controllers(text: &str) -> Result<Controllers, String> {
    let mut names: Vec<String> = Vec::new();
    for part in text.split(',') {
        match names.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') && last.contains(':') => {
                last.push(',');
                last.push_str(part);
            }
            _ => names.push(part.to_owned()),
        }
    }
    let registry = Registry::with_experiments();
    names.iter().try_for_each(|name| registry.find(name).map(|_| ()).map_err(|error| error.to_string()))?;
    Ok(Controllers(names))
}

/// The controllers that completions offer.
fn known() -> Vec<(&'static str, &'static str)> {
    let registry = Registry::with_experiments();
    let about = |name| registry.find(name).map_or("", |factory| factory.about().source);
    registry.names().map(|name| (name, about(name))).collect()
}

/// The profiles that completions offer.
pub(crate) fn profiles() -> impl Iterator<Item = (&'static str, &'static str)> {
    Profile::all().map(|profile| (profile.name, profile.summary))
}

fn profile(name: &str) -> Result<String, String> {
    Profile::find(name).map(|profile| profile.name.to_owned()).map_err(|error| error.to_string())
}

fn duration(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: UnitError| error.to_string())?;
    if span < DURATION_MIN || span > DURATION_MAX {
        return Err(format!("found `{text}`; allowed is {DURATION_MIN} to {DURATION_MAX}"));
    }
    Ok(span)
}

const RUNS_MAX: u64 = 1_000_000;
/// Flows begin within the first tenth of a second.
const DURATION_MIN: Span = Span::seconds(1);
const DURATION_MAX: Span = Span::seconds(7 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stay_with_their_controller() {
        let names = |text| controllers(text).unwrap().0;
        assert_eq!(names("cubic,vegas:alpha=2,beta=4,reno"), ["cubic", "vegas:alpha=2,beta=4", "reno"]);
        assert_eq!(names("bfa:gain=3/4,on=10ms"), ["bfa:gain=3/4,on=10ms"]);
        let error = controllers("cubic,renoo").unwrap_err();
        assert!(error.contains("`renoo`") && error.contains("reno,"), "{error}");
        assert!(controllers("").is_err() && controllers("cubic,").is_err());
    }
}
