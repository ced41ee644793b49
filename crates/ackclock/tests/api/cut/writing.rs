//! Writing to a stream that is full, waiting for room, closing.

use std::io::ErrorKind;

use ackclock::TcpStream;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};

use super::{Cut, a_little_later, at_every_poll, joined, leaves_nothing};
use crate::support::{hosts, settle};

/// Runs `call` on a stream that has no room, and whose peer begins to read a little later; `call` gets the
/// next bytes of the stream and returns how many of them it wrote. The peer gets exactly those.
async fn writes(call: impl AsyncFn(&Cut, &mut TcpStream, &[u8]) -> usize) {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let (mut ours, mut theirs) = joined(&hosts).await;
        let mut sent = fill(&ours).await;
        let reading = tokio::spawn(async move {
            a_little_later().await;
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).await.unwrap();
            (all, theirs)
        });
        sent += call(cut, &mut ours, &pattern(sent, 100_000)).await;
        ours.shutdown().await.unwrap();
        let (received, theirs) = reading.await.unwrap();
        assert_eq!(received.len(), sent);
        assert!(received == pattern(0, sent), "the bytes that were written, in their order");
        drop((ours, theirs));
        leaves_nothing(hosts).await;
    })
    .await;
}

/// Writes until there is no room; how much.
async fn fill(stream: &TcpStream) -> usize {
    let (mut sent, mut refused) = (0, 0);
    while refused < 2 {
        match stream.try_write(&pattern(sent, 300_000)) {
            Ok(len) => (sent, refused) = (sent + len, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => refused += 1,
            Err(error) => panic!("{error}"),
        }
        // Data that has left may have made room.
        settle().await;
    }
    sent
}

/// The bytes at `from` in the stream.
fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| (at % 251) as u8).collect()
}

#[tokio::test(start_paused = true)]
async fn write_takes_what_it_says_or_nothing() {
    writes(async |cut, stream, next| {
        cut.at("AsyncWrite::poll_write", stream.write(next)).await.map_or(0, Result::unwrap)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn write_vectored_takes_what_it_says_or_nothing() {
    writes(async |cut, stream, next| {
        let (first, second) = next.split_at(1_000);
        let parts = [std::io::IoSlice::new(first), std::io::IoSlice::new(second)];
        cut.at("AsyncWrite::poll_write_vectored", stream.write_vectored(&parts))
            .await
            .map_or(0, Result::unwrap)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn write_bytes_takes_what_it_says_or_nothing() {
    writes(async |cut, stream, next| {
        let mut bytes = Bytes::copy_from_slice(next);
        let taken = cut.at("stream::write_bytes", stream.write_bytes(&mut bytes)).await;
        assert_eq!(taken.map_or(0, Result::unwrap), next.len() - bytes.len());
        next.len() - bytes.len()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn write_all_bytes_leaves_what_it_has_not_taken() {
    writes(async |cut, stream, next| {
        let mut bytes = Bytes::copy_from_slice(next);
        cut.at("stream::write_all_bytes", stream.write_all_bytes(&mut bytes)).await.transpose().unwrap();
        next.len() - bytes.len()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_half_take_what_they_say_or_nothing() {
    writes(async |cut, stream, next| {
        let mut bytes = Bytes::copy_from_slice(next);
        let (_reader, mut writer) = stream.split();
        cut.at("stream/split::write_bytes", writer.write_bytes(&mut bytes)).await;
        next.len() - bytes.len()
    })
    .await;
    writes(async |cut, stream, next| {
        let mut bytes = Bytes::copy_from_slice(next);
        let (_reader, mut writer) = stream.split();
        cut.at("stream/split::write_all_bytes", writer.write_all_bytes(&mut bytes)).await;
        next.len() - bytes.len()
    })
    .await;
    writes(async |cut, stream, _| {
        let (_reader, writer) = stream.split();
        cut.at("stream/split::writable", writer.writable()).await.transpose().unwrap();
        0
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn waiting_for_room_takes_nothing() {
    writes(async |cut, stream, _| {
        cut.at("stream::writable", stream.writable()).await.transpose().unwrap();
        0
    })
    .await;
    writes(async |cut, stream, _| {
        cut.at("stream::ready", stream.ready(Interest::WRITABLE)).await.transpose().unwrap();
        0
    })
    .await;
    writes(async |cut, stream, next| {
        let io = stream.async_io(Interest::WRITABLE, || stream.try_write(next));
        cut.at("stream::async_io", io).await.map_or(0, Result::unwrap)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn flush_and_shutdown_lose_nothing_of_what_was_written() {
    writes(async |cut, stream, _| {
        cut.at("AsyncWrite::poll_flush", stream.flush()).await.transpose().unwrap();
        0
    })
    .await;
    writes(async |cut, stream, _| {
        cut.at("AsyncWrite::poll_shutdown", stream.shutdown()).await.transpose().unwrap();
        0
    })
    .await;
}

/// Runs `call` on a stream whose last bytes are not acknowledged yet; whatever becomes of the call, they are
/// delivered.
async fn awaits_delivery(call: impl AsyncFn(&Cut, &mut TcpStream)) {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let (mut ours, mut theirs) = joined(&hosts).await;
        let before = ours.delivery().unwrap().written;
        ours.write_all(b"what is delivered").await.unwrap();
        call(cut, &mut ours).await;
        assert_eq!(ours.delivered().await.unwrap().bytes, before + 17);
        theirs.read_exact(&mut [0; 17]).await.unwrap();
        drop((ours, theirs));
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn waiting_for_delivery_takes_nothing() {
    awaits_delivery(async |cut, stream| {
        cut.at("stream/feedback::delivered", stream.delivered()).await.map(Result::unwrap);
    })
    .await;
    awaits_delivery(async |cut, stream| {
        let written = stream.delivery().unwrap().written;
        cut.at("stream/feedback::delivered_to", stream.delivered_to(written)).await.map(Result::unwrap);
    })
    .await;
    awaits_delivery(async |cut, stream| {
        cut.at("stream/split::delivered", stream.split().1.delivered()).await.map(Result::unwrap);
    })
    .await;
    awaits_delivery(async |cut, stream| {
        let written = stream.delivery().unwrap().written;
        cut.at("stream/split::delivered_to", stream.split().1.delivered_to(written))
            .await
            .map(Result::unwrap);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_figures_that_was_not_given_is_given_later() {
    awaits_delivery(async |cut, stream| {
        let mut watch = stream.watch_delivery();
        let given = cut.at("stream/feedback::changed", watch.changed()).await.is_some();
        if !given {
            watch.changed().await.unwrap();
        }
    })
    .await;
}
