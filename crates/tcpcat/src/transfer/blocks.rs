//! Files, read and written in blocks that become slices of a stream's queues, to avoid copies.
//!
//! One block is read while the block before it is sent, and slices are written while the next ones arrive;
//! both run on tokio's blocking threads. Blocks that the peer has acknowledged are used again for reading,
//! the latest first, because its memory is most likely to be in a cache.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use tokio::task::{JoinHandle, spawn_blocking};

/// A part of a file, read one block ahead.
#[derive(Debug)]
pub(super) struct BlockReader {
    ahead: Option<JoinHandle<(Reading, io::Result<Bytes>)>>,
}

#[derive(Debug)]
struct Reading {
    file: File,
    left: u64,
    /// Blocks in use, the oldest first; one without another owner is free.
    given: Vec<Bytes>,
}

/// A file to which slices are written in order.
#[derive(Debug)]
pub(super) struct SliceWriter {
    /// `None` during a write, and after a failed one.
    file: Option<File>,
    gathered: Vec<Bytes>,
    gathered_bytes: usize,
    writing: Option<JoinHandle<(File, io::Result<()>)>>,
}

impl BlockReader {
    /// Begins to read at most `left` bytes from `offset` on.
    pub async fn open(path: PathBuf, offset: u64, left: u64) -> io::Result<Self> {
        let open = move || {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(offset))?;
            Ok::<_, io::Error>(Reading { file, left, given: Vec::new() })
        };
        let reading = spawn_blocking(open).await.map_err(io::Error::other)??;
        Ok(Self { ahead: Some(spawn_blocking(|| reading.next())) })
    }

    /// The next block; an empty one is the end.
    pub async fn next(&mut self) -> io::Result<Bytes> {
        let Some(ahead) = &mut self.ahead else { return Ok(Bytes::new()) };
        let (reading, block) = ahead.await.map_err(io::Error::other)?;
        let goes_on = block.as_ref().is_ok_and(|block| !block.is_empty());
        self.ahead = goes_on.then(|| spawn_blocking(|| reading.next()));
        block
    }
}

impl Reading {
    fn next(mut self) -> (Self, io::Result<Bytes>) {
        let block = self.read();
        (self, block)
    }

    fn read(&mut self) -> io::Result<Bytes> {
        let mut block = self.free_block();
        let room = BLOCK_LEN.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let mut len = 0;
        while len < room {
            match self.file.read(&mut block[len..room]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.left -= len as u64;
        let block = block.freeze();
        let part = block.slice(..len);
        self.given.push(block);
        Ok(part)
    }

    fn free_block(&mut self) -> BytesMut {
        let free = self.given.iter().rposition(Bytes::is_unique).map(|place| self.given.remove(place));
        if self.given.len() >= BLOCKS_MAX {
            self.given.remove(0);
        }
        free.and_then(|block| block.try_into_mut().ok()).unwrap_or_else(|| BytesMut::zeroed(BLOCK_LEN))
    }
}

impl SliceWriter {
    pub fn new(file: File) -> Self {
        Self { file: Some(file), gathered: Vec::new(), gathered_bytes: 0, writing: None }
    }

    /// Takes a slice, and waits while too many are gathered. Even if the future is dropped, the slice is
    /// taken.
    pub async fn put(&mut self, slice: Bytes) -> io::Result<()> {
        self.gathered_bytes += slice.len();
        self.gathered.push(slice);
        let is_over = self.writing.as_ref().is_none_or(JoinHandle::is_finished);
        if is_over || self.gathered_bytes >= GATHERED_MAX {
            self.written().await?;
            self.write();
        }
        Ok(())
    }

    /// Waits until all is written.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.written().await?;
        self.write();
        self.written().await
    }

    /// Waits for the slices being written.
    async fn written(&mut self) -> io::Result<()> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        let ended = writing.await.map_err(io::Error::other);
        self.writing = None;
        let (file, result) = ended?;
        // After a failed write, later slices have no place in the file.
        self.file = result.is_ok().then_some(file);
        result
    }

    /// Begins to write the gathered slices.
    fn write(&mut self) {
        let Some(mut file) = self.file.take_if(|_| !self.gathered.is_empty()) else { return };
        let slices = std::mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        self.writing = Some(spawn_blocking(move || {
            let result = slices.iter().try_for_each(|slice| file.write_all(slice));
            (file, result)
        }));
    }
}

/// The payload of one frame of a verified transfer.
const BLOCK_LEN: usize = 256 << 10;

/// Blocks kept for reuse: more than a send buffer of the default size holds.
const BLOCKS_MAX: usize = 24;

/// Bytes gathered during a write. They are outside the stack's memory budget.
const GATHERED_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tempfile::NamedTempFile;

    use super::*;

    fn file_of(data: &[u8]) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(data).unwrap();
        file
    }

    fn data(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i / 3) as u8).collect()
    }

    #[tokio::test]
    async fn a_part_of_a_file_comes_in_blocks_and_each_is_read_into_again() {
        let data = data(7 * BLOCK_LEN + 5);
        let file = file_of(&data);
        let (offset, len) = (3, 6 * BLOCK_LEN + 1);
        let mut reader = BlockReader::open(file.path().to_owned(), offset as u64, len as u64).await.unwrap();
        let (mut all, mut places) = (Vec::new(), std::collections::BTreeSet::new());
        loop {
            let block = reader.next().await.unwrap();
            if block.is_empty() {
                break;
            }
            places.insert(block.as_ptr() as usize);
            all.extend_from_slice(&block);
        }
        assert!(all == data[offset..offset + len]);
        assert!(places.len() <= 3, "one that is sent, one ahead: {}", places.len());
        assert!(reader.next().await.unwrap().is_empty(), "it stays at its end");
    }

    #[tokio::test]
    async fn blocks_that_are_held_are_not_touched_and_a_short_file_just_ends() {
        let data = data(30 * BLOCK_LEN);
        let file = file_of(&data);
        let mut reader = BlockReader::open(file.path().to_owned(), 0, u64::MAX).await.unwrap();
        let mut held = Vec::new();
        loop {
            match reader.next().await.unwrap() {
                block if block.is_empty() => break,
                block => held.push(block),
            }
        }
        assert!(held.concat() == data);
    }

    #[tokio::test]
    async fn slices_are_written_in_their_order_and_what_was_taken_is_there_after_a_flush() {
        let file = file_of(b"");
        let data = Bytes::from(data(5 << 20));
        let mut writer = SliceWriter::new(File::create(file.path()).unwrap());
        let mut rest = data.clone();
        for len in (1..).map(|turn: usize| turn * 4099 % 70_000) {
            let slice = rest.split_to(len.min(rest.len()));
            if rest.is_empty() {
                // Given up while it waits.
                let _ = tokio::time::timeout(std::time::Duration::ZERO, writer.put(slice)).await;
                break;
            }
            writer.put(slice).await.unwrap();
        }
        writer.flush().await.unwrap();
        assert!(std::fs::read(file.path()).unwrap() == data);
    }

    #[tokio::test]
    async fn a_full_disk_is_told() {
        let mut writer = SliceWriter::new(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let put = writer.put(Bytes::from_static(b"data")).await;
        let error = put.and(writer.flush().await).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        writer.flush().await.unwrap();
    }
}
