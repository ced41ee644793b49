//! Dropping a stream or a half.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::support::{between, connection, hosts, hosts_with_network, kind, settle};

#[tokio::test]
async fn a_dropped_stream_still_delivers_what_was_written() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    client.write_all(&[7; 100_000]).await.unwrap();
    drop(client);
    let mut received = Vec::new();
    server.read_to_end(&mut received).await.unwrap();
    assert_eq!(received.len(), 100_000);
}

#[tokio::test]
async fn a_stream_dropped_with_unread_data_resets() {
    // Tests: RFC 9293 SHLD-3
    let hosts = hosts();
    let (mut client, server) = connection(&hosts).await;
    client.write_all(b"unread").await.unwrap();
    server.readable().await.unwrap();
    drop(server);
    assert_eq!(kind(client.read(&mut [0; 8]).await), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn one_who_closes_when_the_peer_has_closed_acknowledges_that_in_the_same_segment() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    let serving = tokio::spawn(async move { server.read(&mut [0; 8]).await });
    settle().await;
    let sent = hosts.server.counters().packets_sent;
    drop(client);
    assert_eq!(serving.await.unwrap().unwrap(), 0);
    settle().await;
    assert_eq!(hosts.server.counters().packets_sent - sent, 1, "a FIN with its acknowledgement");
    assert_eq!(hosts.server.info().connections, 0);
}

#[tokio::test]
async fn one_who_reads_the_end_and_goes_on_acknowledges_it_without_delay() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    let reading = tokio::spawn(async move {
        assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
        server
    });
    settle().await;
    let sent = hosts.server.counters().packets_sent;
    client.shutdown().await.unwrap();
    let mut server = reading.await.unwrap();
    settle().await;
    assert_eq!(hosts.server.counters().packets_sent - sent, 1, "the acknowledgement of the FIN");
    server.write_all(b"still").await.unwrap();
    let mut read = [0; 5];
    client.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"still");
}

#[tokio::test]
async fn a_dropped_write_half_ends_the_stream_and_reading_goes_on() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    let (mut reader, writer) = client.into_split();
    drop(writer);
    assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
    server.write_all(b"still").await.unwrap();
    let mut read = [0; 5];
    reader.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"still");
}

#[tokio::test]
async fn a_forgotten_write_half_ends_nothing() {
    let hosts = hosts();
    let (client, server) = connection(&hosts).await;
    let (reader, writer) = client.into_split();
    writer.forget();
    settle().await;
    assert_eq!(kind(server.try_read(&mut [0; 8])), ErrorKind::WouldBlock);
    drop(reader);
    settle().await;
    assert_eq!(server.try_read(&mut [0; 8]).unwrap(), 0);
}

#[tokio::test]
async fn a_dropped_read_half_leaves_the_stream_open_for_writing() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    let (reader, mut writer) = client.into_split();
    drop(reader);
    writer.write_all(b"on").await.unwrap();
    let mut read = [0; 2];
    server.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"on");
}

#[tokio::test]
async fn halves_of_one_stream_reunite_and_those_of_two_do_not() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    let other = hosts.server.listen("10.0.0.2:81".parse().unwrap()).unwrap();
    let (second, _kept) = crate::support::accepted(&hosts.client, &other).await;
    let (reader, writer) = client.into_split();
    let (second_reader, second_writer) = second.into_split();
    let refused = reader.reunite(second_writer).unwrap_err();
    assert!(refused.to_string().contains("not from the same socket"));
    let mut client = refused.0.reunite(writer).unwrap();
    let _second = second_reader.reunite(refused.1).unwrap();
    client.write_all(b"one").await.unwrap();
    let mut read = [0; 3];
    server.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"one");
}

#[tokio::test]
async fn zero_linger_resets_on_drop() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    client.set_zero_linger().unwrap();
    assert_eq!(client.linger().unwrap(), Some(Duration::ZERO));
    drop(client);
    assert_eq!(kind(server.read(&mut [0; 8]).await), ErrorKind::ConnectionReset);
    assert_eq!(hosts.client.info().connections, 0);
}

#[tokio::test]
async fn linger_closes_gracefully_when_there_is_time() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    client.set_linger(Some(Duration::from_secs(5))).unwrap();
    client.write_all(&[1; 50_000]).await.unwrap();
    drop(client);
    let mut received = Vec::new();
    server.read_to_end(&mut received).await.unwrap();
    assert_eq!(received.len(), 50_000);
}

#[tokio::test(start_paused = true)]
async fn linger_resets_when_its_time_is_over() {
    let (client, server, network) = hosts_with_network();
    let (mut stream, _peer) = between(&client, &server).await;
    stream.set_linger(Some(Duration::from_secs(5))).unwrap();
    network.set_blackout(true);
    stream.write_all(&[1; 50_000]).await.unwrap();
    drop(stream);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(client.info().connections, 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(client.info().connections, 0);
    assert_eq!(client.info().memory_used, 0);
}

#[tokio::test]
async fn abort_resets_and_fails_what_is_pending() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    let (mut reader, writer) = client.into_split();
    let pending = tokio::spawn(async move { reader.read(&mut [0; 8]).await });
    settle().await;
    writer.as_ref().abort();
    assert_eq!(kind(pending.await.unwrap()), ErrorKind::ConnectionAborted);
    assert_eq!(kind(server.read(&mut [0; 8]).await), ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn buffers_go_back_to_the_budget_when_streams_are_dropped() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    client.write_all(&[1; 200_000]).await.unwrap();
    client.shutdown().await.unwrap();
    server.read_to_end(&mut Vec::new()).await.unwrap();
    drop((client, server));
    let started = Instant::now();
    while hosts.client.info().connections + hosts.server.info().connections > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", hosts.client.connections());
    }
    assert_eq!(hosts.client.info().memory_used, 0);
    assert_eq!(hosts.server.info().memory_used, 0);
}
