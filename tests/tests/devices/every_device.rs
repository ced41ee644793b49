//! Requirements on every device in a network, against the kernel across a veth pair: raw, packet, TAP. Tests
//! of one device alone are in `ethernet.rs` and `tests/tests/kernel/raw.rs`.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use ackclock::TcpConfig;
use ackclock_device::RawConfig;
use ackclock_device::impair::{Impaired, Settings, Share};
use ackclock_device::link::NeighbourState;
use ackclock_tests::devices::Needs;
use ackclock_tests::kernel::payload::{receive_some, send};
use ackclock_tests::kernel::program::have;
use ackclock_tests::kernel::scene::{Family, stack_on, within};
use ackclock_tests::kernel::wire::{
    LIMIT, OnWire, both_ways, eventually, joined, on_a_wire, open_raw, shown, transfer,
};
use ackclock_tests::netns::{Namespace, ip};
use ackclock_tests::on_each_device;
use tokio::runtime::Handle;

on_each_device! {
    bulk_comes_through_loss, keeps_to_an_mtu_that_shrinks, goes_on_when_either_end_was_down,
    finds_a_neighbour_that_comes_back_elsewhere
}

/// Both ways, both families, 1 % lost in each direction.
fn bulk_comes_through_loss(device: OnWire, near: &Namespace, far: &Namespace) {
    let far = far.handle().clone();
    near.run(async move {
        let settings =
            Settings { loss: Share::percent(1), delay: Duration::from_millis(1), ..Settings::default() };
        let lossy = Impaired::new(device.open().await.0, 7, settings, settings).unwrap();
        let network = lossy.handle();
        let stack = stack_on(lossy, TcpConfig::default());
        both_ways(&stack, &far, LEN).await;
        assert!(network.statistics_sent().lost > 0 && network.statistics_received().lost > 0);
        assert_eq!(stack.counters().dropped_tcp_checksum, 0);
    });
}

