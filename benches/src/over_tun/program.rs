//! The private network, and a program in it.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ackclock_device::configure::Cidr;
use ackclock_device::{configure, netns};
use ackclock_tests::netns::ip;
use anyhow::Context as _;

use super::{DEVICE, KERNEL, OWN};

/// A private network of this process, in which the programs run; it ends with the process.
#[derive(Debug)]
pub struct Ground {
    programs: PathBuf,
}

/// A program that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The responder without a TCP's work.
    Null,
    /// This stack.
    Ackclock(Settings),
    /// The kernel's TCP, in its own network namespace behind a veth pair.
    Kernel,
}

/// Options of `tun-peer`; `None`: its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of its buffers.
    pub buffer: Option<usize>,
    /// Microseconds for which it polls busily.
    pub busy_poll: Option<u64>,
    /// Queues of its device.
    pub queues: Option<usize>,
    /// Whether it sends and receives by slices.
    pub zerocopy: bool,
}

/// A running program, which ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

/// Processor time of a process, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

impl Ground {
    /// Moves this process, which must have one thread, into a private network. The programs are in the folder
    /// `programs`.
    ///
    /// # Errors
    /// TUN or the right to make a network is missing: the message says which.
    pub fn prepare(programs: impl Into<PathBuf>) -> anyhow::Result<Self> {
        fs::File::options()
            .read(true)
            .write(true)
            .open(TUN)
            .with_context(|| format!("{TUN} cannot be used"))?;
        netns::enter_private()?;
        for (name, value) in SETTINGS {
            let path = format!("/proc/sys/net/{name}");
            // Outside the first user namespace some of them cannot be set; the measurement then uses the
            // kernel's defaults.
            if let Err(error) = fs::write(&path, value) {
                eprintln!("{path} stays as it is: {error}");
            }
        }
        Ok(Self { programs: programs.into() })
    }

    /// Starts a program and waits until it has its device.
    ///
    /// # Errors
    /// It cannot be started, or makes no device.
    pub fn start(&self, program: Program, offload: bool) -> anyhow::Result<Running> {
        self.start_with(program, offload, &[])
    }

    /// Starts a program as [`start`](Self::start) does, with more options.
    ///
    /// # Errors
    /// As those of [`start`](Self::start).
    pub fn start_with(&self, program: Program, offload: bool, options: &[&str]) -> anyhow::Result<Running> {
        let (name, mut arguments) = program.command(offload);
        arguments.extend(options.iter().copied().map(str::to_owned));
        let mut running = Running::spawn(&self.programs.join(name), &arguments)?;
        if program == Program::Kernel {
            running.join_kernel()?;
        }
        running.await_device()?;
        Ok(running)
    }

    /// Starts another stack's program, given its path and arguments, that serves what `tun-peer` serves.
    /// Dropping the result kills it.
    ///
    /// # Errors
    /// As those of [`start`](Self::start).
    pub fn start_other(&self, command: &[String]) -> anyhow::Result<Running> {
        let (path, arguments) = command.split_first().context("a command begins with a program")?;
        let mut running = Running::spawn(Path::new(path), arguments)?;
        running.await_device()?;
        Ok(running)
    }
}

impl Program {
    fn command(self, offload: bool) -> (&'static str, Vec<String>) {
        let mut arguments = vec!["--until-eof".to_owned()];
        if offload {
            arguments.push("--offload".to_owned());
        }
        let Settings { buffer, busy_poll, queues, zerocopy } = match self {
            Self::Null => return ("tun-null", arguments),
            Self::Kernel => return ("tun-kernel", vec!["--until-eof".to_owned()]),
            Self::Ackclock(settings) => settings,
        };
        if zerocopy {
            arguments.push("--zerocopy".to_owned());
        }
        let numbers = [
            ("--buffer", buffer.map(|bytes| bytes as u64)),
            ("--busy-poll", busy_poll),
            ("--queues", queues.map(|queues| queues as u64)),
        ];
        for (name, value) in numbers {
            arguments.extend(value.into_iter().flat_map(|value| [name.to_owned(), value.to_string()]));
        }
        ("tun-peer", arguments)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { buffer, busy_poll, queues, zerocopy } = match self {
            Self::Null => return f.write_str("null"),
            Self::Kernel => return f.write_str("kernel"),
            Self::Ackclock(settings) => settings,
        };
        f.write_str("ackclock")?;
        if let Some(bytes) = buffer {
            write!(f, ", {} KiB", bytes >> 10)?;
        }
        if let Some(micros) = busy_poll {
            write!(f, ", busy-poll {micros}")?;
        }
        if let Some(queues) = queues {
            write!(f, ", {queues} queues")?;
        }
        f.write_str(if *zerocopy { ", zero copy" } else { "" })
    }
}

