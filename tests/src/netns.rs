//! Network namespaces that a test makes, and that end with it.
//!
//! A [`Namespace`] has no name: the threads of its own tokio runtime and one descriptor hold it, and the
//! kernel deletes it, with every interface in it, when the last of these is gone, however the test ended.
//! Sockets of `tokio::net` opened on that runtime are the kernel's TCP inside the namespace, and so are
//! programs started from it.

use std::fs::File;
use std::future::Future;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::panic::resume_unwind;
use std::process::Command;
use std::time::Duration;
use std::{env, thread};

use tokio::runtime::{Builder, Runtime};

/// A network namespace and a runtime whose threads are in it. Its loopback interface is up.
#[derive(Debug)]
pub struct Namespace {
    /// Only `drop` takes it.
    runtime: Option<Runtime>,
    net: File,
}

/// Runs a test in a private namespace.
///
/// Where namespaces or TUN devices are not available, writes `skipped: why` to standard error and returns;
/// with the environment variable `CI` or `ACKCLOCK_REQUIRE_NETNS` set, fails instead. Without privileges, but
/// where a user may have a user namespace, the test program runs itself once more inside one, for this test
/// alone.
pub fn in_namespace<F>(test: impl FnOnce() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    in_namespaces(|[home]: [Namespace; 1]| {
        home.run(async move { test().await });
    });
}

/// As [`in_namespace`], with `N` namespaces that are not joined yet.
pub fn in_namespaces<const N: usize>(test: impl FnOnce([Namespace; N])) {
    if let Err(error) = tun_usable() {
        return skip(&format!("/dev/net/tun cannot be used: {error}"));
    }
    let made: io::Result<Vec<Namespace>> = (0..N).map(|_| Namespace::new()).collect();
    match made {
        Ok(made) => match made.try_into() {
            Ok(made) => test(made),
            Err(_) => unreachable!("as many were made as asked for"),
        },
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && env::var_os(INSIDE).is_none() => {
            in_user_namespace();
        }
        Err(error) => skip(&format!("no network namespace can be made: {error}")),
    }
}

/// Reports why a test does not run here, or fails where it must run.
///
/// # Panics
/// Where it must run.
pub fn skip(why: &str) {
    let required = |name| env::var(name).is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"));
    let test = current_test();
    assert!(!required("CI") && !required("ACKCLOCK_REQUIRE_NETNS"), "{test} must not be skipped here: {why}");
    // Not `eprintln!`: the test harness hides its output when a test passes.
    writeln!(io::stderr(), "skipped: {test}: {why}").expect("standard error is open");
}

impl Namespace {
    /// Makes a namespace with a loopback interface that is up.
    ///
    /// # Errors
    /// The process may not make one ([`io::ErrorKind::PermissionDenied`]), or the kernel has none.
    pub fn new() -> io::Result<Self> {
        // Threads inherit their namespace from the thread that makes them, and tokio makes its workers at
        // once.
        let maker = thread::spawn(|| -> io::Result<Self> {
            sys::unshare_net()?;
            let net = File::open("/proc/thread-self/ns/net")?;
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            Ok(Self { runtime: Some(runtime), net })
        });
        let namespace = maker.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        namespace.ip("link set lo up");
        Ok(namespace)
    }

