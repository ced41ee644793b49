//! `man` and `completions` of a program: the manual pages and the shells' completions, made from its command
//! line itself; and values that completions offer among others.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::{Exit, Failure, Program, output};

/// The manual.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Completions.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl ManArgs {
    /// Prints the page of `program`, or writes the pages of all its commands into a directory.
    ///
    /// # Errors
    /// Stdout or the directory cannot be written.
    pub fn run(&self, command: &Command, program: Program) -> Result<(), Failure> {
        match &self.out {
            Some(directory) => write_all(command, program, directory),
            None => output::print_bytes(&page(command, program)?),
        }
    }
}

impl CompletionsArgs {
    /// Prints what the shell reads to complete the command line of the program `name`.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn run(&self, mut command: Command, name: &str) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        output::print_bytes(&script)
    }
}

/// A parser whose values have names, which completions offer, besides others with parameters or paths.
#[derive(Clone)]
pub struct Suggested<P> {
    names: Vec<(String, String)>,
    parse: P,
}

impl<P> Suggested<P> {
    /// The names with what each is, and the parser of all values.
    pub fn new<T: Clone + Send + Sync + 'static, E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        names: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
        parse: P,
    ) -> Self
    where
        P: Fn(&str) -> Result<T, E> + Clone + Send + Sync + 'static,
    {
        Self {
            names: names.into_iter().map(|(name, summary)| (name.into(), summary.into())).collect(),
            parse,
        }
    }
}

impl<P, T, E> TypedValueParser for Suggested<P>
where
    P: Fn(&str) -> Result<T, E> + Clone + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<T, clap::Error> {
        TypedValueParser::parse_ref(&self.parse, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value =
            |(name, summary): &(String, String)| PossibleValue::new(name.clone()).help(summary.clone());
        Some(Box::new(self.names.iter().map(value)))
    }
}

fn write_all(command: &Command, program: Program, directory: &Path) -> Result<(), Failure> {
    output::make_folder(directory)?;
    for command in pages(command.clone()) {
        let path = directory.join(format!("{}.1", command.get_name()));
        output::write_file(&path, &page(&command, program)?)?;
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

fn page(command: &Command, program: Program) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let made =
        Man::new(command.clone()).render(&mut page).and_then(|()| exit_codes(program).to_writer(&mut page));
    made.map_err(|error| Failure::new(Exit::Failed, format!("cannot make the manual page: {error}")))?;
    Ok(page)
}

fn exit_codes(program: Program) -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["EXIT STATUS"]);
    for exit in Exit::ALL {
        let Some(meaning) = exit.meaning(program) else { continue };
        section.control("TP", []);
        section.text([bold(exit.code().to_string())]);
        section.text([roman(meaning)]);
    }
    section
}
