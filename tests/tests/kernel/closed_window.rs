//! A window that stays closed for 30 seconds, in both roles.

use std::time::Duration;

use ackclock::{ConnectionInfo, Stack, TcpStream};
use ackclock_device::OffloadMode;
use ackclock_tests::kernel::payload::{Digest, receive, send};
use ackclock_tests::kernel::scene::{Family, stack, within};
use ackclock_tests::netns::{Namespace, in_namespaces};
use tokio::io::AsyncWriteExt;
use tokio::net;
use tokio::time::sleep;

#[test]
fn kernel_that_does_not_read_is_waited_for() {
    // Tests: RFC 9293 MUST-35
    // Tests: RFC 9293 MUST-36
    // Tests: RFC 9293 MUST-37
    in_namespaces(|places| both(places, kernel_does_not_read));
}

#[test]
fn stack_that_does_not_read_holds_the_kernel() {
    in_namespaces(|places| both(places, stack_does_not_read));
}

/// IPv4 packet by packet and IPv6 with offload, at the same time.
fn both<F>([first, second]: [Namespace; 2], scene: impl Fn(Family, OffloadMode) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let other = first.handle().spawn(scene(Family::V4, OffloadMode::Off));
    second.run(scene(Family::V6, OffloadMode::On));
    second.run(async { other.await.unwrap() });
}

async fn kernel_does_not_read(family: Family, mode: OffloadMode) {
    let stack = stack(mode);
    let listener = net::TcpListener::bind(family.kernel(7)).await.unwrap();
    let (ours, theirs) = tokio::join!(stack.connect(family.kernel(7)), listener.accept());
    let mut theirs = theirs.unwrap().0;

    let (mut ours, sending) = (ours.unwrap(), stack.clone());
    let sent = tokio::spawn(async move {
        let sent = send(&mut ours, LEN, 1).await?;
        ours.shutdown().await?;
        std::io::Result::Ok((ours, sent))
    });
    wait_until(&stack, |info| info.snd_wnd == 0 && info.unacked == 0).await;
    let before = only_connection(&sending);
    sleep(CLOSED_FOR).await;
    let after = only_connection(&sending);
    assert_eq!(after.snd_wnd, 0, "the kernel's window stays closed");
    assert_eq!(after.bytes_acked, before.bytes_acked, "no data is pressed into a closed window");
    let probes = after.segments_sent - before.segments_sent;
    assert!((3..=60).contains(&probes), "{probes} probes in {CLOSED_FOR:?}");

    let received = within(LIMIT, &stack, receive(&mut theirs)).await.unwrap();
    let (_ours, sent) = sent.await.unwrap().expect("the connection outlives the closed window");
    assert_eq!(received, sent);
}

async fn stack_does_not_read(family: Family, mode: OffloadMode) {
    let stack = stack(mode);
    let listener = stack.listen(family.stack(7)).unwrap();
    let (ours, theirs) = tokio::join!(listener.accept(), net::TcpStream::connect(family.stack(7)));
    let (mut ours, _): (TcpStream, _) = ours.unwrap();
    let mut theirs = theirs.unwrap();
    let sent = tokio::spawn(async move {
        let sent: Digest = send(&mut theirs, LEN, 1).await?;
        theirs.shutdown().await?;
        std::io::Result::Ok(sent)
    });
    wait_until(&stack, |info| info.rcv_wnd == 0).await;
    let before = only_connection(&stack);
    sleep(CLOSED_FOR).await;
    let after = only_connection(&stack);
    assert_eq!(after.rcv_wnd, 0, "the window stays closed");
    assert_eq!(after.bytes_received, before.bytes_received, "nothing is taken into a closed window");
    assert!(after.segments_sent > before.segments_sent, "the kernel's probes are answered");

    let received = within(LIMIT, &stack, receive(&mut ours)).await.unwrap();
    assert_eq!(received, sent.await.unwrap().expect("the kernel outlives the closed window"));
}

fn only_connection(stack: &Stack) -> ConnectionInfo {
    let connections = stack.connections();
    let [(_, info)] = connections.as_slice() else { panic!("one connection, not {connections:?}") };
    info.clone()
}

async fn wait_until(stack: &Stack, condition: impl Fn(&ConnectionInfo) -> bool) {
    within(LIMIT, stack, async {
        while !condition(&only_connection(stack)) {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// More than all buffers on the way can hold.
const LEN: u64 = 64 << 20;
const CLOSED_FOR: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(60);
