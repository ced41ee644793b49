//! Devices other than TUN: addresses of the host, and captures that are played.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use ackclock_tests::devices::Needs;
use ackclock_tests::kernel::program::have;

use crate::common::{HOST1, HOST2, Netns, Process, Scratch, TCPCAT, random_file, said};

#[test]
fn a_file_crosses_between_two_addresses_of_the_host() {
    let Some(netns) = raw_netns() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 4_000_003), scratch.path("to"));
    let receiver = netns.listen(&format!("recv {} -l 7000 --verify -v {RAW2}", to.display()));
    let sent = netns.tcpcat(&format!("send {} 10.88.0.2 7000 --verify {RAW1}", from.display()));
    let received = receiver.finish();
    assert!(said(&sent, 0).contains("verified"), "{sent:?}");
    assert!(said(&received, 0).contains("verified"), "{received:?}");
    assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap());
    assert!(!said(&sent, 0).contains("warning"), "{sent:?}");
}

#[test]
fn a_killed_process_leaves_no_rule_behind() {
    let Some(netns) = raw_netns() else { return };
    let listener = netns.listen(&format!("-l 7000 -v {RAW1}"));
    let dial = "
import socket, sys
try:
    socket.create_connection(('10.88.0.1', 7001), timeout=5, source_address=('10.88.0.2', 0))
except ConnectionRefusedError:
    sys.exit(1)
except TimeoutError:
    sys.exit(124)
";
    let dial = || netns.command("python3").args(["-c", dial]).output().unwrap().status.code();
    assert_eq!(dial(), Some(1), "the stack refuses by itself");
    listener.signal("KILL");
    listener.finish();
    assert_eq!(dial(), Some(1), "and the kernel once it is gone");
}

#[test]
fn the_doctor_tells_what_a_raw_device_needs() {
    let Some(netns) = raw_netns() else { return };
    let good = told(&netns.tcpcat("doctor --raw --addr 10.88.0.1/24 --ports 40000-40999"), 0);
    assert!(good.contains("TCP ports 40000-40999 of 10.88.0.1 can be the stack's"), "{good}");
    assert!(good.contains("ip_local_reserved_ports=40000-40999"), "{good}");
    let foreign = told(&netns.tcpcat("doctor --device raw --addr 192.0.2.1/24"), 5);
    assert!(foreign.contains("-> sudo ip route add local 192.0.2.1 dev lo"), "{foreign}");
    if !have("setpriv") {
        return;
    }
    let without = |capability: &str| {
        let words = ["--bounding-set", capability, TCPCAT, "doctor", "--raw", "--addr", "10.88.0.1/24"];
        told(&netns.command("setpriv").args(words).output().unwrap(), 5)
    };
    let no_rule = without("-net_admin");
    assert!(no_rule.contains("sudo nft 'add table inet ackclock"), "{no_rule}");
    assert!(no_rule.contains("ip daddr 10.88.0.1 meta l4proto { tcp, udp } drop"), "{no_rule}");
    assert!(without("-net_raw").contains("PROBLEM privilege"), "raw sockets are forbidden");
}

#[test]
fn a_captured_transfer_is_received_again() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to, again) =
        (random_file(&scratch, "from", 300_007), scratch.path("to"), scratch.path("again"));
    let capture = scratch.path("capture.pcapng");
    let receiver =
        netns.listen(&format!("recv {} -l 7000 -v {HOST2} --pcap {}", to.display(), capture.display()));
    said(&netns.tcpcat(&format!("send {} 10.9.2.2 7000 {HOST1}", from.display())), 0);
    said(&receiver.finish(), 0);
    // No namespace, no right: a file is all that it takes.
    let play = |to: &std::path::Path, more: &[&str]| {
        let capture = capture.display().to_string();
        let to = to.display().to_string();
        let words = ["recv", &to, "-l", "7000", "--addr", "10.9.2.2/24", "--device", &capture];
        Command::new(TCPCAT).args(words).args(more).output().unwrap()
    };
    said(&play(&again, &[]), 0);
    assert!(fs::read(&from).unwrap() == fs::read(&again).unwrap());
    // A file that breaks off is played as far as it goes, and no part is taken for the whole.
    let bytes = fs::read(&capture).unwrap();
    fs::write(&capture, &bytes[..bytes.len() / 2]).unwrap();
    fs::remove_file(&again).unwrap();
    let words = said(&play(&again, &["--at-once"]), 5);
    assert!(words.contains("the file ends within a block that begins at byte"), "{words}");
    assert!(words.contains("the recording has ended"), "{words}");
    assert!(words.contains("a transfer with --verify or -P cannot be played"), "{words}");
    assert!(!again.exists());
    fs::write(&capture, b"no capture, whatever its name").unwrap();
    assert!(said(&play(&again, &[]), 6).contains("neither pcap nor pcapng"));
}

