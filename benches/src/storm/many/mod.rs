//! A hundred thousand connections over TUN, one of a hundred with traffic: their cost, and how long a request
//! takes.
//!
//! The clients are the kernel's sockets, from several addresses, in a private network. A process may have
//! fewer descriptors than that, so there are as many processes of clients as it takes. The
//! stack is a separate program (`tun-peer`), so that its memory and its processor time can be read. A
//! connection counts as open once it has carried a request and its answer: both ends know of it then.

mod clients;

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ackclock_tests::netns::{ip, raise_descriptor_limit};
use anyhow::{Context as _, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::clients::Clients;
use self::clients::Step;
use crate::over_tun::{CpuTime, DEVICE, Ground, Program, Running, Settings};

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Many {
    /// Connections at once.
    pub connections: usize,
    /// Of these, those with traffic.
    pub busy: usize,
    /// Requests a second, of all of these together.
    pub rate: f64,
    /// The length of the traffic.
    pub length: Duration,
    /// Connections that are being opened at one time.
    pub at_once: usize,
}

/// The result of a run. Processor time is in fractions of one processor unless stated otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct ManyResult {
    /// Connections asked for, and open at the end.
    connections: usize,
    open: usize,
    /// Failed attempts to open one; each was repeated.
    failed: usize,
    /// Seconds until all were open.
    open_seconds: f64,
    /// Microseconds of processor time per connection opened: the stack's, and the clients' with the kernel's
    /// TCP.
    open_cpu: f64,
    open_cpu_client: f64,
    /// Resident bytes of the stack's process per connection, after all have rested.
    resident: f64,
    /// The stack's while all are idle.
    idle_cpu: f64,
    /// Connections with traffic, and their requests a second.
    busy: usize,
    rate: f64,
    /// The stack's and the clients' during traffic.
    busy_cpu: f64,
    busy_cpu_client: f64,
    /// Milliseconds from the time when a request is due to the last byte of its answer.
    p50: f64,
    p99: f64,
    p999: f64,
    worst: f64,
    /// Requests without an answer.
    unanswered: usize,
}

impl Many {
    /// Runs it. The programs are in the folder `programs`; this process must have one thread.
    ///
    /// # Errors
    /// The right to make a network is missing, or connections cannot be opened.
    pub fn run(&self, programs: impl Into<PathBuf>) -> anyhow::Result<ManyResult> {
        ensure!(
            self.connections > 0 && self.busy > 0 && self.busy <= self.connections,
            "no connection has traffic"
        );
        let programs = programs.into();
        let shares = self.shares(raise_descriptor_limit()?)?;
        let ground = Ground::prepare(&programs)?;
        // The buffer of each connection's task is the program's own, not the stack's.
        let running = ground.start_with(Program::Ackclock(Settings::default()), true, &["--chunk", "256"])?;
        for source in shares.iter().flat_map(Clients::sources) {
            ip(&format!("addr add {source}/32 dev {DEVICE}"));
        }
        let mut clients = Processes::start(&programs.join("storm"), &shares)?;
        self.measure(&running, &mut clients)
    }

    /// The shares of as many processes as it takes if each may have `descriptors`. Each has connections with
    /// traffic.
    fn shares(&self, descriptors: u64) -> anyhow::Result<Vec<Clients>> {
        let each = usize::try_from(descriptors).unwrap_or(usize::MAX).saturating_sub(RESERVED);
        ensure!(each > 0, "{descriptors} descriptors are too few: ulimit -n 1024");
        let processes = self.connections.div_ceil(each);
        ensure!(
            processes <= self.busy,
            "{processes} processes have {} connections with traffic: raise ulimit -n or --busy-percent",
            self.busy
        );
        let part =
            |whole: usize, number: usize| whole * (number + 1) / processes - whole * number / processes;
        let mut first_source = 0;
        let share = |number| {
            let busy = part(self.busy, number);
            let clients = Clients {
                connections: part(self.connections, number),
                busy,
                rate: self.rate * busy as f64 / self.busy as f64,
                secs: self.length.as_secs_f64(),
                at_once: self.at_once.div_ceil(processes),
                first_source,
            };
            first_source += clients.sources().count();
            clients
        };
        Ok((0..processes).map(share).collect())
    }

