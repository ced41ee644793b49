//! How the driver and the tasks that it wakes share a thread: what goes in one packet, who waits for whom.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use ackclock_device::memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::coop;
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

/// The first that closes does not take along the acknowledgements of the others, whose tasks run after it.
#[tokio::test]
async fn fins_that_arrive_together_cost_one_packet_each() {
    let hosts = hosts();
    let mut clients = Vec::new();
    let mut closing = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (client, mut server) = connection(&hosts).await;
        clients.push(client);
        closing.spawn(async move { assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0) });
    }
    settle().await;
    let before = hosts.server.counters().packets_sent;
    for client in &mut clients {
        at_once(client.shutdown()).await.expect("a FIN waits for nothing").unwrap();
    }
    closing.join_all().await;
    for client in &mut clients {
        assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
    }
    assert_eq!(hosts.server.counters().packets_sent - before, 8, "each FIN acknowledges its client's");
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

/// The large streams have written all that they may before the driver's next turn. They wait for it; a small
/// write does not.
#[tokio::test]
async fn a_small_write_never_waits_for_the_large_ones_of_others() {
    for streams in [4, 8, 32] {
        let hosts = hosts();
        let listener = hosts.server.listen(addr(SERVER)).unwrap();
        let mut ends = Vec::new();
        for _ in 0..=streams {
            ends.push(accepted(&hosts.client, &listener).await);
        }
        settle().await;
        let (mut small, _peer) = ends.pop().unwrap();
        let piece = vec![7; QUANTUM];
        let mut written = 0;
        for _ in 0..16 {
            for (large, _) in &mut ends {
                written += at_once(large.write(&piece)).await.map_or(0, Result::unwrap);
            }
        }
        assert!(written >= QUANTUM, "{streams}: {written} bytes");
        // A write is not cut, and what one stream owes says nothing of another's.
        assert!(written <= streams * 2 * QUANTUM, "{streams}: {written} bytes");
        for (large, _) in &mut ends {
            assert!(at_once(large.write(&piece)).await.is_none(), "{streams}: a large one waits");
        }
        assert_eq!(at_once(small.write(b"x")).await.map(Result::unwrap), Some(1), "{streams}");
    }
}

/// A byte that is echoed beside streams that are written to without end: between its request and its answer
/// the others get six turns of the driver at most, however many they are, each with its quantum of 256 KiB.
/// The request and the answer take two turns each, and each passes a cable that holds less than half a
/// quantum. Nor does the echo keep the others waiting: all get their turns meanwhile.
#[tokio::test]
async fn an_echo_waits_for_a_few_turns_however_many_large_writers_are_beside_it() {
    for streams in [4, 8, 32] {
        let cable = memory::Config { queue_packets: 64, ..memory::Config::default() };
        let (left, right) = memory::pair(cable);
        let client = host("10.0.0.1/24", "fd00::1/64").device(left).spawn().unwrap();
        let server = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
        let listener = server.listen(addr(SERVER)).unwrap();
        let each: Vec<_> = (0..streams).map(|_| Arc::new(AtomicUsize::new(0))).collect();
        let carried = || each.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum::<usize>();
        let mut bulk = Vec::new();
        for carried in &each {
            let (mut reader, mut served) = accepted(&client, &listener).await;
            bulk.push(tokio::spawn(async move {
                let piece = vec![7; QUANTUM];
                while served.write_all(&piece).await.is_ok() {}
            }));
            let carried = Arc::clone(carried);
            bulk.push(tokio::spawn(async move {
                let mut buffer = vec![0; QUANTUM];
                while let Ok(len @ 1..) = reader.read(&mut buffer).await {
                    carried.fetch_add(len, Ordering::Relaxed);
                }
            }));
        }
        let (mut echo, mut served) = accepted(&client, &listener).await;
        bulk.push(tokio::spawn(async move {
            let mut byte = [0];
            while served.read_exact(&mut byte).await.is_ok() && served.write_all(&byte).await.is_ok() {}
        }));
        while carried() < 4 * streams * QUANTUM {
            tokio::task::yield_now().await;
        }
        let least = || each.iter().map(|bytes| bytes.load(Ordering::Relaxed)).min().unwrap();
        let (mut most, began, least_before) = (0, carried(), least());
        for number in 0..100 {
            let before = carried();
            echo.write_all(&[number]).await.unwrap();
            let mut byte = [0];
            timeout(Duration::from_secs(60), echo.read_exact(&mut byte)).await.expect("in time").unwrap();
            assert_eq!(byte, [number]);
            most = most.max(carried() - before);
        }
        // Each has written a quantum or less when the others' turns come: no share is below half.
        let share = (carried() - began) / streams;
        assert!(
            least() - least_before + QUANTUM >= share / 2,
            "{streams}: {least:?} of {share}",
            least = least()
        );
        assert!(most <= 6 * QUANTUM, "{streams}: {most} bytes while one was echoed");
        bulk.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// The result of `future` if nothing else has a turn.
async fn at_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(coop::unconstrained(future));
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// Bytes that each turn of the driver leaves to writers.
const QUANTUM: usize = 256 << 10;

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

/// Receive windows open in turn, and only the driver opens those in line. The peers of the first connections
/// have nothing more to send, so after these reads no packet arrives to wake it.
#[tokio::test(start_paused = true)]
async fn windows_in_line_open_although_nothing_else_wakes_the_driver() {
    const FLOWS: usize = 40;
    const LONG: usize = 300_000;
    let hosts = hosts();
    let (mut writer, mut reader) = connection(&hosts).await;
    let (mut clients, mut servers) = (tokio::task::JoinSet::new(), Vec::new());
    for flow in 0..FLOWS {
        let (mut client, server) = connection(&hosts).await;
        servers.push(server);
        clients.spawn(async move {
            client.write_all(&vec![7; if flow < FLOWS / 2 { 60_000 } else { LONG }]).await.unwrap();
            client
        });
    }
    writer.write_all(&[7; 2]).await.unwrap();
    // Every window is filled.
    tokio::time::sleep(Duration::from_secs(10)).await;
    // The first read brings the driver a deadline that is no later than those of the reads below.
    reader.read_exact(&mut [0; 1]).await.unwrap();
    settle().await;
    reader.read_exact(&mut [0; 1]).await.unwrap();
    settle().await;
    let began = tokio::time::Instant::now();
    let mut buffer = vec![0; 1 << 20];
    let read: Vec<usize> = servers.iter_mut().map(|server| server.try_read(&mut buffer).unwrap()).collect();
    assert!(read.iter().all(|read| *read >= 60_000), "{read:?}");
    let (last, first) = (servers.last_mut().unwrap(), read[FLOWS - 1]);
    last.read_exact(&mut buffer[..LONG - first]).await.unwrap();
    let took = began.elapsed();
    assert!(took < Duration::from_millis(100), "{took:?}: the sender waited for its persist timer");
}
