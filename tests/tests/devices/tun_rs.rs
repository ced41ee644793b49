//! The device over the crate `tun-rs`, which is for macOS and Windows, on the only system that is here.

use ackclock::TcpConfig;
use ackclock_device::Device;
use ackclock_device::impair::{Impaired, Settings, Share};
use ackclock_device::over::{TunRs, TunRsError};
use ackclock_tests::devices::{Needs, in_namespaces_with};
use ackclock_tests::kernel::scene::{Family, stack_on, within};
use ackclock_tests::kernel::wire::{LIMIT, both_ways, joined, transfer};
use ackclock_tests::netns::{Namespace, ip};
use tokio::io::AsyncReadExt;
use tokio::runtime::Handle;

#[test]
fn bulk_comes_through_loss_and_the_end_of_the_interface_is_told() {
    in_namespaces_with(Needs::Tun, |[home]: [Namespace; 1]| {
        home.run(async {
            let device = TunRs::open(Some("tun7"), &["10.9.0.1/24".parse().unwrap()], 1400).unwrap();
            assert_eq!(
                (device.carrier().name().unwrap().as_str(), device.capabilities().mtu),
                ("tun7", 1400)
            );
            ip("-6 addr add fd09::1/64 dev tun7 nodad");
            let settings = Settings { loss: Share::percent(1), ..Settings::default() };
            let lossy = Impaired::new(device, 7, settings, settings).unwrap();
            let network = lossy.handle();
            let stack = stack_on(lossy, TcpConfig::default());
            let kernel = Handle::current();
            both_ways(&stack, &kernel, 1 << 20).await;
            assert!(network.statistics_sent().lost > 0 && network.statistics_received().lost > 0);
            let (mut ours, mut theirs) = joined(&stack, &kernel, Family::V4).await;
            within(LIMIT, &stack, transfer(&mut ours, &mut theirs, 1000, 1)).await;
            assert_eq!(ours.info().unwrap().pmtu, 1400);
            ip("link del tun7");
            let error = within(LIMIT, &stack, ours.read(&mut [0; 1])).await.unwrap_err();
            assert!(error.to_string().contains("device is gone"), "{error}");
        });
    });
}

#[test]
fn a_name_that_the_system_refuses_is_named() {
    in_namespaces_with(Needs::Tun, |[home]: [Namespace; 1]| {
        home.run(async {
            let name = "a-name-of-17-byte";
            let error = TunRs::open(Some(name), &[], 1500).map(drop).unwrap_err();
            assert!(
                matches!(error, TunRsError::Name { .. }) && error.to_string().contains(name),
                "{error:?}"
            );
        });
    });
}
