//! Runs each example as its documentation describes, against the kernel where it says so.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use ackclock_examples::sums::{self, Number, Sums};
use ackclock_tests::kernel::program::{Program, eventually};
use ackclock_tests::netns::in_namespace;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Endpoint, Server};

#[test]
fn echo_talks_to_itself_over_the_cable_in_memory() {
    let said = text(start("echo", &[]).finish());
    assert!(said.contains("echoed: \"hello, user space\""), "{said}");
}

#[test]
fn echo_answers_the_kernel() {
    in_namespace(|| async {
        let _echo = start("echo", &["tun9"]);
        let mut stream = eventually(|| TcpStream::connect("10.9.0.2:7")).await;
        assert_eq!(exchange(&mut stream, b"hello, kernel").await, b"hello, kernel");
    });
}

#[test]
fn http_get_fetches_a_page_from_the_kernel() {
    in_namespace(|| async {
        let get = start("http_get", &["tun9", "10.9.0.1:8000", "/page"]);
        // The address exists once the example has made its device.
        let listener = eventually(|| TcpListener::bind("10.9.0.1:8000")).await;
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let len = stream.read(&mut request).await.unwrap();
        assert!(request[..len].starts_with(b"GET /page HTTP/1.0\r\n"));
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nthe page").await.unwrap();
        drop(stream);
        let said = text(spawn_blocking(|| get.finish()).await.unwrap());
        assert!(said.ends_with("the page"), "{said}");
    });
}

#[test]
fn proxy_any_forwards_whatever_is_dialled_and_refuses_what_nobody_serves() {
    in_namespace(|| async {
        let listener = TcpListener::bind("127.0.0.1:8000").await.unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut reader, mut writer) = stream.split();
                    tokio::io::copy(&mut reader, &mut writer).await
                });
            }
        });
        let _proxy = start("proxy_any", &["tun9", "203.0.113.0/24", "127.0.0.1"]);
        for dialled in ["203.0.113.7:8000", "203.0.113.200:8000"] {
            let mut stream = eventually(|| TcpStream::connect(dialled)).await;
            assert_eq!(exchange(&mut stream, dialled.as_bytes()).await, dialled.as_bytes());
        }
        let refused = TcpStream::connect("203.0.113.7:8001").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn serve_axum_answers_curl_and_finishes_what_it_began_before_it_ends() {
    in_namespace(|| async {
        let serving = start("serve_axum", &["tun9"]);
        drop(eventually(|| TcpStream::connect("10.9.0.2:80")).await);
        let curl = |arguments: &[&str]| {
            let program =
                Program::start("curl", &[&["--silent", "--show-error"], arguments].concat(), Vec::new());
            spawn_blocking(move || text(program.finish()))
        };
        let hello = curl(&["http://10.9.0.2/"]).await.unwrap();
        assert_eq!(hello, "hello 10.9.0.1, you called 10.9.0.2:80\n");
        // HTTP/2 without TLS.
        let format = ["--http2-prior-knowledge", "--write-out", "HTTP/%{http_version}", "http://10.9.0.2/"];
        assert_eq!(curl(&format).await.unwrap(), format!("{hello}HTTP/2"));

        let mut slow = TcpStream::connect("10.9.0.2:80").await.unwrap();
        slow.write_all(b"GET /slow HTTP/1.1\r\nHost: 10.9.0.2\r\n\r\n").await.unwrap();
        // A second request, answered on a connection of its own: the slow one is being served.
        curl(&["http://10.9.0.2/"]).await.unwrap();
        assert_eq!(curl(&["--request", "POST", "http://10.9.0.2/drain"]).await.unwrap(), "draining\n");
        let refused = TcpStream::connect("10.9.0.2:80").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let mut answer = Vec::new();
        slow.read_to_end(&mut answer).await.unwrap();
        let answer = text(answer);
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("at last\n"), "{answer}");
        drop(slow);
        let said = spawn_blocking(|| text(serving.finish())).await.unwrap();
        assert!(said.ends_with("drained: 0 connections were reset\n"), "{said}");
    });
}

#[test]
fn pooled_client_shares_connections_and_gives_requests_up() {
    in_namespace(|| async {
        let client =
            start("pooled_client", &["tun9", "http://10.9.0.1:8000/page", "http://10.9.0.1:8000/slow"]);
        // The address exists once the example has made its device.
        let listener = eventually(|| TcpListener::bind("10.9.0.1:8000")).await;
        let app = axum::Router::new()
            .route("/page", axum::routing::get(|| async { "the page" }))
            .route("/slow", axum::routing::get(std::future::pending::<()>));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let said = text(spawn_blocking(|| client.finish()).await.unwrap());
        assert!(said.starts_with("20 answers of 160 bytes, 4 requests given up, "), "{said}");
        let opened: u32 = between(&said, "given up, ", " more connections").parse().unwrap();
        // Each cancelled request closes its connection; hyper may open one in advance.
        assert!((3..=12).contains(&opened), "{said}");
    });
}

