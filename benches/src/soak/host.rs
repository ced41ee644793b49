//! The stack of a soak, and what it serves; the kernel's servers beside it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ackclock::{Keepalive, Stack, TcpConfig};
use ackclock_device::{OffloadMode, configure, open};
use ackclock_tests::netns::Namespace;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::storm::flood::Target;

pub(super) const DEVICE: &str = "soak0";
pub(super) const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
pub(super) const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The services, at both ends.
pub(super) const SINK: u16 = 5001;
pub(super) const SOURCE: u16 = 5002;
pub(super) const ECHO: u16 = 5003;
/// Where nothing listens.
pub(super) const CLOSED: u16 = 9;
/// The target of a flood.
pub(super) const TARGET: Target = Target {
    addr: STACK,
    closer: SINK,
    sink: SINK,
    source: SOURCE,
    bulk: SocketAddrV4::new(KERNEL, 4001),
    device: DEVICE,
    hardware: [0; 6],
};

/// A reset that is sent while the link is down never arrives, and an idle server then waits for ever. Probes
/// end such a connection before the soak looks for what is left.
const KEEPALIVE: Keepalive =
    Keepalive { idle: Duration::from_secs(20), interval: Duration::from_secs(5), probes: 4 };

/// The stack, on its own thread; it ends with this value.
pub(super) struct Host {
    pub(super) stack: Stack,
    pub(super) runtime: Handle,
    thread: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Host {
    pub(super) fn start(outside: &Namespace) -> io::Result<Self> {
        let device = outside.run(async {
            let (device, _) = open(DEVICE, OffloadMode::On).map_err(io::Error::other)?;
            let own = format!("{KERNEL}/24").parse().map_err(io::Error::other)?;
            configure::configure(DEVICE).address(own).mtu(1500).apply().map_err(io::Error::other)?;
            Ok::<_, io::Error>(device)
        })?;
        let (over, until) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let serving = async move {
            let address = format!("{STACK}/24").parse().expect("an address");
            let tcp = TcpConfig { keepalive: Some(KEEPALIVE), ..TcpConfig::default() };
            let builder = Stack::builder().device(device).address(address).tcp(tcp);
            let stack = builder.spawn().expect("the stack starts");
            serve_on_stack(&stack);
            ready.send(stack).ok();
            until.await.ok();
        };
        let thread = thread::spawn(move || runtime.block_on(serving));
        let stack = is_ready.recv().map_err(io::Error::other)?;
        outside.run(serve_on_kernel())?;
        Ok(Self { stack, runtime: handle, thread: Some((over, thread)) })
    }

    /// Tasks of the stack's runtime.
    pub(super) fn tasks(&self) -> usize {
        self.runtime.metrics().num_alive_tasks()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some((over, thread)) = self.thread.take() {
            over.send(()).ok();
            thread.join().ok();
        }
    }
}

fn serve_on_stack(stack: &Stack) {
    for port in [SINK, SOURCE, ECHO] {
        let listener = stack.listen(SocketAddr::from((STACK, port))).expect("the port is free");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(port, stream));
            }
        });
    }
    let socket = stack.udp(SocketAddr::from((STACK, ECHO))).expect("the port is free");
    tokio::spawn(async move {
        let mut buffer = vec![0; 2048];
        loop {
            // An error is the network's report about one datagram.
            if let Ok((len, from)) = socket.recv_from(&mut buffer).await {
                socket.send_to(&buffer[..len], from).await.ok();
            } else if socket.local_addr().is_err() {
                return;
            }
        }
    });
}

async fn serve_on_kernel() -> io::Result<()> {
    for port in [SINK, SOURCE, ECHO] {
        let listener = net::TcpListener::bind((KERNEL, port)).await?;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(port, stream));
            }
        });
    }
    let socket = net::UdpSocket::bind((KERNEL, ECHO)).await?;
    tokio::spawn(async move {
        let mut buffer = vec![0; 2048];
        loop {
            if let Ok((len, from)) = socket.recv_from(&mut buffer).await {
                socket.send_to(&buffer[..len], from).await.ok();
            }
        }
    });
    Ok(())
}

/// The service of a port.
async fn serve(port: u16, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let len = match port {
            SOURCE => buffer.len(),
            _ => stream.read(&mut buffer).await?,
        };
        if len == 0 {
            return stream.shutdown().await;
        }
        if port != SINK {
            stream.write_all(&buffer[..len]).await?;
        }
    }
}
