//! QUIC by quinn on a simulated network: its share of a bottleneck beside TCP, marks, and partitions.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ackclock::quinn::endpoint;
use ackclock_sim::observe::PacketLog;
use ackclock_sim::report::LinkReport;
use ackclock_sim::units::{Limit, Rate, Span};
use ackclock_sim::{Direction, Faults, QueueConfig, Scenario, VirtualNetwork};
use ackclock_tests::kernel::payload::{self, Digest, Payload};
use ackclock_tests::quic::{self, NAME, configs, give, seeded};
use quinn::{Connection, ConnectionError, ReadError, TransportConfig};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use super::support::{dumbbell, ends, path, two};

/// Bytes of a download.
const LEN: u64 = 8_000_000;

/// The fate of two downloads at once: of QUIC and of TCP.
#[derive(Debug, PartialEq)]
struct Race {
    /// The bytes that each had when the first was complete.
    bytes: [u64; 2],
    /// When that was.
    first: Duration,
    /// When both were.
    both: Duration,
    /// The packets that QUIC's server held for lost, and how often it slowed down.
    lost: u64,
    slowed: u64,
}

impl Race {
    /// QUIC's share in thousandths of what both got while both ran.
    fn share(&self) -> u64 {
        self.bytes[0] * 1000 / (self.bytes[0] + self.bytes[1])
    }

    /// The kbit/s of each while both ran.
    fn kbits(&self) -> [u128; 2] {
        self.bytes.map(|bytes| u128::from(bytes) * 8 / self.first.as_millis())
    }
}

/// 10 Mbit/s and 44 ms there and back, 37 packets, with this queue.
fn bottleneck(queue: QueueConfig) -> Scenario {
    dumbbell(Direction::new(Rate::mbit(10), Span::millis(20)).queue(queue))
}

/// Host `a` downloads by QUIC from `x`, and `b` by TCP from `y`, at once.
fn race(scenario: &Scenario) -> (Race, VirtualNetwork) {
    let mut net = VirtualNetwork::new(scenario).unwrap();
    let race = race_on(&mut net);
    println!("QUIC and TCP get {:?} kbit/s, a share of {} in 1000: {race:?}", race.kbits(), race.share());
    (race, net)
}

fn race_on(net: &mut VirtualNetwork) -> Race {
    let (quic_client, quic_server) = (net.stack("a").unwrap(), net.stack("x").unwrap());
    let (tcp_client, listener, tcp_addr) = ends(net, "b", "y");
    let quic_addr = (net.lookup("x").unwrap(), 443).into();
    let (quic_bytes, tcp_bytes) = (Cell::new(0), Cell::new(0));
    let expected = digest_of(Payload::new(LEN, 3));
    let raced = net.run(async {
        let begun = Instant::now();
        let (server, client) = configs();
        let server = endpoint(&quic_server, quic_addr, seeded(1), Some(server)).unwrap();
        let giving = tokio::spawn(async move {
            let connection = server.accept().await.unwrap().await.unwrap();
            let mut stream = connection.open_uni().await.unwrap();
            payload::send(&mut stream, LEN, 3).await.unwrap();
            stream.finish().unwrap();
            connection.closed().await;
            connection.stats().path
        });
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            payload::send(&mut stream, LEN, 3).await.unwrap();
        });
        let local = "0.0.0.0:0".parse().unwrap();
        let quic_client = endpoint(&quic_client, local, seeded(2), None).unwrap();

        let by_quic = async {
            let connection = quic_client.connect_with(client, quic_addr, NAME).unwrap().await.unwrap();
            let mut hasher = blake3::Hasher::new();
            quic::take(&connection, |part| {
                hasher.update(part);
                quic_bytes.set(quic_bytes.get() + part.len() as u64);
            })
            .await
            .unwrap();
            assert_eq!(Digest { bytes: quic_bytes.get(), hash: hasher.finalize() }, expected);
            (Instant::now(), [quic_bytes.get(), tcp_bytes.get()])
        };
        let by_tcp = async {
            let mut stream = tcp_client.connect(tcp_addr).await.unwrap();
            let (mut hasher, mut buf) = (blake3::Hasher::new(), vec![0; 65_536]);
            loop {
                let len = stream.read(&mut buf).await.unwrap();
                if len == 0 {
                    break;
                }
                hasher.update(&buf[..len]);
                tcp_bytes.set(tcp_bytes.get() + len as u64);
            }
            assert_eq!(Digest { bytes: tcp_bytes.get(), hash: hasher.finalize() }, expected);
            (Instant::now(), [quic_bytes.get(), tcp_bytes.get()])
        };
        let (by_quic, by_tcp) = tokio::join!(by_quic, by_tcp);
        let (first, last) = if by_quic.0 <= by_tcp.0 { (by_quic, by_tcp) } else { (by_tcp, by_quic) };
        let path = giving.await.unwrap();
        let (lost, slowed) = (path.lost_packets, path.congestion_events);
        Race { bytes: first.1, first: first.0 - begun, both: last.0 - begun, lost, slowed }
    });
    raced.unwrap()
}

