//! Both TUN backends against the kernel: packets in both directions, and what happens when the interface
//! changes.

use std::future::poll_fn;
use std::io;
use std::net::UdpSocket;
use std::num::NonZeroU16;
use std::process::Command;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use ackclock_device::{Device, OffloadMode, ReceiveBatch, configure, explain};
use ackclock_wire::{ChecksumAt, ChecksumState, RxMeta, TxPacket};

use super::common::packets::{echo_request_v4, udp};
use super::common::{NAME, in_namespace, ip, open_configured, receive, send};

#[test]
fn plain_exchanges_packets_with_the_kernel() {
    in_namespace(|| exchanges_packets(OffloadMode::Off));
}

#[test]
fn offload_exchanges_packets_with_the_kernel() {
    in_namespace(|| exchanges_packets(OffloadMode::On));
}

async fn exchanges_packets(mode: OffloadMode) {
    let mut device = open_configured(mode);
    for (kernel, own) in [("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")] {
        let socket = UdpSocket::bind((kernel, 7000)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.send_to(b"from the kernel", (own, 7000)).unwrap();
        receive(&mut *device, |bytes, _| bytes.ends_with(b"from the kernel").then_some(())).await;

        send(&mut *device, &udp(own, kernel, b"from the device")).await;
        let mut received = [0; 64];
        let (len, from) = socket.recv_from(&mut received).unwrap();
        assert_eq!((&received[..len], from.ip().to_string().as_str()), (&b"from the device"[..], own));
    }
    assert_eq!(device.counters().sent, 2);
}

#[test]
fn a_packet_that_the_plain_device_cuts_arrives_in_pieces() {
    in_namespace(|| async {
        let mut device = open_configured(OffloadMode::Off);
        let capabilities = device.capabilities();
        assert_eq!((capabilities.gso_max_v4, capabilities.gso_max_v6), (16_384, 16_384));
        let socket = UdpSocket::bind("10.9.0.1:7000").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let payload: Vec<u8> = (0..16_000_u32).map(|at| (at % 251) as u8).collect();
        let datagram = udp("10.9.0.2", "10.9.0.1", &payload);
        let (header, payload) = datagram.split_at(28);
        let packet = TxPacket {
            header,
            transport_offset: 20,
            payload: [&payload[..7_000], &payload[7_000..]],
            segment_size: NonZeroU16::new(1_400),
            checksum: ChecksumState::Partial(ChecksumAt::udp(20)),
        };
        poll_fn(|cx| device.poll_send_ready(cx)).await.unwrap();
        device.send(&packet).unwrap();
        let mut received = [0; 2_000];
        for piece in payload.chunks(1_400) {
            let len = socket.recv(&mut received).unwrap();
            assert_eq!(&received[..len], piece);
        }
        assert_eq!(device.counters().sent, 12);
    });
}

#[test]
fn the_kernel_answers_a_ping() {
    in_namespace(|| async {
        for mode in [OffloadMode::Off, OffloadMode::On] {
            let mut device = open_configured(mode);
            send(&mut *device, &echo_request_v4("10.9.0.2", "10.9.0.1", b"are you there?")).await;
            let meta = receive(&mut *device, |bytes, meta| {
                (bytes[9] == 1 && bytes[20] == 0 && bytes.ends_with(b"are you there?")).then_some(meta)
            })
            .await;
            assert_eq!(meta, RxMeta::default());
        }
    });
}

#[test]
fn an_answer_is_received_before_the_runtime_looks_at_its_descriptors() {
    in_namespace(|| async {
        for mode in [OffloadMode::Off, OffloadMode::On] {
            let mut device = open_configured(mode);
            let mut batch = ReceiveBatch::new(8, 0);
            let mut cx = Context::from_waker(Waker::noop());
            // Packets that the kernel sends by itself when a device comes up.
            while device.poll_receive(&mut cx, &mut batch).is_ready() {
                batch.clear();
            }
            let request = echo_request_v4("10.9.0.2", "10.9.0.1", b"at once?");
            send(&mut *device, &request).await;
            let deadline = Instant::now() + Duration::from_secs(5);
            // This task never waits from here on, and no other thread serves the runtime.
            let is_answered =
                |batch: &ReceiveBatch| batch.iter().any(|(bytes, _)| bytes.ends_with(b"at once?"));
            while !is_answered(&batch) && Instant::now() < deadline {
                let _ = device.poll_receive(&mut cx, &mut batch);
            }
            assert!(is_answered(&batch), "{mode:?}");
        }
    });
}

#[test]
fn capabilities_follow_the_mtu() {
    in_namespace(|| async {
        for mode in [OffloadMode::Off, OffloadMode::On] {
            let mut device = open_configured(mode);
            assert_eq!(device.capabilities().mtu, 1500);
            configure::set_mtu(NAME, 9000).unwrap();
            assert_eq!(device.capabilities().mtu, 1500, "it is asked for at most once a second");
            tokio::time::sleep(Duration::from_millis(1010)).await;
            assert_eq!(device.capabilities().mtu, 9000);

            let socket = UdpSocket::bind("10.9.0.1:7000").unwrap();
            socket.send_to(&[7; 8000], "10.9.0.2:7000").unwrap();
            receive(&mut *device, |bytes, _| (bytes.len() == 8028).then_some(())).await;
        }
    });
}

#[test]
fn a_packet_of_an_mtu_that_has_just_grown_is_dropped_once() {
    in_namespace(|| async {
        let mut device = open_configured(OffloadMode::Off);
        assert_eq!(device.capabilities().mtu, 1500);
        configure::set_mtu(NAME, 9000).unwrap();
        let socket = UdpSocket::bind("10.9.0.1:7000").unwrap();
        socket.send_to(&[7; 8000], "10.9.0.2:7000").unwrap();
        socket.send_to(&[8; 100], "10.9.0.2:7000").unwrap();
        receive(&mut *device, |bytes, _| bytes.ends_with(&[8; 100]).then_some(())).await;
        assert_eq!(device.counters().receive_malformed, 1);
        socket.send_to(&[9; 8000], "10.9.0.2:7000").unwrap();
        receive(&mut *device, |bytes, _| bytes.ends_with(&[9; 8000]).then_some(())).await;
        assert_eq!(device.counters().receive_malformed, 1);
    });
}

#[test]
fn a_device_deleted_while_it_waits_fails_at_once() {
    in_namespace(|| async {
        for mode in [OffloadMode::Off, OffloadMode::On] {
            let mut device = open_configured(mode);
            let started = Instant::now();
            let mut batch = ReceiveBatch::new(8, 0);
            let deletion = async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                configure::delete(NAME).unwrap();
                std::future::pending::<io::Error>().await
            };
            let waiting = std::future::poll_fn(|cx| {
                batch.clear();
                match device.poll_receive(cx, &mut batch) {
                    std::task::Poll::Ready(Err(error)) => std::task::Poll::Ready(error),
                    // Packets of the kernel's own.
                    std::task::Poll::Ready(Ok(_)) => {
                        cx.waker().wake_by_ref();
                        std::task::Poll::Pending
                    }
                    std::task::Poll::Pending => std::task::Poll::Pending,
                }
            });
            let error = tokio::select! { error = waiting => error, error = deletion => error };
            assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
            assert_eq!(error.raw_os_error(), Some(libc::EBADFD));
            assert!(explain(&error, NAME).contains("deleted while it was in use"));

            let ready = std::future::poll_fn(|cx| device.poll_send_ready(cx)).await;
            assert_eq!(ready.unwrap_err().raw_os_error(), Some(libc::EBADFD));
        }
    });
}

