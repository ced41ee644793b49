//! Reading and writing.

use std::future::poll_fn;
use std::io::{IoSlice, IoSliceMut};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};

use super::side::Loopback;
use super::support::{pair, pause};
use crate::answers::cases;

cases! { false:

async fn nothing_to_read_would_block(host, answers) {
    let (client, _server) = pair(host).await?;
    answers.result("try_read", client.try_read(&mut [0; 4]));
}

async fn would_block_has_no_number(host, answers) {
    let (client, _server) = pair(host).await?;
    answers.os_error("try_read", client.try_read(&mut [0; 4]));
}

async fn nothing_read_into_no_room(host, answers) {
    let (mut client, _server) = pair(host).await?;
    let read = tokio::time::timeout(Duration::from_millis(50), client.read(&mut [])).await;
    answers.result("read", read.unwrap_or_else(|elapsed| Err(elapsed.into())));
}

async fn what_was_written_is_read(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    answers.result("write", client.write(b"hello").await);
    let mut buf = [0; 16];
    answers.result("read", server.read(&mut buf).await);
    answers.value("text", &buf[..5]);
}

async fn a_short_buffer_leaves_the_rest(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    client.write_all(b"hello").await?;
    let mut buf = [0; 2];
    for _ in 0..3 {
        let read = server.read(&mut buf).await?;
        answers.value("read", &buf[..read]);
    }
    answers.result("then", server.try_read(&mut buf));
}

async fn writes_run_together(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    client.write_all(b"one").await?;
    client.write_all(b"two").await?;
    let mut buf = [0; 6];
    answers.result("read", server.read_exact(&mut buf).await);
    answers.value("text", buf);
}

async fn an_empty_write_is_nothing(host, answers) {
    let (mut client, _server) = pair(host).await?;
    answers.result("write", client.write(b"").await);
    answers.result("try_write", client.try_write(b""));
    answers.result("try_write_vectored", client.try_write_vectored(&[]));
}

async fn a_fresh_stream_is_writable_and_not_readable(host, answers) {
    let (client, _server) = pair(host).await?;
    let ready = client.ready(Interest::READABLE | Interest::WRITABLE).await?;
    answers.value("ready", (ready.is_readable(), ready.is_writable(), ready.is_read_closed()));
}

async fn peek_leaves_what_it_shows(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    client.write_all(b"hello").await?;
    let mut buf = [0; 16];
    answers.result("peek", server.peek(&mut buf).await);
    answers.result("again", server.peek(&mut buf[..2]).await);
    answers.result("read", server.read(&mut buf).await);
    answers.result("then", server.try_read(&mut buf));
}

async fn peek_at_the_end_of_the_stream(host, answers) {
    let (client, server) = pair(host).await?;
    drop(client);
    answers.result("peek", server.peek(&mut [0; 4]).await);
    answers.result("again", server.peek(&mut [0; 4]).await);
}

async fn peek_into_no_room(host, answers) {
    let (mut client, server) = pair(host).await?;
    client.write_all(b"x").await?;
    server.readable().await?;
    answers.result("peek", server.peek(&mut []).await);
}

async fn vectored_writes_and_reads(host, answers) {
    let (client, server) = pair(host).await?;
    let wrote = client.try_write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")]);
    answers.result("write", wrote);
    server.readable().await?;
    let (mut a, mut b) = ([0; 3], [0; 8]);
    let read = server.try_read_vectored(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)]);
    answers.result("read", read);
    answers.value("text", (a, &b[..2]));
}

async fn a_read_into_a_vec_appends(host, answers) {
    let (mut client, server) = pair(host).await?;
    client.write_all(b"hello").await?;
    server.readable().await?;
    let mut buf = Vec::with_capacity(64);
    buf.push(b'>');
    answers.result("read", server.try_read_buf(&mut buf));
    answers.value("text", buf);
}

async fn a_stream_can_be_filled(host, answers) {
    let (client, server) = pair(host).await?;
    let block = vec![7; 1 << 16];
    let mut written = 0;
    let error = loop {
        match client.try_write(&block) {
            Ok(len) => written += len,
            Err(error) => break error,
        }
        // A kernel's socket is given its reading task's turn; the window may open meanwhile.
        assert!(written < 1 << 28, "it never fills");
    };
    answers.error("full", &error);
    answers.value("something", written > 0);
    drop(server);
}

async fn a_full_stream_is_writable_once_it_was_read(host, answers) {
    let (client, mut server) = pair(host).await?;
    let block = vec![7; 1 << 16];
    let mut written = 0;
    for _ in 0..50 {
        while let Ok(len) = client.try_write(&block) {
            written += len;
        }
        pause().await;
        if client.try_write(&block[..1]).map(|len| written += len).is_err() {
            break;
        }
    }
    let reader = async {
        let mut left = written;
        let mut buf = vec![0; 1 << 16];
        while left > 0 {
            left -= server.read(&mut buf[..left.min(1 << 16)]).await?;
        }
        Ok::<_, std::io::Error>(())
    };
    let (writable, read) = tokio::join!(client.writable(), reader);
    answers.result("writable", writable);
    answers.result("read", read);
    answers.result("write", client.try_write(b"x"));
}

async fn a_megabyte_arrives_whole(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    let text: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_be_bytes).collect();
    let sending = async {
        client.write_all(&text).await?;
        client.shutdown().await
    };
    let mut received = Vec::new();
    let (sent, read) = tokio::join!(sending, server.read_to_end(&mut received));
    answers.result("sent", sent);
    answers.result("read", read);
    answers.value("equal", received == text);
}

