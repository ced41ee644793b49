//! Futures that are dropped before they are ready: nothing is lost, nothing is left behind.

use std::io::ErrorKind;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{accepted, addr, cancelled_after, connection, hosts, kind, settle};

/// More polls than any of these calls needs.
const POLLS: usize = 12;

#[tokio::test]
async fn a_cancelled_accept_loses_no_connection() {
    for polls in 0..POLLS {
        let hosts = hosts();
        let listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
        let client = hosts.client.clone();
        let connecting = tokio::spawn(async move { client.connect(addr("10.0.0.2:80")).await });
        let early = cancelled_after(listener.accept(), polls).await;
        let (stream, peer) = match early {
            Some(accepted) => accepted.unwrap(),
            None => listener.accept().await.unwrap(),
        };
        let connected = connecting.await.unwrap().unwrap();
        assert_eq!(connected.local_addr().unwrap(), peer, "after {polls} polls");
        drop(stream);
    }
}

#[tokio::test]
async fn a_cancelled_connect_leaves_nothing() {
    for polls in 0..POLLS {
        let hosts = hosts();
        // No host answers there.
        let connect = hosts.client.connect(addr("10.0.0.99:80"));
        assert!(cancelled_after(connect, polls).await.is_none());
        settle().await;
        assert_eq!(hosts.client.info().connections, 0, "after {polls} polls");
    }
}

#[tokio::test]
async fn a_connect_cancelled_at_any_point_does_not_disturb_the_next() {
    for polls in 0..POLLS {
        let hosts = hosts();
        let listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
        drop(cancelled_after(hosts.client.connect(addr("10.0.0.2:80")), polls).await);
        let (mut client, _) = {
            let connected = hosts.client.connect(addr("10.0.0.2:80")).await.unwrap();
            (connected, ())
        };
        // The one given up may have been established before it was: it is the first in the queue then.
        let peer = client.local_addr().unwrap();
        let mut server = loop {
            let (stream, from) = listener.accept().await.unwrap();
            if from == peer {
                break stream;
            }
        };
        client.write_all(b"ok").await.unwrap();
        let mut read = [0; 2];
        server.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"ok", "after {polls} polls");
    }
}

#[tokio::test]
async fn a_cancelled_read_loses_no_byte() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    let mut received = Vec::new();
    for polls in 0..POLLS {
        let mut buf = [0; 64];
        if let Some(len) = cancelled_after(server.read(&mut buf), polls % 3).await {
            received.extend_from_slice(&buf[..len.unwrap()]);
        }
        client.write_all(&[polls as u8]).await.unwrap();
    }
    client.shutdown().await.unwrap();
    server.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, (0..POLLS as u8).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_cancelled_write_wrote_nothing() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    let mut sent = 0;
    let block = vec![1; 300_000];
    // The other end does not read, so the write is pending at some time.
    loop {
        match cancelled_after(client.write(&block), 3).await {
            Some(len) => sent += len.unwrap(),
            None => break,
        }
        settle().await;
    }
    assert_eq!(kind(client.try_write(&block)), ErrorKind::WouldBlock);
    let reading = tokio::spawn(async move {
        let mut received = Vec::new();
        server.read_to_end(&mut received).await.unwrap();
        received.len()
    });
    client.shutdown().await.unwrap();
    assert_eq!(reading.await.unwrap(), sent);
}

#[tokio::test]
async fn a_cancelled_wait_leaves_its_place_and_the_others_theirs() {
    let hosts = hosts();
    let (mut client, server) = connection(&hosts).await;
    for polls in 1..4 {
        assert!(cancelled_after(server.readable(), polls).await.is_none());
        assert!(cancelled_after(server.peek(&mut [0; 1]), polls).await.is_none());
        assert!(cancelled_after(server.notice(), polls).await.is_none());
    }
    let server = std::sync::Arc::new(server);
    let waiting = tokio::spawn({
        let server = std::sync::Arc::clone(&server);
        async move { server.readable().await }
    });
    settle().await;
    assert!(cancelled_after(server.readable(), 2).await.is_none());
    client.write_all(b"x").await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_cancelled_deferred_accept_closes_the_connection_when_it_comes() {
    for polls in 0..POLLS {
        let hosts = hosts();
        let listener = hosts.server.listener().addr(addr("10.0.0.2:80")).deferred().unwrap();
        let client = hosts.client.clone();
        let connecting = tokio::spawn(async move { client.connect(addr("10.0.0.2:80")).await });
        let incoming = loop {
            // Waiting for the SYN is itself cancelled again and again.
            if let Some(incoming) = cancelled_after(listener.incoming(), 1).await {
                break incoming.unwrap();
            }
        };
        if let Some(accepted) = cancelled_after(incoming.accept(), polls).await {
            drop(accepted.unwrap());
        } else if polls == 0 {
            // Never polled: the SYN was dropped, and the client would try again for minutes.
            connecting.abort();
            continue;
        }
        let mut connected = connecting.await.unwrap().unwrap();
        assert_eq!(connected.read(&mut [0; 1]).await.unwrap(), 0, "after {polls} polls");
        drop(connected);
        settle().await;
        assert_eq!(hosts.server.info().connections, 0, "after {polls} polls");
    }
}

#[tokio::test]
async fn a_cancelled_shutdown_closes_all_the_same() {
    let hosts = hosts();
    let listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
    let (_client, _server) = accepted(&hosts.client, &listener).await;
    assert!(cancelled_after(hosts.server.shutdown(), 1).await.is_none());
    assert_eq!(kind(listener.accept().await), ErrorKind::NetworkDown);
    assert_eq!(kind(hosts.server.listen(addr("10.0.0.2:81"))), ErrorKind::NetworkDown);
}
