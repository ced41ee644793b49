//! A stack on a WireGuard tunnel, with another implementation at the other end and the kernel's TCP behind
//! that.
//!
//! In a private namespace the kernel is 10.9.0.1 behind the gateway's TUN device, the stack 10.9.0.2; the
//! datagrams cross the loopback interface.

mod gateway;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ackclock::Stack;
use ackclock::device::over::IpOver;
use ackclock_tests::kernel::payload;
use ackclock_tests::kernel::payload::{Digest, Payload, digest, receive, send};
use ackclock_tests::kernel::program::{Program, eventually};
use ackclock_tests::kernel::scene::within;
use ackclock_tests::netns::in_namespace;
use ackclock_wireguard::{Config, Counters, Handle, MTU, Tunnel};
use boringtun::x25519::{PublicKey, StaticSecret};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

use crate::gateway::{Gateway, Kind};

const OURS: [u8; 32] = [1; 32];
const THEIRS: [u8; 32] = [2; 32];
const KERNEL: &str = "10.9.0.1:7";
const LIMIT: Duration = Duration::from_secs(120);

fn public(private: [u8; 32]) -> PublicKey {
    PublicKey::from(&StaticSecret::from(private))
}

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A stack at 10.9.0.2 on a tunnel to a gateway of this kind.
async fn scene(kind: Kind) -> (Stack, Handle, Gateway) {
    let gateway = Gateway::start(kind, THEIRS, public(OURS)).await;
    let config = Config {
        private_key: OURS,
        peer_public_key: public(THEIRS).to_bytes(),
        preshared_key: None,
        endpoint: Some(gateway.addr),
        allowed: vec!["10.9.0.0/24".parse().unwrap()],
        keepalive: None,
    };
    let tunnel = Tunnel::new(&config, any_port().await);
    let handle = tunnel.handle();
    let stack = Stack::builder()
        .device(IpOver::new(tunnel, MTU))
        .address("10.9.0.2/24".parse().unwrap())
        .spawn()
        .unwrap();
    (stack, handle, gateway)
}

async fn any_port() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

/// The kernel reads each connection to its end, then sends as much back.
async fn mirror() {
    // At any address: the gateway's exists only once the gateway does. With tokio's own backlog of 128, the
    // kernel would answer with SYN cookies, which reset a client whose first segments are lost.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(addr("0.0.0.0:7")).unwrap();
    let listener = socket.listen(1024).unwrap();
    payload::mirror(listener);
}

#[test]
fn two_hundred_connections_at_once_each_way_carry_every_byte() {
    for kind in Kind::all() {
        in_namespace(move || async move {
            mirror().await;
            let (stack, handle, _gateway) = scene(kind).await;
            let listener = stack.listen(addr("10.9.0.2:80")).unwrap();
            let mut all = JoinSet::new();
            for seed in 0..200 {
                let stack = stack.clone();
                all.spawn(async move {
                    let mut stream = stack.connect(addr(KERNEL)).await.unwrap();
                    let sent = send(&mut stream, 40_000 + seed, seed).await.unwrap();
                    stream.shutdown().await.unwrap();
                    assert_eq!(receive(&mut stream).await.unwrap(), sent, "connection {seed}");
                    // 20 bytes of IP, 20 of TCP, 12 of timestamps.
                    assert_eq!(stream.info().unwrap().snd_mss as usize, MTU - 52);
                });
            }
            all.spawn(async move {
                let mut accepted = JoinSet::new();
                for _ in 0..200 {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    accepted.spawn(async move {
                        let mut all = Vec::new();
                        stream.read_to_end(&mut all).await.unwrap();
                        stream.write_all(&all).await.unwrap();
                        stream.shutdown().await.unwrap();
                    });
                }
                while let Some(done) = accepted.join_next().await {
                    done.unwrap();
                }
            });
            for seed in 0..200 {
                all.spawn(async move {
                    let mut stream = TcpStream::connect("10.9.0.2:80").await.unwrap();
                    let sent = send(&mut stream, 20_000 + seed, seed).await.unwrap();
                    stream.shutdown().await.unwrap();
                    assert_eq!(receive(&mut stream).await.unwrap(), sent, "the kernel's connection {seed}");
                });
            }
            let done = async {
                while let Some(done) = all.join_next().await {
                    done.unwrap();
                }
            };
            within(LIMIT, &stack, done).await;
            let counters = handle.counters();
            assert!(counters.received > 200 * 40 && counters.sent > 200 * 40, "{counters:?}");
            assert_eq!((counters.roamed, counters.dropped_not_authentic), (0, 0), "{counters:?}");
            assert_eq!((counters.dropped_too_long, counters.dropped_no_endpoint), (0, 0), "{counters:?}");
            // The kernel looks for IPv6 routers behind each new device, from an address that is not allowed.
            assert!(counters.dropped_not_allowed < 20, "{counters:?}");
            stack.shutdown().await;
        });
    }
}

