//! Transfers each way through a network that loses, reorders and duplicates packets.

use std::time::{Duration, Instant};

use ackclock::TcpConfig;
use ackclock_device::OffloadMode;
use ackclock_device::impair::{Impaired, Settings, Share};
use ackclock_tests::kernel::scene::{Family, impaired_stack, open_tun, report, stack_on, within};
use ackclock_tests::kernel::transfer;
use ackclock_tests::netns::in_namespace;

#[test]
fn one_percent_loss() {
    let settings = Settings { loss: Share::percent(1), ..network() };
    each_family(settings, |sent, received| assert!(sent.lost > 100 && received.lost > 100));
}

#[test]
fn reordering() {
    let settings = Settings { reorder: Share::percent(1), ..network() };
    each_family(settings, |sent, received| assert!(sent.reordered > 100 && received.reordered > 100));
}

#[test]
fn duplication() {
    let settings = Settings { duplicate: Share::percent(1), ..network() };
    each_family(settings, |sent, received| assert!(sent.duplicated > 100 && received.duplicated > 100));
}

#[test]
fn loss_reordering_duplication_and_corruption_together() {
    let settings = Settings {
        loss: Share::percent(1),
        reorder: Share::percent(1),
        duplicate: Share::percent(1),
        corrupt: Share::per_million(1000),
        ..network()
    };
    each_family(settings, |sent, received| {
        assert!(sent.lost > 100 && received.lost > 100);
        assert!(sent.reordered > 100 && received.reordered > 100);
        assert!(sent.duplicated > 100 && received.duplicated > 100);
        assert!(sent.corrupted > 5 && received.corrupted > 5);
    });
}

/// Data arrives in batches, and the kernel's sender retransmits what no acknowledgement reports: with BBR
/// that was a tenth of it.
#[test]
fn kernel_repeats_what_was_lost_and_little_else() {
    in_namespace(|| async {
        for (family, mode) in [(Family::V4, OffloadMode::Off), (Family::V6, OffloadMode::On)] {
            let device = Impaired::new(
                open_tun(mode),
                SEED,
                network(),
                Settings { loss: Share::percent(5), ..network() },
            )
            .expect("valid settings");
            let lossy = device.handle();
            let stack = stack_on(device, TcpConfig::default());
            let addr = family.stack(7);
            let listener = stack.listen(addr).unwrap();
            let transfer = transfer::from_the_kernel(&listener, addr, LEN, 3);
            let duplicate = within(LIMIT, &stack, transfer).await.info().unwrap().bytes_duplicate;
            println!("{duplicate} bytes of {LEN} came twice, {:?}", lossy.statistics_received());
            assert!(lossy.statistics_received().lost > 100);
            assert!(duplicate <= LEN / 50, "{duplicate} bytes of {LEN} came twice");
            stack.shutdown().await;
        }
    });
}

type Statistics = ackclock_device::impair::Statistics;

/// IPv4 packet by packet and IPv6 with the kernel's offload. `check` gets the network's counters of both
/// directions.
fn each_family(settings: Settings, check: impl Fn(Statistics, Statistics) + Send + Sync + 'static) {
    in_namespace(move || async move {
        for (family, mode) in [(Family::V4, OffloadMode::Off), (Family::V6, OffloadMode::On)] {
            let (stack, network) = impaired_stack(mode, SEED, settings, TcpConfig::default());
            to_the_kernel(&stack, family).await;
            from_the_kernel(&stack, family).await;
            check(network.statistics_sent(), network.statistics_received());
            stack.shutdown().await;
        }
    });
}

async fn to_the_kernel(stack: &ackclock::Stack, family: Family) {
    let (began, addr) = (Instant::now(), family.kernel(7));
    within(LIMIT, stack, transfer::to_the_kernel(addr, stack.connect(addr), LEN, 1)).await;
    report("to the kernel", LEN, began);
}

async fn from_the_kernel(stack: &ackclock::Stack, family: Family) {
    let (began, addr) = (Instant::now(), family.stack(7));
    let listener = stack.listen(addr).unwrap();
    within(LIMIT, stack, transfer::from_the_kernel(&listener, addr, LEN, 2)).await;
    report("from the kernel", LEN, began);
}

/// A round trip of 2 ms, so that a flight exists in which packets can be lost.
fn network() -> Settings {
    Settings { delay: Duration::from_millis(1), ..Settings::default() }
}

const LEN: u64 = 16 << 20;
const SEED: u64 = 1988;
const LIMIT: Duration = Duration::from_secs(120);
