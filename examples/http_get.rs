//! Fetches a page from a server on the kernel's TCP, over a TUN device, with a TCP in user space (as root):
//!
//!     cargo run --example http_get -- tun9 10.9.0.1:8000 /
//!
//! and, once the device is up, in another terminal: `python3 -m http.server --bind 10.9.0.1 8000`. The
//! example retries until a server listens.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock::{Stack, TcpStream};
use ackclock_examples::{STACK, tun};
use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, server, path] = &arguments[..] else { bail!("usage: http_get TUN ADDRESS:PORT PATH") };
    let server: SocketAddr = server.parse().context("ADDRESS:PORT, as 10.9.0.1:8000")?;
    let stack = Stack::builder().device(tun(name)?).address(STACK.parse()?).spawn()?;

    let mut stream = connect(&stack, server).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {server}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    print!("{}", String::from_utf8_lossy(&answer));

    let info = stream.info()?;
    eprintln!(
        "{} bytes in {} segments, round trip {:?}",
        info.bytes_received, info.segments_received, info.srtt
    );
    drop(stream);
    stack.shutdown().await;
    Ok(())
}

/// Connects; retries until a server listens.
async fn connect(stack: &Stack, server: SocketAddr) -> anyhow::Result<TcpStream> {
    loop {
        match stack.connect(server).await {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                eprintln!("{server}: {error}; trying again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            connected => return connected.with_context(|| format!("connecting to {server}")),
        }
    }
}
