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
use ackclock_device::impair::{Impaired, Settings, Share};
use ackclock_tests::kernel::program::{Program, eventually, have};
use ackclock_tests::kernel::scene::{Family, TUN, open_tun, stack_on, within};
use ackclock_tests::kernel::transfer;
use ackclock_tests::netns::{in_namespace, ip};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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

/// The kernel counts its timeouts and tail loss probes. Its packets must show as many.
#[test]
fn timeouts_inferred_of_the_kernels_packets_are_those_that_it_counted() {
    if !have("tcpdump") {
        return;
    }
    in_namespace(|| async {
        let folder = Scratch::new();
        let (file, json) = (folder.text("kernel.pcap"), folder.text("rto.json"));
        let [timeouts, probes] = bursts_from_the_kernel(file.as_ref()).await;
        let assessed = spawn_blocking(move || {
            let Ended { code, err, .. } = run(&["rto", &file, "--preset", "rfc6298", "--json", &json]);
            assert_eq!(code, Some(0), "{err}");
            fs::read_to_string(json).unwrap()
        });
        let json = assessed.await.unwrap();
        let of = |class: &str| json.matches(&format!("\"{class}\"")).count() as u64;
        let inferred = of("first-timeout") + of("repeated-timeout") + of("avoidable-timeout");
        let inferred_probes = of("tail-loss-probe");
        println!(
            "timeouts: {inferred}, counted {timeouts}; tail probes: {inferred_probes}, counted {probes}"
        );
        assert!(timeouts >= 5 && inferred_probes >= 5, "{timeouts} timeouts, {inferred_probes} probes");
        let off_by = inferred.abs_diff(timeouts);
        assert!(off_by <= timeouts / 10 + 1, "{inferred} inferred, {timeouts} counted");
        // The kernel counts those, too, that send new data or the last of several segments.
        assert!(inferred_probes <= probes + 1, "{inferred_probes} inferred, {probes} counted");
    });
}

/// The kernel sends bursts of one to five segments, each after the last is answered. Returns how many
/// timeouts and tail loss probes it counted meanwhile.
async fn bursts_from_the_kernel(file: &Path) -> [u64; 2] {
    let device = open_tun(OffloadMode::Off);
    let tcpdump = tcpdump(file).await;
    let settings =
        Settings { loss: Share::percent(12), delay: Duration::from_millis(10), ..Settings::default() };
    let impaired = Impaired::new(device, SEED, settings, settings).expect("valid settings");
    let stack = stack_on(impaired, TcpConfig::default());
    let addr = Family::V4.stack(3000);
    let listener = stack.listen(addr).unwrap();
    let kernel = tokio::spawn(async move {
        let mut stream = tokio::net::TcpStream::connect(addr).await?;
        let before = counters();
        for number in 0..BURSTS {
            stream.write_all(&vec![0; SEGMENT * (1 + number % 5)]).await?;
            stream.read_u8().await?;
        }
        // The last answer acknowledges everything.
        std::io::Result::Ok([0, 1].map(|which| counters()[which] - before[which]))
    });
    let served = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        for number in 0..BURSTS {
            stream.read_exact(&mut vec![0; SEGMENT * (1 + number % 5)]).await.unwrap();
            stream.write_all(&[0]).await.unwrap();
        }
        kernel.await.unwrap().unwrap()
    };
    let counted = within(LIMIT, &stack, served).await;
    complete(file).await;
    drop(tcpdump);
    stack.shutdown().await;
    counted
}

/// The namespace's TCPTimeouts and TCPLossProbes.
fn counters() -> [u64; 2] {
    let text = fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let [names, values] = [(); 2].map(|()| lines.next().unwrap().split_whitespace());
    let all: Vec<(&str, &str)> = names.zip(values).collect();
    ["TCPTimeouts", "TCPLossProbes"]
        .map(|name| all.iter().find(|(known, _)| *known == name).unwrap().1.parse().unwrap())
}

/// tcpdump, which captures what the kernel sends and gets.
async fn tcpdump(file: &Path) -> Program {
    let arguments = ["-U", "--immediate-mode", "-s", "128", "-i", TUN, "-w", &file.to_string_lossy()];
    let tcpdump = Program::start("tcpdump", &arguments, Vec::new());
    // It has opened the interface once its file has a header.
    eventually(|| async { has_bytes(file, 24) }).await;
    tcpdump
}

/// Waits until tcpdump's file no longer grows.
async fn complete(file: &Path) {
    let mut len = 0;
    eventually(|| {
        let before = std::mem::replace(&mut len, fs::metadata(file).map_or(0, |file| file.len()));
        let grew = len != before;
        async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if grew { Err(std::io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        }
    })
    .await;
}

/// Sends to the kernel and receives from it, with both ends captured. Returns how many packets were lost.
async fn transfers(stack_file: &Path, kernel_file: &Path) -> u64 {
    let device = open_tun(OffloadMode::Off);
    // A sender with pacing, as the kernel's default may be, stamps packets with the time at which they
    // are due, and a capture has that.
    ip(&format!("route change 10.9.0.0/24 dev {TUN} congctl cubic"));
    let tcpdump = tcpdump(kernel_file).await;
    let settings =
        Settings { loss: Share::percent(3), delay: Duration::from_millis(10), ..Settings::default() };
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
    complete(kernel_file).await;
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
    assert!(said.contains("connections assessed: 2, from both ends: 2"), "{said}");
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
    assert!(said.contains("from both ends: "), "{said}");
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
const BURSTS: usize = 150;
const SEGMENT: usize = 1400;
const SEED: u64 = 1999;
const LIMIT: Duration = Duration::from_secs(120);
