//! Measures `tun2socks` between two kernels, in namespaces of its own (as root; some twenty seconds):
//!
//!     cargo build --release -p ackclock-tun2socks
//!     cargo run --release -p ackclock-tun2socks --example measure -- target/release/tun2socks
//!
//! The proxy is also the destination of each connection, so that the gateway is the only hop. CPU time is the
//! gateway's alone. More arguments go to the gateway. `ONLY="up, 1 flow"` measures one of the first rows
//! alone, for a profiler. The kernels at both ends, and the gateway's sockets, use CUBIC; `CONTROLLER=bbr`
//! has them pace with timers, which costs the gateway half of its rate.

use std::io::{self, Read, Write};
use std::net::{self, SocketAddr};
use std::time::{Duration, Instant};

use ackclock_tests::kernel::program::{Program, eventually};
use ackclock_tests::netns::{Namespace, in_namespaces, ip, raise_descriptor_limit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const PROXY: &str = "10.1.0.1:1080";
const TARGET: &str = "203.0.113.7";
/// The destination's behaviour, by its port.
const SINK: u16 = 1;
const SOURCE: u16 = 2;
const ECHO: u16 = 3;
const CLOSES: u16 = 4;
const SECONDS: u64 = 3;
const IDLE: usize = 5000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let gateway: &'static str = arguments.next().expect("the path of the gateway's program").leak();
    let extra: Vec<String> = arguments.collect();
    raise_descriptor_limit().expect("descriptors");
    in_namespaces(|[inside, outside]: [Namespace; 2]| {
        inside.cable("eth0", &outside, "eth0");
        inside.ip("addr add 10.1.0.2/24 dev eth0");
        inside.sysctl("net/ipv4/ip_local_port_range", "1024 65535");
        inside.sysctl("net/ipv4/tcp_max_tw_buckets", "64");
        outside.ip("addr add 10.1.0.1/24 dev eth0");
        let controller = std::env::var("CONTROLLER").unwrap_or_else(|_| "cubic".to_owned());
        for namespace in [&inside, &outside] {
            namespace.ip(&format!("route replace 10.1.0.0/24 dev eth0 congctl {controller}"));
        }
        outside.run(async { proxy().await.expect("the proxy") });
        inside.run(async move {
            let mut all = vec!["--proxy", PROXY, "--route", "203.0.113.0/24"];
            all.extend(extra.iter().map(String::as_str));
            let program = Program::start(gateway, &all, Vec::new());
            eventually(|| TcpStream::connect((TARGET, CLOSES))).await;
            ip(&format!("route replace 203.0.113.0/24 dev tun0 congctl {controller}"));
            measure(program.id()).await;
            program.signal("TERM");
            let said = tokio::task::spawn_blocking(|| program.finish()).await.expect("no panic");
            println!("{}", String::from_utf8_lossy(&said));
        });
    });
}

async fn measure(gateway: u32) {
    println!("{:<24} {:6.1} MB", "at the start", rss_mb(gateway));
    for (what, port, flows) in
        [("up, 1 flow", SINK, 1), ("down, 1 flow", SOURCE, 1), ("up, 8", SINK, 8), ("down, 8", SOURCE, 8)]
    {
        if std::env::var("ONLY").is_ok_and(|only| only != what) {
            continue;
        }
        let (bytes, seconds, cpu) = costed(gateway, bulk(port, flows)).await;
        let gbit = bytes as f64 * 8e-9;
        println!("{what:<24} {:6.2} Gbit/s {:6.2} Gbit per CPU second", gbit / seconds, gbit / cpu);
    }
    if std::env::var("ONLY").is_ok() {
        return;
    }
    println!("{:<24} {}", "round trip", latency().await);
    let mut beside = JoinSet::new();
    beside.spawn(bulk(SINK, 1));
    beside.spawn(bulk(SOURCE, 1));
    tokio::time::sleep(Duration::from_millis(500)).await;
    println!("{:<24} {}", "beside bulk both ways", latency().await);
    beside.join_all().await;
    let mut beside = JoinSet::new();
    beside.spawn(bulk(SINK, 1));
    tokio::time::sleep(Duration::from_millis(500)).await;
    println!("{:<24} {}", "beside bulk up", latency().await);
    beside.join_all().await;
    let (connects, seconds, cpu) = costed(gateway, connects()).await;
    println!(
        "{:<24} {:6.0} /s {:6.0} per CPU second",
        "connects",
        connects as f64 / seconds,
        connects as f64 / cpu
    );
    let mut open = Vec::new();
    while open.len() < IDLE {
        let mut more: JoinSet<_> = (0..50).map(|_| TcpStream::connect((TARGET, ECHO))).collect();
        while let Some(stream) = more.join_next().await {
            open.push(stream.expect("no panic").expect("a connection"));
        }
    }
    println!("{:<24} {:6.1} MB", "5,000 that are silent", rss_mb(gateway));
    for stream in &mut open {
        stream.write_all(b"question").await.expect("written");
        stream.read_exact(&mut [0; 8]).await.expect("an answer");
    }
    println!("{:<24} {:6.1} MB", "5,000 after an exchange", rss_mb(gateway));
    tokio::time::sleep(Duration::from_secs(15)).await;
    println!("{:<24} {:6.1} MB", "15 s later", rss_mb(gateway));
}