fn digest_of(mut payload: Payload) -> Digest {
    while payload.next_block().is_some() {}
    payload.digest()
}

/// Both together get what the bottleneck carries, less headers and the beginning.
fn assert_full(race: &Race) {
    let all: u128 = race.kbits().iter().sum();
    assert!((9_000..=10_000).contains(&all), "{all} of 10,000 kbit/s");
}

/// quinn's controller is CUBIC, as this stack's is by default, and the round trips are the same. Neither can
/// get more than twice the other's rate, however the losses fall.
#[test]
fn quic_and_tcp_share_a_queue_by_their_equal_controllers() {
    for limit in [37, 50, 100] {
        let (race, net) = race(&bottleneck(QueueConfig::drop_tail(Limit::Packets(limit))));
        assert_full(&race);
        assert!((333..=667).contains(&race.share()), "{} in 1000 with {limit} packets", race.share());
        // This queue drops each packet that one of them loses, and no other queue does.
        let dropped: u64 = link(&net, "l-r:back").drops.iter().map(|(_, dropped)| dropped).sum();
        assert!(race.lost > 0 && race.lost < dropped, "{} of {dropped}", race.lost);
    }
}

/// Each has a queue of its own. QUIC loses 1.4 % to its headers; the rest of the difference is how often each
/// had to wait for room.
#[test]
fn fair_queues_give_quic_and_tcp_the_same() {
    let (race, _) = race(&bottleneck(QueueConfig::fq_codel(Limit::Packets(1000), false)));
    assert_full(&race);
    assert!((475..=525).contains(&race.share()), "{} in 1000", race.share());
}

/// The queue marks QUIC's packets, which are ECN-capable, and drops TCP's, which are not by default. QUIC's
/// receiver reports the marks, and its sender slows down without a loss: at most once for each, since marks
/// of one round trip count once (RFC 9002 §7.3.2).
#[test]
fn marks_reach_quics_receiver_and_slow_its_sender() {
    let (race, net) = race(&bottleneck(QueueConfig::codel(Limit::Packets(1000), true)));
    assert_full(&race);
    let queue = link(&net, "l-r:back");
    assert_eq!(race.lost, 0);
    assert!(queue.marked >= 10 && (queue.marked / 2..=queue.marked).contains(&race.slowed), "{race:?}");
    assert!((333..=667).contains(&race.share()), "{} in 1000", race.share());
}

/// Each run has other keys and connection IDs. They change what packets contain, but neither how
/// long they are nor when they leave.
#[test]
fn the_same_seeds_give_the_same_packets_at_the_same_times() {
    let run = || {
        let queue = QueueConfig::drop_tail(Limit::Packets(50));
        let mut net = VirtualNetwork::new(&bottleneck(queue)).unwrap();
        let log = Rc::new(RefCell::new(PacketLog::default()));
        net.observe(Rc::clone(&log));
        let race = race_on(&mut net);
        drop(net);
        let log = Rc::into_inner(log).unwrap().into_inner();
        // Time, place, packet and length; not the hash of its bytes, which ends a record.
        let known = log.bytes().chunks(PacketLog::RECORD).flat_map(|record| &record[..PacketLog::RECORD - 8]);
        (race, known.copied().collect::<Vec<u8>>())
    };
    let ((race, log), (race_again, log_again)) = (run(), run());
    assert_eq!(race, race_again);
    assert!(log.len() > 10_000 * PacketLog::RECORD && log == log_again);
}

