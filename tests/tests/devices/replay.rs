//! A captured transfer replayed to another stack: the same bytes come out.
//!
//! Two stacks on a cable in memory are captured, in virtual time; then the capture replaces one of them. The
//! stack that meets it has other sequence numbers, and another port if it opens the connection.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ackclock::{Stack, StackBuilder, TcpConfig};
use ackclock_device::capture::Captured;
use ackclock_device::impair::{Impaired, Settings, Share};
use ackclock_device::{Pace, Replay, ReplayConfig, memory};
use ackclock_tests::kernel::payload::{Digest, receive, send};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn receiver_of_a_played_transfer_gets_its_bytes_in_its_time() {
    let capture = Capture::new("receiver");
    let (sent, took) = record(&capture.0, End::Server).await;
    let stack = server(2).device(play(&capture.0, SERVER, Pace::Recorded)).spawn().unwrap();
    let began = Instant::now();
    let listener = stack.listen(SERVER.parse().unwrap()).unwrap();
    let (mut stream, peer) = listener.accept().await.unwrap();
    assert_eq!(peer.ip(), CLIENT.parse::<SocketAddr>().unwrap().ip());
    let received = receive(&mut stream).await.unwrap();
    assert_eq!(received, sent);
    let again = began.elapsed();
    assert!(again >= took / 2 && again <= took * 2, "{again:?} instead of {took:?}");
    assert_eq!(stack.counters().dropped_tcp_checksum, 0);
}

#[tokio::test(start_paused = true)]
async fn receiver_with_a_small_buffer_and_a_slow_reader_gets_every_byte() {
    let capture = Capture::new("small");
    let (sent, took) = record(&capture.0, End::Server).await;
    // The recorded receiver's buffer grew to hold a round trip's data; this one's stays at 20,000 bytes.
    let tcp =
        TcpConfig { receive_buffer_initial: 20_000, receive_buffer_max: 20_000, ..TcpConfig::default() };
    let stack = server(2).tcp(tcp).device(play(&capture.0, SERVER, Pace::Recorded)).spawn().unwrap();
    let listener = stack.listen(SERVER.parse().unwrap()).unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let began = Instant::now();
    let (mut bytes, mut hasher, mut block) = (0, blake3::Hasher::new(), vec![0; 10_000]);
    loop {
        let len = stream.read(&mut block).await.unwrap();
        if len == 0 {
            break;
        }
        bytes += len as u64; // a read's length
        hasher.update(&block[..len]);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((bytes, hasher.finalize()), (sent.bytes, sent.hash));
    // 105 reads at least, 5 ms apart; and no wait is a timeout's, for a replayed sender has none.
    let again = began.elapsed();
    assert!(again > took && again < Duration::from_secs(10), "{again:?}");
    assert_eq!(stream.info().unwrap().bytes_received, sent.bytes);
}

#[tokio::test(start_paused = true)]
async fn sender_to_a_played_receiver_is_acknowledged_to_its_end() {
    let capture = Capture::new("sender");
    let (sent, _) = record(&capture.0, End::Client).await;
    let stack = client(2).device(play(&capture.0, CLIENT, Pace::AtOnce)).spawn().unwrap();
    let mut stream = stack.connect(SERVER.parse().unwrap()).await.unwrap();
    assert_eq!(send(&mut stream, LEN, 1).await.unwrap(), sent);
    stream.shutdown().await.unwrap();
    assert_eq!(receive(&mut stream).await.unwrap().bytes, 0, "the receiver has closed, too");
    let info = stream.info().unwrap();
    assert_eq!((info.send_queue, info.timeouts), (0, 0), "{info:?}");
}

#[tokio::test(start_paused = true)]
async fn stack_that_meets_a_cut_capture_gets_what_is_there_and_an_error() {
    let capture = Capture::new("cut");
    let (sent, _) = record(&capture.0, End::Server).await;
    let bytes = std::fs::read(&capture.0).unwrap();
    std::fs::write(&capture.0, &bytes[..bytes.len() / 2]).unwrap();
    let replay = play(&capture.0, SERVER, Pace::Recorded);
    assert!(
        replay.remarks()[0].contains("ends within a block that begins at byte"),
        "{:?}",
        replay.remarks()
    );
    let stack = server(2).device(replay).spawn().unwrap();
    let listener = stack.listen(SERVER.parse().unwrap()).unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let (read, error) = read_until_error(&mut stream).await;
    assert!(read > sent.bytes / 8 && read < sent.bytes, "{read} bytes");
    assert!(error.to_string().contains("the recording has ended"), "{error}");
}

/// At which end a capture is taken.
enum End {
    Client,
    Server,
}

/// Captures a transfer from the client to the server over a path of 10 ms. Returns the digest of its data,
/// and the time it took. If the receiver is to be replayed, the path loses 1 %.
async fn record(path: &Path, end: End) -> (Digest, Duration) {
    let (left, right) = memory::pair(memory::Config::default());
    let loss = if matches!(end, End::Server) { Share::percent(1) } else { Share::ZERO };
    let settings = Settings { delay: Duration::from_millis(10), loss, ..Settings::default() };
    // The path is at the end that is not captured.
    let (client, server) = match end {
        End::Client => {
            let left = Captured::create(left, "client", path).unwrap();
            let right = Impaired::new(right, 3, settings, settings).unwrap();
            (client(1).device(left).spawn().unwrap(), server(1).device(right).spawn().unwrap())
        }
        End::Server => {
            let right = Captured::create(right, "server", path).unwrap();
            let left = Impaired::new(left, 3, settings, settings).unwrap();
            (client(1).device(left).spawn().unwrap(), server(1).device(right).spawn().unwrap())
        }
    };
    let began = Instant::now();
    let listener = server.listen(SERVER.parse().unwrap()).unwrap();
    let receiving = tokio::spawn(async move { receive(&mut listener.accept().await?.0).await });
    let mut stream = client.connect(SERVER.parse().unwrap()).await.unwrap();
    let sent = send(&mut stream, LEN, 1).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(receive(&mut stream).await.unwrap().bytes, 0);
    assert_eq!(receiving.await.unwrap().unwrap(), sent);
    let took = began.elapsed();
    drop(stream);
    // The capture is whole once its device is dropped.
    tokio::join!(client.shutdown(), server.shutdown());
    (sent, took)
}

async fn read_until_error(stream: &mut ackclock::TcpStream) -> (u64, std::io::Error) {
    let mut read = 0;
    let mut buffer = vec![0; 65_536];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => panic!("an orderly end after {read} bytes"),
            Ok(len) => read += len as u64, // a read's length
            Err(error) => return (read, error),
        }
    }
}

fn play(path: &Path, stack: &str, pace: Pace) -> Replay {
    let mut config = ReplayConfig::new([stack.parse::<SocketAddr>().unwrap().ip()]);
    config.pace = pace;
    Replay::open(path, config).unwrap()
}

fn client(seed: u64) -> StackBuilder {
    Stack::builder().address("10.0.0.1/24".parse().unwrap()).seed(seed)
}

fn server(seed: u64) -> StackBuilder {
    Stack::builder().address("10.0.0.2/24".parse().unwrap()).seed(seed)
}

/// A file that is gone at the end.
struct Capture(PathBuf);

impl Capture {
    fn new(test: &str) -> Self {
        Self(std::env::temp_dir().join(format!("ackclock-replay-{}-{test}.pcapng", std::process::id())))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const CLIENT: &str = "10.0.0.1:0";
const SERVER: &str = "10.0.0.2:7";
const LEN: u64 = 1 << 20;
