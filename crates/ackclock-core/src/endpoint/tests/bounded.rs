//! Which entry goes when a table is full. Each bounded table of the endpoint keeps its bound and its rule,
//! and its entries in use outlive a flood of new ones.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use ackclock_wire::FastOpenCookie;

use super::super::keys::{Key, Purpose};
use super::super::replies::Replies;
use super::*;
use crate::budget::Budget;
use crate::reassembly::{FragmentFate, Reassembler, ReassemblyConfig};
use crate::udp::PathMtus;
use crate::{UdpOptions, UdpTransmit};

struct Table {
    /// Its constants or settings.
    bounds: &'static [&'static str],
    rule: &'static str,
    /// Fills it three times over, and panics unless the rule holds and what is in use survives.
    flood: fn(),
}

const TABLES: &[Table] = &[
    Table {
        bounds: &["syn_backlog", "HALF_OPEN_MAX"],
        rule: "half-open records: none goes; a newcomer is answered by a cookie",
        flood: half_open,
    },
    Table {
        bounds: &["backlog"],
        rule: "accept queues: none goes; a newcomer waits outside",
        flood: accept_queue,
    },
    Table { bounds: &["time_wait_max"], rule: "TIME-WAIT: the one that ends first goes", flood: time_wait },
    Table { bounds: &["orphans_max"], rule: "orphans: the oldest is reset", flood: orphans },
    Table {
        bounds: &["CACHE_MAX"],
        rule: "Fast Open servers: the one used longest ago goes",
        flood: servers,
    },
    Table {
        bounds: &["PATHS_MAX"],
        rule: "path MTUs of datagrams: the one used longest ago goes",
        flood: paths,
    },
    Table {
        bounds: &["packets_max", "bytes_max", "fragments_max"],
        rule: "reassembly: the oldest goes; a source with a quarter pays itself",
        flood: fragments,
    },
    Table { bounds: &["PLACES"], rule: "known sources: who came last has the place", flood: known_sources },
    Table {
        bounds: &["receive_buffer_max"],
        rule: "datagrams to read: none goes; a newcomer is dropped, at its socket alone",
        flood: datagrams,
    },
];

/// Bounds of things that have no entries to lose, or whose entries leave in order and are never replaced.
const OTHER_BOUNDS: &[(&str, &str)] = &[
    ("INDEX_MAX", "connections: another is refused with an error"),
    ("GROUPS_MAX", "multicast groups of all sockets: another is refused with an error"),
    ("SOCKETS_MAX", "UDP sockets: another is refused with an error"),
    ("MEMBERS_MAX", "listeners that share a port: another is refused with an error"),
    ("LOOPED_MAX", "packets to this endpoint: a newcomer is dropped, and sent again"),
    ("STRAYS_MAX", "packets for another shard: a newcomer is dropped, and sent again"),
    ("REPLIES_MAX", "answers without a connection: those to strangers go last"),
    ("SAVED_MAX", "answers saved while the driver is behind"),
    ("ICMP_MAX", "ICMP to send: a newcomer is dropped"),
    ("HELD_MAX", "trace records: the newest batch is dropped, and counted"),
    ("LITTLE_MAX", "turns of those with a segment before one of another; no table"),
    ("DURATIONS_MAX", "lists of TIME-WAIT, one for each duration"),
    ("SCALE_MAX", "the largest shift of a window; no table"),
    ("SEGMENTS_MAX", "datagrams of one call: more are an error"),
];

