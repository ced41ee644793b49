//! `tun2socks` between a kernel whose packets it all takes and the SOCKS5 proxy of another kernel, in
//! namespaces.
//!
//! The client's kernel has a default route into the device, and a cable to the world, where the proxy is. The
//! world's kernel treats all of 203.0.113.0/24 and 2001:db8::/32 as its own addresses.

mod configure;
mod datagrams;
mod http;
mod idle;
mod memory;
mod names;
mod right;
mod socks;
mod watching;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use ackclock_tests::kernel::payload;
use ackclock_tests::kernel::payload::{receive, send};
use ackclock_tests::kernel::program::{Program, eventually};
use ackclock_tests::netns::{Namespace, in_namespaces};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use crate::watching::{METRICS, metric};

const PROXY: &str = "10.1.0.1:1080";
const V4: &str = "203.0.113.7:7";
const V6: &str = "[2001:db8::7]:7";

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Runs `test` as a client in one namespace, with `world` in the other and `tun2socks` between them.
fn between(
    world: impl Future<Output = io::Result<()>> + Send + 'static,
    test: impl Future<Output = ()> + Send + 'static,
) {
    with_arguments(PROXY, &[], None, world, |program| async move {
        test.await;
        drop(program);
    });
}

/// Starts the gateway with a proxy at another address, more arguments, or credentials; the test ends the
/// program.
fn with_arguments<F>(
    proxy: &'static str,
    arguments: &'static [&'static str],
    credentials: Option<&'static str>,
    world: impl Future<Output = io::Result<()>> + Send + 'static,
    test: impl FnOnce(Program) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    in_namespaces(|[inside, outside]: [Namespace; 2]| {
        join(&inside, &outside);
        outside.run(async move {
            socks::serve(addr(PROXY), credentials).await.unwrap();
            world.await.unwrap();
        });
        let program = inside.run(async move {
            let network = ["--address", "198.18.0.1/30", "--address", "fd00:9::1/64", "--route", "0.0.0.0/0"];
            let all = [&["--proxy", proxy, "--route", "::/0"], &network[..], arguments].concat();
            let other: Option<&'static str> = std::env::var("GATEWAY").ok().map(|path| &*path.leak());
            let program = Program::start(other.unwrap_or(env!("CARGO_BIN_EXE_tun2socks")), &all, Vec::new());
            until_it_is_up(other.is_none()).await;
            program
        });
        inside.run(test(program));
    });
}

/// Joins the client's kernel and the world's by a cable.
fn join(inside: &Namespace, outside: &Namespace) {
    inside.cable("eth0", outside, "eth0");
    inside.ip("addr add 10.1.0.2/24 dev eth0");
    outside.ip("addr add 10.1.0.1/24 dev eth0");
    for network in ["local 203.0.113.0/24 dev lo", "unreachable 198.51.100.0/24", "prohibit 192.0.2.0/24"] {
        outside.ip(&format!("route add {network}"));
    }
    outside.ip("-6 route add local 2001:db8::/32 dev lo");
    // An IPv6 socket can be bound only to an address of an interface.
    outside.ip("-6 addr add 2001:db8::7/128 dev lo nodad");
}

/// Waits until the kernel has its route, or with IPv6 both routes and a usable address.
async fn until_it_is_up(with_v6: bool) {
    let has_routes = || async {
        let led = |address: &str, says: &str| {
            let shown = Command::new("ip").args(["route", "get", address]).output()?;
            let up = String::from_utf8_lossy(&shown.stdout).contains(says);
            if up { Ok(()) } else { Err(io::Error::other(format!("no route to {address} yet"))) }
        };
        led("203.0.113.7", "dev tun0")?;
        if with_v6 { led("2001:db8::7", "fd00:9::1") } else { Ok(()) }
    };
    eventually(has_routes).await;
}

/// A row of the table that the program prints at its end; 0 if it is left out.
fn row(said: &str, name: &str) -> u64 {
    let rows = said.lines().filter_map(|line| line.rsplit_once(char::is_whitespace));
    let mut found = rows.filter(|(row, _)| row.trim_end() == name).map(|(_, value)| value.parse().unwrap());
    found.next().unwrap_or(0)
}

/// Ends the program and returns what it said.
async fn ended(program: Program) -> String {
    program.signal("TERM");
    let said = spawn_blocking(|| program.finish()).await.unwrap();
    String::from_utf8_lossy(&said).into_owned()
}

/// Reads each connection to its end, then sends as much back.
async fn mirror() -> io::Result<()> {
    let listener = TcpListener::bind("[::]:7").await?;
    payload::mirror(listener);
    Ok(())
}

