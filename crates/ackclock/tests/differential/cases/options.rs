//! Options of streams.

use std::time::Duration;

use super::side::{Loopback, set_linger};
use super::support::{ANY_PORT, addr, pair};
use crate::answers::cases;

cases! { false:

async fn nodelay_is_off_at_first(host, answers) {
    let (client, server) = pair(host).await?;
    answers.result("client", client.nodelay());
    answers.result("server", server.nodelay());
}

async fn nodelay_is_set_and_taken_back(host, answers) {
    let (client, _server) = pair(host).await?;
    answers.result("set", client.set_nodelay(true));
    answers.result("is", client.nodelay());
    answers.result("taken back", client.set_nodelay(false));
    answers.result("is", client.nodelay());
}

async fn ttl_is_64(host, answers) {
    let (client, server) = pair(host).await?;
    answers.result("client", client.ttl());
    answers.result("server", server.ttl());
}

async fn ttl_is_set(host, answers) {
    let (client, _server) = pair(host).await?;
    answers.result("set", client.set_ttl(5));
    answers.result("is", client.ttl());
    answers.result("the most", client.set_ttl(255));
    answers.result("is", client.ttl());
}

async fn a_ttl_of_0(host, answers) {
    let (client, _server) = pair(host).await?;
    answers.result("set", client.set_ttl(0));
    answers.result("is", client.ttl());
}

async fn a_ttl_of_256(host, answers) {
    let (client, _server) = pair(host).await?;
    answers.result("set", client.set_ttl(256));
    answers.result("is", client.ttl());
}

async fn linger_is_off_at_first(host, answers) {
    let (client, _server) = pair(host).await?;
    answers.result("is", client.linger());
}

async fn zero_linger_is_set(host, answers) {
    let (client, _server) = pair(host).await?;
    answers.result("set", client.set_zero_linger());
    answers.result("is", client.linger());
}

async fn nodelay_of_a_socket_is_the_streams(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let socket = host.socket_v4()?;
    answers.result("set", socket.set_nodelay(true));
    answers.result("is", socket.nodelay());
    let client = socket.connect(listener.local_addr()?).await?;
    answers.result("stream", client.nodelay());
}

async fn keepalive_of_a_socket(host, answers) {
    let socket = host.socket_v4()?;
    answers.result("at first", socket.keepalive());
    answers.result("set", socket.set_keepalive(true));
    answers.result("is", socket.keepalive());
    answers.result("taken back", socket.set_keepalive(false));
    answers.result("is", socket.keepalive());
}

async fn tos_of_a_socket(host, answers) {
    let socket = host.socket_v4()?;
    answers.result("at first", socket.tos_v4());
    answers.result("set", socket.set_tos_v4(0x10));
    answers.result("is", socket.tos_v4());
}

async fn tos_without_the_bits_of_ecn(host, answers) {
    let socket = host.socket_v4()?;
    answers.result("set", socket.set_tos_v4(0x13));
    answers.result("is", socket.tos_v4());
}

async fn a_tos_of_256(host, answers) {
    let socket = host.socket_v4()?;
    answers.result("set", socket.set_tos_v4(256));
    answers.result("is", socket.tos_v4());
}

async fn linger_of_a_socket(host, answers) {
    let socket = host.socket_v4()?;
    answers.result("at first", socket.linger());
    answers.result("set", socket.set_zero_linger());
    answers.result("is", socket.linger());
}

async fn zero_linger_of_a_socket_resets(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let socket = host.socket_v4()?;
    socket.set_zero_linger()?;
    let client = socket.connect(listener.local_addr()?).await?;
    let (server, _) = listener.accept().await?;
    answers.result("stream", client.linger());
    drop(client);
    server.readable().await?;
    answers.result("read", server.try_read(&mut [0; 4]));
}

async fn a_buffer_of_one_byte_is_raised_to_the_least(host, answers) {
    let socket = host.socket_v4()?;
    answers.result("send", socket.set_send_buffer_size(1));
    answers.result("receive", socket.set_recv_buffer_size(1));
    answers.result("send is", socket.send_buffer_size());
    answers.result("receive is", socket.recv_buffer_size());
}

async fn a_stream_with_the_least_buffers_works(host, answers) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let socket = host.socket_v4()?;
    socket.set_send_buffer_size(1)?;
    socket.set_recv_buffer_size(1)?;
    let listener = host.listen(addr(ANY_PORT)).await?;
    let mut client = socket.connect(listener.local_addr()?).await?;
    let (mut server, _) = listener.accept().await?;
    let text = [5; 10_000];
    let echo = async {
        let mut got = [0; 10_000];
        server.read_exact(&mut got).await?;
        server.write_all(&got).await
    };
    let ask = async {
        let mut got = [0; 10_000];
        let (mut reader, mut writer) = client.split();
        writer.write_all(&text).await?;
        reader.read_exact(&mut got).await?;
        Ok::<_, std::io::Error>(got == text)
    };
    let (echoed, asked) = tokio::join!(echo, ask);
    answers.result("echoed", echoed);
    answers.result("asked", asked);
}

async fn a_buffer_of_64_kib(host, answers) {
    let socket = host.socket_v4()?;
    socket.set_send_buffer_size(1 << 16)?;
    socket.set_recv_buffer_size(1 << 16)?;
    answers.result("send is", socket.send_buffer_size());
    answers.result("receive is", socket.recv_buffer_size());
}

async fn the_ttl_of_a_listener_is_that_of_its_streams(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    answers.result("at first", listener.ttl());
    answers.result("set", listener.set_ttl(7));
    answers.result("is", listener.ttl());
    let (connected, accepted) = tokio::join!(host.connect(listener.local_addr()?), listener.accept());
    answers.result("client", connected?.ttl());
    answers.result("accepted", accepted?.0.ttl());
}

async fn a_ttl_of_0_for_a_listener(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    answers.result("set", listener.set_ttl(0));
    answers.result("is", listener.ttl());
}

async fn quickack_is_set_and_taken_back(host, answers) {
    let (client, _server) = pair(host).await?;
    answers.result("set", client.set_quickack(true));
    answers.result("is", client.quickack());
    answers.result("taken back", client.set_quickack(false));
    answers.result("is", client.quickack());
}

async fn quickack_of_a_fresh_stream(host, answers) {
    let (client, _server) = pair(host).await?;
    answers.result("is", client.quickack());
}

async fn a_linger_time_with_a_fraction(host, answers) {
    let socket = host.socket_v4()?;
    answers.result("set", set_linger(&socket, Duration::from_millis(1500)));
    answers.result("is", socket.linger());
}

async fn the_traffic_class_of_a_socket_for_ipv4(host, answers) {
    let socket = host.socket_v4()?;
    answers.result("at first", socket.tclass_v6());
    answers.result("set", socket.set_tclass_v6(0x20));
    answers.result("type of service", socket.set_tos_v4(0x20));
    answers.result("is", socket.tos_v4());
}

async fn a_linger_time_is_kept(host, answers) {
    let socket = host.socket_v4()?;
    answers.result("set", set_linger(&socket, Duration::from_secs(3)));
    answers.result("is", socket.linger());
}

}
