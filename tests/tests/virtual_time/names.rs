//! Hosts know each other by name.

use std::io::ErrorKind;
use std::time::Duration;

use ackclock::{Hosts, Stack, StackBuilder, TcpListener, TcpStream};
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario, VirtualNetwork};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

fn network() -> VirtualNetwork {
    let path = Direction::new(Rate::mbit(10), Span::millis(10));
    let scenario = Scenario::new(Span::seconds(60))
        .host("client")
        .host("db.example")
        .router("r")
        .link("client", "r", path.clone())
        .link("r", "db.example", path);
    VirtualNetwork::new(&scenario).unwrap()
}

#[test]
fn a_program_connects_to_a_host_by_its_name() {
    let mut net = network();
    let (client, server) = (net.stack("client").unwrap(), net.stack("db.example").unwrap());
    let (at, router) = (net.lookup("db.example").unwrap(), net.lookup("r").unwrap());
    net.run(async move {
        let listener = TcpListener::bind(&server, "db.example:5432").await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.write_all(b"rows").await.unwrap();
            }
        });
        for name in ["db.example:5432", "DB.Example.:5432"] {
            let mut stream = TcpStream::connect(&client, name).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), (at, 5432).into());
            let mut rows = String::new();
            stream.read_to_string(&mut rows).await.unwrap();
            assert_eq!(rows, "rows");
        }
        assert_eq!(client.lookup("r").await.unwrap(), [router]);
    })
    .unwrap();
}

#[test]
fn a_name_that_the_network_lacks_is_refused_at_once() {
    let mut net = network();
    let client = net.stack("client").unwrap();
    let error = net.lookup("db.exmple").unwrap_err().to_string();
    assert!(error.ends_with("the nearest is `db.example`"), "{error}");
    let begun = net.now();
    net.run(async move {
        // The machine's own resolver knows this one; a simulated host does not ask it.
        let error = TcpStream::connect(&client, "localhost:80").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    })
    .unwrap();
    assert_eq!(net.now().as_nanos() - begun.as_nanos(), 1_000_000);
}

/// A network with a name server on `dns`, and the stack of `client`, which knows no name itself.
fn with_name_server() -> (VirtualNetwork, Stack) {
    let path = Direction::new(Rate::mbit(10), Span::millis(10));
    let scenario = Scenario::new(Span::seconds(60))
        .host("client")
        .host("dns")
        .host("server")
        .router("r")
        .link("client", "r", path.clone())
        .link("dns", "r", path.clone())
        .link("server", "r", path);
    let mut net = VirtualNetwork::new(&scenario).unwrap();
    net.serve_names("dns").unwrap();
    let server = (net.lookup("dns").unwrap(), 53).into();
    let asks = |builder: StackBuilder| Ok(builder.hosts(Hosts::default()).name_servers([server]));
    let client = net.stack_with("client", asks).unwrap();
    (net, client)
}

#[test]
fn a_name_server_in_the_network_is_asked_by_a_stack() {
    let (mut net, client) = with_name_server();
    let server = net.stack("server").unwrap();
    let at = net.lookup("server").unwrap();
    net.run(async move {
        let _listener = server.listen((at, 80).into()).unwrap();
        let begun = Instant::now();
        let stream = TcpStream::connect(&client, "server:80").await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), (at, 80).into());
        // 40 ms for the answer, 40 ms for the handshake, and a little for sending.
        let took = begun.elapsed();
        assert!((Duration::from_millis(80)..Duration::from_millis(83)).contains(&took), "{took:?}");
        let error = client.lookup("sever").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    })
    .unwrap();
}

#[test]
fn a_name_is_not_found_while_the_name_server_is_cut_off() {
    let (mut net, client) = with_name_server();
    let (faults, at) = (net.faults(), net.lookup("server").unwrap());
    net.run(async move {
        faults.partition("client", "dns").unwrap();
        let error = client.lookup("server").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        faults.heal("client", "dns").unwrap();
        assert_eq!(client.lookup("server").await.unwrap(), [at]);
    })
    .unwrap();
}
