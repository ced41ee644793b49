//! How the driver and the tasks that it wakes share a thread: what goes in one packet, who waits for whom.

use std::time::Duration;

use ackclock_device::memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::support::{SERVER, accepted, addr, connection, host, hosts, settle};

#[tokio::test]
async fn a_fin_that_is_answered_by_closing_costs_one_packet() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    settle().await;
    let before = hosts.server.counters().packets_sent;
    let closing = tokio::spawn(async move {
        assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
    });
    client.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
    closing.await.unwrap();
    assert_eq!(hosts.server.counters().packets_sent - before, 1, "its FIN acknowledges the client's");
}

#[tokio::test]
async fn a_fin_that_no_task_answers_is_acknowledged_at_once() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    settle().await;
    let before = hosts.server.counters().packets_sent;
    let reading = tokio::spawn(async move {
        assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
        std::future::pending::<()>().await;
    });
    client.shutdown().await.unwrap();
    settle().await;
    assert_eq!(hosts.server.counters().packets_sent - before, 1);
    reading.abort();
}

#[tokio::test]
async fn a_writer_that_never_waits_of_itself_lets_the_driver_have_its_turn() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    let reading = tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        while server.read(&mut buffer).await.unwrap() > 0 {}
    });
    for _ in 0..64 {
        client.write_all(&[7; 1 << 16]).await.unwrap();
    }
    client.shutdown().await.unwrap();
    timeout(Duration::from_secs(5), reading).await.expect("4 MiB arrive").unwrap();
}

#[tokio::test]
async fn who_asks_whether_there_is_room_is_held_no_longer_than_a_writer() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    let reading = tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        let mut total = 0;
        while total < 4 << 20 {
            total += server.read(&mut buffer).await.unwrap();
        }
    });
    let mut left = 4 << 20;
    while left > 0 {
        timeout(Duration::from_secs(5), client.writable()).await.expect("there is room in time").unwrap();
        match client.try_write(&vec![7; left.min(1 << 16)]) {
            Ok(len) => left -= len,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    timeout(Duration::from_secs(5), reading).await.expect("4 MiB arrive").unwrap();
}

#[tokio::test]
async fn a_stack_that_polls_busily_serves_and_rests() {
    let (left, right) = memory::pair(memory::Config::default());
    let busy = |builder: ackclock::StackBuilder| builder.busy_poll(Duration::from_micros(200));
    let client = busy(host("10.0.0.1/24", "fd00::1/64")).device(left).spawn().unwrap();
    let server = busy(host("10.0.0.2/24", "fd00::2/64")).device(right).spawn().unwrap();
    let listener = server.listen(addr(SERVER)).unwrap();
    let (mut client, mut served) = accepted(&client, &listener).await;
    tokio::spawn(async move {
        let mut byte = [0];
        while served.read(&mut byte).await.unwrap() > 0 {
            served.write_all(&byte).await.unwrap();
        }
    });
    for number in 0..100 {
        client.write_all(&[number]).await.unwrap();
        let mut byte = [0];
        timeout(Duration::from_secs(5), client.read_exact(&mut byte)).await.expect("in time").unwrap();
        assert_eq!(byte, [number]);
        if number % 10 == 0 {
            // Longer than they poll: they sleep, and are woken.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