/// Tables of the link and of the stack: the bound, who goes, and the test that fills it.
const ELSEWHERE: &[(&str, &str, &str, &str)] = &[
    (
        "MEMORY_MAX",
        "the memory budget of a stack that is taken over: a larger one is refused",
        "ackclock/tests/hand_over/main.rs",
        "damaged_bytes_are_an_error_and_never_a_panic",
    ),
    (
        "BESIDE_MAX",
        "bytes of a stack that is taken over, beyond its buffers: more are refused",
        "ackclock/tests/hand_over/main.rs",
        "damaged_bytes_are_an_error_and_never_a_panic",
    ),
    (
        "neighbours_max",
        "neighbours: those that never answer go before those in use",
        "ackclock-link/src/link/tests/hostile.rs",
        "a_flood_of_questions_fills_the_table_and_takes_no_place_from_a_neighbour_in_use",
    ),
    (
        "waiting_packets_max",
        "packets for a neighbour: the oldest goes",
        "ackclock-link/src/link/tests/neighbours.rs",
        "a_queue_that_is_full_drops_its_oldest_packet",
    ),
    (
        "waiting_bytes_max",
        "packets for all neighbours: those of the longest queue go",
        "ackclock-link/src/link/tests/hostile.rs",
        "neighbours_that_never_answer_take_nothing_from_those_that_do",
    ),
    (
        "messages_max",
        "replies of the link: a newcomer is dropped",
        "ackclock-link/src/link/tests/hostile.rs",
        "replies_that_nobody_takes_away_are_bounded",
    ),
    (
        "routers_max",
        "routers: another is ignored",
        "ackclock-link/src/link/tests/routers.rs",
        "routers_and_prefixes_and_addresses_are_bounded",
    ),
    (
        "prefixes_max",
        "prefixes: another is ignored",
        "ackclock-link/src/link/tests/routers.rs",
        "routers_and_prefixes_and_addresses_are_bounded",
    ),
    (
        "addresses_max",
        "the host's own addresses: another is ignored",
        "ackclock-link/src/link/tests/routers.rs",
        "routers_and_prefixes_and_addresses_are_bounded",
    ),
    (
        "PREFIXES_MAX",
        "prefixes of one advertisement: the others are ignored",
        "ackclock-link/src/nd/tests.rs",
        "an_advertisement_with_many_prefixes_is_read_up_to_the_bound",
    ),
    (
        "GROUPS_MAX",
        "multicast groups that are reported: those that were left go unreported",
        "ackclock-link/src/link/tests/memberships.rs",
        "groups_that_come_and_go_quickly_do_not_pile_up",
    ),
    (
        "RECORDS_MAX",
        "groups in one report: others are in another",
        "ackclock-link/src/link/tests/memberships.rs",
        "a_report_of_many_groups_fits_the_least_mtu",
    ),
    (
        "INBOX_MAX",
        "packets for another shard: a newcomer is dropped, and sent again",
        "ackclock/src/inbox.rs",
        "",
    ),
    (
        "LISTED_MAX",
        "connections in one answer: the others are counted",
        "ackclock/src/control/list.rs",
        "connections_beyond_the_most_are_counted",
    ),
    (
        "CLIENTS_MAX",
        "clients of the control socket: another gets an error",
        "ackclock/src/control/mod.rs",
        "",
    ),
    ("REQUEST_MAX", "bytes of a request: more are an error", "ackclock/src/control/client.rs", ""),
    ("CACHED_MAX", "answers of name servers, in a cache of hickory's", "ackclock/src/hickory.rs", ""),
    ("ADDRESSES_MAX", "addresses of a name that are tried", "ackclock/src/dns/race.rs", ""),
    ("SPANS_MAX", "spans in a log of this program's own", "ackclock/src/spans.rs", ""),
    ("SPARE_MAX", "room for wakers that is kept; no entries", "ackclock/src/waiters.rs", ""),
    ("SKIPS_MAX", "turns without a look at the clock; no table", "ackclock/src/spin.rs", ""),
    ("QUEUES_MAX", "queues of a device; more are an error", "ackclock/src/builder/mod.rs", ""),
    (
        "HELD_BYTES_MAX",
        "bytes that a pump holds of one connection: it stops reading",
        "ackclock/tests/api/pump.rs",
        "a_pump_whose_receivers_take_nothing_stops_reading",
    ),
    ("READ_BUFS_MAX", "buffers that a thread keeps for its pumps; no entries", "ackclock/src/pump.rs", ""),
    ("STREAM_BYTES_MAX", "the size of a type; no table", "ackclock/src/stream/mod.rs", ""),
];

