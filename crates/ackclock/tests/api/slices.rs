//! Slices instead of copies: `write_bytes`, `read_bytes` and what is around them.

use std::io::ErrorKind;
use std::task::{Context, Poll, Waker};

use ackclock::{Stack, TcpStream};
use ackclock_device::memory;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{between, cancelled_after, connection, host, hosts, kind, settle};

fn pattern(len: usize) -> Bytes {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Hosts on a cable that carries 64 KB packets whole.
fn hosts_with_offload() -> (Stack, Stack) {
    let (left, right) = memory::pair(memory::Config { gso: true, ..memory::Config::default() });
    let client = host("10.0.0.1/24", "fd00::1/64").device(left).spawn().unwrap();
    let server = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
    (client, server)
}

async fn read_all(stream: &mut TcpStream, max: usize) -> Vec<u8> {
    let mut seen = Vec::new();
    loop {
        let part = stream.read_bytes(max).await.unwrap();
        if part.is_empty() {
            return seen;
        }
        assert!(part.len() <= max);
        seen.extend_from_slice(&part);
    }
}

#[tokio::test]
async fn megabytes_cross_in_slices_and_copies_whichever_end_uses_which() {
    let (client, server) = hosts_with_offload();
    let sent = pattern(5_000_011);
    let listener = server.listen("10.0.0.2:80".parse().unwrap()).unwrap();
    for (writes_slices, reads_slices) in [(true, true), (true, false), (false, true)] {
        let (mut from, mut to) = crate::support::accepted(&client, &listener).await;
        let mut data = sent.clone();
        let sender = tokio::spawn(async move {
            if writes_slices {
                from.write_all_bytes(&mut data).await.unwrap();
                assert!(data.is_empty());
            } else {
                from.write_all(&data).await.unwrap();
            }
            from.shutdown().await.unwrap();
            from
        });
        let mut received = Vec::new();
        if reads_slices {
            received = read_all(&mut to, 1 << 20).await;
        } else {
            to.read_to_end(&mut received).await.unwrap();
        }
        assert!(received == sent, "{writes_slices} {reads_slices}");
        sender.await.unwrap();
    }
}

#[tokio::test]
async fn both_kinds_of_call_can_be_mixed_on_a_stream() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    let sent = pattern(400_000);
    let (mut data, mut at) = (sent.clone(), 0);
    let sender = tokio::spawn(async move {
        for (round, len) in [70_000, 1, 40_000, 100, 33_000, 1500].into_iter().cycle().enumerate() {
            let mut part = data.split_to(data.len().min(len));
            if part.is_empty() {
                break;
            }
            if round % 2 == 0 {
                client.write_all_bytes(&mut part).await.unwrap();
            } else {
                client.write_all(&part).await.unwrap();
            }
        }
        client.shutdown().await.unwrap();
        client
    });
    let mut buf = vec![0; 5000];
    loop {
        let len = server.read(&mut buf).await.unwrap();
        assert!(buf[..len] == sent[at..at + len]);
        at += len;
        let part = server.read_bytes(20_000).await.unwrap();
        assert!(part == sent[at..at + part.len()]);
        at += part.len();
        if part.is_empty() {
            break;
        }
    }
    assert_eq!(at, sent.len());
    sender.await.unwrap();
}

#[tokio::test]
async fn halves_write_and_read_slices_too() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    let (mut reader, mut writer) = client.into_split();
    let sent = pattern(300_000);
    let mut data = sent.clone();
    let sender = tokio::spawn(async move {
        let first = writer.write_bytes(&mut data).await.unwrap();
        assert!(first > 0 && data.len() == 300_000 - first);
        writer.write_all_bytes(&mut data).await.unwrap();
        // Dropping the half closes the sending side.
    });
    let received = read_all(&mut server, usize::MAX).await;
    assert!(received == sent);
    sender.await.unwrap();
    let (_, back) = server.split();
    assert_eq!(back.try_write_bytes(&mut Bytes::from_static(b"back")).unwrap(), 4);
    assert_eq!(reader.read_bytes(3).await.unwrap(), "bac");
    assert_eq!(reader.try_read_bytes(3).unwrap(), "k");
    assert_eq!(kind(reader.try_read_bytes(3)), ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_cancelled_call_took_nothing() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    let block = pattern(300_000);
    let mut sent = 0;
    // The other end does not read, so the write is pending at some time.
    loop {
        let mut data = block.clone();
        let taken = cancelled_after(client.write_bytes(&mut data), 3).await;
        let Some(len) = taken.map(Result::unwrap) else {
            assert_eq!(data, block, "what was not taken is still there");
            break;
        };
        assert_eq!(data.len(), block.len() - len);
        sent += len;
        settle().await;
    }
    assert_eq!(kind(client.try_write_bytes(&mut block.clone())), ErrorKind::WouldBlock);
    let mut context = Context::from_waker(Waker::noop());
    assert!(client.poll_write_bytes(&mut context, &mut block.clone()).is_pending());
    for polls in 1..4 {
        assert!(cancelled_after(client.read_bytes(10), polls).await.is_none());
    }
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut server, usize::MAX).await.len(), sent);
    let end = server.poll_read_bytes(&mut context, 10);
    assert!(matches!(end, Poll::Ready(Ok(end)) if end.is_empty()));
    assert!(server.read_bytes(0).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_reset_leaves_what_came_before_to_be_read_and_lets_go_of_what_was_written() {
    let hosts = hosts();
    let (mut client, server) = connection(&hosts).await;
    let text = pattern(5000);
    server.try_write_bytes(&mut text.clone()).unwrap();
    settle().await;
    let kept = pattern(60_000);
    client.write_all_bytes(&mut kept.clone()).await.unwrap();
    server.abort();
    settle().await;
    assert_eq!(client.read_bytes(usize::MAX).await.unwrap(), text);
    assert_eq!(kind(client.read_bytes(1).await), ErrorKind::ConnectionReset);
    assert_eq!(kind(client.read_bytes(1).await), ErrorKind::ConnectionReset, "again and again");
    assert_eq!(kind(client.write_bytes(&mut kept.clone()).await), ErrorKind::BrokenPipe);
    assert!(kept.is_unique(), "the stream keeps no slice");
}

#[tokio::test]
async fn slices_that_were_read_outlive_their_stream_and_stack() {
    let (client, server) = hosts_with_offload();
    let (mut from, mut to) = between(&client, &server).await;
    let sent = pattern(2_000_000);
    let mut data = sent.clone();
    let sender = tokio::spawn(async move {
        from.write_all_bytes(&mut data).await.unwrap();
        from.shutdown().await.unwrap();
        from
    });
    let mut parts = Vec::new();
    loop {
        let part = to.read_bytes(usize::MAX).await.unwrap();
        if part.is_empty() {
            break;
        }
        parts.push(part);
    }
    drop((sender.await.unwrap(), to, client, server));
    settle().await;
    assert!(parts.concat() == sent);
}
