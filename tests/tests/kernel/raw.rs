//! A stack on the host's own address through raw and packet sockets, against the kernel across a veth pair
//! and over the loopback interface.
//!
//! ```text
//! stack ┐
//! kernel┴ 10.77.0.1, fd77::1 ─ near ═ far ─ 10.77.0.2, fd77::2 kernel
//! ```
//!
//! Packets that the kernel sends over veth and loopback never get their checksum, and arrive with up to 64
//! KB.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ackclock::{Stack, StackBuilder, TcpConfig};
use ackclock_device::{Device, Ports, RawConfig, RawDevice, RawError};
use ackclock_tests::devices::{Needs, in_namespaces_with};
use ackclock_tests::kernel::payload::{Digest, receive, send};
use ackclock_tests::kernel::scene::{Family, within};
use ackclock_tests::kernel::wire::open_raw;
use ackclock_tests::netns::{Namespace, in_namespace, ip};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net;

#[test]
fn raw_device_carries_bulk_each_way_over_ipv4() {
    in_namespaces_with(Needs::Raw, |pair| each_way(pair, Family::V4));
}

#[test]
fn raw_device_carries_bulk_each_way_over_ipv6() {
    in_namespaces_with(Needs::Raw, |pair| each_way(pair, Family::V6));
}

#[test]
fn raw_device_shares_an_address_with_the_hosts_own_tcp() {
    in_namespaces_with(Needs::Raw, |[near, far]: [Namespace; 2]| {
        join(&near, &far);
        near.run(async move {
            let mut config = RawConfig::new([near_addr(Family::V4)]);
            config.ports = Ports::Range(7000..=7009);
            let builder = Stack::builder().ephemeral_ports(7001, 7009);
            let stack = on(builder, RawDevice::open(&config).unwrap());
            // The host's own, beside it, both ways.
            let own = net::TcpListener::bind((near_addr(Family::V4), 22)).await.unwrap();
            let ours = stack.listen(SocketAddr::new(near_addr(Family::V4), 7000)).unwrap();
            let client = far.handle().spawn(async move {
                for port in [22, 7000] {
                    let mut stream = net::TcpStream::connect((near_addr(Family::V4), port)).await.unwrap();
                    stream.write_all(&[port as u8]).await.unwrap();
                    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "an orderly end from port {port}");
                }
            });
            within(LIMIT, &stack, async {
                let mut byte = [0];
                own.accept().await.unwrap().0.read_exact(&mut byte).await.unwrap();
                assert_eq!(byte, [22]);
                ours.accept().await.unwrap().0.read_exact(&mut byte).await.unwrap();
                assert_eq!(byte, [7000u16 as u8]);
                client.await.unwrap();
            })
            .await;
            // And a connection that the stack opens.
            let listener =
                far.handle().spawn(async { net::TcpListener::bind((far_addr(Family::V4), 9)).await });
            let listener = listener.await.unwrap().unwrap();
            let theirs = far.handle().spawn(async move { listener.accept().await.unwrap().1 });
            let stream =
                within(LIMIT, &stack, stack.connect((far_addr(Family::V4), 9).into())).await.unwrap();
            assert_eq!(theirs.await.unwrap(), stream.local_addr().unwrap());
        });
    });
}

#[test]
fn raw_device_learns_the_mtu_of_a_route_for_ipv4() {
    in_namespaces_with(Needs::Raw, |pair| learns_the_mtu(pair, Family::V4));
}

#[test]
fn raw_device_learns_the_mtu_of_a_route_for_ipv6() {
    in_namespaces_with(Needs::Raw, |pair| learns_the_mtu(pair, Family::V6));
}

#[test]
fn raw_device_follows_an_interface_whose_mtu_shrinks() {
    in_namespaces_with(Needs::Raw, |[near, far]: [Namespace; 2]| {
        join(&near, &far);
        // The kernel's own packets fit from the start: no router would inform it, and the cable drops longer
        // ones.
        far.ip("route change 10.77.0.0/24 dev far src 10.77.0.2 mtu 1300 advmss 1460");
        let theirs = far.handle().spawn(echo_digest(Family::V4));
        near.run(async move {
            let stack = on(Stack::builder(), raw(Family::V4));
            let mut ours = dial(&stack, Family::V4).await;
            let first = send(&mut ours, LEN / 2, 1).await.unwrap();
            assert_eq!((first.bytes, ours.info().unwrap().pmtu), (LEN / 2, 1500));
            // Within the second before the device asks again, the kernel refuses packets that are too long.
            ip("link set near mtu 1300");
            send(&mut ours, LEN / 2, 2).await.unwrap();
            ours.shutdown().await.unwrap();
            let received = within(LIMIT, &stack, receive(&mut ours)).await.unwrap();
            let (took, sent) = theirs.await.unwrap();
            assert_eq!((took.bytes, received), (LEN, sent));
            assert_eq!(ours.info().unwrap().pmtu, 1300);
        });
    });
}

