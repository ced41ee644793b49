//! The estimators by a model in Python, on the first transfers of the set, and ours beside it.

use ackclock_assess::Transfer;

use super::timeouts::All;
use crate::Table;
use crate::witness::Witness;

/// What `tests/reference/estimators.py` gives.
const MODEL: Witness = Witness::new(include_str!("../../tests/vectors/estimators.csv"));
/// The transfers that it reads (`tests/vectors/trace_set.csv`).
const TRANSFERS: usize = 24;
const NAMES: [&str; 22] = [
    "ap-min-1000",
    "ap-min-750",
    "ap-min-500",
    "ap-min-250",
    "ap-min-0",
    "ap-g-500",
    "ap-g-250",
    "ap-g-100",
    "ap-g-10",
    "ap-take-first",
    "ap-very-slow",
    "ap-slow",
    "ap-std-every",
    "ap-fast",
    "ap-take-last",
    "ap-k-16",
    "ap-k-8",
    "ap-k-6",
    "ap-k-2",
    "ap-static-2000",
    "ap-static-1000",
    "ap-static-500",
];

/// Both, if the first transfers are those that the model reads.
pub(super) fn table(transfers: &[Transfer]) -> anyhow::Result<Table> {
    let first = &transfers[..transfers.len().min(TRANSFERS)];
    let all = All::of(first, &NAMES)?;
    let row = |name: &str| -> anyhow::Result<Vec<String>> {
        let model = |column| MODEL.of(&[name], column);
        // W is a sum; B is a mean over all transfers, W~ over those that have a cost.
        let waited = model("waited_s")?;
        let theirs =
            [waited.mean * waited.count as f64, model("cost")?.mean, 100.0 * model("bad_share")?.mean];
        let ours = all.of_all(|of| [of.w(name), of.w_tilde(name), 100.0 * of.b(name)]);
        let pairs = theirs.into_iter().zip(ours).flat_map(|(model, our)| [model, our]);
        Ok([name.to_owned()].into_iter().chain(pairs.map(|number| format!("{number:.2}"))).collect())
    };
    let head = ["estimator", "W, model", "W, ours", "W~, model", "W~, ours", "B %, model", "B %, ours"];
    Ok(Table {
        title: format!(
            "The first {} transfers by a model in Python, written from §2.1 and §2.2 \
             (tests/reference/estimators.py; its runs are tests/vectors/estimators.csv, its transfers trace_set.csv)",
            first.len()
        ),
        head: head.map(str::to_owned).to_vec(),
        rows: NAMES.iter().map(|name| row(name)).collect::<anyhow::Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use ackclock_control::assess::timeouts::{Event, Timeouts, Why, assess};
    use ackclock_control::rtt::presets;

    use super::super::path::Model;
    use super::super::trace_set::TraceSet;
    use super::*;

    /// The transfers as the model reads them.
    fn csv(transfers: &[Transfer]) -> String {
        let mut text = "transfer,at_ns,kind,from,to\n".to_owned();
        for (number, transfer) in transfers.iter().take(TRANSFERS).enumerate() {
            for event in &transfer.replay.events {
                let (at, kind, from, to) = match *event {
                    Event::Sent { at, from, to, why } => (at, kind(why), from, to),
                    Event::Acked { at, to } => (at, 4, 0, to),
                };
                _ = writeln!(text, "{number},{},{kind},{from},{to}", at.as_nanos());
            }
        }
        text
    }

    fn kind(why: Why) -> u8 {
        match why {
            Why::New => 0,
            Why::FastRetransmit => 1,
            Why::Timeout { avoidable: false } => 2,
            Why::Timeout { avoidable: true } => 3,
        }
    }

    fn first() -> Vec<Transfer> {
        // Some cannot be assessed.
        TraceSet::of(&Model::in_force().unwrap(), 2 * TRANSFERS as u64, |path| path).unwrap().transfers
    }

    #[test]
    fn the_model_reads_the_first_transfers_of_the_set() {
        let (found, expected) = (csv(&first()), include_str!("../../tests/vectors/trace_set.csv"));
        let file = std::env::temp_dir().join("trace_set.csv");
        if found != expected {
            std::fs::write(&file, &found).unwrap();
        }
        assert!(
            found == expected,
            "they are now as in {}: copy it, then run scripts/vectors.py",
            file.display()
        );
    }

    #[test]
    fn every_estimator_does_on_each_transfer_what_the_model_says() {
        let transfers = first();
        for name in NAMES {
            let config = presets::find(name).unwrap().config;
            for (number, transfer) in transfers.iter().take(TRANSFERS).enumerate() {
                let ours: Timeouts = assess(transfer.replay.events.iter().copied(), &config, None);
                let model = |column| MODEL.of(&[name, &number.to_string()], column).unwrap().mean;
                let counts = [ours.good, ours.repeated, ours.bad].map(f64::from);
                assert_eq!(counts, ["good", "repeated", "bad"].map(model), "{name}, {number}");
                assert!((ours.waited.as_secs_f64() - model("waited_s")).abs() < 1e-5, "{name}, {number}");
                if let Some(cost) = ours.cost {
                    assert!((cost - model("cost")).abs() < 1e-5, "{name}, {number}");
                }
            }
        }
    }
}