#[test]
fn sending_on_a_deleted_device_fails() {
    in_namespace(|| async {
        let mut device = open_configured(OffloadMode::On);
        std::future::poll_fn(|cx| device.poll_send_ready(cx)).await.unwrap();
        configure::delete(NAME).unwrap();
        let packet = udp("10.9.0.2", "10.9.0.1", b"too late");
        let packet = ackclock_wire::TxPacket::complete(&packet);
        assert_eq!(device.send(&packet).unwrap_err().raw_os_error(), Some(libc::EBADFD));
    });
}

#[test]
fn a_link_that_is_down_drops_packets_and_works_again_when_it_is_up() {
    in_namespace(|| async {
        for mode in [OffloadMode::Off, OffloadMode::On] {
            let mut device = open_configured(mode);
            let packet = udp("10.9.0.2", "10.9.0.1", b"hello");
            send(&mut *device, &packet).await;
            assert!(device.link_up());
            configure::set_up(NAME, false).unwrap();
            send(&mut *device, &packet).await;
            let counters = device.counters();
            assert_eq!((counters.sent, counters.send_link_down), (1, 1));
            tokio::time::sleep(Duration::from_millis(1010)).await;
            assert!(!device.link_up());

            configure::set_up(NAME, true).unwrap();
            let socket = UdpSocket::bind("10.9.0.1:7000").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            send(&mut *device, &packet).await;
            socket.recv(&mut [0; 16]).unwrap();
        }
    });
}

