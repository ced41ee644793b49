//! A device that is deleted while calls of every kind wait: all of them fail within a second, and nothing is
//! left behind. Alone in its program, since it counts the program's descriptors.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use ackclock::Stack;
use ackclock_device::OffloadMode;
use ackclock_device::impair::Settings;
use ackclock_tests::kernel::scene::{Family, TUN, impaired_stack, stack};
use ackclock_tests::netns::{in_namespace, ip};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net;
use tokio::task::JoinSet;

#[test]
fn every_pending_call_fails_within_a_second_when_the_device_is_deleted() {
    in_namespace(|| async {
        let mut baseline = None;
        for cycle in 0..CYCLES {
            let stack = match cycle % 3 {
                0 => stack(OffloadMode::Off),
                1 => stack(OffloadMode::On),
                _ => {
                    impaired_stack(OffloadMode::On, 1, Settings::default(), ackclock::TcpConfig::default()).0
                }
            };
            delete_amid_calls(stack).await;
            let open = settled_descriptors(baseline).await;
            // The first cycle may leave what the runtime caches.
            if cycle > 0 {
                assert_eq!(open, *baseline.get_or_insert(open), "descriptors after cycle {cycle}");
            }
        }
    });
}

async fn delete_amid_calls(stack: Stack) {
    let mut pending = pending_calls(&stack).await;
    // All are waiting: none may have ended by itself.
    tokio::time::sleep(Duration::from_millis(50)).await;
    if let Some(ended) = pending.try_join_next() {
        panic!("ended by itself: {ended:?}");
    }

    let began = Instant::now();
    ip(&format!("link del {TUN}"));
    while let Some(ended) = pending.join_next().await {
        let (call, error) = ended.unwrap();
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NetworkDown, "{call}: {error}");
        assert!(error.to_string().contains("device is gone"), "{call}: {error}");
        assert!(began.elapsed() < Duration::from_secs(1), "{call} after {:?}", began.elapsed());
    }
    let error = stack.connect(Family::V4.kernel(7)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NetworkDown);
    tokio::time::timeout(Duration::from_secs(1), stack.shutdown())
        .await
        .expect("nothing is left to wait for");
}

/// Calls of every kind, each of which waits.
async fn pending_calls(stack: &Stack) -> JoinSet<(&'static str, io::Result<()>)> {
    let listener = net::TcpListener::bind(Family::V6.kernel(7)).await.unwrap();
    let mut calls = JoinSet::new();

    // Each call keeps the kernel's end too, which would send a FIN or a reset if it were dropped.
    let (mut stream, theirs) = joined(stack, &listener).await;
    calls.spawn(async move { keep(theirs, "read", stream.read(&mut [0; 1]).await.map(drop)) });
    let (mut stream, theirs) = joined(stack, &listener).await;
    calls.spawn(async move { keep(theirs, "write", write_for_ever(&mut stream).await) });
    let (stream, theirs) = joined(stack, &listener).await;
    calls.spawn(async move { keep(theirs, "peek", stream.peek(&mut [0; 1]).await.map(drop)) });
    let (stream, theirs) = joined(stack, &listener).await;
    calls.spawn(async move {
        let readable = stream.readable().await;
        keep(theirs, "readable", readable.and_then(|()| stream.try_read(&mut [0; 1]).map(drop)))
    });
    let accepts = stack.listen(Family::V6.stack(7)).unwrap();
    calls.spawn(async move { ("accept", accepts.accept().await.map(drop)) });
    let deferred = stack.listener().addr(Family::V6.stack(8)).deferred().unwrap();
    calls.spawn(async move { ("incoming", deferred.incoming().await.map(drop)) });
    let connects = stack.clone();
    // An unused address of the link: the kernel forwards nothing and sends no error.
    let nobody = "10.9.0.77:7".parse().unwrap();
    calls.spawn(async move { ("connect", connects.connect(nobody).await.map(drop)) });
    calls
}

async fn joined(stack: &Stack, listener: &net::TcpListener) -> (ackclock::TcpStream, net::TcpStream) {
    let (ours, theirs) = tokio::join!(stack.connect(Family::V6.kernel(7)), listener.accept());
    (ours.unwrap(), theirs.unwrap().0)
}

fn keep(
    _until_now: net::TcpStream,
    call: &'static str,
    ended: io::Result<()>,
) -> (&'static str, io::Result<()>) {
    (call, ended)
}

async fn write_for_ever(stream: &mut ackclock::TcpStream) -> io::Result<()> {
    loop {
        stream.write_all(&[0; 65_536]).await?;
    }
}

/// The number of descriptors of this process, once that is the expected one, or two seconds have passed.
async fn settled_descriptors(expected: Option<usize>) -> usize {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    for _ in 0..200 {
        if expected == Some(open()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(if expected.is_some() { 10 } else { 2 })).await;
    }
    open()
}

const CYCLES: u32 = 20;
