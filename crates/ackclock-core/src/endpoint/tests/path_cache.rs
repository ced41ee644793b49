//! A connection begins with the figures that earlier ones to the same host have learned (RFC 9040): the
//! timeout of its SYN, the size of its packets, the end of its slow start.

use super::icmp::error;
use super::*;
use crate::trace::{Entry, Extension, TraceConfig, TraceKeep};
use crate::{KnownPath, MtuProbing, PathCacheConfig};

const RTT: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
const TOO_BIG: (u8, u8) = (3, 4);

/// An endpoint that remembers paths and opens connections to a scripted peer.
fn remembering() -> Host {
    with(PathCacheConfig::default())
}

fn with(cache: PathCacheConfig) -> Host {
    let mut config = EndpointConfig { path_cache: Some(Box::new(cache)), ..config(SERVER) };
    let probing = Some(Box::new(MtuProbing::default()));
    let trace = Some(TraceConfig { records: 1000, keep: TraceKeep::All });
    config.tcp = TcpConfig { trace, mtu_probing: probing, ..tcp_config() }.into();
    Host::with(config)
}

/// A connection that is open, and its next sequence number.
#[derive(Clone, Copy)]
struct Open {
    id: ConnectionId,
    local: SocketAddr,
    peer: SocketAddr,
    nxt: SeqNum,
}

fn connect(host: &mut Host, peer: SocketAddr) -> (ConnectionId, SentSegment) {
    let id = host.endpoint.connect(host.now, peer, (None, 0), None).unwrap();
    let syn = host.sent().remove(0);
    assert!(syn.flags.contains(Flags::SYN));
    (id, syn)
}

/// The peer answers a SYN.
fn answer(host: &mut Host, id: ConnectionId, syn: &SentSegment) -> Open {
    let options = TcpOptions { mss: Some(1460), ..TcpOptions::default() };
    let fields = Fields { flags: Flags::SYN | Flags::ACK, options, ..ack(1000, syn.seq + 1) };
    host.give(syn.dst, syn.src, fields, &[]);
    assert_eq!(host.state(id), State::Established);
    Open { id, local: syn.src, peer: syn.dst, nxt: syn.seq + 1 }
}

/// Opens a connection to the peer, a round trip away.
fn open(host: &mut Host, peer: SocketAddr) -> Open {
    let (id, syn) = connect(host, peer);
    host.wait(RTT);
    answer(host, id, &syn)
}

impl Open {
    /// Sends `len` bytes. Returns the sizes of the packets.
    fn write(&self, host: &mut Host, len: usize) -> Vec<usize> {
        host.endpoint.update(host.now, self.id, |it, now| it.write(now, &vec![7; len])).unwrap().unwrap();
        host.sent().iter().map(|segment| segment.bytes).collect()
    }

    /// The peer resets it.
    fn reset(&self, host: &mut Host) {
        let reset = Fields { flags: Flags::RST, seq: SeqNum::new(1001), ..ack(0, SeqNum::new(0)) };
        host.give(self.peer, self.local, reset, &[]);
        assert_eq!(host.state(self.id), State::Closed);
    }

    fn ssthresh(&self, host: &Host) -> Option<u64> {
        host.endpoint.connection(self.id).unwrap().info(host.now).ssthresh
    }

    /// The figures that it took from the cache, as its trace tells.
    fn taken(&self, host: &Host) -> Vec<(Extension, u32)> {
        let entries = host.endpoint.connection(self.id).unwrap().trace().filter_map(Entry::decode);
        let of_extension = |entry| match entry {
            Entry::Extension { what, value } => Some((what, value)),
            _ => None,
        };
        entries.filter_map(of_extension).collect()
    }
}

fn only(host: &Host) -> KnownPath {
    let paths = host.endpoint.known_paths(host.now);
    assert_eq!(paths.len(), 1, "{paths:?}");
    paths[0]
}

/// How long the SYN of a new connection waits before it is repeated.
fn syn_timeout(host: &mut Host, peer: SocketAddr) -> Duration {
    let (id, _) = connect(host, peer);
    let due = host.endpoint.poll_timeout().unwrap();
    host.endpoint.update(host.now, id, |connection, now| connection.abort(now));
    host.endpoint.release(host.now, id);
    host.sent();
    due.saturating_since(host.now)
}

