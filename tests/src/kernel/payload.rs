//! Long data under a hash.
//!
//! The data is blocks of 64 KB of noise that begin with the block's number: a block that is lost, duplicated,
//! moved or damaged changes the hash. Sender and receiver each hash what they see.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A number of bytes, and their hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Bytes.
    pub bytes: u64,
    /// BLAKE3.
    pub hash: blake3::Hash,
}

/// The data's blocks in turn.
#[derive(Debug)]
pub struct Payload {
    block: Vec<u8>,
    number: u64,
    left: u64,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Payload {
    /// `bytes` of data; another seed gives other data.
    #[must_use]
    pub fn new(bytes: u64, seed: u64) -> Self {
        let mut block = vec![0; BLOCK];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut block);
        Self { block, number: 0, left: bytes, hasher: blake3::Hasher::new(), bytes }
    }

    /// The next block; the last may be shorter.
    pub fn next_block(&mut self) -> Option<&[u8]> {
        if self.left == 0 {
            return None;
        }
        self.block[..8].copy_from_slice(&self.number.to_le_bytes());
        self.number += 1;
        let len = usize::try_from(self.left).unwrap_or(BLOCK).min(BLOCK);
        self.left -= len as u64; // a block's length
        self.hasher.update(&self.block[..len]);
        Some(&self.block[..len])
    }

    /// The digest of all blocks taken.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest { bytes: self.bytes - self.left, hash: self.hasher.finalize() }
    }

    /// All of it at once.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(block) = self.next_block() {
            all.extend_from_slice(block);
        }
        all
    }
}

/// Writes `bytes` of data and flushes; does not shut down.
///
/// # Errors
/// The writer's.
pub async fn send(writer: &mut (impl AsyncWrite + Unpin), bytes: u64, seed: u64) -> io::Result<Digest> {
    let mut payload = Payload::new(bytes, seed);
    while let Some(block) = payload.next_block() {
        writer.write_all(block).await?;
    }
    writer.flush().await?;
    Ok(payload.digest())
}

/// Reads to the end.
///
/// # Errors
/// The reader's.
pub async fn receive(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Digest> {
    receive_some(reader, u64::MAX).await
}

/// Reads to the end, or until `bytes` have come.
///
/// # Errors
/// The reader's.
pub async fn receive_some(reader: &mut (impl AsyncRead + Unpin), bytes: u64) -> io::Result<Digest> {
    let mut buf = vec![0; 4 * BLOCK];
    let mut hasher = blake3::Hasher::new();
    let mut received = 0;
    while received < bytes {
        let room = usize::try_from(bytes - received).unwrap_or(usize::MAX).min(buf.len());
        let len = reader.read(&mut buf[..room]).await?;
        if len == 0 {
            break;
        }
        hasher.update(&buf[..len]);
        received += len as u64; // a read's length
    }
    Ok(Digest { bytes: received, hash: hasher.finalize() })
}

/// The digest of data that is there.
#[must_use]
pub fn digest(data: &[u8]) -> Digest {
    Digest { bytes: data.len() as u64, hash: blake3::hash(data) }
}

const BLOCK: usize = 64 * 1024;

/// Takes each connection of a listener to its end, then sends all of it back, until the runtime ends.
pub fn mirror(listener: tokio::net::TcpListener) {
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await?;
                stream.write_all(&all).await?;
                stream.shutdown().await
            });
        }
    });
}