#[test]
fn what_is_in_use_outlives_a_flood_in_each_bounded_table() {
    for table in TABLES {
        eprintln!("{}: {}", table.bounds.join(", "), table.rule);
        (table.flood)();
    }
}

/// A new table has to say who goes.
#[test]
fn each_bound_of_the_endpoint_is_in_one_of_the_lists() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut bounds = BTreeSet::new();
    for folder in ["endpoint", "udp", "reassembly"] {
        for entry in fs::read_dir(source.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let names = text.lines().filter_map(|line| line.split_once("const ")?.1.split_once(": u"));
            bounds.extend(names.map(|(name, _)| name.to_owned()).filter(|name| name.ends_with("_MAX")));
        }
    }
    assert!(bounds.len() >= 10, "{bounds:?}");
    for name in TABLES.iter().flat_map(|table| table.bounds).chain(OTHER_BOUNDS.iter().map(|(name, _)| name))
    {
        bounds.remove(*name);
    }
    assert_eq!(bounds, BTreeSet::new(), "a bound whose rule this file does not name");
}

/// The list also has the bounds of the crates around this one, and each test that it names exists.
#[test]
fn each_bound_of_the_link_and_of_the_stack_is_in_the_list() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut bounds = BTreeSet::new();
    let mut folders = vec![crates.join("ackclock-link/src"), crates.join("ackclock/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let constants = text.lines().filter_map(|line| line.split_once("const ")?.1.split_once(": u"));
            bounds.extend(constants.map(|(name, _)| name.to_owned()).filter(|name| name.ends_with("_MAX")));
        }
    }
    let limits = fs::read_to_string(crates.join("ackclock-link/src/config.rs")).unwrap();
    let fields =
        limits.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.strip_suffix("_max: usize,"));
    bounds.extend(fields.map(|name| format!("{name}_max")));
    assert!(bounds.len() >= 15, "{bounds:?}");
    for (bound, rule, file, test) in ELSEWHERE {
        eprintln!("{bound}: {rule}");
        assert!(bounds.remove(*bound), "{bound} is gone");
        let text = fs::read_to_string(crates.join(file)).unwrap();
        assert!(test.is_empty() || text.contains(&format!("fn {test}(")), "{file} has no {test}");
    }
    assert_eq!(bounds, BTreeSet::new(), "a bound whose rule this file does not name");
}

/// A stranger.
fn stranger(n: u32) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from(0xc612_0000 + n).into(), 4000)
}

fn half_open() {
    let options = ListenOptions { syn_backlog: 64, ..on_port(PORT) };
    let (mut host, listener) = Host::listening(options);
    let iss = host.from(4000, syn(1000))[0].seq;
    for n in 0..200 {
        host.give(stranger(n), server(), syn(n), &[]);
    }
    assert!(host.endpoint.counters().cookies_sent > 100, "the table is full");
    host.from(4000, ack(1001, iss + 1));
    let id = host.endpoint.accept(host.now, listener).unwrap();
    assert_eq!(host.endpoint.connection(id).unwrap().tuple().remote(), client(4000));
}

fn accept_queue() {
    let (mut host, listener) = Host::listening(ListenOptions { backlog: 8, ..on_port(PORT) });
    for port in 4000..4024 {
        host.handshake(port);
    }
    let accepted = std::iter::from_fn(|| host.endpoint.accept(host.now, listener));
    let ports: Vec<_> = accepted
        .collect::<Vec<_>>()
        .into_iter()
        .map(|id| host.endpoint.connection(id).unwrap().tuple().remote().port())
        .collect();
    assert_eq!(ports, (4000..4008).collect::<Vec<_>>());
}

