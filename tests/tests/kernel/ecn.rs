//! ECN with the kernel's TCP: negotiated by either end, through a network that marks, each way.

use std::fs;
use std::time::Duration;

use ackclock::{Stack, TcpConfig};
use ackclock_core::EcnInfo;
use ackclock_core::profile::{Choices, Ecn};
use ackclock_device::OffloadMode;
use ackclock_device::impair::{Settings, Share};
use ackclock_tests::kernel::scene::{Family, impaired_stack, within};
use ackclock_tests::kernel::transfer;
use ackclock_tests::netns::in_namespace;

#[test]
fn classic_ecn_each_way() {
    in_namespace(|| async {
        set_kernel_ecn("1");
        each_way(Ecn::Classic, Ecn::Classic).await;
    });
}

#[test]
fn accurate_offer_falls_back_to_what_the_kernel_knows() {
    in_namespace(|| async {
        set_kernel_ecn("1");
        each_way(Ecn::Accurate, Ecn::Classic).await;
    });
}

/// Linux supports Accurate ECN where `tcp_ecn` may be 3; elsewhere the kernel uses the classic form.
#[test]
fn accurate_ecn_where_the_kernel_has_it() {
    in_namespace(|| async {
        let has = fs::write(SYSCTL, "3").is_ok();
        set_kernel_ecn(if has { "3" } else { "1" });
        println!("the kernel has Accurate ECN: {has}");
        each_way(Ecn::Accurate, if has { Ecn::Accurate } else { Ecn::Classic }).await;
    });
}

#[test]
fn kernel_without_ecn_is_spoken_to_without() {
    in_namespace(|| async {
        set_kernel_ecn("0");
        let (stack, network) = impaired_stack(OffloadMode::Off, SEED, network(), tcp(Ecn::Accurate));
        assert_eq!(to_the_kernel(&stack, Family::V4).await, None);
        assert_eq!(network.statistics_sent().marked, 0, "nothing was ECN-capable");
        stack.shutdown().await;
    });
}

/// IPv4 packet by packet and IPv6 with the kernel's offload.
async fn each_way(offered: Ecn, agreed: Ecn) {
    for (family, mode) in [(Family::V4, OffloadMode::Off), (Family::V6, OffloadMode::On)] {
        let (stack, network) = impaired_stack(mode, SEED, network(), tcp(offered));
        let ours = to_the_kernel(&stack, family).await.expect("ECN was agreed on");
        assert_eq!((ours.form, ours.capable), (agreed, true));
        let sent = network.statistics_sent();
        assert!(sent.marked > 50, "{sent:?}");
        assert!(ours.marks_reported > 0 && ours.reductions > 0, "the kernel's echo: {ours:?}");
        assert!(counter("IpExt:", "InCEPkts") > 50 || family == Family::V6);

        let reductions = counter("TcpExt:", "TCPDeliveredCE");
        let theirs = from_the_kernel(&stack, family).await.expect("ECN was agreed on");
        assert_eq!(theirs.form, agreed);
        assert!(theirs.packets_marked > 50, "{theirs:?}");
        assert!(counter("TcpExt:", "TCPDeliveredCE") > reductions, "the kernel has seen our echo");
        stack.shutdown().await;
    }
}

async fn to_the_kernel(stack: &Stack, family: Family) -> Option<EcnInfo> {
    let addr = family.kernel(7);
    let stream = transfer::to_the_kernel(addr, stack.connect(addr), LEN, 1);
    within(LIMIT, stack, stream).await.info().unwrap().ecn
}

async fn from_the_kernel(stack: &Stack, family: Family) -> Option<EcnInfo> {
    let addr = family.stack(7);
    let listener = stack.listen(addr).unwrap();
    let stream = transfer::from_the_kernel(&listener, addr, LEN, 2);
    within(LIMIT, stack, stream).await.info().unwrap().ecn
}

fn tcp(ecn: Ecn) -> TcpConfig {
    TcpConfig { choices: Choices { ecn, ..Choices::default() }, ..TcpConfig::default() }
}

/// A round trip of 2 ms, and one packet in a hundred marked.
fn network() -> Settings {
    Settings { delay: Duration::from_millis(1), mark: Share::percent(1), ..Settings::default() }
}

/// In the namespace of the calling thread.
fn set_kernel_ecn(value: &str) {
    fs::write(SYSCTL, value).expect(SYSCTL);
}

/// A counter of the kernel in the namespace of the calling thread.
fn counter(group: &str, name: &str) -> u64 {
    let netstat = fs::read_to_string("/proc/thread-self/net/netstat").expect("netstat is there");
    let mut lines = netstat.lines().filter(|line| line.starts_with(group));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let found = names.split(' ').zip(values.split(' ')).find(|(found, _)| *found == name);
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

const SYSCTL: &str = "/proc/sys/net/ipv4/tcp_ecn";
const LEN: u64 = 16 << 20;
const SEED: u64 = 3168;
const LIMIT: Duration = Duration::from_secs(120);