#[test]
fn raw_device_works_over_loopback() {
    in_namespace(|| async {
        if !Needs::Raw.met() {
            return;
        }
        for family in [Family::V4, Family::V6] {
            let (kernel, own) = match family {
                Family::V4 => ("10.99.0.9", "10.99.0.1"),
                Family::V6 => ("fd99::9", "fd99::1"),
            };
            let (v6, bits) = if family == Family::V6 { ("-6 ", 128) } else { ("", 32) };
            ip(&format!("{v6}addr add {kernel}/{bits} dev lo"));
            ip(&format!("{v6}route add local {own}/{bits} dev lo"));
            let own: IpAddr = own.parse().unwrap();
            let listener = bound(SocketAddr::new(kernel.parse().unwrap(), 7)).await;
            let at = listener.local_addr().unwrap();
            let theirs = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let received = receive(&mut stream).await.unwrap();
                (received, send(&mut stream, LEN, 2).await.unwrap())
            });
            let device = RawDevice::open(&RawConfig::new([own])).unwrap();
            assert_eq!(device.capabilities().mtu, 65_535);
            let stack = Stack::builder().device(device).address(own.into()).spawn().unwrap();
            let mut ours = within(LIMIT, &stack, stack.connect(at)).await.unwrap();
            let sent = within(LIMIT, &stack, send(&mut ours, LEN, 1)).await.unwrap();
            ours.shutdown().await.unwrap();
            let received = within(LIMIT, &stack, receive(&mut ours)).await.unwrap();
            assert_eq!((sent, received), theirs.await.unwrap());
            assert_eq!(stack.counters().dropped_tcp_checksum, 0);
            stack.shutdown().await;
        }
    });
}

#[test]
fn rule_against_the_kernels_resets_ends_with_the_device() {
    in_namespaces_with(Needs::Raw, |[near, far]: [Namespace; 2]| {
        join(&near, &far);
        near.run(async move {
            let dial = || {
                let connect = net::TcpStream::connect((near_addr(Family::V4), 7000));
                far.handle().spawn(tokio::time::timeout(Duration::from_millis(300), connect))
            };
            let refused = dial().await.unwrap().unwrap().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "the kernel answers");
            let device = raw(Family::V4);
            assert!(dial().await.unwrap().is_err(), "nothing answers while the device is open");
            drop(device);
            let refused = dial().await.unwrap().unwrap().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "nothing is left over");
        });
    });
}

#[test]
fn rule_is_for_exactly_the_ports_and_addresses_that_are_the_devices() {
    in_namespaces_with(Needs::Raw, |[near, far]: [Namespace; 2]| {
        join(&near, &far);
        near.ip("addr add 10.77.0.3/24 dev near");
        near.run(async move {
            let silent = async |at: &str| {
                let at: SocketAddr = at.parse().unwrap();
                let dial = tokio::time::timeout(Duration::from_millis(300), net::TcpStream::connect(at));
                match far.handle().spawn(dial).await.unwrap() {
                    Err(_) => true,
                    Ok(refused) => {
                        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{at}");
                        false
                    }
                }
            };
            let device = raw(Family::V4);
            assert!(silent("10.77.0.1:7000").await && silent("10.77.0.1:9").await);
            assert!(!silent("10.77.0.3:7000").await, "another address of the host");
            assert!(!silent("[fd77::1]:7000").await, "the other family");
            drop(device);

            let mut config = RawConfig::new([near_addr(Family::V4)]);
            config.ports = Ports::Range(7000..=7009);
            let _device = open_raw(&config);
            assert!(silent("10.77.0.1:7000").await && silent("10.77.0.1:7009").await);
            assert!(!silent("10.77.0.1:6999").await && !silent("10.77.0.1:7010").await);
            // UDP of those ports stays the host's.
            let own = net::UdpSocket::bind("10.77.0.1:7000").await.unwrap();
            let theirs = far.handle().spawn(async {
                let socket = net::UdpSocket::bind("10.77.0.2:0").await.unwrap();
                socket.send_to(b"datagram", "10.77.0.1:7000").await.unwrap();
            });
            theirs.await.unwrap();
            let received = tokio::time::timeout(LIMIT, own.recv_from(&mut [0; 16])).await.unwrap();
            assert_eq!(received.unwrap().0, 8);
        });
    });
}

#[test]
fn raw_device_refuses_what_is_not_its_own_and_says_what_to_do() {
    in_namespace(|| async {
        if !Needs::Raw.met() {
            return;
        }
        let error = |config: &RawConfig| RawDevice::open(config).unwrap_err();
        let foreign = RawConfig::new(["192.0.2.1".parse().unwrap()]);
        let said = error(&foreign);
        assert!(matches!(said, RawError::NotLocal { .. }));
        assert!(said.to_string().contains("ip route add local 192.0.2.1 dev lo"), "{said}");
        let _used = net::TcpListener::bind("127.0.0.1:7003").await.unwrap();
        let mut config = RawConfig::new(["127.0.0.1".parse().unwrap()]);
        assert!(matches!(error(&config), RawError::InUse { port: 7003, .. }));
        config.ports = Ports::Range(7000..=7009);
        assert!(matches!(error(&config), RawError::InUse { port: 7003, .. }));
        config.ports = Ports::Range(7004..=7009);
        assert!(RawDevice::open(&config).is_ok());
        config.interface = Some("no-such".to_owned());
        assert!(matches!(error(&config), RawError::NoInterface { .. }));
        assert!(matches!(error(&RawConfig::new([])), RawError::Addresses { count: 0 }));
    });
}

