//! A connection that ends in error after data came: each way of reading gives the data to its last byte, then
//! the error.

use std::io::ErrorKind;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock::TcpStream;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, Interest, ReadBuf};

use crate::support::{accepted, addr, between, connection, hosts, hosts_with_network, kind, settle};

const TEXT: &[u8] = b"all of this came before the reset";

/// A stream whose peer has sent [`TEXT`] and then a reset, both of which have arrived.
async fn reset_after_text() -> TcpStream {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    server.write_all(TEXT).await.unwrap();
    settle().await;
    server.abort();
    settle().await;
    // The hosts may go: a stream keeps its stack.
    assert!(client.ready(Interest::READABLE | Interest::ERROR).await.unwrap().is_error());
    client
}

#[tokio::test]
async fn read_gives_the_text_and_then_the_reset_again_and_again() {
    let mut stream = reset_after_text().await;
    let mut buf = [0; 8];
    let mut seen = Vec::new();
    for _ in 0..TEXT.len().div_ceil(buf.len()) {
        let len = stream.read(&mut buf).await.unwrap();
        seen.extend_from_slice(&buf[..len]);
    }
    assert_eq!(seen, TEXT);
    for _ in 0..3 {
        assert_eq!(kind(stream.read(&mut buf).await), ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn try_read_and_readable_give_the_text_and_then_the_reset() {
    let stream = reset_after_text().await;
    let mut buf = [0; 64];
    stream.readable().await.unwrap();
    assert_eq!(stream.try_read(&mut buf).unwrap(), TEXT.len());
    stream.readable().await.unwrap();
    assert_eq!(kind(stream.try_read(&mut buf)), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn peek_shows_the_text_for_as_long_as_it_is_there_and_then_the_reset() {
    let mut stream = reset_after_text().await;
    let mut buf = [0; 64];
    for _ in 0..2 {
        assert_eq!(stream.peek(&mut buf).await.unwrap(), TEXT.len());
    }
    assert_eq!(stream.read(&mut buf).await.unwrap(), TEXT.len());
    assert_eq!(kind(stream.peek(&mut buf).await), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn read_to_end_has_the_text_and_fails() {
    let mut stream = reset_after_text().await;
    let mut seen = Vec::new();
    assert_eq!(kind(stream.read_to_end(&mut seen).await), ErrorKind::ConnectionReset);
    assert_eq!(seen, TEXT);
}

#[tokio::test]
async fn a_buffered_reader_gives_the_line_and_then_the_reset() {
    let mut lines = BufReader::new(reset_after_text().await);
    let mut line = Vec::new();
    lines.read_until(b' ', &mut line).await.unwrap();
    assert_eq!(line, b"all ");
    assert_eq!(kind(lines.read_until(b'\n', &mut line).await), ErrorKind::ConnectionReset);
    assert_eq!(line, TEXT);
}

#[tokio::test]
async fn poll_read_is_ready_with_the_text_and_then_with_the_reset() {
    let mut stream = reset_after_text().await;
    let cx = &mut Context::from_waker(Waker::noop());
    let mut room = [0; 64];
    let mut buf = ReadBuf::new(&mut room);
    assert!(matches!(Pin::new(&mut stream).poll_read(cx, &mut buf), Poll::Ready(Ok(()))));
    assert_eq!(buf.filled(), TEXT);
    assert!(stream.poll_read_ready(cx).is_ready());
    let Poll::Ready(Err(error)) = Pin::new(&mut stream).poll_read(cx, &mut buf) else { panic!("an error") };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(buf.filled(), TEXT);
}

#[tokio::test]
async fn halves_that_borrow_read_while_the_other_half_fails() {
    let mut stream = reset_after_text().await;
    let (mut reader, mut writer) = stream.split();
    assert_eq!(kind(writer.write(b"x").await), ErrorKind::ConnectionReset);
    assert!(writer.shutdown().await.is_ok());
    assert_eq!(kind(writer.write(b"x").await), ErrorKind::BrokenPipe);
    let mut seen = Vec::new();
    assert_eq!(kind(reader.read_to_end(&mut seen).await), ErrorKind::ConnectionReset);
    assert_eq!(seen, TEXT);
}

#[tokio::test]
async fn an_owned_read_half_reads_after_the_write_half_is_gone() {
    let (mut reader, mut writer) = reset_after_text().await.into_split();
    assert_eq!(kind(writer.write(b"x").await), ErrorKind::ConnectionReset);
    drop(writer);
    let mut seen = Vec::new();
    assert_eq!(kind(reader.read_to_end(&mut seen).await), ErrorKind::ConnectionReset);
    assert_eq!(seen, TEXT);
}

#[tokio::test]
async fn the_error_and_the_notice_do_not_take_the_text_away() {
    let mut stream = reset_after_text().await;
    let info = stream.info().unwrap();
    assert_eq!(info.receive_queue, TEXT.len());
    assert_eq!(kind(stream.notice().await), ErrorKind::ConnectionReset);
    assert_eq!(stream.take_error().unwrap().unwrap().kind(), ErrorKind::ConnectionReset);
    let ready = stream.ready(Interest::READABLE).await.unwrap();
    assert!(ready.is_readable() && ready.is_read_closed() && !ready.is_error());
    let mut seen = vec![0; TEXT.len()];
    stream.read_exact(&mut seen).await.unwrap();
    assert_eq!(seen, TEXT);
    assert!(stream.ready(Interest::READABLE).await.unwrap().is_read_closed());
    assert_eq!(kind(stream.read_u8().await), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_reader_that_waits_has_the_text_and_is_then_woken_by_the_reset() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    let reading = tokio::spawn(async move {
        let mut seen = Vec::new();
        let error = client.read_to_end(&mut seen).await.unwrap_err();
        (seen, error.kind())
    });
    settle().await;
    server.write_all(TEXT).await.unwrap();
    settle().await;
    server.abort();
    assert_eq!(reading.await.unwrap(), (TEXT.to_vec(), ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn a_stream_reset_before_it_was_accepted_is_accepted_and_read() {
    let hosts = hosts();
    let listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
    let mut client = hosts.client.connect(addr("10.0.0.2:80")).await.unwrap();
    client.write_all(TEXT).await.unwrap();
    settle().await;
    client.abort();
    settle().await;
    let (mut server, _) = listener.accept().await.unwrap();
    let mut seen = Vec::new();
    assert_eq!(kind(server.read_to_end(&mut seen).await), ErrorKind::ConnectionReset);
    assert_eq!(seen, TEXT);
}

#[tokio::test]
async fn a_connect_that_finds_text_and_reset_is_a_connection_with_text() {
    let hosts = hosts();
    let listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
    let mut connecting = Box::pin(hosts.client.connect(addr("10.0.0.2:80")));
    let polled = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    let (mut server, _) = listener.accept().await.unwrap();
    server.write_all(TEXT).await.unwrap();
    settle().await;
    server.abort();
    settle().await;
    let mut client = connecting.await.unwrap();
    let mut seen = Vec::new();
    assert_eq!(kind(client.read_to_end(&mut seen).await), ErrorKind::ConnectionReset);
    assert_eq!(seen, TEXT);
}

#[tokio::test(start_paused = true)]
async fn what_came_before_a_timeout_is_read_and_then_the_timeout() {
    let (client, server, network) = hosts_with_network();
    let (mut stream, mut peer) = between(&client, &server).await;
    stream.set_user_timeout(Some(Duration::from_secs(3))).unwrap();
    peer.write_all(TEXT).await.unwrap();
    stream.readable().await.unwrap();
    network.set_blackout(true);
    stream.write_all(b"anybody?").await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let mut seen = Vec::new();
    assert_eq!(kind(stream.read_to_end(&mut seen).await), ErrorKind::TimedOut);
    assert_eq!(seen, TEXT);
}

#[tokio::test]
async fn ones_own_abort_gives_neither_the_text_nor_an_end_of_stream() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    server.write_all(TEXT).await.unwrap();
    server.shutdown().await.unwrap();
    settle().await;
    let (mut reader, writer) = client.into_split();
    writer.as_ref().abort();
    assert_eq!(kind(reader.read(&mut [0; 64]).await), ErrorKind::ConnectionAborted);
}

#[tokio::test]
async fn the_memory_of_what_was_not_read_goes_with_the_stream() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    server.write_all(TEXT).await.unwrap();
    settle().await;
    server.abort();
    drop(server);
    settle().await;
    assert!(hosts.client.info().memory_used > 0);
    drop(client);
    settle().await;
    let info = hosts.client.info();
    assert_eq!((info.connections, info.memory_used), (0, 0));
    // And the port is free for the next.
    let listener = hosts.server.listen(addr("10.0.0.2:81")).unwrap();
    drop(accepted(&hosts.client, &listener).await);
}

#[tokio::test]
async fn a_stack_that_aborts_resets_each_peer_and_goes_on() {
    let hosts = hosts();
    let listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
    let (client, mut first) = accepted(&hosts.client, &listener).await;
    let (_other, mut second) = accepted(&hosts.client, &listener).await;
    hosts.client.abort();
    for peer in [&mut first, &mut second] {
        assert_eq!(kind(peer.read(&mut [0; 1]).await), ErrorKind::ConnectionReset);
    }
    assert_eq!(kind(client.try_read(&mut [0; 1])), ErrorKind::ConnectionAborted);
    let (mut client, mut server) = accepted(&hosts.client, &listener).await;
    client.write_all(TEXT).await.unwrap();
    let mut seen = vec![0; TEXT.len()];
    server.read_exact(&mut seen).await.unwrap();
    assert_eq!(seen, TEXT);
}
