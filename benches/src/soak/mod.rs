//! Everything at once for a long time, and a look at what is left.
//!
//! The stack is on a TUN device. The kernel's TCP and UDP at the other end call it and are called by it
//! (`work`), while a flood arrives and the link goes down and comes back. After a first stretch, whose memory
//! is not a leak but what tables and runtimes keep, everything is brought to rest and measured ([`Left`]);
//! the same happens after the long stretch. Memory that has grown between the two has leaked.

mod host;
mod work;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ackclock_tests::netns::{Namespace, raise_descriptor_limit};
use serde::Serialize;

use self::host::Host;
use crate::over_tun::{CpuTime, resident};
use crate::storm::flood::{Flood, Volley};
use crate::sys;

/// A soak.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// Of the long stretch.
    pub length: Duration,
    /// Seed of the random choices.
    pub seed: u64,
}

/// The result of a soak.
#[derive(Clone, Debug, Serialize)]
pub struct SoakReport {
    /// Counts of each action.
    pub done: BTreeMap<&'static str, u64>,
    /// At rest, before the long stretch and after it.
    pub before: Left,
    /// See `before`.
    pub after: Left,
    /// Why the soak fails; empty if it does not.
    pub failures: Vec<String>,
}

/// Resources in use when everything is at rest.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Left {
    /// Bytes that the allocator has handed out.
    pub heap: usize,
    /// Bytes resident.
    pub resident: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Tasks of the stack's runtime.
    pub tasks: usize,
    /// Connections of the stack, listeners and UDP sockets.
    pub connections: usize,
    /// See `connections`.
    pub sockets: usize,
    /// Bytes of the memory budget in use.
    pub memory_used: usize,
    /// Processor time within two seconds, in milliseconds: a timer that fires for nothing takes some.
    pub idle_cpu: f64,
    /// Packets sent within two seconds.
    pub idle_packets: u64,
}

/// Counts of actions, and failures.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    over: AtomicBool,
    done: Mutex<BTreeMap<&'static str, u64>>,
    failures: Mutex<Vec<String>>,
}

impl Tally {
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    pub(crate) fn count(&self, what: &'static str) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
    }

    pub(crate) fn fail(&self, why: String) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < FAILURES_MAX {
            failures.push(why);
        }
    }
}

impl Soak {
    /// Runs it. Needs the right to make network namespaces.
    ///
    /// # Errors
    /// The kernel refuses a namespace, a device or a raw socket.
    pub fn run(&self) -> io::Result<SoakReport> {
        raise_descriptor_limit()?;
        let outside = Namespace::new()?;
        outside.sysctl("net/ipv6/conf/default/disable_ipv6", "1");
        outside.sysctl("net/ipv4/conf/all/rp_filter", "0");
        outside.sysctl("net/ipv4/tcp_max_tw_buckets", "64");
        let host = Host::start(&outside)?;
        let mut failures = Vec::new();
        self.stretch(&outside, &host, WARM_UP, &mut failures)?;
        let before = self.at_rest(&host)?;
        let done = self.stretch(&outside, &host, self.length, &mut failures)?;
        let after = self.at_rest(&host)?;
        failures.extend(before.leaked(&after));
        failures
            .extend(NEEDED.iter().filter(|what| !done.contains_key(*what)).map(|what| format!("no {what}")));
        Ok(SoakReport { done, before, after, failures })
    }

