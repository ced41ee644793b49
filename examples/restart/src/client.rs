//! The load: transfers by the kernel's TCP, and the longest time in which one of them heard nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Duration, Instant, sleep, timeout};

const SERVER: &str = "10.9.0.2:7";

#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub transfers: u64,
    pub at_once: u64,
    pub bytes: usize,
}

/// The experience of the transfers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Met {
    pub transfers: u64,
    pub silence: Duration,
    pub took: Duration,
}

impl Met {
    pub(crate) fn add(&mut self, more: Self) {
        self.transfers += more.transfers;
        self.silence = self.silence.max(more.silence);
        self.took += more.took;
    }
}

/// Waits until the first server listens.
pub(crate) async fn wait_for_server() -> anyhow::Result<()> {
    for _ in 0..500 {
        if let Ok(Ok(_)) = timeout(Duration::from_millis(500), TcpStream::connect(SERVER)).await {
            return Ok(());
        }
        sleep(Duration::from_millis(20)).await;
    }
    anyhow::bail!("the first server did not start within ten seconds")
}

/// Runs the transfers, numbered from `first` on.
pub(crate) async fn run(load: Load, first: u64) -> anyhow::Result<Met> {
    let begun = Instant::now();
    let next = Arc::new(AtomicU64::new(first));
    let end = first + load.transfers;
    let workers: Vec<_> = (0..load.at_once)
        .map(|_| {
            let next = Arc::clone(&next);
            tokio::spawn(async move {
                let mut silence = Duration::ZERO;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        return anyhow::Ok(silence);
                    }
                    let met =
                        transfer(number, load.bytes).await.with_context(|| format!("transfer {number}"))?;
                    silence = silence.max(met);
                }
            })
        })
        .collect();
    let mut silence = Duration::ZERO;
    for worker in workers {
        silence = silence.max(worker.await??);
    }
    Ok(Met { transfers: load.transfers, silence, took: begun.elapsed() })
}

/// Sends bytes, compares what comes back, and returns the longest silence.
async fn transfer(number: u64, len: usize) -> anyhow::Result<Duration> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&number.to_le_bytes()).finalize_xof().fill(&mut bytes);
    let sent = blake3::hash(&bytes);
    let mut heard = Instant::now();
    let mut silence = Duration::ZERO;
    let stream = TcpStream::connect(SERVER).await?;
    let (mut read, mut write) = stream.into_split();
    let sender = tokio::spawn(async move {
        write.write_all(&bytes).await?;
        write.shutdown().await
    });
    let mut came = blake3::Hasher::new();
    let mut buf = vec![0; 16 << 10];
    loop {
        let read = read.read(&mut buf).await?;
        silence = silence.max(heard.elapsed());
        heard = Instant::now();
        if read == 0 {
            break;
        }
        came.update(&buf[..read]);
    }
    sender.await??;
    ensure!(came.finalize() == sent, "{} bytes came back, and they differ", came.count());
    Ok(silence)
}
