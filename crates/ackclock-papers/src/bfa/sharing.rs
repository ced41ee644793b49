//! §5: senders that share the transatlantic path, three of one kind or a BFA with a Reno.

use ackclock_sim::report::jain_index;
use ackclock_sim::units::Span;
use ackclock_sim::{Scenario, TrafficConfig};

use super::transatlantic::{LEVELS, Level, path, settings};
use super::{BFA, RENO};
use crate::many::{Summary, each, run as simulate};
use crate::{Band, Findings, Table, Value};

/// Values and tables, without figures.
pub(super) fn found() -> anyhow::Result<Findings> {
    let loads = each(LOADS, |load_percent| {
        let level = Level::with_load(load_percent);
        let index = |profile: &str| {
            let shares = runs(&level, &[profile; 3])?;
            Ok::<_, anyhow::Error>(Summary::of(shares.iter().map(|shares| jain_index(&shares[..3]))))
        };
        Ok((load_percent, index(BFA)?, index(RENO)?))
    })?;
    let little = loads.iter().find(|(load, ..)| *load == LITTLE);
    let Some((_, bfa, reno)) = little else { anyhow::bail!("little traffic is one of the loads") };
    let levels = LEVELS.into_iter().chain(LOSSY);
    let pairs = each(levels, |level| Ok((level.name, runs(&level, &[BFA, RENO])?)))?;
    let ratio = |shares: &[Vec<f64>]| {
        let of = |one: usize| Summary::of(shares.iter().map(|shares| shares[one]));
        of(0).over_mean(of(1))
    };
    let mut values = vec![
        bfa.value("three BFA beside little traffic: Jain's index", "").printed("0.9991"),
        reno.value("three Reno beside little traffic: Jain's index", "").printed("0.9991"),
    ];
    values.extend(pairs.iter().take(LEVELS.len()).map(|(name, shares)| Value {
        paper: "slightly below 1",
        // "Comparable values" (§1), "slightly lower" (§5).
        band: Band::Within(UNCHANGED_LEAST, 1.0),
        reason: Some(FROZEN),
        ..ratio(shares).value(format!("{name}, a BFA beside a Reno: its throughput over Reno's"), "")
    }));
    let four = |of: &Summary| format!("{:.4} ± {:.4}", of.mean, of.error());
    let by_load = Table {
        title: "Three senders of one kind: Jain's index by others' traffic (means of 10 runs, SE)".to_owned(),
        head: ["offered by others", "BFA", "Reno"].map(str::to_owned).to_vec(),
        rows: loads
            .iter()
            .map(|(load, bfa, reno)| vec![format!("{load} %"), four(bfa), four(reno)])
            .collect(),
    };
    let row = |(name, shares): &(&str, Vec<Vec<f64>>)| {
        let of = |one: usize| Summary::of(shares.iter().map(|shares| shares[one]));
        let kbps = [of(0), of(1)].map(|of| format!("{:.2} ± {:.2}", of.mean, of.error()));
        let ratio = format!("{:.3}", ratio(shares).mean);
        let reductions = [of(2), of(3)].map(|of| format!("{:.1}", of.mean));
        [vec![(*name).to_owned()], kbps.to_vec(), vec![ratio], reductions.to_vec()].concat()
    };
    let by_level = Table {
        title: "A BFA beside a Reno by congestion (means of 10 runs, SE)".to_owned(),
        head: [
            "congestion",
            "BFA (kbit/s)",
            "Reno (kbit/s)",
            "BFA/Reno",
            "reductions of BFA's window",
            "of Reno's",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: pairs.iter().map(row).collect(),
    };
    Ok(Findings { values, tables: vec![by_load, by_level], ..Findings::default() })
}

/// Each sender's rate in kbit/s, and then how often the window of each is reduced, by runs.
fn runs(level: &Level, profiles: &[&str]) -> anyhow::Result<Vec<Vec<f64>>> {
    each(0..RUNS, |seed| {
        let report = simulate(&scenario(level, profiles).seed(seed))?;
        let kbps = |one: usize| report.flows[one].there.bytes as f64 * 8e6 / LASTS.0 as f64;
        let reductions = |one: usize| {
            let there = &report.flows[one].there;
            (there.timeouts + there.loss_episodes) as f64
        };
        let senders = 0..profiles.len();
        Ok(senders.clone().map(kbps).chain(senders.map(reductions)).collect())
    })
}

fn scenario(level: &Level, profiles: &[&str]) -> Scenario {
    let senders = (1..).zip(profiles).map(|(number, profile)| {
        let (from, to) = (format!("a{number}"), format!("b{number}"));
        let mut sender = TrafficConfig::bulk(&from, &from, &to, None).start(START).tcp(settings(profile));
        sender.peer_tcp = settings(profile);
        sender
    });
    path(level, senders.collect(), Span(START.0 + LASTS.0))
}

const LOSSY: [Level; 3] = [
    Level::with_losses("low, 0.1 % of packets lost", 1000),
    Level::with_losses("low, 0.3 % lost", 3000),
    Level::with_losses("low, 1 % lost", 10_000),
];
const FROZEN: &str = "the paper gives neither the levels nor the numbers of these runs. At low congestion \
    both windows are reduced equally often here (last table), and between two reductions Reno's grows \
    while BFA's is frozen. Losses that no queue causes raise the ratio, to 0.63 with 1 % of the packets \
    lost";
/// Hundredths of the link that others offer.
const LOADS: [u64; 5] = [0, 2, LITTLE, 10, 20];
/// The paper's "little background traffic" has no number.
const LITTLE: u64 = 5;
/// The lower edge of [`Band::UNCHANGED`].
const UNCHANGED_LEAST: f64 = 0.91;
const START: Span = Span::seconds(5);
/// As long as three transfers of 5 MB take together.
const LASTS: Span = Span::seconds(2000);
const RUNS: u64 = 10;
