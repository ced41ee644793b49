//! Common programs as clients and as servers of the stack: `curl`, `nc`, Python.

use std::io;
use std::time::Duration;

use ackclock::{Stack, TcpStream};
use ackclock_device::OffloadMode;
use ackclock_tests::kernel::payload::{Digest, Payload, digest, receive, send};
use ackclock_tests::kernel::program::{Program, eventually, have};
use ackclock_tests::kernel::scene::{Family, stack, within};
use ackclock_tests::netns::in_namespace;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::task::spawn_blocking;

#[test]
fn curl_downloads_from_the_stack() {
    with("curl", |stack, family| async move {
        let listener = stack.listen(family.stack(80)).unwrap();
        let url = format!("http://{}/file", family.stack(80));
        let curl = Program::start("curl", &["-sS", "--fail", "--globoff", &url], Vec::new());
        let (stream, _) = within(LIMIT, &stack, listener.accept()).await.unwrap();
        let served = within(LIMIT, &stack, serve(stream)).await.unwrap();
        assert_eq!(served.method, "GET");
        assert_eq!(digest(&output(curl).await), served.sent);
    });
}

#[test]
fn curl_uploads_to_the_stack() {
    with("curl", |stack, family| async move {
        let listener = stack.listen(family.stack(80)).unwrap();
        let url = format!("http://{}/file", family.stack(80));
        let data = Payload::new(LEN, 3).into_vec();
        let expected = digest(&data);
        let curl = Program::start(
            "curl",
            &["-sS", "--fail", "--globoff", "-H", "Expect:", "--data-binary", "@-", &url],
            data,
        );
        let (stream, _) = within(LIMIT, &stack, listener.accept()).await.unwrap();
        let served = within(LIMIT, &stack, serve(stream)).await.unwrap();
        assert_eq!((served.method.as_str(), served.received), ("POST", expected));
        assert_eq!(digest(&output(curl).await), served.sent);
    });
}

#[test]
fn nc_sends_to_the_stack_and_receives_from_it() {
    with("nc", |stack, family| async move {
        let listener = stack.listen(family.stack(9)).unwrap();
        let data = Payload::new(LEN, 4).into_vec();
        let expected = digest(&data);
        let addr = family.stack(9);
        let nc = Program::start("nc", &["-N", &addr.ip().to_string(), "9"], data);
        let (stream, _) = within(LIMIT, &stack, listener.accept()).await.unwrap();
        let (mut reader, mut writer) = stream.into_split();
        assert_eq!(within(LIMIT, &stack, receive(&mut reader)).await.unwrap(), expected);
        let sent = send(&mut writer, LEN, 5).await.unwrap();
        writer.shutdown().await.unwrap();
        assert_eq!(digest(&output(nc).await), sent);
    });
}

#[test]
fn stack_sends_to_nc_and_receives_from_it() {
    with("nc", |stack, family| async move {
        let data = Payload::new(LEN, 6).into_vec();
        let expected = digest(&data);
        let addr = family.kernel(9);
        let nc = Program::start("nc", &["-N", "-l", &addr.ip().to_string(), "9"], data);
        let stream = eventually(|| stack.connect(addr)).await;
        let (mut reader, mut writer) = stream.into_split();
        // Not both ways at once: Debian's nc ends when the network's data does, whatever it has still to
        // send.
        assert_eq!(within(LIMIT, &stack, receive(&mut reader)).await.unwrap(), expected);
        let sent = within(LIMIT, &stack, send(&mut writer, LEN, 7)).await.unwrap();
        writer.shutdown().await.unwrap();
        assert_eq!(digest(&output(nc).await), sent);
    });
}

#[test]
fn stack_downloads_from_pythons_http_server() {
    with("python3", |stack, family| async move {
        let folder = Folder::new(&format!("{family:?}"));
        let data = Payload::new(LEN, 8).into_vec();
        std::fs::write(folder.0.join("file"), &data).unwrap();
        let (addr, path) = (family.kernel(8000), folder.0.to_str().expect("a plain path"));
        let ip = addr.ip().to_string();
        let _server = Program::start(
            "python3",
            &["-m", "http.server", "8000", "--bind", &ip, "--directory", path],
            Vec::new(),
        );
        for _ in 0..3 {
            let mut stream = BufReader::new(eventually(|| stack.connect(addr)).await);
            stream.write_all(b"GET /file HTTP/1.0\r\n\r\n").await.unwrap();
            let head = within(LIMIT, &stack, head(&mut stream)).await.unwrap();
            assert!(head[0].starts_with("HTTP/1.0 200"), "{head:?}");
            assert_eq!(within(LIMIT, &stack, receive(&mut stream)).await.unwrap(), digest(&data));
        }
    });
}

#[test]
fn pythons_http_client_downloads_from_the_stack() {
    with("python3", |stack, family| async move {
        let listener = stack.listen(family.stack(8000)).unwrap();
        let url = format!("http://{}/file", family.stack(8000));
        let client = "import sys, urllib.request as r
opened = r.build_opener(r.ProxyHandler({})).open(sys.argv[1])
sys.stdout.buffer.write(opened.read())";
        let python = Program::start("python3", &["-c", client, &url], Vec::new());
        let (stream, _) = within(LIMIT, &stack, listener.accept()).await.unwrap();
        let served = within(LIMIT, &stack, serve(stream)).await.unwrap();
        assert_eq!(digest(&output(python).await), served.sent);
    });
}

/// Runs `scene` over IPv4 packet by packet and over IPv6 with offload, if `program` is installed.
fn with<F>(program: &str, scene: impl Fn(Stack, Family) -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    if !have(program) {
        return;
    }
    in_namespace(|| async move {
        for (family, mode) in [(Family::V4, OffloadMode::Off), (Family::V6, OffloadMode::On)] {
            let stack = stack(mode);
            scene(stack.clone(), family).await;
            stack.shutdown().await;
        }
    });
}

/// The answer to a request, and its time.
struct Served {
    method: String,
    received: Digest,
    sent: Digest,
}

/// Takes one HTTP request with its body and answers with [`LEN`] bytes.
async fn serve(stream: TcpStream) -> io::Result<Served> {
    let mut stream = BufReader::new(stream);
    let head = head(&mut stream).await?;
    let length =
        head.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let received = receive(&mut (&mut stream).take(length.unwrap_or(0))).await?;
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await?;
    let sent = send(&mut stream, LEN, 9).await?;
    stream.shutdown().await?;
    let method = head[0].split(' ').next().unwrap_or_default().to_owned();
    Ok(Served { method, received, sent })
}

/// The lines up to the empty one.
async fn head(stream: &mut BufReader<TcpStream>) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        match line.trim_end() {
            "" => return Ok(lines),
            line => lines.push(line.to_owned()),
        }
    }
}

async fn output(program: Program) -> Vec<u8> {
    spawn_blocking(|| program.finish()).await.unwrap()
}

/// A folder of this process, deleted when dropped.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ackclock-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

const LEN: u64 = 8 << 20;
const LIMIT: Duration = Duration::from_secs(60);
