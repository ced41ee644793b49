//! A stack that runs dry before a restart.

use std::io::ErrorKind;
use std::time::Duration;

use ackclock::StackError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use crate::support::{addr, connection, hosts, hosts_with_network, kind, settle};

const LONG: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn a_drain_takes_nothing_new_and_waits_for_what_there_is() {
    let hosts = hosts();
    let listener = hosts.server.listen(addr("10.0.0.2:81")).unwrap();
    let (mut client, mut server) = connection(&hosts).await;
    let stack = hosts.server.clone();
    let drained = tokio::spawn(async move { stack.drain(LONG).await });
    settle().await;

    for error in [
        listener.accept().await.unwrap_err(),
        hosts.server.listen(addr("10.0.0.2:82")).unwrap_err(),
        hosts.server.connect(addr("10.0.0.1:80")).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NetworkDown);
        assert!(matches!(error.downcast::<StackError>().unwrap(), StackError::Draining));
    }
    assert_eq!(kind(hosts.client.connect(addr("10.0.0.2:81")).await), ErrorKind::ConnectionRefused);

    // Both directions work as before, for as long as their programs like.
    tokio::time::sleep(Duration::from_secs(600)).await;
    client.write_all(b"question").await.unwrap();
    let mut question = [0; 8];
    server.read_exact(&mut question).await.unwrap();
    server.write_all(b"answer").await.unwrap();
    assert!(!drained.is_finished());
    drop(server);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
    drop(client);
    assert_eq!(drained.await.unwrap().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_outlives_the_drain_is_reset_and_counted() {
    let hosts = hosts();
    let (_client, mut server) = connection(&hosts).await;
    let sent = hosts.server.counters().packets_sent;
    let started = Instant::now();
    let reset = hosts.server.drain(Duration::from_secs(30)).await.unwrap();
    let took = started.elapsed();
    assert_eq!(reset, 1);
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(31), "{took:?}");
    assert_eq!(hosts.server.counters().packets_sent - sent, 1, "the reset");
    assert_eq!(kind(server.write(b"x").await), ErrorKind::NetworkDown);
}

#[tokio::test]
async fn what_had_arrived_can_be_read_behind_a_drain() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    client.write_all(b"last words").await.unwrap();
    client.shutdown().await.unwrap();
    server.shutdown().await.unwrap();
    let reset = timeout(Duration::from_secs(5), hosts.server.drain(LONG)).await.unwrap().unwrap();
    assert_eq!(reset, 0);
    let mut words = Vec::new();
    server.read_to_end(&mut words).await.unwrap();
    assert_eq!(words, b"last words");
}

#[tokio::test(start_paused = true)]
async fn a_second_drain_shortens_the_time_and_never_lengthens_it() {
    let (client, server, _network) = hosts_with_network();
    let _connection = crate::support::between(&client, &server).await;
    let started = Instant::now();
    let (first, second, third) = (server.clone(), server.clone(), server.clone());
    let resets = tokio::join!(
        async move { first.drain(LONG).await.unwrap() },
        async move { second.drain(Duration::from_secs(5)).await.unwrap() },
        async move { third.drain(LONG).await.unwrap() },
    );
    assert_eq!(resets, (1, 1, 1));
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(6), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_drain_within_the_close_timeout() {
    let hosts = hosts();
    let (_client, mut server) = connection(&hosts).await;
    let stack = hosts.server.clone();
    let drained = tokio::spawn(async move { stack.drain(LONG).await });
    settle().await;
    server.write_all(b"still open").await.unwrap();
    let started = Instant::now();
    hosts.server.shutdown().await;
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(12), "{took:?}");
    assert_eq!(drained.await.unwrap().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn closing_is_ready_once_nothing_new_is_taken() {
    for drains in [true, false] {
        let hosts = hosts();
        let _connection = connection(&hosts).await;
        let stack = hosts.server.clone();
        let closing = tokio::spawn(async move { stack.closing().await });
        settle().await;
        assert!(!closing.is_finished());
        let stack = hosts.server.clone();
        let ending = tokio::spawn(async move {
            if drains {
                stack.drain(LONG).await.unwrap();
            } else {
                stack.shutdown().await;
            }
        });
        settle().await;
        assert!(closing.is_finished(), "drains: {drains}");
        assert!(!ending.is_finished(), "drains: {drains}");
    }
}

/// However a program gives its last connection up, nothing of it is left to wait for, though no packet and no
/// timer wakes the driver.
#[tokio::test(start_paused = true)]
async fn a_stack_ends_at_once_when_its_last_connection_is_given_up() {
    for drains in [true, false] {
        for how in 0..4 {
            let hosts = hosts();
            let (mut client, server) = connection(&hosts).await;
            client.write_all(b"unread").await.unwrap();
            let dialling = hosts.server.clone();
            let connecting =
                tokio::spawn(async move { dialling.connect(addr("10.0.0.9:7")).await.map(drop) });
            if how < 3 {
                connecting.abort();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            let stack = hosts.server.clone();
            let ending = tokio::spawn(async move {
                if drains {
                    assert_eq!(stack.drain(LONG).await.unwrap(), 0);
                } else {
                    stack.shutdown().await;
                }
            });
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert!(!ending.is_finished());
            let start = Instant::now();
            match how {
                0 => drop(server),
                1 => server.abort(),
                2 => {
                    server.set_linger(Some(Duration::ZERO)).unwrap();
                    drop(server);
                }
                _ => {
                    server.abort();
                    connecting.abort();
                }
            }
            timeout(LONG, ending).await.expect("it ends").unwrap();
            assert!(start.elapsed() <= Duration::from_millis(1), "{drains} {how}: {:?}", start.elapsed());
        }
    }
}
