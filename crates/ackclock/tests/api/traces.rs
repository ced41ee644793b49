//! Traces through the API: who fetches them has all of them, in order, and hears of the end.

use std::time::Duration;

use ackclock::trace::{Batch, BatchCause, Entry, Failure, SendReason, TraceConfig, TraceKeep};
use ackclock::{State, TcpConfig};
use ackclock_device::memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::support::{accepted, addr, between, host, hosts, hosts_with_network};

fn entries<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Vec<Entry> {
    let records = batches.into_iter().flat_map(|batch| &batch.records);
    records.map(|&record| Entry::decode(record).expect("a record that this version wrote")).collect()
}

fn payload(entries: &[Entry], pick: fn(&Entry) -> Option<u32>) -> u64 {
    entries.iter().filter_map(pick).map(u64::from).sum()
}

#[tokio::test]
async fn a_traced_stack_gives_out_all_of_every_connection_and_then_the_end() {
    let (left, right) = memory::pair(memory::Config::default());
    let small = TraceConfig { records: 256, keep: TraceKeep::All };
    let client = host("10.0.0.1/24", "fd00::1/64").trace(small);
    let client = client.close_timeout(Duration::from_millis(200)).device(left).spawn().unwrap();
    let server = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
    let fetching = client.clone();
    let fetched = tokio::spawn(async move {
        let mut batches = Vec::new();
        while let Some(batch) = fetching.next_trace().await {
            batches.push(batch);
        }
        batches
    });
    let (mut stream, mut peer) = between(&client, &server).await;
    let (other, _other_peer) = between(&client, &server).await;
    let received = tokio::spawn(async move {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).await.unwrap();
        (all.len(), peer)
    });
    stream.write_all(&vec![7; 1_000_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(received.await.unwrap().0, 1_000_000);
    let info = stream.info().unwrap();
    drop(stream);
    // The other connection is open still, and has something to say.
    client.shutdown().await;
    assert!(other.info().is_err());
    let batches = timeout(Duration::from_secs(10), fetched).await.expect("the trace ends").unwrap();
    assert!(batches.iter().all(|batch| batch.missed == 0));

    let (first, second): (Vec<_>, Vec<_>) = batches.iter().partition(|batch| batch.connection == 0);
    assert!(first.len() > 2, "{}", first.len());
    let entries_of_first = entries(first);
    let sent = payload(&entries_of_first, |entry| match entry {
        Entry::Sent { len, .. } => Some(*len),
        _ => None,
    });
    assert_eq!(sent, 1_000_000 + info.bytes_retransmitted);
    let written = payload(&entries_of_first, |entry| match entry {
        Entry::Written { len, .. } => Some(*len),
        _ => None,
    });
    assert_eq!(written, 1_000_000);
    assert_eq!(
        entries_of_first.iter().find(|entry| matches!(entry, Entry::State(..))),
        Some(&Entry::State(State::SynSent, State::Established))
    );
    assert!(entries(second).contains(&Entry::Shutdown), "closed by the stack's end");
    assert_eq!(client.next_trace().await, None);
}

#[tokio::test]
async fn changes_alone_come_at_once() {
    let crate::support::Hosts { client, server, .. } = hosts();
    let socket = client.socket();
    socket.set_trace(Some(TraceConfig::CHANGES)).unwrap();
    let listener = server.listen(addr(crate::support::SERVER)).unwrap();
    let _stream = socket.connect(addr(crate::support::SERVER)).await.unwrap();
    let (first, second) = (client.next_trace().await.unwrap(), client.next_trace().await.unwrap());
    assert_eq!((first.cause, second.cause), (BatchCause::Changed, BatchCause::Changed));
    let told =
        [Entry::State(State::Closed, State::SynSent), Entry::State(State::SynSent, State::Established)];
    assert_eq!(entries([&first, &second]), told);
    drop(listener);
}

#[tokio::test]
async fn a_flight_recorder_tells_of_a_reset_what_came_before() {
    let (left, right) = memory::pair(memory::Config::default());
    let client = host("10.0.0.1/24", "fd00::1/64").flight_recorder(100).device(left).spawn().unwrap();
    let server = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
    let (mut stream, mut peer) = between(&client, &server).await;
    for _ in 0..100 {
        stream.write_all(b"ping").await.unwrap();
        peer.read_exact(&mut [0; 4]).await.unwrap();
    }
    peer.abort();
    let batch =
        timeout(Duration::from_secs(10), client.next_trace()).await.unwrap().expect("the stack is up");
    assert_eq!((batch.cause, batch.records.len()), (BatchCause::Failed, 100));
    assert!(batch.missed > 200, "{}", batch.missed);
    let entries = entries([&batch]);
    assert_eq!(entries.last(), Some(&Entry::Failed(Failure::Reset)));
    assert!(
        entries.iter().any(|entry| matches!(entry, Entry::Sent { reason: SendReason::NewData, len: 4, .. }))
    );
    // The other end was not traced.
    server.shutdown().await;
    assert_eq!(server.next_trace().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_stall_is_told_while_it_lasts() {
    let (client, server, network) = hosts_with_network();
    let (mut stream, _peer) = between(&client, &server).await;
    stream.set_trace(Some(TraceConfig::FLIGHT_RECORDER)).unwrap();
    network.set_blackout(true);
    stream.write_all(b"anybody?").await.unwrap();
    let batch =
        timeout(Duration::from_secs(60), client.next_trace()).await.unwrap().expect("the stack is up");
    assert_eq!(batch.cause, BatchCause::Stalled);
    assert!(stream.take_error().unwrap().is_none(), "it goes on");
}

#[tokio::test]
async fn what_is_traced_is_chosen_on_socket_listener_and_stream() {
    let hosts = hosts();
    let tcp = TcpConfig { trace: Some(TraceConfig::FULL), ..TcpConfig::default() };
    let listener = hosts.server.listener().addr(addr("10.0.0.2:80")).tcp(tcp).bind().unwrap();
    let (untraced, traced_peer) = accepted(&hosts.client, &listener).await;
    assert!(untraced.trace().unwrap().is_empty());
    assert!(!traced_peer.trace().unwrap().is_empty());

    let socket = hosts.client.socket();
    socket.set_trace(Some(TraceConfig::FULL)).unwrap();
    let (traced, _peer) = tokio::join!(socket.connect(addr("10.0.0.2:80")), listener.accept());
    let traced = traced.unwrap();
    let kept = traced.trace().unwrap();
    assert!(matches!(
        Entry::decode(kept[0]),
        Some(
            Entry::Window { .. } | Entry::Limited { .. } | Entry::Sent { reason: SendReason::Handshake, .. }
        )
    ));
    traced.request_trace().unwrap();
    let batch = hosts.client.next_trace().await.unwrap();
    assert_eq!(
        (batch.cause, batch.records, batch.tuple.local()),
        (BatchCause::Requested, kept, { traced.local_addr().unwrap() })
    );
    assert!(traced.trace().unwrap().is_empty());

    traced.set_trace(None).unwrap();
    untraced.set_trace(Some(TraceConfig::FULL)).unwrap();
    hosts.client.request_traces();
    let batch = hosts.client.next_trace().await.unwrap();
    assert_eq!(batch.tuple.local(), untraced.local_addr().unwrap());
    assert!(
        timeout(Duration::from_millis(10), hosts.client.next_trace()).await.is_err(),
        "there is no other"
    );
}
