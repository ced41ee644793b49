//! Three tasks wait for one thing. One gives up. It happens, the first is woken, and is dropped before it
//! runs: the last goes on. A task that waits for something else stays where it is.

use std::future::Future;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock::{Interest, Ready, TcpStream, UdpSocket};
use tokio::io::AsyncWriteExt;

use crate::support::{Hosts, SERVER, Woken, accepted, addr, connection, hosts, settle};

/// A future that is polled by hand, and how often it was woken.
struct Waiting<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    woken: Arc<Woken>,
}

impl<'a, T> Waiting<'a, T> {
    /// It waits.
    fn begin(future: impl Future<Output = T> + 'a) -> Self {
        let mut waiting = Self { future: Box::pin(future), woken: Arc::default() };
        assert!(waiting.poll().is_pending(), "nothing has happened yet");
        waiting.woken.reset();
        waiting
    }

    fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn is_woken(&self) -> bool {
        self.woken.times() > 0
    }
}

/// The result of the second of two waits, after the first was woken and dropped. One between them had given
/// up before.
async fn second_of<'a, F: Future + 'a>(wait: impl Fn() -> F, happens: impl AsyncFnOnce()) -> F::Output {
    let [first, gives_up, mut second] = [(); 3].map(|()| Waiting::begin(wait()));
    drop(gives_up);
    happens().await;
    settle().await;
    assert!(first.is_woken());
    drop(first);
    assert!(second.is_woken());
    match second.poll() {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("woken for nothing"),
    }
}

/// Two hosts, a connection between them, and the end of another one.
async fn streams() -> (Hosts, TcpStream, TcpStream) {
    let hosts = hosts();
    let (ours, theirs) = connection(&hosts).await;
    settle().await;
    (hosts, ours, theirs)
}

async fn fill(stream: &TcpStream) {
    while stream.try_write(&[7; 100_000]).is_ok() {
        settle().await;
    }
}

