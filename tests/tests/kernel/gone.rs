//! Peers that vanish: a link goes down, an address is removed, a process is killed, a path falls silent.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use ackclock::{Stack, TcpConfig, TcpStream};
use ackclock_device::OffloadMode;
use ackclock_device::impair::Settings;
use ackclock_tests::kernel::program::{Program, eventually};
use ackclock_tests::kernel::scene::{Family, TUN, impaired_stack, open_tun, stack, stack_on, within};
use ackclock_tests::netns::{in_namespace, ip};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net;

#[test]
fn link_taken_down_times_out() {
    // Tests: RFC 9293 MUST-21
    each_family(|stack, family| async move {
        let (stream, _theirs) = joined(&stack, family).await;
        ip(&format!("link set {TUN} down"));
        times_out(&stack, stream).await;
        ip(&format!("link set {TUN} up"));
        // The kernel forgets IPv6 addresses of a link that goes down.
        ip(&format!("addr replace fd09::1/64 dev {TUN} nodad"));
    });
}

#[test]
fn address_removed_from_the_peer_times_out() {
    each_family(|stack, family| async move {
        let (stream, _theirs) = joined(&stack, family).await;
        let addr = if family == Family::V4 { "10.9.0.1/24" } else { "fd09::1/64 nodad" };
        ip(&format!("addr del {} dev {TUN}", addr.trim_end_matches(" nodad")));
        times_out(&stack, stream).await;
        ip(&format!("addr add {addr} dev {TUN}"));
    });
}

#[test]
fn peer_that_never_answers_a_syn_times_out() {
    in_namespace(|| async {
        let (stack, network) = impaired_stack(OffloadMode::Off, 1, Settings::default(), impatient());
        network.set_blackout(true);
        let began = Instant::now();
        let error = within(LIMIT, &stack, stack.connect(Family::V4.kernel(7))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        check_duration(began);
    });
}

#[test]
fn killed_process_resets_the_stack() {
    each_family(|stack, family| async move {
        let server = "import socket,sys,time
s=socket.create_server((sys.argv[1],7),family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
c,_=s.accept()
c.recv(1)
time.sleep(600)";
        let addr = family.kernel(7);
        let mut peer = Program::start("python3", &["-c", server, &addr.ip().to_string()], Vec::new());
        let mut stream = eventually(|| stack.connect(addr)).await;
        stream.write_all(&[1; 10_000]).await.unwrap();
        wait_until_acknowledged(&stream).await;
        peer.kill();
        // The kernel closes for the process, with unread data: a reset.
        let error = within(LIMIT, &stack, stream.read(&mut [0; 1])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn stack_that_falls_silent_times_out_in_the_kernel() {
    in_namespace(|| async {
        let (stack, network) = impaired_stack(OffloadMode::Off, 1, Settings::default(), TcpConfig::default());
        for family in [Family::V4, Family::V6] {
            let (_ours, mut theirs) = joined(&stack, family).await;
            SockRef::from(&theirs).set_tcp_user_timeout(Some(USER_TIMEOUT)).unwrap();
            network.set_blackout(true);
            let error = within(LIMIT, &stack, write_until_error(&mut theirs)).await;
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            network.set_blackout(false);
        }
    });
}

#[test]
fn transfer_goes_on_after_a_silence() {
    in_namespace(|| async {
        let (stack, network) = impaired_stack(OffloadMode::Off, 1, Settings::default(), TcpConfig::default());
        for family in [Family::V4, Family::V6] {
            let (mut ours, mut theirs) = joined(&stack, family).await;
            network.set_blackout(true);
            ours.write_all(b"through the dark").await.unwrap();
            tokio::time::sleep(Duration::from_secs(2)).await;
            network.set_blackout(false);
            let mut heard = [0; 16];
            within(LIMIT, &stack, theirs.read_exact(&mut heard)).await.unwrap();
            assert_eq!(&heard, b"through the dark");
            assert!(ours.info().unwrap().timeouts >= 2);
        }
    });
}

#[test]
fn stack_that_has_gone_is_reset_by_the_one_that_follows() {
    in_namespace(|| async {
        let first = stack(OffloadMode::Off);
        let (ours, mut theirs) = joined(&first, Family::V4).await;
        // A killed process takes its stack along, which sends nothing.
        std::mem::forget(ours);
        let device_gone = first.clone();
        ip(&format!("link del {TUN}"));
        within(LIMIT, &device_gone, async {
            while device_gone.connect(Family::V4.kernel(9)).await.unwrap_err().kind()
                != ErrorKind::NetworkDown
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let second = stack(OffloadMode::Off);
        theirs.write_all(b"still there?").await.unwrap();
        let error = within(LIMIT, &second, theirs.read(&mut [0; 1])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

/// Runs `scene` over IPv4 packet by packet and over IPv6 with offload, with a user timeout.
fn each_family<F>(scene: impl Fn(Stack, Family) -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    in_namespace(|| async move {
        for (family, mode) in [(Family::V4, OffloadMode::Off), (Family::V6, OffloadMode::On)] {
            let stack = stack_on(open_tun(mode), impatient());
            scene(stack.clone(), family).await;
            stack.shutdown().await;
        }
    });
}

async fn joined(stack: &Stack, family: Family) -> (TcpStream, net::TcpStream) {
    let listener = net::TcpListener::bind(family.kernel(0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (ours, theirs) =
        within(LIMIT, stack, async { tokio::join!(stack.connect(addr), listener.accept()) }).await;
    (ours.unwrap(), theirs.unwrap().0)
}

/// Writes until that fails, which it must with a timeout, and in time.
async fn times_out(stack: &Stack, mut stream: TcpStream) {
    let began = Instant::now();
    let error = within(LIMIT, stack, write_until_error(&mut stream)).await;
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    check_duration(began);
}

async fn write_until_error(stream: &mut (impl tokio::io::AsyncWrite + Unpin)) -> io::Error {
    loop {
        if let Err(error) = stream.write_all(&[7; 65_536]).await {
            return error;
        }
    }
}

async fn wait_until_acknowledged(stream: &TcpStream) {
    while stream.info().unwrap().send_queue > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn check_duration(began: Instant) {
    let took = began.elapsed();
    assert!((USER_TIMEOUT..USER_TIMEOUT * 4).contains(&took), "after {took:?}");
}

fn impatient() -> TcpConfig {
    TcpConfig { user_timeout: Some(USER_TIMEOUT), ..TcpConfig::default() }
}

const USER_TIMEOUT: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(60);
