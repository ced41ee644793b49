//! Networks, small services, and a record of packets.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ackclock::{Stack, TcpListener, TcpStream};
use ackclock_sim::observe::{Observer, PacketEvent, What};
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario, VirtualNetwork};
pub(crate) use ackclock_tests::virtual_time::{dumbbell, payload};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// 10 Mbit/s, 20 ms, room for 50 packets.
pub(crate) fn path() -> Direction {
    Direction::new(Rate::mbit(10), Span::millis(20)).buffers(50)
}

/// Hosts `a` and `b` with nothing but a link between them.
pub(crate) fn two(both: Direction) -> Scenario {
    Scenario::new(Span::seconds(600)).seed(1).host("a").host("b").link("a", "b", both)
}

/// The stacks of `from` and `to`, a listener on port 80 of the latter, and its address.
pub(crate) fn ends(net: &mut VirtualNetwork, from: &str, to: &str) -> (Stack, TcpListener, SocketAddr) {
    let (client, server) = (net.stack(from).unwrap(), net.stack(to).unwrap());
    let addr = (net.lookup(to).unwrap(), 80).into();
    (client, server.listen(addr).unwrap(), addr)
}

/// Echoes on every connection.
pub(crate) async fn echo(listener: TcpListener) -> io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let (mut reader, mut writer) = stream.split();
            tokio::io::copy(&mut reader, &mut writer).await
        });
    }
}

/// Sends `bytes` on every connection, and closes it.
pub(crate) async fn give(listener: TcpListener, bytes: Vec<u8>) -> io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let bytes = bytes.clone();
        tokio::spawn(async move {
            stream.write_all(&bytes).await?;
            stream.shutdown().await
        });
    }
}

/// Reads to the end.
pub(crate) async fn take(mut stream: TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// When a packet was sent by which node, and how many bytes of payload it had.
#[derive(Debug, Default)]
pub(crate) struct SentPackets(pub(crate) Vec<(u64, u32, u32)>);

impl Observer for SentPackets {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        if event.what == What::Sent {
            self.0.push((event.at.as_nanos(), event.node, event.packet.payload_len()));
        }
    }
}

impl SentPackets {
    /// How many segments with data a node has sent, and when the last.
    pub(crate) fn data_of(&self, node: u32) -> (usize, Duration) {
        let data = || self.0.iter().filter(|(_, from, payload)| *from == node && *payload > 0);
        (data().count(), Duration::from_nanos(data().next_back().map_or(0, |(at, ..)| *at)))
    }

    /// Records what is sent on `net` from now on.
    pub(crate) fn watch(net: &mut VirtualNetwork) -> Rc<RefCell<Self>> {
        let sent = Rc::new(RefCell::new(Self::default()));
        net.observe(Rc::clone(&sent));
        sent
    }
}