/// Both ends are narrow from the start, and grow narrower under open connections.
fn keeps_to_an_mtu_that_shrinks(device: OnWire, near: &Namespace, far: &Namespace) {
    let far = far.handle().clone();
    near.run(async move {
        let (opened, _) = device.open().await;
        let interface = device.interface();
        let narrow = |mtu: usize| {
            let far = far.clone();
            async move {
                far.spawn(async move { ip(&format!("link set peer mtu {mtu}")) }).await.unwrap();
                ip(&format!("link set {interface} mtu {mtu}"));
            }
        };
        narrow(1400).await;
        // The properties of an interface are cached for a second.
        let began = Instant::now();
        while opened.capabilities().mtu != 1400 {
            assert!(began.elapsed() < LIMIT, "{:?}", opened.capabilities());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let stack = stack_on(opened, TcpConfig::default());
        let mut connections = Vec::new();
        for family in [Family::V4, Family::V6] {
            let (mut ours, mut theirs) = joined(&stack, &far, family).await;
            within(LIMIT, &stack, transfer(&mut ours, &mut theirs, LEN, 1)).await;
            assert_eq!(ours.info().unwrap().pmtu, 1400, "{family:?}");
            connections.push((ours, theirs, family));
        }
        narrow(1300).await;
        for (mut ours, mut theirs, family) in connections {
            within(LIMIT, &stack, transfer(&mut ours, &mut theirs, LEN, 3)).await;
            // A bridge passes packets of many segments on, whatever the length of one: then the stack learns
            // of it when it next asks the device.
            let began = Instant::now();
            while ours.info().unwrap().pmtu != 1300 {
                assert!(began.elapsed() < Duration::from_secs(5), "{family:?}: {:?}", ours.info());
                tokio::time::sleep(Duration::from_millis(100)).await;
                within(LIMIT, &stack, transfer(&mut ours, &mut theirs, 1000, 5)).await;
            }
        }
    });
}

/// A transfer waits while either end of the link is down, and continues afterwards.
fn goes_on_when_either_end_was_down(device: OnWire, near: &Namespace, far: &Namespace) {
    let far = far.handle().clone();
    near.run(async move {
        let stack = stack_on(device.open().await.0, TcpConfig::default());
        let (interface, here) = (device.interface(), Handle::current());
        for (runtime, end, family) in [(&here, interface, Family::V4), (&far, "peer", Family::V6)] {
            let set = |state: &str| {
                let command = format!("link set {end} {state}");
                runtime.spawn(async move { ip(&command) })
            };
            let (mut ours, mut theirs) = joined(&stack, &far, family).await;
            within(LIMIT, &stack, transfer(&mut ours, &mut theirs, LEN, 1)).await;
            set("down").await.unwrap();
            let sending = tokio::spawn(async move {
                let sent = send(&mut ours, LEN, 2).await;
                (sent, ours)
            });
            let mut receiving = tokio::spawn(async move { receive_some(&mut theirs, LEN).await });
            let early = tokio::time::timeout(Duration::from_millis(700), &mut receiving).await;
            assert!(early.is_err(), "{end}: a transfer over a link that is down");
            set("up").await.unwrap();
            let received = within(LIMIT, &stack, receiving).await.unwrap().unwrap();
            let (sent, _ours) = within(LIMIT, &stack, sending).await.unwrap();
            assert_eq!(received, sent.unwrap(), "{end}");
        }
    });
}

/// The neighbour loses its address, no host answers for it, and it comes back with another Ethernet address.
fn finds_a_neighbour_that_comes_back_elsewhere(device: OnWire, near: &Namespace, far: &Namespace) {
    let far = far.handle().clone();
    near.run(async move {
        let (opened, link) = device.open().await;
        let stack = stack_on(opened, TcpConfig::default());
        for (family, addr, mac) in [
            (Family::V4, "10.9.0.1/24", "02:00:00:00:00:98"),
            (Family::V6, "fd09::1/64", "02:00:00:00:00:99"),
        ] {
            let option = if family == Family::V6 { " nodad" } else { "" };
            let at_far = |command: String| {
                let far = far.clone();
                async move { far.spawn(async move { ip(&command) }).await.unwrap() }
            };
            let (mut ours, mut theirs) = joined(&stack, &far, family).await;
            within(LIMIT, &stack, transfer(&mut ours, &mut theirs, LEN, 1)).await;
            at_far(format!("addr del {addr} dev peer")).await;
            let sending = tokio::spawn(async move {
                let sent = send(&mut ours, LEN, 2).await;
                (sent, ours)
            });
            // It is asked, does not answer and is given up, with what waits for it: by the link, or by the
            // kernel below a raw device.
            let kernel = addr.split('/').next().unwrap();
            let unresolved = link.as_ref().map_or(0, |link| link.counters().unresolved);
            eventually("the neighbour is given up", || match &link {
                Some(link) => link.counters().unresolved > unresolved,
                None => {
                    let known = shown("ip", &format!("neigh show {kernel} dev wire"));
                    !known.contains("lladdr")
                }
            })
            .await;
            at_far(format!("link set peer address {mac}")).await;
            at_far(format!("addr add {addr} dev peer{option}")).await;
            let received = within(LIMIT, &stack, receive_some(&mut theirs, LEN)).await.unwrap();
            let (sent, _ours) = within(LIMIT, &stack, sending).await.unwrap();
            assert_eq!(received, sent.unwrap(), "{family:?}");
            if let Some(link) = &link {
                let known = link.neighbours().into_iter().find(|known| known.addr == family.kernel(0).ip());
                assert_eq!(known.unwrap().mac, Some(mac.parse().unwrap()));
            }
        }
    });
}

#[test]
fn a_neighbour_is_not_asked_while_its_connection_goes_on() {
    on_a_wire(Needs::Packet, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            let (opened, link) = OnWire::Packet.open().await;
            let link = link.unwrap();
            let stack = stack_on(opened, TcpConfig::default());
            let (mut ours, mut theirs) = joined(&stack, &far, Family::V4).await;
            // Three times as long as an answer holds; twice the time after which a doubtful neighbour is
            // asked.
            for seed in 0..45 {
                within(LIMIT, &stack, transfer(&mut ours, &mut theirs, 1000, seed)).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                let known =
                    link.neighbours().into_iter().find(|known| known.addr == Family::V4.kernel(0).ip());
                let state = known.unwrap().state;
                assert_ne!(state, NeighbourState::Probe, "after {seed} exchanges");
            }
        });
    });
}

