//! Two hosts on a cable; and what drives a host without a runtime.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Wake};
use std::time::Duration;

use ackclock::{Clock, Instant, Port, Stack, StackBuilder, TcpListener, TcpStream};
use ackclock_device::impair::{Impaired, Network, Settings};
use ackclock_device::memory::{self, Cable};

pub(crate) const SERVER: &str = "10.0.0.2:80";

pub(crate) struct Hosts {
    pub(crate) client: Stack,
    pub(crate) server: Stack,
    pub(crate) cable: Cable,
}

pub(crate) fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// `10.0.0.1` and `fd00::1` to the left, `10.0.0.2` and `fd00::2` to the right.
pub(crate) fn hosts() -> Hosts {
    let (left, right) = memory::pair(memory::Config::default());
    let cable = left.cable();
    Hosts {
        client: host("10.0.0.1/24", "fd00::1/64").device(left).spawn().unwrap(),
        server: host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap(),
        cable,
    }
}

/// Two hosts, with a network in front of the client that can lose everything.
pub(crate) fn hosts_with_network() -> (Stack, Stack, Network) {
    let (left, right) = memory::pair(memory::Config::default());
    let left = Impaired::new(left, 1, Settings::default(), Settings::default()).unwrap();
    let network = left.handle();
    let client = host("10.0.0.1/24", "fd00::1/64").device(left).spawn().unwrap();
    let server = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
    (client, server, network)
}

pub(crate) fn host(v4: &str, v6: &str) -> StackBuilder {
    Stack::builder().address(v4.parse().unwrap()).address(v6.parse().unwrap()).seed(7)
}

/// Host `number`, `10.0.0.1` and `fd00::1` being the first, driven through its port.
pub(crate) fn detached(clock: &Arc<Virtual>, number: u8) -> (Stack, Port) {
    let builder = host(&format!("10.0.0.{number}/24"), &format!("fd00::{number}/64"));
    builder.detached(Arc::clone(clock), 1500).unwrap()
}

/// Time that only a test moves.
#[derive(Debug, Default)]
pub(crate) struct Virtual(AtomicU64);

impl Virtual {
    pub(crate) fn set(&self, now: Instant) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }
}

impl Clock for Virtual {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// How often a task was woken.
#[derive(Default)]
pub(crate) struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    pub(crate) fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A connection: the client's end and the server's.
pub(crate) async fn connection(hosts: &Hosts) -> (TcpStream, TcpStream) {
    between(&hosts.client, &hosts.server).await
}

pub(crate) async fn between(client: &Stack, server: &Stack) -> (TcpStream, TcpStream) {
    let listener = server.listen(addr(SERVER)).unwrap();
    accepted(client, &listener).await
}

pub(crate) async fn accepted(client: &Stack, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let (connected, accepted) =
        tokio::join!(client.connect(listener.local_addr().unwrap()), listener.accept());
    (connected.unwrap(), accepted.unwrap().0)
}

/// Runs a test in virtual time on a thread of its own: a thread that waits for its own lock never ends.
pub(crate) fn ends<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(test());
        drop(runtime);
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("a thread that neither panics nor waits for itself");
}

/// Lets all other tasks run until they wait, without letting time pass.
pub(crate) async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// Polls `future` at most `times` times, others having their turn in between, then drops it.
pub(crate) async fn cancelled_after<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..times {
        let polled = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

pub(crate) fn kind<T>(result: io::Result<T>) -> io::ErrorKind {
    match result {
        Ok(_) => panic!("expected an error"),
        Err(error) => error.kind(),
    }
}
