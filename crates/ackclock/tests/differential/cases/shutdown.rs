//! One direction closed, or both.

use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};

use super::side::Loopback;
use super::support::{pair, pause};
use crate::answers::cases;

cases! { false:

async fn shutdown_ends_the_peers_stream(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    answers.result("shutdown", client.shutdown().await);
    answers.result("read", server.read(&mut [0; 4]).await);
    answers.result("again", server.read(&mut [0; 4]).await);
}

async fn a_second_shutdown_is_ok(host, answers) {
    let (mut client, _server) = pair(host).await?;
    answers.result("first", client.shutdown().await);
    answers.result("second", client.shutdown().await);
}

async fn a_write_after_shutdown_is_a_broken_pipe(host, answers) {
    let (mut client, _server) = pair(host).await?;
    client.shutdown().await?;
    answers.result("write", client.write(b"x").await);
    answers.result("again", client.write(b"x").await);
}

async fn a_broken_pipe_has_its_number(host, answers) {
    let (mut client, _server) = pair(host).await?;
    client.shutdown().await?;
    answers.os_error("write", client.write(b"x").await);
}

async fn an_empty_write_after_shutdown(host, answers) {
    let (mut client, _server) = pair(host).await?;
    client.shutdown().await?;
    answers.result("write", client.write(b"").await);
    answers.result("try_write", client.try_write(b""));
}

async fn an_empty_vector_after_shutdown(host, answers) {
    let (mut client, _server) = pair(host).await?;
    client.shutdown().await?;
    answers.result("try_write_vectored", client.try_write_vectored(&[]));
}

async fn try_write_after_shutdown(host, answers) {
    let (mut client, _server) = pair(host).await?;
    client.shutdown().await?;
    answers.result("try_write", client.try_write(b"x"));
}

async fn reading_goes_on_after_shutdown(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    client.shutdown().await?;
    server.write_all(b"answer").await?;
    answers.result("read", client.read(&mut [0; 16]).await);
}

async fn what_was_written_before_shutdown_arrives(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    client.write_all(b"last words").await?;
    client.shutdown().await?;
    let mut text = String::new();
    answers.result("read", server.read_to_string(&mut text).await);
    answers.value("text", text);
}

async fn both_ends_shut_down(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    answers.result("client", client.shutdown().await);
    answers.result("server", server.shutdown().await);
    answers.result("client reads", client.read(&mut [0; 4]).await);
    answers.result("server reads", server.read(&mut [0; 4]).await);
    pause().await;
    answers.result("client again", client.shutdown().await);
    answers.result("server again", server.shutdown().await);
}

async fn a_stream_that_is_over_has_no_error(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    client.shutdown().await?;
    server.shutdown().await?;
    pause().await;
    answers.result("client", client.take_error().map(|error| error.is_none()));
    answers.result("server", server.take_error().map(|error| error.is_none()));
}

async fn writes_after_both_ends_shut_down(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    client.shutdown().await?;
    server.shutdown().await?;
    pause().await;
    answers.result("client", client.write(b"x").await);
    answers.result("server", server.write(b"x").await);
}

async fn addresses_of_a_stream_that_is_over(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    client.shutdown().await?;
    server.shutdown().await?;
    answers.result("server", server.read(&mut [0; 1]).await);
    answers.result("client", client.read(&mut [0; 1]).await);
    pause().await;
    answers.outcome("local", server.local_addr());
    answers.outcome("peer", server.peer_addr());
}

async fn a_peer_that_shut_down_is_read_closed(host, answers) {
    let (mut client, server) = pair(host).await?;
    client.shutdown().await?;
    pause().await;
    let ready = server.ready(Interest::READABLE).await?;
    answers.value("readable", ready.is_readable());
    answers.value("read closed", ready.is_read_closed());
}

async fn an_own_shutdown_alone_closes_no_writing_in_readiness(host, answers) {
    let (mut client, _server) = pair(host).await?;
    client.shutdown().await?;
    let ready = client.ready(Interest::WRITABLE).await?;
    answers.value("writable", (ready.is_writable(), ready.is_write_closed()));
}

async fn shutdowns_of_both_ends_close_both_in_readiness(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    client.shutdown().await?;
    server.shutdown().await?;
    pause().await;
    let ready = client.ready(Interest::READABLE | Interest::WRITABLE).await?;
    answers.value("read", (ready.is_readable(), ready.is_read_closed()));
    answers.value("write", (ready.is_writable(), ready.is_write_closed(), ready.is_error()));
}

async fn a_peers_shutdown_alone_closes_no_writing_in_readiness(host, answers) {
    let (client, mut server) = pair(host).await?;
    server.shutdown().await?;
    pause().await;
    let ready = client.ready(Interest::READABLE | Interest::WRITABLE).await?;
    answers.value("ready", (ready.is_read_closed(), ready.is_write_closed()));
}

async fn a_dropped_stream_ends_the_peers(host, answers) {
    let (client, mut server) = pair(host).await?;
    drop(client);
    answers.result("read", server.read(&mut [0; 4]).await);
    answers.result("again", server.read(&mut [0; 4]).await);
}

async fn a_dropped_stream_delivers_what_was_written(host, answers) {
    let (mut client, mut server) = pair(host).await?;
    client.write_all(b"last words").await?;
    drop(client);
    let mut text = String::new();
    answers.result("read", server.read_to_string(&mut text).await);
    answers.value("text", text);
}

async fn a_dropped_stream_with_unread_data_resets(host, answers) {
    let (mut client, server) = pair(host).await?;
    client.write_all(b"unread").await?;
    server.readable().await?;
    drop(server);
    client.readable().await?;
    answers.result("read", client.try_read(&mut [0; 4]));
}

async fn a_stream_with_zero_linger_resets(host, answers) {
    let (client, server) = pair(host).await?;
    server.set_zero_linger()?;
    drop(server);
    client.readable().await?;
    answers.result("read", client.try_read(&mut [0; 4]));
}

async fn writing_to_a_peer_that_has_closed_is_taken_at_first(host, answers) {
    let (mut client, server) = pair(host).await?;
    drop(server);
    client.readable().await?;
    answers.result("write", client.write(b"x").await);
}

}
