//! Goal: names are resolved through the stack itself, and the families of what they stand for race as RFC
//! 8305 says. Everything in virtual time: the name server is a task on a stack of its own.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use ackclock::device::{Capabilities, Device, ReceiveBatch, memory};
use ackclock::{HappyEyeballs, Stack, StackBuilder, TcpListener, TcpStream, TxPacket, UdpSocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

const NAME_SERVER: &str = "10.0.0.2:53";
/// An address of the server's that answers, and an unused one of the same network.
const ALIVE: [&str; 2] = ["fd00::2", "10.0.0.2"];
const DEAD: [&str; 2] = ["fd00::9", "10.0.0.9"];

/// The name server's answer for a name, and its delay.
#[derive(Clone, Copy, Debug)]
struct Zone {
    name: &'static str,
    aaaa: (u64, &'static [&'static str]),
    a: (u64, &'static [&'static str]),
}

const AAAA: u16 = 28;
const A: u16 = 1;

/// Hosts with both families, the client's name server, and what it was asked.
struct Net {
    client: Stack,
    server: Stack,
    asked: Arc<Mutex<Vec<(String, u16)>>>,
}

fn net(zones: &'static [Zone]) -> Net {
    net_of(&["10.0.0.1/24", "fd00::1/64"], zones)
}

/// The client has these addresses.
fn net_of(own: &[&str], zones: &'static [Zone]) -> Net {
    net_with(Stack::builder().name_servers([addr(NAME_SERVER)]), own, zones)
}

fn net_with(client: StackBuilder, own: &[&str], zones: &'static [Zone]) -> Net {
    let (left, right) = memory::pair(memory::Config::default());
    let host = |builder: StackBuilder, own: &[&str]| {
        own.iter().fold(builder, |builder, own| builder.address(own.parse().unwrap())).seed(7)
    };
    let client = host(client, own).device(left).spawn().unwrap();
    let server = host(Stack::builder(), &["10.0.0.2/24", "fd00::2/64"]).device(right).spawn().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let socket = Arc::new(server.udp(addr(NAME_SERVER)).unwrap());
    tokio::spawn(serve_names(socket, zones, Arc::clone(&asked)));
    Net { client, server, asked }
}

/// A name server of a few lines: RFC 1035 §4.1, one question, answers that point to its name.
async fn serve_names(socket: Arc<UdpSocket>, zones: &'static [Zone], asked: Arc<Mutex<Vec<(String, u16)>>>) {
    let mut buf = [0; 1500];
    while let Ok((len, client)) = socket.recv_from(&mut buf).await {
        let query = buf[..len].to_vec();
        let (name, kind, end) = question(&query);
        asked.lock().unwrap().push((name.clone(), kind));
        let zone = zones.iter().find(|zone| format!("{}.", zone.name) == name);
        let (after, found) = match (zone, kind) {
            (Some(zone), AAAA) => zone.aaaa,
            (Some(zone), A) => zone.a,
            _ => (0, &[] as &[&str]),
        };
        let socket = Arc::clone(&socket);
        let answer = answer(&query[..end], found, zone.is_none());
        tokio::spawn(async move {
            sleep(Duration::from_millis(after)).await;
            socket.send_to(&answer, client).await.unwrap();
        });
    }
}

/// The name, in lower case, and the type that are asked for, and where the question ends.
fn question(query: &[u8]) -> (String, u16, usize) {
    let (mut at, mut name) = (12, String::new());
    while query[at] != 0 {
        let len = usize::from(query[at]);
        name += &String::from_utf8_lossy(&query[at + 1..=at + len]).to_lowercase();
        name.push('.');
        at += 1 + len;
    }
    (name, u16::from_be_bytes([query[at + 1], query[at + 2]]), at + 5)
}

