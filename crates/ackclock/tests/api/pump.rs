//! `pump::Pump`: bytes, ends and resets between a stream of a stack and another socket.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock::TcpStream;
use ackclock::pump::{Counts, End, HELD_BYTES_MAX, Pump, Pumped, Socket};
use ackclock_wire::random::Rng;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::net;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::support::{Hosts, connection, hosts, kind, settle};

/// A client, and what pumps its bytes to and from the other end of a pipe.
async fn piped(hosts: &Hosts, pipe_bytes: usize) -> (TcpStream, DuplexStream, Pump<DuplexStream>) {
    let (client, stream) = connection(hosts).await;
    let (near, far) = duplex(pipe_bytes);
    (client, far, Pump::new(stream, near))
}

/// A client, and what pumps its bytes to and from a socket of the kernel, whose other end comes second.
async fn kernels(hosts: &Hosts) -> (TcpStream, net::TcpStream, JoinHandle<Pumped>) {
    let (client, stream) = connection(hosts).await;
    let listener = net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    (client, far, tokio::spawn(Pump::new(stream, near)))
}

fn carried(pumped: Pumped) -> (u64, u64) {
    pumped.into_result().unwrap()
}

#[tokio::test]
async fn the_end_of_the_stream_is_passed_on_and_the_answer_still_comes() {
    let hosts = hosts();
    let (mut client, mut far, pump) = kernels(&hosts).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut seen = String::new();
    far.read_to_string(&mut seen).await.unwrap();
    assert_eq!(seen, "question");
    far.write_all(b"the answer").await.unwrap();
    drop(far);
    seen.clear();
    client.read_to_string(&mut seen).await.unwrap();
    assert_eq!(seen, "the answer");
    assert_eq!(carried(pump.await.unwrap()), (8, 10));
}

#[tokio::test]
async fn the_end_of_the_socket_is_passed_on_and_the_answer_still_comes() {
    let hosts = hosts();
    let (mut client, mut far, pump) = kernels(&hosts).await;
    far.write_all(b"banner").await.unwrap();
    far.shutdown().await.unwrap();
    let mut seen = String::new();
    client.read_to_string(&mut seen).await.unwrap();
    client.write_all(b"late").await.unwrap();
    client.shutdown().await.unwrap();
    far.read_to_string(&mut seen).await.unwrap();
    assert_eq!(seen, "bannerlate");
    assert_eq!(carried(pump.await.unwrap()), (4, 6));
}