// RFC 6298 §2: 1 s without a measurement; SRTT + 4 * RTTVAR with one, and RTTVAR is half of the first.
#[test]
fn the_second_syn_waits_as_long_as_the_path_is_known_to_take() {
    let mut host = remembering();
    assert_eq!(syn_timeout(&mut host, client(80)), SECOND);
    let first = open(&mut host, client(80));
    assert_eq!(syn_timeout(&mut host, client(80)), SECOND, "it is not over yet");
    first.reset(&mut host);
    let known = only(&host);
    assert_eq!((known.local, known.remote), (ip(SERVER), ip(CLIENT)));
    assert_eq!((known.srtt, known.rttvar), (Some(RTT), Some(RTT / 2)));
    assert_eq!((known.pmtu, known.ssthresh, known.age), (None, None, Duration::ZERO));

    assert_eq!(syn_timeout(&mut host, client(80)), 3 * RTT);
    assert_eq!(syn_timeout(&mut host, client(81)), 3 * RTT, "a path leads to a host");
    assert_eq!(syn_timeout(&mut host, "10.0.0.3:80".parse().unwrap()), SECOND);
    assert_eq!(host.endpoint.counters().known_paths_used, 2);
    let second = open(&mut host, client(80));
    assert_eq!(second.taken(&host), [(Extension::KnownRtt, 300_000)]);
}

// RFC 6298 §5 (5.7): after a SYN was repeated, the timeout is 3 s; and so is the most that is expected.
#[test]
fn a_path_that_has_become_longer_costs_one_syn_and_a_long_one_none() {
    let mut host = remembering();
    open(&mut host, client(80)).reset(&mut host);
    let (id, syn) = connect(&mut host, client(80));
    assert_eq!(host.wait(4 * RTT).len(), 1, "repeated after 300 ms");
    let open = answer(&mut host, id, &syn);
    assert_eq!(host.endpoint.connection(id).unwrap().info(host.now).rto, 3 * SECOND);
    open.reset(&mut host);

    let (id, syn) = connect(&mut host, "10.0.0.4:80".parse().unwrap());
    host.wait(900 * RTT / 100);
    answer(&mut host, id, &syn).reset(&mut host);
    assert_eq!(syn_timeout(&mut host, "10.0.0.4:80".parse().unwrap()), 27 * RTT, "900 ms and twice as much");
}

// RFC 8201 §5.3 and RFC 1191 §3: a path MTU is known for ten minutes, and nothing makes it younger.
#[test]
fn the_next_connections_packets_fit_for_ten_minutes() {
    let mut host = remembering();
    let learned = host.now;
    let first = open(&mut host, client(80));
    assert_eq!(first.write(&mut host, 1460), [1500]);
    let packet = error(TOO_BIG, 1400, (first.local, first.peer), first.nxt);
    host.endpoint.handle_packet(host.now, &packet, RxMeta::default());
    first.reset(&mut host);
    assert_eq!(only(&host).pmtu, Some(1400));

    while host.now.saturating_since(learned) < 600 * SECOND {
        let (id, syn) = connect(&mut host, client(80));
        assert_eq!(syn.options.mss, Some(1460), "what the device takes, the other way");
        host.wait(RTT);
        let next = answer(&mut host, id, &syn);
        assert_eq!(next.write(&mut host, 2720), [1400, 1400]);
        assert_eq!(next.taken(&host)[1], (Extension::KnownMtu, 1400));
        next.reset(&mut host);
        host.wait(50 * SECOND);
    }
    let next = open(&mut host, client(80));
    assert_eq!(next.write(&mut host, 2920), [1500, 1500]);
}

// RFC 9040 §6.3: the most recent values are used, so the cache always has the latest of any connection.
#[test]
fn latest_path_mtu_counts_be_it_larger_or_smaller() {
    let mut host = remembering();
    let connections = [1300, 1400, 1350].map(|mtu| {
        let one = open(&mut host, client(80));
        one.write(&mut host, 1460);
        let packet = error(TOO_BIG, mtu, (one.local, one.peer), one.nxt);
        host.endpoint.handle_packet(host.now, &packet, RxMeta::default());
        (one, mtu)
    });
    for (one, mtu) in connections {
        one.reset(&mut host);
        assert_eq!(only(&host).pmtu, Some(mtu));
    }
    let untried = open(&mut host, client(80));
    untried.reset(&mut host);
    assert_eq!(only(&host).pmtu, Some(1350));
}

