//! The stack on TUN device `pft0`, for comparison with other stacks: it sets 10.77.0.1/24 on the kernel's
//! side, owns 10.77.0.2 itself, and serves TCP 5001 (sink), 5002 (source), 5003 (echo), 5004 (close after the
//! client's FIN).
//!
//! Each queue has a thread; with `--threads N` all share a runtime of N instead.
//!
//! At the end it prints how many packets each queue received, and how many of them belonged to another queue.

#![forbid(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use ackclock::{Cidr, Stack, TcpConfig, TcpListener, TcpStream};
use ackclock_benches::over_tun::{self, DEVICE, KERNEL, OWN, Service};
use ackclock_device::configure::{Configure, configure};
use ackclock_device::{OffloadMode, open, open_queues};
use bytes::Bytes;
use clap::Parser;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const CHUNK: usize = 256 << 10;

/// Serves a sink, a source, an echo and a close over TUN device pft0, for measurements.
#[derive(Clone, Debug, Parser)]
struct Options {
    /// MTU of the device, in bytes.
    #[arg(long)]
    mtu: Option<u32>,
    /// With a virtio-net header, and packets of 64 KB whole.
    #[arg(long)]
    offload: bool,
    /// Microseconds for which an idle driver polls before it sleeps.
    #[arg(long)]
    busy_poll: Option<u64>,
    /// Bytes of each buffer.
    #[arg(long, default_value_t = 4 << 20)]
    buffer: usize,
    /// Queues of the device, each with a thread of its own.
    #[arg(long, default_value_t = 1, value_parser = at_least_one)]
    queues: usize,
    /// Threads of one runtime for all queues, in place of one for each queue.
    #[arg(long, value_parser = at_least_one)]
    threads: Option<usize>,
    /// Congestion controller of all connections.
    #[arg(long)]
    cc: Option<String>,
    /// Send and receive by slices.
    #[arg(long)]
    zerocopy: bool,
    /// Bytes that an echo reads at most at one time, and keeps for each connection.
    #[arg(long, default_value_t = CHUNK)]
    chunk: usize,
    /// End with the standard input.
    #[arg(long)]
    until_eof: bool,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Arc::new(Options::parse());
    if options.until_eof {
        over_tun::end_with_input();
    }
    let queues = options.queues;
    // A queue, its driver and the tasks of its connections share a thread, unless threads are asked for.
    let threads = options.threads;
    let runtimes: Vec<Runtime> = (0..if threads.is_some() { 1 } else { queues })
        .map(|_| runtime(threads))
        .collect::<io::Result<_>>()?;
    let (first, others) = runtimes.split_first().expect("one at least");
    let handles: Vec<Handle> = runtimes.iter().map(|runtime| runtime.handle().clone()).collect();
    let stack = stack(&options, &handles)?;
    let mut services = Vec::new();
    for service in Service::ALL {
        let listener = Arc::new(stack.listen(SocketAddr::new(OWN, service.port()))?);
        for queue in 0..queues {
            let on = &handles[queue % handles.len()];
            services.push(on.spawn(accept(Arc::clone(&listener), queue, service, Arc::clone(&options))));
        }
    }
    std::thread::scope(|scope| -> Result<(), Box<dyn std::error::Error>> {
        let (stop, stopped) = watch::channel(());
        for other in others {
            let mut stopped = stopped.clone();
            scope.spawn(move || other.block_on(async move { drop(stopped.changed().await) }));
        }
        let ended = first.block_on(served(services));
        drop(stop);
        ended
    })?;
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

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse::<NonZero<usize>>().map(NonZero::get).map_err(|why| why.to_string())
}

fn runtime(threads: Option<usize>) -> io::Result<Runtime> {
    let mut builder = match threads {
        Some(threads) if threads > 1 => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    builder.worker_threads(threads.unwrap_or(1).max(1)).enable_all().build()
}

fn stack(options: &Options, runtimes: &[Handle]) -> Result<Stack, Box<dyn std::error::Error>> {
    let mode = if options.offload { OffloadMode::On } else { OffloadMode::Off };
    let mut devices = Vec::new();
    for queue in 0..options.queues {
        // A device belongs to the runtime in whose context it is opened.
        let _entered = runtimes[queue % runtimes.len()].enter();
        if options.queues > 1 {
            devices.extend(open_queues(DEVICE, mode, 1)?.0);
        } else {
            devices.push(open(DEVICE, mode)?.0);
        }
    }
    let kernel = configure(DEVICE).address(Cidr::new(KERNEL, 24)?);
    options.mtu.into_iter().fold(kernel, Configure::mtu).apply()?;
    let buffer = options.buffer;
    let tcp = TcpConfig { send_buffer_max: buffer, receive_buffer_max: buffer, ..TcpConfig::default() };
    let mut builder = Stack::builder().queues(devices).address(Cidr::new(OWN, 24)?).tcp(tcp);
    if let Some(name) = &options.cc {
        builder = builder.congestion_control(name.as_str())?;
    }
    if let Some(micros) = options.busy_poll {
        builder = builder.busy_poll(Duration::from_micros(micros));
    }
    Ok(builder.spawn_on(runtimes)?)
}

/// Runs until a service fails or an interrupt arrives.
async fn served(services: Vec<JoinHandle<io::Result<()>>>) -> Result<(), Box<dyn std::error::Error>> {
    let mut all = tokio::task::JoinSet::new();
    services.into_iter().for_each(|service| drop(all.spawn(service)));
    tokio::select! {
        Some(ended) = all.join_next() => ended???,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    Ok(())
}

/// Serves the connections of a queue, on the thread of that queue.
async fn accept(
    listener: Arc<TcpListener>,
    queue: usize,
    service: Service,
    options: Arc<Options>,
) -> io::Result<()> {
    let (zerocopy, chunk) = (options.zerocopy, options.chunk);
    loop {
        let (stream, _) = listener.accept_at(queue).await?;
        // A client that disappears ends only its own service.
        tokio::spawn(async move {
            let _ = match service {
                Service::Sink if zerocopy => sink_slices(stream).await,
                Service::Source if zerocopy => source_slices(stream).await,
                Service::Sink => sink(stream, CHUNK).await,
                Service::Source => source(stream).await,
                Service::Echo => echo(stream, chunk).await,
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

async fn echo(mut stream: TcpStream, chunk: usize) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; chunk];
    loop {
        let len = stream.read(&mut buffer).await?;
        if len == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..len]).await?;
    }
}