/// Of the packets 5 % are lost, so that some pages need a second attempt, and none a fifth.
#[test]
fn virtual_client_reads_every_page_on_a_hundred_networks() {
    let said = text(start("virtual_client", &[]).finish());
    assert!(said.starts_with("2000 pages on 100 networks\n"), "{said}");
    let attempts: u32 = between(&said, "networks\n", " attempts").parse().unwrap();
    assert!((2001..2400).contains(&attempts), "{said}");
    let slowest: u32 = between(&said, "attempts, and ", " ms").parse().unwrap();
    assert!((1_000..4_000).contains(&slowest), "{said}");
}

#[test]
fn grpc_streams_both_ways_over_the_cable_in_memory() {
    let said = text(start("grpc", &[]).finish());
    assert!(said.contains(" adds at 10.9.0.2:50051\n"), "the handler knows both ends: {said}");
    let end = "1000 numbers one after the other: 500500\ndrained: 0 connections were reset\n";
    assert!(said.ends_with(end), "{said}");
}

#[test]
fn grpc_serves_tonic_on_the_kernel() {
    in_namespace(|| async {
        let _serving = start("grpc", &["serve", "tun9"]);
        let endpoint = Endpoint::from_static("http://10.9.0.2:50051");
        let channel = eventually(|| async { endpoint.connect().await.map_err(io::Error::other) }).await;
        let numbers = tokio_stream::iter((1..=10_000).map(|value| Number { value }));
        let mut sums = sums::add(channel, numbers).await.unwrap();
        let mut last = 0;
        while let Some(sum) = sums.next().await {
            last = sum.unwrap().value;
        }
        assert_eq!(last, 50_005_000);
    });
}

#[test]
fn grpc_calls_tonic_on_the_kernel() {
    in_namespace(|| async {
        let call = start("grpc", &["call", "tun9", "http://10.9.0.1:50051"]);
        let listener = eventually(|| TcpListener::bind("10.9.0.1:50051")).await;
        let incoming = TcpListenerStream::new(listener);
        tokio::spawn(async move { Server::builder().serve_with_incoming(Sums, incoming).await });
        let said = text(spawn_blocking(|| call.finish()).await.unwrap());
        assert_eq!(said, "1000 numbers one after the other: 500500\n");
    });
}

#[test]
fn tls_seals_what_crosses_the_cable_in_memory() {
    let said = text(start("tls", &[]).finish());
    assert_eq!(said, "4 MiB echoed by TLSv1_3; another name was refused\n");
}

#[test]
fn tls_serves_curl() {
    in_namespace(|| async {
        let _serving = start("tls", &["tun9"]);
        drop(eventually(|| TcpStream::connect("10.9.0.2:443")).await);
        let arguments = ["--silent", "--show-error", "--insecure", "https://10.9.0.2/page"];
        let curl = Program::start("curl", &arguments, Vec::new());
        let said = spawn_blocking(|| text(curl.finish())).await.unwrap();
        assert_eq!(said, "in user space, and sealed: GET /page HTTP/1.1\n");
    });
}

#[test]
fn custom_device_carries_ten_megabytes() {
    let said = text(start("custom_device", &[]).finish());
    assert!(said.starts_with("10485760 bytes through the tunnel"), "{said}");
}

#[test]
fn custom_device_takes_ten_lines() {
    let source = include_str!("../custom_device.rs");
    let device = source.split("async fn tunnels").nth(1).unwrap().split("#[tokio::main").next().unwrap();
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let lines = device.lines().filter(is_code).count();
    assert!((5..=10).contains(&lines), "{lines} lines");
}

#[test]
fn custom_congestion_control_is_examined_and_carries_ten_megabytes() {
    let said = text(start("custom_congestion_control", &[]).finish());
    assert!(said.starts_with("wary:\n  ok       keeps its name\n") && !said.contains("FAILED"), "{said}");
    assert!(said.contains("Ok((\"wary\", ") && said.ends_with("10485760 bytes\n"), "{said}");
    // Reno fills the queue and overflows it; Vegas does not; Wary leaves slow start before it does.
    let retransmitted = |name: &str| -> u32 {
        let line = said.lines().find(|line| line.starts_with(name) && line.contains("KB/s")).expect(name);
        between(line, "KB/s, ", " segments").trim().parse().unwrap()
    };
    assert_eq!(retransmitted("vegas"), 0, "{said}");
    let (reno, wary) = (retransmitted("reno"), retransmitted("wary"));
    assert!(reno > 10 && wary > 0 && wary < reno, "{said}");
}