/// A connection of which `acked` of 20 segments arrive before one is lost, and which ends after that.
fn lose_one(host: &mut Host, open: Open) {
    open.write(host, 14_600);
    host.wait(RTT);
    for n in 1..=9 {
        host.give(open.peer, open.local, ack(1001, open.nxt + n * 1460), &[]);
    }
    open.write(host, 50_000);
    // Three duplicates.
    for _ in 0..3 {
        host.give(open.peer, open.local, ack(1001, open.nxt + 9 * 1460), &[]);
    }
}

// RFC 5681 §3.1: ssthresh may be set to what is known of the path.
#[test]
fn slow_start_ends_where_the_last_connection_lost_data() {
    let mut host = remembering();
    let first = open(&mut host, client(80));
    assert_eq!(first.ssthresh(&host), None);
    lose_one(&mut host, first);
    let lost_at = first.ssthresh(&host).expect("a loss sets it");
    first.reset(&mut host);
    assert_eq!(only(&host).ssthresh, Some(lost_at));

    let second = open(&mut host, client(80));
    let expected = lost_at.max(14_600);
    assert_eq!(second.ssthresh(&host), Some(expected), "and not below the initial window");
    let taken = second.taken(&host);
    assert_eq!(taken.last(), Some(&(Extension::KnownSsthresh, u32::try_from(lost_at).unwrap())));
}

#[test]
fn sec_a15_nothing_is_remembered_unless_asked() {
    let mut host = Host::new();
    for _ in 0..2 {
        let (id, syn) = connect(&mut host, client(80));
        assert_eq!(host.endpoint.poll_timeout(), Some(host.now + SECOND));
        host.wait(RTT);
        answer(&mut host, id, &syn).reset(&mut host);
    }
    assert_eq!(host.endpoint.known_paths(host.now), []);
    assert_eq!(host.endpoint.counters().known_paths_used, 0);
}

#[test]
fn entries_are_bounded_in_number_and_age() {
    let mut host = with(PathCacheConfig { paths_max: 2, age_max: 60 * SECOND });
    let peer = |n: u8| SocketAddr::from(([10, 0, 1, n], 80));
    for n in [1, 2, 1, 3] {
        open(&mut host, peer(n)).reset(&mut host);
    }
    let known =
        |host: &Host| host.endpoint.known_paths(host.now).iter().map(|path| path.remote).collect::<Vec<_>>();
    assert_eq!(known(&host), [peer(1).ip(), peer(3).ip()], "2 was not used for the longest time");
    host.wait(59 * SECOND);
    assert_eq!(known(&host).len(), 2);
    host.wait(2 * SECOND);
    assert_eq!(known(&host), [] as [IpAddr; 0]);
    assert_eq!(syn_timeout(&mut host, peer(3)), SECOND);
}

/// A connection from another address does not show what this one did.
#[test]
fn sec_a15_what_one_address_learned_no_other_shows() {
    let mut config = EndpointConfig { path_cache: Some(Box::default()), ..config(SERVER) };
    config.addresses.push(ip("10.0.0.9"));
    let mut host = Host::with(config);
    open(&mut host, client(80)).reset(&mut host);
    let other = (Some(ip("10.0.0.9")), 0);
    host.endpoint.connect(host.now, client(80), other, None).unwrap();
    assert_eq!(host.sent().len(), 1);
    assert_eq!(host.endpoint.poll_timeout(), Some(host.now + SECOND));
}

#[test]
fn a_peer_that_stops_answering_is_forgotten() {
    let mut host = remembering();
    open(&mut host, client(80)).reset(&mut host);
    let second = open(&mut host, client(80));
    second.write(&mut host, 100);
    host.wait(2000 * SECOND);
    assert_eq!(host.state(second.id), State::Closed);
    assert_eq!(host.endpoint.known_paths(host.now), []);
}

#[test]
fn what_ended_in_time_wait_counts_and_the_server_learns_too() {
    let cache = |addr| EndpointConfig { path_cache: Some(Box::default()), ..config(addr) };
    let mut pair = Pair::at(Instant::from_millis(1000), cache(CLIENT), cache(SERVER));
    let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
    let client = pair.client.connect(pair.now, server(), (None, 0), None).unwrap();
    pair.run(SECOND);
    let accepted = pair.server.accept(pair.now, listener).unwrap();
    pair.client.release(pair.now, client);
    pair.server.release(pair.now, accepted);
    pair.run(SECOND);
    for end in [&pair.client, &pair.server] {
        let paths = end.known_paths(pair.now);
        assert_eq!(paths[0].srtt, Some(2 * Pair::DELAY), "{paths:?}");
    }
}
