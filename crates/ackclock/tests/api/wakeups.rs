//! A task that waits is woken by whatever ends its wait, even if nothing else happens on its stream.

use std::future::Future;
use std::io::ErrorKind;

use ackclock::{Interest, OwnedWriteHalf, Ready, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use crate::support::{Hosts, between, connection, hosts, hosts_with_network, kind, settle};

/// A task that waits, once it does.
async fn waits<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let waiting = tokio::spawn(future);
    settle().await;
    assert!(!waiting.is_finished(), "nothing has happened yet");
    waiting
}

/// The task's result. It has been woken by now: no time passes.
async fn woken<T>(waiting: JoinHandle<T>) -> T {
    settle().await;
    assert!(waiting.is_finished(), "what it waits for has happened, and it sleeps");
    waiting.await.unwrap()
}

/// How `delivered_to(1)` fails on a stream to which nothing was written, when `end` makes that impossible.
/// The peer keeps its end, and acknowledges a FIN.
async fn undelivered(end: impl AsyncFnOnce(&Hosts, OwnedWriteHalf, &TcpStream)) -> ErrorKind {
    let hosts = hosts();
    let (ours, theirs) = connection(&hosts).await;
    let (reader, writer) = ours.into_split();
    let waiting = waits(async move { reader.as_ref().delivered_to(1).await }).await;
    end(&hosts, writer, &theirs).await;
    kind(woken(waiting).await)
}

#[tokio::test(start_paused = true)]
async fn delivered_to_fails_as_soon_as_it_is_impossible() {
    let shut_down = undelivered(async |_, mut writer, _| writer.shutdown().await.unwrap());
    assert_eq!(shut_down.await, ErrorKind::BrokenPipe);
    let dropped = undelivered(async |_, writer, _| drop(writer));
    assert_eq!(dropped.await, ErrorKind::BrokenPipe);
    // A stack that closes shuts each stream down.
    let closed = undelivered(async |hosts, writer, _| {
        let stack = hosts.client.clone();
        tokio::spawn(async move { stack.shutdown().await });
        settle().await;
        writer.forget();
    });
    assert_eq!(closed.await, ErrorKind::BrokenPipe);
    let aborted = undelivered(async |_, writer, _| writer.as_ref().abort());
    assert_eq!(aborted.await, ErrorKind::ConnectionAborted);
    let all_aborted = undelivered(async |hosts, writer, _| {
        hosts.client.abort();
        writer.forget();
    });
    assert_eq!(all_aborted.await, ErrorKind::ConnectionAborted);
    let reset = undelivered(async |_, writer, theirs| {
        theirs.abort();
        writer.forget();
    });
    assert_eq!(reset.await, ErrorKind::ConnectionReset);
    let unplugged = undelivered(async |hosts, writer, _| {
        hosts.cable.unplug();
        writer.forget();
    });
    assert_eq!(unplugged.await, ErrorKind::NetworkDown);
}

/// The peer's end, its urgent data, and an error are ready for those who ask for urgent data, alone or with
/// room to write, of which there is none.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[tokio::test(start_paused = true)]
async fn urgent_data_and_the_peers_end_are_ready_whatever_else_is_asked_for() {
    const PRIORITY: Interest = Interest::PRIORITY;
    const WRITABLE: Interest = Interest::WRITABLE;
    let urgent = async |theirs: &mut TcpStream| assert_eq!(theirs.try_write_urgent(b"!").unwrap(), 1);
    let finish = async |theirs: &mut TcpStream| theirs.shutdown().await.unwrap();
    let reset = async |theirs: &mut TcpStream| theirs.abort();
    let over = Ready::READ_CLOSED;
    for (interest, after_reset) in [
        (PRIORITY, over),
        (PRIORITY | WRITABLE, over | Ready::WRITE_CLOSED),
        (PRIORITY | Interest::ERROR, over | Ready::ERROR),
    ] {
        assert_eq!(made_ready(interest, urgent).await, Ready::PRIORITY, "{interest:?}");
        assert_eq!(made_ready(interest, finish).await, over, "{interest:?}");
        assert_eq!(made_ready(interest, reset).await, after_reset, "{interest:?}");
    }
}

/// The readiness for `interest` of a stream whose send buffer is full, after the peer has acted. Any segment
/// of the peer's may make room for a few bytes, which is not a reason to wake a writer, and is left out.
async fn made_ready(interest: Interest, act: impl AsyncFnOnce(&mut TcpStream)) -> Ready {
    let hosts = hosts();
    let (ours, mut theirs) = connection(&hosts).await;
    while ours.try_write(&[7; 100_000]).is_ok() {
        settle().await;
    }
    let waiting = waits(async move { ours.ready(interest).await }).await;
    act(&mut theirs).await;
    woken(waiting).await.unwrap() - Ready::WRITABLE
}

/// The urgent pointer comes ahead of the data it points to, as a segment is lost: there is nothing to read.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[tokio::test(start_paused = true)]
async fn an_urgent_pointer_ahead_of_the_data_is_ready_for_a_reader() {
    let (client, server, network) = hosts_with_network();
    let (ours, mut theirs) = between(&client, &server).await;
    let waiting =
        waits(async move { (ours.ready(Interest::READABLE | Interest::PRIORITY).await, ours) }).await;
    // Nagle's algorithm would hold the second segment back.
    theirs.set_nodelay(true).unwrap();
    network.set_blackout(true);
    theirs.write_all(b"lost").await.unwrap();
    settle().await;
    network.set_blackout(false);
    assert_eq!(theirs.try_write_urgent(b"!").unwrap(), 1);
    let (ready, mut ours) = woken(waiting).await;
    assert_eq!((ready.unwrap(), ours.urgent_remaining().unwrap()), (Ready::PRIORITY, 5));
    ours.read_exact(&mut [0; 5]).await.unwrap();
}