fn answer(question: &[u8], found: &[&str], unknown: bool) -> Vec<u8> {
    let mut answer = question.to_vec();
    // A response, recursion desired and available; NXDOMAIN for an unknown name.
    answer[2..4].copy_from_slice(&[0x81, if unknown { 0x83 } else { 0x80 }]);
    answer[6..12].copy_from_slice(&[0, u8::try_from(found.len()).unwrap(), 0, 0, 0, 0]);
    for ip in found {
        let (kind, octets) = match ip.parse().unwrap() {
            IpAddr::V4(ip) => (A, ip.octets().to_vec()),
            IpAddr::V6(ip) => (AAAA, ip.octets().to_vec()),
        };
        answer.extend([0xc0, 12]);
        answer.extend(kind.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0, 60, 0, u8::try_from(octets.len()).unwrap()]);
        answer.extend(octets);
    }
    answer
}

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Connects to a name of the zone; who answered, and after how many milliseconds.
async fn connected(net: &Net, name: &str) -> (std::io::Result<IpAddr>, u64) {
    let began = Instant::now();
    let stream = TcpStream::connect(&net.client, (name, 80)).await;
    let took = began.elapsed().as_millis() as u64;
    (stream.map(|stream| stream.peer_addr().unwrap().ip()), took)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_dead_family_costs_a_quarter_of_a_second_and_leaves_nothing_behind() {
    let net = net(&[
        Zone { name: "six.dead.test", aaaa: (0, &[DEAD[0]]), a: (0, &[ALIVE[1]]) },
        Zone { name: "four.dead.test", aaaa: (0, &[ALIVE[0]]), a: (0, &[DEAD[1]]) },
    ]);
    let _listeners = ALIVE.map(|alive| net.server.listen(SocketAddr::new(ip(alive), 80)).unwrap());
    let (peer, took) = connected(&net, "six.dead.test").await;
    assert_eq!(peer.unwrap(), ip(ALIVE[1]));
    assert!((250..260).contains(&took), "{took} ms");
    let (peer, took) = connected(&net, "four.dead.test").await;
    assert_eq!(peer.unwrap(), ip(ALIVE[0]));
    assert!(took < 10, "{took} ms");
    let unfinished =
        net.client.connections().into_iter().filter(|(tuple, _)| DEAD.map(ip).contains(&tuple.remote().ip()));
    assert_eq!(unfinished.count(), 0, "who lost is given up");
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_ipv4_waits_fifty_milliseconds_for_the_one_for_ipv6() {
    let net = net(&[
        Zone { name: "soon.test", aaaa: (40, &[ALIVE[0]]), a: (0, &[ALIVE[1]]) },
        Zone { name: "late.test", aaaa: (900, &[ALIVE[0]]), a: (0, &[ALIVE[1]]) },
        Zone { name: "never.test", aaaa: (0, &[]), a: (0, &[ALIVE[1]]) },
    ]);
    let _listener = net.server.listen(addr("[::]:80")).unwrap();
    for (name, family, least) in [("soon.test", 0, 40), ("late.test", 1, 50), ("never.test", 1, 0)] {
        let (peer, took) = connected(&net, name).await;
        assert_eq!(peer.unwrap(), ip(ALIVE[family]), "{name}");
        assert!((least..least + 10).contains(&took), "{name}: {took} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_brings_the_other_family_ten_milliseconds_after_the_first_attempt() {
    let net = net(&[Zone { name: "both.test", aaaa: (0, &[ALIVE[0]]), a: (0, &[ALIVE[1]]) }]);
    let listener = net.server.listen(addr("10.0.0.2:80")).unwrap();
    let (peer, took) = connected(&net, "both.test").await;
    assert_eq!(peer.unwrap(), ip(ALIVE[1]));
    assert!((10..20).contains(&took), "{took} ms");
    drop(listener);
    let (peer, took) = connected(&net, "both.test").await;
    assert_eq!(peer.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert!((10..20).contains(&took), "{took} ms");
}

#[tokio::test(start_paused = true)]
async fn a_family_that_the_stack_has_no_address_of_is_not_asked_for() {
    const ZONES: &[Zone] = &[Zone { name: "both.test", aaaa: (900, &[ALIVE[0]]), a: (0, &[ALIVE[1]]) }];
    for own in [&["10.0.0.1/24"][..], &["10.0.0.1/24", "fe80::1/64"][..]] {
        let net = net_of(own, ZONES);
        let _listener = net.server.listen(addr("[::]:80")).unwrap();
        let (peer, took) = connected(&net, "both.test").await;
        assert_eq!(peer.unwrap(), ip(ALIVE[1]));
        assert!(took < 10, "{took} ms: no answer for IPv6 is waited for");
        let kinds: Vec<u16> = net.asked.lock().unwrap().iter().map(|(_, kind)| *kind).collect();
        assert_eq!(kinds, [A]);
        // A lookup of addresses returns all of them.
        assert_eq!(net.client.lookup("both.test").await.unwrap(), ALIVE.map(ip));
    }
}

#[tokio::test(start_paused = true)]
async fn the_nearest_of_a_family_is_called_first() {
    // RFC 6724 §6 rule 9: fd00::2 shares its network with the stack.
    let net = net(&[Zone { name: "far.test", aaaa: (0, &["fd77::9", ALIVE[0]]), a: (0, &[]) }]);
    let _listener = net.server.listen(addr("[::]:80")).unwrap();
    let (peer, took) = connected(&net, "far.test").await;
    assert_eq!(peer.unwrap(), ip(ALIVE[0]));
    assert!(took < 10, "{took} ms");
}

#[tokio::test(start_paused = true)]
async fn name_servers_are_read_from_a_file_and_delays_chosen() {
    let path = std::env::temp_dir().join(format!("ackclock-names-{}.conf", std::process::id()));
    std::fs::write(&path, "search test\nnameserver 10.0.0.2\noptions ndots:1\n").unwrap();
    let builder = Stack::builder().resolv_conf(&path);
    std::fs::remove_file(&path).unwrap();
    let patient = HappyEyeballs::default().attempt_delay(Duration::from_millis(700));
    let zones = &[Zone { name: "six.dead.test", aaaa: (0, &[DEAD[0]]), a: (0, &[ALIVE[1]]) }];
    let net = net_with(builder.unwrap().happy_eyeballs(patient), &["10.0.0.1/24", "fd00::1/64"], zones);
    let _listener = net.server.listen(addr("10.0.0.2:80")).unwrap();
    let (peer, took) = connected(&net, "six.dead.test").await;
    assert_eq!(peer.unwrap(), ip(ALIVE[1]));
    assert!((700..710).contains(&took), "{took} ms");
}

#[tokio::test(start_paused = true)]
async fn names_are_asked_for_once_and_found_by_all_that_take_them() {
    let net = net(&[Zone { name: "host.test", aaaa: (0, &[ALIVE[0]]), a: (0, &[ALIVE[1], "10.0.0.77"]) }]);
    let found = net.client.lookup("host.test").await.unwrap();
    assert_eq!(found, [ip(ALIVE[0]), ip(ALIVE[1]), ip("10.0.0.77")]);
    assert_eq!(net.client.lookup("host.test").await.unwrap().len(), 3);
    let mut asked = net.asked.lock().unwrap().clone();
    asked.sort();
    assert_eq!(
        asked,
        [("host.test.".to_owned(), A), ("host.test.".to_owned(), AAAA)],
        "once for each family"
    );

    let listener = net.server.listen(addr("[::]:80")).unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"hello").await.unwrap();
    });
    let mut stream = TcpStream::connect(&net.client, "host.test:80").await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "hello");
    serving.await.unwrap();
    // Another host's address cannot be listened on.
    let error = TcpListener::bind(&net.client, "host.test:80").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
}

/// The cache holds 1,024 answers, and a few more for a moment: it takes them out in batches.
#[tokio::test(start_paused = true)]
async fn a_flood_of_names_fills_the_cache_and_takes_no_place_from_a_name_in_use() {
    const FLOOD: usize = 4096;
    let zone = |name: String| Zone { name: name.leak(), aaaa: (0, &[]), a: (0, &[ALIVE[1]]) };
    let flood = (0..FLOOD).map(|number| zone(format!("{number}.flood.test")));
    let zones: &[Zone] = flood.chain([zone("in.use.test".to_owned())]).collect::<Vec<_>>().leak();
    let (flood, in_use) = zones.split_at(FLOOD);
    let net = net_of(&["10.0.0.1/24"], zones);
    // How often the server was asked for an IPv4 address. The lack of another kind is not kept: the server's
    // answer does not say for how long.
    let addresses = || net.asked.lock().unwrap().iter().filter(|(_, kind)| *kind == A).count();
    // How many of these the server is asked for, if the name in use is looked up in between.
    let asked = async |flood: &[Zone]| {
        let before = addresses();
        for few in flood.chunks(8) {
            for zone in few.iter().chain(in_use) {
                assert_eq!(net.client.lookup(zone.name).await.unwrap(), [ip(ALIVE[1])]);
            }
        }
        addresses() - before
    };
    assert_eq!(asked(&flood[..400]).await, 401);
    assert_eq!(asked(&flood[..400]).await, 0, "there is room for all");
    assert_eq!(asked(&flood[400..]).await, FLOOD - 400);
    assert!((FLOOD - 1200..FLOOD).contains(&asked(flood).await), "the others have gone");
    let of_name = |name: &str| {
        net.asked.lock().unwrap().iter().filter(|(asked, kind)| (asked.as_str(), *kind) == (name, A)).count()
    };
    assert_eq!(of_name("in.use.test."), 1, "it stays");
}

#[tokio::test(start_paused = true)]
async fn errors_say_which_name_and_which_server() {
    let net = net(&[]);
    let error = TcpStream::connect(&net.client, ("no.such.test", 80)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.to_string().contains("`no.such.test`") && error.to_string().contains(NAME_SERVER),
        "{error}"
    );
    // This stack was given no name servers.
    let error = TcpStream::connect(&net.server, ("no.such.test", 80)).await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Unsupported && error.to_string().contains("`name_servers`"),
        "{error}"
    );
    let error = TcpStream::connect(&net.client, ("a..b", 80)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_name_server_that_is_silent_ends_in_a_timeout() {
    let (left, right) = memory::pair(memory::Config::default());
    let client = Stack::builder().address("10.0.0.1/24".parse().unwrap()).name_servers([addr("10.0.0.9:53")]);
    let client = client.device(left).spawn().unwrap();
    let _other = Stack::builder().device(right).address("10.0.0.2/24".parse().unwrap()).spawn().unwrap();
    let began = Instant::now();
    let error = TcpStream::connect(&client, ("host.test", 80)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.to_string().contains("`host.test.`"), "{error}");
    let took = began.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_secs(60)).contains(&took), "{took:?}");
}

