//! `tcpcat man` and `tcpcat completions`: the manual pages and the shells' completions, made from the command
//! line itself.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::{CompletionsArgs, ManArgs};
use crate::exit::{Exit, Failure};
use crate::say;

/// Prints the page of `tcpcat`, or writes all pages into a directory.
pub(crate) fn run_man(command: &Command, args: &ManArgs) -> Exit {
    let Some(directory) = &args.out else {
        say::note(page(command).and_then(|page| io::stdout().write_all(&page)));
        return Exit::Done;
    };
    match write_all(command, directory) {
        Ok(()) => Exit::Done,
        Err(failure) => {
            say!("tcpcat: {failure}");
            failure.exit()
        }
    }
}

/// Prints what a shell reads to complete the command line of `tcpcat`.
pub(crate) fn run_completions(mut command: Command, args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tcpcat", &mut script);
    say::note(io::stdout().write_all(&script));
    Exit::Done
}

fn write_all(command: &Command, directory: &Path) -> Result<(), Failure> {
    let failure = |doing: &str, path: &Path, error: io::Error| Failure::file(doing, path, &error);
    fs::create_dir_all(directory).map_err(|error| failure("make", directory, error))?;
    for command in pages(command.clone()) {
        let path = directory.join(format!("{}.1", command.get_name()));
        page(&command)
            .and_then(|page| fs::write(&path, page))
            .map_err(|error| failure("write", &path, error))?;
    }
    Ok(())
}

/// The command and all below it, each under the name of its page: `tcpcat-bench-client`.
fn pages(command: Command) -> Vec<Command> {
    let name = command.get_name().to_owned();
    let below: Vec<_> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
        .flat_map(|sub| {
            let name = format!("{name}-{}", sub.get_name());
            pages(sub.clone().name(name))
        })
        .collect();
    [command].into_iter().chain(below).collect()
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let manual = Man::new(command.clone());
    manual.render(&mut page)?;
    exit_codes().to_writer(&mut page)?;
    Ok(page)
}

fn exit_codes() -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["EXIT STATUS"]);
    for exit in Exit::ALL {
        section.control("TP", []);
        section.text([bold(exit.code().to_string())]);
        section.text([roman(exit.meaning())]);
    }
    section
}
