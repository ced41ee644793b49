//! Ends of connections with the kernel at the other end: half closes, resets, refusals, closes that cross.

use std::io::ErrorKind;
use std::time::Duration;

use ackclock::{Stack, State, TcpStream};
use ackclock_device::OffloadMode;
use ackclock_tests::kernel::payload::{Digest, receive, send};
use ackclock_tests::kernel::scene::{Family, stack, within};
use ackclock_tests::netns::in_namespace;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};
use tokio::net;

#[test]
fn stack_half_closes_and_reads_what_the_kernel_sends_after() {
    each_scene(|stack, family| async move {
        let (ours, mut theirs) = joined(&stack, family).await;
        let (mut reader, mut writer) = ours.into_split();
        let (first, received) = tokio::join!(send_all(&mut writer, 1), receive(&mut theirs));
        assert_eq!(received.unwrap(), first);
        // RFC 9293 §3.6 case 1: our FIN is acknowledged, theirs has not come.
        wait_for_state(&stack, &[State::FinWait2]).await;

        let (second, received) = tokio::join!(send_all(&mut theirs, 2), receive(&mut reader));
        assert_eq!(received.unwrap(), second);
        // Who closes first waits.
        wait_for_state(&stack, &[State::TimeWait]).await;
    });
}

#[test]
fn kernel_half_closes_and_reads_what_the_stack_sends_after() {
    each_scene(|stack, family| async move {
        let (mut ours, mut theirs) = joined(&stack, family).await;
        let (first, received) = tokio::join!(send_all(&mut theirs, 1), receive(&mut ours));
        assert_eq!(received.unwrap(), first);
        assert_eq!(ours.info().unwrap().state, State::CloseWait);

        let (second, received) = tokio::join!(send_all(&mut ours, 2), receive(&mut theirs));
        assert_eq!(received.unwrap(), second);
        drop(ours);
        wait_until_empty(&stack).await;
    });
}

#[test]
fn both_close_at_once_and_both_read_the_end() {
    each_scene(|stack, family| async move {
        for _ in 0..20 {
            let (mut ours, mut theirs) = joined(&stack, family).await;
            let (mine, kernels) = tokio::join!(ours.shutdown(), theirs.shutdown());
            mine.unwrap();
            kernels.unwrap();
            assert_eq!(within(LIMIT, &stack, ours.read(&mut [0; 1])).await.unwrap(), 0);
            assert_eq!(within(LIMIT, &stack, theirs.read(&mut [0; 1])).await.unwrap(), 0);
        }
    });
}

#[test]
fn reset_by_the_kernel_fails_the_stacks_read_and_write() {
    each_scene(|stack, family| async move {
        let (mut ours, theirs) = joined(&stack, family).await;
        theirs.set_zero_linger().unwrap();
        let reading = tokio::spawn(async move {
            let read = ours.read(&mut [0; 1]).await;
            (ours, read)
        });
        drop(theirs);
        let (mut ours, read) = within(LIMIT, &stack, reading).await.unwrap();
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert!(ours.write(b"x").await.is_err());
        drop(ours);
        wait_until_empty(&stack).await;
    });
}

#[test]
fn what_the_kernel_sent_before_its_reset_is_read_to_the_last_byte() {
    each_scene(|stack, family| async move {
        let (mut ours, mut theirs) = joined(&stack, family).await;
        theirs.write_all(LAST_WORDS).await.unwrap();
        within(LIMIT, &stack, async { while ours.peek(&mut [0; 64]).await.unwrap() < LAST_WORDS.len() {} })
            .await;
        theirs.set_zero_linger().unwrap();
        drop(theirs);
        until_reset(&stack, &ours).await;
        let read = read_on_after_reset(&stack, &mut ours).await;
        assert_eq!(read, text_and_reset());
    });
}