/// A device that says when it is dropped.
#[derive(Debug)]
struct Noting(memory::MemoryDevice, Arc<AtomicBool>);

impl Drop for Noting {
    fn drop(&mut self) {
        self.1.store(true, Relaxed);
    }
}

impl Device for Noting {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut ReceiveBatch,
    ) -> Poll<std::io::Result<usize>> {
        self.0.poll_receive(cx, batch)
    }
    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.0.poll_send_ready(cx)
    }
    fn send(&mut self, packet: &TxPacket<'_>) -> std::io::Result<()> {
        self.0.send(packet)
    }
}

/// A stack that has asked over TCP, since an answer did not fit into a datagram, and whether its device is
/// gone. The name server keeps the connection (RFC 7766 §6.2.3) and never closes it.
async fn asked_over_tcp() -> (Stack, Arc<AtomicBool>, Stack) {
    let (left, right) = memory::pair(memory::Config::default());
    let gone = Arc::new(AtomicBool::new(false));
    let client = Stack::builder().name_servers([addr(NAME_SERVER)]).address("10.0.0.1/24".parse().unwrap());
    let client = client.device(Noting(left, Arc::clone(&gone))).spawn().unwrap();
    let server = Stack::builder().address("10.0.0.2/24".parse().unwrap()).device(right).spawn().unwrap();
    let (datagrams, listener) = (server.udp(addr(NAME_SERVER)).unwrap(), server.listen(addr(NAME_SERVER)));
    tokio::spawn(async move {
        let mut buf = [0; 1500];
        while let Ok((len, client)) = datagrams.recv_from(&mut buf).await {
            let mut cut = answer(&buf[..question(&buf[..len]).2], &[], false);
            // RFC 1035 §4.1.1: TC, the answer was truncated.
            cut[2] |= 0x02;
            datagrams.send_to(&cut, client).await.unwrap();
        }
    });
    let listener = listener.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                // RFC 1035 §4.2.2: two bytes of length before each message.
                while let Ok(len) = stream.read_u16().await {
                    let mut query = vec![0; usize::from(len)];
                    stream.read_exact(&mut query).await.unwrap();
                    let (_, kind, end) = question(&query);
                    let found: &[&str] = if kind == A { &["10.0.0.2"] } else { &[] };
                    let answer = answer(&query[..end], found, false);
                    stream.write_u16(answer.len() as u16).await.unwrap();
                    stream.write_all(&answer).await.unwrap();
                }
                std::future::pending::<()>().await;
            });
        }
    });
    assert_eq!(client.lookup("long.test").await.unwrap(), [ip("10.0.0.2")]);
    let kept = client.connections();
    assert!(kept.iter().any(|(tuple, _)| tuple.remote() == addr(NAME_SERVER)), "{kept:?}");
    (client, gone, server)
}

