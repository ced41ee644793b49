//! The one door.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ackclock_control::congestion::{NameTaken, Registry};
use ackclock_sim::Scenario;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::capture::Captures;
use crate::dials::{DIALS, Form, Found};
use crate::kit;
use crate::run::Run;
use crate::scenes::{SCENES, Scenes};
use crate::script::{Script, Scripted};
use crate::setting::Setting;

/// The laboratory: what its runs and its capture left, and the answers to requests.
#[derive(Debug)]
pub struct Lab {
    registry: Registry,
    scenes: Scenes,
    script: Option<Scripted>,
    /// The newest runs with their numbers.
    runs: VecDeque<(u64, Run)>,
    begun: u64,
    captures: Captures,
}

/// A page's requests.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
enum Request {
    /// Scenes, dials and their choices.
    Catalogue,
    /// The setting of a link, checked.
    Link { link: String },
    /// A run, with everything to show of it.
    Run { setting: BTreeMap<String, String> },
    /// Only the hash of a run's packets.
    Hash { setting: BTreeMap<String, String> },
    /// Two runs, and their flows in one table.
    Compare { settings: [BTreeMap<String, String>; 2] },
    /// The sentences on a byte of a run's connection.
    Explain { run: u64, connection: usize, byte: u32 },
    /// The checks of a controller; with the number of a situation, what it does there.
    Kit { controller: String, situation: Option<usize> },
    /// A capture of this name and length in bytes follows, in pieces.
    CaptureBegin { name: String, length: u64 },
    /// It is complete.
    CaptureEnd,
    /// A capture that is made here, for a reader without one.
    CaptureExample,
    /// A connection of the capture.
    CaptureConnection { index: usize },
    /// The sentences on the data with this byte of that connection; the first is 1.
    CaptureByte { index: usize, byte: u64 },
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

impl Lab {
    /// A laboratory in which nothing was run.
    #[must_use]
    pub fn new() -> Self {
        Self {
            registry: Registry::with_experiments(),
            scenes: Scenes::default(),
            script: None,
            runs: VecDeque::new(),
            begun: 0,
            captures: Captures::default(),
        }
    }

    /// Adds a controller of the reader's, which is called `yours`.
    ///
    /// # Errors
    /// There is one already.
    pub fn add_script(&mut self, script: Arc<dyn Script>) -> Result<(), NameTaken> {
        let scripted = Scripted::new(script);
        self.registry.register(Arc::new(scripted.clone()))?;
        self.script = Some(scripted);
        Ok(())
    }

    /// Adds a scenario of the reader's as a scene of this name. It must have been checked.
    pub fn add_scenario(&mut self, name: impl Into<String>, scenario: Scenario) {
        self.scenes.add(name.into(), scenario);
    }

    /// Answers a request in JSON. A wrong request is answered by `{"error": ".."}`, which says what was
    /// wrong and what to do.
    #[must_use]
    pub fn answer(&mut self, request: &str) -> String {
        let answer = match serde_json::from_str(request) {
            Ok(request) => self.of(request),
            Err(error) => Err(format!("unknown request: {error}")),
        };
        let failed = self.script.as_ref().and_then(Scripted::take_error);
        let answer = failed.map_or(answer, |error| Err(format!("your controller: {error}")));
        answer.unwrap_or_else(|error| json!({ "error": error }).to_string())
    }

    /// Takes the next bytes of a capture, and answers how far it is.
    #[must_use]
    pub fn push(&mut self, chunk: &[u8]) -> String {
        self.captures.push(chunk).unwrap_or_else(|error| json!({ "error": error })).to_string()
    }