#[test]
fn flags_that_mean_nothing_to_a_device_are_refused() {
    for (flags, word) in [
        ("--configure", "--configure"),
        ("--mtu 1400", "--mtu"),
        ("--peer 10.88.0.2", "--peer"),
        ("--queues 2", "--queues"),
    ] {
        let line = format!("10.88.0.2 7000 --device raw --addr 10.88.0.1/24 {flags}");
        let output = Command::new(TCPCAT).args(line.split(' ')).output().unwrap();
        assert!(said(&output, 2).contains(&format!("{word} has no effect with --device raw")), "{output:?}");
    }
}

#[test]
fn a_file_crosses_a_packet_socket_to_the_kernel_and_back() {
    let Some(wire) = Wire::new() else { return };
    let device = format!("{PACKET} --addr 10.87.0.2/24 --no-probe");
    for offload in ["on", "off"] {
        moves_both_ways(
            &wire.near,
            &wire.far,
            "10.87.0.2",
            "10.87.0.1",
            &format!("{device} --offload {offload}"),
        );
    }
    // Through a router, under an address of its own and in smaller packets.
    wire.far.shell("ip addr add 10.86.0.1/32 dev lo");
    let flags = "--gateway 10.87.0.1 --mac 02:00:5e:10:00:01 --mtu 1280";
    moves_both_ways(&wire.near, &wire.far, "10.87.0.2", "10.86.0.1", &format!("{device} {flags}"));
    assert!(wire.far.shell("ip neigh show 10.87.0.2").contains("02:00:5e:10:00:01"));
    // And over IPv6, as the station that the interface is.
    let v6 = format!("{PACKET} --addr fd87::2/64 --no-probe --mac interface");
    moves_both_ways(&wire.near, &wire.far, "fd87::2", "fd87::1", &v6);
    let mac = wire.near.shell("cat /sys/class/net/wire/address");
    assert!(wire.far.shell("ip neigh show fd87::2").contains(mac.trim()));
}

#[test]
fn a_file_crosses_a_packet_device_of_two_queues_to_the_kernel_and_back() {
    let Some(wire) = Wire::new() else { return };
    let device = format!("{PACKET} --queues 2 --addr 10.87.0.2/24 --no-probe");
    moves_both_ways(&wire.near, &wire.far, "10.87.0.2", "10.87.0.1", &device);
}

#[test]
fn a_file_crosses_af_xdp_to_the_kernel_and_back_or_a_packet_socket_says_why() {
    let (true, Some(wire)) = (Needs::Xdp.met(), Wire::new()) else { return };
    let device = "--device xdp --interface wire --addr 10.87.0.2/24 --no-probe";
    moves_both_ways(&wire.near, &wire.far, "10.87.0.2", "10.87.0.1", device);
    assert!(!wire.near.shell("ip link show wire").contains("prog/xdp"), "the program ends with the process");
    let doctor = || told(&wire.near.tcpcat(&format!("doctor {device}")), 0);
    assert!(doctor().contains("in the driver"), "{}", doctor());
    wire.near.shell("ip link set wire mtu 9000");
    let findings = doctor();
    assert!(findings.contains("an MTU of 9000 bytes") && findings.contains("a packet socket"), "{findings}");
    let sent = wire.near.tcpcat(&format!("10.87.0.1 9 {device}"));
    let words = said(&sent, 3);
    assert!(words.contains("a packet socket on wire, not AF_XDP: wire has an MTU of 9000 bytes"), "{words}");
}

#[test]
fn a_file_crosses_a_tun_device_of_two_queues_to_the_kernel_and_back() {
    let Some(netns) = Netns::new() else { return };
    for offload in ["on", "off"] {
        let device = format!("--queues 2 --configure --addr 10.85.0.2/24 --offload {offload}");
        moves_both_ways(&netns, &netns, "10.85.0.2", "10.85.0.1", &device);
    }
    netns.shell("ip tuntap add dev tun0 mode tun");
    let words = said(&netns.tcpcat("-l 7000 --queues 2 --configure --addr 10.85.0.2/24"), 5);
    assert!(words.contains("multi_queue"), "{words}");
}

