//! Names: addresses of the pool, and the proxy that looks the names up.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ackclock_tests::kernel::program::Program;
use ackclock_tests::netns::{Namespace, in_namespaces};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::{
    PROXY, addr, echoed, echoes, ended, exchange, join, mirror, row, socks, until_it_is_up, with_arguments,
};

const NAMES: &[&str] = &["--names", "198.19.0.0/16", "--names", "fd74:2670::/64"];
/// Any name server: none is there.
const SERVER: &str = "203.0.113.53:53";

/// A query for the address of a name (RFC 1035 §4.1).
fn query(name: &str, kind: u8) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, kind, 0, 1]);
    query
}

/// The address in an answer to that query, which has one record.
fn address(answer: &[u8], query: &[u8]) -> IpAddr {
    assert_eq!(answer[..2], query[..2], "another query's answer");
    assert_eq!((answer[3] & 15, answer[7]), (0, 1), "one record, no error");
    // The name of the record is the question's, whole or as a pointer; its data comes last.
    match answer.get(answer.len() - 6..).and_then(|end| end.strip_prefix(&[0, 4])) {
        Some(octets) => IpAddr::from(<[u8; 4]>::try_from(octets).unwrap()),
        None => IpAddr::from(<[u8; 16]>::try_from(&answer[answer.len() - 16..]).unwrap()),
    }
}

const A: u8 = 1;
const AAAA: u8 = 28;

/// Asks over UDP.
async fn look_up(name: &str, kind: u8) -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
    let query = query(name, kind);
    socket.send_to(&query, SERVER).await.unwrap();
    let mut answer = [0; 512];
    let received = timeout(Duration::from_secs(30), socket.recv_from(&mut answer)).await;
    let (len, from) = received.expect("an answer").unwrap();
    assert_eq!(from, addr(SERVER));
    address(&answer[..len], &query)
}

#[test]
fn a_name_leads_where_the_proxy_says_over_both_families() {
    with_arguments(PROXY, NAMES, None, mirror(), |program| async move {
        let v4 = look_up("first.example", A).await;
        assert!(v4.to_string().starts_with("198.19."), "{v4}");
        assert_eq!(look_up("FIRST.example", A).await, v4);
        let v6 = look_up("sixth.example", AAAA).await;
        assert!(v6.to_string().starts_with("fd74:2670:"), "{v6}");
        for ip in [v4, v6] {
            exchange(&SocketAddr::new(ip, 7).to_string(), 100_000, 1).await;
        }
        let said = ended(program).await;
        assert_eq!(
            ["queries answered", "connections refused"].map(|name| row(&said, name)),
            [3, 0],
            "{said}"
        );
    });
}

#[test]
fn a_name_that_the_proxy_does_not_know_and_an_address_without_a_name_are_unreachable() {
    with_arguments(PROXY, NAMES, None, mirror(), |program| async move {
        let unknown = look_up("unknown.example", A).await;
        for to in [SocketAddr::new(unknown, 7), addr("198.19.77.77:7")] {
            assert_eq!(TcpStream::connect(to).await.unwrap_err().kind(), ErrorKind::HostUnreachable, "{to}");
        }
        drop(program);
    });
}

#[test]
fn queries_over_tcp_are_answered_too_several_on_a_connection() {
    with_arguments(PROXY, NAMES, None, mirror(), |program| async move {
        let mut server = TcpStream::connect(SERVER).await.unwrap();
        for name in ["first.example", "second.example"] {
            let query = query(name, A);
            server.write_all(&[&[0, query.len() as u8][..], &query].concat()).await.unwrap();
            let mut answer = vec![0; server.read_u16().await.unwrap().into()];
            server.read_exact(&mut answer).await.unwrap();
            assert_eq!(address(&answer, &query), look_up(name, A).await);
        }
        drop(program);
    });
}

#[test]
fn datagrams_to_names_come_back_from_the_addresses_that_stand_for_them() {
    with_arguments(PROXY, NAMES, None, echoes(), |program| async move {
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        for name in ["first.example", "second.example", "first.example"] {
            let to = SocketAddr::new(look_up(name, A).await, 7);
            echoed(&socket, &to.to_string(), 100).await;
        }
        let said = ended(program).await;
        // One for the three datagrams: a client's socket has one port at the proxy for all destinations.
        assert_eq!(row(&said, "relays"), 1, "{said}");
    });
}

#[test]
fn names_keep_their_addresses_when_the_gateway_is_killed_and_started_again() {
    in_namespaces(|[inside, outside]: [Namespace; 2]| {
        join(&inside, &outside);
        outside.run(async {
            socks::serve(addr(PROXY), None).await.unwrap();
            mirror().await.unwrap();
        });
        inside.run(async {
            let file = std::env::temp_dir().join(format!("tun2socks-kept-{}", std::process::id()));
            let path = file.to_str().unwrap();
            let network = ["--address", "198.18.0.1/30", "--address", "fd00:9::1/64", "--route", "0.0.0.0/0"];
            let all =
                [&["--proxy", PROXY, "--route", "::/0", "--names-file", path], &network[..], NAMES].concat();
            let mut program = Program::start(env!("CARGO_BIN_EXE_tun2socks"), &all, Vec::new());
            until_it_is_up(true).await;
            let first = look_up("other.example", A).await;
            let second = look_up("first.example", A).await;
            assert_ne!(first, second);
            program.kill();
            let program = Program::start(env!("CARGO_BIN_EXE_tun2socks"), &all, Vec::new());
            until_it_is_up(true).await;
            // A client that asked before still holds the answer.
            exchange(&SocketAddr::new(second, 7).to_string(), 1000, 1).await;
            assert_eq!(look_up("other.example", A).await, first);
            drop(program);
            std::fs::remove_file(&file).unwrap();
        });
    });
}
