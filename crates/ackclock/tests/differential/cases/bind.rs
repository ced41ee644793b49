//! Listening: which addresses and ports can be had, and by whom.

use super::side::Loopback;
use super::support::{ANY_PORT, addr, at, free_port, pair, time_wait};
use crate::answers::cases;

cases! { false:

async fn addresses_in_words_and_pairs(host, answers) {
    answers.outcome("words", host.bind("127.0.0.1:0").await);
    answers.outcome("string", host.bind("127.0.0.1:0".to_owned()).await);
    answers.outcome("pair", host.bind(("127.0.0.1", 0)).await);
    answers.outcome("pair of an address", host.bind((std::net::Ipv4Addr::LOCALHOST, 0)).await);
    answers.outcome("several", host.bind(&[addr("192.0.2.1:0"), addr(ANY_PORT)][..]).await);
    answers.outcome("none", host.bind(&[][..]).await);
    answers.outcome("nonsense", host.bind("127.0.0.1").await);
}

async fn a_free_port_is_told(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    answers.address("local", listener.local_addr());
}

async fn two_free_ports_differ(host, answers) {
    let first = host.listen(addr(ANY_PORT)).await?;
    let second = host.listen(addr(ANY_PORT)).await?;
    answers.value("differ", first.local_addr()? != second.local_addr()?);
}

async fn one_address_has_one_listener(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    answers.outcome("again", host.listen(listener.local_addr()?).await);
}

async fn one_port_of_two_addresses_has_two(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let other = at("127.0.0.2", listener.local_addr()?);
    let second = host.listen(other).await;
    answers.result("other", second.and_then(|second| Ok(second.local_addr()? == other)));
}

async fn an_address_of_another_host_is_not_available(host, answers) {
    answers.outcome("foreign", host.listen(addr("192.0.2.1:0")).await);
}

async fn a_broadcast_address_for_a_listener(host, answers) {
    answers.outcome("broadcast", host.listen(addr("255.255.255.255:0")).await);
}

async fn a_multicast_address_for_a_listener(host, answers) {
    answers.outcome("multicast", host.listen(addr("224.0.0.1:0")).await);
}

async fn a_wildcard_tells_itself_and_its_port(host, answers) {
    let listener = host.listen(addr("0.0.0.0:0")).await?;
    answers.address("local", listener.local_addr());
}

async fn a_wildcard_beside_a_specific_listener(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    answers.outcome("wildcard", host.listen(at("0.0.0.0", listener.local_addr()?)).await);
}

async fn a_specific_listener_beside_a_wildcard(host, answers) {
    let listener = host.listen(addr("0.0.0.0:0")).await?;
    answers.outcome("specific", host.listen(at("127.0.0.1", listener.local_addr()?)).await);
}

async fn two_wildcards(host, answers) {
    let listener = host.listen(addr("0.0.0.0:0")).await?;
    answers.outcome("again", host.listen(listener.local_addr()?).await);
}

async fn a_wildcard_takes_every_address(host, answers) {
    let listener = host.listen(addr("0.0.0.0:0")).await?;
    let target = at("127.0.0.2", listener.local_addr()?);
    let (connected, accepted) = tokio::join!(host.connect(target), listener.accept());
    let accepted = accepted?.0;
    answers.address("peer", connected?.peer_addr());
    answers.address("local", accepted.local_addr());
}

async fn a_port_is_free_once_its_listener_is_gone(host, answers) {
    let free = free_port(host).await?;
    answers.outcome("again", host.listen(free).await);
}

async fn a_listener_may_come_back_while_its_connections_live(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let local = listener.local_addr()?;
    let (connected, accepted) = tokio::join!(host.connect(local), listener.accept());
    let _both = (connected?, accepted?);
    drop(listener);
    answers.outcome("again", host.listen(local).await);
}

async fn a_listener_may_come_back_over_time_wait(host, answers) {
    let local = time_wait(host).await?;
    answers.outcome("again", host.listen(local).await);
}

async fn the_port_of_a_connecting_stream_can_be_listened_on_by_none(host, answers) {
    let (client, _server) = pair(host).await?;
    answers.outcome("listen", host.listen(client.local_addr()?).await);
}

async fn the_address_of_the_peer_is_the_clients(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let (connected, accepted) = tokio::join!(host.connect(listener.local_addr()?), listener.accept());
    let (connected, (accepted, peer)) = (connected?, accepted?);
    answers.value("peer", peer == connected.local_addr()?);
    answers.value("same", peer == accepted.peer_addr()?);
    answers.value("other way", connected.peer_addr()? == accepted.local_addr()?);
}

async fn a_listener_that_is_gone_refuses(host, answers) {
    let free = free_port(host).await?;
    answers.outcome("connect", host.connect(free).await);
}

async fn what_was_not_accepted_is_reset_with_the_listener(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let client = host.connect(listener.local_addr()?).await?;
    drop(listener);
    client.readable().await?;
    answers.outcome("read", client.try_read(&mut [0; 1]));
}

async fn a_stream_waits_to_be_accepted_with_its_data(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let client = host.connect(listener.local_addr()?).await?;
    answers.result("write", client.try_write(b"early"));
    drop(client);
    let (server, _) = listener.accept().await?;
    server.readable().await?;
    answers.result("read", server.try_read(&mut [0; 16]));
    server.readable().await?;
    answers.result("end", server.try_read(&mut [0; 16]));
}

async fn two_tasks_may_accept(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let local = listener.local_addr()?;
    let (first, second, a, b) =
        tokio::join!(listener.accept(), listener.accept(), host.connect(local), host.connect(local));
    answers.value("all", (first.is_ok(), second.is_ok(), a.is_ok(), b.is_ok()));
}

async fn an_accept_that_is_given_up_takes_nothing(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let given_up = tokio::time::timeout(std::time::Duration::from_millis(1), listener.accept()).await;
    answers.value("given up", given_up.is_err());
    let _client = host.connect(listener.local_addr()?).await?;
    answers.outcome("accept", listener.accept().await);
}

}