#[test]
fn a_file_crosses_a_tap_device_to_the_kernel_and_back() {
    let Some(netns) = Netns::on(Needs::Tap) else { return };
    for (own, kernel, prefix) in [("10.85.0.2", "10.85.0.1", 24), ("fd85::2", "fd85::1", 64)] {
        for offload in ["on", "off"] {
            let device = format!("--device tap --configure --addr {own}/{prefix} --offload {offload}");
            moves_both_ways(&netns, &netns, own, kernel, &device);
        }
    }
    assert!(!netns.shell("ip -o link").contains("tap0"), "it ends with the process");
}

#[test]
fn a_stack_reaches_the_kernels_other_networks_through_a_tap_device() {
    let Some(netns) = Netns::on(Needs::Tap) else { return };
    netns.shell("ip addr add 10.84.0.1/32 dev lo");
    moves_both_ways(&netns, &netns, "10.85.0.2", "10.84.0.1", "--device tap --configure --addr 10.85.0.2/24");
}

#[test]
fn a_file_crosses_a_device_that_the_parent_opened() {
    let Some(netns) = Netns::new() else { return };
    if !have("python3") {
        return;
    }
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 1_000_003), scratch.path("to"));
    for word in ["fd:3", "fd"] {
        let receiver = netns.listen(&format!("recv {} -l 7000 --verify -v {HOST2}", to.display()));
        let line = format!("send {} 10.9.2.2 7000 --addr 10.9.1.2/24 --device {word}", from.display());
        let parent = ["-c", PARENT, TCPCAT];
        let sender = Process::start(netns.command("python3").args(parent).args(line.split_whitespace()));
        said(&sender.finish(), 0);
        said(&receiver.finish(), 0);
        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "{word}");
        fs::remove_file(&to).unwrap();
    }
    let words = said(&netns.tcpcat("-l 7000 --addr 10.9.1.2/24 --device fd:999"), 5);
    assert!(words.contains("descriptor 999 is not open"), "{words}");
    let words = said(&netns.tcpcat("-l 7000 --addr 10.9.1.2/24 --device fd"), 5);
    assert!(words.contains("LISTEN_FDS") && words.contains("--device fd:3"), "{words}");
}

#[test]
fn a_file_crosses_a_unix_socket_between_two_stacks_without_a_right() {
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 1_000_003), scratch.path("to"));
    let socket = scratch.path("socket");
    let device = |host: u8| format!("--addr 10.83.0.{host}/24 --device unix:{}", socket.display());
    let start = |line: String| Process::start(Command::new(TCPCAT).args(line.split_whitespace()));
    let receiver = start(format!("recv {} -l 7000 --verify -v {}", to.display(), device(2)));
    receiver.await_line("waiting at");
    let sender =
        start(format!("send {} 10.83.0.2 7000 --verify --retry -w 30 {}", from.display(), device(1)));
    assert!(said(&sender.finish(), 0).contains("verified"));
    assert!(said(&receiver.finish(), 0).contains("verified"));
    assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap());
    assert!(!socket.exists(), "the path is taken back");
}

#[test]
fn an_address_that_another_station_has_is_refused_by_name() {
    let Some(wire) = Wire::new() else { return };
    let mac = wire.far.shell("cat /sys/class/net/peer/address");
    let output = wire.near.tcpcat(&format!("-l 7000 {PACKET} --addr 10.87.0.1/24"));
    let words = said(&output, 5);
    assert!(words.contains(&format!("wire: 10.87.0.1 is in use by the station {}", mac.trim())), "{words}");
    assert!(words.contains("to fix it: give the stack another address"), "{words}");
    let doctor = told(&wire.near.tcpcat(&format!("doctor {PACKET} --addr 10.87.0.1/24")), 5);
    assert!(doctor.contains("PROBLEM addresses"), "{doctor}");
}

#[test]
fn a_link_where_nothing_answers_is_told_while_the_connection_waits() {
    let Some(wire) = Wire::new() else { return };
    let device = format!("-w 4 {PACKET} --addr 10.87.0.2/24 --no-probe");
    let words = said(&wire.near.tcpcat(&format!("10.87.0.9 7000 {device}")), 4);
    assert!(words.contains("no station on wire answers for 10.87.0.9 (ARP)"), "{words}");
    assert!(words.contains("tcpcat doctor --device packet --interface wire"), "{words}");
    let words = said(&wire.near.tcpcat(&format!("192.0.2.9 7000 {device}")), 4);
    assert!(
        words.contains("packets for other networks have no way out of wire: add --gateway ADDR"),
        "{words}"
    );
}