/// Transfers both ways at once on one connection, during which a test does something.
struct Transfers {
    stack: Stack,
    handle: Handle,
    /// How many fifths of the data may be sent.
    allowed: watch::Sender<usize>,
    /// The number of packets that had crossed when the last fifth was released.
    mark: u64,
    task: JoinHandle<()>,
}

impl Transfers {
    async fn begin(stack: &Stack, handle: &Handle) -> Self {
        let listener = TcpListener::bind(KERNEL).await.unwrap();
        let ours = within(LIMIT, stack, stack.connect(addr(KERNEL))).await.unwrap();
        let theirs = listener.accept().await.unwrap().0;
        let (allowed, let_go) = watch::channel(1);
        let task = tokio::spawn(async move {
            let ((mut our_reader, mut our_writer), (mut reader, mut writer)) =
                (ours.into_split(), theirs.into_split());
            let (up, down) = (in_fifths(&mut our_writer, 1, &let_go), in_fifths(&mut writer, 2, &let_go));
            let (up, down, at_kernel, at_stack) =
                tokio::join!(up, down, receive(&mut reader), receive(&mut our_reader));
            assert_eq!((at_kernel.unwrap(), at_stack.unwrap()), (up, down));
        });
        Self { stack: stack.clone(), handle: handle.clone(), allowed, mark: 0, task }
    }

    /// Waits until a fifth of the data has crossed since the last time. Acknowledgements count, too, so that
    /// some of the data is still under way.
    async fn a_fifth(&self) {
        let enough = self.mark + 2 * BYTES / 1400 / 5;
        self.until("so much has crossed", |handle| crossed(handle) >= enough).await;
    }

    /// Releases the next fifth.
    fn go_on(&mut self) {
        self.mark = crossed(&self.handle);
        self.allowed.send_modify(|allowed| *allowed += 1);
    }