impl Running {
    fn spawn(path: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("{} cannot be started", path.display()))?;
        Ok(Self { child })
    }

    /// Joins this network with the program's, once it has one.
    fn join_kernel(&self) -> anyhow::Result<()> {
        let network = |id: &str| fs::read_link(format!("/proc/{id}/ns/net"));
        let (own, id) = (network("self")?, self.child.id().to_string());
        let deadline = Instant::now() + PATIENCE;
        while network(&id)? == own {
            anyhow::ensure!(Instant::now() < deadline, "the program makes no network of its own");
            thread::sleep(Duration::from_millis(1));
        }
        ip(&format!("link add {DEVICE} type veth peer name {DEVICE} netns {id}"));
        configure::configure(DEVICE).address(Cidr::new(KERNEL, 24)?).apply()?;
        Ok(())
    }

    /// Waits until the kernel has a route over the program's device. The route uses CUBIC, and the device's
    /// queue holds enough to lose nothing.
    fn await_device(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match configure::add_controlled_route(DEVICE, Cidr::new(OWN, 32)?, CONTROLLER) {
                Ok(()) => {
                    ip(&format!("link set {DEVICE} txqueuelen {QUEUE}"));
                    return Ok(());
                }
                Err(error) if Instant::now() > deadline => return Err(error.into()),
                Err(_) => {}
            }
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("the program ended at once: {status}");
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its processor time so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn cpu_time(&self) -> io::Result<CpuTime> {
        CpuTime::of(self.child.id())
    }

    /// Its resident memory in bytes.
    ///
    /// # Errors
    /// It has ended.
    pub fn resident(&self) -> io::Result<u64> {
        resident(self.child.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The device goes a moment after its descriptor, and the next program wants its name.
        let deadline = Instant::now() + PATIENCE;
        while Path::new("/sys/class/net").join(DEVICE).exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The resident memory of the process `id` in bytes: proc_pid_status(5).
///
/// # Errors
/// The process does not exist.
pub fn resident(id: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status"))?;
    let kib = |line: &str| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok();
    let found = status.lines().find_map(kib).map(|kib| kib << 10);
    found.ok_or_else(|| io::Error::other(format!("/proc/{id}/status has no VmRSS")))
}

impl CpuTime {
    /// The processor time of the process `id`: proc_pid_stat(5), whose ticks are a hundredth of a second.
    ///
    /// # Errors
    /// The process does not exist.
    pub fn of(id: u32) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{id}/stat"))?;
        // The name in front of it may contain spaces.
        let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
        let ticks = |at: usize| behind.split_whitespace().nth(at)?.parse().ok();
        let seconds = |at| ticks(at).unwrap_or(0.0_f64) / 100.0;
        Ok(Self { user: seconds(11), system: seconds(12) })
    }

    /// The increase since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self { user: self.user - before.user, system: self.system - before.system }
    }

    /// Both together.
    #[must_use]
    pub fn total(self) -> f64 {
        self.user + self.system
    }
}

const TUN: &str = "/dev/net/tun";
/// Every program starts within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Packets that can wait in front of the device: as many as the kernel's send buffer holds. A program that
/// does not run for a moment then loses none; the responder of the ceiling has no reassembly.
const QUEUE: u32 = 25_000;
/// The kernel's congestion control towards the program.
const CONTROLLER: &str = "cubic";
/// Settings of the kernel's TCP: room for long windows, no metrics kept from earlier connections, and no
/// ports kept by closed ones.
const SETTINGS: [(&str, &str); 6] = [
    ("ipv4/tcp_rmem", "4096 131072 33554432"),
    ("ipv4/tcp_wmem", "4096 16384 33554432"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/ip_local_port_range", "1024 65535"),
    ("ipv4/tcp_max_tw_buckets", "64"),
    ("ipv6/conf/default/disable_ipv6", "1"),
];
