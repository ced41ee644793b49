//! Stacks on Ethernet against the Linux kernel: a TAP device, and a packet socket on one end of a veth pair
//! whose other end is in another namespace (`ackclock_tests::kernel::wire`). Tests that these share with a
//! raw device are in `every_device.rs`.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use ackclock::{Stack, TcpConfig};
use ackclock_device::link::{AddressInfo, AddressState, Detection};
use ackclock_device::{
    Device, EthernetOptions, FrameDevice, LinkHandle, OffloadMode, PacketDevice, PacketOptions, ReceiveBatch,
    configure,
};
use ackclock_tests::devices::Needs;
use ackclock_tests::kernel::payload::{receive, send};
use ackclock_tests::kernel::scene::{Family, stack_on, within};
use ackclock_tests::kernel::wire::{
    LIMIT, TAP, addressed, both_ways, eventually, is_local, joined, on_a_wire, open_when_free, transfer,
    wait_until,
};
use ackclock_tests::netns::{Namespace, in_namespace, ip};
use ackclock_wire::TxPacket;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::AsyncWriteExt;
use tokio::net;
use tokio::runtime::Handle;

#[test]
fn bulk_crosses_a_tap_device_both_ways() {
    in_namespace(|| async {
        for mode in [OffloadMode::On, OffloadMode::Off] {
            let (mut device, fell_back) = open_when_free(|| addressed().offload(mode).open_tap(TAP)).await;
            assert!(device.leads_to_kernel(), "an address that the kernel has, too, is worth a warning");
            assert_eq!(fell_back, None);
            give_addresses(TAP);
            // The link's first messages wait until the device takes them.
            within_time(receive_until(&mut device, |device| device.counters().sent >= 3)).await;
            assert_eq!(Device::counters(&device).send_no_room, 0);
            let stack = stack_on(device, TcpConfig::default());
            both_ways(&stack, &Handle::current(), LEN).await;
            stack.shutdown().await;
        }
    });
}

#[test]
fn bulk_crosses_a_packet_socket_both_ways() {
    for mode in [OffloadMode::On, OffloadMode::Off] {
        on_a_wire(Needs::Packet, move |near, far| {
            let far = far.handle().clone();
            near.run(async move {
                let (stack, _) = packet_stack(addressed().offload(mode)).await;
                both_ways(&stack, &far, LEN).await;
            });
        });
    }
}

#[test]
fn bulk_crosses_a_packet_socket_that_shares_the_interface_s_address() {
    on_a_wire(Needs::Packet, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            let (stack, link) = packet_stack(addressed().interface_mac()).await;
            let shown = Command::new("ip").args(["link", "show", "dev", "wire"]).output().unwrap();
            assert!(String::from_utf8_lossy(&shown.stdout).contains(&link.mac().to_string()));
            // The kernel's link-local address is made from it, and the stack's is another.
            let shown = Command::new("ip").args(["-6", "addr", "show", "dev", "wire"]).output().unwrap();
            let kernel = String::from_utf8_lossy(&shown.stdout).into_owned();
            let own = link.addresses().into_iter().find(|own| own.automatic).unwrap().prefix.addr();
            assert!(kernel.contains("fe80::") && !kernel.contains(&own.to_string()), "{own}: {kernel}");
            both_ways(&stack, &far, LEN).await;
        });
    });
}

#[test]
fn packets_of_64_kb_cross_a_packet_socket_whole() {
    on_a_wire(Needs::Packet, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            let (stack, _) = packet_stack(addressed()).await;
            both_ways(&stack, &far, 4 * LEN).await;
            let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            let line = text.lines().find(|line| line.trim().starts_with("wire:")).unwrap();
            let numbers: Vec<u64> = line.split_whitespace().skip(1).map(|n| n.parse().unwrap()).collect();
            let (received, sent) = ((numbers[0], numbers[1]), (numbers[8], numbers[9]));
            // Acknowledgements of the other direction are among them.
            assert!(received.0 / received.1 > 2 * 1500, "received: {received:?}");
            assert!(sent.0 / sent.1 > 2 * 1500, "sent: {sent:?}");
        });
    });
}

#[test]
fn a_packet_device_keeps_to_the_interface_s_mtu_and_to_a_smaller_one_of_its_own() {
    for (own_mtu, link_mtu, expected) in [(None, 1300, 1300), (Some(1280), 1500, 1280)] {
        on_a_wire(Needs::Packet, move |near, far| {
            near.ip(&format!("link set wire mtu {link_mtu}"));
            far.ip(&format!("link set peer mtu {link_mtu}"));
            let far = far.handle().clone();
            near.run(async move {
                let options = own_mtu.map_or(addressed(), |mtu| addressed().mtu(mtu));
                let (stack, _) = packet_stack(options).await;
                assert_eq!(stack.info().mtu, expected);
                both_ways(&stack, &far, LEN).await;
            });
        });
    }
}

