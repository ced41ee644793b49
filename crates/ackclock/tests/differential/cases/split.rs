//! Halves.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::side::Loopback;
use super::support::{pair, pause, reset};
use crate::answers::cases;

cases! { false:

async fn borrowed_halves_read_and_write(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    let (mut reader, mut writer) = client.split();
    answers.result("write", writer.write(b"ping").await);
    server.write_all(b"pong").await?;
    answers.result("read", reader.read(&mut [0; 8]).await);
}

async fn dropped_borrowed_halves_close_nothing(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    let _ = client.split();
    answers.result("write", client.write(b"x").await);
    answers.result("read", server.read(&mut [0; 8]).await);
}

async fn a_borrowed_write_half_shuts_down(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    let (_reader, mut writer) = client.split();
    answers.result("shutdown", writer.shutdown().await);
    answers.result("read", server.read(&mut [0; 8]).await);
    answers.result("write", client.write(b"x").await);
}

async fn a_dropped_owned_write_half_closes_the_sending_side(host, answers) {
    let (client, mut server) = pair(host).await?;
    let (mut reader, writer) = client.into_split();
    drop(writer);
    answers.result("peer reads", server.read(&mut [0; 8]).await);
    server.write_all(b"still").await?;
    answers.result("reads", reader.read(&mut [0; 8]).await);
}

async fn a_forgotten_owned_write_half_closes_nothing(host, answers) {
    let (client, server) = pair(host).await?;
    let (_reader, writer) = client.into_split();
    writer.forget();
    pause().await;
    answers.result("peer reads", server.try_read(&mut [0; 8]));
}

async fn a_dropped_owned_read_half_closes_nothing(host, answers) {
    let (client, mut server) = pair(host).await?;
    let (reader, mut writer) = client.into_split();
    drop(reader);
    answers.result("write", writer.write(b"x").await);
    answers.result("peer reads", server.read(&mut [0; 8]).await);
    answers.result("peer writes", server.write(b"x").await);
}

async fn both_owned_halves_dropped_end_the_stream(host, answers) {
    let (client, mut server) = pair(host).await?;
    drop(client.into_split());
    answers.result("peer reads", server.read(&mut [0; 8]).await);
}

async fn halves_of_one_stream_reunite(host, answers) {
    let (client, mut server) = pair(host).await?;
    let (reader, writer) = client.into_split();
    let mut client = reader.reunite(writer).expect("the same stream");
    answers.result("write", client.write(b"x").await);
    answers.result("peer reads", server.read(&mut [0; 8]).await);
}

async fn halves_of_two_streams_do_not(host, answers) {
    let (first, second) = pair(host).await?;
    let (reader, _writer) = first.into_split();
    let (_reader, writer) = second.into_split();
    let error = reader.reunite(writer).expect_err("two streams");
    answers.value("message", error.to_string().contains("same s"));
}

async fn halves_know_their_addresses(host, answers) {
    let (client, _server) = pair(host).await?;
    let (local, peer) = (client.local_addr()?, client.peer_addr()?);
    let (reader, writer) = client.into_split();
    answers.value("reader", (reader.local_addr()? == local, reader.peer_addr()? == peer));
    answers.value("writer", (writer.local_addr()? == local, writer.peer_addr()? == peer));
}

async fn an_owned_write_half_shuts_down_twice(host, answers) {
    let (client, _server) = pair(host).await?;
    let (_reader, mut writer) = client.into_split();
    answers.result("first", writer.shutdown().await);
    answers.result("second", writer.shutdown().await);
    answers.result("write", writer.write(b"x").await);
}

async fn halves_after_a_reset(host, answers) {
    let (mut reader, mut writer) = reset(host).await?.into_split();
    answers.result("read", reader.read(&mut [0; 8]).await);
    answers.result("write", writer.write(b"x").await);
    answers.result("shutdown", writer.shutdown().await);
}

async fn a_half_that_writes_hears_of_a_reset_first(host, answers) {
    let (_reader, mut writer) = reset(host).await?.into_split();
    answers.result("write", writer.write(b"x").await);
    answers.result("again", writer.write(b"x").await);
}

async fn halves_on_two_tasks(host, answers) {
    let (client, server) = pair(host).await?;
    let (mut from, mut to) = server.into_split();
    let echo = tokio::task::spawn_local(async move { tokio::io::copy(&mut from, &mut to).await });
    let (mut reader, mut writer) = client.into_split();
    let sending = tokio::task::spawn_local(async move {
        writer.write_all(&[3; 100_000]).await?;
        writer.shutdown().await
    });
    let mut text = Vec::new();
    answers.result("read", reader.read_to_end(&mut text).await);
    answers.result("sent", sending.await.expect("no panic"));
    answers.result("echoed", echo.await.expect("no panic"));
}

async fn a_borrowed_read_half_peeks(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    server.write_all(b"hello").await?;
    let (mut reader, _writer) = client.split();
    answers.result("peek", reader.peek(&mut [0; 2]).await);
    answers.result("read", reader.read(&mut [0; 8]).await);
}

async fn halves_of_two_streams_are_not_reunited(host, answers) {
    let (client, server) = pair(host).await?;
    let ((reader, _writer), (_reader, writer)) = (client.into_split(), server.into_split());
    answers.value("text", reader.reunite(writer).map(drop).map_err(|error| error.to_string()));
}

}
