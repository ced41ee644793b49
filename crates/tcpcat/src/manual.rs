//! `tcpcat man` and `tcpcat completions`: the manual pages and the shells' completions, made from the command
//! line itself.

use std::path::Path;

use ackclock_cli::{Exit, Failure, Program, output};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::{CompletionsArgs, ManArgs};
use crate::say;

/// Prints the page of `tcpcat`, or writes all pages into a directory.
pub(crate) fn run_man(command: &Command, args: &ManArgs) -> Exit {
    let Some(directory) = &args.out else {
        say::note(page(command).and_then(|page| output::print_bytes(&page)));
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
    say::note(output::print_bytes(&script));
    Exit::Done
}

fn write_all(command: &Command, directory: &Path) -> Result<(), Failure> {
    output::make_folder(directory)?;
    for command in pages(command.clone()) {
        let path = directory.join(format!("{}.1", command.get_name()));
        output::write_file(&path, &page(&command)?)?;
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

fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let made = Man::new(command.clone()).render(&mut page).and_then(|()| exit_codes().to_writer(&mut page));
    made.map_err(|error| Failure::new(Exit::Failed, format!("cannot make the manual page: {error}")))?;
    Ok(page)
}

fn exit_codes() -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["EXIT STATUS"]);
    for exit in Exit::ALL {
        let Some(meaning) = exit.meaning(Program::Tcpcat) else { continue };
        section.control("TP", []);
        section.text([bold(exit.code().to_string())]);
        section.text([roman(meaning)]);
    }
    section
}