#[tokio::test]
async fn a_reset_of_the_client_resets_the_socket() {
    let hosts = hosts();
    let (mut client, mut far, pump) = kernels(&hosts).await;
    client.write_all(b"half of it").await.unwrap();
    far.read_exact(&mut [0; 10]).await.unwrap();
    client.abort();
    assert_eq!(kind(far.read_u8().await), ErrorKind::ConnectionReset);
    let Pumped { to_socket: 10, to_stream: 0, end: End::StreamFailed(error), .. } = pump.await.unwrap()
    else {
        panic!("the stream failed")
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_reset_of_the_socket_resets_the_client() {
    let hosts = hosts();
    let (mut client, mut far, pump) = kernels(&hosts).await;
    far.write_all(b"half of it").await.unwrap();
    client.read_exact(&mut [0; 10]).await.unwrap();
    far.set_zero_linger().unwrap();
    drop(far);
    assert_eq!(kind(client.read_u8().await), ErrorKind::ConnectionReset);
    let Pumped { to_socket: 0, to_stream: 10, end: End::SocketFailed(error), .. } = pump.await.unwrap()
    else {
        panic!("the socket failed")
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_reset_of_the_client_is_seen_while_the_socket_takes_nothing() {
    let hosts = hosts();
    let (mut client, _far, pump) = piped(&hosts, 10).await;
    let pump = tokio::spawn(pump);
    client.write_all(&[1; 100_000]).await.unwrap();
    settle().await;
    assert!(!pump.is_finished());
    client.abort();
    assert!(matches!(pump.await.unwrap(), Pumped { to_socket: 10, end: End::StreamFailed(_), .. }));
}

#[tokio::test(start_paused = true)]
async fn an_idle_pump_ends_exactly_after_its_time_and_resets_both_sides() {
    const AFTER: Duration = Duration::from_secs(60);
    let hosts = hosts();
    let (mut client, mut far, pump) = piped(&hosts, 100).await;
    let pump = tokio::spawn(pump.idle_timeout(AFTER));
    for _ in 0..3 {
        sleep(AFTER - Duration::from_millis(10)).await;
        client.write_all(b"x").await.unwrap();
        far.read_u8().await.unwrap();
        sleep(AFTER - Duration::from_millis(10)).await;
        far.write_all(b"y").await.unwrap();
        client.read_u8().await.unwrap();
    }
    let last = Instant::now();
    assert!(matches!(pump.await.unwrap(), Pumped { to_socket: 3, to_stream: 3, end: End::Idle, .. }));
    let waited = last.elapsed();
    assert!(waited >= AFTER && waited <= AFTER + Duration::from_millis(2), "{waited:?}");
    assert_eq!(kind(client.read_u8().await), ErrorKind::ConnectionReset);
    assert_eq!(kind(far.read_u8().await), ErrorKind::UnexpectedEof, "a pipe knows no reset");
}

#[tokio::test(start_paused = true)]
async fn the_longest_idle_timeout_never_ends_a_pump() {
    let hosts = hosts();
    let (mut client, mut far, pump) = piped(&hosts, 100).await;
    let pump = tokio::spawn(pump.idle_timeout(Duration::MAX));
    sleep(Duration::from_secs(3600 * 24 * 30)).await;
    client.write_all(b"x").await.unwrap();
    far.read_u8().await.unwrap();
    assert!(!pump.is_finished());
}

#[tokio::test]
async fn a_pump_that_is_dropped_resets_both_sides() {
    let hosts = hosts();
    let (mut client, mut far, pump) = kernels(&hosts).await;
    client.write_all(b"x").await.unwrap();
    far.read_u8().await.unwrap();
    pump.abort();
    assert_eq!(kind(client.read_u8().await), ErrorKind::ConnectionReset);
    assert_eq!(kind(far.read_u8().await), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn counts_grow_while_bytes_move_and_many_pumps_share_them() {
    let hosts = hosts();
    let counts = Arc::new(Counts::default());
    let mut open = Vec::new();
    for number in 1..=3 {
        let (mut client, mut far, pump) = piped(&hosts, 100).await;
        tokio::spawn(pump.counts(Arc::clone(&counts)));
        client.write_all(b"to").await.unwrap();
        far.write_all(b"from").await.unwrap();
        far.read_exact(&mut [0; 2]).await.unwrap();
        client.read_exact(&mut [0; 4]).await.unwrap();
        assert_eq!((counts.to_socket(), counts.to_stream()), (2 * number, 4 * number));
        open.push((client, far));
    }
}

/// A socket that always has bytes to read, and takes `takes` bytes in all.
struct Endless {
    takes: usize,
    /// The most bytes that it was offered at once, and all that it was asked to give.
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    offered: AtomicUsize,
    given: AtomicUsize,
}

impl AsyncRead for Endless {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.seen.given.fetch_add(buf.remaining(), Ordering::Relaxed);
        buf.initialize_unfilled();
        buf.advance(buf.remaining());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Endless {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = bufs.iter().map(|buf| buf.len()).sum::<usize>();
        self.seen.offered.fetch_max(offered, Ordering::Relaxed);
        let taken = offered.min(self.takes);
        self.takes -= taken;
        if taken > 0 { Poll::Ready(Ok(taken)) } else { Poll::Pending }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Socket for Endless {
    fn reset_on_drop(&mut self) {}
}

#[tokio::test]
async fn a_turn_moves_its_bytes_and_no_more() {
    const TURN: usize = 100_000;
    let hosts = hosts();
    let (_client, stream) = connection(&hosts).await;
    let seen = Arc::new(Seen::default());
    let pump = Pump::new(stream, Endless { takes: 0, seen: Arc::clone(&seen) }).turn_bytes(TURN);
    let mut pump = pin!(pump);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(pump.as_mut().poll(&mut cx).is_pending());
    let moved = seen.given.load(Ordering::Relaxed);
    assert!((TURN..=TURN + 64 * 1024).contains(&moved), "{moved}");
}

#[tokio::test]
async fn a_pump_whose_receivers_take_nothing_stops_reading() {
    let hosts = hosts();
    let (client, stream) = connection(&hosts).await;
    // Neither the socket nor the client takes anything; both have a great deal to say.
    let seen = Arc::new(Seen::default());
    let pump = tokio::spawn(Pump::new(stream, Endless { takes: 0, seen: Arc::clone(&seen) }));
    let mut sent = 0;
    for _ in 0..300 {
        settle().await;
        sent += client.try_write(&[7; 100_000]).unwrap_or(0);
    }
    let info = client.info().unwrap();
    let (offered, given) = (seen.offered.load(Ordering::Relaxed), seen.given.load(Ordering::Relaxed));
    assert!(!pump.is_finished() && info.bytes_acked > 0);
    assert!(offered > 0 && offered + 64 * 1024 <= HELD_BYTES_MAX, "{offered} bytes held");
    // The stream's buffers and the client's take at most 4 MiB and 6 MiB; one read comes on top.
    assert!(given < 11 << 20, "{given} bytes were read for a client that reads nothing");
    assert!(sent < 11 << 20, "{sent} bytes");
}

/// Reads everything, in whatever sizes, as one end of a connection does.
async fn read_in_pieces(mut from: impl AsyncRead + Unpin, seed: u64) -> io::Result<Vec<u8>> {
    let (mut rng, mut seen) = (Rng::new(seed), Vec::new());
    loop {
        let mut piece = vec![0; rng.between(1, 200_000) as usize];
        let len = from.read(&mut piece).await?;
        if len == 0 {
            return Ok(seen);
        }
        seen.extend_from_slice(&piece[..len]);
        if rng.below(20) == 0 {
            sleep(Duration::from_micros(rng.below(2000))).await;
        }
    }
}

/// Writes all of it in whatever sizes, then ends.
async fn write_in_pieces(mut to: impl AsyncWrite + Unpin, all: &[u8], seed: u64) -> io::Result<()> {
    let (mut rng, mut rest) = (Rng::new(seed), all);
    while !rest.is_empty() {
        let most = *[10, 1500, 40_000, 300_000].get(rng.below(4) as usize).unwrap_or(&1);
        let (piece, others) = rest.split_at(rest.len().min(rng.between(1, most) as usize));
        to.write_all(piece).await?;
        rest = others;
        if rng.below(10) == 0 {
            sleep(Duration::from_micros(rng.below(2000))).await;
        }
    }
    to.shutdown().await
}

fn pattern(rng: &mut Rng) -> Vec<u8> {
    let len = *[0, 1, 5000, 70_000, 2_000_000].get(rng.below(5) as usize).unwrap_or(&0);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

#[tokio::test]
async fn every_byte_arrives_whatever_the_sizes_and_whoever_ends_first() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let (up, down) = (pattern(&mut rng), pattern(&mut rng));
        let hosts = hosts();
        let (client, far, pump) = kernels(&hosts).await;
        let (client_in, client_out) = client.into_split();
        let (far_in, far_out) = far.into_split();
        let (sent, answered, at_far, at_client) = tokio::join!(
            write_in_pieces(client_out, &up, seed),
            write_in_pieces(far_out, &down, seed + 1),
            read_in_pieces(far_in, seed + 2),
            read_in_pieces(client_in, seed + 3),
        );
        sent.and(answered).unwrap();
        assert!(at_far.unwrap() == up && at_client.unwrap() == down, "seed {seed}");
        assert_eq!(carried(pump.await.unwrap()), (up.len() as u64, down.len() as u64), "seed {seed}");
    }
}

#[tokio::test]
async fn what_arrives_before_a_reset_is_a_beginning_of_what_was_sent() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let hosts = hosts();
        let (client, far, pump) = kernels(&hosts).await;
        let all: Vec<u8> = (0..3_000_000).map(|_| rng.next_u64() as u8).collect();
        let (client_in, client_out) = client.into_split();
        let (far_in, far_out) = far.into_split();
        let reads = async {
            let (mut seen, mut some) = (Vec::new(), far_in.take(rng.below(1_000_000)));
            some.read_to_end(&mut seen).await.unwrap();
            some.into_inner().reunite(far_out).unwrap().set_zero_linger().unwrap();
            seen
        };
        let written = tokio::join!(write_in_pieces(client_out, &all, seed), reads);
        assert!(all.starts_with(&written.1), "seed {seed}");
        let end = read_in_pieces(client_in, seed).await;
        let pumped = pump.await.unwrap();
        assert!(matches!(pumped.end, End::SocketFailed(_)), "seed {seed}: {pumped:?}");
        assert_eq!(end.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset), "seed {seed}");
    }
}
