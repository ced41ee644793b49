//! Captures of real transfers over TUN, at both ends of a path that delays and loses, through `tcplab rto`
//! and `tcplab ssthresh`.
//!
//! The stack captures its own end, tcpdump the kernel's, in two formats. The impaired path is between them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ackclock::TcpConfig;
use ackclock_control::congestion::Registry;
use ackclock_control::profile::Profile;
use ackclock_device::OffloadMode;
use ackclock_device::capture::Captured;
use ackclock_device::impair::{Impaired, Settings};
use ackclock_tests::kernel::program::{Program, eventually, have};
use ackclock_tests::kernel::scene::{Family, TUN, open_tun, stack_on, within};
use ackclock_tests::kernel::transfer;
use ackclock_tests::netns::in_namespace;
use tokio::task::spawn_blocking;

use crate::{Ended, Scratch, run};

#[test]
fn real_transfers_in_both_directions_are_assessed_from_both_ends() {
    if !have("tcpdump") {
        return;
    }
    in_namespace(|| async {
        let folder = Scratch::new();
        let files = ["stack.pcapng", "kernel.pcap"].map(|name| folder.text(name));
        let lost = transfers(files[0].as_ref(), files[1].as_ref()).await;
        let said = spawn_blocking(move || {
            let of = |command| assessed(command, &files, &folder.text(command));
            (of("rto"), of("ssthresh"))
        });
        let (rto, ssthresh) = said.await.unwrap();
        check_rto(&rto, lost);
        check_ssthresh(&ssthresh);
    });
}

/// Sends to the kernel and receives from it, with both ends captured. Returns how many packets were lost.
async fn transfers(stack_file: &Path, kernel_file: &Path) -> u64 {
    let device = open_tun(OffloadMode::Off);
    let tcpdump = Program::start(
        "tcpdump",
        &["-U", "--immediate-mode", "-s", "128", "-i", TUN, "-w", &kernel_file.to_string_lossy()],
        Vec::new(),
    );
    // It has opened the interface once its file has a header.
    eventually(|| async { has_bytes(kernel_file, 24) }).await;
    let settings = Settings { loss: 0.03, delay: Duration::from_millis(10), ..Settings::default() };
    let impaired = Impaired::new(device, SEED, settings, settings).expect("valid settings");
    let network = impaired.handle();
    let captured = Captured::create(impaired, TUN, stack_file).unwrap();
    let mut tcp = TcpConfig::default();
    let profile = Profile::find("reno-1990").expect("there is one");
    tcp.apply(&profile, &Registry::builtin()).expect("its controller is built in");
    let stack = stack_on(captured, tcp);

    let addr = Family::V4.kernel(1000);
    drop(within(LIMIT, &stack, transfer::to_the_kernel(addr, stack.connect(addr), BYTES, 1)).await);
    let addr = Family::V4.stack(2000);
    let listener = stack.listen(addr).unwrap();
    drop(within(LIMIT, &stack, transfer::from_the_kernel(&listener, addr, BYTES, 2)).await);
    stack.shutdown().await;
    drop(listener);
    drop(stack);
    // tcpdump's file is complete when it no longer grows.
    let mut len = 0;
    eventually(|| {
        let before = std::mem::replace(&mut len, fs::metadata(kernel_file).map_or(0, |file| file.len()));
        let grew = len != before;
        async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if grew { Err(std::io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        }
    })
    .await;
    drop(tcpdump);
    network.statistics_sent().lost + network.statistics_received().lost
}

fn has_bytes(path: &Path, bytes: u64) -> std::io::Result<()> {
    let len = fs::metadata(path)?.len();
    if len >= bytes { Ok(()) } else { Err(std::io::ErrorKind::WouldBlock.into()) }
}

/// The output of `tcplab COMMAND` for these captures, on standard error and as JSON.
fn assessed(command: &str, files: &[String; 2], json: &str) -> (String, String) {
    let Ended { code, err, .. } = run(&[command, &files[0], &files[1], "--json", json]);
    assert_eq!(code, Some(0), "tcplab {command}: {err}");
    (err, fs::read_to_string(json).unwrap())
}

fn check_rto((said, json): &(String, String), lost: u64) {
    assert!(lost > 10, "{lost} packets lost");
    assert!(said.contains("connections assessed: 2, of them from both ends: 2"), "{said}");
    assert!(json.contains("\"both_sides\": 2") && json.contains("\"left_out\": {}"), "{said}");
    // Each of the two connections lost some of its data.
    let repaired: Vec<u64> = numbers(json, "\"retransmissions\": ");
    assert!(repaired.len() == 2 && repaired.iter().all(|&count| count > 0), "{repaired:?}");
    let smallest: Vec<f64> = values(json, "\"rtt_min_seconds\": ");
    // Delays are kept to a tenth of a millisecond each, and a capture stamps a packet some microseconds after
    // it left.
    assert!(smallest.iter().all(|rtt| (0.0198..0.2).contains(rtt)), "{smallest:?}: two delays of 10 ms");
}

fn check_ssthresh((said, json): &(String, String)) {
    assert!(said.contains("of them from both ends: "), "{said}");
    let points: Vec<u64> = numbers(json, "\"loss_point\": ");
    assert!(!points.is_empty() && points.iter().all(|&point| point > 0), "{points:?}\n{said}");
}

fn numbers(json: &str, key: &str) -> Vec<u64> {
    values(json, key)
}

/// The values that follow a key.
fn values<T: std::str::FromStr>(json: &str, key: &str) -> Vec<T> {
    let behind = json.split(key).skip(1).map(|rest| rest.split([',', '\n']).next().unwrap_or_default());
    behind.filter_map(|value| value.trim().parse().ok()).collect()
}

const BYTES: u64 = 400_000;
const SEED: u64 = 1999;
const LIMIT: Duration = Duration::from_secs(120);