#[test]
fn a_device_that_is_not_up_yet_is_ready_to_send_as_soon_as_it_is() {
    in_namespace(|| async {
        let (mut device, _) = ackclock_device::open(NAME, OffloadMode::Auto).unwrap();
        let ready = std::future::poll_fn(|cx| device.poll_send_ready(cx));
        assert!(tokio::time::timeout(Duration::from_millis(50), ready).await.is_err());
        ip("link set tun0 up");
        let ready = std::future::poll_fn(|cx| device.poll_send_ready(cx));
        tokio::time::timeout(Duration::from_secs(1), ready).await.expect("ready within a second").unwrap();
    });
}

#[test]
fn a_packet_that_is_no_ip_packet_is_refused_and_counted() {
    in_namespace(|| async {
        let mut device = open_configured(OffloadMode::Off);
        send(&mut *device, &[0xff; 40]).await;
        assert_eq!(device.counters().send_refused, 1);
        send(&mut *device, &udp("10.9.0.2", "10.9.0.1", b"hello")).await;
        assert_eq!(device.counters().sent, 1);
    });
}

#[test]
fn routes_and_peers_lead_to_the_device() {
    in_namespace(|| async {
        let (mut device, _) = ackclock_device::open(NAME, OffloadMode::Off).unwrap();
        let local = "10.8.0.1/32".parse().unwrap();
        configure::configure(NAME)
            .address_with_peer(local, "10.8.7.2".parse().unwrap())
            .mtu(1400)
            .apply()
            .unwrap();
        configure::configure(NAME)
            .address_with_peer(local, "10.8.7.2".parse().unwrap())
            .mtu(1400)
            .apply()
            .expect("and once more");
        configure::add_route(NAME, "192.0.2.77/24".parse().unwrap()).unwrap();
        assert_eq!(configure::link_state(NAME).unwrap(), configure::LinkState { mtu: 1400, up: true });
        let socket = UdpSocket::bind("10.8.0.1:7000").unwrap();
        for target in ["10.8.7.2", "192.0.2.5"] {
            socket.send_to(target.as_bytes(), (target, 7000)).unwrap();
            receive(&mut *device, |bytes, _| bytes.ends_with(target.as_bytes()).then_some(())).await;
        }
    });
}