    /// Works for this long, and waits until the last worker has ended.
    fn stretch(
        &self,
        outside: &Namespace,
        host: &Host,
        length: Duration,
        failures: &mut Vec<String>,
    ) -> io::Result<BTreeMap<&'static str, u64>> {
        let tally = Arc::new(Tally::default());
        let floods = [Flood::Syn, Flood::Ack, Flood::Rst, Flood::Icmp];
        let volleys = outside.run(async move {
            floods
                .iter()
                .map(|flood| flood.prepare(&host::TARGET, 10_000))
                .collect::<io::Result<Vec<Volley>>>()
        })?;
        let floods: Vec<_> = volleys
            .into_iter()
            .map(|volley| {
                let tally = Arc::clone(&tally);
                // A thread is born in the namespace of the one that makes it.
                outside.run(async move { thread::spawn(move || volley.send(FLOOD_RATE, &tally.over)) })
            })
            .collect();
        let working = work::start(outside, host, &tally, self.seed);
        let until = Instant::now() + length;
        while Instant::now() < until {
            thread::sleep(FLAP_EVERY.min(until.saturating_duration_since(Instant::now())));
            outside.ip(&format!("link set {} down", host::DEVICE));
            thread::sleep(Duration::from_millis(100));
            outside.ip(&format!("link set {} up", host::DEVICE));
            tally.count("link flap");
        }
        tally.over.store(true, Relaxed);
        working.join(&tally);
        for flood in floods {
            flood.join().expect("no panic")?;
        }
        failures.append(&mut tally.failures.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(std::mem::take(&mut *tally.done.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Waits until TIME-WAIT and half-open records have expired, and measures.
    fn at_rest(&self, host: &Host) -> io::Result<Left> {
        thread::sleep(SETTLE);
        let id = std::process::id();
        let (cpu, sent) = (CpuTime::of(id)?, host.stack.counters().packets_sent);
        thread::sleep(IDLE);
        let idle_cpu = CpuTime::of(id)?.since(cpu).total() * 1e3;
        let idle_packets = host.stack.counters().packets_sent - sent;
        let info = host.stack.info();
        Ok(Left {
            heap: sys::heap(),
            resident: resident(id)?,
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            tasks: host.tasks(),
            connections: info.connections,
            sockets: info.listeners + info.udp_sockets,
            memory_used: info.memory_used,
            idle_cpu,
            idle_packets,
        })
    }
}

impl Left {
    /// The resources that `after` should not have.
    fn leaked(&self, after: &Self) -> Vec<String> {
        let same = [
            ("descriptors", self.descriptors, after.descriptors),
            ("tasks", self.tasks, after.tasks),
            ("connections", 0, after.connections),
            ("listeners and sockets", self.sockets, after.sockets),
            ("bytes of the memory budget", 0, after.memory_used),
            ("packets from a stack at rest", 0, after.idle_packets as usize),
        ];
        let mut leaked: Vec<_> = same
            .iter()
            .filter(|(_, before, after)| before != after)
            .map(|(what, before, after)| format!("{after} {what}, and {before} before"))
            .collect();
        let grown = [
            ("heap", self.heap, after.heap, HEAP_GROWTH_MAX),
            ("resident memory", self.resident as usize, after.resident as usize, RESIDENT_GROWTH_MAX),
        ];
        for (what, before, after, most) in grown {
            if after > before + most {
                leaked.push(format!("{} bytes more {what}, of {before}", after - before));
            }
        }
        if after.idle_cpu > IDLE_CPU_MAX {
            leaked.push(format!("{} ms of processor time within {IDLE:?} at rest", after.idle_cpu));
        }
        leaked
    }
}

/// The actions that a soak must take at least once.
const NEEDED: [&str; 11] = [
    "transfer to the stack",
    "transfer from the stack",
    "short connection to the stack",
    "short connection from the stack",
    "reset",
    "reader that stops",
    "refused by the stack",
    "refused by the kernel",
    "dropped future",
    "datagram answered",
    "link flap",
];
/// Length of the first stretch: longer than TIME-WAIT, so that its tables are as large as they will be.
const WARM_UP: Duration = Duration::from_secs(75);
/// TIME-WAIT lasts a minute, a half-open record 63 seconds, a connection whose peer is gone 40.
const SETTLE: Duration = Duration::from_secs(72);
const IDLE: Duration = Duration::from_secs(2);
const FLAP_EVERY: Duration = Duration::from_secs(5);
/// Packets a second of each flood.
const FLOOD_RATE: u32 = 500;
const FAILURES_MAX: usize = 20;
/// The growth that the allocator's own lists and the capacity of tables may add.
const HEAP_GROWTH_MAX: usize = 1 << 20;
const RESIDENT_GROWTH_MAX: usize = 8 << 20;
/// In milliseconds; the kernel counts in steps of ten.
const IDLE_CPU_MAX: f64 = 40.0;
