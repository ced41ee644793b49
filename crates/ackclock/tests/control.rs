//! The control socket: what it answers, to whom, and what it bears.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ackclock::trace::{Entry, Record};
use ackclock::{Stack, TcpStream};
use ackclock_device::memory;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_blocking;

/// A path in a directory of its own, which goes with it.
struct SocketDir(PathBuf);

impl SocketDir {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("ackclock-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("control")
    }
}

impl Drop for SocketDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Two stacks, the first with a control socket, and a connection between them.
struct ControlledStacks {
    stack: Stack,
    ours: TcpStream,
    theirs: TcpStream,
    peer: Stack,
}

async fn stacks(path: &Path) -> ControlledStacks {
    let (left, right) = memory::pair(memory::Config::default());
    let builder = Stack::builder().address("10.0.0.1/24".parse().unwrap()).flight_recorder(256);
    let stack = builder.device(left).control(path).spawn().unwrap();
    let peer = Stack::builder().address("10.0.0.2/24".parse().unwrap()).device(right).spawn().unwrap();
    let listener = peer.listen("10.0.0.2:80".parse().unwrap()).unwrap();
    let (ours, theirs) = tokio::join!(stack.connect("10.0.0.2:80".parse().unwrap()), listener.accept());
    ControlledStacks { stack, ours: ours.unwrap(), theirs: theirs.unwrap().0, peer }
}

/// A client, which blocks.
struct Client(BufReader<UnixStream>);

impl Client {
    fn new(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next answer; `None`: the socket is closed.
    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => None,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            read => {
                read.unwrap();
                let answer: Value = serde_json::from_str(&line).unwrap();
                assert_eq!(answer["schema"], json!(2), "{answer}");
                Some(answer)
            }
        }
    }

    fn ask(&mut self, request: &Value) -> Value {
        self.send(&request.to_string());
        // Records of a trace come whenever there are some.
        std::iter::from_fn(|| self.next())
            .find(|answer| answer["answer"] != json!("trace"))
            .expect("an answer")
    }
}

/// Runs what blocks beside the stacks.
async fn with<T: Send + 'static>(path: PathBuf, f: impl FnOnce(&Path) -> T + Send + 'static) -> T {
    spawn_blocking(move || f(&path)).await.unwrap()
}

