//! One rate for a whole stack, in virtual time: how fast it is, and how connections share it.

use std::time::Duration;

use ackclock::{Shaping, TcpListener, TcpStream};
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, VirtualNetwork};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::support::{payload, two};

const BYTES: usize = 1_000_000;
/// Bytes a second.
const RATE: u64 = 1_000_000;

async fn sink(listener: TcpListener) -> std::io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            stream.read_to_end(&mut Vec::new()).await?;
            stream.shutdown().await
        });
    }
}

/// Uploads until the other end has closed, in writes of this many bytes. Returns when that was.
async fn upload(mut stream: TcpStream, write: usize) -> Instant {
    for part in payload(BYTES).chunks(write) {
        stream.write_all(part).await.unwrap();
    }
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    Instant::now()
}

// 1 MB twice in segments of 1,448 bytes, each with 52 of headers: 2.07 s at 1 MB a second.
#[test]
fn two_uploads_share_the_rate_and_end_together() {
    let mut net = VirtualNetwork::new(&two(Direction::new(Rate::mbit(100), Span::millis(5)))).unwrap();
    let shaping = Shaping::new(RATE);
    let client = net.stack_with("a", |builder| Ok(builder.shaping(shaping))).unwrap();
    let server = net.stack("b").unwrap();
    let addr = (net.lookup("b").unwrap(), 80).into();
    let listener = server.listen(addr).unwrap();
    let ends = net.run(async move {
        tokio::spawn(sink(listener));
        let (one, other) = (client.connect(addr).await.unwrap(), client.connect(addr).await.unwrap());
        one.set_nodelay(true).unwrap();
        let start = Instant::now();
        let (one, other) = tokio::join!(upload(one, 100), upload(other, 100_000));
        [one - start, other - start]
    });
    let [one, other] = ends.unwrap();
    let expected = Duration::from_millis(2072);
    let last = one.max(other);
    assert!(last > expected * 98 / 100 && last < expected * 102 / 100, "{last:?}");
    assert!(one.abs_diff(other) < expected / 50, "{one:?} and {other:?}");
}