/// Runs `test` on host `a` with a connection to a server on `b`, which both give up after ten silent seconds.
fn on_a_connection<T>(bytes: u64, test: impl AsyncFnOnce(Connection, Faults) -> T) -> T {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client_stack, server_stack) = (net.stack("a").unwrap(), net.stack("b").unwrap());
    let (faults, addr) = (net.faults(), (net.lookup("b").unwrap(), 443).into());
    let tested = net.run(async {
        let (mut server, mut client) = configs();
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(IDLE.try_into().unwrap()));
        let transport = Arc::new(transport);
        server.transport_config(Arc::clone(&transport));
        client.transport_config(transport);
        let server = endpoint(&server_stack, addr, seeded(1), Some(server)).unwrap();
        tokio::spawn(give(server, bytes, 3));
        let local = "0.0.0.0:0".parse().unwrap();
        let client_end = endpoint(&client_stack, local, seeded(2), None).unwrap();
        let connection = client_end.connect_with(client, addr, NAME).unwrap().await.unwrap();
        test(connection, faults).await
    });
    tested.unwrap()
}

#[test]
fn a_download_goes_on_after_a_partition_that_is_shorter_than_the_idle_timeout() {
    let expected = digest_of(Payload::new(LEN, 3));
    let took = on_a_connection(LEN, async |connection, faults| {
        faults.after(Duration::from_secs(2)).partition("a", "b").unwrap();
        faults.after(Duration::from_secs(7)).heal("*", "*").unwrap();
        let (begun, mut got, mut hasher) = (Instant::now(), 0, blake3::Hasher::new());
        let taken = quic::take(&connection, |part| {
            hasher.update(part);
            got += part.len() as u64;
        });
        taken.await.unwrap();
        assert_eq!(Digest { bytes: got, hash: hasher.finalize() }, expected);
        begun.elapsed()
    });
    // 6.8 s for the bytes and the headers, 5 s of silence. The server then tries again after at most another
    // 5 s, as the time between its probes doubles.
    let took = took.as_millis();
    assert!((11_800..17_500).contains(&took), "{took} ms");
}

#[test]
fn a_download_fails_with_the_idle_timeout_of_a_longer_partition() {
    on_a_connection(LEN, async |connection, faults| {
        let cut = Instant::now() + Duration::from_secs(2);
        faults.after(Duration::from_secs(2)).partition("a", "b").unwrap();
        let error = quic::take(&connection, |_| {}).await.unwrap_err();
        assert_eq!(error, ReadError::ConnectionLost(ConnectionError::TimedOut));
        // From the last packet that came, a few milliseconds before, or the first that was sent after it.
        let silent = Instant::now() - cut;
        assert!(silent < IDLE + ROUND_TRIPS && silent > IDLE - Duration::from_millis(50), "{silent:?}");
    });
}

/// Nothing is sent, so that nothing but quinn's timer could move the time.
#[test]
fn an_idle_connection_ends_at_its_timeout() {
    on_a_connection(0, async |connection, _| {
        quic_stream_is_empty(&connection).await;
        let idle = Instant::now();
        assert_eq!(connection.closed().await, ConnectionError::TimedOut);
        // Acknowledgements, and probes of the path's MTU, cross the path meanwhile.
        let took = idle.elapsed();
        assert!(took >= IDLE && took < IDLE + ROUND_TRIPS, "{took:?}");
    });
}

async fn quic_stream_is_empty(connection: &Connection) {
    let mut stream = connection.accept_uni().await.unwrap();
    assert!(stream.read_to_end(1).await.unwrap().is_empty());
}

fn link(net: &VirtualNetwork, name: &str) -> LinkReport {
    net.report().links.into_iter().find(|link| link.name == name).expect("a link of this name")
}

/// After so long without a packet from the peer, a connection of [`on_a_connection`] ends.
const IDLE: Duration = Duration::from_secs(10);
/// Some round trips.
const ROUND_TRIPS: Duration = Duration::from_millis(500);