/// Sends `len` bytes and shuts down, then reads the same bytes back.
async fn exchange(to: &str, bytes: u64, seed: u64) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let sent = send(&mut stream, bytes, seed).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(receive(&mut stream).await.unwrap(), sent, "{to}");
}

#[test]
fn any_address_is_reached_and_half_closed_connections_go_on() {
    between(mirror(), async {
        for (to, seed) in [(V4, 1), (V6, 2), ("203.0.113.200:7", 3)] {
            exchange(to, 3 << 20, seed).await;
            exchange(to, 0, seed).await;
        }
    });
}

#[test]
fn a_hundred_connections_at_once_are_kept_apart() {
    between(mirror(), async {
        let mut all = JoinSet::new();
        for seed in 0..100 {
            all.spawn(
                async move { exchange(if seed % 2 == 0 { V4 } else { V6 }, 100_000 + seed, seed).await },
            );
        }
        while let Some(done) = all.join_next().await {
            done.unwrap();
        }
    });
}

#[test]
fn curl_fetches_a_page_from_any_address() {
    let world = async {
        let listener = TcpListener::bind("[::]:80").await?;
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let len = stream.read(&mut request).await.unwrap_or(0);
                assert!(request[..len].starts_with(b"GET /page HTTP/1.1\r\n"));
                let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 8\r\n\r\nthe page";
                stream.write_all(answer).await.ok();
            }
        });
        Ok(())
    };
    between(world, async {
        for url in ["http://203.0.113.7/page", "http://203.0.113.99/page", "http://[2001:db8::99]/page"] {
            let curl = Program::start("curl", &["--silent", "--show-error", "--globoff", url], Vec::new());
            let page = spawn_blocking(|| curl.finish()).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&page), "the page", "{url}");
        }
    });
}

#[test]
fn a_client_hears_why_its_destination_cannot_be_reached() {
    between(async { Ok(()) }, async {
        for (to, kind) in [
            ("203.0.113.7:9", ErrorKind::ConnectionRefused),
            ("[2001:db8::7]:9", ErrorKind::ConnectionRefused),
            // The world has no route there.
            ("192.168.77.1:9", ErrorKind::NetworkUnreachable),
            ("[fd77::1]:9", ErrorKind::NetworkUnreachable),
            ("198.51.100.1:9", ErrorKind::HostUnreachable),
            // The world forbids it, which Linux knows as an unreachable host.
            ("192.0.2.1:9", ErrorKind::HostUnreachable),
        ] {
            let error =
                timeout(Duration::from_secs(30), TcpStream::connect(to)).await.expect("at once").unwrap_err();
            assert_eq!(error.kind(), kind, "{to}: {error}");
        }
    });
}

#[test]
fn a_reset_upstream_is_a_reset_for_the_client() {
    let world = async {
        let listener = TcpListener::bind("[::]:7").await?;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            stream.write_all(b"half of it").await?;
            stream.read_u8().await?;
            stream.set_zero_linger()
        });
        Ok(())
    };
    with_arguments(PROXY, &[], None, world, |program| async move {
        let mut stream = TcpStream::connect(V4).await.unwrap();
        stream.read_exact(&mut [0; 10]).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let said = ended(program).await;
        // Bytes carried before the reset count.
        let rows = ["connections", "connections refused", "connections reset", "bytes up", "bytes down"];
        assert_eq!(rows.map(|name| row(&said, name)), [1, 0, 1, 1, 10], "{said}");
    });
}

