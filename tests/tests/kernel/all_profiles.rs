//! 16 MB to and from the Linux kernel's TCP under every profile that devices may use, at 0, 1 and 5 % loss.
//!
//! All transfers of one loss run at once on one stack: they mostly wait for timers. At 5 % loss a sender of
//! 1988 to 1998 has a timeout of 1 to 3 s for about every second lost packet, and their number decides the
//! time of a transfer. So packets are 9,000 bytes long, which makes them 1,900 and the losses 94, and four
//! connections share them. A connection may take twice what `ackclock_tests::model` says, plus what a slow
//! machine may add.

use std::iter::repeat_n;
use std::time::{Duration, Instant};

use ackclock::{Stack, TcpConfig};
use ackclock_control::congestion::Registry;
use ackclock_control::profile::Profile;
use ackclock_device::OffloadMode;
use ackclock_device::impair::{Impaired, Settings, Share};
use ackclock_tests::kernel::scene::{Family, TUN, open_tun, stack_on, within};
use ackclock_tests::kernel::transfer;
use ackclock_tests::model::{ModelPath, transfer_time};
use ackclock_tests::netns::{in_namespace, ip};
use tokio::task::JoinSet;

#[test]
fn every_profile_moves_16_mb_to_and_from_the_kernel_without_loss() {
    in_namespace(|| every_profile(Share::ZERO));
}

#[test]
fn every_profile_moves_16_mb_to_and_from_the_kernel_at_1_percent_loss() {
    in_namespace(|| every_profile(Share::percent(1)));
}

#[test]
fn every_profile_moves_16_mb_to_and_from_the_kernel_at_5_percent_loss() {
    in_namespace(|| every_profile(Share::percent(5)));
}

/// `loss`: in both directions.
async fn every_profile(loss: Share) {
    let device = open_tun(OffloadMode::On);
    // The kernel's queue for the device, of 500 packets, would lose some at 0 % loss, too.
    ip(&format!("link set {TUN} mtu {MTU} txqueuelen 10000"));
    let settings = Settings { loss, delay: DELAY, ..Settings::default() };
    let device = Impaired::new(device, SEED, settings, settings).expect("valid settings");
    let network = device.handle();
    let stack = stack_on(device, TcpConfig::default());

    let mut transfers = JoinSet::new();
    let registry = Registry::builtin();
    let of_devices = Profile::all().filter(|profile| registry.find(profile.congestion).is_ok());
    let connections = of_devices.flat_map(|profile| repeat_n(profile, CONNECTIONS));
    for (number, profile) in (0_u16..).zip(connections) {
        transfers.spawn(to_the_kernel(stack.clone(), profile, 1_000 + number, loss));
        transfers.spawn(from_the_kernel(stack.clone(), profile, 2_000 + number, loss));
    }
    while let Some(done) = transfers.join_next().await {
        done.expect("the transfer completes");
    }
    let lost = network.statistics_sent().lost + network.statistics_received().lost;
    assert_eq!(lost > 0, loss > Share::ZERO, "{lost} packets lost");
    stack.shutdown().await;
}

async fn to_the_kernel(stack: Stack, profile: Profile, port: u16, loss: Share) {
    let limit = Limit::new(&profile, &Profile::modern(), loss);
    let socket = stack.socket();
    socket.set_config(settings(&profile)).unwrap();
    let addr = Family::V4.kernel(port);
    let transfer = transfer::to_the_kernel(addr, socket.connect(addr), BYTES, port.into());
    within(limit.most(), &stack, transfer).await;
    limit.report(&format!("{:>15} to the kernel", profile.name));
}

/// The kernel has CUBIC and RACK-TLP, and what remains of them where the profile offers no SACK.
async fn from_the_kernel(stack: Stack, profile: Profile, port: u16, loss: Share) {
    let limit = Limit::new(&Profile::modern(), &profile, loss);
    let addr = Family::V4.stack(port);
    let listener = stack.listener().addr(addr).tcp(settings(&profile)).bind().unwrap();
    let transfer = transfer::from_the_kernel(&listener, addr, BYTES, port.into());
    within(limit.most(), &stack, transfer).await;
    limit.report(&format!("the kernel to {:15}", profile.name));
}

fn settings(profile: &Profile) -> TcpConfig {
    let mut tcp = TcpConfig::default();
    tcp.apply(profile, &Registry::builtin()).expect("its controller is built in");
    tcp
}

/// The longest that a transfer may take.
struct Limit {
    modelled: Duration,
    loss: Share,
    began: Instant,
}

impl Limit {
    fn new(sender: &Profile, receiver: &Profile, loss: Share) -> Self {
        let path = ModelPath { rtt: 2 * DELAY, rate_bps: None, segment_bytes: MTU - 52, loss };
        let modelled = transfer_time(BYTES, sender, receiver, path);
        Self { modelled, loss, began: Instant::now() }
    }

    fn most(&self) -> Duration {
        2 * self.modelled + SLOW_MACHINE
    }

    fn report(&self, what: &str) {
        let [took, modelled] = [self.began.elapsed(), self.modelled].map(|time| time.as_secs_f64());
        println!("{what}, {} loss: {took:6.1} s, modelled {modelled:6.1} s", self.loss);
    }
}

const CONNECTIONS: usize = 4;
/// Of a connection: together they have 16 MB.
const BYTES: u64 = (16 << 20) / CONNECTIONS as u64;
const MTU: u64 = 9_000;
/// One way.
const DELAY: Duration = Duration::from_millis(1);
const SEED: u64 = 1988;
const SLOW_MACHINE: Duration = Duration::from_secs(60);
