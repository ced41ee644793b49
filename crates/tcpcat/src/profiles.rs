//! `tcpcat profiles`: everything that can be chosen by name, one line each with its source.

use std::collections::BTreeMap;

use ackclock::congestion::{Registry, Signal};
use ackclock::profile::{CHOICES, Choice, Profile};
use ackclock_cli::Exit;
use serde::Serialize;

use crate::args::{ProfilesArgs, is_simulated_only};
use crate::json;

/// All lists.
#[derive(Debug, Serialize)]
struct Lists {
    profiles: Vec<ProfileRow>,
    controllers: Vec<ControllerRow>,
    choices: Vec<ChoiceRow>,
}

#[derive(Debug, Serialize)]
struct ProfileRow {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    congestion: &'static str,
    /// Every choice by its key.
    #[serde(flatten)]
    choices: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
struct ControllerRow {
    name: &'static str,
    year: u16,
    source: &'static str,
    signal: &'static str,
    deviations: &'static str,
}

/// A choice, and its values that have names.
#[derive(Debug, Serialize)]
struct ChoiceRow {
    key: &'static str,
    value: &'static str,
    help: &'static str,
    source: &'static str,
    names: Vec<Row>,
}

/// A name and its line.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    summary: &'static str,
}

/// Prints the lists.
pub(crate) fn run(args: &ProfilesArgs) -> Exit {
    let lists = Lists::new();
    if !args.json {
        lists.show();
        return Exit::Done;
    }
    json::show(lists);
    Exit::Done
}

impl Lists {
    fn new() -> Self {
        let registry = Registry::builtin();
        let usable = Profile::all().filter(|profile| !is_simulated_only(profile.congestion));
        Self {
            profiles: usable.map(ProfileRow::new).collect(),
            controllers: registry.names().filter_map(|name| ControllerRow::new(&registry, name)).collect(),
            choices: CHOICES.iter().map(ChoiceRow::new).collect(),
        }
    }

    fn show(&self) {
        show!("Profiles (--profile); the other options override their choices");
        for row in &self.profiles {
            line(row.name, &format!("{} [{}]", row.summary, row.source));
        }
        show!("\nCongestion controllers (--cc)");
        for row in &self.controllers {
            line(row.name, &format!("answers {}: {}", row.signal, row.source));
        }
        for row in &self.choices {
            show!("\n{} (--{} {}) [{}]", row.help, row.key, row.value, row.source);
            // `on|off` says it all.
            for named in row.names.iter().filter(|named| !row.value.split('|').any(|word| word == named.name))
            {
                line(named.name, named.summary);
            }
        }
    }
}

impl ProfileRow {
    fn new(profile: Profile) -> Self {
        Self {
            name: profile.name,
            summary: profile.summary,
            source: profile.source,
            congestion: profile.congestion,
            choices: CHOICES.iter().map(|choice| (choice.key, choice.get(&profile.choices))).collect(),
        }
    }
}

impl ChoiceRow {
    fn new(choice: &Choice) -> Self {
        let &Choice { key, grammar, help, source, .. } = choice;
        let names = choice.names().into_iter().map(|named| Row { name: named.name, summary: named.summary });
        Self { key, value: grammar, help, source, names: names.collect() }
    }
}

impl ControllerRow {
    fn new(registry: &Registry, name: &'static str) -> Option<Self> {
        let about = registry.find(name).ok()?.about();
        let signal = match about.signal {
            Signal::Loss => "loss",
            Signal::Delay => "delay",
            Signal::Rate => "rate",
            Signal::Marks => "marks",
            _ => "nothing",
        };
        Some(Self { name, year: about.year, source: about.source, signal, deviations: about.deviations })
    }
}

fn line(name: &str, summary: &str) {
    show!("  {name:<22} {summary}");
}
