//! How a stack ends.

use std::io::ErrorKind;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock::{BuildError, Stack};
use ackclock_device::{Device, ReceiveBatch, memory};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use crate::support::{addr, between, connection, host, hosts, hosts_with_network, kind, settle};

/// Whether the device at the other end of the cable was dropped.
fn is_unplugged(device: &mut impl Device) -> bool {
    let mut batch = ReceiveBatch::new(64, 1 << 20);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match device.poll_receive(&mut cx, &mut batch) {
            Poll::Ready(Ok(_)) => batch.clear(),
            Poll::Ready(Err(_)) => return true,
            Poll::Pending => return false,
        }
    }
}

#[tokio::test]
async fn the_last_handle_closes_the_device() {
    let (left, mut right) = memory::pair(memory::Config::default());
    let stack = host("10.0.0.1/24", "fd00::1/64").device(left).spawn().unwrap();
    let other = stack.clone();
    let listener = stack.listen(addr("10.0.0.1:80")).unwrap();
    drop((stack, other));
    settle().await;
    assert!(!is_unplugged(&mut right), "a listener keeps the stack");
    drop(listener);
    settle().await;
    assert!(is_unplugged(&mut right));
}

#[tokio::test]
async fn a_stream_keeps_the_stack_and_finishes_after_the_last_handle() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    let (client_stack, server_stack) = (hosts.client, hosts.server);
    drop(client_stack);
    let writing = tokio::spawn(async move { client.write_all(&[5; 300_000]).await });
    let mut received = Vec::new();
    server.read_to_end(&mut received).await.unwrap();
    assert_eq!(received.len(), 300_000);
    writing.await.unwrap().unwrap();
    drop((server, server_stack));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_finishes_delays_the_end_by_the_close_timeout_at_most() {
    for is_dropped in [false, true] {
        let (client, server, network) = hosts_with_network();
        let (mut stream, _peer) = between(&client, &server).await;
        network.set_blackout(true);
        stream.write_all(b"never acknowledged").await.unwrap();
        let mut stream = Some(stream).filter(|_| !is_dropped);
        let started = Instant::now();
        timeout(Duration::from_secs(60), client.shutdown()).await.expect("it ends");
        let took = started.elapsed();
        assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(12), "{is_dropped}: {took:?}");
        if let Some(stream) = &mut stream {
            assert_eq!(kind(stream.read(&mut [0; 1]).await), ErrorKind::NetworkDown);
        }
    }
}

#[tokio::test]
async fn shutdown_delivers_what_was_written_and_then_fails_every_call() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    client.write_all(&[9; 100_000]).await.unwrap();
    let reading = tokio::spawn(async move {
        let mut received = Vec::new();
        server.read_to_end(&mut received).await.unwrap();
        received.len()
    });
    timeout(Duration::from_secs(5), hosts.client.shutdown()).await.unwrap();
    assert_eq!(reading.await.unwrap(), 100_000);
    assert_eq!(kind(client.write(b"x").await), ErrorKind::NetworkDown);
    assert_eq!(kind(hosts.client.connect(addr("10.0.0.2:80")).await), ErrorKind::NetworkDown);
    hosts.client.shutdown().await;
}

#[test]
fn a_runtime_that_ends_fails_the_calls_of_another() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (driving, calling) = (runtime(), runtime());
    let (left, _right) = memory::pair(memory::Config::default());
    let stack = driving.block_on(async { host("10.0.0.1/24", "fd00::1/64").device(left).spawn() }).unwrap();
    drop(driving);
    let error = calling.block_on(stack.connect(addr("10.0.0.2:80"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NetworkDown);
    assert!(error.to_string().contains("driver has ended"), "{error}");
}

#[test]
fn what_a_stack_cannot_be_built_from_is_said() {
    let (left, _right) = memory::pair(memory::Config::default());
    assert!(matches!(Stack::builder().device(left).spawn(), Err(BuildError::NoRuntime)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        assert!(matches!(Stack::builder().spawn(), Err(BuildError::NoDevice)));
        for bad in ["0.0.0.0/0", "224.0.0.1/24", "10.0.0.255/24", "ff02::1/64"] {
            let (left, _right) = memory::pair(memory::Config::default());
            let built = Stack::builder().device(left).address(bad.parse().unwrap()).spawn();
            assert!(matches!(built, Err(BuildError::BadAddress(_))), "{bad}");
        }
        let unknown = Stack::builder().congestion_control("no-such-controller").unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::InvalidInput);
        assert!(unknown.to_string().contains("cubic"), "the error lists the known names: {unknown}");
    });
}