/// With the kernel as the reader: it must give the same sequence of results as the stack above.
#[test]
fn the_kernel_reads_what_the_stack_sent_before_its_reset() {
    each_scene(|stack, family| async move {
        let (mut ours, mut theirs) = joined(&stack, family).await;
        ours.write_all(LAST_WORDS).await.unwrap();
        within(LIMIT, &stack, async { while theirs.peek(&mut [0; 64]).await.unwrap() < LAST_WORDS.len() {} })
            .await;
        ours.abort();
        // An error shows in the kernel once its readiness does.
        within(LIMIT, &stack, async {
            while !theirs.ready(Interest::READABLE).await.unwrap().is_read_closed() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let read = read_on_after_reset(&stack, &mut theirs).await;
        assert_eq!(read, text_and_reset());
    });
}

#[test]
fn an_end_of_stream_before_the_reset_stays_one_on_both_sides() {
    each_scene(|stack, family| async move {
        // The kernel sends its FIN, and a reset later: data arrives that will not be read.
        let (mut ours, mut theirs) = joined(&stack, family).await;
        theirs.write_all(LAST_WORDS).await.unwrap();
        theirs.shutdown().await.unwrap();
        wait_for_state(&stack, &[State::CloseWait]).await;
        theirs.set_zero_linger().unwrap();
        drop(theirs);
        until_reset(&stack, &ours).await;
        let mut mine = Vec::new();
        let stacks = within(LIMIT, &stack, ours.read_to_end(&mut mine)).await.map_err(|error| error.kind());
        drop(ours);

        let (mut ours, mut theirs) = joined(&stack, family).await;
        ours.write_all(LAST_WORDS).await.unwrap();
        ours.shutdown().await.unwrap();
        wait_for_state(&stack, &[State::FinWait2]).await;
        ours.abort();
        within(LIMIT, &stack, async {
            while theirs.write(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let mut kernels = Vec::new();
        let read = within(LIMIT, &stack, theirs.read_to_end(&mut kernels)).await;
        assert_eq!((stacks, mine), (read.map_err(|error| error.kind()), kernels));
        assert_eq!(stacks, Ok(LAST_WORDS.len()));
    });
}

#[test]
fn kernel_that_closes_with_unread_data_resets_the_stack() {
    each_scene(|stack, family| async move {
        let (mut ours, theirs) = joined(&stack, family).await;
        ours.write_all(b"never read").await.unwrap();
        theirs.peek(&mut [0; 1]).await.unwrap();
        drop(theirs);
        let read = within(LIMIT, &stack, ours.read(&mut [0; 1])).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn abort_by_the_stack_resets_the_kernel() {
    each_scene(|stack, family| async move {
        let (ours, mut theirs) = joined(&stack, family).await;
        ours.abort();
        let read = within(LIMIT, &stack, theirs.read(&mut [0; 1])).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
        drop(ours);
        wait_until_empty(&stack).await;
    });
}

#[test]
fn abort_amid_a_transfer_resets_the_kernel() {
    each_scene(|stack, family| async move {
        let (mut ours, mut theirs) = joined(&stack, family).await;
        let reading = tokio::spawn(async move { receive(&mut theirs).await });
        send(&mut ours, LEN, 1).await.unwrap();
        ours.abort();
        let read = within(LIMIT, &stack, reading).await.unwrap();
        // If all acknowledged data had been read before, nothing would be left to reset.
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn stream_dropped_with_unread_data_resets_the_kernel() {
    each_scene(|stack, family| async move {
        let (ours, mut theirs) = joined(&stack, family).await;
        theirs.write_all(b"never read").await.unwrap();
        ours.peek(&mut [0; 1]).await.unwrap();
        drop(ours);
        let read = within(LIMIT, &stack, theirs.read(&mut [0; 1])).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn closed_port_refuses_at_once_each_way() {
    each_scene(|stack, family| async move {
        let refused = within(LIMIT, &stack, stack.connect(family.kernel(9))).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let refused = within(LIMIT, &stack, net::TcpStream::connect(family.stack(9))).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn dropped_stream_still_delivers_what_was_written() {
    each_scene(|stack, family| async move {
        let (mut ours, mut theirs) = joined(&stack, family).await;
        let reading = tokio::spawn(async move { receive(&mut theirs).await.unwrap() });
        let sent = send(&mut ours, LEN, 1).await.unwrap();
        drop(ours);
        assert_eq!(within(LIMIT, &stack, reading).await.unwrap(), sent);
    });
}

/// The results of a reader with a small buffer: each result, and after the text the error.
async fn read_on_after_reset(
    stack: &Stack,
    reader: &mut (impl AsyncRead + Unpin),
) -> Vec<Result<Vec<u8>, ErrorKind>> {
    let mut seen = Vec::new();
    while seen.last().is_none_or(Result::is_ok) && seen.len() < 10 {
        let mut buf = [0; 6];
        let read = within(LIMIT, stack, reader.read(&mut buf)).await;
        seen.push(read.map(|len| buf[..len].to_vec()).map_err(|error| error.kind()));
    }
    seen
}

/// The kernel's answer, which the stack must match.
fn text_and_reset() -> Vec<Result<Vec<u8>, ErrorKind>> {
    let text = LAST_WORDS.chunks(6).map(|part| Ok(part.to_vec()));
    text.chain([Err(ErrorKind::ConnectionReset)]).collect()
}

/// Waits until the stack has taken the reset.
async fn until_reset(stack: &Stack, stream: &TcpStream) {
    within(LIMIT, stack, async {
        while stream.info().unwrap().state != State::Closed {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Runs `scene` over IPv4 and IPv6, and packet by packet and with offload.
fn each_scene<F>(scene: impl Fn(Stack, Family) -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    in_namespace(|| async move {
        for mode in [OffloadMode::Off, OffloadMode::On] {
            let stack = stack(mode);
            for family in [Family::V4, Family::V6] {
                scene(stack.clone(), family).await;
            }
            stack.shutdown().await;
        }
    });
}

/// A connection between the stack and the kernel. Who opens it alternates with the family.
async fn joined(stack: &Stack, family: Family) -> (TcpStream, net::TcpStream) {
    if family == Family::V4 {
        let listener = net::TcpListener::bind(family.kernel(0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (ours, theirs) =
            within(LIMIT, stack, async { tokio::join!(stack.connect(addr), listener.accept()) }).await;
        (ours.unwrap(), theirs.unwrap().0)
    } else {
        let listener = stack.listen(family.stack(0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let (ours, theirs) =
            within(LIMIT, stack, async { tokio::join!(listener.accept(), net::TcpStream::connect(addr)) })
                .await;
        (ours.unwrap().0, theirs.unwrap())
    }
}

/// Sends, then closes this direction.
async fn send_all(writer: &mut (impl AsyncWrite + Unpin), seed: u64) -> Digest {
    let sent = send(writer, LEN, seed).await.unwrap();
    writer.shutdown().await.unwrap();
    sent
}

/// Waits until the states of the stack's connections are these.
async fn wait_for_state(stack: &Stack, expected: &[State]) {
    let matches = || stack.connections().iter().map(|(_, info)| info.state).eq(expected.iter().copied());
    within(LIMIT, stack, async {
        while !matches() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn wait_until_empty(stack: &Stack) {
    wait_for_state(stack, &[]).await;
}

const LAST_WORDS: &[u8] = b"the last words before the reset";
const LEN: u64 = 4 << 20;
const LIMIT: Duration = Duration::from_secs(30);