    fn measure(&self, running: &Running, clients: &mut Processes) -> anyhow::Result<ManyResult> {
        clients.ask::<()>(Step::Await)?;
        let before = running.resident()?;
        let opening = Usage::begin(running, clients)?;
        let failed = clients.ask::<usize>(Step::Open)?.iter().sum();
        let opened = opening.end(running, clients)?;
        sleep(REST);
        let resident = running.resident()?.saturating_sub(before) as f64 / self.connections as f64;
        let resting = Usage::begin(running, clients)?;
        sleep(REST);
        let rested = resting.end(running, clients)?;

        let working = Usage::begin(running, clients)?;
        let mut took: Vec<Option<Duration>> = clients.ask::<Vec<_>>(Step::Request)?.concat();
        let worked = working.end(running, clients)?;
        let unanswered = took.iter().filter(|took| took.is_none()).count();
        let requests = took.len();
        took.sort_unstable_by_key(|took| took.unwrap_or(Duration::MAX));
        let at = |share: f64| {
            let took = took.get(((requests - 1) as f64 * share) as usize).copied().flatten();
            took.map_or(f64::INFINITY, |took| took.as_secs_f64() * 1e3)
        };
        let each = 1e6 / self.connections as f64;
        Ok(ManyResult {
            connections: self.connections,
            open: clients.ask::<usize>(Step::Count)?.iter().sum(),
            failed,
            open_seconds: opened.seconds,
            open_cpu: opened.program * each,
            open_cpu_client: opened.client * each,
            resident,
            idle_cpu: rested.program / rested.seconds,
            busy: self.busy,
            rate: requests as f64 / worked.seconds,
            busy_cpu: worked.program / worked.seconds,
            busy_cpu_client: worked.client / worked.seconds,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            worst: at(1.0),
            unanswered,
        })
    }
}

/// The processes of clients. Each ends with its standard input, so none outlives this value.
struct Processes(Vec<Process>);

struct Process {
    child: Child,
    steps: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Processes {
    fn start(program: &Path, shares: &[Clients]) -> anyhow::Result<Self> {
        shares.iter().map(|share| Process::start(program, share)).collect::<anyhow::Result<_>>().map(Self)
    }

    /// Has all of them take a step at the same time. Returns their answers.
    fn ask<T: DeserializeOwned>(&mut self, step: Step) -> anyhow::Result<Vec<T>> {
        let line = serde_json::to_string(&step)?;
        for process in &mut self.0 {
            writeln!(process.steps, "{line}").context("a process of clients has ended")?;
        }
        self.0.iter_mut().map(Process::answer).collect()
    }

    fn cpu_time(&self) -> io::Result<Vec<CpuTime>> {
        self.0.iter().map(|process| CpuTime::of(process.child.id())).collect()
    }
}

impl Process {
    fn start(program: &Path, share: &Clients) -> anyhow::Result<Self> {
        let Clients { connections, busy, rate, secs, at_once, first_source } = share;
        let options = format!(
            "clients --connections {connections} --busy {busy} --rate {rate} --secs {secs} --at-once \
             {at_once} --first-source {first_source}"
        );
        let mut child = Command::new(program)
            .args(options.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let steps = child.stdin.take().context("its input is a pipe")?;
        let answers = BufReader::new(child.stdout.take().context("its output is a pipe")?);
        Ok(Self { child, steps, answers })
    }

    fn answer<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        ensure!(self.answers.read_line(&mut line)? > 0, "a process of clients has failed: see above");
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time and the clock.
struct Usage {
    began: Instant,
    program: CpuTime,
    clients: Vec<CpuTime>,
}

/// The difference of two readings, with its length in seconds.
struct Used {
    seconds: f64,
    program: f64,
    client: f64,
}

impl Usage {
    fn begin(running: &Running, clients: &Processes) -> io::Result<Self> {
        Ok(Self { began: Instant::now(), program: running.cpu_time()?, clients: clients.cpu_time()? })
    }

    fn end(self, running: &Running, clients: &Processes) -> io::Result<Used> {
        let now = Self::begin(running, clients)?;
        Ok(Used {
            seconds: (now.began - self.began).as_secs_f64(),
            program: now.program.since(self.program).total(),
            client: now.clients.iter().zip(self.clients).map(|(now, then)| now.since(then).total()).sum(),
        })
    }
}

/// Descriptors of a process that are not connections.
const RESERVED: usize = 100;
/// After this, unused buffers have been given back, and the load of a program at rest shows.
const REST: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_all_of_it_and_no_process_has_too_many() {
        let many = Many { connections: 100_000, busy: 1_000, rate: 5_000.0, length: REST, at_once: 200 };
        for (descriptors, processes, sources) in [(20_000, 6, 6), (1_048_576, 1, 4), (60_100, 2, 4)] {
            let shares = many.shares(descriptors).unwrap();
            assert_eq!(shares.len(), processes);
            assert_eq!(shares.iter().map(|share| share.connections).sum::<usize>(), many.connections);
            assert_eq!(shares.iter().map(|share| share.busy).sum::<usize>(), many.busy);
            assert!((shares.iter().map(|share| share.rate).sum::<f64>() - many.rate).abs() < 1e-6);
            assert!(shares.iter().all(|share| share.connections + RESERVED <= descriptors as usize));
            let all: std::collections::BTreeSet<_> = shares.iter().flat_map(Clients::sources).collect();
            assert_eq!(all.len(), sources);
            assert_eq!(shares.iter().flat_map(Clients::sources).count(), sources);
        }
        assert!(many.shares(100).is_err());
        assert!(many.shares(150).is_err(), "2,000 processes, and 1,000 connections with traffic");
    }
}
