//! Recordings of stacks: what tasks and drivers do is repeated call by call.

use ackclock::congestion::Registry;
use ackclock::journal::{Changes, JournalEnd, Replay};
use ackclock::{BuildError, Recording, RecordingError, Stack, TcpStream};
use ackclock_device::memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
