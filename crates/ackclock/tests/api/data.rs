//! Bytes across a connection, and waiting for them.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};
use tokio::time::timeout;

use crate::support::{connection, hosts, settle};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[tokio::test]
async fn a_megabyte_comes_back_as_it_was_sent() {
    let hosts = hosts();
    let (stream, mut echo) = connection(&hosts).await;
    tokio::spawn(async move {
        let (mut reader, mut writer) = echo.split();
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    let (mut reader, mut writer) = stream.into_split();
    let sent = pattern(1 << 20);
    let expected = sent.clone();
    tokio::spawn(async move {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    let mut received = Vec::new();
    reader.read_to_end(&mut received).await.unwrap();
    assert!(received == expected);
}

#[tokio::test]
async fn a_megabyte_crosses_between_threads() {
    // On a runtime of two threads, where calls and drivers really meet.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let run = runtime.spawn(async {
        let hosts = hosts();
        let (mut left, mut right) = connection(&hosts).await;
        let sender = tokio::spawn(async move {
            left.write_all(&pattern(1 << 20)).await.unwrap();
            left.shutdown().await.unwrap();
            left
        });
        let mut received = Vec::new();
        right.read_to_end(&mut received).await.unwrap();
        assert!(received == pattern(1 << 20));
        sender.await.unwrap();
    });
    run.await.unwrap();
    runtime.shutdown_background();
}

#[tokio::test]
async fn after_a_half_close_the_other_direction_goes_on() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    client.write_all(b"request").await.unwrap();
    client.shutdown().await.unwrap();
    let mut request = Vec::new();
    server.read_to_end(&mut request).await.unwrap();
    assert_eq!(request, b"request");
    server.write_all(b"answer").await.unwrap();
    server.shutdown().await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
}

#[tokio::test]
async fn after_the_acceptors_half_close_the_connector_still_sends() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    server.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
    client.write_all(b"late").await.unwrap();
    client.shutdown().await.unwrap();
    let mut received = Vec::new();
    server.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, b"late");
}

#[tokio::test]
async fn writing_after_shutdown_is_a_broken_pipe_and_shutting_down_twice_is_nothing() {
    let hosts = hosts();
    let (mut client, _server) = connection(&hosts).await;
    client.shutdown().await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(client.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn vectored_calls_take_and_fill_buffers_in_order() {
    let hosts = hosts();
    let (mut client, server) = connection(&hosts).await;
    assert!(client.is_write_vectored());
    let parts = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cdef")];
    assert_eq!(client.write_vectored(&parts).await.unwrap(), 6);
    server.readable().await.unwrap();
    let (mut first, mut second) = ([0; 1], [0; 8]);
    let mut into = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    assert_eq!(server.try_read_vectored(&mut into).unwrap(), 6);
    assert_eq!((&first[..], &second[..5]), (&b"a"[..], &b"bcdef"[..]));
}

#[tokio::test]
async fn vectored_write_passes_over_empty_buffers_and_stops_at_one_that_does_not_fit() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    let empty = || IoSlice::new(b"");
    assert_eq!(client.try_write_vectored(&[empty(), empty()]).unwrap(), 0);
    let parts = [empty(), IoSlice::new(b"a"), empty(), empty(), IoSlice::new(b"bcd"), empty()];
    assert_eq!(client.try_write_vectored(&parts).unwrap(), 4);
    let mut read = [0; 4];
    server.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"abcd");

    // Nothing behind a partly taken buffer may be taken, because the caller goes on where it stopped.
    let large = pattern(64 << 20);
    let taken = client.try_write_vectored(&[IoSlice::new(&large), IoSlice::new(b"END")]).unwrap();
    assert!(taken > 0 && taken < large.len(), "{taken}");
    let mut read = vec![0; taken];
    server.read_exact(&mut read).await.unwrap();
    assert!(read == large[..taken]);
    settle().await;
    assert_eq!(server.try_read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[tokio::test(start_paused = true)]
async fn all_tasks_that_wait_for_one_stream_are_woken() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    let client = Arc::new(client);
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { client.readable().await })
        })
        .collect();
    settle().await;
    server.write_all(b"x").await.unwrap();
    for waiter in waiters {
        timeout(Duration::from_secs(5), waiter).await.expect("woken").unwrap().unwrap();
    }
}