#[test]
fn flags_of_an_ethernet_device_that_cannot_work_are_refused_with_what_mends_them() {
    let Some(wire) = Wire::new() else { return };
    for (flags, code, what) in [
        ("--device packet --addr 10.87.0.2/24", 2, "name it with --interface eth0"),
        (
            "--device packet --interface wire --addr 10.87.0.2/24 --mtu 9000",
            2,
            "sudo ip link set wire mtu 9000",
        ),
        ("--device packet --interface wire --addr 10.87.0.2/24 --gateway 10.1.0.1", 2, "not in 10.87.0.0/24"),
        (
            "--device packet --interface wire --addr 10.87.0.2/24 --gateway 10.87.0.2",
            2,
            "stack's own address",
        ),
        (
            "--device packet --interface wire --addr 10.87.0.2/24 --mac 01:00:5e:00:00:01",
            2,
            "not the address of one station",
        ),
        ("--device packet --interface wire --addr 10.87.0.2/24 --configure", 2, "--configure has no effect"),
        ("--device packet --interface wire1 --addr 10.87.0.2/24", 5, "no interface wire1"),
        ("--device packet --interface lo --addr 10.87.0.2/24", 5, "carries no Ethernet frames"),
        ("--device packet --interface wire --addr 127.0.0.1/8", 5, "belongs to this machine's kernel"),
        ("--device tap --addr 10.85.0.2/24 --promiscuous", 2, "--promiscuous has no effect"),
        ("--device tap --addr 10.85.0.2/24 --mac interface", 2, "belongs to the kernel's end"),
        (
            "--device tap --interface wire --addr 10.85.0.2/24",
            5,
            "an interface of type veth, not a TAP device",
        ),
        (
            "--device tun --interface wire --addr 10.85.0.2/24",
            2,
            "--interface has no effect with --device tun",
        ),
    ] {
        if flags.starts_with("--device tap") && !Needs::Tap.met() {
            continue;
        }
        let words = said(&wire.near.tcpcat(&format!("10.87.0.1 7000 {flags}")), code);
        assert!(words.contains(what), "{flags}: {words}");
    }
}

#[test]
fn an_address_and_a_route_are_taken_from_an_ipv6_router() {
    let Some(wire) = Wire::new() else { return };
    let alone = format!("-l 7000 {PACKET} --autoconf");
    assert!(said(&wire.near.tcpcat(&alone), 5).contains("no router on wire offers an IPv6 prefix"));
    wire.far.shell(
        "ip -6 addr add 2001:db8::1/64 dev peer nodad; ip -6 addr add 2001:db8:1::1/128 dev lo nodad; \
         echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
    );
    let script = "
import socket, struct, sys, time
s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex('peer'))
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
prefix = struct.pack('!BBBBIII', 3, 4, 64, 0xc0, 7200, 7200, 0) + socket.inet_pton(socket.AF_INET6, '2001:db8::')
while True:
    try:
        s.sendto(struct.pack('!BBHBBHII', 134, 0, 0, 64, 0, 1800, 0, 0) + prefix, ('ff02::1', 0))
        print('sent', file=sys.stderr, flush=True)
    except OSError:
        pass  # until the link-local address is no longer tentative
    time.sleep(0.3)
";
    let router = Process::start(wire.far.command("python3").args(["-c", script]));
    router.await_line("sent");
    let words = said(&wire.near.tcpcat(&format!("-z -v 2001:db8:1::1 7000 {PACKET} --autoconf")), 3);
    assert!(words.contains("with 2001:db8::"), "{words}");
    assert!(words.contains("Connection refused"), "the router's other network answers: {words}");
    let doctor = told(&wire.near.tcpcat(&format!("doctor {PACKET} --autoconf")), 0);
    assert!(doctor.contains("from a router"), "{doctor}");
}

#[test]
fn promiscuous_mode_lasts_as_long_as_the_process_and_only_if_asked_for() {
    let Some(wire) = Wire::new() else { return };
    let is_promiscuous = || wire.near.shell("ip -d link show wire").contains("promiscuity 1");
    // For one more address than its own the kernel makes a veth promiscuous by itself.
    let device = format!("-l 7000 -v {PACKET} --addr 10.87.0.2/24 --no-probe --mac interface");
    let listener = wire.near.listen(&device);
    assert!(!is_promiscuous());
    drop(listener);
    let listener = wire.near.listen(&format!("{device} --promiscuous"));
    assert!(is_promiscuous());
    listener.signal("KILL");
    listener.finish();
    assert!(!is_promiscuous());
}

