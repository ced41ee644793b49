//! Callers while the memory budget is spent: their waits, and their errors.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ackclock::{Interest, Stack, TcpListener, TcpStream};
use ackclock_device::memory;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{SERVER, accepted, addr, host, kind, settle};

const MILLI: Duration = Duration::from_millis(1);
/// Longer than the longest time between two probes of a closed window: nothing else wakes a driver meanwhile.
const LONG: Duration = Duration::from_secs(300);

/// A server with a budget of 1 MiB that it has spent, or nearly, on clients that do not read.
struct Spent {
    client: Stack,
    server: Stack,
    listener: TcpListener,
    pins: Vec<(TcpStream, TcpStream)>,
}

impl Spent {
    async fn new() -> Self {
        let (left, right) = memory::pair(memory::Config::default());
        let client = host("10.0.0.1/24", "fd00::1/64").device(left).spawn().unwrap();
        let server = host("10.0.0.2/24", "fd00::2/64").memory_budget(1 << 20).device(right).spawn().unwrap();
        let listener = server.listen(addr(SERVER)).unwrap();
        let mut spent = Self { client, server, listener, pins: Vec::new() };
        for _ in 0..80 {
            let pin = accepted(&spent.client, &spent.listener).await;
            spent.pins.push(pin);
        }
        // Small pieces, as long as any of them is taken: first while the peers' windows fill, then where the
        // rest of a window (RFC 9293 §3.8.6.2.1: after 200 ms) and a delayed acknowledgement make room.
        while spent.fills(MILLI).await {}
        let mut quiet = 0;
        while quiet < 4 {
            quiet = if spent.fills(150 * MILLI).await { 0 } else { quiet + 1 };
        }
        spent
    }

    async fn fills(&self, pause: Duration) -> bool {
        let taken = |(_, pin): &(TcpStream, TcpStream)| pin.try_write(&[7; 4096]).is_ok();
        let some = self.pins.iter().filter(|pin| taken(pin)).count() > 0;
        sleep(pause).await;
        some
    }

    /// As above, long after: no connection has made progress for more than five seconds, and the next probe
    /// of a window is up to a minute away.
    async fn pinned() -> Self {
        let spent = Self::new().await;
        sleep(Duration::from_secs(100)).await;
        spent
    }

    async fn next(&self) -> (TcpStream, TcpStream) {
        accepted(&self.client, &self.listener).await
    }
}

/// How a task waits for room.
async fn wait(how: usize, stream: &mut TcpStream) {
    match how {
        0 => stream.write_all(&[7; 1 << 16]).await.unwrap(),
        1 => stream.writable().await.unwrap(),
        2 => drop(stream.ready(Interest::WRITABLE).await.unwrap()),
        3 => stream.write_all_bytes(&mut Bytes::from(vec![7; 1 << 16])).await.unwrap(),
        _ => {
            while stream.try_write(&[7; 1 << 16]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                sleep(MILLI).await;
            }
        }
    }
}

/// However a task asks for room, the connections that hold memory without progress make it at once: within
/// the millisecond after which a refused writer looks again.
#[tokio::test(start_paused = true)]
async fn a_writer_gets_the_memory_that_connections_without_progress_give() {
    for how in 0..5 {
        let spent = Spent::pinned().await;
        let (mut client, mut served) = spent.next().await;
        let reading = tokio::spawn(async move { tokio::io::copy(&mut client, &mut tokio::io::sink()).await });
        if ![0, 3].contains(&how) {
            // It has taken what a newcomer may have, so that it is not ready.
            while served.try_write(&[7; 4096]).is_ok() {}
        }
        let start = Instant::now();
        timeout(LONG, wait(how, &mut served)).await.expect("there is room in time");
        assert!(start.elapsed() <= 20 * MILLI, "{how}: {:?}", start.elapsed());
        reading.abort();
    }
}

/// The owners of connections that were reset for another's write learn of it at once, and the resets leave at
/// once.
#[tokio::test(start_paused = true)]
async fn the_owners_of_connections_that_give_way_learn_of_it_at_once() {
    for how in 0..5 {
        let mut spent = Spent::pinned().await;
        let (_client, mut served) = spent.next().await;
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut clients = Vec::new();
        for (client, mut pin) in spent.pins.drain(..) {
            let of_owner = Arc::clone(&told);
            tokio::spawn(async move {
                assert_eq!(kind(pin.read(&mut [0]).await), ErrorKind::OutOfMemory);
                of_owner.lock().unwrap().push(Instant::now());
            });
            clients.push(client);
        }
        settle().await;
        let start = Instant::now();
        if ![0, 3].contains(&how) {
            while served.try_write(&[7; 4096]).is_ok() {}
        }
        let sent = spent.server.counters().packets_sent;
        let waiting = tokio::spawn(async move { wait(how, &mut served).await });
        sleep(20 * MILLI).await;
        let counters = spent.server.counters();
        let resets = counters.memory_resets;
        if [0, 3].contains(&how) {
            assert!(counters.packets_sent - sent >= resets, "{how}: the peers get resets as well");
        }
        sleep(LONG).await;
        let told = told.lock().unwrap();
        assert!(resets > 0, "{how}: the budget is spent");
        assert_eq!(told.len() as u64, resets, "{how}: each owner learns of it");
        let last = told.iter().max().unwrap();
        assert!(*last - start <= 20 * MILLI, "{how}: {:?}", *last - start);
        waiting.abort();
    }
}

/// tokio's loop: wait for readiness, then try. It turns once for each piece, and does not spin: without
/// memory the stream is not ready.
#[tokio::test(start_paused = true)]
async fn a_stream_is_not_writable_while_the_budget_is_spent() {
    let spent = Spent::new().await;
    let (_, served) = &spent.pins[0];
    assert_eq!(kind(served.try_write(&[7])), ErrorKind::WouldBlock);
    assert_eq!(kind(served.try_io(Interest::WRITABLE, || Ok(()))), ErrorKind::WouldBlock);
    let mut turns = 0;
    let loops = async {
        loop {
            served.writable().await.unwrap();
            turns += 1;
            assert_eq!(served.try_write(&[7]).unwrap(), 1, "it is ready");
        }
    };
    // Nothing is older than five seconds, so nothing gives way.
    assert!(timeout(Duration::from_secs(2), loops).await.is_err());
    assert_eq!(turns, 0);
}

/// A connection that comes while the budget is spent on others, none of them old enough to give way, is
/// served nevertheless: the last quarter of the budget is divided so that newcomers find a block.
#[tokio::test(start_paused = true)]
async fn a_newcomer_gets_its_first_bytes_beside_a_crowd_that_reads_nothing() {
    let spent = Spent::new().await;
    let start = Instant::now();
    for _ in 0..8 {
        let (mut client, mut served) = spent.next().await;
        let serving = tokio::spawn(async move { served.write_all(&[7; 1 << 18]).await });
        let mut first = [0; 1024];
        timeout(LONG, client.read_exact(&mut first)).await.expect("the first bytes come").unwrap();
        assert!(start.elapsed() <= 100 * MILLI, "{:?}", start.elapsed());
        let mut rest = vec![0; (1 << 18) - 1024];
        timeout(LONG, client.read_exact(&mut rest)).await.expect("and all others").unwrap();
        serving.await.unwrap().unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(4), "no connection had to give way");
    assert_eq!(spent.server.counters().memory_resets, 0);
}
