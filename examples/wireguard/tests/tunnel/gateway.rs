//! The other end of the tunnel, with a TUN device of the kernel behind it: boringtun, and wireguard-go where
//! it is installed.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ackclock::device::configure::configure;
use ackclock::device::{Device, OffloadMode, ReceiveBatch, open};
use ackclock::{ChecksumState, TxPacket};
use ackclock_tests::kernel::program::{Program, eventually};
use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};

/// Which implementation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boringtun,
    WireguardGo,
}

impl Kind {
    /// All that are available here.
    pub(crate) fn all() -> Vec<Self> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let go = std::env::split_paths(&paths).any(|folder| folder.join("wireguard-go").is_file());
        let all = if go { vec![Self::Boringtun, Self::WireguardGo] } else { vec![Self::Boringtun] };
        println!("counterparts: {all:?}");
        all
    }
}

/// A gateway at 10.9.0.1/24 within the tunnel, on the loopback interface outside.
pub(crate) struct Gateway {
    end: End,
    pub(crate) addr: SocketAddr,
}

enum End {
    /// Tells its task to move, and learns from it where the peer is.
    Boringtun(mpsc::UnboundedSender<Order>, watch::Receiver<Option<SocketAddr>>),
    Go(UnixPath, #[expect(dead_code, reason = "ends with this")] Program),
}

enum Order {
    MoveTo(UdpSocket),
    Rekey,
}

impl Gateway {
    /// Starts one whose peer has this public key.
    pub(crate) async fn start(kind: Kind, private: [u8; 32], peer: PublicKey) -> Self {
        match kind {
            Kind::Boringtun => Self::boringtun(private, peer).await,
            Kind::WireguardGo => Self::go(private, peer).await,
        }
    }

    async fn boringtun(private: [u8; 32], peer: PublicKey) -> Self {
        let (tun, _) = open("wg0", OffloadMode::Off).unwrap();
        configure("wg0").address("10.9.0.1/24".parse().unwrap()).mtu(1420).apply().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let addr = socket.local_addr().unwrap();
        let tunnel = Tunn::new(StaticSecret::from(private), peer, None, None, 7, None);
        let (orders, received) = mpsc::unbounded_channel();
        let (endpoint, seen) = watch::channel(None);
        let task = Task { tun, tunnel, socket, endpoint, out: vec![0; 66_000] };
        tokio::spawn(task.run(received));
        Self { end: End::Boringtun(orders, seen), addr }
    }

    async fn go(private: [u8; 32], peer: PublicKey) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        // The control sockets of all namespaces are in one folder.
        let name = format!("wg{}x{}", std::process::id() % 1_000_000, MADE.fetch_add(1, Ordering::Relaxed));
        let control = UnixPath(format!("/var/run/wireguard/{name}.sock").into());
        let program = Program::start("wireguard-go", &["--foreground", &name], Vec::new());
        eventually(|| async { UnixStream::connect(&control.0).map(drop) }).await;
        control.ask(&format!(
            "set=1\nprivate_key={}\nlisten_port=0\npublic_key={}\nallowed_ip=10.9.0.2/32\n\n",
            hex(&private),
            hex(peer.as_bytes())
        ));
        configure(&name).address("10.9.0.1/24".parse().unwrap()).mtu(1420).apply().unwrap();
        let addr =
            eventually(|| async { control.port().ok_or(io::Error::other("it has no port yet")) }).await;
        Self { end: End::Go(control, program), addr }
    }

    /// Where the gateway sends to.
    pub(crate) fn endpoint(&self) -> Option<SocketAddr> {
        match &self.end {
            End::Boringtun(_, seen) => *seen.borrow(),
            End::Go(control, _) => control.value("endpoint").map(|addr| addr.parse().unwrap()),
        }
    }

    /// Sends and receives at another port from now on.
    pub(crate) async fn roam(&mut self) {
        match &self.end {
            End::Boringtun(orders, _) => {
                let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
                socket.writable().await.unwrap();
                self.addr = socket.local_addr().unwrap();
                orders.send(Order::MoveTo(socket)).ok().unwrap();
            }
            End::Go(control, _) => {
                control.ask("set=1\nlisten_port=0\n\n");
                self.addr = control.port().unwrap();
            }
        }
    }

