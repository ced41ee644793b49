//! `TcpSocket`: what is settled before there is a stream or a listener.

use super::side::Loopback;
use super::support::{ANY_PORT, addr, at, free_port, pair, time_wait};
use crate::answers::cases;

cases! { false:

async fn a_fresh_socket_has_no_address(host, answers) {
    answers.address("v4", host.socket_v4()?.local_addr());
}

async fn a_bound_socket_tells_its_port(host, answers) {
    let socket = host.socket_v4()?;
    answers.result("bind", socket.bind(addr(ANY_PORT)));
    answers.address("local", socket.local_addr());
}

async fn a_bound_socket_keeps_its_port(host, answers) {
    let socket = host.socket_v4()?;
    socket.bind(addr(ANY_PORT))?;
    let local = socket.local_addr()?;
    let listener = socket.listen(8)?;
    answers.value("same", listener.local_addr()? == local);
}

async fn two_bound_sockets_have_two_ports(host, answers) {
    let (first, second) = (host.socket_v4()?, host.socket_v4()?);
    first.bind(addr(ANY_PORT))?;
    second.bind(addr(ANY_PORT))?;
    answers.value("differ", first.local_addr()? != second.local_addr()?);
}

async fn a_socket_is_bound_once(host, answers) {
    let socket = host.socket_v4()?;
    socket.bind(addr(ANY_PORT))?;
    answers.result("again", socket.bind(addr(ANY_PORT)));
}

async fn a_socket_bound_to_the_port_of_a_listener(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let socket = host.socket_v4()?;
    answers.result("bind", socket.bind(listener.local_addr()?));
}

async fn a_socket_bound_to_the_port_of_a_listener_with_reuseaddr(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let socket = host.socket_v4()?;
    socket.set_reuseaddr(true)?;
    answers.result("bind", socket.bind(listener.local_addr()?));
}

async fn a_socket_bound_to_the_port_of_another_socket(host, answers) {
    let (first, second) = (host.socket_v4()?, host.socket_v4()?);
    first.bind(addr(ANY_PORT))?;
    answers.result("bind", second.bind(first.local_addr()?));
}

async fn two_bound_sockets_with_reuseaddr_and_one_listener(host, answers) {
    let (first, second) = (host.socket_v4()?, host.socket_v4()?);
    first.set_reuseaddr(true)?;
    second.set_reuseaddr(true)?;
    first.bind(addr(ANY_PORT))?;
    answers.result("bind", second.bind(first.local_addr()?));
    let _listener = first.listen(8)?;
    answers.outcome("second listens", second.listen(8));
}

async fn a_dropped_socket_gives_its_port_back(host, answers) {
    let first = host.socket_v4()?;
    first.bind(addr(ANY_PORT))?;
    let local = first.local_addr()?;
    drop(first);
    answers.result("bind", host.socket_v4()?.bind(local));
}

async fn a_listener_beside_a_bound_socket(host, answers) {
    let socket = host.socket_v4()?;
    socket.bind(addr(ANY_PORT))?;
    answers.outcome("listen", host.listen(socket.local_addr()?).await);
}

async fn a_socket_bound_to_a_foreign_address(host, answers) {
    answers.result("bind", host.socket_v4()?.bind(addr("192.0.2.1:0")));
}

async fn a_socket_bound_to_an_address_of_the_other_family(host, answers) {
    answers.outcome("bind", host.socket_v4()?.bind(addr("[::1]:0")));
}

async fn a_socket_connects_to_the_other_family(host, answers) {
    let socket = host.socket_v4()?;
    answers.outcome("connect", socket.connect(addr("[::1]:9")).await);
}

async fn a_wildcard_bound_beside_a_specific_listener(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let socket = host.socket_v4()?;
    answers.result("bind", socket.bind(at("0.0.0.0", listener.local_addr()?)));
}

async fn listening_unbound_binds(host, answers) {
    let listener = host.socket_v4()?.listen(8)?;
    answers.address("local", listener.local_addr());
}

async fn a_backlog_of_0_takes_a_connection(host, answers) {
    let socket = host.socket_v4()?;
    socket.bind(addr(ANY_PORT))?;
    let listener = socket.listen(0)?;
    let (connected, accepted) = tokio::join!(host.connect(listener.local_addr()?), listener.accept());
    answers.value("both", (connected.is_ok(), accepted.is_ok()));
}

async fn reuseaddr_is_off_at_first(host, answers) {
    let socket = host.socket_v4()?;
    answers.result("at first", socket.reuseaddr());
    answers.result("set", socket.set_reuseaddr(true));
    answers.result("is", socket.reuseaddr());
}

async fn reuseport_is_off_at_first(host, answers) {
    let socket = host.socket_v4()?;
    answers.result("at first", socket.reuseport());
    answers.result("set", socket.set_reuseport(true));
    answers.result("is", socket.reuseport());
}

async fn two_listeners_with_reuseport(host, answers) {
    let (first, second) = (host.socket_v4()?, host.socket_v4()?);
    first.set_reuseport(true)?;
    second.set_reuseport(true)?;
    first.bind(addr(ANY_PORT))?;
    answers.result("bind", second.bind(first.local_addr()?));
    let _first = first.listen(8)?;
    answers.outcome("listen", second.listen(8));
}

async fn one_listener_without_reuseport(host, answers) {
    let (first, second) = (host.socket_v4()?, host.socket_v4()?);
    first.set_reuseport(true)?;
    first.bind(addr(ANY_PORT))?;
    answers.result("bind", second.bind(first.local_addr()?));
}

async fn a_rebind_in_time_wait_without_reuseaddr(host, answers) {
    let local = time_wait(host).await?;
    answers.result("bind", host.socket_v4()?.bind(local));
}

async fn a_rebind_in_time_wait_with_reuseaddr(host, answers) {
    let local = time_wait(host).await?;
    let socket = host.socket_v4()?;
    socket.set_reuseaddr(true)?;
    answers.result("bind", socket.bind(local));
}

async fn a_rebind_beside_a_connection_without_reuseaddr(host, answers) {
    let (_client, server) = pair(host).await?;
    answers.result("bind", host.socket_v4()?.bind(server.local_addr()?));
}

async fn a_rebind_to_the_port_of_a_client_without_reuseaddr(host, answers) {
    let (client, _server) = pair(host).await?;
    answers.result("bind", host.socket_v4()?.bind(client.local_addr()?));
}

async fn a_rebind_to_the_port_of_a_client_with_reuseaddr(host, answers) {
    let (client, _server) = pair(host).await?;
    let socket = host.socket_v4()?;
    socket.set_reuseaddr(true)?;
    answers.result("bind", socket.bind(client.local_addr()?));
}

async fn the_number_of_an_address_in_use(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    answers.os_error("bind", host.socket_v4()?.bind(listener.local_addr()?));
}

async fn a_socket_without_a_choice_connects(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let client = host.socket_v4()?.connect(listener.local_addr()?).await?;
    answers.address("local", client.local_addr());
}

async fn a_socket_bound_to_a_wildcard_connects(host, answers) {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let socket = host.socket_v4()?;
    socket.bind(addr("0.0.0.0:0"))?;
    let local = socket.local_addr()?;
    answers.address("before", Ok(local));
    let client = socket.connect(listener.local_addr()?).await?;
    answers.address("after", client.local_addr());
    answers.value("the same port", client.local_addr()?.port() == local.port());
}

async fn a_refused_socket_gives_its_port_back(host, answers) {
    let free = free_port(host).await?;
    let socket = host.socket_v4()?;
    socket.bind(addr(ANY_PORT))?;
    let local = socket.local_addr()?;
    answers.outcome("connect", socket.connect(free).await);
    answers.result("bind", host.socket_v4()?.bind(local));
}

async fn a_fresh_socket_has_no_error(host, answers) {
    answers.result("take_error", host.socket_v4()?.take_error().map(|error| error.is_none()));
}

}
