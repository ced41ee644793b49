//! A stack on two queues: connections stay at theirs, packets that come by the other find them, and all calls
//! see one stack.

use std::io;
use std::io::ErrorKind;
use std::task::{Context, Poll};
use std::time::Duration;

use ackclock::{BuildError, Counters, Stack, StackBuilder, TcpStream};
use ackclock_device::memory::{self, Cable, MemoryDevice};
use ackclock_device::{Capabilities, Device, ReceiveBatch};
use ackclock_wire::TxPacket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::support::{SERVER, addr, host, kind, settle};

/// The other end of two queues. Like an interface with two, it has to decide by which each packet goes.
#[derive(Debug)]
struct Switch {
    cables: Vec<MemoryDevice>,
    way: Way,
    sent: usize,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    /// A flow by the queue of its port, even or odd.
    ByFlow,
    /// One packet by this queue, the next by the other.
    InTurn,
    /// A SYN by the first, all else by the second.
    SynByFirst,
}

impl Switch {
    fn queue_for(&mut self, packet: &TxPacket<'_>) -> usize {
        self.sent += 1;
        let port = u16::from_be_bytes([packet.header[20], packet.header[21]]);
        let is_syn = packet.header[9] == 6 && packet.header[33] & 0x12 == 0x02;
        match self.way {
            Way::ByFlow => usize::from(port) % 2,
            Way::InTurn => self.sent % 2,
            Way::SynByFirst => usize::from(!is_syn),
        }
    }
}

impl Device for Switch {
    fn capabilities(&self) -> Capabilities {
        self.cables[0].capabilities()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let mut received = 0;
        for cable in &mut self.cables {
            if let Poll::Ready(more) = cable.poll_receive(cx, batch) {
                received += more?;
            }
        }
        if received > 0 { Poll::Ready(Ok(received)) } else { Poll::Pending }
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for cable in &mut self.cables {
            if cable.poll_send_ready(cx)?.is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        let queue = self.queue_for(packet);
        self.cables[queue].send(packet)
    }
}

/// A client at 10.0.0.1 with one device, and a server at 10.0.0.2 with two queues.
struct Ends {
    client: Stack,
    server: Stack,
    cables: Vec<Cable>,
}

fn ends(way: Way) -> Ends {
    ends_with(way, |server| server)
}

fn ends_with(way: Way, with: impl FnOnce(StackBuilder) -> StackBuilder) -> Ends {
    let (near, far): (Vec<_>, Vec<_>) = (0..2).map(|_| memory::pair(memory::Config::default())).unzip();
    let cables = near.iter().map(MemoryDevice::cable).collect();
    let switch = Switch { cables: near, way, sent: 0 };
    let client = host("10.0.0.1/24", "fd00::1/64").device(switch).spawn().unwrap();
    let server = with(host("10.0.0.2/24", "fd00::2/64")).queues(far).spawn().unwrap();
    Ends { client, server, cables }
}

fn each<T>(stack: &Stack, count: impl Fn(&Counters) -> T) -> Vec<T> {
    stack.queue_counters().iter().map(count).collect()
}

/// The client sends this many bytes on each connection, and the stack echoes them; whether they came back
/// whole.
async fn echoed(ends: &Ends, connections: u16, bytes: usize) -> bool {
    let listener = ends.server.listen(addr(SERVER)).unwrap();
    let accepts = tokio::spawn(async move {
        for _ in 0..connections {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.into_split();
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
                writer.shutdown().await.unwrap();
            });
        }
    });
    let client = |number: u16| {
        let stack = ends.client.clone();
        tokio::spawn(async move {
            let data: Vec<u8> = (0..bytes).map(|at| (at as u16 ^ number) as u8).collect();
            let (mut reader, mut writer) = from_port(&stack, 5000 + number).await.into_split();
            let mut back = Vec::new();
            let write = async {
                writer.write_all(&data).await?;
                writer.shutdown().await
            };
            let (written, read) = tokio::join!(write, reader.read_to_end(&mut back));
            written.is_ok() && read.is_ok() && back == data
        })
    };
    let clients: Vec<_> = (0..connections).map(client).collect();
    let mut whole = true;
    for client in clients {
        whole &= client.await.unwrap();
    }
    accepts.await.unwrap();
    whole
}

