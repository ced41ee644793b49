//! A proxy that speaks CONNECT.

use std::io::ErrorKind;

use ackclock_tests::kernel::program::Program;
use tokio::net::TcpStream;

use crate::{V4, V6, addr, exchange, mirror, socks, with_arguments};

const HTTP: &str = "http://10.1.0.1:3128";

async fn world(credentials: Option<&'static str>) -> std::io::Result<()> {
    socks::serve_http(addr("10.1.0.1:3128"), credentials).await?;
    mirror().await
}

#[test]
fn connect_carries_both_families_and_says_why_not() {
    with_arguments(HTTP, &[], None, world(None), |program: Program| async move {
        for (to, seed) in [(V4, 1), (V6, 2)] {
            exchange(to, 1 << 20, seed).await;
        }
        for (to, kind) in [
            ("203.0.113.7:9", ErrorKind::ConnectionRefused),
            ("198.51.100.1:9", ErrorKind::HostUnreachable),
            ("192.168.77.1:9", ErrorKind::NetworkUnreachable),
        ] {
            assert_eq!(TcpStream::connect(to).await.unwrap_err().kind(), kind, "{to}");
        }
        drop(program);
    });
}

#[test]
fn connect_gives_the_user_and_the_password() {
    let file = std::env::temp_dir().join(format!("tun2socks-http-{}", std::process::id()));
    std::fs::write(&file, "Aladdin:open sesame\n").unwrap();
    // A test's leak of some bytes: the arguments live as long as the program that it starts.
    let path: &'static str = file.to_str().unwrap().to_owned().leak();
    let arguments: &'static [&'static str] = vec!["--credentials-file", path].leak();
    // RFC 7617 §2 has this example.
    let said = Some("QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    with_arguments(HTTP, arguments, None, world(said), |program| async move {
        exchange(V4, 1000, 1).await;
        drop(program);
    });
    std::fs::remove_file(file).unwrap();
}