#[test]
fn virtual_axum_is_fast_lossy_and_the_same_each_time() {
    let run = |seed: &str| text(start("virtual_axum", &[seed]).finish());
    let (first, second, other) = (run("1"), run("1"), run("2"));
    let without_real_time = |said: &str| -> Vec<String> {
        said.lines().map(|line| line.split(" in ").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(without_real_time(&first), without_real_time(&second));
    assert_ne!(first.lines().last(), other.lines().last());
    // A round trip of 40 ms and the segments' own time; 200 pauses of a second.
    assert!(first.contains("200 requests: fastest 40."), "{first}");
    assert!(first.contains("99 within"), "{first}");
    let took = first.lines().find_map(|line| line.split_once(" ms of virtual time")).unwrap();
    let virtual_ms: u64 = took.0.parse().unwrap();
    assert!(virtual_ms > 210_000 && virtual_ms < 300_000, "{first}");
}

#[test]
fn virtual_hyper_downloads_alone_and_beside_a_bulk_transfer() {
    let said = text(start("virtual_hyper", &[]).finish());
    let ms = |how: &str| -> u64 {
        between(&said, &format!("10485760 bytes {how}: "), " ms of virtual").parse().unwrap()
    };
    let (alone, beside) = (ms("alone"), ms("beside a bulk transfer"));
    // 10 MiB at 10 Mbit/s, headers included.
    assert!(alone > 8_600 && alone < 10_000, "{said}");
    assert!(beside > alone * 14 / 10 && beside < alone * 4, "{said}");
    assert!(said.contains("  bulk moved "), "{said}");
}

#[test]
fn virtual_quic_shares_a_bottleneck_with_tcp() {
    let said = text(start("virtual_quic", &[]).finish());
    let row = |queue: &str| -> Vec<u64> {
        let line = said.lines().find_map(|line| line.strip_prefix(queue)).expect(queue);
        line.split_whitespace().map(|number| number.trim_end_matches('%').parse().unwrap()).collect()
    };
    for queue in
        ["drop-tail, 50 packets ", "drop-tail, 200 packets ", "CoDel  ", "CoDel with marks ", "FQ-CoDel "]
    {
        let [quic, tcp, share, dropped, marked] = row(queue)[..] else { panic!("{queue}: {said}") };
        assert!((9_000..=10_000).contains(&(quic + tcp)), "{queue}: {said}");
        assert!(dropped > 0 && (marked > 0) == (queue == "CoDel with marks "), "{queue}: {said}");
        let expected = match queue {
            // A queue of its own for each: the rest is headers.
            "FQ-CoDel " => 47..=52,
            // QUIC's slow start fills the queue, and TCP's ends by HyStart++ before that.
            "drop-tail, 200 packets " => 55..=90,
            // Both are CUBIC with the same round trip.
            _ => 33..=67,
        };
        assert!(expected.contains(&share), "{queue}: {said}");
    }
}

#[test]
fn video_frames_arrive_in_time_if_feedback_drops_some() {
    let said = text(start("video_frames", &[]).finish());
    let line = |how: &str| said.lines().find(|line| line.starts_with(how)).expect(how).to_owned() + "\n";
    let number = |line: &str, before: &str, after: &str| between(line, before, after).parse::<u64>().unwrap();
    let (without, with) = (line("without: "), line("with feedback: "));
    // After ten seconds at half the film's rate the viewer is five seconds behind.
    assert_eq!(number(&without, "without: ", " of 750"), 750, "{said}");
    assert!((4_500..6_000).contains(&number(&without, "at worst ", " ms\n")), "{said}");
    // Of the film's 750 frames, 125 do not fit through.
    assert!((600..=640).contains(&number(&with, "with feedback: ", " of 750")), "{said}");
    assert!((100..250).contains(&number(&with, "at worst ", " ms\n")), "{said}");
}

#[test]
fn over_a_phones_link_feedback_drops_what_an_outage_would_make_late() {
    let said = text(start("video_frames", &["model:lte"]).finish());
    let figures = |how: &str, after: &str, end: &str| {
        let line = said.lines().find(|line| line.starts_with(how)).expect(how).to_owned() + "\n";
        between(&line, after, end).parse::<u64>().unwrap()
    };
    assert_eq!(figures("without: ", "without: ", " of 750"), 750, "{said}");
    assert!((1_200..1_800).contains(&figures("without: ", "at worst ", " ms\n")), "{said}");
    // The frames under way when the outage begins are late either way.
    assert!((650..=710).contains(&figures("with feedback: ", "with feedback: ", " of 750")), "{said}");
    assert!((700..1_200).contains(&figures("with feedback: ", "at worst ", " ms\n")), "{said}");
}

#[test]
fn the_same_services_run_on_the_kernels_sockets() {
    let axum = text(start("virtual_axum", &["kernel"]).finish());
    assert!(axum.starts_with("the kernel's loopback\n20 requests: fastest"), "{axum}");
    let hyper = text(start("virtual_hyper", &["kernel"]).finish());
    assert!(hyper.starts_with("10485760 bytes over the kernel's loopback: "), "{hyper}");
}

/// The text between the first `before` and the next `after`.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).expect(before);
    rest.split_once(after).expect(after).0
}

/// Sends, closes, reads to the end.
async fn exchange(stream: &mut TcpStream, message: &[u8]) -> Vec<u8> {
    stream.write_all(message).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    answer
}

/// Starts an example, which cargo has built next to this program.
fn start(example: &str, arguments: &[&str]) -> Program {
    let this = std::env::current_exe().unwrap();
    let built: PathBuf =
        this.ancestors().nth(2).expect("target/PROFILE/deps/THIS").join("examples").join(example);
    Program::start(built.to_str().expect("a plain path"), arguments, Vec::new())
}

fn text(output: Vec<u8>) -> String {
    String::from_utf8(output).expect("text")
}
