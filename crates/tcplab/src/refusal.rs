//! A command line that cannot be read: clap's error, with what helps to correct it.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// Adds to an error of `words`: the usage of the subcommand where clap leaves it out, all subcommands for one
/// that does not exist, and where an unknown option belongs.
pub(crate) fn with_help(mut error: Error, mut program: Command, words: &[OsString]) -> Error {
    if !error.use_stderr() {
        return error;
    }
    program.build();
    let named = words.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    if let Some(tip) = tip(&error, &program, named) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    let command = program.find_subcommand_mut(named);
    if let (None, Some(command)) = (error.get(ContextKind::Usage), command) {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(command.render_usage()));
    }
    error
}

fn tip(error: &Error, program: &Command, named: &str) -> Option<String> {
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let all: Vec<&str> = shown(program).map(Command::get_name).collect();
            Some(format!("the commands are {}; `tcplab --help` describes them", all.join(", ")))
        }
        ErrorKind::UnknownArgument if error.get(ContextKind::SuggestedArg).is_none() => {
            let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
            let commands = shown(program).filter(|command| has(command, option));
            let owners: Vec<&str> = commands.map(Command::get_name).collect();
            let known = program.find_subcommand(named).is_some();
            match (owners.as_slice(), known) {
                ([], true) => Some(format!("`tcplab {named} --help` lists its options")),
                ([], false) => Some("`tcplab --help` lists the commands".to_owned()),
                (owners, true) => Some(format!("{option} belongs to: {}", owners.join(", "))),
                (owners, false) => {
                    Some(format!("options follow the command; {option} belongs to: {}", owners.join(", ")))
                }
            }
        }
        _ => None,
    }
}

/// The subcommands that users call.
fn shown(program: &Command) -> impl Iterator<Item = &Command> {
    program.get_subcommands().filter(|command| !command.is_hide_set())
}

/// Whether a subcommand has this long option.
fn has(command: &Command, option: &str) -> bool {
    command
        .get_arguments()
        .filter_map(|arg| arg.get_long())
        .any(|long| option.strip_prefix("--") == Some(long))
}