#[test]
fn the_doctor_tells_what_a_packet_socket_needs() {
    let Some(wire) = Wire::new() else { return };
    let packet = format!("doctor {PACKET} --addr 10.87.0.2/24");
    let good = told(&wire.near.tcpcat(&format!("{packet} --no-probe")), 0);
    for words in
        ["CAP_NET_RAW", "wire is up, MTU 1500", "packets of 64 KB cross whole", "it ends with the process"]
    {
        assert!(good.contains(words), "{words}: {good}");
    }
    wire.near.shell("ip link set wire down");
    assert!(told(&wire.near.tcpcat(&packet), 5).contains("-> sudo ip link set wire up"));
    if !have("setpriv") {
        return;
    }
    let forbidden = told(&without(&wire.near, "-net_raw", &packet), 5);
    assert!(forbidden.contains("-> sudo setcap cap_net_raw+ep $(command -v tcpcat)"), "{forbidden}");
}

#[test]
fn the_doctor_tells_what_a_tap_device_needs() {
    let Some(netns) = Netns::on(Needs::Tap) else { return };
    let tap = "doctor --device tap --addr 10.85.0.2/24 --configure";
    let good = told(&netns.tcpcat(tap), 0);
    assert!(good.contains("tap0, which ends with the process, and so do the addresses"), "{good}");
    let half = told(&netns.tcpcat("doctor --device tap --addr 10.85.0.2/24"), 5);
    assert!(half.contains("-> sudo ip addr add 10.85.0.1/24 dev tap0, or add --configure"), "{half}");
    if !have("setpriv") {
        return;
    }
    let forbidden = told(&without(&netns, "-net_admin", tap), 5);
    assert!(forbidden.contains("sudo ip tuntap add dev tap0 mode tap user $USER"), "{forbidden}");
}

#[test]
fn the_doctor_and_a_transfer_need_the_same() {
    let Some(netns) = Netns::on(Needs::Tun) else { return };
    let without = told(&netns.tcpcat("doctor"), 5);
    assert!(without.contains("PROBLEM address      the stack needs one"), "{without}");
    said(&netns.tcpcat("10.9.0.1 7000"), 2);
    let given = told(&netns.tcpcat("doctor --addr 10.9.0.2/24 --configure"), 0);
    assert!(!given.contains("add --configure"), "{given}");
    let group = said(&netns.tcpcat("doctor --addr 224.0.0.2/24"), 2);
    assert!(group.contains("224.0.0.2 is a group of hosts (multicast)"), "{group}");
}

/// Run word for word, the commands that it prints for a user without privileges leave nothing missing.
#[test]
fn the_doctors_commands_are_all_that_a_user_without_privileges_needs() {
    if !have("setpriv") {
        return;
    }
    let Some(netns) = Netns::on(Needs::Tun) else { return };
    let doctor = "doctor --addr 10.9.0.2/24";
    let before = told(&without(&netns, "-net_admin", doctor), 5);
    assert!(!before.contains("add --configure"), "{before}");
    let commands: Vec<&str> = before.split_once("in this order:\n").expect(&before).1.lines().collect();
    assert_eq!(commands.len(), 2, "{before}");
    for command in commands {
        netns.shell(&command.replace("sudo ", "").replace("$USER", "root"));
    }
    let after = told(&without(&netns, "-net_admin", doctor), 0);
    assert!(after.ends_with("a transfer would work\n"), "{after}");
}

#[test]
fn the_demo_shows_the_same_table_over_each_device() {
    for device in DEVICES {
        let Some(netns) = Netns::on(device) else { continue };
        let device = device.word();
        let output = netns.tcpcat(&format!("demo --device {device} --bytes 1M --json"));
        said(&output, 0);
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = shown["transfers"].as_array().unwrap();
        assert_eq!(rows.len(), 6, "{device}");
        for row in rows {
            assert_eq!(
                (&row["verified"], &row["controller"]),
                (&true.into(), &"cubic".into()),
                "{device}: {row}"
            );
        }
    }
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    for device in DEVICES {
        let Some(netns) = Netns::on(device) else { continue };
        let device = device.word();
        let links = || netns.shell("ip -o link | cut -d: -f2; nft list tables 2> /dev/null; true");
        let before = links();
        let demo = netns.start(&format!("demo --device {device} --bytes 64G --loss 0"));
        demo.await_line("in this process's private network namespace");
        let own = demo.network_namespace();
        assert!(namespaces().contains(&own), "{device}");
        // Host B's device is the last to be made; of a raw one the sockets show.
        match device {
            "raw" => demo.await_network("packet", |sockets| sockets.lines().count() > 2),
            "packet" => demo.await_network("dev", |links| links.contains("eth-b:")),
            _ => demo.await_network("dev", |links| links.contains(&format!("{device}-b:"))),
        }
        demo.signal("INT");
        let output = demo.finish();
        assert_ne!(output.status.code(), Some(0), "{device}");
        assert!(!namespaces().contains(&own), "{device}");
        assert_eq!(links(), before, "{device}");
    }
}