/// Reads what waits, and what arrives once there is room for it.
async fn empty(stream: &TcpStream) {
    for _ in 0..3 {
        while stream.try_read(&mut [0; 65_536]).is_ok() {}
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_reader_reads() {
    let (_hosts, ours, mut theirs) = streams().await;
    let write = async || theirs.write_all(b"x").await.unwrap();
    second_of(|| ours.readable(), write).await.unwrap();
    assert_eq!(ours.try_read(&mut [0; 8]).unwrap(), 1);
    let finish = async || theirs.shutdown().await.unwrap();
    second_of(|| ours.readable(), finish).await.unwrap();
    assert_eq!(ours.try_read(&mut [0; 8]).unwrap(), 0);

    let (_hosts, ours, theirs) = streams().await;
    let peek = async || ours.peek(&mut [0; 8]).await;
    let reset = second_of(peek, async || theirs.abort()).await;
    assert_eq!(reset.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn the_second_writer_writes() {
    let (_hosts, ours, theirs) = streams().await;
    fill(&ours).await;
    second_of(|| ours.writable(), async || empty(&theirs).await).await.unwrap();
    assert!(ours.try_write(b"x").is_ok());
    fill(&ours).await;
    second_of(|| ours.writable(), async || theirs.abort()).await.unwrap();
    assert_eq!(ours.try_write(b"x").unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn the_second_that_waits_for_delivery_or_a_notice_gets_it() {
    let (hosts, ours, theirs) = streams().await;
    let write = async || assert_eq!(ours.try_write(b"x").unwrap(), 1);
    let delivered = second_of(
        || ours.delivered_to(1),
        async || {
            write().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        },
    );
    assert_eq!(delivered.await.unwrap().bytes, 1);
    let urgent = async || assert_eq!(theirs.try_write_urgent(b"!").unwrap(), 1);
    second_of(|| ours.notice(), urgent).await.unwrap();
    let over = second_of(|| ours.delivered_to(9), async || hosts.client.abort()).await;
    assert_eq!(over.unwrap_err().kind(), ErrorKind::ConnectionAborted);
}

#[tokio::test(start_paused = true)]
async fn the_second_hears_all_that_is_ready_at_once() {
    let all = Interest::READABLE | Interest::WRITABLE | Interest::ERROR;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let all = all | Interest::PRIORITY;
    let (_hosts, ours, mut theirs) = streams().await;
    fill(&ours).await;
    let talk = async || {
        theirs.write_all(b"text").await.unwrap();
        assert_eq!(theirs.try_write_urgent(b"!").unwrap(), 1);
        empty(&theirs).await;
        theirs.shutdown().await.unwrap();
    };
    let ready = second_of(|| ours.ready(all), talk).await.unwrap();
    let expected = Ready::READABLE | Ready::WRITABLE | Ready::READ_CLOSED;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let expected = expected | Ready::PRIORITY;
    assert_eq!(ready, expected);
}

#[tokio::test(start_paused = true)]
async fn the_second_accept_gets_the_connection() {
    let hosts = hosts();
    let listener = hosts.server.listen(addr(SERVER)).unwrap();
    let client = hosts.client.clone();
    let connect = async || {
        tokio::spawn(async move { client.connect(addr(SERVER)).await.map(std::mem::forget) });
    };
    let (stream, _) = second_of(|| listener.accept(), connect).await.unwrap();
    assert_eq!(stream.local_addr().unwrap(), addr(SERVER));

    let deferred = hosts.server.listener().addr(addr("10.0.0.2:81")).deferred().unwrap();
    let client = hosts.client.clone();
    let connect = async || {
        tokio::spawn(async move { client.connect(addr("10.0.0.2:81")).await.map(drop) });
    };
    let incoming = second_of(|| deferred.incoming(), connect).await.unwrap();
    assert_eq!(incoming.local_addr(), addr("10.0.0.2:81"));
    drop((listener, deferred, incoming));
}

#[tokio::test(start_paused = true)]
async fn the_second_at_a_udp_socket_receives_sends_and_hears_the_error() {
    let hosts = hosts();
    let ours = UdpSocket::bind(&hosts.client, addr("10.0.0.1:9")).await.unwrap();
    let theirs = UdpSocket::bind(&hosts.server, addr("10.0.0.2:9")).await.unwrap();
    theirs.connect(addr("10.0.0.1:9")).await.unwrap();
    ours.connect(addr("10.0.0.2:9")).await.unwrap();
    let send = async || assert_eq!(theirs.try_send(b"x").unwrap(), 1);
    second_of(|| ours.readable(), send).await.unwrap();
    assert_eq!(ours.try_recv(&mut [0; 8]).unwrap(), 1);

    // No driver runs meanwhile, so the cable fills up, and then the socket.
    while ours.try_send(&[7; 1400]).is_ok() {}
    second_of(|| ours.writable(), async || settle().await).await.unwrap();
    assert_eq!(ours.try_send(b"x").unwrap(), 1);
    settle().await;

    drop(theirs);
    let both = Interest::READABLE | Interest::ERROR;
    let send = async || assert_eq!(ours.try_send(b"x").unwrap(), 1);
    let ready = second_of(|| ours.ready(both), send).await.unwrap();
    assert_eq!(ready, Ready::READABLE | Ready::ERROR);
    assert_eq!(ours.try_recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test(start_paused = true)]
async fn the_second_that_waits_for_the_end_of_a_stack_hears_of_it() {
    let (hosts, ours, theirs) = streams().await;
    let stack = hosts.client.clone();
    let begin = async || {
        tokio::spawn(async move { stack.drain(Duration::from_secs(60)).await });
    };
    second_of(|| hosts.client.closing(), begin).await;
    let hour = Duration::from_secs(3600);
    let reset = second_of(|| hosts.client.drain(hour), async || drop((ours, theirs))).await.unwrap();
    assert_eq!(reset, 0);
}

/// A slot of a stream on which no task waits serves another stream: who was woken and leaves late takes
/// nothing along there.
#[tokio::test(start_paused = true)]
async fn a_task_of_one_stream_disturbs_none_of_another() {
    let hosts = hosts();
    let listener = hosts.server.listen(addr(SERVER)).unwrap();
    let (one, mut to_one) = accepted(&hosts.client, &listener).await;
    let (other, mut to_other) = accepted(&hosts.client, &listener).await;
    // Nagle's algorithm would let the second byte wait for time to pass.
    to_other.set_nodelay(true).unwrap();
    settle().await;
    let first = Waiting::begin(one.readable());
    let mut second = Waiting::begin(other.readable());
    to_one.write_all(b"x").await.unwrap();
    settle().await;
    assert_eq!((first.is_woken(), second.is_woken()), (true, false));
    drop(first);
    drop(one);
    settle().await;
    assert!(!second.is_woken() && second.poll().is_pending());
    to_other.write_all(b"x").await.unwrap();
    settle().await;
    assert!(second.is_woken() && second.poll().is_ready());
}
