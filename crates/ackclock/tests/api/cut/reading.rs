//! Reading from a stream, and waiting for it.

use std::future::Future;
use std::pin::pin;

use ackclock::{Notice, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};

use super::{Cut, a_little_later, at_every_poll, joined, leaves_nothing};
use crate::support::hosts;

/// Runs `call` on a connection whose peer says [`TEXT`] a little later, in two parts, and ends the stream;
/// `call` returns the bytes that it took off the stream, and leaves all the others there.
async fn reads(call: impl AsyncFn(&Cut, &mut TcpStream) -> Vec<u8>) {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let (ours, mut theirs) = joined(&hosts).await;
        let talking = tokio::spawn(async move {
            for part in TEXT.chunks(TEXT.len() / 2) {
                a_little_later().await;
                theirs.write_all(part).await.unwrap();
            }
            theirs.shutdown().await.unwrap();
            theirs
        });
        let mut ours = ours;
        let mut read = call(cut, &mut ours).await;
        ours.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, TEXT);
        drop((talking.await.unwrap(), ours));
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn read_loses_no_byte() {
    reads(async |cut, stream| {
        let mut buf = [0; 64];
        let len = cut.at("AsyncRead::poll_read", stream.read(&mut buf)).await;
        buf[..len.map_or(0, Result::unwrap)].to_vec()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn read_buf_loses_no_byte() {
    reads(async |cut, stream| {
        let mut buf = Vec::with_capacity(64);
        cut.at("AsyncRead::poll_read", stream.read_buf(&mut buf)).await;
        buf
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn read_bytes_loses_no_byte() {
    reads(async |cut, stream| {
        let read = cut.at("stream::read_bytes", stream.read_bytes(3)).await;
        read.map_or_else(Vec::new, |bytes| bytes.unwrap().to_vec())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn peek_takes_nothing() {
    reads(async |cut, stream| {
        let mut buf = [0; 64];
        let peeked = cut.at("stream::peek", stream.peek(&mut buf)).await;
        assert!(peeked.is_none_or(|len| TEXT.starts_with(&buf[..len.unwrap()])));
        Vec::new()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn readable_takes_nothing() {
    reads(async |cut, stream| {
        cut.at("stream::readable", stream.readable()).await.transpose().unwrap();
        Vec::new()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn ready_takes_nothing() {
    reads(async |cut, stream| {
        let ready = cut.at("stream::ready", stream.ready(Interest::READABLE)).await;
        assert!(ready.is_none_or(|ready| ready.unwrap().is_readable()));
        Vec::new()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn async_io_loses_no_byte() {
    reads(async |cut, stream| {
        let mut buf = [0; 64];
        let io = stream.async_io(Interest::READABLE, || stream.try_read(&mut buf));
        let len = cut.at("stream::async_io", io).await;
        buf[..len.map_or(0, Result::unwrap)].to_vec()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_borrowed_half_lose_no_byte() {
    reads(async |cut, stream| {
        let (mut reader, _writer) = stream.split();
        let read = cut.at("stream/split::read_bytes", reader.read_bytes(3)).await;
        read.map_or_else(Vec::new, |bytes| bytes.unwrap().to_vec())
    })
    .await;
    reads(async |cut, stream| {
        let (mut reader, _writer) = stream.split();
        cut.at("stream/split::peek", reader.peek(&mut [0; 64])).await.transpose().unwrap();
        Vec::new()
    })
    .await;
    reads(async |cut, stream| {
        let (reader, _writer) = stream.split();
        cut.at("stream/split::ready", reader.ready(Interest::READABLE)).await.transpose().unwrap();
        Vec::new()
    })
    .await;
    reads(async |cut, stream| {
        let (reader, _writer) = stream.split();
        cut.at("stream/split::readable", reader.readable()).await.transpose().unwrap();
        Vec::new()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn read_of_an_owned_half_loses_no_byte() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let (ours, mut theirs) = joined(&hosts).await;
        let talking = tokio::spawn(async move {
            a_little_later().await;
            theirs.write_all(TEXT).await.unwrap();
            theirs
        });
        let (mut reader, writer) = ours.into_split();
        let mut read = vec![0; TEXT.len()];
        let first = cut.at("AsyncRead::poll_read", reader.read(&mut read)).await.map_or(0, Result::unwrap);
        reader.read_exact(&mut read[first..]).await.unwrap();
        assert_eq!(read, TEXT);
        drop((talking.await.unwrap(), reader, writer));
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn notice_is_told_once() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let (mut ours, theirs) = joined(&hosts).await;
        let talking = tokio::spawn(async move {
            a_little_later().await;
            assert_eq!(theirs.try_write_urgent(b"!").unwrap(), 1);
            theirs
        });
        let notice = match cut.at("stream/options::notice", ours.notice()).await {
            Some(notice) => notice,
            None => ours.notice().await,
        };
        assert!(matches!(notice.unwrap(), Notice::Urgent { .. }));
        assert_eq!(ours.read_u8().await.unwrap(), b'!');
        {
            let mut second = pin!(ours.notice());
            let waker = &mut std::task::Context::from_waker(std::task::Waker::noop());
            assert!(second.as_mut().poll(waker).is_pending(), "told once");
        }
        drop((talking.await.unwrap(), ours));
        leaves_nothing(hosts).await;
    })
    .await;
}

const TEXT: &[u8] = b"hello there";
