//! The data of a transfer of the demonstration: a pattern in frames (see `transfer::protocol`), whose hash
//! both ends compare.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transfer::protocol::{self, FrameReader, Receipt};
use crate::transfer::{Broken, Copied, Copier, Framing};

/// Sends `bytes`, or as many as `time` allows, and waits until the other end has told what it received. A
/// difference is [`Broken::Read`] with [`io::ErrorKind::InvalidData`].
pub(super) async fn send<S>(stream: &mut S, bytes: u64, time: Duration) -> Result<Copied, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut pattern = Pattern::new(bytes, time);
    let copied = Copier::new(|_| {}).hashing(true).copy(&mut pattern, stream, Framing::Frames).await?;
    protocol::write_end(stream, &copied.hash).await.map_err(Broken::Write)?;
    let receipt = Receipt::read(stream).await.map_err(Broken::Read)?;
    check(copied, receipt.bytes, receipt.hash)?;
    Ok(copied)
}

/// Receives all, tells the other end, and compares the hashes.
pub(super) async fn receive<S>(stream: &mut S) -> Result<Copied, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut frames = FrameReader::new(&mut *stream);
    let copier = Copier::new(|_| {}).hashing(true);
    let copied = copier.copy(&mut frames, &mut tokio::io::sink(), Framing::Plain).await?;
    let told = frames.into_hash();
    let receipt = Receipt { bytes: copied.bytes, hash: copied.hash };
    receipt.write(stream).await.map_err(Broken::Write)?;
    check(copied, copied.bytes, told.unwrap_or(copied.hash))?;
    Ok(copied)
}

fn check(own: Copied, bytes: u64, hash: blake3::Hash) -> Result<(), Broken> {
    if own.bytes == bytes && own.hash == hash {
        return Ok(());
    }
    let what =
        format!("{} bytes with hash {} at this end, {bytes} with {hash} at the other", own.bytes, own.hash);
    Err(Broken::Read(io::Error::new(io::ErrorKind::InvalidData, what)))
}

/// Bytes that differ everywhere, for a time and up to an amount.
#[derive(Debug)]
struct Pattern {
    block: Vec<u8>,
    at: usize,
    left: u64,
    until: Instant,
}

impl Pattern {
    fn new(bytes: u64, time: Duration) -> Self {
        let mut block = vec![0; BLOCK_LEN];
        blake3::Hasher::new().update(b"tcpcat demo").finalize_xof().fill(&mut block);
        Self { block, at: 0, left: bytes, until: Instant::now() + time }
    }
}

impl AsyncRead for Pattern {
    fn poll_read(self: Pin<&mut Self>, _cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if Instant::now() >= this.until {
            return Poll::Ready(Ok(()));
        }
        let mut room = buf.remaining().min(usize::try_from(this.left).unwrap_or(usize::MAX));
        this.left -= room as u64;
        while room > 0 {
            let part = room.min(this.block.len() - this.at);
            buf.put_slice(&this.block[this.at..this.at + part]);
            this.at = (this.at + part) % this.block.len();
            room -= part;
        }
        Poll::Ready(Ok(()))
    }
}

/// A prime length, so that shifted data never looks right.
const BLOCK_LEN: usize = 65_521;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_ends_agree_on_what_moved() {
        let (mut one, mut other) = tokio::io::duplex(10_000);
        let minute = Duration::from_secs(60);
        let (sent, received) = tokio::join!(send(&mut one, 1_000_003, minute), receive(&mut other));
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_eq!((sent.bytes, sent.hash), (1_000_003, received.hash));
        assert_eq!(received.bytes, 1_000_003);
    }

    #[test]
    fn a_difference_is_invalid_data() {
        let own = Copied { bytes: 3, hash: blake3::hash(b"abc") };
        assert!(check(own, 3, own.hash).is_ok());
        for (bytes, hash) in [(2, own.hash), (3, blake3::hash(b"abd"))] {
            assert!(
                matches!(check(own, bytes, hash), Err(Broken::Read(error)) if error.kind() == io::ErrorKind::InvalidData)
            );
        }
    }
}