#[test]
fn an_address_that_the_kernel_has_is_refused_by_name() {
    on_a_wire(Needs::Packet, |near, far| {
        far.ip("addr add 10.9.0.2/24 dev peer");
        far.ip("-6 addr add fd09::2/64 dev peer nodad");
        let theirs = mac_of(far, "peer");
        near.run(async move {
            for family in ["10.9.0.2/24", "fd09::2/64"] {
                let address = family.parse().unwrap();
                let (mut device, _) = EthernetOptions::new().address(address).open_packet("wire").unwrap();
                let error = device.ready().await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
                let text = error.to_string();
                assert!(text.contains(&theirs) && text.contains(&address.addr().to_string()), "{text}");
            }
        });
    });
}

#[test]
fn probed_addresses_are_used_once_nobody_has_objected() {
    on_a_wire(Needs::Packet, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            let (device, _) = addressed().open_packet("wire").unwrap();
            assert!(device.leads_to_kernel(), "the kernel answers for its addresses on the same interface");
            let (link, began) = (device.handle(), Instant::now());
            // The stack has the address at once, but its packets wait until the link knows that the addresses
            // are free.
            let stack = stack_on(device, TcpConfig::default());
            assert!(link.addresses().iter().all(|own| own.state == AddressState::Tentative));
            let (mut ours, mut theirs) = joined(&stack, &far, Family::V4).await;
            // RFC 5227 §1.1: two intervals of at least 1 s and a wait of 2 s.
            assert!(began.elapsed() >= Duration::from_secs(4), "{:?}", began.elapsed());
            assert!(link.addresses().iter().all(|own| own.state == AddressState::Preferred));
            within(LIMIT, &stack, transfer(&mut ours, &mut theirs, LEN, 1)).await;
            assert_eq!(ours.info().unwrap().timeouts, 0, "no SYN was lost in the meantime");
        });
    });
}

#[test]
fn an_address_that_another_host_takes_later_is_defended_and_its_connections_go_on() {
    on_a_wire(Needs::Packet, |near, far| {
        let far_runtime = far.handle().clone();
        near.run(async move {
            let (stack, link) = packet_stack(addressed()).await;
            let (mut ours, mut theirs) = joined(&stack, &far_runtime, Family::V4).await;
            assert_eq!(link.counters().conflicts, 0);
            let usurp = async {
                ip("addr add 10.9.0.2/24 dev peer");
                // A packet from there to an unused address: the kernel asks for that address as 10.9.0.2.
                let socket = net::UdpSocket::bind("10.9.0.2:0").await.unwrap();
                socket.send_to(b"?", "10.9.0.77:9").await.unwrap();
                // And the kernel's own probe for an IPv6 address that the stack has.
                ip("-6 addr add fd09::2/64 dev peer");
            };
            far_runtime.spawn(usurp).await.unwrap();
            eventually("a conflict", || link.counters().conflicts > 0).await;
            let dad = far_runtime.spawn(async {
                let began = Instant::now();
                while began.elapsed() < Duration::from_secs(10) {
                    let shown =
                        Command::new("ip").args(["-6", "addr", "show", "dev", "peer"]).output().unwrap();
                    if String::from_utf8_lossy(&shown.stdout).contains("dadfailed") {
                        return true;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                false
            });
            assert!(dad.await.unwrap(), "the kernel took an IPv6 address that the stack has");
            far_runtime.spawn(async { ip("addr del 10.9.0.2/24 dev peer") }).await.unwrap();
            within(LIMIT, &stack, transfer(&mut ours, &mut theirs, LEN, 3)).await;
            assert!(link.addresses().iter().all(|own| own.state == AddressState::Preferred));
        });
    });
}

#[test]
fn an_address_and_a_route_come_from_a_router_s_advertisement() {
    on_a_wire(Needs::Packet, |near, far| {
        far.ip("-6 addr add 2001:db8::1/64 dev peer nodad");
        // An address behind the router.
        far.ip("-6 addr add 2001:db8:1::1/64 dev lo nodad");
        far.sysctl("net/ipv6/conf/all/forwarding", "1");
        wait_until(far, "2001:db8:1::1");
        let far_runtime = far.handle().clone();
        near.run(async move {
            let advertising = far_runtime.spawn(advertise_a_prefix());
            let (mut device, _) = EthernetOptions::new().autoconfigure(true).open_packet("wire").unwrap();
            let ready = tokio::time::timeout(LIMIT, device.ready()).await;
            ready.expect("a router answers").unwrap();
            let link = device.handle();
            let global = |own: &AddressInfo| own.prefix.addr().to_string().starts_with("2001:db8:");
            let own = link.addresses().into_iter().find(global).unwrap();
            assert_eq!(own.state, AddressState::Preferred);
            let own = own.prefix.addr();
            let stack = Stack::builder().device(device).address(format!("{own}/64").parse().unwrap()).spawn();
            let stack = stack.unwrap();
            let far_addr: SocketAddr = "[2001:db8:1::1]:7000".parse().unwrap();
            let listener = far_runtime.spawn(net::TcpListener::bind(far_addr)).await.unwrap().unwrap();
            let accepted = far_runtime.spawn(async move { receive(&mut listener.accept().await?.0).await });
            let mut ours = within(LIMIT, &stack, stack.connect(far_addr)).await.unwrap();
            let sent = within(LIMIT, &stack, send(&mut ours, LEN, 1)).await.unwrap();
            ours.shutdown().await.unwrap();
            assert_eq!(within(LIMIT, &stack, accepted).await.unwrap().unwrap(), sent);
            advertising.abort();
        });
    });
}

#[test]
fn a_stack_whose_interface_is_deleted_says_so() {
    on_a_wire(Needs::Packet, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            let (stack, _) = packet_stack(addressed()).await;
            let (mut ours, _theirs) = joined(&stack, &far, Family::V4).await;
            let reading = tokio::spawn(async move { receive(&mut ours).await });
            tokio::time::sleep(Duration::from_millis(50)).await;
            ip("link del wire");
            let error = within(LIMIT, &stack, reading).await.unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NetworkDown, "{error}");
        });
    });
}