#[test]
fn a_switch_that_snoops_hears_which_groups_the_stack_listens_to() {
    if !have("bridge") {
        return;
    }
    on_a_wire(Needs::Packet, |near, far| {
        far.ip("link add br0 type bridge mcast_snooping 1");
        far.ip("link set br0 up");
        far.ip("link set peer master br0");
        let far = far.handle().clone();
        near.run(async move {
            let (opened, _) = OnWire::Packet.open().await;
            let _stack = stack_on(opened, TcpConfig::default());
            let groups = || async {
                let shown = far.spawn(async { shown("bridge", "mdb show dev br0") });
                shown.await.unwrap()
            };
            let began = Instant::now();
            let mut told = groups().await;
            while !told.contains("port peer grp ff02::1:ff00:2") {
                assert!(began.elapsed() < LIMIT, "{told:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                told = groups().await;
            }
        });
    });
}

#[test]
fn groups_are_heard_across_a_switch_that_snoops_and_asks() {
    groups_are_heard("mcast_igmp_version 3 mcast_mld_version 2");
}

#[test]
fn groups_are_heard_across_a_switch_that_asks_in_older_versions() {
    groups_are_heard("mcast_igmp_version 2 mcast_mld_version 1");
}

/// The kernel sends to groups across a bridge that snoops and asks in these versions: what the stack has
/// joined comes through, and nothing else.
fn groups_are_heard(versions: &str) {
    if !have("bridge") {
        return;
    }
    on_a_wire(Needs::Packet, |near, far| {
        // The kernel's end moves to the bridge, so that its packets pass the snooping.
        far.ip(&format!(
            "link add br0 type bridge mcast_snooping 1 mcast_querier 1 mcast_startup_query_interval 100 {versions}"
        ));
        far.ip("addr flush dev peer");
        far.ip("link set peer master br0");
        far.ip(&format!("addr add {}/24 dev br0", Family::V4.kernel(0).ip()));
        far.ip(&format!("addr add {}/64 dev br0 nodad", Family::V6.kernel(0).ip()));
        far.ip("link set br0 up");
        let far = far.handle().clone();
        near.run(async move {
            let (opened, _) = OnWire::Packet.open().await;
            let stack = stack_on(opened, TcpConfig::default());
            let socket = stack.udp("0.0.0.0:5000".parse().unwrap()).unwrap();
            for (group, joins) in [("239.1.2.3", true), ("ff15::1234", true), ("239.9.9.9", false)] {
                let group: IpAddr = group.parse().unwrap();
                match group {
                    IpAddr::V4(group) if joins => socket.join_multicast_v4(group, [0; 4].into()).unwrap(),
                    IpAddr::V6(group) => socket.join_multicast_v6(&group, 0).unwrap(),
                    IpAddr::V4(_) => {}
                }
                let sending = far.spawn(async move {
                    let any: IpAddr = if group.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
                    let sender = tokio::net::UdpSocket::bind((any, 0)).await.unwrap();
                    let on_link = std::ffi::CString::new("br0").unwrap();
                    sender.bind_device(Some(on_link.as_bytes())).unwrap();
                    for _ in 0..40 {
                        sender.send_to(b"to the group", (group, 5000)).await.unwrap();
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                });
                let mut buf = [0; 100];
                let heard = tokio::time::timeout(Duration::from_secs(2), socket.recv(&mut buf)).await;
                assert_eq!(heard.is_ok(), joins, "{group}");
                sending.await.unwrap();
                while socket.try_recv(&mut buf).is_ok() {}
            }
            let told = far.spawn(async { shown("bridge", "mdb show dev br0") }).await.unwrap();
            assert!(told.contains("port peer grp 239.1.2.3") && !told.contains("239.9.9.9"), "{told}");
        });
    });
}

#[test]
fn a_raw_device_has_an_address_that_is_only_routed_to_the_host() {
    on_a_wire(Needs::Raw, |near, far| {
        // No interface has it: `ip route add local`, as the manual says.
        near.ip("addr add 10.9.0.3/24 dev wire");
        near.ip("route add local 10.9.0.2 dev lo");
        near.sysctl("net/ipv4/conf/all/arp_ignore", "0");
        let far = far.handle().clone();
        near.run(async move {
            let stack = stack_on(open_raw(&RawConfig::new([Family::V4.stack(0).ip()])), TcpConfig::default());
            let (mut ours, mut theirs) = joined(&stack, &far, Family::V4).await;
            within(LIMIT, &stack, transfer(&mut ours, &mut theirs, LEN, 1)).await;
            assert_eq!(stack.counters().dropped_tcp_checksum, 0);
        });
    });
}

const LEN: u64 = 1 << 20;
