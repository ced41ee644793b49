//! The conformance kit, piece by piece: a page asks for the checks, then for one situation after the other.

use ackclock_chart::table::{bit_rate, millis, percent};
use ackclock_control::congestion::Registry;
use ackclock_control::kit::{self, Outcome};
use ackclock_sim::situations::SITUATIONS;
use serde_json::{Value, json};

/// The checks of a controller, and the names of the situations to ask for.
pub(crate) fn checks(name: &str, registry: &Registry) -> Result<Value, String> {
    let factory = registry.find(name).map_err(|error| error.to_string())?;
    let report = kit::examine(factory.as_ref());
    let rows = report.results.iter().map(|(check, outcome)| {
        let (verdict, why) = match outcome {
            Outcome::Passed => ("passed", ""),
            Outcome::Excused(why) => ("excused", *why),
            Outcome::Failed(why) => ("failed", why.as_str()),
        };
        json!({ "check": check, "verdict": verdict, "why": why })
    });
    let situations = SITUATIONS.iter().map(|one| json!({ "name": one.name, "what": one.what }));
    Ok(json!({
        "controller": name,
        "head": HEAD,
        "checks": rows.collect::<Vec<_>>(),
        "situations": situations.collect::<Vec<_>>(),
    }))
}

/// A controller in one situation, beside Reno.
pub(crate) fn situation(name: &str, number: usize, registry: &Registry) -> Result<Value, String> {
    let one = SITUATIONS.get(number).ok_or_else(|| {
        format!("there are {} situations, counted from 0; {number} is too many", SITUATIONS.len())
    })?;
    let run = |name: &str| one.run(name, registry, SEED).map_err(|problem| problem.to_string());
    let (measures, reno) = (run(name)?, run(REFERENCE)?);
    let (used, renos) = (one.used(&measures), one.used(&reno));
    let failed = (used < FAILS_BELOW).then(|| {
        format!(
            "it carried {} of what is possible, where {REFERENCE} carries {}",
            percent(used),
            percent(renos)
        )
    });
    let share = match measures.flows.as_slice() {
        [first, _, ..] if measures.throughput > 0.0 => percent(first / measures.throughput),
        _ => String::new(),
    };
    Ok(json!({
        "name": one.name,
        "verdict": if failed.is_some() { "failed" } else { "passed" },
        "why": failed.unwrap_or_default(),
        "row": [
            one.name.to_owned(), bit_rate(measures.throughput), percent(used), percent(renos), share,
            percent(measures.retransmitted), format!("{:.0}", measures.timeouts), millis(measures.queue_mean),
        ],
    }))
}

/// The columns of a situation's row.
const HEAD: [&str; 8] = [
    "situation",
    "throughput",
    "of what is possible",
    "Reno's",
    "share",
    "sent again",
    "timeouts",
    "queueing delay",
];
const SEED: u64 = 1;
const REFERENCE: &str = "reno";
/// A controller that carries less than this share does not send.
const FAILS_BELOW: f64 = 0.01;