/// A transfer each way on a connection that the stack opens, and one on a connection that the kernel opens.
fn each_way([near, far]: [Namespace; 2], family: Family) {
    join(&near, &far);
    let theirs = far.handle().spawn(echo_digest(family));
    near.run(async move {
        let stack = on(Stack::builder(), raw(family));
        check_echo(&stack, family, theirs).await;
        let listener = stack.listen(SocketAddr::new(near_addr(family), 7)).unwrap();
        let kernel = far.handle().spawn(async move {
            let mut stream = net::TcpStream::connect((near_addr(family), 7)).await.unwrap();
            let sent = send(&mut stream, LEN, 3).await.unwrap();
            stream.shutdown().await.unwrap();
            sent
        });
        let (mut stream, _) = within(LIMIT, &stack, listener.accept()).await.unwrap();
        let received = within(LIMIT, &stack, receive(&mut stream)).await.unwrap();
        assert_eq!(received, kernel.await.unwrap());
        let counters = stack.counters();
        assert_eq!(counters.dropped_tcp_checksum, 0, "{counters:?}");
        // Two transfers came in, in packets of many segments.
        assert!(counters.packets_received < 2 * LEN / 1448, "{counters:?}");
    });
}

/// The stack's route is narrower than its interface.
fn learns_the_mtu([near, far]: [Namespace; 2], family: Family) {
    join(&near, &far);
    let route = if family == Family::V4 { "route add 10.77.0.2" } else { "-6 route add fd77::2" };
    near.ip(&format!("{route} dev near mtu 1300"));
    let theirs = far.handle().spawn(echo_digest(family));
    near.run(async move {
        let stack = on(Stack::builder(), raw(family));
        let stream = check_echo(&stack, family, theirs).await;
        assert_eq!(stream.info().unwrap().pmtu, 1300);
    });
}

/// The kernel takes a transfer to its end, then sends one.
async fn echo_digest(family: Family) -> (Digest, Digest) {
    let listener = net::TcpListener::bind((far_addr(family), 7)).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let received = receive(&mut stream).await.unwrap();
    (received, send(&mut stream, LEN, 2).await.unwrap())
}

/// The other end of that.
async fn check_echo(
    stack: &Stack,
    family: Family,
    theirs: tokio::task::JoinHandle<(Digest, Digest)>,
) -> ackclock::TcpStream {
    let mut ours = dial(stack, family).await;
    let sent = within(LIMIT, stack, send(&mut ours, LEN, 1)).await.unwrap();
    ours.shutdown().await.unwrap();
    let received = within(LIMIT, stack, receive(&mut ours)).await.unwrap();
    assert_eq!((sent, received), within(LIMIT, stack, theirs).await.unwrap());
    ours
}

/// Connects as soon as the kernel listens.
async fn dial(stack: &Stack, family: Family) -> ackclock::TcpStream {
    within(LIMIT, stack, async {
        loop {
            if let Ok(stream) = stack.connect(SocketAddr::new(far_addr(family), 7)).await {
                return stream;
            }
        }
    })
    .await
}

/// A listener at an address that may take the kernel a moment to know.
async fn bound(addr: SocketAddr) -> net::TcpListener {
    loop {
        match net::TcpListener::bind(addr).await {
            Ok(listener) => return listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

fn raw(family: Family) -> RawDevice {
    open_raw(&RawConfig::new([near_addr(family)]))
}

fn on(builder: StackBuilder, device: impl Device + 'static) -> Stack {
    builder
        .device(device)
        .address("10.77.0.1/24".parse().unwrap())
        .address("fd77::1/64".parse().unwrap())
        .tcp(TcpConfig::default())
        .spawn()
        .unwrap()
}

fn join(near: &Namespace, far: &Namespace) {
    near.cable("near", far, "far");
    for (place, name, addresses) in [
        (near, "near", ["10.77.0.1/24", "fd77::1/64 nodad"]),
        (far, "far", ["10.77.0.2/24", "fd77::2/64 nodad"]),
    ] {
        for addr in addresses {
            let (addr, rest) =
                addr.split_once(' ').map_or((addr, String::new()), |(a, r)| (a, format!(" {r}")));
            place.ip(&format!("addr add {addr} dev {name}{rest}"));
        }
    }
}

fn near_addr(family: Family) -> IpAddr {
    if family == Family::V4 { [10, 77, 0, 1].into() } else { "fd77::1".parse().unwrap() }
}

fn far_addr(family: Family) -> IpAddr {
    if family == Family::V4 { [10, 77, 0, 2].into() } else { "fd77::2".parse().unwrap() }
}

const LEN: u64 = 8 << 20;
const LIMIT: Duration = Duration::from_secs(60);
