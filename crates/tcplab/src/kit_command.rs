//! `tcplab kit`: the conformance pages of controllers.

use std::path::PathBuf;

use ackclock_cli::{Exit, Failure, output};
use ackclock_control::congestion::Registry;
use tcplab::kit::{self, Examination};

/// Options of `tcplab kit`.
#[derive(Debug, clap::Args)]
pub(crate) struct KitArgs {
    /// Controllers: cubic, vegas, vegas:alpha=2,beta=4
    #[arg(required_unless_present = "all", value_name = "NAME")]
    names: Vec<String>,
    /// All built-in controllers
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Folder for a page of each, as Markdown and HTML, and with --all a README.md that links to them;
    /// created if missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &KitArgs) -> anyhow::Result<Exit> {
    let registry = Registry::with_experiments();
    let names: Vec<String> = match args.all {
        true => Registry::builtin().names().map(str::to_owned).collect(),
        false => args.names.clone(),
    };
    for name in &names {
        registry.find(name).map_err(|error| Failure::usage(error.to_string()))?;
    }
    if let Some(folder) = &args.out {
        output::make_folder(folder)?;
    }
    let bar = output::progress(names.len() as u64, "controllers");
    let mut all: Vec<Examination> = Vec::new();
    for name in &names {
        all.push(kit::examine(name, &registry)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    for one in &all {
        let page = one.page();
        match &args.out {
            Some(folder) => {
                // Parameters contain characters that file names should not.
                let stem = one.name.replace([':', '=', ',', '/', '.'], "-");
                output::write_file(&folder.join(format!("{stem}.md")), page.markdown().as_bytes())?;
                output::write_file(&folder.join(format!("{stem}.html")), page.html().as_bytes())?;
            }
            None => output::print(page.markdown())?,
        }
    }
    if let (Some(folder), true) = (&args.out, args.all) {
        let page = kit::index(&all);
        output::write_file(&folder.join("README.md"), page.markdown().as_bytes())?;
        output::write_file(&folder.join("index.html"), page.html().as_bytes())?;
    }
    for one in all.iter().filter(|one| !one.checks.passed()) {
        output::say(format_args!("tcplab: {} does not pass the checks of the kit", one.name));
    }
    Ok(if all.iter().all(|one| one.checks.passed()) { Exit::Done } else { Exit::Failed })
}
