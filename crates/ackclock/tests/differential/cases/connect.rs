//! Opening: to which addresses, and the error where it cannot work.

use super::side::Loopback;
use super::support::{ANY_PORT, addr, at, free_port, pair};
use crate::answers::cases;

cases! { false:

async fn both_ends_have_addresses(host, answers) {
    let (client, server) = pair(host).await?;
    answers.address("local", client.local_addr());
    answers.address("peer", client.peer_addr());
    answers.value("the same", client.local_addr()? == server.peer_addr()?);
}

async fn a_port_without_a_listener_refuses(host, answers) {
    let free = free_port(host).await?;
    answers.outcome("connect", host.connect(free).await);
}

async fn a_refused_connection_has_the_errors_number(host, answers) {
    let free = free_port(host).await?;
    answers.os_error("connect", host.connect(free).await);
}

async fn a_connection_to_port_0(host, answers) {
    answers.outcome("connect", host.connect(addr("127.0.0.1:0")).await);
}

async fn a_connection_to_the_limited_broadcast(host, answers) {
    answers.outcome("connect", host.connect(addr("255.255.255.255:80")).await);
}

async fn a_connection_to_the_broadcast_of_a_network(host, answers) {
    answers.outcome("connect", host.connect(addr("127.255.255.255:80")).await);
}

async fn a_connection_to_multicast(host, answers) {
    answers.outcome("connect", host.connect(addr("224.0.0.1:80")).await);
}

async fn a_connection_to_the_unspecified_address_without_a_listener(host, answers) {
    let free = free_port(host).await?;
    answers.outcome("connect", host.connect(at("0.0.0.0", free)).await);
}

async fn a_connection_to_the_unspecified_address_is_to_this_host(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let client = host.connect(at("0.0.0.0", listener.local_addr()?)).await;
    answers.result("connect", client.as_ref().map(|_| ()).map_err(|error| error.kind().into()));
    if let Ok(client) = client {
        answers.address("peer", client.peer_addr());
    }
}

async fn a_connection_from_the_other_address(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let socket = host.socket_v4()?;
    socket.bind(addr("127.0.0.2:0"))?;
    let client = socket.connect(listener.local_addr()?).await?;
    answers.address("local", client.local_addr());
    answers.address("peer", listener.accept().await.map(|(_, peer)| peer));
}

async fn a_connection_to_the_own_other_address_comes_from_there(host, answers) {
    let listener = host.listen(addr("127.0.0.2:0")).await?;
    let client = host.connect(listener.local_addr()?).await?;
    answers.value("loopback", client.local_addr()?.ip().is_loopback());
    answers.address("peer", client.peer_addr());
}

async fn a_connection_from_a_chosen_port(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let free = free_port(host).await?;
    let socket = host.socket_v4()?;
    socket.bind(free)?;
    let client = socket.connect(listener.local_addr()?).await?;
    answers.value("chosen", client.local_addr()? == free);
}

async fn a_second_connection_of_the_same_name(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let local = listener.local_addr()?;
    let first = host.socket_v4()?;
    first.set_reuseaddr(true)?;
    first.bind(addr(ANY_PORT))?;
    let first = first.connect(local).await?;
    let second = host.socket_v4()?;
    second.set_reuseaddr(true)?;
    answers.result("bind", second.bind(first.local_addr()?));
    answers.outcome("connect", second.connect(local).await);
}

async fn one_port_serves_two_peers(host, answers) {
    let (one, two) = (host.listen(addr(ANY_PORT)).await?, host.listen(addr(ANY_PORT)).await?);
    let first = host.socket_v4()?;
    first.set_reuseaddr(true)?;
    first.bind(addr(ANY_PORT))?;
    let first = first.connect(one.local_addr()?).await?;
    let second = host.socket_v4()?;
    second.set_reuseaddr(true)?;
    answers.result("bind", second.bind(first.local_addr()?));
    answers.outcome("connect", second.connect(two.local_addr()?).await);
}

async fn a_socket_to_itself(host, answers) {
    let free = free_port(host).await?;
    let socket = host.socket_v4()?;
    socket.bind(free)?;
    let stream = socket.connect(free).await;
    answers.result("connect", stream.map(|stream| stream.local_addr().ok() == stream.peer_addr().ok()));
}

async fn a_hundred_connections_one_after_the_other(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    for _ in 0..100 {
        let (connected, accepted) = tokio::join!(host.connect(listener.local_addr()?), listener.accept());
        drop((connected?, accepted?));
    }
    answers.value("all", true);
}

async fn a_fresh_stream_has_no_error(host, answers) {
    let (client, server) = pair(host).await?;
    answers.result("client", client.take_error().map(|error| error.is_none()));
    answers.result("server", server.take_error().map(|error| error.is_none()));
}

}
