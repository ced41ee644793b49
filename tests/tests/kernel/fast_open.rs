//! Fast Open with the kernel's TCP, both ways (RFC 7413).

use std::time::Duration;

use ackclock::Stack;
use ackclock_device::OffloadMode;
use ackclock_tests::kernel::program::{Program, eventually, have};
use ackclock_tests::kernel::scene::{Family, stack, within};
use ackclock_tests::netns::in_namespace;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_blocking;

#[test]
fn the_kernel_gives_a_cookie_and_takes_data_with_the_next_syn() {
    with(|stack, family| async move {
        let (addr, ip) = (family.kernel(9), family.kernel(9).ip().to_string());
        let server = Program::start("python3", &["-c", SERVER, &ip], Vec::new());
        // The first attempt may come before the server listens.
        eventually(|| async { exchange(&stack, addr).await }).await;
        for _ in 1..ROUNDS {
            exchange(&stack, addr).await.unwrap();
        }
        let passive: u64 = output(server).await.parse().unwrap();
        assert_eq!(passive, ROUNDS - 1, "connections that the kernel opened by their SYN");
        assert_eq!(stack.counters().fast_open_fell_back, 0);
    });
}

#[test]
fn the_stack_gives_a_cookie_and_takes_data_with_the_kernels_next_syn() {
    with(|stack, family| async move {
        let listener = stack.listener().addr(family.stack(9)).fast_open(16).bind().unwrap();
        let ip = family.stack(9).ip().to_string();
        let client = Program::start("python3", &["-c", CLIENT, &ip], Vec::new());
        for _ in 0..ROUNDS {
            let (mut stream, _) = within(LIMIT, &stack, listener.accept()).await.unwrap();
            let mut request = [0; 7];
            within(LIMIT, &stack, stream.read_exact(&mut request)).await.unwrap();
            assert_eq!(&request, b"request");
            stream.write_all(b"answer").await.unwrap();
            stream.shutdown().await.unwrap();
        }
        let active: u64 = output(client).await.parse().unwrap();
        assert_eq!(
            active,
            ROUNDS - 1,
            "connections whose data was taken with the SYN, as the kernel counts them"
        );
        assert_eq!(stack.counters().fast_open_accepted, ROUNDS - 1);
    });
}

/// A request and its answer, on a connection of their own.
async fn exchange(stack: &Stack, addr: std::net::SocketAddr) -> std::io::Result<()> {
    let mut stream = stack.socket().connect_with_data(addr, b"request").await?;
    let mut answer = Vec::new();
    within(LIMIT, stack, stream.read_to_end(&mut answer)).await?;
    assert_eq!(answer, b"answer");
    Ok(())
}

async fn output(program: Program) -> String {
    let bytes = spawn_blocking(|| program.finish()).await.unwrap();
    String::from_utf8(bytes).unwrap().trim().to_owned()
}

/// Runs `test` for both families, in a namespace whose kernel does Fast Open as client and as server.
fn with<F>(test: fn(Stack, Family) -> F)
where
    F: std::future::Future<Output = ()> + Send + 'static,
{
    if !have("python3") {
        return;
    }
    for family in [Family::V4, Family::V6] {
        in_namespace(move || async move {
            std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", "3").unwrap();
            test(stack(OffloadMode::Off), family).await;
        });
    }
}

// Both end by returning the counters of the kernel of their namespace.
const SERVER: &str = "
import socket, sys
def counter(name):
    names, values = [line.split() for line in open('/proc/thread-self/net/netstat') if line.startswith('TcpExt:')]
    return dict(zip(names, values))[name]
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
listener = socket.socket(family)
listener.setsockopt(socket.IPPROTO_TCP, 23, 16)
listener.bind((sys.argv[1], 9))
listener.listen()
for _ in range(3):
    stream, _ = listener.accept()
    assert stream.recv(100) == b'request'
    stream.sendall(b'answer')
    stream.close()
print(counter('TCPFastOpenPassive'))
";

const CLIENT: &str = "
import socket, sys
def counter(name):
    names, values = [line.split() for line in open('/proc/thread-self/net/netstat') if line.startswith('TcpExt:')]
    return dict(zip(names, values))[name]
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
for _ in range(3):
    stream = socket.socket(family)
    stream.sendto(b'request', 0x20000000, (sys.argv[1], 9))
    answer = b''
    while more := stream.recv(100):
        answer += more
    assert answer == b'answer', answer
    stream.close()
print(counter('TCPFastOpenActive'))
";

const ROUNDS: u64 = 3;
const LIMIT: Duration = Duration::from_secs(20);
