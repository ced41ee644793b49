//! A custom device: IP packets in UDP datagrams, the smallest of tunnels.
//!
//!     cargo run --example custom_device
//!
//! Two stacks in this process talk through two UDP sockets of the loopback interface; with other addresses
//! they could be on two machines. No privilege is needed. A carrier of your own, which encrypts for instance,
//! implements `PacketIo` instead (`examples/wireguard/src/device.rs`).

use std::io;
use std::net::SocketAddr;

use ackclock::Stack;
use ackclock_device::over::IpOver;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;

/// Two tunnels whose ends are joined.
async fn tunnels() -> io::Result<(IpOver<UdpSocket>, IpOver<UdpSocket>)> {
    let localhost: SocketAddr = ([127, 0, 0, 1], 0).into();
    let (left, right) = (UdpSocket::bind(localhost).await?, UdpSocket::bind(localhost).await?);
    left.connect(right.local_addr()?).await?;
    right.connect(left.local_addr()?).await?;
    Ok((IpOver::new(left, MTU), IpOver::new(right, MTU)))
}

/// The largest IP packet: the Ethernet MTU without the outer IP and UDP headers.
const MTU: usize = 1500 - 28;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let (left, right) = tunnels().await?;
    let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
    let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
    let listener = server.listen("10.0.0.2:9".parse()?)?;
    let counting = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    });

    let mut stream = client.connect("10.0.0.2:9".parse()?).await?;
    stream.write_all(&vec![7; 10 << 20]).await?;
    stream.shutdown().await?;
    let received = counting.await??;
    // The end of the server's stream says that it has read everything.
    stream.read_to_end(&mut Vec::new()).await?;
    let info = stream.info()?;
    println!(
        "{received} bytes through the tunnel, mss {}, round trip {:?}, {} segments sent again",
        info.snd_mss, info.srtt, info.retransmits
    );
    anyhow::ensure!(received == 10 << 20, "bytes were lost");
    client.shutdown().await;
    Ok(())
}