#[tokio::test(start_paused = true)]
async fn connections_to_name_servers_do_not_keep_a_stack() {
    let (client, gone, server) = asked_over_tcp().await;
    let mut stream = {
        let _other = server.listen(addr("10.0.0.2:80")).unwrap();
        client.connect(addr("10.0.0.2:80")).await.unwrap()
    };
    drop(client);
    sleep(Duration::from_secs(60)).await;
    assert!(!gone.load(Relaxed), "a stream of the program's does");
    let _ = stream.shutdown().await;
    drop(stream);
    sleep(Duration::from_secs(1)).await;
    assert!(gone.load(Relaxed));
    let open = |(tuple, info): &(ackclock::FourTuple, ackclock::ConnectionInfo)| {
        tuple.local().port() == 53 && info.state != ackclock::State::Closed
    };
    assert!(!server.connections().iter().any(open), "the name server hears of the end");
}

#[tokio::test(start_paused = true)]
async fn connections_to_name_servers_delay_neither_drain_nor_shutdown() {
    for drains in [true, false] {
        let (client, gone, _server) = asked_over_tcp().await;
        let began = Instant::now();
        if drains {
            assert_eq!(client.drain(Duration::from_secs(3600)).await.unwrap(), 0);
        } else {
            client.shutdown().await;
        }
        assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
        assert!(gone.load(Relaxed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_to_a_name_server_that_is_being_opened_keeps_no_stack() {
    let (left, right) = memory::pair(memory::Config::default());
    let client = Stack::builder().name_servers([addr(NAME_SERVER)]).address("10.0.0.1/24".parse().unwrap());
    let client = client.device(left).spawn().unwrap();
    let server = Stack::builder().address("10.0.0.2/24".parse().unwrap()).device(right).spawn().unwrap();
    // A listener that never answers a SYN.
    let _mute = server.listener().addr(addr(NAME_SERVER)).deferred().unwrap();
    let datagrams = server.udp(addr(NAME_SERVER)).unwrap();
    let looking = tokio::spawn({
        let client = client.clone();
        async move { client.lookup("long.test").await.map(|_| ()) }
    });
    let mut buf = [0; 1500];
    for _ in 0..2 {
        let (len, from) = datagrams.recv_from(&mut buf).await.unwrap();
        let mut cut = answer(&buf[..question(&buf[..len]).2], &[], false);
        cut[2] |= 0x02;
        datagrams.send_to(&cut, from).await.unwrap();
    }
    sleep(Duration::from_millis(100)).await;
    assert!(!client.connections().is_empty(), "the SYN is out");
    let began = Instant::now();
    assert_eq!(client.drain(Duration::from_secs(3600)).await.unwrap(), 0);
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    assert!(looking.await.unwrap().is_err());
}