async fn from_port(client: &Stack, port: u16) -> TcpStream {
    let socket = client.socket();
    socket.bind(addr(&format!("10.0.0.1:{port}"))).unwrap();
    socket.connect(addr(SERVER)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn connections_stay_at_the_queue_by_which_their_packets_come() {
    let ends = ends(Way::ByFlow);
    assert!(echoed(&ends, 12, 100_000).await);
    assert_eq!(each(&ends.server, |counters| counters.opened_passively), [6, 6]);
    let strays = |counters: &Counters| (counters.strays_handed_over, counters.dropped_strays);
    assert_eq!(each(&ends.server, strays), [(0, 0); 2]);
    assert_eq!(ends.server.info().queues, 2);
}

#[tokio::test(start_paused = true)]
async fn packets_that_come_by_either_queue_in_turn_all_arrive() {
    let ends = ends(Way::InTurn);
    assert!(echoed(&ends, 12, 100_000).await);
    // The last packet handed over is taken.
    settle().await;
    let counters = ends.server.counters();
    let (handed, received) = (counters.strays_handed_over, counters.packets_received);
    assert!(handed >= received / 3 && handed <= received * 2 / 3, "{handed} of {received}");
    assert_eq!((counters.strays_taken, counters.dropped_strays), (handed, 0));
    assert_eq!(counters.opened_passively, 12);
    // Packets handed over may be overtaken. An ACK may come after the last one of its connection.
    assert!(counters.resets_sent <= 12, "{}", counters.resets_sent);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_gets_all_but_the_syn_hands_all_of_it_over() {
    let ends = ends(Way::SynByFirst);
    assert!(echoed(&ends, 3, 100_000).await);
    assert_eq!(each(&ends.server, |counters| counters.opened_passively), [3, 0]);
    let [first, second] = ends.server.queue_counters().try_into().unwrap();
    assert_eq!(first.packets_received, 3, "the SYNs");
    assert_eq!(second.strays_handed_over, second.packets_received);
    assert_eq!(first.strays_taken, second.packets_received);
    assert_eq!(second.packets_sent, 0);
}

#[tokio::test(start_paused = true)]
async fn cookies_come_back_by_another_queue_than_that_of_their_syns() {
    let ends = ends(Way::SynByFirst);
    let listener = ends.server.listener().addr(addr(SERVER)).syn_backlog(1).bind().unwrap();
    let client = |number: u16| {
        let client = ends.client.clone();
        tokio::spawn(async move {
            let mut stream = from_port(&client, 5000 + number).await;
            stream.write_all(b"hello").await.unwrap();
            stream
        })
    };
    let clients: Vec<_> = (0..8).map(client).collect();
    let mut accepted = Vec::new();
    for _ in 0..8 {
        let next = timeout(Duration::from_secs(10), listener.accept()).await;
        let (mut stream, _) = next.expect("none is refused").unwrap();
        stream.read_exact(&mut [0; 5]).await.unwrap();
        accepted.push(stream);
    }
    let [first, second] = ends.server.queue_counters().try_into().unwrap();
    assert!(first.cookies_sent >= 4, "the SYNs came together: {}", first.cookies_sent);
    assert_eq!((first.cookies_accepted, second.cookies_sent), (0, 0));
    assert_eq!((second.cookies_accepted, second.cookies_refused), (first.cookies_sent, 0));
    drop(clients);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queues_on_several_threads_lose_nothing() {
    let ends = ends(Way::InTurn);
    let echoed = timeout(Duration::from_secs(300), echoed(&ends, 48, 60_000)).await;
    assert!(echoed.expect("it goes on"), "{:?}", ends.server.queue_counters());
    // The last acknowledgements may be on their way from one queue to the other.
    let are_on_the_way = || {
        let counters = ends.server.counters();
        counters.strays_taken + counters.dropped_strays != counters.strays_handed_over
    };
    let settled = async {
        while are_on_the_way() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(5), settled)
        .await
        .expect("every packet that was handed over is taken or dropped");
    let counters = ends.server.counters();
    assert!(
        counters.resets_sent <= 48,
        "for what came after the end of its connection: {}",
        counters.resets_sent
    );
}

#[tokio::test(start_paused = true)]
async fn connections_are_opened_at_each_queue_in_turn() {
    let ends = ends(Way::InTurn);
    let listener = ends.client.listen(addr("10.0.0.1:80")).unwrap();
    let mut streams = Vec::new();
    for _ in 0..6 {
        let (stream, accepted) = tokio::join!(ends.server.connect(addr("10.0.0.1:80")), listener.accept());
        let (mut stream, (mut accepted, peer)) = (stream.unwrap(), accepted.unwrap());
        assert_eq!(stream.local_addr().unwrap(), peer);
        accepted.write_all(b"to wherever it is").await.unwrap();
        stream.read_exact(&mut [0; 17]).await.unwrap();
        streams.push((stream, accepted));
    }
    assert_eq!(each(&ends.server, |counters| counters.opened_actively), [3, 3]);
    assert_eq!((ends.server.info().connections, ends.server.connections().len()), (6, 6));
}

#[tokio::test(start_paused = true)]
async fn connections_have_room_as_long_as_one_queue_has() {
    let ends = ends_with(Way::ByFlow, |server| server.connections_max(6));
    let listener = ends.server.listen(addr(SERVER)).unwrap();
    let mut streams = Vec::new();
    for port in [5000, 5002] {
        streams.push(from_port(&ends.client, port).await);
        streams.push(listener.accept().await.unwrap().0);
    }
    // Two of three are taken at the first queue, which leaves one there and three at the other.
    let far = ends.client.listen(addr("10.0.0.1:80")).unwrap();
    for _ in 0..4 {
        streams.push(ends.server.connect(addr("10.0.0.1:80")).await.unwrap());
        streams.push(far.accept().await.unwrap().0);
    }
    assert_eq!(kind(ends.server.connect(addr("10.0.0.1:80")).await), ErrorKind::QuotaExceeded);
}

#[tokio::test(start_paused = true)]
async fn an_accept_takes_connections_of_both_queues_in_turn() {
    let ends = ends(Way::ByFlow);
    let listener = ends.server.listen(addr(SERVER)).unwrap();
    let mut clients = Vec::new();
    for port in (5000..5016).step_by(2).chain((5001..5017).step_by(2)) {
        clients.push(from_port(&ends.client, port).await);
    }
    settle().await;
    let mut queues = Vec::new();
    for _ in 0..16 {
        let (stream, peer) = listener.accept().await.unwrap();
        queues.push(usize::from(peer.port()) % 2);
        drop(stream);
    }
    assert!(queues.chunks(2).all(|pair| pair[0] != pair[1]), "{queues:?}");
    assert!(timeout(Duration::from_secs(1), listener.accept()).await.is_err());
    // Who waits is woken by either.
    for port in [6001, 6000] {
        let (accepted, _client) = tokio::join!(listener.accept(), from_port(&ends.client, port));
        assert_eq!(accepted.unwrap().1.port(), port);
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_is_the_whole_stacks() {
    let ends = ends(Way::ByFlow);
    let listener = ends.server.listen(addr("10.0.0.2:0")).unwrap();
    let local = listener.local_addr().unwrap();
    assert_eq!(kind(ends.server.listen(local)), ErrorKind::AddrInUse);
    drop(listener);
    let socket = ends.server.socket();
    socket.bind(local).unwrap();
    assert_eq!(kind(ends.server.socket().bind(local)), ErrorKind::AddrInUse);
    let listener = socket.listen(8).unwrap();
    assert_eq!(listener.local_addr().unwrap(), local);
    // Of two connections under one name the second is refused, whichever queue's turn it is.
    let far = ends.client.listen(addr("10.0.0.1:80")).unwrap();
    let named = || {
        let socket = ends.server.socket();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(addr("10.0.0.2:7000")).unwrap();
        socket.connect(addr("10.0.0.1:80"))
    };
    let (_stream, _accepted) = (named().await.unwrap(), far.accept().await.unwrap());
    assert_eq!(kind(named().await), ErrorKind::AddrNotAvailable);
    assert_eq!(kind(named().await), ErrorKind::AddrNotAvailable);
    // One who does not reuse addresses finds the connection, wherever it is.
    assert_eq!(kind(ends.server.socket().bind(addr("10.0.0.2:7000"))), ErrorKind::AddrInUse);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_added_is_heard_at_both_queues() {
    let ends = ends(Way::ByFlow);
    ends.server.add_address("10.0.0.3/24".parse().unwrap()).unwrap();
    let listener = ends.server.listen(addr("10.0.0.3:80")).unwrap();
    for port in [5000, 5001] {
        let socket = ends.client.socket();
        socket.bind(addr(&format!("10.0.0.1:{port}"))).unwrap();
        let (stream, accepted) = tokio::join!(socket.connect(addr("10.0.0.3:80")), listener.accept());
        assert_eq!(
            (stream.unwrap().peer_addr().unwrap(), accepted.unwrap().1.port()),
            (addr("10.0.0.3:80"), port)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_syn_is_decided_on_at_its_queue() {
    let ends = ends(Way::ByFlow);
    let listener = ends.server.listener().addr(addr(SERVER)).deferred().unwrap();
    for port in [5000, 5001] {
        let (stream, accepted) = tokio::join!(from_port(&ends.client, port), async {
            listener.incoming().await.unwrap().accept().await
        });
        assert_eq!(accepted.unwrap().peer_addr().unwrap(), stream.local_addr().unwrap());
        let socket = ends.client.socket();
        socket.bind(addr(&format!("10.0.0.1:{}", port + 2))).unwrap();
        let (refused, ()) =
            tokio::join!(socket.connect(addr(SERVER)), async { listener.incoming().await.unwrap().reset() });
        assert_eq!(kind(refused), ErrorKind::ConnectionRefused);
    }
}

#[tokio::test(start_paused = true)]
async fn a_syn_waits_at_its_queue_for_those_who_ask_there() {
    let ends = ends(Way::ByFlow);
    let listener = ends.server.listener().addr(addr(SERVER)).deferred().unwrap();
    for port in [5000, 5001] {
        let queue = usize::from(port % 2);
        let (stream, accepted) = tokio::join!(from_port(&ends.client, port), async {
            let other = timeout(Duration::from_millis(100), listener.incoming_at(1 - queue)).await;
            assert!(other.is_err(), "the other queue has none");
            listener.incoming_at(queue).await.unwrap().accept().await
        });
        let accepted = accepted.unwrap();
        assert_eq!(accepted.peer_addr().unwrap(), stream.local_addr().unwrap());
        assert_eq!(accepted.queue(), queue);
    }
    assert_eq!(kind(listener.incoming_at(2).await), ErrorKind::InvalidInput);
}

#[tokio::test(start_paused = true)]
async fn datagrams_by_either_queue_come_to_one_socket() {
    let ends = ends(Way::InTurn);
    let server = ends.server.udp(addr("10.0.0.2:53")).unwrap();
    let client = ends.client.udp(addr("10.0.0.1:5353")).unwrap();
    for number in 0..8_u8 {
        client.send_to(&[number], addr("10.0.0.2:53")).await.unwrap();
    }
    let mut received = Vec::new();
    for _ in 0..8 {
        let mut buf = [0; 9];
        let (len, from) = server.recv_from(&mut buf).await.unwrap();
        assert_eq!((len, from), (1, addr("10.0.0.1:5353")));
        received.push(buf[0]);
    }
    received.sort_unstable();
    assert!(received.into_iter().eq(0..8));
    assert_eq!(each(&ends.server, |counters| counters.udp_received), [8, 0]);
    assert_eq!(each(&ends.server, |counters| counters.strays_handed_over), [0, 4]);
}

#[tokio::test(start_paused = true)]
async fn traces_of_both_queues_are_fetched_in_one_place_and_end() {
    let ends = ends_with(Way::ByFlow, |server| server.flight_recorder(100));
    let listener = ends.server.listen(addr(SERVER)).unwrap();
    let mut streams = Vec::new();
    for port in [5000, 5001] {
        streams.push(from_port(&ends.client, port).await);
        streams.push(listener.accept().await.unwrap().0);
    }
    ends.server.request_traces();
    let mut traced = Vec::new();
    for _ in 0..2 {
        let batch = ends.server.next_trace().await.unwrap();
        traced.push((batch.tuple.remote_port, batch.connection));
    }
    traced.sort_unstable();
    assert_eq!(traced, [(5000, 0), (5001, 1)]);
    drop((streams, listener));
    let stack = ends.server.clone();
    let end = tokio::spawn(async move { while stack.next_trace().await.is_some() {} });
    ends.server.shutdown().await;
    timeout(Duration::from_secs(1), end).await.expect("they end").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_when_both_queues_have_finished() {
    let ends = ends(Way::ByFlow);
    let listener = ends.server.listen(addr(SERVER)).unwrap();
    let mut first = from_port(&ends.client, 5000).await;
    let (_accepted, _) = listener.accept().await.unwrap();
    let stack = ends.server.clone();
    let end = tokio::spawn(async move { stack.shutdown().await });
    // The second queue has nothing to finish, and waits for the first.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!end.is_finished());
    assert_eq!(first.read(&mut [0; 9]).await.unwrap(), 0, "it was closed");
    first.shutdown().await.unwrap();
    timeout(Duration::from_secs(1), end).await.expect("it ends with the first").unwrap();
    for error in
        [kind(ends.server.listen(addr(SERVER))), kind(ends.server.connect(addr("10.0.0.1:80")).await)]
    {
        assert_eq!(error, ErrorKind::NetworkDown);
    }
    // Both devices are gone by then: their other ends see it.
    settle().await;
    assert_eq!(kind(first.write(b"x").await), ErrorKind::NetworkDown);
}

#[tokio::test(start_paused = true)]
async fn a_drain_counts_what_it_resets_at_both_queues() {
    let ends = ends(Way::ByFlow);
    let listener = ends.server.listen(addr(SERVER)).unwrap();
    let mut streams = Vec::new();
    for port in [5000, 5001, 5003] {
        streams.push(from_port(&ends.client, port).await);
        streams.push(listener.accept().await.unwrap().0);
    }
    let started = tokio::time::Instant::now();
    assert_eq!(ends.server.drain(Duration::from_secs(30)).await.unwrap(), 3);
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(31), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_closes_both_queues() {
    let ends = ends(Way::ByFlow);
    let listener = ends.server.listen(addr(SERVER)).unwrap();
    let mut first = from_port(&ends.client, 5001).await;
    let (accepted, _) = listener.accept().await.unwrap();
    drop((listener, ends.server));
    settle().await;
    first.write_all(b"it lives").await.unwrap();
    assert!(timeout(Duration::from_secs(1), first.read(&mut [0; 1])).await.is_err());
    drop(accepted);
    let gone = timeout(Duration::from_secs(30), async {
        while ends.client.connect(addr(SERVER)).await.map_err(|error| error.kind()).err()
            != Some(ErrorKind::NetworkDown)
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    gone.await.expect("the devices are dropped");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_fails_takes_the_stack_down_and_what_arrived_stays_readable() {
    let ends = ends(Way::ByFlow);
    let listener = ends.server.listen(addr(SERVER)).unwrap();
    let mut streams = Vec::new();
    for port in [5000, 5001] {
        let mut client = from_port(&ends.client, port).await;
        client.write_all(b"early").await.unwrap();
        streams.push((listener.accept().await.unwrap().0, client));
    }
    settle().await;
    let pending = tokio::spawn(async move { listener.accept().await.map(drop) });
    settle().await;
    ends.cables[1].unplug();
    assert_eq!(
        kind(timeout(Duration::from_secs(1), pending).await.unwrap().unwrap()),
        ErrorKind::NetworkDown
    );
    for (stream, _) in &mut streams {
        let mut early = [0; 5];
        stream.read_exact(&mut early).await.unwrap();
        assert_eq!(&early, b"early");
        assert_eq!(kind(stream.read(&mut early).await), ErrorKind::NetworkDown);
        assert_eq!(kind(stream.write(b"late").await), ErrorKind::NetworkDown);
    }
    assert_eq!(kind(ends.server.drain(Duration::ZERO).await), ErrorKind::NetworkDown);
}

#[test]
fn a_runtime_that_ends_fails_calls_at_both_queues() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (ends, streams) = runtime.block_on(async {
        let ends = ends(Way::ByFlow);
        let listener = ends.server.listen(addr(SERVER)).unwrap();
        let mut streams = Vec::new();
        for port in [5000, 5001] {
            let client = from_port(&ends.client, port).await;
            streams.push((listener.accept().await.unwrap().0, client));
        }
        (ends, streams)
    });
    runtime.shutdown_timeout(Duration::from_secs(60));
    for (stream, _) in &streams {
        assert_eq!(kind(stream.try_read(&mut [0; 1])), ErrorKind::NetworkDown);
    }
    assert_eq!(kind(ends.server.listen(addr(SERVER))), ErrorKind::NetworkDown);
}

#[tokio::test]
async fn a_count_of_queues_that_no_stack_has_is_refused() {
    let queues = |count: usize| (0..count).map(|_| memory::pair(memory::Config::default()).0);
    assert!(matches!(Stack::builder().queues(queues(0)).spawn(), Err(BuildError::NoDevice)));
    let error = Stack::builder().queues(queues(257)).spawn().unwrap_err();
    assert!(matches!(error, BuildError::TooManyQueues { queues: 257, max: 256 }), "{error}");
    // The most that there may be serve: a connection at the last of them.
    let (mut near, far): (Vec<_>, Vec<_>) = (0..256).map(|_| memory::pair(memory::Config::default())).unzip();
    let server = host("10.0.0.2/24", "fd00::2/64").queues(far).spawn().unwrap();
    assert_eq!(server.queue_counters().len(), 256);
    let last = near.pop().unwrap();
    let client = host("10.0.0.1/24", "fd00::1/64").device(last).spawn().unwrap();
    let listener = server.listen(addr(SERVER)).unwrap();
    let (ours, theirs) = tokio::join!(client.connect(addr(SERVER)), listener.accept());
    let (mut ours, (mut theirs, _)) = (ours.unwrap(), theirs.unwrap());
    theirs.write_all(b"served").await.unwrap();
    let mut read = [0; 6];
    ours.read_exact(&mut read).await.unwrap();
    assert_eq!((&read, theirs.queue()), (b"served", 255));
}

/// A loop at each queue takes what came there, and nothing else. A queue that does not exist is refused.
#[tokio::test(start_paused = true)]
async fn connections_are_accepted_at_the_queue_that_they_take() {
    let ends = ends(Way::ByFlow);
    let listener = ends.server.listen(addr(SERVER)).unwrap();
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(ends.client.connect(addr(SERVER)).await.unwrap());
    }
    let mut taken = [0, 0];
    for queue in [0, 1] {
        while let Ok(accepted) = timeout(Duration::from_secs(1), listener.accept_at(queue)).await {
            let (stream, peer) = accepted.unwrap();
            assert_eq!((stream.queue(), usize::from(peer.port()) % 2), (queue, queue));
            taken[queue] += 1;
        }
    }
    assert!(taken.iter().sum::<usize>() == 8 && taken.iter().all(|&count| count > 0), "{taken:?}");
    assert!(clients.iter().all(|stream| stream.queue() == 0), "one device is queue 0");
    let refused = listener.accept_at(2).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("are 0 to 1"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn metrics_are_of_both_queues() {
    let ends = ends(Way::ByFlow);
    let listener = ends.server.listen(addr(SERVER)).unwrap();
    let _udp = ends.server.udp(addr("10.0.0.2:53")).unwrap();
    let mut streams = Vec::new();
    // Four connections at one queue, two at the other; on each, three bytes unread.
    for port in [5000, 5001, 5002, 5004, 5006, 5007] {
        let mut stream = from_port(&ends.client, port).await;
        stream.write_all(b"abc").await.unwrap();
        streams.push((stream, listener.accept().await.unwrap()));
    }
    settle().await;
    let (metrics, info) = (ends.server.metrics(), ends.server.info());
    for (name, value) in [
        ("up", 1),
        ("connections", 6),
        ("connections_opening", 0),
        ("connections_established", 6),
        ("listeners", 1),
        ("udp_sockets", 1),
        ("receive_queue_bytes", 18),
        ("memory_used_bytes", info.memory_used as u64),
        ("memory_max_bytes", info.memory_max as u64),
        ("mtu_bytes", info.mtu as u64),
        ("opened_passively", 6),
    ] {
        assert_eq!(metrics.get(name), Some(value), "{name}");
    }
    let counters = ends.server.counters();
    for (name, _, value) in counters.iter() {
        assert_eq!(metrics.get(name), Some(value), "{name}");
    }
}