    /// Runs `future` on a thread in the namespace and waits for it.
    ///
    /// # Panics
    /// `future` panicked, or takes longer than any test may.
    pub fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let runtime = self.runtime.as_ref().expect("the runtime lives until drop");
        let bounded = async { tokio::time::timeout(TEST_TIME_MAX, future).await.expect("the test hangs") };
        match runtime.block_on(runtime.spawn(bounded)) {
            Ok(value) => value,
            Err(error) => resume_unwind(error.into_panic()),
        }
    }

    /// The runtime whose tasks are in the namespace.
    ///
    /// # Panics
    /// Never: the runtime lives as long as the namespace.
    pub fn handle(&self) -> &tokio::runtime::Handle {
        self.runtime.as_ref().expect("the runtime lives until drop").handle()
    }

    /// Runs `ip` with these arguments, split at spaces.
    ///
    /// # Panics
    /// `ip` cannot be run or fails.
    pub fn ip(&self, arguments: &str) {
        let arguments = arguments.to_owned();
        self.run(async move { ip(&arguments) });
    }

    /// Sets a value under `/proc/sys`, which shows each thread the settings of its own namespace.
    ///
    /// # Panics
    /// The setting does not exist.
    pub fn sysctl(&self, name: &'static str, value: &'static str) {
        self.run(async move { std::fs::write(format!("/proc/sys/{name}"), value).expect(name) });
    }

    /// Joins this namespace to `other` by a cable whose ends have the given names.
    pub fn cable(&self, end: &str, other: &Self, other_end: &str) {
        self.cable_of(1, end, other, other_end);
    }

    /// As [`cable`](Self::cable), with this many queues at each end, each way.
    ///
    /// # Panics
    /// As for [`cable`](Self::cable).
    pub fn cable_of(&self, queues: usize, end: &str, other: &Self, other_end: &str) {
        let path = format!("/proc/{}/fd/{}", std::process::id(), other.net.as_raw_fd());
        let queues = format!("numtxqueues {queues} numrxqueues {queues}");
        self.ip(&format!("link add {end} {queues} type veth peer name {other_end} {queues} netns {path}"));
        self.ip(&format!("link set {end} up"));
        other.ip(&format!("link set {other_end} up"));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A test may drop it within a task, where waiting for the runtime's end is forbidden.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs `ip` in the namespace of the calling thread.
///
/// # Panics
/// `ip` cannot be run or fails.
pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip of iproute2 can be run");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Lets this process open as many descriptors as possible: up to its hard limit or, if it may raise that, up
/// to the kernel's limit for any process.
///
/// # Errors
/// The limit cannot be read.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    sys::raise_descriptor_limit()
}

/// Runs the current test again as root of a user namespace. A process with threads cannot enter one itself.
fn in_user_namespace() {
    let status = env::current_exe().and_then(|program| {
        Command::new("unshare")
            .args(["--user", "--map-root-user"])
            .arg(program)
            .args(["--exact", &current_test(), "--nocapture"])
            .env(INSIDE, "1")
            .status()
    });
    match status {
        Ok(status) if status.success() => {}
        // unshare(1) ends with 1 when it is refused; a failed test with 101.
        Ok(status) if status.code() == Some(1) => skip("neither a network nor a user namespace may be made"),
        Ok(status) => panic!("inside a user namespace: {status}"),
        Err(error) => skip(&format!("unshare of util-linux cannot be run: {error}")),
    }
}

fn tun_usable() -> io::Result<()> {
    File::options().read(true).write(true).open("/dev/net/tun").map(drop)
}

/// The test harness names a test's thread after the test.
fn current_test() -> String {
    thread::current().name().unwrap_or("a test").to_owned()
}

/// The two system calls without a safe interface.
#[expect(unsafe_code, reason = "unshare and setrlimit")]
mod sys {
    use std::io;

    pub(super) fn unshare_net() -> io::Result<()> {
        // SAFETY: unshare(2) takes an integer; CLONE_NEWNET concerns the calling thread's network alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    pub(super) fn raise_descriptor_limit() -> io::Result<u64> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a live structure of the type that getrlimit(2) fills.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let most = std::fs::read_to_string("/proc/sys/fs/nr_open")?;
        let most = most.trim().parse().map_or(limit.rlim_max, |most: u64| most.max(limit.rlim_max));
        for limit in [most, limit.rlim_max].map(|max| libc::rlimit { rlim_cur: max, rlim_max: max }) {
            // SAFETY: the pointer is to a live, filled structure that setrlimit(2) only reads.
            if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0 {
                return Ok(limit.rlim_cur);
            }
        }
        Err(io::Error::last_os_error())
    }
}

/// Set inside the user namespace.
const INSIDE: &str = "ACKCLOCK_TEST_INSIDE_NAMESPACE";

/// No test takes longer, not even on a machine that does ten other things. The longest waits for the timeouts
/// of the eighties, a hundred in a row.
const TEST_TIME_MAX: Duration = Duration::from_secs(600);
