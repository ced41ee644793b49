//! `tcpcat`: transfers over a TCP in user space.
//!
//! `args` understands the command line, `session` runs what it asks for on a `host`, `exit` says how it ended.

#![forbid(unsafe_code)]

#[macro_use]
mod say;

mod args;
mod bench;
mod demo;
mod device;
mod doctor;
mod exit;
mod host;
mod interrupt;
mod manual;
mod net;
mod observe;
mod profiles;
mod session;
mod trace;
mod transfer;
mod units;

use std::ffi::OsString;
use std::process::ExitCode;

use args::Invocation;
use exit::{Exit, Failure};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let invocation = match args::parse(&words) {
        Ok(invocation) => invocation,
        Err(error) => {
            // Help and the version are asked for, not wrong.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            say::note(error.print());
            return ExitCode::from(say::end(exit).code());
        }
    };
    ExitCode::from(say::end(run(invocation)).code())
}

fn run(invocation: Invocation) -> Exit {
    // A demonstration moves into namespaces of its own, which a process can do only before it has threads.
    let ground = match &invocation {
        Invocation::Demo(args) => Some(demo::prepare(args)),
        Invocation::Doctor(args) if args.probe_namespaces => return doctor::probe_namespaces(),
        _ => None,
    };
    let workers = WORKERS + invocation.queues() - 1;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            say!("tcpcat: {}", Failure::new(Exit::Failed, format!("no threads can be started: {error}")));
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
            Invocation::Profiles(args) => profiles::run(&args),
            Invocation::Man(args) => manual::run_man(&args::command(), &args),
            Invocation::Completions(args) => manual::run_completions(args::command(), &args),
        }
    });
    // A thread may still be reading stdin, which nothing can interrupt.
    runtime.shutdown_background();
    exit
}

/// One for the driver, one for files and hashes; each further queue of the device has a driver, too.
const WORKERS: usize = 2;
