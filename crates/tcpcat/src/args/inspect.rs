//! `ss`, `top`, `trace`: what looks at a running stack.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};

use super::common::interval_in_seconds;
use crate::inspect::Sort;

/// Which stack to look at.
#[derive(Args, Clone, Debug)]
pub(crate) struct SocketArgs {
    /// The control socket of the stack, as it was started with; without it the environment's TCPCAT_CONTROL
    #[arg(long = "control", value_name = "PATH")]
    path: Option<PathBuf>,
}

impl SocketArgs {
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// A list of connections.
#[derive(Args, Debug)]
pub(crate) struct SsArgs {
    #[command(flatten)]
    pub control: SocketArgs,
    /// Show what is known of each connection, in the words of `ss -ti`
    #[arg(short = 'i', long)]
    pub info: bool,
    /// Show listeners alone
    #[arg(short = 'l', long = "listening")]
    pub listeners: bool,
    /// Show listeners and connections
    #[arg(short = 'a', long)]
    pub all: bool,
    /// Show the process that runs the stack
    #[arg(short = 'p', long = "processes")]
    pub process: bool,
    /// As for ss, which has more than TCP; here it changes nothing
    #[arg(short = 't', long = "tcp")]
    _tcp: bool,
    /// As for ss; addresses and ports are always numbers here
    #[arg(short = 'n', long = "numeric")]
    _numeric: bool,
    /// Print no heading
    #[arg(short = 'H', long = "no-header")]
    pub no_heading: bool,
    /// Print a JSON object with all there is to know of each
    #[arg(long)]
    pub json: bool,
    /// Which connections, as ss(8) has it: state established, dst 10.0.0.0/8, src ADDR:PORT, sport = :443,
    /// dport > 1023; joined by and, or, not and ( )
    #[arg(value_name = "FILTER", allow_hyphen_values = false)]
    pub filter: Vec<String>,
}

/// A live view.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub control: SocketArgs,
    /// How often to look; a bare number counts seconds, as for top
    #[arg(short = 'd', long, value_name = "SECS", default_value = "1s", value_parser = interval_in_seconds)]
    pub interval: Duration,
    /// The column to sort by at first [default: rate]
    #[arg(long, value_enum)]
    pub sort: Option<Sort>,
    /// Print one frame as text and end
    #[arg(long)]
    pub once: bool,
}

/// The trace of a connection.
#[derive(Args, Debug)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// The commands of `trace`.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Write all that a connection does from now on, and why, to a trace file here, until it ends or Ctrl-C
    On {
        /// The connection's number, as ss lists it
        connection: String,
        /// The file [default: connection-NUMBER.trace]
        #[arg(short = 'o', long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        control: SocketArgs,
    },
    /// End the trace of a connection that another tcpcat has switched on
    Off {
        /// The connection's number, as ss lists it
        connection: String,
        #[command(flatten)]
        control: SocketArgs,
    },
    /// Write what a connection's flight recorder holds to a trace file here
    Dump {
        /// The connection's number, as ss lists it
        connection: String,
        /// The file [default: connection-NUMBER.trace]
        #[arg(short = 'o', long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        control: SocketArgs,
    },
}