fn time_wait() {
    let mut host = Host::with(EndpointConfig { time_wait_max: 100, ..config(SERVER) });
    let listener = host.endpoint.listen(host.now, on_port(PORT)).unwrap();
    for port in 4000..4300 {
        let (id, iss) = host.accepted(listener, port);
        host.endpoint.update(host.now, id, |connection, now| connection.shutdown(now)).unwrap().unwrap();
        host.sent();
        host.from(port, fields(Flags::FIN | Flags::ACK, 1001, iss + 2));
        host.endpoint.release(host.now, id);
        assert!(host.sent().is_empty());
        host.now += Duration::from_millis(1);
    }
    assert_eq!(host.endpoint.counters().time_wait_recycled, 200);
    // The others still answer a FIN that comes again.
    let again =
        |host: &mut Host, port| host.from(port, fields(Flags::FIN | Flags::ACK, 1001, SeqNum::new(0)));
    assert!(again(&mut host, 4199).iter().all(|sent| sent.flags.contains(Flags::RST)));
    assert!(
        again(&mut host, 4200).iter().chain(&again(&mut host, 4299)).all(|sent| sent.flags == Flags::ACK)
    );
}

fn orphans() {
    let mut host = Host::with(EndpointConfig { orphans_max: 8, ..config(SERVER) });
    let listener = host.endpoint.listen(host.now, on_port(PORT)).unwrap();
    let (mine, _) = host.accepted(listener, 3999);
    let mut reset = Vec::new();
    for port in 4000..4024 {
        let (id, _) = host.accepted(listener, port);
        host.endpoint.update(host.now, id, |connection, now| connection.write(now, b"bye").unwrap());
        host.endpoint.release(host.now, id);
        let resets = host.sent().into_iter().filter(|sent| sent.flags.contains(Flags::RST));
        reset.extend(resets.map(|sent| sent.dst.port()));
    }
    assert_eq!(reset, (4000..4016).collect::<Vec<_>>());
    assert_eq!(host.state(mine), State::Established, "it has an owner");
}

fn servers() {
    let mut host = Host::with(config(CLIENT));
    let given = FastOpenCookie::new(&[1; 8]).unwrap();
    let used = SocketAddr::from(([10, 8, 0, 1], 80));
    // Connects to a server, which gives a cookie. Returns whether it had one for it.
    let mut port = 1024;
    let mut connect = |host: &mut Host, to: SocketAddr| {
        port += 1;
        host.endpoint.connect_with_data(host.now, to, (None, port), None, b"x").unwrap();
        let syn = host.sent().remove(0);
        let mut answer = fields(Flags::SYN | Flags::ACK, 77, syn.seq + 1);
        answer.options.fast_open = Some(given);
        host.give(to, syn.src, answer, &[]);
        host.now += Duration::from_millis(1);
        syn.options.fast_open == Some(given)
    };
    assert!(!connect(&mut host, used));
    for n in 0..3 * 1024 {
        connect(&mut host, stranger(n));
        if n % 1000 == 0 {
            assert!(connect(&mut host, used), "after {n} others");
        }
    }
    assert!(connect(&mut host, used));
    assert!(!connect(&mut host, stranger(0)));
}

fn paths() {
    let mut paths = PathMtus::default();
    let at = |n: u32| Instant::from_millis(n.into());
    let used = ip(CLIENT);
    paths.learn(at(0), used, 1400);
    for n in 0..3 * 1024 {
        paths.learn(at(n), stranger(n).ip(), 1300);
        paths.on_sent(used);
    }
    let known = |n: u32| paths.get(at(3 * 1024), stranger(n).ip()).is_some();
    assert_eq!(paths.get(at(3 * 1024), used), Some(1400));
    assert_eq!((known(0), known(3 * 1024 - 1)), (false, true));
}