#[tokio::test]
async fn try_calls_would_block_instead_of_waiting() {
    let hosts = hosts();
    let (client, server) = connection(&hosts).await;
    assert_eq!(server.try_read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    // No task reads, so both buffers fill up.
    let block = vec![0; 1 << 20];
    let mut sent = 0;
    loop {
        match client.try_write(&block) {
            Ok(len) => sent += len,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
        settle().await;
    }
    let mut received = Vec::new();
    while received.len() < sent {
        server.readable().await.unwrap();
        // A buffer with room of its own, as tokio's `try_read_buf` fills it.
        received.reserve(1 << 16);
        let _ = server.try_read_buf(&mut received);
    }
    assert_eq!(received.len(), sent);
    client.writable().await.unwrap();
    assert!(client.try_write(&block).unwrap() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_found_a_full_buffer_without_trying_is_woken() {
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    // Blocks of 64 KB fill the buffer to the byte, so that no write ever comes short.
    let block = vec![0; 1 << 16];
    let mut sent = 0;
    while timeout(Duration::from_millis(20), client.writable()).await.is_ok() {
        sent += client.try_write(&block).unwrap();
    }
    let (client, waiting) = (Arc::new(client), Arc::new(AtomicUsize::new(0)));
    for task in 0..3 {
        let (client, waiting) = (Arc::clone(&client), Arc::clone(&waiting));
        tokio::spawn(async move {
            match task {
                0 => client.writable().await.unwrap(),
                1 => drop(client.ready(Interest::WRITABLE).await.unwrap()),
                _ => std::future::poll_fn(|cx| client.poll_write_ready(cx)).await.unwrap(),
            }
            waiting.fetch_add(1, Ordering::Relaxed);
        });
    }
    settle().await;
    assert_eq!(waiting.load(Ordering::Relaxed), 0);
    server.read_exact(&mut vec![0; sent]).await.unwrap();
    settle().await;
    assert_eq!(waiting.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn peeked_bytes_are_read_again() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    client.write_all(b"look").await.unwrap();
    let mut seen = [0; 2];
    assert_eq!(server.peek(&mut seen).await.unwrap(), 2);
    assert_eq!(&seen, b"lo");
    let mut read = [0; 4];
    server.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"look");
    client.shutdown().await.unwrap();
    assert_eq!(server.peek(&mut seen).await.unwrap(), 0);
}

#[tokio::test]
async fn ready_tells_what_can_be_done_and_what_has_ended() {
    let hosts = hosts();
    let (mut client, server) = connection(&hosts).await;
    let both = Interest::READABLE | Interest::WRITABLE;
    let ready = server.ready(both).await.unwrap();
    assert!(ready.is_writable() && !ready.is_readable());
    client.write_all(b"x").await.unwrap();
    assert!(server.ready(Interest::READABLE).await.unwrap().is_readable());
    assert_eq!(server.try_read(&mut [0; 8]).unwrap(), 1);
    client.shutdown().await.unwrap();
    let ready = server.ready(Interest::READABLE).await.unwrap();
    assert!(ready.is_read_closed());
    let ready = client.ready(Interest::WRITABLE).await.unwrap();
    assert!(ready.is_writable() && !ready.is_write_closed(), "the peer has not ended");
}

#[tokio::test]
async fn every_task_that_waits_on_one_stream_is_woken() {
    let hosts = hosts();
    let (mut client, server) = connection(&hosts).await;
    let server = Arc::new(server);
    let woken = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..20)
        .map(|task| {
            let (server, woken) = (Arc::clone(&server), Arc::clone(&woken));
            tokio::spawn(async move {
                match task % 3 {
                    0 => server.readable().await.unwrap(),
                    1 => drop(server.peek(&mut [0; 1]).await.unwrap()),
                    _ => drop(server.ready(Interest::READABLE).await.unwrap()),
                }
                woken.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    settle().await;
    assert_eq!(woken.load(Ordering::Relaxed), 0);
    client.write_all(b"x").await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(woken.load(Ordering::Relaxed), 20);
}

#[tokio::test]
async fn many_connections_carry_their_own_bytes() {
    let hosts = hosts();
    let listener = hosts.server.listen("10.0.0.2:9000".parse().unwrap()).unwrap();
    let echo = tokio::spawn(async move {
        for _ in 0..100 {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
            });
        }
    });
    let tasks: Vec<_> = (0..100_u32)
        .map(|number| {
            let client = hosts.client.clone();
            tokio::spawn(async move {
                let mut stream = client.connect("10.0.0.2:9000".parse().unwrap()).await.unwrap();
                let sent = number.to_be_bytes().repeat(500);
                stream.write_all(&sent).await.unwrap();
                stream.shutdown().await.unwrap();
                let mut back = Vec::new();
                stream.read_to_end(&mut back).await.unwrap();
                assert!(back == sent);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    echo.await.unwrap();
}

#[tokio::test]
async fn ipv6_carries_bytes_as_well() {
    let hosts = hosts();
    let listener = hosts.server.listen("[fd00::2]:80".parse().unwrap()).unwrap();
    let (mut client, mut server) = crate::support::accepted(&hosts.client, &listener).await;
    client.write_all(b"six").await.unwrap();
    let mut read = [0; 3];
    server.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"six");
    assert!(client.local_addr().unwrap().is_ipv6());
}
