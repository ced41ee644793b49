//! The estimators by a model in Python, and ours beside it, both on the same recorded transfers.

use ackclock_control::assess::timeouts::{Event, Why};
use ackclock_core::Instant;
use anyhow::Context;

use super::timeouts::All;
use crate::Table;
use crate::witness::Witness;

/// The output of `tests/reference/estimators.py`.
const MODEL: Witness = Witness::new(include_str!("../../tests/vectors/estimators.csv"));
/// Input of both: transfers of the set, recorded once. Whatever the set becomes, these stay.
const RECORDED: &str = include_str!("../../tests/vectors/trace_set.csv");
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

/// Both.
pub(super) fn table() -> anyhow::Result<Table> {
    let transfers = recorded()?;
    let events: Vec<&[Event]> = transfers.iter().map(Vec::as_slice).collect();
    let all = All::of_events(&events, &NAMES)?;
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
            "{} recorded transfers by a model in Python, written from §2.1 and §2.2 \
             (tests/reference/estimators.py; its runs are tests/vectors/estimators.csv, its transfers trace_set.csv)",
            transfers.len()
        ),
        head: head.map(str::to_owned).to_vec(),
        rows: NAMES.iter().map(|name| row(name)).collect::<anyhow::Result<_>>()?,
    })
}

/// The segments sent and acknowledged in each recorded transfer.
fn recorded() -> anyhow::Result<Vec<Vec<Event>>> {
    let mut transfers: Vec<Vec<Event>> = Vec::new();
    for line in RECORDED.lines().skip(1) {
        let cells = line.split(',').map(str::parse).collect::<Result<Vec<u64>, _>>();
        let cells = cells.with_context(|| format!("`{line}` in trace_set.csv"))?;
        let [transfer, at, kind, from, to] = cells[..] else { anyhow::bail!("`{line}` in trace_set.csv") };
        let at = Instant::from_nanos(at);
        let sent = |why| Event::Sent { at, from, to, why };
        let event = match kind {
            0 => sent(Why::New),
            1 => sent(Why::FastRetransmit),
            2 | 3 => sent(Why::Timeout { avoidable: kind == 3 }),
            4 => Event::Acked { at, to },
            _ => anyhow::bail!("`{line}` in trace_set.csv"),
        };
        transfers.resize_with(transfers.len().max(transfer as usize + 1), Vec::new);
        transfers[transfer as usize].push(event);
    }
    Ok(transfers)
}

#[cfg(test)]
mod tests {
    use ackclock_control::assess::timeouts::{Timeouts, assess};
    use ackclock_control::rtt::presets;

    use super::*;

    #[test]
    fn the_recorded_transfers_have_what_estimators_differ_in() {
        let transfers = recorded().unwrap();
        let has = |wanted: Why| {
            let sent = |event: &Event| matches!(event, Event::Sent { why, .. } if *why == wanted);
            transfers.iter().filter(|events| events.iter().any(sent)).count()
        };
        assert_eq!((transfers.len(), has(Why::New)), (24, 24));
        assert!(has(Why::Timeout { avoidable: false }) >= 3 && has(Why::FastRetransmit) >= 3);
    }

    #[test]
    fn every_estimator_does_on_each_transfer_what_the_model_says() {
        let transfers = recorded().unwrap();
        for name in NAMES {
            let config = presets::find(name).unwrap().config;
            for (number, events) in transfers.iter().enumerate() {
                let ours: Timeouts = assess(events.iter().copied(), &config, None);
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