/// Two namespaces joined by a cable: the stack's end has no address of the kernel's.
struct Wire {
    near: Netns,
    far: Netns,
}

impl Wire {
    /// Makes it, unless packet sockets cannot work here.
    fn new() -> Option<Self> {
        let (near, far) = (Netns::on(Needs::Packet)?, Netns::on(Needs::Packet)?);
        near.cable("wire", &far, "peer");
        far.shell("ip addr add 10.87.0.1/24 dev peer; ip -6 addr add fd87::1/64 dev peer nodad");
        Some(Self { near, far })
    }
}

/// Runs tcpcat in `netns` without a capability, such as `-net_raw`.
fn without(netns: &Netns, capability: &str, line: &str) -> Output {
    let words = ["--bounding-set", capability, TCPCAT].into_iter().chain(line.split(' '));
    netns.command("setpriv").args(words).output().unwrap()
}

/// Moves a file from a stack in `near` to the kernel's TCP in `far`, and another back.
fn moves_both_ways(near: &Netns, far: &Netns, own: &str, kernel: &str, device: &str) {
    let scratch = Scratch::new();
    let from = random_file(&scratch, "from", 3_000_001);
    let (there, back) = (scratch.path("there"), scratch.path("back"));
    // On any address: a TAP device has none of the kernel's before the stack runs.
    let any = if kernel.contains(':') { "-6" } else { "-4" };
    let receiver = far.listen(&format!("recv {} -l 7000 {any} --kernel --verify -v", there.display()));
    let sent = near.tcpcat(&format!("send {} {kernel} 7000 --verify {device}", from.display()));
    assert!(said(&sent, 0).contains("verified"), "{device}: {sent:?}");
    said(&receiver.finish(), 0);
    let receiver = near.listen(&format!("recv {} -l 7000 --verify -v {device}", back.display()));
    let sent = far.tcpcat(&format!("send {} {own} 7000 --verify --kernel -s {kernel}", from.display()));
    assert!(said(&sent, 0).contains("verified"), "{device}: {sent:?}");
    let words = said(&receiver.finish(), 0);
    assert!(!words.contains("warning"), "{device}: {words}");
    for to in [there, back] {
        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "{device}: {to:?}");
    }
}

/// All network namespaces that processes are in.
fn namespaces() -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    // Others' processes end meanwhile.
    processes.filter_map(|process| fs::read_link(process.path().join("ns/net")).ok()).collect()
}

/// The stdout of a command that ended with `code`.
fn told(output: &Output, code: i32) -> String {
    said(output, code);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A namespace whose loopback interface has two more addresses.
fn raw_netns() -> Option<Netns> {
    let netns = Netns::on(Needs::Raw)?;
    netns.shell("ip addr add 10.88.0.1/32 dev lo; ip addr add 10.88.0.2/32 dev lo");
    Some(netns)
}

/// All that the demonstration has tables for.
const DEVICES: [Needs; 4] = [Needs::Tun, Needs::Raw, Needs::Packet, Needs::Tap];

const PACKET: &str = "--device packet --interface wire";
const RAW1: &str = "--device raw --addr 10.88.0.1/24";
const RAW2: &str = "--device raw --addr 10.88.0.2/24";

/// Opens `tun1` as descriptor 3 and becomes the program in its arguments, as a service manager does. The
/// numbers are TUNSETIFF, and IFF_TUN, IFF_NO_PI and IFF_VNET_HDR.
const PARENT: &str = r#"
import fcntl, os, struct, subprocess, sys
fd = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH22x", b"tun1", 0x5001))
for words in ("addr add 10.9.1.1/24 dev tun1", "link set tun1 up"):
    subprocess.run(["ip", *words.split()], check=True)
if fd != 3:
    os.dup2(fd, 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[1], sys.argv[1:])
"#;
