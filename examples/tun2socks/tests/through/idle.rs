//! Idle timeouts, by port.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::{PROXY, V4, echoed, echoes, ended, mirror, row, with_arguments};

#[test]
fn a_connection_without_a_byte_is_reset_after_the_time_of_its_port() {
    with_arguments(PROXY, &["--tcp-timeout", "7=1"], None, mirror(), |program| async move {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(V4).await.unwrap();
        stream.write_all(b"and then nothing").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
        let said = ended(program).await;
        assert_eq!(row(&said, "connections idle for too long"), 1, "{said}");
    });
}

#[test]
fn a_relay_without_a_datagram_ends_after_the_time_of_its_port() {
    let times = &["--udp-timeout", "1000", "--udp-timeout", "7=1"];
    with_arguments(PROXY, times, None, echoes(), |program| async move {
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        for _ in 0..2 {
            echoed(&socket, V4, 10).await;
            tokio::time::sleep(Duration::from_millis(2500)).await;
        }
        let said = ended(program).await;
        assert_eq!(row(&said, "relays"), 2, "{said}");
    });
}
