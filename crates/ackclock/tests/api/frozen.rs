//! A connection leaves its stack as bytes and comes back: with its data, its peer unaware.

use std::io::ErrorKind;

use ackclock::congestion::Registry;
use ackclock::{FreezeError, Frozen, Recorded, Stack, TcpConfig, TcpStream, ThawError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{connection, hosts, kind, settle};

const LEN: usize = 2_000_000;

fn byte(at: usize) -> u8 {
    u8::try_from(at % 251).unwrap()
}

/// Writes the whole text, in pieces, and moves the stream between two of them.
async fn send(stack: &Stack, mut stream: TcpStream, moved: impl Fn(&Stack, TcpStream, usize) -> TcpStream) {
    let text: Vec<u8> = (0..LEN).map(byte).collect();
    for (number, piece) in text.chunks(LEN / 20).enumerate() {
        stream.write_all(piece).await.unwrap();
        stream = moved(stack, stream, number);
    }
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 7, "the peer's answer");
}

async fn receive(mut stream: TcpStream) {
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    assert!(received.len() == LEN && (0..LEN).all(|at| received[at] == byte(at)), "{} bytes", received.len());
    stream.write_all(&[7]).await.unwrap();
}

#[tokio::test]
async fn stream_that_is_frozen_again_and_again_loses_nothing() {
    let hosts = hosts();
    let (client, server) = connection(&hosts).await;
    let moved = |stack: &Stack, stream: TcpStream, _| stack.thaw(&stream.freeze().unwrap(), None).unwrap();
    tokio::join!(send(&hosts.client, client, moved), receive(server));
}

#[tokio::test]
async fn portable_stream_goes_on_with_any_controller() {
    let hosts = hosts();
    let (client, server) = connection(&hosts).await;
    let moved = |stack: &Stack, stream: TcpStream, number: usize| {
        let name = ["reno", "vegas", "bbr", "cubic"][number % 4];
        let tcp = TcpConfig { congestion: Registry::builtin().find(name).unwrap(), ..TcpConfig::default() };
        let frozen = Frozen::from_bytes(stream.freeze_portable().unwrap().as_bytes());
        let stream = stack.thaw(&frozen, Some(tcp)).unwrap();
        assert_eq!(stream.info().unwrap().congestion, name);
        stream
    };
    tokio::join!(send(&hosts.client, client, moved), receive(server));
}

#[tokio::test]
async fn calls_on_a_stream_that_left_say_so_and_its_end_closes_nothing() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    let frozen = {
        let waiting = client.readable();
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            read = &mut waiting => panic!("{read:?}"),
            () = settle() => {}
        }
        let frozen = client.freeze_portable().unwrap();
        assert_eq!(kind(waiting.await), ErrorKind::NotConnected, "a task that waits learns of it");
        frozen
    };
    assert_eq!(kind(client.read_u8().await), ErrorKind::NotConnected);
    assert_eq!(kind(client.write_all(b"x").await), ErrorKind::NotConnected);
    let again = client.freeze().unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Unsupported);
    assert_eq!(again.downcast::<FreezeError>().unwrap(), FreezeError::NoConnection);
    drop(client);
    settle().await;
    let mut client = hosts.client.thaw(&frozen, None).unwrap();
    let twice = hosts.client.thaw(&frozen, None).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Unsupported);
    server.write_all(b"!").await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), b'!');
}

#[tokio::test]
async fn damaged_bytes_are_refused() {
    let hosts = hosts();
    let (client, _server) = connection(&hosts).await;
    for frozen in [b"".to_vec(), vec![7; 100], client.freeze_portable().unwrap().as_bytes()[..40].to_vec()] {
        let refused = hosts.client.thaw(&Frozen::from_bytes(frozen), None).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidData);
        assert!(matches!(refused.downcast::<ThawError>().unwrap(), ThawError::Form(_)));
    }
}

#[tokio::test]
async fn recorded_stack_keeps_its_streams() {
    let path = std::env::temp_dir().join(format!("ackclock-frozen-{}", std::process::id()));
    let (left, right) = ackclock::device::memory::pair(ackclock::device::memory::Config::default());
    let recording = ackclock::Recording::new(&path);
    let client = Stack::builder().device(left).address("10.0.0.1/24".parse().unwrap()).record(recording);
    let client = client.spawn().unwrap();
    let server = Stack::builder().device(right).address("10.0.0.2/24".parse().unwrap()).spawn().unwrap();
    let listener = server.listen("10.0.0.2:80".parse().unwrap()).unwrap();
    let mut stream = client.connect("10.0.0.2:80".parse().unwrap()).await.unwrap();
    let refused = stream.freeze().unwrap_err();
    assert_eq!(refused.downcast::<Recorded>().unwrap(), Recorded);
    let (mut accepted, _) = listener.accept().await.unwrap();
    stream.write_all(b"x").await.unwrap();
    assert_eq!(accepted.read_u8().await.unwrap(), b'x');
    std::fs::remove_file(path).unwrap();
}
