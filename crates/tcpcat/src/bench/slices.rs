//! `tcpcat bench --zerocopy`: what is sent and received is not copied between this program and its stack.
//!
//! On the wire it is the same as without, so each end chooses for itself. Frames are as long as the pattern, which is sent from
//! the same memory again and again.

use std::future::poll_fn;
use std::io;
use std::time::Instant;

use blake3::Hasher;
use bytes::Bytes;

use super::{A_DAY, Moved, Request, conclude, pattern};
use crate::net::Stream;
use crate::transfer::{Broken, Copied, protocol};

/// As [`exchange`](super::exchange), in slices.
pub(super) async fn exchange(
    stream: &mut Stream,
    request: Request,
    count_sent: impl Fn(usize),
    count_received: impl Fn(usize),
) -> Result<Moved, Broken> {
    let shared = &*stream;
    let sending = async {
        match request.up {
            true => send(shared, request, count_sent).await.map(Some),
            false => Ok(None),
        }
    };
    let receiving = async {
        match request.down {
            true => receive(shared, request, count_received).await.map(Some),
            false => Ok(None),
        }
    };
    let (sent, received) = tokio::try_join!(sending, receiving)?;
    conclude(stream, sent, received).await
}

async fn send(stream: &Stream, request: Request, count: impl Fn(usize)) -> Result<Copied, Broken> {
    let pattern = Bytes::from(pattern(SLICE_LEN));
    let until = Instant::now() + request.time.min(A_DAY);
    let mut hasher = request.verify.then(Hasher::new);
    let (mut left, mut bytes) = (request.bytes.unwrap_or(u64::MAX), 0);
    while left > 0 && Instant::now() < until {
        let data = pattern.slice(..pattern.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
        let prefix = u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes();
        write_all(stream, Bytes::copy_from_slice(&prefix), |_| {}).await.map_err(Broken::Write)?;
        if let Some(hasher) = &mut hasher {
            hasher.update(&data);
        }
        left -= data.len() as u64;
        bytes += data.len() as u64;
        write_all(stream, data, &count).await.map_err(Broken::Write)?;
    }
    let hash = hasher.unwrap_or_default().finalize();
    let mut end = Vec::new();
    protocol::write_end(&mut end, &hash).await.map_err(Broken::Write)?;
    write_all(stream, end.into(), |_| {}).await.map_err(Broken::Write)?;
    Ok(Copied { bytes, hash })
}

async fn write_all(stream: &Stream, mut data: Bytes, count: impl Fn(usize)) -> io::Result<()> {
    while !data.is_empty() {
        count(poll_fn(|cx| stream.poll_write_bytes(cx, &mut data)).await?);
    }
    Ok(())
}

/// What came, and the hash that the sender gave.
async fn receive(
    stream: &Stream,
    request: Request,
    count: impl Fn(usize),
) -> Result<(Copied, Option<blake3::Hash>), Broken> {
    let mut hasher = request.verify.then(Hasher::new);
    let mut bytes = 0;
    loop {
        let prefix = read_exact(stream).await.map_err(Broken::Read)?;
        let mut left = u32::from_be_bytes(prefix) as usize;
        if left == 0 {
            break;
        }
        while left > 0 {
            let part = read(stream, left).await.map_err(Broken::Read)?;
            if let Some(hasher) = &mut hasher {
                hasher.update(&part);
            }
            count(part.len());
            left -= part.len();
            bytes += part.len() as u64;
        }
    }
    let told = blake3::Hash::from_bytes(read_exact(stream).await.map_err(Broken::Read)?);
    Ok((Copied { bytes, hash: hasher.unwrap_or_default().finalize() }, Some(told)))
}

async fn read_exact<const N: usize>(stream: &Stream) -> io::Result<[u8; N]> {
    let (mut all, mut at) = ([0; N], 0);
    while at < N {
        let part = read(stream, N - at).await?;
        all[at..at + part.len()].copy_from_slice(&part);
        at += part.len();
    }
    Ok(all)
}

/// At most `max` bytes, and at least one.
async fn read(stream: &Stream, max: usize) -> io::Result<Bytes> {
    let part = poll_fn(|cx| stream.poll_read_bytes(cx, max)).await?;
    if part.is_empty() { Err(protocol::cut_short()) } else { Ok(part) }
}

/// A prime length: shifted data never looks right.
const SLICE_LEN: usize = 1_048_573;
