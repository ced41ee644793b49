//! IPv4, IPv6, and both at once.

use super::side::Loopback;
use super::support::{addr, at, free_port};
use crate::answers::cases;

cases! { true:

async fn a_connection_over_ipv6(host, answers) {
    let listener = host.listen(addr("[::1]:0")).await?;
    let (connected, accepted) = tokio::join!(host.connect(listener.local_addr()?), listener.accept());
    answers.address("local", connected?.local_addr());
    answers.address("peer", accepted?.0.peer_addr());
}

async fn a_v4_wildcard_takes_no_ipv6(host, answers) {
    let listener = host.listen(addr("0.0.0.0:0")).await?;
    answers.outcome("connect", host.connect(at("::1", listener.local_addr()?)).await);
}

async fn a_v6_wildcard_tells_itself(host, answers) {
    let listener = host.listen(addr("[::]:0")).await?;
    answers.address("local", listener.local_addr());
}

async fn a_v6_wildcard_takes_ipv6(host, answers) {
    let listener = host.listen(addr("[::]:0")).await?;
    let target = at("::1", listener.local_addr()?);
    let (connected, accepted) = tokio::join!(host.connect(target), listener.accept());
    connected?;
    answers.address("local", accepted?.0.local_addr());
}

async fn a_v6_wildcard_takes_ipv4(host, answers) {
    let listener = host.listen(addr("[::]:0")).await?;
    let target = at("127.0.0.1", listener.local_addr()?);
    let (connected, accepted) = tokio::join!(host.connect(target), listener.accept());
    answers.address("connected", connected?.peer_addr());
    let (accepted, peer) = accepted?;
    answers.address("peer", Ok(peer));
    answers.address("local", accepted.local_addr());
}

async fn both_wildcards_on_one_port(host, answers) {
    let listener = host.listen(addr("[::]:0")).await?;
    answers.outcome("v4", host.listen(at("0.0.0.0", listener.local_addr()?)).await);
}

async fn a_v4_address_beside_a_v6_wildcard(host, answers) {
    let listener = host.listen(addr("[::]:0")).await?;
    answers.outcome("v4", host.listen(at("127.0.0.1", listener.local_addr()?)).await);
}

async fn a_v6_wildcard_beside_a_v4_address(host, answers) {
    let listener = host.listen(addr("127.0.0.1:0")).await?;
    answers.outcome("v6", host.listen(at("::", listener.local_addr()?)).await);
}

async fn a_v6_address_beside_a_v4_wildcard(host, answers) {
    let listener = host.listen(addr("0.0.0.0:0")).await?;
    answers.outcome("v6", host.listen(at("::1", listener.local_addr()?)).await);
}

async fn one_port_of_both_families(host, answers) {
    let listener = host.listen(addr("127.0.0.1:0")).await?;
    answers.outcome("v6", host.listen(at("::1", listener.local_addr()?)).await);
}

async fn a_connection_to_a_v4_mapped_address(host, answers) {
    let listener = host.listen(addr("127.0.0.1:0")).await?;
    let target = at("::ffff:127.0.0.1", listener.local_addr()?);
    let client = host.connect(target).await?;
    answers.address("local", client.local_addr());
    answers.address("peer", client.peer_addr());
    answers.address("accepted", listener.accept().await.map(|(_, peer)| peer));
}

async fn a_v4_mapped_address_without_a_listener(host, answers) {
    let free = free_port(host).await?;
    answers.outcome("connect", host.connect(at("::ffff:127.0.0.1", free)).await);
}

async fn a_listener_on_a_v4_mapped_address(host, answers) {
    let listener = host.listen(addr("[::ffff:127.0.0.1]:0")).await?;
    answers.address("local", listener.local_addr());
    let target = at("127.0.0.1", listener.local_addr()?);
    let (connected, accepted) = tokio::join!(host.connect(target), listener.accept());
    connected?;
    answers.address("peer", accepted.map(|(_, peer)| peer));
}

async fn a_v4_mapped_listener_beside_the_address(host, answers) {
    let listener = host.listen(addr("127.0.0.1:0")).await?;
    answers.outcome("mapped", host.listen(at("::ffff:127.0.0.1", listener.local_addr()?)).await);
}

async fn a_fresh_v6_socket_has_no_address(host, answers) {
    answers.address("v6", host.socket_v6()?.local_addr());
}

async fn a_v6_socket_listens_unbound(host, answers) {
    let listener = host.socket_v6()?.listen(8)?;
    answers.address("local", listener.local_addr());
}

async fn a_v6_socket_bound_to_ipv4(host, answers) {
    answers.outcome("bind", host.socket_v6()?.bind(addr("127.0.0.1:0")));
}

async fn a_v6_socket_bound_to_a_v4_mapped_address(host, answers) {
    let socket = host.socket_v6()?;
    answers.result("bind", socket.bind(addr("[::ffff:127.0.0.1]:0")));
    answers.address("local", socket.local_addr());
}

async fn a_v6_socket_connects_to_a_v4_mapped_address(host, answers) {
    let listener = host.listen(addr("127.0.0.1:0")).await?;
    let client = host.socket_v6()?.connect(at("::ffff:127.0.0.1", listener.local_addr()?)).await?;
    answers.address("local", client.local_addr());
    answers.address("peer", client.peer_addr());
}

async fn a_v6_socket_connects_to_ipv4(host, answers) {
    let listener = host.listen(addr("127.0.0.1:0")).await?;
    answers.outcome("connect", host.socket_v6()?.connect(listener.local_addr()?).await);
}

async fn a_connection_to_the_unspecified_address_of_ipv6(host, answers) {
    let listener = host.listen(addr("[::1]:0")).await?;
    let client = host.connect(at("::", listener.local_addr()?)).await?;
    answers.address("peer", client.peer_addr());
}

async fn a_connection_to_multicast_of_ipv6(host, answers) {
    answers.outcome("connect", host.connect(addr("[ff02::1]:80")).await);
}

async fn a_connection_to_port_0_of_ipv6(host, answers) {
    answers.outcome("connect", host.connect(addr("[::1]:0")).await);
}

async fn a_foreign_address_of_ipv6_for_a_listener(host, answers) {
    answers.outcome("listen", host.listen(addr("[2001:db8::1]:0")).await);
}

async fn the_traffic_class_of_a_socket(host, answers) {
    let socket = host.socket_v6()?;
    answers.result("at first", socket.tclass_v6());
    answers.result("set", socket.set_tclass_v6(0x20));
    answers.result("is", socket.tclass_v6());
}

async fn the_type_of_service_of_a_socket_for_ipv6(host, answers) {
    let socket = host.socket_v6()?;
    answers.result("set", socket.set_tos_v4(0x20));
    answers.result("is", socket.tos_v4());
}

async fn the_hop_limit_of_a_stream(host, answers) {
    let listener = host.listen(addr("[::1]:0")).await?;
    let client = host.connect(listener.local_addr()?).await?;
    answers.result("at first", client.ttl());
}

}
