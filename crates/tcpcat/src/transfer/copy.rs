//! The loop for most data: read a piece, hash it, wait to keep the rate, write it, count it. Regular files on
//! this stack's streams use the loops in `slices`, which avoid copies and keep no rate.

use std::io;
use std::time::Duration;

use blake3::{Hash, Hasher};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

use crate::interrupt::Interrupt;

/// The settings of a copy.
pub(crate) struct Copier<'a> {
    hasher: Option<Hasher>,
    pace: Option<Pace>,
    interrupt: Option<&'a Interrupt>,
    count: Box<dyn Fn(usize) + Send + Sync + 'a>,
}

/// Whether pieces are preceded by their lengths, so that something can follow them on the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Plain,
    Frames,
}

/// The result of a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    pub bytes: u64,
    /// BLAKE3 of the bytes; of no bytes if no hash was asked for.
    pub hash: Hash,
}

/// Where a copy broke off.
#[derive(Debug)]
pub(crate) enum Broken {
    Read(io::Error),
    Write(io::Error),
    Interrupted,
}

impl<'a> Copier<'a> {
    /// Calls `count` with the length of each copied piece.
    pub fn new(count: impl Fn(usize) + Send + Sync + 'a) -> Self {
        Self { hasher: None, pace: None, interrupt: None, count: Box::new(count) }
    }

    /// Hashes the copied data.
    pub fn hashing(mut self, hash: bool) -> Self {
        self.hasher = hash.then(Hasher::new);
        self
    }

    /// Limits the rate, in bits a second.
    pub fn paced(mut self, bits_per_second: Option<u64>) -> Self {
        self.pace = bits_per_second.map(Pace::new);
        self
    }

    /// Stops when the user interrupts.
    pub fn until(mut self, interrupt: &'a Interrupt) -> Self {
        self.interrupt = Some(interrupt);
        self
    }

    /// Copies until `reader` ends. Neither side is closed.
    pub async fn copy<R, W>(
        mut self,
        reader: &mut R,
        writer: &mut W,
        framing: Framing,
    ) -> Result<Copied, Broken>
    where
        R: AsyncRead + Unpin + ?Sized,
        W: AsyncWrite + Unpin + ?Sized,
    {
        let piece = self.pace.as_ref().map_or(PIECE_MAX, Pace::piece);
        let mut buffer = vec![0; LENGTH_LEN + piece];
        let mut bytes = 0;
        loop {
            let len =
                self.or_interrupt(reader.read(&mut buffer[LENGTH_LEN..])).await?.map_err(Broken::Read)?;
            if len == 0 {
                break;
            }
            let (prefix, data) = buffer[..LENGTH_LEN + len].split_at_mut(LENGTH_LEN);
            prefix.copy_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
            self.saw(data);
            if let Some(pace) = &mut self.pace {
                let due = pace.take(len);
                self.or_interrupt(sleep_until(due)).await?;
            }
            let start = if framing == Framing::Frames { 0 } else { LENGTH_LEN };
            self.write(writer, &buffer[start..LENGTH_LEN + len], len).await?;
            bytes += len as u64;
        }
        self.or_interrupt(writer.flush()).await?.map_err(Broken::Write)?;
        Ok(self.copied(bytes))
    }

    /// Writes a piece whose last `len` bytes are data, and counts them as they go: a slow peer takes a
    /// piece in parts.
    async fn write<W>(&self, writer: &mut W, piece: &[u8], len: usize) -> Result<(), Broken>
    where
        W: AsyncWrite + Unpin + ?Sized,
    {
        let mut left = piece;
        while !left.is_empty() {
            let taken = self.or_interrupt(writer.write(left)).await?.map_err(Broken::Write)?;
            if taken == 0 {
                return Err(Broken::Write(io::ErrorKind::WriteZero.into()));
            }
            let before = left.len().min(len);
            left = &left[taken..];
            self.moved(before - left.len().min(len));
        }
        Ok(())
    }

