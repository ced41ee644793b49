//! `tcpcat profiles`: everything that can be chosen by name, one line each with its source.

use ackclock::bandwidth::SenderEstimatorKind;
use ackclock::congestion::{Registry, Signal};
use ackclock::profile::{Profile, Recovery};
use ackclock::rtt::presets;
use ackclock_cli::Exit;
use serde::Serialize;

use crate::args::{ProfilesArgs, is_simulated_only};
use crate::json;

/// All lists.
#[derive(Debug, Serialize)]
struct Lists {
    profiles: Vec<ProfileRow>,
    controllers: Vec<ControllerRow>,
    recoveries: Vec<Row>,
    rto_presets: Vec<Row>,
    start_up_estimators: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct ProfileRow {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    congestion: &'static str,
    recovery: &'static str,
    rto: Option<&'static str>,
    undo: String,
    acks: String,
    pacing: bool,
    ecn: &'static str,
    initial_window_segments: u32,
    timestamps: bool,
    sack: bool,
    window_scaling: bool,
}

#[derive(Debug, Serialize)]
struct ControllerRow {
    name: &'static str,
    year: u16,
    source: &'static str,
    signal: &'static str,
    deviations: &'static str,
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
            recoveries: Recovery::ALL.map(|(name, policy)| Row { name, summary: policy.summary() }).into(),
            rto_presets: presets::all()
                .map(|preset| Row { name: preset.name, summary: preset.source })
                .collect(),
            start_up_estimators: SenderEstimatorKind::ALL
                .map(|(name, kind)| Row { name, summary: kind.summary() })
                .into(),
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
        let sections = [
            ("Loss recovery (--recovery)", &self.recoveries),
            (
                "Retransmission timeouts (--rto); min=, max=, initial=, g=, k= may follow a comma",
                &self.rto_presets,
            ),
            ("Bandwidth estimators for the start (--start-up)", &self.start_up_estimators),
        ];
        for (head, rows) in sections {
            show!("\n{head}");
            for row in rows {
                line(row.name, row.summary);
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
            recovery: profile.recovery.name(),
            rto: profile.rto.preset_name(),
            undo: profile.undo.to_string(),
            acks: profile.acks.to_string(),
            pacing: profile.pacing,
            ecn: profile.options.ecn.name(),
            initial_window_segments: profile.initial_window_segments,
            timestamps: profile.options.timestamps,
            sack: profile.options.sack,
            window_scaling: profile.options.window_scaling,
        }
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
