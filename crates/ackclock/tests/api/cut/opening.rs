//! Connecting, listening, accepting.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock::{DeferredListener, Incoming, TcpListener, TcpStream};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::{Cut, at_every_poll, leaves_nothing, still_connects, talk};
use crate::support::{SERVER, addr, hosts, kind, settle};

#[tokio::test(start_paused = true)]
async fn connect_gives_up_its_attempt() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let listener = hosts.server.listen(addr(SERVER)).unwrap();
        drop(cut.at("stack::connect", hosts.client.connect(addr(SERVER))).await);
        still_connects(&hosts.client, &listener).await;
        drop(listener);
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn connect_of_a_stream_gives_up_its_attempt() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let listener = hosts.server.listen(addr(SERVER)).unwrap();
        drop(cut.at("stream::connect", TcpStream::connect(&hosts.client, SERVER)).await);
        still_connects(&hosts.client, &listener).await;
        drop(listener);
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn connect_of_a_bound_socket_gives_its_port_back() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let listener = hosts.server.listen(addr(SERVER)).unwrap();
        let socket = hosts.client.socket();
        socket.bind(addr("10.0.0.1:5000")).unwrap();
        drop(cut.at("socket::connect", socket.connect(addr(SERVER))).await);
        settle().await;
        let again = hosts.client.socket();
        // If it was established, it may still be closing.
        again.set_reuseaddr(true).unwrap();
        again.bind(addr("10.0.0.1:5000")).unwrap();
        drop(again);
        still_connects(&hosts.client, &listener).await;
        drop(listener);
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn connect_with_data_delivers_all_or_a_beginning() {
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
    at_every_poll(async |cut| {
        let hosts = hosts();
        let listener = hosts.server.listen(addr(SERVER)).unwrap();
        let serving = tokio::spawn(async move {
            let mut all = Vec::new();
            // A connection that was given up may end in a reset.
            if let Ok((mut stream, _)) = listener.accept().await {
                stream.read_to_end(&mut all).await.ok();
            }
            (all, listener)
        });
        let connect = hosts.client.socket().connect_with_data(addr(SERVER), &data);
        let connected = cut.at("socket::connect_with_data", connect).await;
        let all = connected.is_some();
        drop(connected.map(Result::unwrap));
        let abort = serving.abort_handle();
        match timeout(Duration::from_secs(60), serving).await {
            Ok(served) => {
                let (received, listener) = served.unwrap();
                assert!(data.starts_with(&received), "{} bytes", received.len());
                assert!(!all || received.len() == data.len(), "{} bytes of all", received.len());
                still_connects(&hosts.client, &listener).await;
            }
            Err(_) => {
                assert!(!all, "what was connected is accepted");
                abort.abort();
                settle().await;
            }
        }
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn bind_of_a_listener_leaves_the_address_free() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        drop(cut.at("listener::bind", TcpListener::bind(&hosts.server, SERVER)).await);
        let listener = hosts.server.listen(addr(SERVER)).unwrap();
        still_connects(&hosts.client, &listener).await;
        drop(listener);
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn accept_loses_no_connection() {
    accepts_all(async |cut, listener| match cut.at("listener::accept", listener.accept()).await {
        Some(accepted) => accepted,
        None => listener.accept().await,
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn accept_at_a_queue_loses_no_connection() {
    accepts_all(async |cut, listener| match cut.at("listener::accept_at", listener.accept_at(0)).await {
        Some(accepted) => accepted,
        None => listener.accept_at(0).await,
    })
    .await;
}

/// A connection that comes while `accept` is cut, and called again, is accepted and works.
async fn accepts_all(accept: impl AsyncFn(&Cut, &TcpListener) -> io::Result<(TcpStream, SocketAddr)>) {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let listener = hosts.server.listen(addr(SERVER)).unwrap();
        let client = hosts.client.clone();
        let connecting = tokio::spawn(async move { client.connect(addr(SERVER)).await });
        let (mut theirs, peer) = accept(cut, &listener).await.unwrap();
        let mut ours = connecting.await.unwrap().unwrap();
        assert_eq!(ours.local_addr().unwrap(), peer);
        talk(&mut ours, &mut theirs).await;
        drop((ours, theirs, listener));
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn incoming_loses_no_syn() {
    takes_all(async |cut, listener| match cut.at("listener/incoming::incoming", listener.incoming()).await {
        Some(incoming) => incoming,
        None => listener.incoming().await,
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn incoming_at_a_queue_loses_no_syn() {
    takes_all(async |cut, listener| {
        match cut.at("listener/incoming::incoming_at", listener.incoming_at(0)).await {
            Some(incoming) => incoming,
            None => listener.incoming_at(0).await,
        }
    })
    .await;
}

/// A SYN that comes while `incoming` is cut, and called again, is given, and its connection works.
async fn takes_all(incoming: impl AsyncFn(&Cut, &DeferredListener) -> io::Result<Incoming>) {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let listener = hosts.server.listener().addr(addr(SERVER)).deferred().unwrap();
        let client = hosts.client.clone();
        let connecting = tokio::spawn(async move { client.connect(addr(SERVER)).await });
        let accepted = incoming(cut, &listener).await.unwrap().accept().await;
        let (mut theirs, mut ours) = (accepted.unwrap(), connecting.await.unwrap().unwrap());
        talk(&mut ours, &mut theirs).await;
        drop((ours, theirs, listener));
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn accept_of_an_incoming_closes_what_nobody_waits_for() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let listener = hosts.server.listener().addr(addr(SERVER)).deferred().unwrap();
        let client = hosts.client.clone();
        let connecting = tokio::spawn(async move { client.connect(addr(SERVER)).await });
        let incoming = listener.incoming().await.unwrap();
        drop(cut.at("listener/incoming::accept", incoming.accept()).await);
        if cut.polls == 0 {
            // The SYN is forgotten, and its client repeats it.
            listener.incoming().await.unwrap().reset();
            assert_eq!(kind(connecting.await.unwrap()), std::io::ErrorKind::ConnectionRefused);
        } else {
            let mut ours = connecting.await.unwrap().unwrap();
            assert_eq!(ours.read(&mut [0; 1]).await.unwrap(), 0, "closed in order");
        }
        drop(listener);
        leaves_nothing(hosts).await;
    })
    .await;
}