    async fn until(&self, what: &str, done: impl Fn(&Handle) -> bool) {
        let wait = async {
            while !done(&self.handle) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        println!("waiting until {what}");
        within(LIMIT, &self.stack, wait).await;
    }

    async fn end(self) {
        within(LIMIT, &self.stack, self.task).await.unwrap();
        self.stack.shutdown().await;
    }
}

fn crossed(handle: &Handle) -> u64 {
    let Counters { sent, received, .. } = handle.counters();
    sent + received
}

/// Sends data to its end, each fifth once it is released.
async fn in_fifths(
    writer: &mut (impl AsyncWrite + Unpin),
    seed: u64,
    allowed: &watch::Receiver<usize>,
) -> Digest {
    let (data, mut allowed) = (Payload::new(BYTES, seed).into_vec(), allowed.clone());
    for (number, fifth) in data.chunks(data.len().div_ceil(5)).enumerate() {
        allowed.wait_for(|&allowed| allowed > number).await.unwrap();
        writer.write_all(fifth).await.unwrap();
    }
    writer.shutdown().await.unwrap();
    digest(&data)
}

const BYTES: u64 = 8 << 20;

#[test]
fn a_transfer_goes_on_when_this_end_moves() {
    for kind in Kind::all() {
        in_namespace(move || async move {
            let (stack, handle, gateway) = scene(kind).await;
            let mut transfers = Transfers::begin(&stack, &handle).await;
            for _ in 1..=4 {
                transfers.a_fifth().await;
                let socket = any_port().await;
                let at = socket.local_addr().unwrap();
                handle.replace_socket(socket).await.unwrap();
                transfers.go_on();
                transfers.until("the gateway answers to there", |_| gateway.endpoint() == Some(at)).await;
            }
            assert_eq!((handle.counters().roamed, handle.endpoint()), (0, Some(gateway.addr)));
            transfers.end().await;
        });
    }
}

#[test]
fn a_transfer_goes_on_when_the_peer_moves() {
    for kind in Kind::all() {
        in_namespace(move || async move {
            let (stack, handle, mut gateway) = scene(kind).await;
            let mut transfers = Transfers::begin(&stack, &handle).await;
            // Packets to the peer's old address are lost until the peer sends from the new one.
            for turn in 1..=4 {
                transfers.a_fifth().await;
                gateway.roam().await;
                transfers.go_on();
                let at = gateway.addr;
                transfers.until("this end answers to there", |handle| handle.endpoint() == Some(at)).await;
                assert_eq!(handle.counters().roamed, turn, "{kind:?}");
            }
            transfers.end().await;
        });
    }
}

#[test]
fn a_transfer_goes_on_under_new_keys() {
    for kind in Kind::all() {
        in_namespace(move || async move {
            let (stack, handle, gateway) = scene(kind).await;
            let mut transfers = Transfers::begin(&stack, &handle).await;
            for turn in 1..=4 {
                transfers.a_fifth().await;
                let before = handle.counters().handshakes;
                if turn % 2 == 0 && kind == Kind::Boringtun {
                    gateway.rekey();
                } else {
                    handle.rekey();
                }
                transfers.go_on();
                transfers.until("the keys are new", |handle| handle.counters().handshakes > before).await;
                assert!(handle.last_handshake().is_some_and(|ago| ago < Duration::from_secs(5)));
            }
            assert!(handle.counters().handshakes >= 5, "{:?}", handle.counters());
            transfers.end().await;
        });
    }
}

/// Starts the program with the keys of these tests, and `more` at the end of its arguments.
fn program(folder: &std::path::Path, gateway: &Gateway, more: &[&str], input: &[u8]) -> Program {
    let key = folder.join("private.key");
    std::fs::write(&key, base64(OURS)).unwrap();
    let endpoint = gateway.addr.to_string();
    let public = base64(public(THEIRS).to_bytes());
    let mut arguments = vec!["--private-key-file", key.to_str().unwrap(), "--peer-public-key", &public];
    arguments.extend(["--endpoint", &endpoint, "--address", "10.9.0.2/24"]);
    arguments.extend(more);
    Program::start(env!("CARGO_BIN_EXE_wireguard"), &arguments, input.to_vec())
}

fn base64(key: [u8; 32]) -> String {
    use ::base64::Engine;
    ::base64::engine::general_purpose::STANDARD.encode(key)
}

/// A folder of the test, removed with this.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wireguard-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn the_program_forwards_a_local_port_and_follows_the_network() {
    in_namespace(|| async {
        let folder = Folder::new("forward");
        let gateway = Gateway::start(Kind::Boringtun, THEIRS, public(OURS)).await;
        mirror().await;
        let forward = ["--forward", "127.0.0.1:8080=10.9.0.1:7", "--forward", "127.0.0.1:8081=10.9.0.1:9"];
        let program = program(&folder.0, &gateway, &forward, b"");
        let mut stream = eventually(|| TcpStream::connect("127.0.0.1:8080")).await;
        stream.write_all(b"before").await.unwrap();
        eventually(|| async { gateway.endpoint().ok_or(std::io::ErrorKind::NotFound.into()) }).await;
        let before = gateway.endpoint();
        program.signal("HUP");
        let moved = || async {
            (gateway.endpoint() != before).then_some(()).ok_or(std::io::ErrorKind::NotFound.into())
        };
        eventually(moved).await;
        stream.write_all(b" and after").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut echo = String::new();
        stream.read_to_string(&mut echo).await.unwrap();
        assert_eq!(echo, "before and after");

        // The second one leads to a closed port. The reset may come before `connect` has looked.
        let refused = async { TcpStream::connect("127.0.0.1:8081").await?.read_u8().await };
        assert_eq!(refused.await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        program.signal("TERM");
        spawn_blocking(|| program.finish()).await.unwrap();
    });
}

#[test]
fn the_program_reads_a_file_of_wg_quick() {
    in_namespace(|| async {
        let folder = Folder::new("quick");
        let gateway = Gateway::start(Kind::Boringtun, THEIRS, public(OURS)).await;
        mirror().await;
        let (own, theirs) = (base64(OURS), base64(public(THEIRS).to_bytes()));
        let file = folder.0.join("wg0.conf");
        let text = format!(
            "[Interface]\nPrivateKey = {own}\nAddress = 10.9.0.2/24\nMTU = 1300\nPostUp = exit 1\n\n\
             [Peer]\nPublicKey = {theirs}\nAllowedIPs = 10.9.0.0/24\nEndpoint = {}\n",
            gateway.addr
        );
        std::fs::write(&file, text).unwrap();
        let arguments = ["--config", file.to_str().unwrap(), "--connect", KERNEL];
        let program = Program::start(env!("CARGO_BIN_EXE_wireguard"), &arguments, b"from a file".to_vec());
        let said = spawn_blocking(|| program.finish()).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&said), "from a file");
    });
}

