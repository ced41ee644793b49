//! Listeners: on one address, on any, and with the decision deferred.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use ackclock::Stack;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{addr, hosts, kind, settle};

#[tokio::test]
async fn a_listener_on_any_tells_what_the_client_dialled() {
    let hosts = hosts();
    let listener = hosts.server.listen_any().unwrap();
    for dialled in ["203.0.113.5:443", "10.0.0.2:7", "[2001:db8::9]:8080"] {
        let (stream, accepted) = tokio::join!(hosts.client.connect(addr(dialled)), listener.accept());
        let (accepted, peer) = accepted.unwrap();
        assert_eq!(accepted.local_addr().unwrap(), addr(dialled));
        assert_eq!(stream.unwrap().local_addr().unwrap(), peer);
    }
}

#[tokio::test]
async fn a_listener_on_any_port_takes_what_no_other_listener_has() {
    let hosts = hosts();
    let own = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
    let rest = hosts.server.listener().any_port("10.0.0.2".parse().unwrap()).bind().unwrap();
    let (_stream, accepted) = tokio::join!(hosts.client.connect(addr("10.0.0.2:80")), own.accept());
    assert_eq!(accepted.unwrap().0.local_addr().unwrap().port(), 80);
    let (_stream, accepted) = tokio::join!(hosts.client.connect(addr("10.0.0.2:81")), rest.accept());
    assert_eq!(accepted.unwrap().0.local_addr().unwrap().port(), 81);
}

#[tokio::test]
async fn an_address_in_use_or_of_others_cannot_be_listened_on() {
    let hosts = hosts();
    let listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
    assert_eq!(kind(hosts.server.listen(addr("10.0.0.2:80"))), ErrorKind::AddrInUse);
    assert_eq!(kind(hosts.server.listen(addr("10.0.0.3:80"))), ErrorKind::AddrNotAvailable);
    drop(listener);
    hosts.server.listen(addr("10.0.0.2:80")).unwrap();
}

#[tokio::test]
async fn port_zero_listens_on_a_free_port() {
    let hosts = hosts();
    let listener = hosts.server.listen(addr("10.0.0.2:0")).unwrap();
    let local = listener.local_addr().unwrap();
    assert_ne!(local.port(), 0);
    let (stream, _) = tokio::join!(hosts.client.connect(local), listener.accept());
    assert_eq!(stream.unwrap().peer_addr().unwrap(), local);
}

#[tokio::test]
async fn each_of_many_accepting_tasks_gets_one_connection() {
    let hosts = hosts();
    let listener = Arc::new(hosts.server.listen(addr("10.0.0.2:80")).unwrap());
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let listener = Arc::clone(&listener);
            tokio::spawn(async move { listener.accept().await.unwrap() })
        })
        .collect();
    settle().await;
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(hosts.client.connect(addr("10.0.0.2:80")).await.unwrap());
    }
    let mut peers = Vec::new();
    for task in tasks {
        peers.push(task.await.unwrap().1);
    }
    peers.sort();
    let mut expected: Vec<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
    expected.sort();
    assert_eq!(peers, expected);
}

#[tokio::test(start_paused = true)]
async fn a_full_backlog_takes_no_more_until_somebody_accepts() {
    let hosts = hosts();
    let listener = hosts.server.listener().addr(addr("10.0.0.2:80")).backlog(2).bind().unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let client = hosts.client.clone();
            tokio::spawn(async move {
                let mut stream = client.connect(addr("10.0.0.2:80")).await?;
                stream.write_all(b"x").await?;
                stream.read_u8().await
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(hosts.server.info().connections, 2);
    for _ in 0..4 {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let byte = stream.read_u8().await.unwrap();
            stream.write_u8(byte).await.unwrap();
        });
    }
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), b'x');
    }
}

