//! `tcpcat`: transfers over a TCP in user space.
//!
//! ```sh
//! tcpcat demo                                  # two hosts and the kernel's TCP exchange files, verified
//! tcpcat -l 7000                               # as nc -l, on a TCP of its own
//! tcpcat send --verify FILE 10.9.0.2 7000      # a file, to `tcpcat recv --verify`
//! ```
//!
//! It has no features. Devices of the operating system need Linux and privileges; `tcpcat doctor` reports
//! what is missing.
//!
//! `args` parses the command line, `session` runs it on a `host`, `exit` reports how it ended.

#![forbid(unsafe_code)]

#[macro_use]
mod say;

mod args;
mod bench;
mod demo;
mod device;
mod dial;
mod doctor;
mod exit;
mod host;
mod inspect;
mod interrupt;
mod json;
mod net;
mod observe;
mod profiles;
mod session;
mod trace;
mod transfer;
mod units;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::process::ExitCode;

use ackclock_cli::{Exit, Failure, Program, output};
use args::Invocation;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let invocation = match args::parse(&words) {
        Ok(invocation) => invocation,
        Err(error) => {
            // Help and the version are requests, not errors.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            say::note(output::printed(error.print()));
            if error.use_stderr() && words.iter().any(|word| word == "--json") {
                // The error itself, without the word before it and the usage below.
                let text = error.to_string();
                let wrong = text.strip_prefix("error: ").unwrap_or(&text).split("\n\n").next();
                json::refuse(exit, wrong.unwrap_or(&text).trim_end(), Some("see tcpcat --help"));
            }
            return say::end(exit).into();
        }
    };
    say::end(run(invocation)).into()
}

fn run(invocation: Invocation) -> Exit {
    // A demonstration moves into its own namespaces, which a process can do only before it has threads.
    let ground = match &invocation {
        Invocation::Demo(args) => Some(demo::prepare(args)),
        Invocation::Doctor(args) if args.probe_namespaces => return doctor::probe_namespaces(),
        // They run no stack.
        Invocation::Ss(args) => return inspect::run_ss(args),
        Invocation::Top(args) => return inspect::run_top(args),
        Invocation::Trace(args) => return inspect::run_trace(args),
        _ => None,
    };
    let workers = WORKERS + invocation.queues() - 1;
    let build = || tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let runtime = match has_descriptors().and_then(|()| build()) {
        Ok(runtime) => runtime,
        Err(error) => {
            say!("tcpcat: {}", Failure::start(&error));
            return Exit::Failed;
        }
    };
    let exit = runtime.block_on(async {
        match invocation {
            Invocation::Pipe(args, target) => transfer::pipe::run(args, target).await,
            Invocation::Send(args, target) => transfer::send::run(args, target).await,
            Invocation::Recv(args, target) => transfer::recv::run(args, target).await,
            Invocation::BenchServer(args, target) => bench::run_server(args, target).await,
            Invocation::BenchClient(args, target) => bench::run_client(args, target).await,
            Invocation::Demo(args) => demo::run(args, ground).await,
            Invocation::Doctor(args) => doctor::run(args).await,
            Invocation::Ss(args) => inspect::run_ss(&args),
            Invocation::Top(args) => inspect::run_top(&args),
            Invocation::Trace(args) => inspect::run_trace(&args),
            Invocation::Profiles(args) => profiles::run(&args),
            Invocation::Man(args) => printed(args.run(&args::command(), Program::Tcpcat)),
            Invocation::Completions(args) => printed(args.run(args::command(), "tcpcat")),
        }
    });
    // A thread may still be reading stdin, which nothing can interrupt.
    runtime.shutdown_background();
    exit
}

fn printed(printed: Result<(), Failure>) -> Exit {
    printed.map_or_else(|failure| json::fail(&failure, false), |()| Exit::Done)
}

/// Whether the runtime finds the descriptors that it needs. It panics without one for its signal pipe.
fn has_descriptors() -> io::Result<()> {
    (0..RUNTIME_DESCRIPTORS).map(|_| File::open("/dev/null")).collect::<io::Result<Vec<_>>>().map(drop)
}

/// Two for epoll, one for waking, three for signals, and some to spare.
const RUNTIME_DESCRIPTORS: usize = 8;

/// One for the driver, one for files and hashes; each further queue of the device has a driver, too.
const WORKERS: usize = 2;
