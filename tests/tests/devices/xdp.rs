//! AF_XDP against the kernel across a veth pair: queues, modes, what stays the kernel's, and why a packet
//! device takes its place.

use std::time::Duration;

use ackclock::TcpConfig;
use ackclock_device::link::Detection;
use ackclock_device::{Device, EthernetDevice, EthernetOptions, OpenError, XdpDevice, XdpMode};
use ackclock_tests::devices::Needs;
use ackclock_tests::kernel::scene::{Family, stack_on, within};
use ackclock_tests::kernel::wire::{
    LIMIT, addressed, both_ways, joined, many_connections, on_a_wire, shown, transfer, wait_until,
};
use ackclock_tests::netns::ip;
use tokio::net::{TcpListener, TcpStream};

#[test]
fn a_stack_on_several_queues_moves_data_both_ways() {
    on_a_wire(Needs::Xdp, |near, far| {
        near.ip("link del wire");
        near.cable_of(3, "wire", far, "peer");
        far.ip("addr add 10.9.0.1/24 dev peer");
        far.ip("-6 addr add fd09::1/64 dev peer nodad");
        wait_until(far, "fd09::1");
        let far = far.handle().clone();
        near.run(async move {
            let queues = open(XdpMode::Native, 3);
            assert!(queues.iter().all(|queue| queue.capabilities().queues == 3));
            many_connections(queues, &far).await;
        });
    });
}

#[test]
fn the_program_before_the_kernel_carries_data_both_ways() {
    on_a_wire(Needs::Xdp, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            // A frame of the rings holds one segment.
            far.spawn(async { ip("link set peer gso_max_segs 1") }).await.unwrap();
            let mut queues = open(XdpMode::Generic, 1);
            let device = queues.remove(0);
            assert_eq!(device.frame_device().mode(), Some(XdpMode::Generic));
            assert!(shown("ip", "link show wire").contains("xdpgeneric"));
            let stack = stack_on(device, TcpConfig::default());
            both_ways(&stack, &far, 1 << 20).await;
            assert_eq!(stack.counters().dropped_tcp_checksum, 0);
        });
    });
}

#[test]
fn the_kernel_keeps_its_own_traffic_and_its_interface() {
    on_a_wire(Needs::Xdp, |near, far| {
        near.ip("addr add 10.9.0.7/24 dev wire");
        let far = far.handle().clone();
        near.run(async move {
            let device = open(XdpMode::Native, 1).remove(0);
            assert!(shown("ip", "link show wire").contains("prog/xdp"));
            let stack = stack_on(device, TcpConfig::default());
            let (mut ours, mut theirs) = joined(&stack, &far, Family::V4).await;
            within(LIMIT, &stack, transfer(&mut ours, &mut theirs, 100_000, 1)).await;
            let listener = TcpListener::bind("10.9.0.7:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let theirs = far.spawn(TcpStream::connect(addr));
            within(LIMIT, &stack, listener.accept()).await.expect("the kernel's own connection");
            theirs.await.unwrap().unwrap();
            drop((ours, stack));
            let began = std::time::Instant::now();
            while shown("ip", "link show wire").contains("prog/xdp") {
                assert!(began.elapsed() < LIMIT, "the program stays");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    });
}

#[test]
fn a_packet_device_takes_its_place_and_the_reason_is_told() {
    on_a_wire(Needs::Xdp, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            let refused = |options: EthernetOptions, wanted: &str| {
                let (queues, why) = options.clone().open_xdp("wire", XdpMode::Auto, 1).unwrap();
                assert_eq!(queues[0].frame_device().mode(), None);
                let why = why.expect("a reason");
                assert!(why.contains(wanted), "{why}");
                let error = options.open_xdp("wire", XdpMode::Native, 1).map(drop).unwrap_err();
                assert!(matches!(error, OpenError::XdpUnavailable { .. }), "{error:?}");
                assert!(error.to_string().contains(wanted), "{error}");
                queues
            };
            refused(options().interface_mac(), "an Ethernet address of its own");
            refused(options().promiscuous(true), "an Ethernet address of its own");
            let first = open(XdpMode::Native, 1);
            // One program an interface; and one socket a queue, which comes first.
            refused(options(), "busy");
            drop(first);
            ip("link set wire mtu 9000");
            let device = refused(options(), "an MTU of 9000 bytes").remove(0);
            let stack = stack_on(device, TcpConfig::default());
            both_ways(&stack, &far, 1 << 20).await;
        });
    });
}

#[test]
fn a_queue_can_be_opened_again_at_once() {
    on_a_wire(Needs::Xdp, |near, _| {
        near.run(async {
            for _ in 0..10 {
                drop(open(XdpMode::Native, 1));
            }
        });
    });
}

#[test]
fn more_queues_than_the_interface_has_are_refused_with_the_number() {
    on_a_wire(Needs::Xdp, |near, _| {
        near.run(async {
            let error = options().open_xdp("wire", XdpMode::Native, 200).map(drop).unwrap_err();
            assert!(error.to_string().contains("200 receive queues"), "{error}");
        });
    });
}

#[test]
fn a_deleted_interface_is_an_error_and_not_a_silence() {
    on_a_wire(Needs::Xdp, |near, _| {
        near.run(async {
            let mut device = open(XdpMode::Native, 1).remove(0);
            device.ready().await.unwrap();
            let deleted = tokio::spawn(async { ip("link del wire") });
            let mut batch = ackclock_device::ReceiveBatch::new(64, 1 << 20);
            let error = tokio::time::timeout(LIMIT, async {
                loop {
                    batch.clear();
                    let received = std::future::poll_fn(|cx| device.poll_receive(cx, &mut batch)).await;
                    if let Err(error) = received {
                        return error;
                    }
                }
            });
            let error = error.await.expect("an error");
            deleted.await.unwrap();
            assert!(ackclock_device::explain(&error, "wire").contains("was deleted"), "{error}");
        });
    });
}

fn options() -> EthernetOptions {
    addressed().detection(Detection::Announce)
}

fn open(mode: XdpMode, queues: usize) -> Vec<EthernetDevice<XdpDevice>> {
    let (queues, fell_back) = options().open_xdp("wire", mode, queues).unwrap();
    assert_eq!(fell_back, None);
    assert!(queues.iter().all(|queue| queue.frame_device().mode() == Some(mode)));
    queues
}