/// A fragment of 800 bytes of a datagram: `offset` in bytes.
fn fragment(src: Ipv4Addr, id: u16, offset: u16, more: bool) -> Vec<u8> {
    let [id_high, id_low] = id.to_be_bytes();
    let [high, low] = ((offset / 8) | (u16::from(more) << 13)).to_be_bytes();
    let [len_high, len_low] = 820_u16.to_be_bytes();
    let mut packet = vec![0x45, 0, len_high, len_low, id_high, id_low, high, low, 64, 17, 0, 0];
    packet.extend(src.octets());
    packet.extend([10, 0, 0, 1]);
    let checksum = internet_checksum(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.resize(820, 7);
    packet
}

fn fragments() {
    let (mut reassembler, budget) = (Reassembler::new(ReassemblyConfig::default()), Budget::new(64 << 20));
    let now = Instant::from_millis(1000);
    let honest = Ipv4Addr::new(10, 0, 0, 9);
    let mut push = |packet: &[u8]| reassembler.push(now, &budget, packet);
    assert_eq!(push(&fragment(honest, 1, 0, true)), FragmentFate::Waits);
    // Three times the packets that one source may have, which would fill the bytes twice at any time.
    for id in 0..3 * 64 {
        for piece in 0..40 {
            push(&fragment(Ipv4Addr::new(10, 0, 0, 66), id, piece * 800, true));
        }
    }
    assert!(matches!(push(&fragment(honest, 1, 800, false)), FragmentFate::Whole(_)));
    // From everywhere at once, the oldest goes.
    assert_eq!(push(&fragment(honest, 2, 0, true)), FragmentFate::Waits);
    for n in 0..3 * 256 {
        push(&fragment(Ipv4Addr::from(0xc612_0000 + n), 1, 0, true));
    }
    assert_eq!(push(&fragment(honest, 2, 800, false)), FragmentFate::Waits, "its first part is gone");
}

fn known_sources() {
    let mut replies = Replies::default();
    replies.know(Key::derive(&[1; 32], Purpose::Known), std::iter::empty());
    let used = ip(CLIENT);
    let mut kept = 0;
    for n in 0..3 * 4096 {
        replies.remember(stranger(n).ip());
        // Each handshake of its own gives it its place back.
        if n % 64 == 0 {
            kept += u32::from(replies.is_known(used));
            replies.remember(used);
        }
    }
    // Of 191 spans of 64 newcomers, each takes its one place of 4,096 with a chance of 64 in 4,096: three do.
    assert!((180..=191).contains(&kept), "{kept}");
}

fn datagrams() {
    let mut host = Host::new();
    let mut bind = |port| {
        let addr = ListenAddr { addr: Some(ip(SERVER)), port: Some(port) };
        let options = UdpOptions { receive_buffer_max: 10 * 1128, ..UdpOptions::new(addr) };
        host.endpoint.udp_bind(host.now, options).unwrap()
    };
    let (flooded, used) = (bind(7), bind(8));
    let mut peer = Host::with(config(CLIENT));
    let addr = ListenAddr { addr: Some(ip(CLIENT)), port: Some(9) };
    let from = peer.endpoint.udp_bind(peer.now, UdpOptions::new(addr)).unwrap();
    let mut arrives = |host: &mut Host, port: u16, number: u8| {
        let to = SocketAddr::new(ip(SERVER), port);
        peer.endpoint.udp_send(peer.now, from, &UdpTransmit::new(&[number; 1000], Some(to))).unwrap();
        let packet = peer.endpoint.poll_transmit(peer.now, LIMITS).unwrap();
        let packet = packet.to_vec();
        host.endpoint.handle_packet(host.now, &packet, RxMeta::default());
    };
    for number in 0..30 {
        arrives(&mut host, 7, number);
    }
    arrives(&mut host, 8, 99);
    let mut first = |id| {
        let mut buf = [0; 1000];
        host.endpoint.udp_receive(id, &mut buf, false).map(|meta| (meta.len, buf[0]))
    };
    assert_eq!(first(used), Ok((1000, 99)));
    let read: Vec<u8> = std::iter::from_fn(|| first(flooded).ok()).map(|(_, number)| number).collect();
    assert_eq!(read, (0..10).collect::<Vec<u8>>());
}
