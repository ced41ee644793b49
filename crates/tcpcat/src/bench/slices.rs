//! `tcpcat bench --zerocopy`: data is not copied between this program and its stack.
//!
//! On the wire nothing changes, so each end chooses for itself. Frames are as long as the pattern, which is
//! sent from the same memory again and again.

use std::time::Instant;

use blake3::Hasher;
use bytes::Bytes;

use super::{A_DAY, Moved, Request, conclude, pattern};
use crate::net::Stream;
use crate::transfer::slices::{Slices, write_all, write_length};
use crate::transfer::{Broken, Copied, protocol};

/// Like [`exchange`](super::exchange), in slices.
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
        write_length(stream, data.len()).await.map_err(Broken::Write)?;
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

/// Receives data. Returns what arrived, and the hash that the sender gave.
async fn receive(
    stream: &Stream,
    request: Request,
    count: impl Fn(usize),
) -> Result<(Copied, Option<blake3::Hash>), Broken> {
    let mut hasher = request.verify.then(Hasher::new);
    let (mut slices, mut bytes) = (Slices::frames(stream, u64::MAX), 0);
    loop {
        let slice = slices.next().await.map_err(Broken::Read)?;
        if slice.is_empty() {
            break;
        }
        if let Some(hasher) = &mut hasher {
            hasher.update(&slice);
        }
        count(slice.len());
        bytes += slice.len() as u64;
    }
    Ok((Copied { bytes, hash: hasher.unwrap_or_default().finalize() }, slices.told()))
}

/// A prime length, so that shifted data never looks right.
const SLICE_LEN: usize = 1_048_573;