/// Both stacks have the same address, on separate networks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stacks_of_one_program_have_a_socket_each() {
    let directories = ["one", "other"].map(SocketDir::new);
    let [path, other] = directories.each_ref().map(SocketDir::socket);
    let (one, second) = (stacks(&path).await, stacks(&other).await);
    let connections = |path: PathBuf| {
        with(path, |path| {
            let answer = Client::new(path).ask(&json!({ "request": "connections" }));
            answer["connections"].as_array().map(Vec::len)
        })
    };
    assert_eq!((connections(path.clone()).await, connections(other.clone()).await), (Some(1), Some(1)));

    let (device, _far) = memory::pair(memory::Config::default());
    let third = Stack::builder().address("10.0.0.1/24".parse().unwrap()).device(device).control(&other);
    let error = third.spawn().unwrap_err().to_string();
    assert!(error.contains(&*other.to_string_lossy()) && error.contains("name another path"), "{error}");
    assert_eq!(connections(other.clone()).await, Some(1), "it is still the second stack's");

    let ControlledStacks { stack, ours, theirs, peer } = one;
    drop((ours, theirs, peer));
    stack.shutdown().await;
    // Its task learns of the end as this one does, and removes it.
    tokio::time::timeout(Duration::from_secs(10), async {
        while path.exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("the socket goes with its stack");
    assert_eq!(connections(other.clone()).await, Some(1));
    let again = stacks(&path).await;
    assert_eq!(connections(path).await, Some(1));
    drop((again, second));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_lists_connections_and_what_each_waits_for() {
    let directory = SocketDir::new("lists");
    let mut stacks = stacks(&directory.socket()).await;
    stacks.ours.write_all(b"hello").await.unwrap();
    stacks.theirs.read_exact(&mut [0; 5]).await.unwrap();
    stacks.ours.delivered().await.unwrap();
    let addr = stacks.ours.local_addr().unwrap();
    let _listener = stacks.stack.listen("0.0.0.0:9".parse().unwrap()).unwrap();
    let answers = with(directory.socket(), |path| {
        let mut client = Client::new(path);
        ["stack", "connections", "listeners", "counters"].map(|what| client.ask(&json!({ "request": what })))
    });
    let [stack, connections, listeners, counters] = answers.await;
    let listener = json!({
        "local": "0.0.0.0:9", "waiting": 0, "backlog": 1024, "half_open": 0, "deferred": false
    });
    assert_eq!((&listeners["listeners"], &listeners["left_out"]), (&json!([listener]), &json!(0)));
    assert_eq!((&stack["pid"], &stack["connections"]), (&json!(std::process::id()), &json!(1)));
    assert_eq!(stack["addresses"], json!(["10.0.0.1/24"]));
    let only = &connections["connections"][0];
    assert_eq!(connections["connections"].as_array().unwrap().len(), 1);
    assert_eq!((&only["id"], &only["local"]), (&json!("0"), &json!(addr.to_string())));
    assert_eq!((&only["waits_for"], &only["traced"]), (&json!("application"), &json!("newest")));
    assert_eq!((&only["info"]["bytes_acked"], &only["info"]["state"]), (&json!(5), &json!("established")));
    assert!(counters["counters"]["opened_actively"] == json!(1), "{counters}");
    drop(stacks.peer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_streams_to_the_client_and_ends_with_it() {
    let directory = SocketDir::new("trace");
    let mut stacks = stacks(&directory.socket()).await;
    let records = |answer: &Value| -> Vec<Entry> {
        let digits = answer["records"].as_str().unwrap().as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let bytes: Vec<u8> = digits.chunks(2).map(byte).collect();
        let decoded = |record: &[u8]| Entry::decode(Record::from_bytes(record.try_into().unwrap())).unwrap();
        bytes.chunks(Record::LEN).map(decoded).collect()
    };
    let path = directory.socket();
    let (mut client, dumped) = with(path.clone(), |path| {
        let mut client = Client::new(path);
        let dumped = client.ask(&json!({ "request": "dump", "connection": "0" }));
        assert_eq!(
            client.ask(&json!({ "request": "trace-on", "connection": "0" }))["answer"],
            json!("trace-on")
        );
        let busy = client.ask(&json!({ "request": "trace-on", "connection": "0" }));
        assert_eq!(busy["error"]["kind"], json!("busy"), "{busy}");
        let other = Client::new(path).ask(&json!({ "request": "trace-on", "connection": "0" }));
        assert_eq!(other["error"]["kind"], json!("traced-already"), "{other}");
        (client, dumped)
    })
    .await;
    let handshake = records(&dumped);
    assert!(handshake.iter().any(|entry| matches!(entry, Entry::State(..))), "{handshake:?}");

    stacks.ours.write_all(&[7; 5000]).await.unwrap();
    stacks.theirs.read_exact(&mut [0; 5000]).await.unwrap();
    let written = |entry: &Entry| matches!(entry, Entry::Written { len: 5000, .. });
    let client = spawn_blocking(move || {
        while !records(&client.next().expect("records")).iter().any(written) {}
        client
    });
    let client = client.await.unwrap();
    // The program's own recorder is back once the client has gone.
    assert!(tokio::time::timeout(Duration::from_millis(300), stacks.stack.next_trace()).await.is_err());
    drop(client);
    let again = with(path, |path| {
        let mut client = Client::new(path);
        loop {
            let all = client.ask(&json!({ "request": "connections" }));
            if all["connections"][0]["traced"] == json!("newest") {
                return client.ask(&json!({ "request": "trace-off", "connection": "0" }));
            }
        }
    });
    assert_eq!(again.await["error"]["kind"], json!("not-traced"));
    drop((stacks.theirs, stacks.peer));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_e2_what_is_no_request_is_answered_with_what_helps_and_a_long_one_refused() {
    let directory = SocketDir::new("requests");
    let stacks = stacks(&directory.socket()).await;
    with(directory.socket(), |path| {
        let mut client = Client::new(path);
        for (line, kind, says) in [
            ("GET / HTTP/1.0", "bad-json", "as in {\"request\": \"connections\"}"),
            ("[1, 2]", "bad-json", "one JSON object"),
            ("{\"request\": \"shutdown\"}", "unknown-request", "there are stack, connections"),
            ("{\"request\": \"dump\", \"connection\": \"77\"}", "no-such-connection", "lists the ids"),
            ("{\"request\": \"dump\", \"connection\": \"9.0\"}", "no-such-connection", "\"9.0\""),
        ] {
            client.send(line);
            let error = &client.next().expect(line)["error"];
            assert_eq!(error["kind"], json!(kind), "{line}: {error}");
            assert!(error["message"].as_str().unwrap().contains(says), "{line}: {error}");
        }
        // It goes on with the next request.
        assert_eq!(client.ask(&json!({ "request": "counters" }))["answer"], json!("counters"));
        let mut long = Client::new(path);
        // The socket may be closed before all of it is written.
        let _ = long.0.get_mut().write_all(&[b' '; 10_000]);
        assert_eq!(long.next().expect("why")["error"]["kind"], json!("too-long"));
        assert!(long.next().is_none(), "it is closed");
    })
    .await;
    drop(stacks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_request_is_answered_and_a_byte_more_closes_its_client_alone() {
    let directory = SocketDir::new("longest");
    let stacks = stacks(&directory.socket()).await;
    with(directory.socket(), |path| {
        // A request of this many bytes, its end of line included.
        let padded = |bytes: usize| format!("{:<width$}", "{\"request\": \"counters\"}", width = bytes - 1);
        let (mut in_use, mut long) = (Client::new(path), Client::new(path));
        in_use.send(&padded(4096));
        assert_eq!(in_use.next().expect("an answer")["answer"], json!("counters"));
        for _ in 0..2 {
            long.send(&padded(4096));
            assert_eq!(long.next().expect("an answer")["answer"], json!("counters"));
        }
        long.send(&padded(4097));
        assert_eq!(long.next().expect("why")["error"]["kind"], json!("too-long"));
        assert!(long.next().is_none(), "it is closed");
        in_use.send(&padded(4096));
        assert_eq!(in_use.next().expect("an answer")["answer"], json!("counters"));
    })
    .await;
    drop(stacks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_e3_a_hundred_clients_are_bounded_and_one_that_does_not_read_holds_up_no_other() {
    let directory = SocketDir::new("clients");
    let mut stacks = stacks(&directory.socket()).await;
    let (clients, refused) = with(directory.socket(), |path| {
        let mut clients = vec![Client::new(path)];
        // The first is served before the others come.
        assert_eq!(clients[0].ask(&json!({ "request": "counters" }))["answer"], json!("counters"));
        clients.extend((1..100).map(|_| Client::new(path)));
        for client in &mut clients {
            // One that was refused is closed.
            let _ = client.0.get_mut().write_all(b"{\"request\": \"counters\"}\n");
        }
        let answers: Vec<Value> =
            clients.iter_mut().map(|client| client.next().expect("an answer")).collect();
        let refused =
            answers.iter().filter(|answer| answer["error"]["kind"] == json!("too-many-clients")).count();
        let served = |answer: &Value| answer["answer"] == json!("counters");
        assert!(answers[..16].iter().all(served), "those who came first keep their places");
        assert!(!answers[16..].iter().any(served));
        // The first does not read: it asks until the socket takes no more.
        let deaf = clients[0].0.get_mut();
        deaf.set_nonblocking(true).unwrap();
        while deaf.write_all(&b"{\"request\": \"connections\"}\n".repeat(50)).is_ok() {}
        assert_eq!(clients[1].ask(&json!({ "request": "counters" }))["answer"], json!("counters"));
        (clients, refused)
    })
    .await;
    assert_eq!(refused, 84);
    // The stack serves its own connections meanwhile.
    stacks.ours.write_all(b"hello").await.unwrap();
    stacks.theirs.read_exact(&mut [0; 5]).await.unwrap();
    // Places are free again once clients have gone.
    drop(clients);
    with(directory.socket(), |path| {
        while Client::new(path).ask(&json!({ "request": "counters" }))["error"].is_object() {}
    })
    .await;
    drop(stacks.peer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_e1_another_user_is_refused_whatever_the_mode_of_the_socket() {
    let directory = SocketDir::new("users");
    let stacks = stacks(&directory.socket()).await;
    let mode = std::fs::metadata(directory.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !is_root || Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: another user than root's needs root and setpriv");
        return;
    }
    let as_nobody = |path: &Path| {
        // The refusal arrives without a request.
        let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(10)\n\
                      s.connect(sys.argv[1])\nprint(s.makefile().read())";
        let arguments = ["--reuid=65534", "--regid=65534", "--clear-groups", "python3", "-c", script];
        // The user may not be allowed into this one's directories of programs.
        let output =
            Command::new("setpriv").env("PATH", "/usr/bin:/bin").args(arguments).arg(path).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let said = with(directory.socket(), move |path| {
        let by_mode = as_nobody(path);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
        [by_mode, as_nobody(path)]
    });
    let [by_mode, by_user] = said.await;
    assert!(by_mode.contains("PermissionError"), "{by_mode}");
    assert!(by_user.contains("not-permitted") && !by_user.contains("10.0.0.1"), "{by_user}");
    drop(stacks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_socket_replaces_a_stale_one_alone_and_goes_with_the_stack() {
    let directory = SocketDir::new("stale");
    let path = directory.socket();
    let spawn = |path: &Path| {
        let (device, _end) = memory::pair(memory::Config::default());
        let refused = Stack::builder().device(device).control(path).spawn();
        refused.map(drop).unwrap_err().to_string()
    };
    std::fs::write(&path, "a file").unwrap();
    assert!(spawn(&path).contains("is not a socket"));
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
    std::fs::remove_file(&path).unwrap();
    assert!(spawn(&directory.0.join("none/control")).contains("cannot be opened"));

    drop(UnixListener::bind(&path).unwrap());
    let stacks = stacks(&path).await;
    assert!(spawn(&path).contains("in use by another program"));
    let mut client = with(path.clone(), Client::new).await;
    stacks.stack.shutdown().await;
    let closed = spawn_blocking(move || client.0.read(&mut [0; 10]).unwrap_or(0));
    assert_eq!(closed.await.unwrap(), 0, "its clients are closed");
    for _ in 0..1000 {
        if !path.exists() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} is still there", path.display());
}
