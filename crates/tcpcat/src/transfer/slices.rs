//! Data that a stream sends and receives without copies: blocks of a file, whole or in frames, and arriving
//! slices.

use std::future::poll_fn;
use std::io;

use blake3::Hash;
use bytes::Bytes;

use super::blocks::{BlockReader, SliceWriter};
use super::copy::{Broken, Copied, Copier, Framing};
use super::protocol::{self, Limit};
use crate::net::Stream;

/// The arriving data, slice by slice.
pub(crate) struct Slices<'a> {
    stream: &'a Stream,
    form: Form,
}

enum Form {
    /// Everything until the peer closes.
    Plain {
        /// Bytes read before.
        seen: Bytes,
        /// Bytes still wanted.
        left: u64,
    },
    /// Frames: the bytes left of the present one, how much they may hold, and the hash that the sender gave
    /// after the last.
    Frames { left: usize, limit: Limit, told: Option<Hash> },
}

impl<'a> Slices<'a> {
    /// The data of a plain peer, whose first bytes are `seen`: `limit` bytes at most.
    pub fn plain(stream: &'a Stream, seen: Vec<u8>, limit: u64) -> Self {
        Self { stream, form: Form::Plain { seen: seen.into(), left: limit } }
    }

    /// The data of frames, `limit` bytes at most.
    pub fn frames(stream: &'a Stream, limit: u64) -> Self {
        Self { stream, form: Form::Frames { left: 0, limit: Limit::new(limit), told: None } }
    }

    /// The next slice; an empty one is the end.
    pub async fn next(&mut self) -> io::Result<Bytes> {
        match &mut self.form {
            Form::Plain { seen, left } => {
                let max = usize::try_from(*left).unwrap_or(usize::MAX);
                let slice = if seen.is_empty() && max > 0 {
                    read(self.stream, max).await?
                } else {
                    seen.split_to(seen.len().min(max))
                };
                *left -= slice.len() as u64;
                Ok(slice)
            }
            Form::Frames { told: Some(_), .. } => Ok(Bytes::new()),
            Form::Frames { left, limit, told } => {
                if *left == 0 {
                    let frame = u32::from_be_bytes(read_exact(self.stream).await?);
                    limit.take(frame)?;
                    *left = frame as usize;
                }
                if *left == 0 {
                    *told = Some(Hash::from_bytes(read_exact(self.stream).await?));
                    return Ok(Bytes::new());
                }
                let slice = read(self.stream, *left).await?;
                if slice.is_empty() {
                    return Err(protocol::cut_short());
                }
                *left -= slice.len();
                Ok(slice)
            }
        }
    }

    /// The hash that the sender gave, once the end of the frames has arrived.
    pub fn told(&self) -> Option<Hash> {
        match self.form {
            Form::Plain { .. } => None,
            Form::Frames { told, .. } => told,
        }
    }
}

impl Copier<'_> {
    /// Sends a file's blocks, as [`copy`](Self::copy) would, at the stream's rate.
    pub(super) async fn send_blocks(
        mut self,
        blocks: &mut BlockReader,
        stream: &Stream,
        framing: Framing,
    ) -> Result<Copied, Broken> {
        let mut bytes = 0;
        loop {
            let block = blocks.next().await.map_err(Broken::Read)?;
            let len = block.len();
            if len == 0 {
                return Ok(self.copied(bytes));
            }
            self.saw(&block);
            if framing == Framing::Frames {
                write_length(stream, len).await.map_err(Broken::Write)?;
            }
            write_all(stream, block, |taken| self.moved(taken)).await.map_err(Broken::Write)?;
            bytes += len as u64;
        }
    }

    /// Writes the arriving data to a file.
    pub(super) async fn receive_slices(
        mut self,
        slices: &mut Slices<'_>,
        writer: &mut SliceWriter,
    ) -> Result<Copied, Broken> {
        let mut bytes = 0;
        loop {
            let slice = slices.next().await.map_err(Broken::Read)?;
            let len = slice.len();
            if len == 0 {
                writer.flush().await.map_err(Broken::Write)?;
                return Ok(self.copied(bytes));
            }
            self.saw(&slice);
            writer.put(slice).await.map_err(Broken::Write)?;
            self.moved(len);
            bytes += len as u64;
        }
    }
}

/// Sends the length of a frame.
async fn write_length(stream: &Stream, len: usize) -> io::Result<()> {
    let prefix = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    write_all(stream, Bytes::copy_from_slice(&prefix), |_| {}).await
}

/// Sends all of `data`; calls `count` with the length of each part.
async fn write_all(stream: &Stream, mut data: Bytes, count: impl Fn(usize)) -> io::Result<()> {
    while !data.is_empty() {
        count(poll_fn(|cx| stream.poll_write_bytes(cx, &mut data)).await?);
    }
    Ok(())
}

/// At most `max` bytes; none at the end of the stream.
async fn read(stream: &Stream, max: usize) -> io::Result<Bytes> {
    poll_fn(|cx| stream.poll_read_bytes(cx, max)).await
}

async fn read_exact<const N: usize>(stream: &Stream) -> io::Result<[u8; N]> {
    let (mut all, mut at) = ([0; N], 0);
    while at < N {
        let part = read(stream, N - at).await?;
        if part.is_empty() {
            return Err(protocol::cut_short());
        }
        all[at..at + part.len()].copy_from_slice(&part);
        at += part.len();
    }
    Ok(all)
}
