//! `docs/scenarios.md`: its scenarios run, and it names every key.

use std::collections::BTreeSet;
use std::io;

use ackclock_control::profile::{CHOICES, Choice};
use ackclock_sim::link_trace::models;
use ackclock_sim::scenario::{
    Aggregation, Change, Corruption, HostConfig, LinkConfig, PolicerConfig, Scripted,
};
use ackclock_sim::scenario::{Jitter, Loss, Reordering, TcplibMix, TraceSetting, Variation};
use ackclock_sim::{Direction, QueueConfig, Scenario, Simulation, TcpSettings, TrafficConfig, TrafficKind};
use serde::de::DeserializeOwned;

const REFERENCE: &str = include_str!("../../../../docs/scenarios.md");
const CONTROL: &str = include_str!("../../../../docs/control.md");

#[test]
fn its_scenarios_run_and_all_their_traffic_moves() {
    let mut scenarios = 0;
    for block in REFERENCE.split("```toml\n").skip(1) {
        let text = block.split("```").next().expect("a block ends");
        let mut scenario =
            Scenario::from_toml("docs/scenarios.md", text).expect("a scenario of the document");
        scenario.load_traces(trace).expect("its traces are in the document");
        let report = Simulation::new(&scenario).expect("it can be run").run();
        assert!(!report.flows.is_empty());
        for flow in &report.flows {
            assert!(flow.there.bytes > 0, "{} sent nothing", flow.name);
        }
        scenarios += 1;
    }
    assert_eq!(scenarios, 4);
}

/// The block of the document that begins with the name of a trace.
fn trace(name: &str) -> io::Result<String> {
    let blocks = REFERENCE.split("```text\n").skip(1).filter_map(|block| block.split("```").next());
    let named = blocks.filter_map(|block| block.strip_prefix(&format!("# {name}\n")));
    named.map(str::to_owned).next().ok_or(io::ErrorKind::NotFound.into())
}

#[test]
fn it_names_every_key() {
    let mut keys = BTreeSet::new();
    keys.extend(keys_of::<Scenario>(""));
    keys.extend(keys_of::<HostConfig>(""));
    keys.extend(keys_of::<LinkConfig>(""));
    keys.extend(keys_of::<Direction>(""));
    keys.extend(keys_of::<PolicerConfig>(""));
    keys.extend(keys_of::<Aggregation>(""));
    keys.extend(models::all().iter().map(|model| model.name.to_owned()));
    keys.extend(keys_of::<Jitter>(""));
    keys.extend(keys_of::<Variation>(""));
    keys.extend(keys_of::<Loss>("").chain(keys_of::<Loss>("gilbert-elliott")));
    keys.extend(keys_of::<Scripted>(""));
    keys.extend(keys_of::<Reordering>(""));
    keys.extend(keys_of::<Corruption>(""));
    for queue in keys_of::<QueueConfig>("").collect::<Vec<_>>() {
        keys.extend(keys_of::<QueueConfig>(&queue));
        keys.insert(queue);
    }
    keys.extend(keys_of::<Change>(""));
    keys.extend(keys_of::<TrafficConfig>(""));
    for kind in keys_of::<TrafficKind>("").collect::<Vec<_>>() {
        keys.extend(keys_of::<TrafficKind>(&kind));
        keys.insert(kind);
    }
    keys.extend(keys_of::<TcplibMix>(""));
    let is_choice = |key: &String| Choice::find(key).is_ok();
    let (choices, settings): (Vec<_>, Vec<_>) = keys_of::<TcpSettings>("").partition(is_choice);
    keys.extend(settings);
    // Their page is written from their table.
    assert_eq!(choices.len(), CHOICES.len());
    assert!(choices.iter().all(|key| CONTROL.contains(&format!("\n| `{key}` | "))), "{choices:?}");
    keys.extend(keys_of::<TraceSetting>("").chain(keys_of::<TraceSetting>("newest")));
    assert!(keys.len() > 80, "{keys:?}");
    // The text between backticks, in lines and in blocks: a word of the prose does not name a key.
    let code = REFERENCE.split('`').skip(1).step_by(2);
    let words: BTreeSet<&str> =
        code.flat_map(|code| code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))).collect();
    let unnamed: Vec<_> = keys.iter().filter(|key| !words.contains(key.as_str())).collect();
    assert!(unnamed.is_empty(), "docs/scenarios.md does not name {unnamed:?}");
}

/// The keys allowed in a table of this kind, as its reader lists them in an error.
fn keys_of<T: DeserializeOwned>(table: &str) -> impl Iterator<Item = String> + use<T> {
    let text = if table.is_empty() { "nothing = 0".into() } else { format!("[{table}]\nnothing = 0") };
    let error = toml::from_str::<T>(&text).err().expect("there is no such key").message().to_owned();
    let marks = ["available keys:", "expected"];
    let allowed =
        marks.iter().find_map(|mark| error.split_once(mark)).expect("the error lists what is allowed").1;
    let words = allowed.split([',', ' ', '`']).filter(|word| !["", "one", "of", "or"].contains(word));
    let names: Vec<String> = words.map(str::to_owned).collect();
    assert!(!names.is_empty(), "{error}");
    names.into_iter()
}