    fn of(&mut self, request: Request) -> Result<String, String> {
        let answer = match request {
            Request::Run { setting } => return self.run(setting).map(|(_, shown)| shown),
            Request::Compare { settings } => return self.compare(settings),
            Request::CaptureConnection { index } => return self.captures.connection(index),
            Request::Catalogue => self.catalogue(),
            Request::Link { link } => {
                let mut setting = Setting::from_link(&link)?;
                let scenario = setting.scenario(&self.scenes, &self.registry)?;
                described(&setting, &scenario)
            }
            Request::Hash { setting } => {
                let scenario = Setting::of(setting)?.scenario(&self.scenes, &self.registry)?;
                json!({ "hash": format!("{:016x}", Run::new(scenario, &self.registry)?.hash()) })
            }
            Request::Explain { run, connection, byte } => {
                let ran = self
                    .runs
                    .iter()
                    .find(|(number, _)| *number == run)
                    .ok_or_else(|| format!("run {run} is no longer in memory; run its setting again"))?;
                json!({ "sentences": ran.1.explain(connection, byte)? })
            }
            Request::Kit { controller, situation: None } => kit::checks(&controller, &self.registry)?,
            Request::Kit { controller, situation: Some(number) } => {
                kit::situation(&controller, number, &self.registry)?
            }
            Request::CaptureBegin { name, length } => self.captures.begin(name, length)?,
            Request::CaptureEnd => self.captures.end()?,
            Request::CaptureExample => self.captures.example()?,
            Request::CaptureByte { index, byte } => self.captures.byte(index, byte)?,
        };
        Ok(answer.to_string())
    }

    fn catalogue(&self) -> Value {
        let words = |name: &str| SCENES.iter().find(|scene| scene.name == name);
        let scenes = self.scenes.names().into_iter().filter_map(|name| {
            let mut setting = Setting { scene: name.clone(), values: BTreeMap::new() };
            let scenario = setting.scenario(&self.scenes, &self.registry).ok()?;
            let words = words(&name);
            let mut scene = json!({
                "name": name,
                "title": words.map_or(name.as_str(), |words| words.title),
                "source": words.map_or("your scenario", |words| words.source),
                "text": words.map_or(&[][..], |words| &words.text),
                "look": words.map_or("", |words| words.look),
            });
            scene["dials"] = dials(&scenario);
            Some(scene)
        });
        let rows = DIALS.iter().map(|dial| {
            let names = match dial.form {
                Form::List(list) => Some(list.names(&self.registry)),
                Form::Slider { .. } => None,
            };
            json!({
                "key": dial.key, "label": dial.label, "what": dial.what, "form": dial.form, "names": names,
            })
        });
        json!({ "scenes": scenes.collect::<Vec<_>>(), "dials": rows.collect::<Vec<_>>() })
    }

    /// Runs a setting. Returns the run's number, and its answer.
    fn run(&mut self, setting: BTreeMap<String, String>) -> Result<(u64, String), String> {
        let mut setting = Setting::of(setting)?;
        let scenario = setting.scenario(&self.scenes, &self.registry)?;
        let mut answer = described(&setting, &scenario);
        let run = Run::new(scenario, &self.registry)?;
        self.begun += 1;
        answer["run"] = self.begun.into();
        let shown = serde_json::to_string(&run.shown()).map_err(|error| error.to_string())?;
        self.runs.push_back((self.begun, run));
        if self.runs.len() > RUNS_KEPT {
            self.runs.pop_front();
        }
        // One object out of both, without reading the figures again.
        let mut answer = answer.to_string();
        answer.pop();
        Ok((self.begun, format!("{answer},{}", shown.trim_start_matches('{'))))
    }

    fn compare(&mut self, settings: [BTreeMap<String, String>; 2]) -> Result<String, String> {
        let [one, other] = settings;
        let (first, one) = self.run(one)?;
        let (second, other) = self.run(other)?;
        let mut rows = Vec::new();
        let mut head = Vec::new();
        for (side, number) in [("A", first), ("B", second)] {
            let Some((_, run)) = self.runs.iter().find(|(kept, _)| *kept == number) else { continue };
            let flows = run.flows();
            head = flows.head;
            rows.extend(flows.rows.into_iter().map(|mut row| {
                row[0] = format!("{side}: {}", row[0]);
                row
            }));
        }
        let table = json!({ "head": head, "rows": rows });
        Ok(format!(r#"{{"table":{table},"runs":[{one},{other}]}}"#))
    }
}

/// A setting in the form in which the page keeps it.
fn described(setting: &Setting, scenario: &Scenario) -> Value {
    let mut values = setting.values.clone();
    values.insert("scene".to_owned(), setting.scene.clone());
    json!({ "setting": values, "link": setting.link(), "dials": dials(scenario) })
}

/// A scenario's value at each dial.
fn dials(scenario: &Scenario) -> Value {
    let found: BTreeMap<&str, Option<Found>> =
        DIALS.iter().map(|dial| (dial.key, (dial.read)(scenario))).collect();
    json!(found)
}

/// Runs in memory: both sides of a comparison, and those before.
const RUNS_KEPT: usize = 4;

#[cfg(test)]
mod tests;