#[tokio::test]
async fn a_dropped_listener_resets_those_who_waited() {
    let hosts = hosts();
    let listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
    let mut client = hosts.client.connect(addr("10.0.0.2:80")).await.unwrap();
    settle().await;
    drop(listener);
    assert_eq!(kind(client.read(&mut [0; 1]).await), ErrorKind::ConnectionReset);
    assert_eq!(kind(hosts.client.connect(addr("10.0.0.2:80")).await), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_deferred_syn_is_seen_and_then_accepted() {
    let hosts = hosts();
    let listener = hosts.server.listener().deferred().unwrap();
    let client = hosts.client.clone();
    let connecting = tokio::spawn(async move { client.connect(addr("198.51.100.1:443")).await });
    let incoming = listener.incoming().await.unwrap();
    assert_eq!(incoming.local_addr(), addr("198.51.100.1:443"));
    assert_eq!(incoming.peer_addr().ip(), addr("10.0.0.1:0").ip());
    assert_eq!(incoming.mss(), Some(1460));
    settle().await;
    assert!(!connecting.is_finished(), "nothing is answered before the decision");
    let mut server = incoming.accept().await.unwrap();
    let mut client = connecting.await.unwrap().unwrap();
    client.write_all(b"hi").await.unwrap();
    let mut read = [0; 2];
    server.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"hi");
}

#[tokio::test]
async fn a_deferred_syn_can_be_refused() {
    let hosts = hosts();
    let listener = hosts.server.listener().addr(addr("10.0.0.2:80")).deferred().unwrap();
    let client = hosts.client.clone();
    let connecting = tokio::spawn(async move { client.connect(addr("10.0.0.2:80")).await });
    listener.incoming().await.unwrap().reset();
    assert_eq!(kind(connecting.await.unwrap()), ErrorKind::ConnectionRefused);
}

#[tokio::test(start_paused = true)]
async fn a_deferred_syn_that_is_dropped_gets_no_answer_and_may_come_again() {
    let hosts = hosts();
    let listener = hosts.server.listener().addr(addr("10.0.0.2:80")).deferred().unwrap();
    let client = hosts.client.clone();
    let connecting = tokio::spawn(async move { client.connect(addr("10.0.0.2:80")).await });
    drop(listener.incoming().await.unwrap());
    settle().await;
    assert!(!connecting.is_finished());
    // The client's retransmission is a new SYN.
    let again = listener.incoming().await.unwrap();
    let _server = again.accept().await.unwrap();
    connecting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deferred_syn_that_is_held_keeps_the_client_waiting() {
    let hosts = hosts();
    let listener = hosts.server.listener().addr(addr("10.0.0.2:80")).deferred().unwrap();
    let client = hosts.client.clone();
    let connecting = tokio::spawn(async move { client.connect(addr("10.0.0.2:80")).await });
    let held = listener.incoming().await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!connecting.is_finished());
    let _server = held.accept().await.unwrap();
    connecting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn accepting_a_client_that_has_gone_is_an_error_in_the_end() {
    let hosts = hosts();
    let listener = hosts.server.listener().addr(addr("10.0.0.2:80")).deferred().unwrap();
    let client = hosts.client.clone();
    let connecting = tokio::spawn(async move { client.connect(addr("10.0.0.2:80")).await });
    let incoming = listener.incoming().await.unwrap();
    hosts.cable.set_mtu(0); // Nothing passes any more.
    connecting.abort();
    assert_eq!(kind(incoming.accept().await), ErrorKind::ConnectionAborted);
}

#[tokio::test]
async fn a_stack_without_addresses_accepts_but_cannot_connect() {
    let (left, right) = ackclock_device::memory::pair(ackclock_device::memory::Config::default());
    let client = crate::support::host("10.0.0.1/24", "fd00::1/64").device(left).spawn().unwrap();
    let proxy = Stack::builder().device(right).spawn().unwrap();
    let listener = proxy.listen_any().unwrap();
    let (stream, accepted) = tokio::join!(client.connect(addr("192.0.2.1:1")), listener.accept());
    assert_eq!(stream.unwrap().peer_addr().unwrap(), accepted.unwrap().0.local_addr().unwrap());
    assert_eq!(kind(proxy.connect(addr("10.0.0.1:1")).await), ErrorKind::AddrNotAvailable);
}
