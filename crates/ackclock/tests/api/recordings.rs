//! Recordings of stacks: what tasks and drivers do is repeated call by call.

use ackclock::congestion::Registry;
use ackclock::journal::{Changes, JournalEnd, Replay};
use ackclock::{BuildError, Recording, RecordingError, Stack, TcpStream, Warning};
use ackclock_device::memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{addr, between, ends, host};

fn path(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("ackclock-{name}-{}", std::process::id()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_server_of_many_connections_is_replayed() {
    let path = path("recorded-server");
    let (left, right) = memory::pair(memory::Config::default());
    let client = Stack::builder().device(left).address("10.0.0.1/24".parse().unwrap()).spawn().unwrap();
    let builder = Stack::builder().device(right).address("10.0.0.2/24".parse().unwrap());
    let server = builder.record(Recording::new(&path).program("a test")).spawn().unwrap();
    let listener = server.listen("10.0.0.2:7".parse().unwrap()).unwrap();
    listener.set_ttl(9).unwrap();
    let serve = async |mut stream: TcpStream| {
        let mut data = Vec::new();
        stream.read_to_end(&mut data).await.unwrap();
        stream.write_all(&data).await.unwrap();
        stream.shutdown().await.unwrap();
    };
    let ask = async |len: usize| {
        let mut stream = client.connect("10.0.0.2:7".parse().unwrap()).await.unwrap();
        stream.write_all(&vec![7; len]).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut data = Vec::new();
        stream.read_to_end(&mut data).await.unwrap();
        assert_eq!(data.len(), len);
    };
    for len in [0, 1, 1000, 300_000] {
        let accept = async { serve(listener.accept().await.unwrap().0).await };
        tokio::join!(accept, ask(len));
    }
    assert!(server.recording().is_some_and(|info| info.calls > 10 && info.ended.is_none()));
    drop(listener);
    server.shutdown().await;
    assert_eq!(server.recording().and_then(|info| info.ended), Some(JournalEnd::Closed));

    let file = std::fs::File::open(&path).unwrap();
    let mut replay = Replay::open(file, &Registry::builtin(), Changes::default()).unwrap();
    while let Some(step) = replay.step(|_, _| ()).unwrap() {
        assert_eq!(step.departure, None);
    }
    assert_eq!(replay.end(), Some(JournalEnd::Closed));
    assert_eq!(replay.header().program, "a test");
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn several_queues_and_small_limits_are_refused() {
    let path = path("refused");
    let (queues, _ends): (Vec<_>, Vec<_>) = (0..2).map(|_| memory::pair(memory::Config::default())).unzip();
    let refused = Stack::builder().queues(queues).record(path.as_path()).spawn();
    assert!(matches!(refused, Err(BuildError::Recording(RecordingError::Queues))));
    let (device, _end) = memory::pair(memory::Config::default());
    let refused = Stack::builder().device(device).record(Recording::new(&path).limit(65_535)).spawn();
    assert!(matches!(refused, Err(BuildError::Recording(RecordingError::Limit(65_535)))));
    assert!(!path.exists(), "a refused stack leaves no file");
}

/// A stack that is recorded to a pipe, its peer, and the reading end.
#[cfg(target_os = "linux")]
fn recorded_to_a_pipe() -> (Stack, Stack, std::io::PipeReader) {
    use std::os::fd::AsRawFd;
    let (reader, writer) = std::io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let (left, right) = memory::pair(memory::Config::default());
    let stack = host("10.0.0.1/24", "fd00::1/64").device(left).record(Recording::new(path)).spawn().unwrap();
    let peer = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
    (stack, peer, reader)
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_stops_ends_the_recording_and_never_the_stack() {
    ends(|| async {
        let (stack, peer, reader) = recorded_to_a_pipe();
        let mut warnings = stack.warnings();
        let (from, to) = (peer.udp(addr("10.0.0.2:9")).unwrap(), stack.udp(addr("10.0.0.1:9")).unwrap());
        // A recording holds datagrams whole: more than the 8 MiB that wait for a reader, and its pipe.
        for _ in 0..8000 {
            from.send_to(&[7; 1400], addr("10.0.0.1:9")).await.unwrap();
            to.recv_from(&mut [0; 1400]).await.unwrap();
        }
        let info = stack.recording().unwrap();
        assert_eq!(info.ended, Some(JournalEnd::Failed(std::io::ErrorKind::WouldBlock)));
        assert!(info.waiting > 7 << 20 && info.bytes <= 1 << 20, "{info:?}");
        let warning = warnings.next().await.unwrap();
        assert_eq!(warning, Warning::Recording { bytes: info.bytes, why: info.ended.unwrap() });
        assert!(
            warning.to_string().contains("the program that reads the recording is too slow"),
            "{warning}"
        );

        let (mut ours, mut theirs) = between(&stack, &peer).await;
        ours.write_all(b"it goes on").await.unwrap();
        theirs.read_exact(&mut [0; 10]).await.unwrap();
        drop((ours, theirs));
        stack.shutdown().await;
        drop(reader);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_gets_the_whole_recording_and_one_without_a_reader_fails() {
    use std::io::Read;
    ends(|| async {
        let (stack, peer, mut reader) = recorded_to_a_pipe();
        let reading = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // The test's own end of the pipe stays open: it reads to the record of the end.
            let mut part = [0; 65_536];
            while Replay::open(&bytes[..], &Registry::builtin(), Changes::default())
                .and_then(|mut replay| {
                    while replay.step(|_, _| ())?.is_some() {}
                    Ok(replay.end())
                })
                .map_or(true, |end| end.is_none())
            {
                let len = reader.read(&mut part).unwrap();
                bytes.extend_from_slice(&part[..len]);
            }
        });
        let (mut ours, mut theirs) = between(&stack, &peer).await;
        ours.write_all(&[7; 100_000]).await.unwrap();
        theirs.read_exact(&mut [0; 100_000]).await.unwrap();
        stack.shutdown().await;
        assert_eq!(stack.recording().and_then(|info| info.ended), Some(JournalEnd::Closed));
        reading.join().unwrap();

        let (stack, _peer, reader) = recorded_to_a_pipe();
        drop(reader);
        let _listener = stack.listen(addr("10.0.0.1:7")).unwrap();
        // The driver's thread hands over before it sleeps; the writing thread reports with the next call.
        let broken = Some(JournalEnd::Failed(std::io::ErrorKind::BrokenPipe));
        while stack.recording().unwrap().ended != broken {
            tokio::task::yield_now().await;
        }
    });
}