/// Goal: nothing is configured that would make the kernel answer in the stack's place.
#[test]
fn the_kernel_gets_an_address_beside_the_stacks_and_never_the_same() {
    in_namespace(|| async {
        let _device = ackclock_device::open(NAME, OffloadMode::Off).unwrap();
        let stack = "10.9.0.2/24".parse().unwrap();
        configure::configure(NAME).stack(stack).mtu(1400).apply().unwrap();
        assert!(configure::kernel_has("10.9.0.1".parse().unwrap()));
        assert!(!configure::kernel_has(stack.addr()));

        // The kernel's own address for the stack, and the stack's for the kernel: neither changes the MTU.
        let kernels = "10.9.0.1/24".parse().unwrap();
        let error = configure::configure(NAME).stack(kernels).mtu(1300).apply().unwrap_err();
        assert!(
            matches!(error, configure::ConfigureError::KernelHas { addr } if addr == kernels.addr()),
            "{error}"
        );
        let error = configure::configure(NAME).stack(stack).address(stack).mtu(1300).apply().unwrap_err();
        assert!(
            matches!(error, configure::ConfigureError::StackAddress { addr } if addr == stack.addr()),
            "{error}"
        );
        assert_eq!(configure::link_state(NAME).unwrap(), configure::LinkState { mtu: 1400, up: true });
    });
}

/// Goal: a stack whose thread does not run for 50 ms loses nothing of 100,000 packets a second. TUN's own
/// queue holds 500.
#[test]
fn five_thousand_packets_wait_for_a_configured_device() {
    in_namespace(|| async {
        let (mut device, _) = ackclock_device::open(NAME, OffloadMode::Off).unwrap();
        configure::configure(NAME).address("10.9.0.1/24".parse().unwrap()).apply().unwrap();
        let socket = UdpSocket::bind("10.9.0.1:7000").unwrap();
        let burst = 4_900_u32; // and room for what the kernel itself sends, such as router solicitations
        for number in 0..burst {
            socket.send_to(&number.to_be_bytes(), "10.9.0.2:7000").unwrap();
        }
        for number in 0..burst {
            let found = receive(&mut *device, |bytes, _| {
                (bytes[9] == 17 && bytes.len() == 32).then(|| bytes[28..].to_vec())
            });
            let found = tokio::time::timeout(Duration::from_secs(5), found).await;
            assert_eq!(found.expect("it was lost"), number.to_be_bytes());
        }
        // A queue that is longer already stays so.
        ip(&format!("link set {NAME} txqueuelen 7000"));
        configure::set_queue_len_min(NAME, 5_000).unwrap();
        let shown = Command::new("ip").args(["link", "show", NAME]).output().unwrap().stdout;
        assert!(String::from_utf8_lossy(&shown).contains("qlen 7000"));
    });
}

#[test]
fn a_veth_pair_is_a_cable_and_a_local_route_an_address_of_this_host() {
    in_namespace(|| async {
        let told = |words: &str| {
            let output = Command::new("ip").args(words.split(' ')).output().expect("ip can be run");
            String::from_utf8(output.stdout).unwrap()
        };
        for _ in ["once", "and once more"] {
            configure::add_veth("left", "right").unwrap();
        }
        assert!(!configure::link_state("left").unwrap().up && !configure::link_state("right").unwrap().up);
        assert!(told("-o link show left").contains("left@right"));
        configure::delete("left").unwrap();
        assert!(configure::link_state("right").is_err(), "one end does not stay without the other");
        configure::set_up("lo", true).unwrap();
        for (family, addr) in [("-4", "192.0.2.7"), ("-6", "2001:db8::7")] {
            for _ in ["once", "and once more"] {
                configure::add_local_route(addr.parse().unwrap(), Some("reno")).unwrap();
            }
            assert!(told(&format!("route get {addr}")).starts_with("local"), "{addr}");
            assert!(
                told(&format!("{family} route show table local {addr}")).contains("congctl reno"),
                "{addr}"
            );
        }
        let error =
            configure::add_local_route("192.0.2.8".parse().unwrap(), Some("no-such-one")).unwrap_err();
        assert!(
            error.to_string().contains("`ip route add local 192.0.2.8 dev lo congctl no-such-one`"),
            "{error}"
        );
    });
}
