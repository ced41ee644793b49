//! Datagrams: who may answer, and how large they may be.

use std::io;
use std::time::Duration;

use ackclock_tests::kernel::program::Program;
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::{PROXY, V4, addr, echoed, echoes, ended, row, with_arguments};

/// Answers each datagram from where it came to, and from two other places: another port of that address, and
/// another address.
async fn answers_from_everywhere() -> io::Result<()> {
    let asked = UdpSocket::bind(V4).await?;
    let others = [UdpSocket::bind("203.0.113.7:8").await?, UdpSocket::bind("203.0.113.9:7").await?];
    tokio::spawn(async move {
        let mut buf = [0; 100];
        while let Ok((len, from)) = asked.recv_from(&mut buf).await {
            // The one that may always answer comes last, so that the others are not under way behind it.
            for socket in others.iter().chain([&asked]) {
                socket.send_to(&buf[..len], from).await.ok();
            }
        }
    });
    Ok(())
}

/// From where answers come.
fn answered_by(arguments: &'static [&'static str], expected: &'static [&'static str]) {
    let test = move |program: Program| async move {
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        socket.send_to(b"x", V4).await.unwrap();
        for from in expected {
            let received = timeout(Duration::from_secs(30), socket.recv_from(&mut [0; 100])).await;
            assert_eq!(received.expect("an answer").unwrap(), (1, addr(from)));
        }
        let said = ended(program).await;
        assert_eq!(row(&said, "datagrams dropped, filtered"), 3 - expected.len() as u64, "{said}");
    };
    with_arguments(PROXY, arguments, None, answers_from_everywhere(), test);
}

#[test]
fn anyone_may_answer() {
    answered_by(&[], &["203.0.113.7:8", "203.0.113.9:7", V4]);
}

#[test]
fn an_address_that_was_sent_to_may_answer_from_any_port() {
    answered_by(&["--nat", "address"], &["203.0.113.7:8", V4]);
}

#[test]
fn only_what_was_sent_to_may_answer() {
    answered_by(&["--nat", "port"], &[V4]);
}

#[test]
fn a_datagram_of_several_packets_comes_back_whole() {
    with_arguments(PROXY, &[], None, echoes(), |program| async move {
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        echoed(&socket, V4, 8000).await;
        drop(program);
    });
}