#[test]
fn frames_for_other_stations_arrive_only_on_a_promiscuous_device() {
    on_a_wire(Needs::Packet, |near, far| {
        far.ip("neigh add 10.9.0.50 lladdr 02:00:00:00:00:50 dev peer");
        let far = far.handle().clone();
        near.run(async move {
            for promiscuous in [false, true] {
                let options = addressed().detection(Detection::Announce).promiscuous(promiscuous);
                let (mut device, _) = options.open_packet("wire").unwrap();
                device.ready().await.unwrap();
                // One datagram for another station, and behind it one for this.
                let sent = far.spawn(async {
                    let socket = net::UdpSocket::bind("10.9.0.1:0").await.unwrap();
                    for host in ["10.9.0.50:9", "10.9.0.2:9"] {
                        socket.send_to(b"datagram", host).await.unwrap();
                    }
                });
                sent.await.unwrap();
                let hosts = within_time(receive_for(&mut device, [10, 9, 0, 2])).await;
                assert_eq!(hosts.contains(&[10, 9, 0, 50]), promiscuous, "{hosts:?}");
            }
        });
    });
}

#[test]
fn a_frame_with_a_vlan_tag_is_of_another_network_unless_the_tag_is_a_priority() {
    on_a_wire(Needs::Packet, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            let (mut device, _) = addressed().detection(Detection::Announce).open_packet("wire").unwrap();
            device.ready().await.unwrap();
            let link = device.handle();
            far.spawn(ask_with_a_tag(7)).await.unwrap();
            within_time(receive_until(&mut device, |device| device.counters().receive_malformed > 0)).await;
            assert_eq!(link.neighbours(), []);
            far.spawn(ask_with_a_tag(0xe000)).await.unwrap();
            within_time(receive_until(&mut device, |device| !device.handle().neighbours().is_empty())).await;
            assert_eq!(link.neighbours()[0].addr.to_string(), "10.9.0.9");
        });
    });
}

#[test]
fn what_cannot_be_opened_is_said_with_the_command_that_mends_it() {
    in_namespace(|| async {
        let told = |result: Result<_, ackclock_device::OpenError>| match result {
            Ok(_) => panic!("it opens"),
            Err(error) => error.to_string(),
        };
        let missing = addressed().open_packet("nowhere").map(drop);
        assert!(told(missing).contains("no interface nowhere"));
        let loopback = addressed().open_packet("lo").map(drop);
        assert!(told(loopback).contains("lo carries no Ethernet frames"));
        let group = addressed().mac("33:33:00:00:00:01".parse().unwrap()).open_packet("lo").map(drop);
        assert!(told(group).contains("give one station's"));
        ip("tuntap add dev tun7 mode tun");
        let tun = addressed().open_tap("tun7").map(drop);
        assert!(told(tun).contains("tun7 is a TUN device with one queue, not a TAP device"));
    });
}