    /// A piece is about to be copied.
    pub(super) fn saw(&mut self, piece: &[u8]) {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(piece);
        }
    }

    /// A piece was copied.
    pub(super) fn moved(&self, len: usize) {
        (self.count)(len);
    }

    /// All was copied.
    pub(super) fn copied(self, bytes: u64) -> Copied {
        Copied { bytes, hash: self.hasher.unwrap_or_default().finalize() }
    }

    async fn or_interrupt<T>(&self, step: impl Future<Output = T>) -> Result<T, Broken> {
        let Some(interrupt) = self.interrupt else { return Ok(step.await) };
        tokio::select! {
            biased;
            () = interrupt.first() => Err(Broken::Interrupted),
            done = step => Ok(done),
        }
    }
}

/// A copier that takes the hash and neither counts nor stops.
#[cfg(test)]
pub(super) fn hash_copier() -> Copier<'static> {
    Copier::new(|_| {}).hashing(true)
}

/// Spreads bytes evenly over time.
#[derive(Debug)]
pub(crate) struct Pace {
    bits_per_second: u64,
    /// When everything taken so far has passed.
    through: Instant,
    /// How much unused time may be made up for.
    behind_max: Duration,
}

impl Pace {
    pub fn new(bits_per_second: u64) -> Self {
        Self { bits_per_second: bits_per_second.max(1), through: Instant::now(), behind_max: Duration::ZERO }
    }

    /// Makes up for that much unused time: timers are too coarse to wait for each of many short pieces.
    pub fn catch_up(&mut self, behind_max: Duration) {
        self.behind_max = behind_max;
    }

    /// The bytes of a twentieth of a second, within limits.
    pub fn piece(&self) -> usize {
        usize::try_from(self.bits_per_second / 8 / 20).unwrap_or(PIECE_MAX).clamp(1, PIECE_MAX)
    }

    /// When `len` more bytes may go. Other unused time is lost: no long burst follows a pause.
    pub fn take(&mut self, len: usize) -> Instant {
        let now = Instant::now();
        let due = self.through.max(now.checked_sub(self.behind_max).unwrap_or(now));
        self.through = due + Duration::from_secs_f64(len as f64 * 8.0 / self.bits_per_second as f64);
        due
    }
}

/// The most that is read at once.
const PIECE_MAX: usize = 256 << 10;

/// Room for a piece's length in front of it.
const LENGTH_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_copy_is_counted_and_hashed() {
        let data = vec![7; PIECE_MAX + 1];
        let (mut out, counted) = (Vec::new(), AtomicUsize::new(0));
        let count = |len| {
            counted.fetch_add(len, Ordering::Relaxed);
        };
        let copier = Copier::new(count).hashing(true);
        let copied = copier.copy(&mut &data[..], &mut out, Framing::Plain).await.unwrap();
        assert_eq!((copied.bytes, copied.hash), (data.len() as u64, blake3::hash(&data)));
        assert_eq!(counted.into_inner(), data.len());
        assert!(out == data);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pace_makes_up_for_as_much_time_as_it_may() {
        let began = Instant::now();
        let mut pace = Pace::new(8_000_000);
        pace.catch_up(Duration::from_millis(20));
        tokio::time::advance(Duration::from_millis(50)).await;
        // 1,000 bytes take a millisecond, and 30 of the 50 are lost.
        let due: Vec<_> = (0..3).map(|_| pace.take(10_000).duration_since(began).as_millis()).collect();
        assert_eq!(due, [30, 40, 50]);
    }

    #[tokio::test]
    async fn a_paced_copy_takes_its_time() {
        let (data, started) = (vec![0; 10_000], Instant::now());
        let copier = Copier::new(|_| {}).paced(Some(800_000));
        copier.copy(&mut &data[..], &mut tokio::io::sink(), Framing::Plain).await.unwrap();
        // 0.1 s, except that the last piece need not be waited for.
        assert!(started.elapsed() >= Duration::from_millis(45), "{:?}", started.elapsed());
    }
}
