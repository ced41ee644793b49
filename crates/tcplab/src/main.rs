//! `tcplab`: TCP's experiments in virtual time, and assessments of traces.

#![forbid(unsafe_code)]

mod between;
mod compare;
mod convert;
mod explain;
mod http;
mod kit_command;
mod live;
mod model;
mod papers;
mod picture;
mod real_time;
mod recorded;
mod refusal;
mod replay;
mod rto;
mod run;
mod serve;
#[cfg(target_os = "linux")]
mod shell;
mod ssthresh;

use std::ffi::OsString;
use std::process::ExitCode;

use ackclock_cli::manual::{CompletionsArgs, ManArgs};
use ackclock_cli::{Exit, Failure, Program, output};
use clap::{CommandFactory, Parser, Subcommand};

/// Experiments with TCP in virtual time, and assessments of traces and captures.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, long_about = about())]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario, and report its flows and links
    Run(run::RunArgs),
    /// Print a model of a link as a trace, for a scenario to follow and for you to change
    Model(model::ModelArgs),
    /// Put a scenario's network between programs of this system, in real time
    ///
    /// Accepts connections, and datagrams, at --listen, carries each through the scenario's links, queues and
    /// faults from its first host to its last, and connects it to --to. No privilege is needed. At the end,
    /// after a signal or --duration, it prints what the links did. If the machine fell behind, it says so and
    /// exits with 1.
    Between(between::BetweenArgs),
    /// Run a command whose packets all pass a scenario's network, in real time (Linux)
    ///
    /// The command's packets, whatever they carry, pass the scenario's links, queues and faults between two
    /// of its hosts, and go on from there as this system's connections and datagrams. No privilege is needed
    /// where users may make namespaces. At the address of the other host, it reaches this system's loopback.
    /// The exit code is the command's, but 1 for 0 if the machine fell behind.
    #[cfg(target_os = "linux")]
    Shell(shell::ShellArgs),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    ShellInside(shell::InsideArgs),
    /// Run a command behind a scenario's network, on Linux
    #[cfg(not(target_os = "linux"))]
    Shell(NotHere),
    /// Compare congestion controllers over a grid of rates, delays, buffers and losses
    Compare(compare::CompareArgs),
    /// Repeat the experiments of the four papers, and checks by figures of other sources
    Papers(papers::PapersArgs),
    /// Examine congestion controllers: the checks of the kit, and fixed simulated situations
    Kit(kit_command::KitArgs),
    /// Explain where the time of traced connections went, and why a byte was sent again
    ///
    /// For each connection: what it waited for, with timeouts and tail probes apart; which rules declared
    /// losses, what delayed the repair, and which verdicts the peer refuted; round-trip samples far from the
    /// others and what they set; how many segments an acknowledgement covers; and, for Reno, NewReno and
    /// CUBIC, the rate that loss and round trip allow in theory beside the rate reached.
    Explain(explain::ExplainArgs),
    /// Turn a trace into graphs (a page, SVG), a packet capture, CSV or JSON lines
    Convert(convert::ConvertArgs),
    /// Make the calls of a recorded stack again, and say where the outcome differs
    ///
    /// The same code, configuration and secret, fed with the recorded packets, calls and times, make the same
    /// packets, results and traces. What differs is reported with the time, the connection and both packets.
    /// With another profile, what arrives after the first difference is still what was recorded.
    Replay(replay::ReplayArgs),
    /// Open the laboratory in a browser of this machine, with these captures, traces and scenarios
    ///
    /// The page is the same as the one that works from a file: simulated networks with sliders, captures
    /// explained, controllers written and examined. Its requests are answered by this program, at a loopback
    /// address only. It runs until it is interrupted.
    Serve(serve::ServeArgs),
    /// Assess the retransmission timeouts of captured connections
    Rto(rto::RtoArgs),
    /// Print the manual page, or write one for each command: tcplab man --out ~/.local/share/man/man1
    Man(ManArgs),
    /// Print a shell's completions: source <(tcplab completions bash)
    Completions(CompletionsArgs),
    /// Assess what bandwidth estimates would have done to the start of captured connections
    Ssthresh(ssthresh::SsthreshArgs),
}

/// The words after a command that only Linux has; they are ignored.
#[cfg(not(target_os = "linux"))]
#[derive(Debug, clap::Args)]
struct NotHere {
    #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
    _words: Vec<OsString>,
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let args = CommandLine::try_parse_from(&words)
        .unwrap_or_else(|error| refusal::with_help(error, CommandLine::command(), &words).exit());
    let outcome: anyhow::Result<Exit> = match args.command {
        #[cfg(target_os = "linux")]
        Command::Shell(args) => return ended(shell::run(&args)),
        #[cfg(target_os = "linux")]
        Command::ShellInside(args) => return ended(shell::enter(&args)),
        #[cfg(not(target_os = "linux"))]
        Command::Shell(_) => Err(Failure::usage(
            "`tcplab shell` needs the network namespaces of Linux; `tcplab between` works here",
        )
        .into()),
        Command::Run(args) => run::run(&args),
        Command::Model(args) => model::run(&args),
        Command::Between(args) => between::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Papers(args) => papers::run(&args),
        Command::Kit(args) => kit_command::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Rto(args) => rto::run(&args),
        Command::Ssthresh(args) => ssthresh::run(&args),
        Command::Man(args) => printed(args.run(&CommandLine::command(), Program::Tcplab)),
        Command::Completions(args) => printed(args.run(CommandLine::command(), "tcplab")),
    };
    ended(outcome)
}

fn printed(printed: Result<(), Failure>) -> anyhow::Result<Exit> {
    Ok(printed.map(|()| Exit::Done)?)
}

/// The exit code. Reports a failure.
fn ended(outcome: anyhow::Result<impl Into<ExitCode>>) -> ExitCode {
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            output::say(format_args!("tcplab: {error:#}"));
            error.downcast_ref().map_or(Exit::Failed, Failure::exit).into()
        }
    }
}

/// The program's name in traces.
const PROGRAM: &str = concat!("tcplab ", env!("CARGO_PKG_VERSION"));

/// The head of the help, with the exit codes.
fn about() -> String {
    let codes: Vec<String> = Exit::ALL
        .into_iter()
        .filter_map(|exit| Some(format!("{} {}", exit.code(), exit.meaning(Program::Tcplab)?)))
        .collect();
    format!(
        "Experiments with TCP in virtual time, and assessments of traces and captures.\n\nResults go to \
         stdout, everything else to stderr. Exit codes: {}.",
        codes.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_the_documents_parse() {
        let commands = ackclock_tests::documents::commands("tcplab");
        assert!(commands.len() > 25, "{}", commands.len());
        for (place, words) in commands {
            let words = std::iter::once("tcplab".to_owned()).chain(words);
            match CommandLine::try_parse_from(words) {
                Err(error) if error.use_stderr() => panic!("{place}: {error}"),
                _ => {}
            }
        }
    }
}
