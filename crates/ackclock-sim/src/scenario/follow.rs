//! Links that follow traces: the files are named in the scenario and read in a step of their own.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use super::{Direction, Problem, Scenario, unknown};
use crate::link_trace::{Governed, LinkTrace, models};

/// The trace that a link follows: a file by its path, or `model:` with a model's name.
///
/// A scenario's text names a file and does not hold it. [`Scenario::load_traces`] reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct FollowedTrace {
    name: String,
    trace: Option<LinkTrace>,
}

/// A link's behaviour at the end of its trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TraceEnd {
    /// Begins it again.
    #[default]
    Repeat,
    /// Keeps the last row of a table. Opportunities always repeat.
    Hold,
}

impl FollowedTrace {
    /// A trace that is at hand, with a name for messages.
    #[must_use]
    pub fn given(name: impl Into<String>, trace: LinkTrace) -> Self {
        Self { name: name.into(), trace: Some(trace) }
    }

    /// The name, as a scenario's file has it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The trace, if it is loaded. Models always are.
    #[must_use]
    pub fn trace(&self) -> Option<&LinkTrace> {
        self.trace.as_ref()
    }
}

impl From<String> for FollowedTrace {
    /// A file by its path, or a model by its name.
    fn from(name: String) -> Self {
        let trace = name.strip_prefix(MODEL).and_then(LinkTrace::model);
        Self { name, trace }
    }
}

impl From<FollowedTrace> for String {
    fn from(followed: FollowedTrace) -> Self {
        followed.name
    }
}

impl Scenario {
    /// Loads the traces that links follow. `read` gives the text of a file by its name in the scenario; the
    /// path of a file is meant relative to that of the scenario. Each is read once, and models not at all.
    ///
    /// ```
    /// use ackclock_sim::{Scenario, Simulation};
    ///
    /// let text = r#"
    ///     duration = "10s"
    ///     host = [{ name = "a" }, { name = "b" }]
    ///     [[link]]
    ///     between = ["a", "b"]
    ///     there = { trace = "twelve.trace", delay = "20ms" }
    ///     back = { rate = "10Mbit/s", delay = "20ms" }
    ///     [[traffic]]
    ///     name = "upload"
    ///     from = "a"
    ///     to = "b"
    ///     what = { bulk = {} }
    /// "#;
    /// let mut scenario = Scenario::from_toml("phone.toml", text)?;
    /// // Elsewhere: |name| std::fs::read_to_string(folder.join(name))
    /// scenario.load_traces(|_| Ok("1\n".to_owned()))?;
    /// let report = Simulation::new(&scenario)?.run();
    /// assert!(report.link("a-b:there").is_some_and(|link| link.utilisation > 0.9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A file cannot be read, a line of it is wrong, or what the scenario says contradicts it.
    pub fn load_traces(&mut self, mut read: impl FnMut(&str) -> io::Result<String>) -> Result<(), Problem> {
        let mut loaded: BTreeMap<String, LinkTrace> = BTreeMap::new();
        for (path, direction) in directions_mut(self) {
            let Some(FollowedTrace { name, trace }) = &mut direction.trace else { continue };
            if trace.is_some() || name.starts_with(MODEL) {
                continue;
            }
            if let Some(known) = loaded.get(name) {
                *trace = Some(known.clone());
                continue;
            }
            let path = format!("{path}.trace");
            let text = read(name);
            let text =
                text.map_err(|error| Problem::new(&path, format!("`{name}` cannot be read: {error}")))?;
            let read = LinkTrace::parse(&text);
            let read = read.map_err(|error| Problem::new(&path, format!("`{name}`, {error}")))?;
            loaded.insert(name.clone(), read.clone());
            *trace = Some(read);
        }
        self.check()
    }

    /// Finds a trace that is not loaded.
    pub(crate) fn check_loaded(&self) -> Result<(), Problem> {
        let missing = directions(self).find_map(|(path, direction)| {
            let followed = direction.trace.as_ref().filter(|followed| followed.trace.is_none())?;
            Some((path, &followed.name))
        });
        match missing {
            None => Ok(()),
            Some((path, name)) => {
                let what = format!("`{name}` is not loaded; call `Scenario::load_traces` first");
                Err(Problem::new(&format!("{path}.trace"), what))
            }
        }
    }
}

impl Direction {
    /// The properties that the trace sets, if one is loaded.
    pub(crate) fn governed(&self) -> Governed {
        self.trace.as_ref().and_then(FollowedTrace::trace).map(LinkTrace::governed).unwrap_or_default()
    }
}

/// Whether a direction and its trace agree, as far as that is loaded.
pub(super) fn check(direction: &Direction, path: &str) -> Result<(), Problem> {
    let beside = |key: &str, found: String| {
        let what = format!("found {found} beside a trace that sets the {key}; remove one of the two");
        Err(Problem::new(&format!("{path}.{key}"), what))
    };
    let Some(followed) = &direction.trace else {
        if direction.trace_end != TraceEnd::Repeat {
            let what = "found an end without a `trace`; remove it, or name a trace";
            return Err(Problem::new(&format!("{path}.trace-end"), what));
        }
        return Ok(());
    };
    let name = &followed.name;
    let Some(trace) = followed.trace() else {
        return match name.strip_prefix(MODEL) {
            Some(model) => {
                let what = unknown(model, models::all().iter().map(|model| model.name));
                Err(Problem::new(&format!("{path}.trace"), what))
            }
            None => Ok(()),
        };
    };
    let governed = trace.governed();
    match direction {
        Direction { rate, .. } if governed.rate && !rate.is_unlimited() => {
            beside("rate", format!("`{rate}`"))
        }
        Direction { delay, .. } if governed.delay && delay.0 > 0 => beside("delay", format!("`{delay}`")),
        Direction { loss: Some(_), .. } if governed.loss => beside("loss", "a loss".to_owned()),
        Direction { rate, .. } if !governed.rate && rate.is_unlimited() => {
            let what = format!("lacks a rate; `{name}` sets none");
            Err(Problem::new(path, what))
        }
        Direction { trace_end: TraceEnd::Hold, .. } if trace.has_opportunities() => {
            let what = "found `hold` for a trace of opportunities; allowed is `repeat`";
            Err(Problem::new(&format!("{path}.trace-end"), what))
        }
        Direction { aggregation: Some(_), .. } => {
            let what = "found it beside a trace, which says when packets leave; remove one of the two";
            Err(Problem::new(&format!("{path}.aggregation"), what))
        }
        _ => Ok(()),
    }
}

fn directions(scenario: &Scenario) -> impl Iterator<Item = (String, &Direction)> {
    let links = scenario.links.iter().enumerate();
    links.flat_map(|(index, link)| {
        let back = link.back.as_deref().map(|back| (format!("link[{index}].back"), back));
        [(format!("link[{index}].there"), &link.there)].into_iter().chain(back)
    })
}

fn directions_mut(scenario: &mut Scenario) -> impl Iterator<Item = (String, &mut Direction)> {
    let links = scenario.links.iter_mut().enumerate();
    links.flat_map(|(index, link)| {
        let back = link.back.as_deref_mut().map(|back| (format!("link[{index}].back"), back));
        [(format!("link[{index}].there"), &mut link.there)].into_iter().chain(back)
    })
}

/// The beginning of models' names in a scenario.
const MODEL: &str = "model:";