    /// Begins a handshake, if it supports that.
    pub(crate) fn rekey(&self) {
        if let End::Boringtun(orders, _) = &self.end {
            orders.send(Order::Rekey).ok().unwrap();
        }
    }
}

/// boringtun between a TUN device and a socket.
struct Task {
    tun: Box<dyn Device>,
    tunnel: Tunn,
    socket: UdpSocket,
    endpoint: watch::Sender<Option<SocketAddr>>,
    out: Vec<u8>,
}

impl Task {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut tick = tokio::time::interval(Duration::from_millis(250));
        let (mut batch, mut datagram) = (ReceiveBatch::new(64, 1 << 18), vec![0; 65_535]);
        loop {
            batch.clear();
            tokio::select! {
                received = poll_fn(|cx| self.tun.poll_receive(cx, &mut batch)) => {
                    received.unwrap();
                    for (packet, _) in batch.iter() {
                        let result = self.tunnel.encapsulate(packet, &mut self.out);
                        put(&self.socket, *self.endpoint.borrow(), &result);
                    }
                }
                received = self.socket.recv_from(&mut datagram) => {
                    let (len, from) = received.unwrap();
                    self.receive(&datagram[..len], from);
                }
                _ = tick.tick() => {
                    let result = self.tunnel.update_timers(&mut self.out);
                    put(&self.socket, *self.endpoint.borrow(), &result);
                }
                order = orders.recv() => match order {
                    Some(Order::MoveTo(socket)) => self.socket = socket,
                    Some(Order::Rekey) => {
                        let result = self.tunnel.format_handshake_initiation(&mut self.out, true);
                        put(&self.socket, *self.endpoint.borrow(), &result);
                    }
                    None => return,
                },
            }
        }
    }

    fn receive(&mut self, datagram: &[u8], from: SocketAddr) {
        let mut result = self.tunnel.decapsulate(Some(from.ip()), datagram, &mut self.out);
        if matches!(result, TunnResult::Err(_)) {
            return;
        }
        self.endpoint.send_replace(Some(from));
        while let TunnResult::WriteToNetwork(_) = result {
            put(&self.socket, Some(from), &result);
            result = self.tunnel.decapsulate(None, &[], &mut self.out);
        }
        if let TunnResult::WriteToTunnelV4(packet, _) = result {
            let checksum = ChecksumState::Complete;
            let payload = [&[][..]; 2];
            let packet =
                TxPacket { header: packet, transport_offset: 20, payload, segment_size: None, checksum };
            self.tun.send(&packet).unwrap();
        }
    }
}

fn put(socket: &UdpSocket, endpoint: Option<SocketAddr>, result: &TunnResult<'_>) {
    if let (TunnResult::WriteToNetwork(datagram), Some(to)) = (result, endpoint) {
        // A datagram that finds no room is lost, as on any network.
        socket.try_send_to(datagram, to).ok();
    }
}

/// wireguard-go's control socket, removed with this.
struct UnixPath(PathBuf);

impl UnixPath {
    fn ask(&self, what: &str) -> String {
        let mut stream = UnixStream::connect(&self.0).unwrap();
        stream.write_all(what.as_bytes()).unwrap();
        let (mut answer, mut buf) = (String::new(), [0; 4096]);
        while !answer.ends_with("\n\n") {
            let len = stream.read(&mut buf).unwrap();
            answer += std::str::from_utf8(&buf[..len]).unwrap();
        }
        assert!(answer.contains("errno=0\n"), "{what}{answer}");
        answer
    }

    fn value(&self, key: &str) -> Option<String> {
        let answer = self.ask("get=1\n\n");
        answer.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned)
    }

    fn port(&self) -> Option<SocketAddr> {
        let port = self.value("listen_port")?.parse().ok().filter(|&port| port != 0)?;
        Some(SocketAddr::from(([127, 0, 0, 1], port)))
    }
}

impl Drop for UnixPath {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