async fn both_directions_at_once(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    client.write_all(b"ping").await?;
    server.write_all(b"pong").await?;
    let (mut a, mut b) = ([0; 4], [0; 4]);
    answers.result("client", client.read_exact(&mut a).await);
    answers.result("server", server.read_exact(&mut b).await);
    answers.value("texts", (a, b));
}

async fn flush_is_ok(host, answers) {
    let (mut client, _server) = pair(host).await?;
    answers.result("fresh", client.flush().await);
    client.write_all(b"x").await?;
    answers.result("after a write", client.flush().await);
}

async fn a_stream_says_that_it_writes_vectors(host, answers) {
    use tokio::io::AsyncWrite;
    let (client, _server) = pair(host).await?;
    answers.value("vectored", client.is_write_vectored());
}

async fn a_read_that_is_given_up_takes_nothing(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    let mut buf = [0; 8];
    let given_up = tokio::time::timeout(Duration::from_millis(1), server.read(&mut buf)).await;
    answers.value("given up", given_up.is_err());
    client.write_all(b"late").await?;
    answers.result("read", server.read(&mut buf).await);
}

async fn try_io_calls_only_when_ready(host, answers) {
    let (mut client, server) = pair(host).await?;
    answers.result("not ready", client.try_io(Interest::READABLE, || Ok("called")));
    client.write_all(b"x").await?;
    server.readable().await?;
    answers.result("ready", server.try_io(Interest::READABLE, || Ok("called")));
    answers.result("writable", server.try_io(Interest::WRITABLE, || Ok("called")));
    let failed = server.try_io(Interest::READABLE, || Err::<(), _>(std::io::ErrorKind::Other.into()));
    answers.result("fails", failed);
}

async fn async_io_calls_until_it_does_not_block(host, answers) {
    let (mut client, server) = pair(host).await?;
    client.write_all(b"x").await?;
    let mut calls = 0;
    let done = server.async_io(Interest::WRITABLE, || {
        calls += 1;
        Ok(calls)
    });
    answers.result("writable", done.await);
    let done = server.async_io(Interest::READABLE, || Ok("called"));
    answers.result("readable", done.await);
}

async fn readability_after_all_was_read(host, answers) {
    let (mut client, server) = pair(host).await?;
    client.write_all(b"abc").await?;
    server.readable().await?;
    answers.result("read", server.try_read(&mut [0; 3]));
    let is_ready = async || poll_fn(|cx| Poll::Ready(server.poll_read_ready(cx).is_ready())).await;
    answers.value("ready", is_ready().await);
    answers.result("nothing", server.try_read(&mut [0; 3]));
    answers.value("ready then", is_ready().await);
}

async fn try_io_after_all_was_read(host, answers) {
    let (mut client, server) = pair(host).await?;
    client.write_all(b"abc").await?;
    server.readable().await?;
    answers.result("read", server.try_read(&mut [0; 3]));
    answers.result("called", server.try_io(Interest::READABLE, || Ok("called")));
}

async fn ready_after_all_was_read(host, answers) {
    let (mut client, server) = pair(host).await?;
    client.write_all(b"abc").await?;
    server.readable().await?;
    answers.result("read", server.try_read_buf(&mut Vec::with_capacity(8)));
    let ready = server.ready(Interest::READABLE | Interest::WRITABLE).await?;
    answers.value("ready", (ready.is_readable(), ready.is_writable()));
    answers.result("nothing", server.try_read_buf(&mut Vec::with_capacity(8)));
    let ready = server.ready(Interest::READABLE | Interest::WRITABLE).await?;
    answers.value("ready then", (ready.is_readable(), ready.is_writable()));
}

async fn writability_when_all_room_is_filled(host, answers) {
    let (client, _server) = pair(host).await?;
    let mut ready = true;
    let is_ready = async || poll_fn(|cx| Poll::Ready(client.poll_write_ready(cx).is_ready())).await;
    while client.try_write(&[0; 65_536]).is_ok() {
        ready = is_ready().await;
    }
    answers.value("before it was refused", ready);
    answers.value("after", is_ready().await);
}

async fn readiness_before_the_end_that_follows_data(host, answers) {
    let (mut client, server) = pair(host).await?;
    client.write_all(b"abc").await?;
    client.shutdown().await?;
    pause().await;
    let ready = server.ready(Interest::READABLE).await?;
    answers.value("ready", (ready.is_readable(), ready.is_read_closed(), ready.is_error()));
    answers.result("read", server.try_read(&mut [0; 8]));
    answers.result("end", server.try_read(&mut [0; 8]));
}

async fn writability_returns_with_room(host, answers) {
    let (client, mut server) = pair(host).await?;
    while client.try_write(&[0; 65_536]).is_ok() {}
    let is_ready = async || poll_fn(|cx| Poll::Ready(client.poll_write_ready(cx).is_ready())).await;
    answers.value("ready", is_ready().await);
    let reading = tokio::task::spawn_local(async move {
        while server.read(&mut [0; 65_536]).await.is_ok_and(|len| len > 0) {}
    });
    answers.result("writable", client.writable().await);
    answers.outcome("write", client.try_write(b"x"));
    reading.abort();
}

async fn readable_is_said_again_until_it_was_read(host, answers) {
    let (mut client, server) = pair(host).await?;
    client.write_all(b"x").await?;
    server.readable().await?;
    answers.result("again", server.readable().await);
    answers.result("read", server.try_read(&mut [0; 4]));
}

}
