//! Accepts connections to any address and port that is routed into a TUN device, and forwards them through
//! the kernel's sockets (as root):
//!
//!     cargo run --example proxy_any -- tun9 203.0.113.0/24 127.0.0.1
//!     curl http://203.0.113.7:8000/      # is served by 127.0.0.1:8000
//!
//! The second argument is the network that the kernel routes into the device; the third is the host that the
//! connections really go to, with the port that the client dialled. A client gets its answer only after the
//! destination has answered the proxy: if nothing listens there, the client is refused as it would be without
//! a proxy.

use std::io;
use std::net::{IpAddr, SocketAddr};

use ackclock::pump::Pump;
use ackclock::{Incoming, Stack};
use ackclock_examples::{route, tun};
use anyhow::bail;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, network, target] = &arguments[..] else { bail!("usage: proxy_any TUN NETWORK/PREFIX TARGET") };
    let target: IpAddr = target.parse()?;
    // ANCHOR: serve
    // The stack needs no address of its own: it takes whatever arrives.
    let stack = Stack::builder().device(tun(name)?).spawn()?;
    route(name, network.parse()?)?;

    let listener = stack.listener().deferred()?;
    println!("forwarding connections to {network} to {target}");
    loop {
        let incoming = listener.incoming().await?;
        let (client, dialled) = (incoming.peer_addr(), incoming.local_addr());
        tokio::spawn(async move {
            let outcome = forward(incoming, SocketAddr::new(target, dialled.port())).await;
            println!("{client} -> {dialled}: {outcome:?}");
        });
    }
    // ANCHOR_END: serve
}

// ANCHOR: forward
/// Connects to `target`, then accepts the client and carries bytes both ways until both have finished. A
/// reset on one side resets the other.
async fn forward(incoming: Incoming, target: SocketAddr) -> io::Result<(u64, u64)> {
    let upstream = match tokio::net::TcpStream::connect(target).await {
        Ok(upstream) => upstream,
        Err(error) => {
            incoming.reset();
            return Err(error);
        }
    };
    Pump::new(incoming.accept().await?, upstream).await.into_result()
}
// ANCHOR_END: forward
