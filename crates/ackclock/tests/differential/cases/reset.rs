//! After the peer has reset the connection: which call hears of it, and what the next ones say.

use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};

use super::side::Loopback;
use super::support::{closed_then_reset, reset, reset_after};
use crate::answers::cases;

cases! { false:

async fn a_read_after_a_reset(host, answers) {
    let mut client = reset(host).await?;
    answers.result("read", client.read(&mut [0; 4]).await);
}

async fn a_second_read_after_a_reset(host, answers) {
    let mut client = reset(host).await?;
    answers.result("first", client.read(&mut [0; 4]).await);
    answers.result("second", client.read(&mut [0; 4]).await);
}

async fn a_write_after_a_reset(host, answers) {
    let mut client = reset(host).await?;
    answers.result("write", client.write(b"x").await);
}

async fn a_second_write_after_a_reset(host, answers) {
    let mut client = reset(host).await?;
    answers.result("first", client.write(b"x").await);
    answers.result("second", client.write(b"x").await);
    answers.result("third", client.try_write(b"x"));
}

async fn a_write_after_a_read_has_told_of_the_reset(host, answers) {
    let mut client = reset(host).await?;
    answers.result("read", client.read(&mut [0; 4]).await);
    answers.result("write", client.write(b"x").await);
}

async fn a_write_after_take_error_has_told_of_the_reset(host, answers) {
    let mut client = reset(host).await?;
    let error = client.take_error()?;
    answers.value("taken", error.map(|error| error.kind()));
    answers.result("write", client.write(b"x").await);
}

async fn a_write_after_a_peek_has_told_of_the_reset(host, answers) {
    let mut client = reset(host).await?;
    answers.result("peek", client.peek(&mut [0; 4]).await);
    answers.result("write", client.write(b"x").await);
}

async fn a_read_after_a_write_has_told_of_the_reset(host, answers) {
    let mut client = reset(host).await?;
    answers.result("write", client.write(b"x").await);
    answers.result("read", client.read(&mut [0; 4]).await);
}

async fn take_error_after_a_reset(host, answers) {
    let client = reset(host).await?;
    answers.result("first", client.take_error().map(|error| error.map(|error| error.kind())));
    answers.result("second", client.take_error().map(|error| error.map(|error| error.kind())));
}

async fn take_error_after_a_write_has_told_of_the_reset(host, answers) {
    let mut client = reset(host).await?;
    answers.result("write", client.write(b"x").await);
    answers.result("taken", client.take_error().map(|error| error.map(|error| error.kind())));
}

async fn a_reset_has_its_number(host, answers) {
    let mut client = reset(host).await?;
    answers.os_error("read", client.read(&mut [0; 4]).await);
}

async fn a_broken_pipe_after_a_reset_has_its_number(host, answers) {
    let mut client = reset(host).await?;
    answers.os_error("first", client.write(b"x").await);
    answers.os_error("second", client.write(b"x").await);
}

async fn shutdown_after_a_reset(host, answers) {
    let mut client = reset(host).await?;
    answers.result("shutdown", client.shutdown().await);
    answers.result("again", client.shutdown().await);
}

async fn shutdown_leaves_the_error_of_a_reset(host, answers) {
    let mut client = reset(host).await?;
    answers.result("shutdown", client.shutdown().await);
    answers.result("write", client.write(b"x").await);
}

async fn an_empty_write_after_a_reset(host, answers) {
    let mut client = reset(host).await?;
    answers.result("first", client.write(b"").await);
    answers.result("second", client.write(b"").await);
}

async fn flush_after_a_reset(host, answers) {
    let mut client = reset(host).await?;
    answers.result("flush", client.flush().await);
}

async fn readiness_after_a_reset(host, answers) {
    let client = reset(host).await?;
    let ready = client.ready(Interest::READABLE | Interest::WRITABLE).await?;
    answers.value("readable", ready.is_readable());
    answers.value("writable", ready.is_writable());
}

async fn readiness_to_read_after_a_reset(host, answers) {
    let client = reset(host).await?;
    let ready = client.ready(Interest::READABLE).await?;
    answers.value("ready", (ready.is_readable(), ready.is_read_closed(), ready.is_error()));
    let ready = client.ready(Interest::READABLE | Interest::ERROR).await?;
    answers.value("asked for errors", (ready.is_readable(), ready.is_read_closed(), ready.is_error()));
}

async fn readiness_to_write_after_a_reset(host, answers) {
    let client = reset(host).await?;
    let ready = client.ready(Interest::WRITABLE).await?;
    answers.value("ready", (ready.is_writable(), ready.is_write_closed(), ready.is_error()));
}

async fn readiness_of_errors_after_a_reset(host, answers) {
    let client = reset(host).await?;
    let ready = client.ready(Interest::ERROR).await?;
    answers.value("ready", (ready.is_readable(), ready.is_writable(), ready.is_error()));
}

async fn readiness_before_a_reset_that_follows_data(host, answers) {
    let client = reset_after(host, b"text").await?;
    let ready = client.ready(Interest::READABLE).await?;
    answers.value("ready", (ready.is_readable(), ready.is_read_closed(), ready.is_error()));
}

async fn waiting_after_a_reset_ends_at_once(host, answers) {
    let client = reset(host).await?;
    answers.result("readable", client.readable().await);
    answers.result("writable", client.writable().await);
}

async fn data_before_a_reset_is_read(host, answers) {
    let mut client = reset_after(host, b"text").await?;
    answers.result("read", client.read(&mut [0; 16]).await);
    answers.result("then", client.read(&mut [0; 16]).await);
}

async fn data_before_a_reset_is_peeked_at(host, answers) {
    let client = reset_after(host, b"text").await?;
    answers.result("peek", client.peek(&mut [0; 16]).await);
    answers.result("again", client.peek(&mut [0; 16]).await);
}

async fn data_before_a_reset_outlives_a_write(host, answers) {
    let mut client = reset_after(host, b"text").await?;
    answers.result("write", client.write(b"x").await);
    answers.result("read", client.read(&mut [0; 16]).await);
}

async fn read_to_end_over_a_reset(host, answers) {
    let mut client = reset_after(host, b"text").await?;
    let mut text = Vec::new();
    answers.result("read", client.read_to_end(&mut text).await);
    answers.value("text", text);
}

async fn a_peer_that_closed_and_then_reset_breaks_the_pipe(host, answers) {
    let mut client = closed_then_reset(host).await?;
    answers.result("write", client.write(b"x").await);
    answers.result("again", client.write(b"x").await);
}

async fn a_peer_that_closed_and_then_reset_has_ended_the_stream(host, answers) {
    let mut client = closed_then_reset(host).await?;
    answers.result("read", client.read(&mut [0; 4]).await);
    answers.result("again", client.read(&mut [0; 4]).await);
}

async fn take_error_of_a_peer_that_closed_and_then_reset(host, answers) {
    let client = closed_then_reset(host).await?;
    answers.result("first", client.take_error().map(|error| error.map(|error| error.kind())));
    answers.result("second", client.take_error().map(|error| error.map(|error| error.kind())));
}

async fn shutdown_after_a_peer_that_closed_and_then_reset(host, answers) {
    let mut client = closed_then_reset(host).await?;
    answers.result("shutdown", client.shutdown().await);
}

async fn addresses_after_a_reset(host, answers) {
    let client = reset(host).await?;
    answers.address("local", client.local_addr());
    answers.address("peer", client.peer_addr());
}

async fn options_after_a_reset(host, answers) {
    let client = reset(host).await?;
    answers.result("set_nodelay", client.set_nodelay(true));
    answers.result("nodelay", client.nodelay());
    answers.result("ttl", client.ttl());
}

}
