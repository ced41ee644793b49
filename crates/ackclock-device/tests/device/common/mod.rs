//! Network namespaces, devices and hand-made packets for the tests against the kernel.

pub mod packets;

use std::env;
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

use ackclock_device::{Device, OffloadMode, ReceiveBatch, configure, open};
use ackclock_wire::{RxMeta, TxPacket};

/// Runs `body` on a thread with a private network namespace and a tokio runtime. The namespace and everything
/// in it end with the thread, however that ends.
///
/// If that takes a user namespace, which a thread cannot enter, the test program runs itself again inside
/// one, for this test only. If neither is possible, or there is no TUN, prints so.
#[expect(unsafe_code, reason = "unshare")]
pub fn in_namespace<F: Future<Output = ()>>(body: impl FnOnce() -> F + Send + 'static) {
    if let Err(why) = tun_usable() {
        return skip(&why);
    }
    let thread = std::thread::spawn(move || -> io::Result<()> {
        // SAFETY: unshare(2) takes an integer; the new network namespace concerns this thread only.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime
            .block_on(async { tokio::time::timeout(TEST_TIME_MAX, body()).await.expect("the test hangs") });
        Ok(())
    });
    match thread.join() {
        Ok(Ok(())) => {}
        Ok(Err(error)) if error.raw_os_error() == Some(libc::EPERM) && env::var_os(INSIDE).is_none() => {
            in_user_namespace();
        }
        Ok(Err(error)) => skip(&format!("no network namespace can be made: {error}")),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn in_user_namespace() {
    // The test harness names a test's thread after the test.
    let thread = std::thread::current();
    let test = thread.name().expect("a test's thread has a name");
    let program = env::current_exe().expect("the path of this program");
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) if status.code() == Some(1) => {
            skip(&format!("no user namespace can be made: {status}"));
        }
        Ok(status) => panic!("inside a user namespace: {status}"),
        Err(error) => skip(&format!("unshare cannot be run: {error}")),
    }
}

/// Prints that a test is skipped and why, or fails where it must run.
fn skip(why: &str) {
    assert!(env::var_os("CI").is_none(), "no test may be skipped here: {why}");
    // Not `eprintln!`: the test harness hides that when a test passes.
    writeln!(io::stderr(), "skipped: {why}").expect("standard error is open");
}

fn tun_usable() -> Result<(), String> {
    let tun = std::fs::File::options().read(true).write(true).open("/dev/net/tun");
    tun.map(drop).map_err(|error| format!("/dev/net/tun: {error}"))
}

/// Opens `tun0` with the kernel's end at 10.9.0.1/24 and fd09::1/64, up.
pub fn open_configured(mode: OffloadMode) -> Box<dyn Device> {
    let (device, fell_back) = open(NAME, mode).expect("the device opens");
    assert_eq!(fell_back, None);
    configure::configure(NAME).address("10.9.0.1/24".parse().unwrap()).apply().expect("it is configured");
    configure::add_address(NAME, "fd09::1/64".parse().unwrap(), None).expect("it has an IPv6 address");
    // The kernel inserts the local route of an IPv6 address from a work queue, after it has acknowledged the
    // address.
    let is_local = || {
        let output =
            Command::new("ip").args(["-6", "route", "get", "fd09::1"]).output().expect("ip can be run");
        output.stdout.starts_with(b"local ")
    };
    assert!((0..500).any(|_| is_local()), "the IPv6 address never becomes local");
    device
}

/// Receives until `wanted` returns something for a packet. Others (the kernel's multicast) are skipped.
pub async fn receive<T>(device: &mut dyn Device, mut wanted: impl FnMut(&[u8], RxMeta) -> Option<T>) -> T {
    let mut batch = ReceiveBatch::new(1, 0);
    loop {
        batch.clear();
        let received = poll_fn(|cx| device.poll_receive(cx, &mut batch)).await.expect("the device receives");
        assert_eq!(received, batch.len());
        if let Some(found) = batch.iter().find_map(|(bytes, meta)| wanted(bytes, meta)) {
            return found;
        }
    }
}

/// Sends a finished packet.
pub async fn send(device: &mut dyn Device, bytes: &[u8]) {
    let packet = TxPacket::complete(bytes);
    poll_fn(|cx| device.poll_send_ready(cx)).await.expect("the device is ready to send");
    device.send(&packet).expect("the packet is sent");
}

/// Runs `ip` in the namespace of the calling thread.
pub fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip can be run");
    assert!(status.success(), "ip {arguments}");
}

/// The name of the device. Each test has its own namespace.
pub const NAME: &str = "tun0";

/// Set inside the user namespace.
const INSIDE: &str = "ACKCLOCK_TEST_INSIDE_NAMESPACE";

/// Every test takes at most a second or two.
const TEST_TIME_MAX: Duration = Duration::from_secs(30);
