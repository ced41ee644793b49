//! A custom device: IP packets in UDP datagrams, the smallest of tunnels.
//!
//!     cargo run --example custom_device
//!
//! Two stacks in this process talk through two UDP sockets of the loopback interface; with other addresses
//! they could be on two machines. No privilege is needed.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use ackclock::Stack;
use ackclock_device::{Capabilities, Device, ReceiveBatch};
use ackclock_wire::{RxMeta, TxPacket};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::UdpSocket;

/// Carries each IP packet in one datagram to and from one peer.
#[derive(Debug)]
struct UdpTunnel {
    socket: UdpSocket,
    datagram: Vec<u8>,
}

impl UdpTunnel {
    /// Two tunnels whose ends are joined.
    async fn pair() -> io::Result<(Self, Self)> {
        let localhost: SocketAddr = ([127, 0, 0, 1], 0).into();
        let (left, right) = (UdpSocket::bind(localhost).await?, UdpSocket::bind(localhost).await?);
        left.connect(right.local_addr()?).await?;
        right.connect(left.local_addr()?).await?;
        Ok((Self::new(left), Self::new(right)))
    }

    fn new(socket: UdpSocket) -> Self {
        Self { socket, datagram: Vec::with_capacity(MTU) }
    }
}

impl Device for UdpTunnel {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ip(MTU)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let mut received = 0;
        while let Some(slot) = batch.slot(MTU) {
            let mut datagram = ReadBuf::new(slot);
            match self.socket.poll_recv(cx, &mut datagram) {
                Poll::Ready(Ok(())) => {
                    let len = datagram.filled().len();
                    batch.commit(0, len, RxMeta::default());
                    received += 1;
                }
                // Nothing was listening for an earlier datagram: on a network that is a loss, not an error.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if received == 0 => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(received))
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.socket.poll_send_ready(cx))?;
        Poll::Ready(Ok(()))
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        self.datagram.clear();
        self.datagram.extend_from_slice(packet.header);
        packet.payload.iter().for_each(|part| self.datagram.extend_from_slice(part));
        match self.socket.try_send(&self.datagram) {
            // As on a network interface: a packet that finds no room is dropped.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) =>
            {
                Ok(())
            }
            sent => sent.map(drop),
        }
    }
}

/// The largest IP packet: the Ethernet MTU without the outer IP and UDP headers.
const MTU: usize = 1500 - 28;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let (left, right) = UdpTunnel::pair().await?;
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