/// A stack on `wire` that uses its addresses at once.
async fn packet_stack(options: EthernetOptions) -> (Stack, LinkHandle) {
    let (mut device, fell_back) = options.detection(Detection::Announce).open_packet("wire").unwrap();
    assert_eq!(fell_back, None);
    device.ready().await.unwrap();
    let link = device.handle();
    (stack_on(device, TcpConfig::default()), link)
}

/// Gives the kernel's end of a TAP device its addresses and brings it up.
fn give_addresses(name: &str) {
    configure::configure(name).address("10.9.0.1/24".parse().unwrap()).apply().unwrap();
    configure::add_address(name, "fd09::1/64".parse().unwrap(), None).unwrap();
    assert!((0..500).any(|_| is_local("fd09::1")), "fd09::1 never becomes local");
}

/// Sends router advertisements as the kernel's link-local address, twice a second: 2001:db8::/64, for two
/// hours.
async fn advertise_a_prefix() {
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6)).unwrap();
    let index = std::fs::read_to_string("/proc/thread-self/net/dev_mcast").unwrap();
    let index = index.lines().find(|line| line.contains(" peer ")).unwrap().split_whitespace().next();
    let index: u32 = index.unwrap().parse().unwrap();
    socket.set_multicast_if_v6(index).unwrap();
    socket.set_multicast_hops_v6(255).unwrap();
    let mut message = vec![134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0];
    message.extend([3, 4, 64, 0xc0, 0, 0, 0x1c, 0x20, 0, 0, 0x1c, 0x20, 0, 0, 0, 0]);
    message.extend("2001:db8::".parse::<std::net::Ipv6Addr>().unwrap().octets());
    let all: SocketAddr = "[ff02::1]:0".parse().unwrap();
    loop {
        // While the kernel's link-local address is tentative, there is no address to send from.
        let _ = socket.send_to(&message, &all.into());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Sends the question of 10.9.0.9 for the stack's address from `peer`, behind this VLAN tag.
async fn ask_with_a_tag(tag: u16) {
    let [high, low] = tag.to_be_bytes();
    let asker = [2, 0, 0, 0, 0, 0x77];
    let mut bytes = vec![high, low, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    bytes.extend(asker);
    bytes.extend([10, 9, 0, 9, 0, 0, 0, 0, 0, 0, 10, 9, 0, 2]);
    let packet = TxPacket::complete(&bytes);
    let mut header = [0xff; 14];
    header[6..12].copy_from_slice(&asker);
    header[12..].copy_from_slice(&[0x81, 0]);
    let (mut device, _) = PacketDevice::open("peer", PacketOptions::default()).unwrap();
    poll_fn(|cx| device.poll_send_ready(cx)).await.unwrap();
    device.send(&header, &packet).unwrap();
    assert_eq!(device.counters().sent, 1);
}

/// Receives until `done`.
async fn receive_until<D: Device>(device: &mut D, done: impl Fn(&D) -> bool) {
    let mut batch = ReceiveBatch::new(8, 0);
    while !done(device) {
        batch.clear();
        let received = poll_fn(|cx| device.poll_receive(cx, &mut batch));
        let _ = tokio::time::timeout(Duration::from_millis(20), received).await;
    }
}

/// Receives until a packet for `host` arrives; returns the destinations of all IPv4 packets.
async fn receive_for(device: &mut impl Device, host: [u8; 4]) -> Vec<[u8; 4]> {
    let mut batch = ReceiveBatch::new(8, 0);
    let mut hosts: Vec<[u8; 4]> = Vec::new();
    while !hosts.contains(&host) {
        batch.clear();
        poll_fn(|cx| device.poll_receive(cx, &mut batch)).await.unwrap();
        let v4 = batch.iter().filter(|(packet, _)| packet[0] >> 4 == 4);
        hosts.extend(v4.map(|(packet, _)| <[u8; 4]>::try_from(&packet[16..20]).unwrap()));
    }
    hosts
}

async fn within_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("in time")
}

fn mac_of(namespace: &Namespace, interface: &'static str) -> String {
    namespace.run(async move {
        let shown = Command::new("ip").args(["-o", "link", "show", "dev", interface]).output().unwrap();
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        text.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
    })
}

const LEN: u64 = 4 << 20;
