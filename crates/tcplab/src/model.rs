//! `tcplab model`: the built-in models of links, as traces.

use std::path::PathBuf;

use ackclock_cli::{Exit, Failure, output};
use ackclock_control::names::nearest;
use ackclock_sim::link_trace::models::{self, Model};

/// Options of `tcplab model`.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelArgs {
    /// The model; without one, all are listed
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Draw the model with this seed; scenarios follow that of 0
    #[arg(long, value_name = "N", default_value_t = 0, requires = "name")]
    seed: u64,
    /// Write it to this file instead of stdout
    #[arg(long, value_name = "FILE", requires = "name")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &ModelArgs) -> anyhow::Result<Exit> {
    let Some(name) = &args.name else {
        let line = |model: &Model| format!("{:<10}{}\n", model.name, model.summary);
        let list: String = models::all().iter().map(line).collect();
        output::print(format_args!("Models of links, not measurements:\n\n{list}"))?;
        return Ok(Exit::Done);
    };
    let names = || models::all().iter().map(|model| model.name);
    let Some(model) = models::all().iter().find(|model| model.name == name) else {
        let known = names().collect::<Vec<_>>().join(", ");
        let hint = nearest(name, names()).map_or(String::new(), |name| format!("; the nearest is {name}"));
        return Err(Failure::usage(format!("unknown model {name}: allowed are {known}{hint}")).into());
    };
    let text = model.text(args.seed);
    match &args.output {
        Some(path) => output::write_file(path, text.as_bytes())?,
        None => output::print(text)?,
    }
    Ok(Exit::Done)
}