#[test]
fn destinations_that_never_answer_do_not_keep_others_from_being_reached() {
    between(mirror(), async {
        // All clients have one address.
        let mut silent = JoinSet::new();
        for n in 0..300_u16 {
            silent.spawn(TcpStream::connect(("203.0.113.9", socks::SILENT)));
            if n % 50 == 49 {
                // A SYN that the device's queue drops is repeated a second later.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        timeout(Duration::from_secs(5), exchange(V4, 1000, 1)).await.expect("the proxy answers at once");
        assert!(silent.try_join_next().is_none(), "all still wait");
    });
}

#[test]
fn a_destination_that_never_answers_does_not_fill_the_places_of_others() {
    let arguments = &["--connections", "16", "--metrics", METRICS];
    with_arguments(PROXY, arguments, None, mirror(), |program| async move {
        // All clients have one address. Eight may wait for the proxy, and four of them for one destination.
        let mut silent = JoinSet::new();
        for _ in 0..16 {
            silent.spawn(TcpStream::connect(("203.0.113.9", socks::SILENT)));
        }
        eventually(|| async {
            let put_off = metric("crowded").await;
            if put_off >= 12 { Ok(()) } else { Err(io::Error::other(format!("{put_off} of 12"))) }
        })
        .await;
        for seed in 0..10 {
            timeout(Duration::from_secs(30), exchange(V4, 1000, seed)).await.expect("there is room");
        }
        assert!(silent.try_join_next().is_none(), "all still wait");
        let said = ended(program).await;
        assert_eq!(row(&said, "connections"), 4 + 10, "{said}");
    });
}

#[test]
fn datagrams_go_anywhere_and_come_back_from_there() {
    with_arguments(PROXY, &["--mtu", "1500"], None, echoes(), |program| async move {
        let v4 = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        let v6 = UdpSocket::bind("[::]:0").await.unwrap();
        // Those of 4,000 bytes are longer than a packet, and go in fragments both ways.
        for (to, socket, len) in [
            (V4, &v4, 100),
            ("203.0.113.8:7", &v4, 1400),
            (V6, &v6, 1400),
            (V4, &v4, 0),
            (V6, &v6, 1),
            (V4, &v4, 4000),
            (V6, &v6, 4000),
        ] {
            echoed(socket, to, len).await;
        }
        echoed(&v4, "203.0.113.8:7", 50).await;
        let said = ended(program).await;
        let rows = ["relays", "datagrams up", "datagrams down", "datagrams dropped, too long"];
        assert_eq!(rows.map(|name| row(&said, name)), [2, 8, 8, 0], "{said}");
    });
}

/// Sends datagrams back, each from the address that it came to.
async fn echoes() -> io::Result<()> {
    for at in [V4, "203.0.113.8:7", V6] {
        let socket = UdpSocket::bind(at).await?;
        tokio::spawn(async move {
            let mut buf = [0; 9000];
            while let Ok((len, from)) = socket.recv_from(&mut buf).await {
                socket.send_to(&buf[..len], from).await.ok();
            }
        });
    }
    Ok(())
}

async fn echoed(socket: &UdpSocket, to: &str, len: usize) {
    let datagram: Vec<u8> = (0..len).map(|n| n as u8).collect();
    socket.send_to(&datagram, to).await.unwrap();
    let mut buf = [0; 9000];
    let echo = timeout(Duration::from_secs(30), socket.recv_from(&mut buf)).await.expect("an echo").unwrap();
    assert_eq!((&buf[..echo.0], echo.1), (&datagram[..], addr(to)));
}

#[test]
fn the_end_finishes_connections_resets_the_rest_and_takes_the_device_away() {
    with_arguments(PROXY, &[], None, mirror(), |program| async move {
        let mut open = TcpStream::connect(V4).await.unwrap();
        open.write_all(b"never finished").await.unwrap();
        exchange(V4, 1000, 1).await;
        let said = ended(program).await;
        assert_eq!(["connections", "connections refused"].map(|name| row(&said, name)), [2, 0], "{said}");
        assert!(said.contains("1 connections were reset at the end"), "{said}");
        assert_eq!(open.read_u8().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        let shown = Command::new("ip").args(["link", "show", "tun0"]).output().unwrap();
        assert!(!shown.status.success(), "tun0 is still there");
    });
}

#[test]
fn a_proxy_that_wants_a_password_gets_it() {
    let file = std::env::temp_dir().join(format!("tun2socks-test-{}", std::process::id()));
    std::fs::write(&file, "user:secret\n").unwrap();
    let arguments = ["--credentials-file", file.to_str().unwrap()];
    // A test's leak of some bytes: the arguments live as long as the program that it starts.
    let arguments: &'static [&'static str] =
        arguments.iter().map(|text| &*(*text).to_owned().leak()).collect::<Vec<_>>().leak();
    with_arguments(PROXY, arguments, Some("user:secret"), mirror(), |program| async move {
        exchange(V4, 1000, 1).await;
        drop(program);
    });
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_proxy_that_wants_a_password_and_gets_none_refuses_everyone() {
    with_arguments(PROXY, &[], Some("user:secret"), mirror(), |program| async move {
        let error = TcpStream::connect(V4).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        drop(program);
    });
}

#[test]
fn a_proxy_behind_the_device_itself_is_not_asked_for_ever() {
    with_arguments("203.0.113.50:1080", &[], None, mirror(), |program| async move {
        let error =
            timeout(Duration::from_secs(30), TcpStream::connect(V4)).await.expect("at once").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let said = ended(program).await;
        let rows = ["connections", "connections refused", "connections reset"];
        assert_eq!(rows.map(|name| row(&said, name)), [1, 1, 0], "{said}");
    });
}
