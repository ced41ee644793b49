//! Which handshakes and connections the histograms count, and when.

use super::*;
use crate::testing::Pair;

const MILLI: Duration = Duration::from_millis(1);

/// How many values each histogram has: handshakes, round trips, rates, shares.
fn counts(endpoint: &Endpoint) -> Vec<u64> {
    endpoint.histograms().iter().map(crate::Histogram::count).collect()
}

#[test]
fn a_handshake_counts_from_the_first_syn_or_the_syn_ack_to_its_answer() {
    let (mut host, _) = Host::listening(on_port(PORT));
    let iss = host.from(4000, syn(1000))[0].seq;
    host.now += 30 * MILLI;
    host.from(4000, ack(1001, iss + 1));
    let handshake = |host: &Host| {
        let handshake = host.endpoint.histograms().handshake;
        (handshake.count(), handshake.sum())
    };
    assert_eq!(handshake(&host), (1, 30_000));

    // The SYN is lost once; the timeout is a second.
    let mut host = Host::new();
    host.endpoint.connect(host.now, client(80), (None, 5000), None).unwrap();
    let iss = host.sent()[0].seq;
    assert_eq!(host.wait(1010 * MILLI).len(), 1);
    let answer = fields(Flags::SYN | Flags::ACK, 7000, iss + 1);
    host.give(client(80), SocketAddr::new(ip(SERVER), 5000), answer, &[]);
    assert_eq!(handshake(&host), (1, 1_010_000));
    assert_eq!(counts(&host.endpoint), [1, 0, 0, 0], "the connection is open");
}

#[test]
fn a_connection_counts_once_at_its_end() {
    let mut pair = Pair::new();
    let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
    let [client, accepted] = pair.open(server(), listener);
    let written = pair.client.update(pair.now, client, |connection, now| connection.write(now, &[7; 50_000]));
    assert_eq!(written, Some(Ok(50_000)));
    pair.run(Duration::from_secs(1));
    assert_eq!(counts(&pair.client), [1, 0, 0, 0]);
    // The client closes first: its end becomes a TIME-WAIT record.
    pair.client.release(pair.now, client);
    pair.run(Duration::from_secs(1));
    let mut buf = vec![0; 60_000];
    let read = pair.server.update(pair.now, accepted, |connection, now| connection.read(now, &mut buf));
    assert_eq!(read, Some(Ok(50_000)));
    pair.server.release(pair.now, accepted);
    pair.run(Duration::from_secs(1));
    assert_eq!((pair.client.connection_count(), pair.server.connection_count()), (0, 0));
    assert_eq!(counts(&pair.client), [1, 1, 1, 1]);
    // The server sent no data, so there is no share of it.
    assert_eq!(counts(&pair.server)[3], 0);
    pair.run(Duration::from_secs(100));
    assert_eq!(counts(&pair.client), [1, 1, 1, 1], "the end of TIME-WAIT is not another");

    let all = pair.client.histograms();
    assert_eq!(all.retransmitted.up_to().next(), Some((0, 1)), "nothing was retransmitted");
    // Each way takes 5 ms, except in the handshake, which takes no time here.
    assert!((1000..60_000).contains(&all.rtt.sum()), "{}", all.rtt.sum());
}

#[test]
fn a_connection_that_is_refused_was_never_one() {
    let mut host = Host::new();
    host.endpoint.connect(host.now, client(80), (None, 5000), None).unwrap();
    let iss = host.sent()[0].seq;
    let refusal = fields(Flags::RST | Flags::ACK, 0, iss + 1);
    host.give(client(80), SocketAddr::new(ip(SERVER), 5000), refusal, &[]);
    assert_eq!(counts(&host.endpoint), [0; 4]);
}

#[test]
fn a_connection_that_the_peer_resets_counts() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    host.from(4000, fields(Flags::RST, 1001, iss + 1));
    assert_eq!(host.state(id), State::Closed);
    host.endpoint.release(host.now, id);
    assert_eq!(counts(&host.endpoint)[1], 1, "once, though its slot goes later");
}
