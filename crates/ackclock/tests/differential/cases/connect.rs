//! Opening: to which addresses, and the error where it cannot work.

use super::side::World;
use super::support::{ANY_PORT, addr, at, free_port, pair};
use crate::answers::cases;

cases! { false:

async fn both_ends_have_addresses(world, answers) {
    let (client, server) = pair(world).await?;
    answers.address("local", client.local_addr());
    answers.address("peer", client.peer_addr());
    answers.value("the same", client.local_addr()? == server.peer_addr()?);
}

async fn a_port_without_a_listener_refuses(world, answers) {
    let free = free_port(world).await?;
    answers.outcome("connect", world.connect(free).await);
}

async fn a_refused_connection_has_the_errors_number(world, answers) {
    let free = free_port(world).await?;
    answers.os_error("connect", world.connect(free).await);
}

async fn a_connection_to_port_0(world, answers) {
    answers.outcome("connect", world.connect(addr("127.0.0.1:0")).await);
}

async fn a_connection_to_the_limited_broadcast(world, answers) {
    answers.outcome("connect", world.connect(addr("255.255.255.255:80")).await);
}

async fn a_connection_to_the_broadcast_of_a_network(world, answers) {
    answers.outcome("connect", world.connect(addr("127.255.255.255:80")).await);
}

async fn a_connection_to_multicast(world, answers) {
    answers.outcome("connect", world.connect(addr("224.0.0.1:80")).await);
}

async fn a_connection_to_the_unspecified_address_without_a_listener(world, answers) {
    let free = free_port(world).await?;
    answers.outcome("connect", world.connect(at("0.0.0.0", free)).await);
}

async fn a_connection_to_the_unspecified_address_is_to_this_host(world, answers) {
    let listener = world.listen(addr(ANY_PORT)).await?;
    let client = world.connect(at("0.0.0.0", listener.local_addr()?)).await;
    answers.result("connect", client.as_ref().map(|_| ()).map_err(|error| error.kind().into()));
    if let Ok(client) = client {
        answers.address("peer", client.peer_addr());
    }
}

async fn a_connection_from_the_other_address(world, answers) {
    let listener = world.listen(addr(ANY_PORT)).await?;
    let socket = world.socket_v4()?;
    socket.bind(addr("127.0.0.2:0"))?;
    let client = socket.connect(listener.local_addr()?).await?;
    answers.address("local", client.local_addr());
    answers.address("peer", listener.accept().await.map(|(_, peer)| peer));
}

async fn a_connection_to_the_own_other_address_comes_from_there(world, answers) {
    let listener = world.listen(addr("127.0.0.2:0")).await?;
    let client = world.connect(listener.local_addr()?).await?;
    answers.value("loopback", client.local_addr()?.ip().is_loopback());
    answers.address("peer", client.peer_addr());
}

async fn a_connection_from_a_chosen_port(world, answers) {
    let listener = world.listen(addr(ANY_PORT)).await?;
    let free = free_port(world).await?;
    let socket = world.socket_v4()?;
    socket.bind(free)?;
    let client = socket.connect(listener.local_addr()?).await?;
    answers.value("chosen", client.local_addr()? == free);
}

async fn a_second_connection_of_the_same_name(world, answers) {
    let listener = world.listen(addr(ANY_PORT)).await?;
    let local = listener.local_addr()?;
    let first = world.socket_v4()?;
    first.set_reuseaddr(true)?;
    first.bind(addr(ANY_PORT))?;
    let first = first.connect(local).await?;
    let second = world.socket_v4()?;
    second.set_reuseaddr(true)?;
    answers.result("bind", second.bind(first.local_addr()?));
    answers.outcome("connect", second.connect(local).await);
}

async fn one_port_serves_two_peers(world, answers) {
    let (one, two) = (world.listen(addr(ANY_PORT)).await?, world.listen(addr(ANY_PORT)).await?);
    let first = world.socket_v4()?;
    first.set_reuseaddr(true)?;
    first.bind(addr(ANY_PORT))?;
    let first = first.connect(one.local_addr()?).await?;
    let second = world.socket_v4()?;
    second.set_reuseaddr(true)?;
    answers.result("bind", second.bind(first.local_addr()?));
    answers.outcome("connect", second.connect(two.local_addr()?).await);
}

async fn a_socket_to_itself(world, answers) {
    let free = free_port(world).await?;
    let socket = world.socket_v4()?;
    socket.bind(free)?;
    let stream = socket.connect(free).await;
    answers.result("connect", stream.map(|stream| stream.local_addr().ok() == stream.peer_addr().ok()));
}

async fn a_hundred_connections_one_after_the_other(world, answers) {
    let listener = world.listen(addr(ANY_PORT)).await?;
    for _ in 0..100 {
        let (connected, accepted) = tokio::join!(world.connect(listener.local_addr()?), listener.accept());
        drop((connected?, accepted?));
    }
    answers.value("all", true);
}

async fn a_fresh_stream_has_no_error(world, answers) {
    let (client, server) = pair(world).await?;
    answers.result("client", client.take_error().map(|error| error.is_none()));
    answers.result("server", server.take_error().map(|error| error.is_none()));
}

}
