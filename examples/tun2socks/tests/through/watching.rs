//! Watching a running gateway: `--control` and `--metrics`.

use std::io;

use ackclock_tests::kernel::program::eventually;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};

use crate::{PROXY, V4, ended, mirror, with_arguments};

/// The text of `--metrics`, on a port that a test may always use.
async fn metrics() -> String {
    let mut stream = TcpStream::connect(METRICS).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    text
}

/// One of the gateway's numbers.
pub(crate) async fn metric(name: &str) -> u64 {
    let text = metrics().await;
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("tun2socks_{name}_total ")));
    value.expect("it is there").parse().unwrap()
}

pub(crate) const METRICS: &str = "127.0.0.1:9100";

/// The connections that the control socket lists.
async fn listed(path: &str) -> io::Result<String> {
    let mut control = UnixStream::connect(path).await?;
    control.write_all(b"{\"request\": \"connections\"}\n").await?;
    let mut list = String::new();
    BufReader::new(control).read_line(&mut list).await?;
    Ok(list)
}

#[test]
fn the_control_socket_lists_connections_and_metrics_count_them() {
    let path = std::env::temp_dir().join(format!("tun2socks-control-{}", std::process::id()));
    // A test's leak of some bytes: the arguments live as long as the program that it starts.
    let path: &'static str = path.to_str().unwrap().to_owned().leak();
    let arguments: &'static [&'static str] = vec!["--control", path, "--metrics", METRICS].leak();
    with_arguments(PROXY, arguments, None, mirror(), move |program| async move {
        let mut open = TcpStream::connect(V4).await.unwrap();
        open.write_all(b"12345").await.unwrap();

        // The client's last packet of the handshake may be on its way.
        let list = eventually(async || match listed(path).await? {
            list if list.contains("\"connections\":[]") => Err(io::Error::other(list)),
            list => Ok(list),
        });
        let list = list.await;
        assert!(list.contains("203.0.113.7") && list.contains("198.18.0.1"), "{list}");

        let text = eventually(async || match metrics().await {
            text if text.contains("\ntun2socks_bytes_up_total 5\n") => Ok(text),
            text => Err(io::Error::other(text)),
        });
        let text = text.await;
        assert!(text.contains("\ntun2socks_connections_total 1\n"), "{text}");
        assert!(text.contains("\nackclock_"), "the stack's own are missing");
        // Not killed: it takes its socket away.
        ended(program).await;
    });
}