/// The result of `work`, and how long it took: of the clock, and of the gateway's processor time.
async fn costed<T>(gateway: u32, work: impl Future<Output = T>) -> (T, f64, f64) {
    let (begun, cpu) = (Instant::now(), cpu_seconds(gateway));
    let done = work.await;
    (done, begun.elapsed().as_secs_f64(), cpu_seconds(gateway) - cpu)
}

/// The bytes that `flows` connections carry, each on a thread of its own: a task would keep others waiting.
async fn bulk(port: u16, flows: usize) -> u64 {
    let end = Instant::now() + Duration::from_secs(SECONDS);
    let flow = move || {
        let mut stream = net::TcpStream::connect((TARGET, port)).expect("a connection");
        let mut buf = vec![7; 256 << 10];
        let mut bytes = 0;
        while Instant::now() < end {
            let len = if port == SINK { stream.write(&buf) } else { stream.read(&mut buf) };
            bytes += len.expect("bytes move") as u64;
        }
        bytes
    };
    let all: Vec<_> = (0..flows).map(|_| std::thread::spawn(flow)).collect();
    let sum = || all.into_iter().map(|flow| flow.join().expect("no panic")).sum();
    tokio::task::spawn_blocking(sum).await.expect("no panic")
}

/// Times of the round trips of a connection.
async fn latency() -> String {
    let measured = std::thread::spawn(|| {
        let mut stream = net::TcpStream::connect((TARGET, ECHO)).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        let end = Instant::now() + Duration::from_secs(SECONDS - 1);
        let mut times = Vec::new();
        while Instant::now() < end {
            let sent = Instant::now();
            stream.write_all(&[1; 64]).expect("written");
            stream.read_exact(&mut [0; 64]).expect("an echo");
            times.push(sent.elapsed());
        }
        times
    });
    let mut times =
        tokio::task::spawn_blocking(|| measured.join().expect("no panic")).await.expect("no panic");
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_micros();
    format!("{:6} µs median {:6} µs p99, of {}", at(0.5), at(0.99), times.len())
}

/// Connections that are opened, closed by the destination, and closed here.
async fn connects() -> u64 {
    let end = Instant::now() + Duration::from_secs(SECONDS);
    let one = move || async move {
        let mut done = 0;
        while Instant::now() < end {
            let mut stream = TcpStream::connect((TARGET, CLOSES)).await.expect("a connection");
            assert_eq!(stream.read(&mut [0]).await.expect("the end"), 0);
            done += 1;
        }
        done
    };
    let all: JoinSet<u64> = (0..32).map(|_| one()).collect();
    all.join_all().await.into_iter().sum()
}

/// A SOCKS5 proxy that plays the destinations itself.
async fn proxy() -> io::Result<()> {
    let listener = TcpListener::bind(PROXY.parse::<SocketAddr>().expect("an address")).await?;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client));
        }
    });
    Ok(())
}

async fn serve(mut client: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    client.read_exact(&mut [0; 3]).await?;
    client.write_all(&[5, 0]).await?;
    let mut request = [0; 10];
    client.read_exact(&mut request).await?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    match u16::from_be_bytes([request[8], request[9]]) {
        SINK => {
            let mut client = blocking(client)?;
            std::thread::spawn(move || {
                let mut buf = vec![0; 256 << 10];
                while client.read(&mut buf).is_ok_and(|len| len > 0) {}
            });
        }
        SOURCE => {
            let mut client = blocking(client)?;
            std::thread::spawn(move || {
                let buf = vec![7; 256 << 10];
                while client.write(&buf).is_ok() {}
            });
        }
        ECHO => {
            let mut buf = [0; 4096];
            loop {
                let len = client.read(&mut buf).await?;
                if len == 0 {
                    break;
                }
                client.write_all(&buf[..len]).await?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn blocking(stream: TcpStream) -> io::Result<net::TcpStream> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Processor time of a process so far. Two fields of `/proc/PID/stat`, in hundredths of a second.
fn cpu_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let after_name = stat.rsplit(')').next().expect("a name");
    let ticks = after_name.split_whitespace().skip(11).take(2).map(|n| n.parse::<f64>().expect("a number"));
    ticks.sum::<f64>() / 100.0
}

fn rss_mb(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).expect("a number") / 1024.0
}
