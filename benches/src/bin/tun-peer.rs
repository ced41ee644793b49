//! The stack on TUN device `pft0`, for measurements beside other stacks: it sets 10.77.0.1/24 on the kernel's side,
//! owns 10.77.0.2 itself, and serves TCP 5001 (sink), 5002 (source), 5003 (echo), 5004 (close after the client's
//! FIN).
//!
//! `tun-peer [--mtu M] [--offload] [--busy-poll MICROS] [--buffer BYTES] [--threads N] [--queues N] [--cc NAME] [--zerocopy]
//! [--until-eof]`; with the last, it ends with its standard input. At its end it says how many packets came by each queue, and how
//! many of them were another's.

#![forbid(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock::{Cidr, Stack, TcpConfig, TcpListener, TcpStream};
use ackclock_benches::options::{flag, number, text};
use ackclock_benches::over_tun::{self, DEVICE, KERNEL, OWN, Service};
use ackclock_device::configure::configure;
use ackclock_device::{OffloadMode, open, open_queues};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CHUNK: usize = 256 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if flag("until-eof") {
        over_tun::end_with_input();
    }
    let threads = number("threads").unwrap_or(1);
    let mut builder = if threads > 1 {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    builder.worker_threads(threads.max(1)).enable_all().build()?.block_on(serve())
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let mode = if flag("offload") { OffloadMode::On } else { OffloadMode::Off };
    let devices = match number("queues") {
        Some(queues) => open_queues(DEVICE, mode, queues)?.0,
        None => vec![open(DEVICE, mode)?.0],
    };
    let mtu = number("mtu").map(u32::try_from).transpose()?;
    configure(DEVICE, Cidr::new(KERNEL, 24)?, None, mtu)?;
    let buffer = number("buffer").unwrap_or(4 << 20);
    let tcp = TcpConfig { send_buffer_max: buffer, receive_buffer_max: buffer, ..TcpConfig::default() };
    let mut builder = Stack::builder().queues(devices).address(Cidr::new(OWN, 24)?).tcp(tcp);
    if let Some(name) = text("cc") {
        builder = builder.congestion_control(name.as_str())?;
    }
    if let Some(micros) = number("busy-poll") {
        builder = builder.busy_poll(Duration::from_micros(micros as u64));
    }
    let stack = builder.spawn()?;
    let mut services = tokio::task::JoinSet::new();
    for service in Service::ALL {
        let listener = stack.listen(SocketAddr::new(OWN, service.port()))?;
        services.spawn(accept(listener, service));
    }
    let interrupted = tokio::signal::ctrl_c();
    tokio::select! {
        Some(ended) = services.join_next() => ended??,
        interrupted = interrupted => interrupted?,
    }
    for (queue, counters) in stack.queue_counters().iter().enumerate() {
        println!(
            "queue={queue} packets_received={} strays_handed_over={} strays_taken={} dropped_strays={}",
            counters.packets_received,
            counters.strays_handed_over,
            counters.strays_taken,
            counters.dropped_strays
        );
    }
    Ok(())
}

async fn accept(listener: TcpListener, service: Service) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        // A client that goes away ends its own service only.
        tokio::spawn(async move {
            let _ = match service {
                Service::Sink if flag("zerocopy") => sink_slices(stream).await,
                Service::Source if flag("zerocopy") => source_slices(stream).await,
                Service::Sink => sink(stream, CHUNK).await,
                Service::Source => source(stream).await,
                Service::Echo => echo(stream).await,
                Service::Close => sink(stream, 64).await,
            };
        });
    }
}

async fn sink(mut stream: TcpStream, chunk: usize) -> io::Result<()> {
    let mut buffer = vec![0; chunk];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

async fn source(mut stream: TcpStream) -> io::Result<()> {
    let buffer = vec![0x5a; CHUNK];
    loop {
        stream.write_all(&buffer).await?;
    }
}

async fn sink_slices(mut stream: TcpStream) -> io::Result<()> {
    while !stream.read_bytes(CHUNK).await?.is_empty() {}
    Ok(())
}

async fn source_slices(mut stream: TcpStream) -> io::Result<()> {
    let buffer = Bytes::from(vec![0x5a; CHUNK]);
    loop {
        stream.write_all_bytes(&mut buffer.clone()).await?;
    }
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; CHUNK];
    loop {
        let len = stream.read(&mut buffer).await?;
        if len == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..len]).await?;
    }
}