/// A program that is killed with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The lines that the program writes to standard error, until one holds `end`.
fn until(program: &mut Running, end: &str) -> String {
    let mut said = String::new();
    for line in BufReader::new(program.0.stderr.as_mut().unwrap()).lines() {
        said += &line.unwrap();
        said.push('\n');
        if said.contains(end) {
            return said;
        }
    }
    panic!("it ended without {end:?}: {said}");
}

/// Goal: a wrong key and a wrong endpoint are the commonest mistakes, and WireGuard answers neither.
/// boringtun repeats a handshake after 5 s and at most a third of a second.
#[test]
fn the_program_says_that_handshakes_have_no_answer() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let folder = Folder::new("silent");
    let key = folder.0.join("private.key");
    std::fs::write(&key, base64(OURS)).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let begun = std::time::Instant::now();
    let program = Command::new(env!("CARGO_BIN_EXE_wireguard"))
        .args(["--private-key-file", key.to_str().unwrap(), "--address", "10.9.0.2/24"])
        .args(["--peer-public-key", &base64(public(THEIRS).to_bytes())])
        .args(["--endpoint", &silent.local_addr().unwrap().to_string(), "--connect", KERNEL])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = until(&mut Running(program), "handshakes");
    assert_eq!(said, "no answer to handshakes: check the keys and the endpoint\n");
    // Not before the first attempt has waited for its answer.
    assert!(begun.elapsed() >= Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn the_program_joins_a_connection_with_stdin_and_stdout() {
    in_namespace(|| async {
        let folder = Folder::new("connect");
        let gateway = Gateway::start(Kind::Boringtun, THEIRS, public(OURS)).await;
        mirror().await;
        let program = program(&folder.0, &gateway, &["--connect", KERNEL], b"hello, other end");
        let said = spawn_blocking(|| program.finish()).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&said), "hello, other end");
    });
}
