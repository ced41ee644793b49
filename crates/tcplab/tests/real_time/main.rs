//! `tcplab between` and `tcplab shell` held against virtual time, also while their page is read, and
//! `between` against a token bucket's rates and a browser. `.ci/nightly real-time` runs this, since it takes
//! a machine that does little else: a run that the machine did not keep up with says nothing, and is made
//! again a few times.

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
    let download = || {
        let to = server(|mut stream| stream.write_all(&bytes(SIZE)).unwrap());
        downloaded(Between::start(&network(), to, &["--poll", "20ms"]))
    };
    assert_as_in_virtual_time("between", &network(), valid(download));
}

/// A page that is read as it comes, and seven that nothing is read from.
#[test]
fn the_same_scenario_gives_the_same_while_its_page_is_read() {
    let download = || {
        let to = server(|mut stream| stream.write_all(&bytes(SIZE)).unwrap());
        let mut between = Between::start(&network(), to, &["--poll", "20ms", "--live", "127.0.0.1:0"]);
        let page = between.live();
        let follow = || {
            let mut stream = TcpStream::connect(page).unwrap();
            stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        };
        let _silent: Vec<TcpStream> = (0..7).map(|_| follow()).collect();
        let mut reader = follow();
        let read = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).ok();
            text.matches("event: message").count()
        });
        let found = downloaded(between);
        // Five a second, for four seconds.
        let moments = read.join().unwrap();
        assert!((15..=40).contains(&moments), "{moments}");
        found
    };
    assert_as_in_virtual_time("between, with its page", &network(), valid(download));
}

/// The sender is the same stack; the receiver is the kernel's, whose window does not limit. So nothing does
/// but the queue, in virtual time too, and the loss recovery of the one meets the acknowledgements of the
/// other.
#[test]
fn a_command_in_a_shell_has_the_same_as_in_virtual_time() {
    if !have("curl") {
        return;
    }
    for live in [false, true] {
        let download = || {
            let to = server(|mut stream| {
                stream.read(&mut [0; 4096]).unwrap();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\nConnection: close\r\n\r\n");
                stream.write_all(&[head.as_bytes(), &bytes(SIZE)].concat()).unwrap();
            });
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
            std::fs::write(path("network.toml"), network()).unwrap();
            let mut command = Command::new("setpriv");
            command.args([
                "--pdeathsig",
                "KILL",
                "--",
                env!("CARGO_BIN_EXE_tcplab"),
                "shell",
                "--poll",
                "20ms",
            ]);
            command.args(["--scenario", &path("network.toml"), "--report", &path("report.json")]);
            if live {
                command.args(["--live", "127.0.0.1:0"]);
            }
            let url = format!("http://10.0.0.2:{}/", to.port());
            let curl =
                ["--", "curl", "--silent", "--output", &path("file"), "--write-out", "%{time_total}", &url];
            let output = command.args(curl).output().unwrap();
            assert_eq!(std::fs::read(path("file")).unwrap().len(), SIZE);
            let took: f64 = String::from_utf8(output.stdout).unwrap().parse().unwrap();
            let report = std::fs::read(path("report.json")).unwrap();
            (Duration::from_secs_f64(took), serde_json::from_slice(&report).unwrap())
        };
        let wide = format!("{WIDE_WINDOW}{}", network());
        assert_as_in_virtual_time(&format!("shell, live {live}"), &wide, valid(download));
    }
}

fn network() -> String {
    two(r#"rate = "8Mbit/s", delay = "20ms", queue = { drop-tail = { limit = "60packets" } }"#)
}

/// How long a download takes, and the report of it.
fn downloaded(between: Between) -> (Duration, Value) {
    let begun = Instant::now();
    let mut all = Vec::new();
    between.connect().read_to_end(&mut all).unwrap();
    let took = begun.elapsed();
    assert_eq!(all.len(), SIZE);
    (took, between.stop().0)
}

/// The goodput is within 3 %, and the queueing delay within 1 ms.
fn assert_as_in_virtual_time(what: &str, network: &str, (real_time, report): (Duration, Value)) {
    let (virtual_time, virtual_delay) = in_virtual_time(network);
    let real_delay = queue_delay(&report["network"]);
    let late = &report["lateness"];
    println!("{what}: {real_time:?}, {real_delay} s; virtual: {virtual_time:?}, {virtual_delay} s; {late}");
    let ratio = real_time.as_secs_f64() / virtual_time.as_secs_f64();
    assert!((0.97..1.03).contains(&ratio), "{what}: {real_time:?} and {virtual_time:?}");
    assert!((real_delay - virtual_delay).abs() < 0.001, "{what}: {real_delay} s and {virtual_delay} s");
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

/// A receive window beyond what the queue holds.
const WIDE_WINDOW: &str = "tcp = { receive-buffer = \"4MiB\", receive-buffer-initial = \"4MiB\" }\n";
const SIZE: usize = 4_000_000;
const TRIES: u32 = 5;
