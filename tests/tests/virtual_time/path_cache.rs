//! A stack that remembers its paths (RFC 9040): what that saves, in virtual time.

use std::time::Duration;

use ackclock::{PathCacheConfig, TcpListener, TcpStream};
use ackclock_sim::scenario::Blackout;
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, VirtualNetwork};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

use super::support::{payload, two};

const BYTES: usize = 10_000_000;
/// Of the path, without its queue.
const RTT: Duration = Duration::from_millis(40);

const AGE_MAX: Duration = Duration::from_secs(60);

/// A client's observations.
struct Seen {
    /// Bytes that the first and the last upload sent twice.
    repeated: [u64; 2],
    /// How long a connection between them took to open after the path had dropped its first SYN.
    opened: Duration,
}

/// Reads each connection to its end, and closes it.
async fn sink(listener: TcpListener) -> std::io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            stream.read_to_end(&mut Vec::new()).await?;
            stream.shutdown().await
        });
    }
}

/// Uploads, and waits until the other end has closed. Returns how many bytes were sent twice.
async fn upload(mut stream: TcpStream) -> u64 {
    stream.write_all(&payload(BYTES)).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    stream.info().unwrap().bytes_retransmitted
}

/// `a` uploads, connects once more while the path is dark for 50 ms, and uploads again. Also returns how many
/// paths it knows then, and how many after another minute and a half.
fn client(remembers: bool) -> (Seen, [usize; 2]) {
    // 250 KB in 40 ms, and room for 75 KB more.
    let mut both = Direction::new(Rate::mbit(50), Span::millis(20)).buffers(50);
    both.blackout.push(Blackout { from: Span::seconds(20), to: Span::millis(20_050) });
    let mut net = VirtualNetwork::new(&two(both)).unwrap();
    let adjust = |builder: ackclock::StackBuilder| {
        // It has no HyStart++, which ends slow start before the queue overflows.
        let builder = builder.congestion_control("newreno")?;
        let cache = PathCacheConfig { age_max: AGE_MAX, ..PathCacheConfig::default() };
        Ok(if remembers { builder.path_cache(cache) } else { builder })
    };
    let client = net.stack_with("a", adjust).unwrap();
    let server = net.stack("b").unwrap();
    let addr = (net.lookup("b").unwrap(), 80).into();
    let listener = server.listen(addr).unwrap();
    let outcome = net.run(async move {
        let start = Instant::now();
        tokio::spawn(sink(listener));
        let first = upload(client.connect(addr).await.unwrap()).await;
        sleep_until(start + Duration::from_secs(20)).await;
        client.connect(addr).await.unwrap();
        let opened = start.elapsed() - Duration::from_secs(20);
        sleep_until(start + Duration::from_secs(25)).await;
        let last = upload(client.connect(addr).await.unwrap()).await;
        // A connection that the application has dropped is over when the other end's FIN has come.
        sleep_until(start + Duration::from_secs(35)).await;
        let known = client.known_paths().len();
        sleep_until(start + Duration::from_secs(35) + 3 * AGE_MAX / 2).await;
        (Seen { repeated: [first, last], opened }, [known, client.known_paths().len()])
    });
    outcome.unwrap()
}

// RFC 6298 §2 (2.1): without a measurement a SYN waits a second; with one it waits a few round trips.
#[test]
fn a_lost_syn_costs_some_round_trips_and_slow_start_no_loss() {
    let (without, known) = client(false);
    assert!(without.opened >= Duration::from_secs(1), "{:?}", without.opened);
    assert!(
        without.repeated.iter().all(|bytes| *bytes > 20_000),
        "the queue overflows: {:?}",
        without.repeated
    );
    assert_eq!(known, [0, 0]);

    let (with, known) = client(true);
    assert!(with.opened >= 3 * RTT && with.opened < Duration::from_millis(600), "{:?}", with.opened);
    let [first, last] = with.repeated;
    assert_eq!(first, without.repeated[0]);
    assert!(last * 4 < first, "{last} bytes repeated, {first} before");
    assert_eq!(known, [1, 0], "and for a minute only");
}
