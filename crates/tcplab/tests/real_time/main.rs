//! `tcplab between` held against virtual time, a token bucket's rates and a browser. `.ci/nightly real-time`
//! runs this, since it takes a machine that does little else: a run that the machine did not keep up with
//! says nothing, and is made again a few times.

#[path = "../cli/through.rs"]
#[expect(dead_code, reason = "the tests of `tests/cli` use all of it")]
mod through;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use ackclock_sim::{Scenario, VirtualNetwork};
use ackclock_tests::kernel::program::have;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use through::{Between, bytes, server, two};

#[test]
fn the_same_scenario_gives_the_same_in_virtual_and_in_real_time() {
    let network = two(r#"rate = "8Mbit/s", delay = "20ms", queue = { drop-tail = { limit = "60packets" } }"#);
    let (virtual_time, virtual_delay) = in_virtual_time(&network);
    let (real_time, report) = valid(|| {
        let to = server(|mut stream| stream.write_all(&bytes(SIZE)).unwrap());
        let between = Between::start(&network, to, &["--poll", "20ms"]);
        let begun = Instant::now();
        let mut all = Vec::new();
        between.connect().read_to_end(&mut all).unwrap();
        let took = begun.elapsed();
        assert_eq!(all.len(), SIZE);
        (took, between.stop().0)
    });
    let real_delay = queue_delay(&report["network"]);
    println!("virtual: {virtual_time:?}, {virtual_delay} s; real: {real_time:?}, {real_delay} s");
    let ratio = real_time.as_secs_f64() / virtual_time.as_secs_f64();
    assert!((0.97..1.03).contains(&ratio), "{real_time:?} and {virtual_time:?}");
    assert!((real_delay - virtual_delay).abs() < 0.001, "{real_delay} s and {virtual_delay} s");
    assert!(virtual_delay > 0.01, "the queue must matter");
}

fn in_virtual_time(network: &str) -> (Duration, f64) {
    let mut scenario = Scenario::from_toml("network", network).unwrap();
    scenario.duration = ackclock_sim::units::Span::seconds(60);
    let mut net = VirtualNetwork::new(&scenario).unwrap();
    let (client, server) = (net.stack("a").unwrap(), net.stack("b").unwrap());
    let to = (net.lookup("b").unwrap(), 7001).into();
    let took = net.run(async move {
        let listener = server.listen(to).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            stream.write_all(&bytes(SIZE)).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let begun = tokio::time::Instant::now();
        let mut stream = client.connect(to).await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        assert_eq!(all.len(), SIZE);
        begun.elapsed()
    });
    (took.unwrap(), queue_delay(&serde_json::to_value(net.report()).unwrap()))
}

/// The mean on the way to the client.
fn queue_delay(network: &Value) -> f64 {
    network["links"][1]["queue_delay"]["mean"].as_f64().unwrap()
}

#[test]
fn rates_are_right_to_a_hundredth_from_100_kbit_to_a_gigabit() {
    for (rate_bps, seconds) in [(1e5, 30.0), (1e6, 6.0), (1e7, 4.0), (1e8, 4.0), (1e9, 4.0)] {
        let network = two(&format!(
            r#"rate = "{rate_bps}bit/s", delay = "5ms", queue = {{ drop-tail = {{ limit = "4000packets" }} }}"#
        ));
        let (measured, _) = valid(|| {
            let to = server(|mut stream| while stream.write_all(&[7; 64 << 10]).is_ok() {});
            let between = Between::start(&network, to, &["--poll", "20ms", "--late", "1ms"]);
            let stream = between.connect();
            let measured = rate(stream, Duration::from_secs_f64(seconds));
            (measured, between.stop().0)
        });
        // 1,448 of a packet's 1,500 bytes are the stream's.
        let measured = measured * 1500.0 / 1448.0;
        println!("{rate_bps} bit/s: {measured}");
        assert!((measured / rate_bps - 1.0).abs() < 0.01, "{rate_bps} bit/s: {measured}");
    }
}

/// The bits a second of the stream after a start.
fn rate(mut stream: TcpStream, time: Duration) -> f64 {
    let (begun, mut buf) = (Instant::now(), vec![0; 256 << 10]);
    let mut read = |until: Duration| {
        let mut all = 0;
        loop {
            all += stream.read(&mut buf).unwrap();
            if begun.elapsed() >= until {
                return (begun.elapsed(), all);
            }
        }
    };
    let (from, _) = read(time / 4);
    let (until, all) = read(time);
    all as f64 * 8.0 / (until - from).as_secs_f64()
}

#[test]
fn a_browser_loads_a_page() {
    if !have("chromium") {
        return;
    }
    let page = server(|mut stream| {
        let mut request = [0; 4096];
        let len = stream.read(&mut request).unwrap_or(0);
        let wants_script = request[..len].starts_with(b"GET /script.js");
        let (kind, text) = if wants_script {
            let text = format!("document.title = 'loaded'; /* {} */", "x".repeat(100_000));
            ("text/javascript", text)
        } else {
            let script = "<script src=\"/script.js\"></script>";
            ("text/html", format!("<!doctype html><title>loading</title>{script}<p>through the network</p>"))
        };
        let len = text.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n");
        stream.write_all(format!("{head}Connection: close\r\n\r\n{text}").as_bytes()).ok();
    });
    let between =
        Between::start(&two(r#"rate = "4Mbit/s", delay = "30ms", loss = { independent = "1%" }"#), page, &[]);
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args(["60", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{}/", between.listen))
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(page.contains("<title>loaded</title>") && page.contains("through the network"), "{page}");
    let (report, _) = between.stop();
    assert!(report["connections"]["bytes_back"].as_u64().unwrap() > 100_000, "{report}");
}

/// The first of a few runs that the machine kept up with.
fn valid<T>(run: impl Fn() -> (T, Value)) -> (T, Value) {
    let mut late = Value::Null;
    for _ in 0..TRIES {
        let (value, report) = run();
        if report["valid"] == true {
            return (value, report);
        }
        late = report["lateness"].clone();
    }
    panic!("the machine kept up with none of {TRIES} runs: {late}");
}

const SIZE: usize = 4_000_000;
const TRIES: u32 = 5;
