//! Models of access links, as traces. Each is a model, not a measurement: it has the properties that its file
//! documents and tests, with constants that were chosen for it, and claims nothing about any operator's
//! network.
//!
//! A scenario follows one by name (`trace = "model:lte"`). [`Model::text`] is the same trace as a file, to be
//! looked at and changed.

mod docsis;
mod lte;
mod starlink;
mod wifi;

use std::fmt::Write as _;
use std::sync::OnceLock;

use super::{LinkTrace, OPPORTUNITY_BYTES};
use crate::rng::Rng;

/// A model of a link.
#[derive(Debug)]
pub struct Model {
    /// The name behind `model:`.
    pub name: &'static str,
    /// The technology that it models, in a sentence.
    pub summary: &'static str,
    write: fn(&mut Rng) -> String,
    trace: OnceLock<LinkTrace>,
}

impl Model {
    const fn new(name: &'static str, summary: &'static str, write: fn(&mut Rng) -> String) -> Self {
        Self { name, summary, write, trace: OnceLock::new() }
    }

    /// The model as the text of a trace. Another seed draws another one of the same kind; scenarios follow
    /// that of seed 0.
    ///
    /// ```
    /// use ackclock_sim::{LinkTrace, link_trace::models};
    ///
    /// let lte = models::all().iter().find(|model| model.name == "lte").expect("a model");
    /// let text = lte.text(0);
    /// assert!(text.starts_with("# model:lte, a model and not a measurement"));
    /// assert_eq!(Some(LinkTrace::parse(&text)?), LinkTrace::model("lte"));
    /// # Ok::<(), ackclock_sim::LinkTraceError>(())
    /// ```
    #[must_use]
    pub fn text(&self, seed: u64) -> String {
        let Self { name, summary, write, .. } = self;
        let mut rng = Rng::derive(seed, &format!("model:{name}"));
        let lines = write(&mut rng);
        format!("# model:{name}, a model and not a measurement, of seed {seed}:\n# {summary}\n{lines}")
    }

    /// The trace of seed 0, made once.
    pub(super) fn trace(&self) -> LinkTrace {
        self.trace.get_or_init(|| LinkTrace::parse(&self.text(0)).expect("a model writes a trace")).clone()
    }
}

/// All models.
#[must_use]
pub fn all() -> &'static [Model] {
    &MODELS
}

static MODELS: [Model; 4] = [
    Model::new(lte::NAME, lte::SUMMARY, lte::write),
    Model::new(wifi::NAME, wifi::SUMMARY, wifi::write),
    Model::new(starlink::NAME, starlink::SUMMARY, starlink::write),
    Model::new(docsis::NAME, docsis::SUMMARY, docsis::write),
];

/// Writes this many opportunities at a time.
fn opportunities(lines: &mut String, at_ms: u64, count: u64) {
    for _ in 0..count {
        // Writing to a string does not fail.
        _ = writeln!(lines, "{at_ms}");
    }
}

/// A normally distributed number with this standard deviation, as a sum of twelve uniform ones.
fn normal(rng: &mut Rng, deviation: i64) -> i64 {
    let sum: i64 = (0..12).map(|_| (rng.next_u64() >> 32) as i64).sum();
    ((i128::from(sum - (6 << 32)) * i128::from(deviation)) >> 32) as i64
}

/// A number from `from` to `to`, both included.
fn between(rng: &mut Rng, from: u64, to: u64) -> u64 {
    from + rng.below(to - from + 1)
}

const OPPORTUNITY_BITS: u64 = OPPORTUNITY_BYTES as u64 * 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_the_same_each_time_and_another_with_another_seed() {
        for model in all() {
            assert_eq!(model.text(0), model.text(0));
            assert_ne!(model.text(0), model.text(1), "{}", model.name);
            assert!(model.text(7).contains("a model and not a measurement"));
        }
    }

    /// The opportunities of a text by their times, in milliseconds.
    pub(super) fn groups(text: &str) -> Vec<(u64, u64)> {
        let mut groups: Vec<(u64, u64)> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let at = line.parse().expect("a time");
            match groups.last_mut().filter(|(last, _)| *last == at) {
                Some((_, count)) => *count += 1,
                None => groups.push((at, 1)),
            }
        }
        groups
    }

    pub(super) fn mean_mbit(text: &str) -> f64 {
        let rate = LinkTrace::parse(text).expect("a trace").mean_rate().expect("it sets a rate");
        rate.bits() as f64 / 1e6
    }
}
