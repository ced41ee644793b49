//! The protocol of two tcpcats when data is verified.
//!
//! Without verification the stream carries the file and nothing else, in both directions, because a plain
//! peer would take any other byte for data. TCP itself marks a part: the end of the stream means that the
//! file is whole, a reset that it is not. On request (`--announce-length`) the file's length travels
//! outside the stream, in an experimental option of the handshake (RFC 6994, `Net::carry_file`), which
//! other peers skip; the kernel's sockets (`--kernel`) lack it.
//!
//! The receiver greets with a nonce. A sender that knows the protocol repeats the nonce in its header, which
//! no file could begin with. The data follows in frames (a length of four bytes, then that many bytes), ended
//! by a length of zero and the BLAKE3 hash of all the data. The receiver answers with its result once
//! the file is on the disk under its name, or says that it could not be kept. A plain
//! peer such as nc does not greet, or sends no header: then the data is sent plain, and each end prints its
//! hash.
//!
//! All numbers are big-endian.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use blake3::Hash;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Random: the receiver's for each connection, the sender's for each transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonce([u8; 16]);

/// Which part of the data a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The number of the part, from 0, and the number of parts.
    pub part: (u16, u16),
    /// The offset of the part.
    pub offset: u64,
    /// The length of all parts together; `None` if unknown in advance.
    pub total: Option<u64>,
    /// Identifies the transfer: all its parts have this number, and no other transfer does.
    pub transfer: Nonce,
}

/// The receiver's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub bytes: u64,
    pub hash: Hash,
}

/// How a connection begins for the receiver.
#[derive(Debug)]
pub(crate) enum Opening {
    /// With a header.
    Header(Header),
    /// With data; its first bytes have been read already.
    Plain(Vec<u8>),
}

impl Nonce {
    pub fn new() -> Self {
        // The standard library seeds its hash tables from the system's random source.
        let half = || RandomState::new().build_hasher().finish().to_be_bytes();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&half());
        bytes[8..].copy_from_slice(&half());
        Self(bytes)
    }
}

/// Greets the sender.
pub(crate) async fn greet(writer: &mut (impl AsyncWrite + Unpin), nonce: Nonce) -> io::Result<()> {
    let mut greeting = GREETING.to_vec();
    greeting.extend(nonce.0);
    writer.write_all(&greeting).await?;
    writer.flush().await
}

/// Waits for the receiver's greeting; `None` when it seems to be a plain peer. A file `in_parts` cannot go to
/// one, so there is time for a slow path.
pub(crate) async fn await_greeting(
    reader: &mut (impl AsyncRead + Unpin),
    in_parts: bool,
) -> io::Result<Option<Nonce>> {
    let mut greeting = [0; 24];
    let wait = if in_parts { GREETING_WAIT_PARTS } else { GREETING_WAIT };
    match tokio::time::timeout(wait, reader.read_exact(&mut greeting)).await {
        Ok(Ok(_)) if greeting.starts_with(GREETING) => {
            let mut nonce = Nonce([0; 16]);
            nonce.0.copy_from_slice(&greeting[GREETING.len()..]);
            Ok(Some(nonce))
        }
        Ok(Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(None),
    }
}

impl Header {
    /// Opens the sender's side of a verified transfer.
    pub(crate) async fn write(&self, writer: &mut (impl AsyncWrite + Unpin), nonce: Nonce) -> io::Result<()> {
        let mut bytes = [HEADER, &nonce.0].concat();
        bytes.extend(self.part.0.to_be_bytes());
        bytes.extend(self.part.1.to_be_bytes());
        bytes.extend(self.offset.to_be_bytes());
        bytes.extend(self.total.unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend(self.transfer.0);
        writer.write_all(&bytes).await
    }

    /// Reads the beginning of the sender's side.
    pub(crate) async fn read(reader: &mut (impl AsyncRead + Unpin), nonce: Nonce) -> io::Result<Opening> {
        let expected = [HEADER, &nonce.0].concat();
        let mut seen = Vec::with_capacity(expected.len());
        while expected.starts_with(&seen) && seen.len() < expected.len() {
            let room = (expected.len() - seen.len()) as u64;
            if (&mut *reader).take(room).read_buf(&mut seen).await? == 0 {
                break;
            }
        }
        if seen != expected {
            return Ok(Opening::Plain(seen));
        }
        let part = (reader.read_u16().await?, reader.read_u16().await?);
        let (offset, total) = (reader.read_u64().await?, reader.read_u64().await?);
        let mut transfer = Nonce([0; 16]);
        reader.read_exact(&mut transfer.0).await?;
        let total = Some(total).filter(|&total| total != u64::MAX);
        Ok(Opening::Header(Self { part, offset, total, transfer }))
    }
}

/// Ends the frames with the hash of their data.
pub(crate) async fn write_end(writer: &mut (impl AsyncWrite + Unpin), hash: &Hash) -> io::Result<()> {
    let mut end = vec![0; 4];
    end.extend_from_slice(hash.as_bytes());
    writer.write_all(&end).await?;
    writer.flush().await
}

impl Receipt {
    /// Tells a sender that everything arrived, but that the file could not be kept. No file is that long.
    pub fn not_kept() -> Self {
        Self { bytes: u64::MAX, hash: Hash::from_bytes([0; 32]) }
    }

    pub async fn write(&self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut bytes = self.bytes.to_be_bytes().to_vec();
        bytes.extend_from_slice(self.hash.as_bytes());
        writer.write_all(&bytes).await?;
        writer.flush().await
    }

    pub async fn read(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let bytes = reader.read_u64().await?;
        let mut hash = [0; 32];
        reader.read_exact(&mut hash).await?;
        Ok(Self { bytes, hash: Hash::from_bytes(hash) })
    }
}

/// The data of the frames, as one stream that ends with the last frame.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    reader: R,
    /// Bytes left of the present frame.
    left: u32,
    limit: Limit,
    /// The bytes read so far of a length, or of the hash at the end.
    partial: Vec<u8>,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NotYet,
    Hash,
    Reached(Hash),
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, left: 0, limit: Limit::new(u64::MAX), partial: Vec::new(), end: End::NotYet }
    }

    /// Refuses frames that hold more data than that.
    pub fn at_most(self, limit: u64) -> Self {
        Self { limit: Limit::new(limit), ..self }
    }

    /// The hash that the sender gave, once the end has been read.
    pub fn into_hash(self) -> Option<Hash> {
        match self.end {
            End::Reached(hash) => Some(hash),
            End::NotYet | End::Hash => None,
        }
    }

    /// Fills `partial` up to `len` bytes.
    fn poll_partial(&mut self, cx: &mut Context<'_>, len: usize) -> Poll<io::Result<()>> {
        while self.partial.len() < len {
            let mut room = [0; 32];
            let mut buf = ReadBuf::new(&mut room[..len - self.partial.len()]);
            ready!(Pin::new(&mut self.reader).poll_read(cx, &mut buf))?;
            if buf.filled().is_empty() {
                return Poll::Ready(Err(cut_short()));
            }
            self.partial.extend_from_slice(buf.filled());
        }
        Poll::Ready(Ok(()))
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for FrameReader<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.left == 0 {
            match this.end {
                End::NotYet => {
                    ready!(this.poll_partial(cx, 4))?;
                    this.left = this.partial.drain(..).fold(0, |length, byte| length << 8 | u32::from(byte));
                    this.limit.take(this.left)?;
                    if this.left == 0 {
                        this.end = End::Hash;
                    }
                }
                End::Hash => {
                    ready!(this.poll_partial(cx, 32))?;
                    let mut hash = [0; 32];
                    hash.copy_from_slice(&this.partial);
                    this.end = End::Reached(Hash::from_bytes(hash));
                }
                End::Reached(_) => return Poll::Ready(Ok(())),
            }
        }
        let room = buf.remaining().min(usize::try_from(this.left).unwrap_or(usize::MAX));
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
        ready!(Pin::new(&mut this.reader).poll_read(cx, &mut part))?;
        let len = part.filled().len();
        if len == 0 && room > 0 {
            return Poll::Ready(Err(cut_short()));
        }
        buf.advance(len);
        this.left -= u32::try_from(len).unwrap_or(this.left);
        Poll::Ready(Ok(()))
    }
}

/// How much data frames may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    most: u64,
    left: u64,
}

impl Limit {
    pub fn new(most: u64) -> Self {
        Self { most, left: most }
    }

    /// A frame begins. One that is too long is refused before its data.
    pub fn take(&mut self, frame: u32) -> io::Result<()> {
        let left = self.left.checked_sub(u64::from(frame)).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the sender has more than the {} bytes that were to come", self.most),
            )
        })?;
        self.left = left;
        Ok(())
    }
}

pub(crate) fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed the connection before the end of the data")
}

const GREETING: &[u8] = b"tcpcat1<";
const HEADER: &[u8] = b"tcpcat1>";

/// How long a sender waits for a greeting before it takes the receiver for a plain peer.
const GREETING_WAIT: Duration = Duration::from_secs(3);
const GREETING_WAIT_PARTS: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::super::copy::{Framing, hash_copier};
    use super::*;

    const HEAD: Header = Header { part: (1, 4), offset: 77, total: Some(1000), transfer: Nonce([9; 16]) };

    #[tokio::test]
    async fn frames_carry_data_and_its_hash() {
        let data: Vec<u8> = (0..700_000u32).map(|i| i as u8).collect();
        let mut wire = Vec::new();
        let sent = hash_copier().copy(&mut &data[..], &mut wire, Framing::Frames).await.unwrap();
        write_end(&mut wire, &sent.hash).await.unwrap();
        wire.extend(b"what follows");

        let (mut rest, mut out) = (&wire[..], Vec::new());
        let mut frames = FrameReader::new(&mut rest);
        let received = hash_copier().copy(&mut frames, &mut out, Framing::Plain).await.unwrap();
        assert_eq!(frames.into_hash(), Some(sent.hash));
        assert_eq!(received.hash, blake3::hash(&data));
        assert!(out == data);
        assert_eq!(rest, b"what follows");
    }

    #[tokio::test]
    async fn frames_cut_short_are_an_error() {
        let mut wire = Vec::new();
        let sent = hash_copier().copy(&mut &b"abcdef"[..], &mut wire, Framing::Frames).await.unwrap();
        write_end(&mut wire, &sent.hash).await.unwrap();
        for len in 0..wire.len() {
            let mut out = Vec::new();
            let error = FrameReader::new(&wire[..len]).read_to_end(&mut out).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{len}");
        }
    }

    #[tokio::test]
    async fn frames_beyond_the_limit_are_refused_before_their_data() {
        let data = [7; 10];
        let mut wire = Vec::new();
        let sent = hash_copier().copy(&mut &data[..], &mut wire, Framing::Frames).await.unwrap();
        write_end(&mut wire, &sent.hash).await.unwrap();
        for (limit, read) in [(9, None), (10, Some(10)), (11, Some(10))] {
            let mut out = Vec::new();
            let outcome = FrameReader::new(&wire[..]).at_most(limit).read_to_end(&mut out).await;
            assert_eq!(outcome.as_ref().ok(), read.as_ref(), "{limit}");
            if let Err(error) = outcome {
                assert_eq!((error.kind(), out.len()), (io::ErrorKind::InvalidData, 0), "{limit}");
            }
        }
    }

    #[tokio::test]
    async fn a_header_with_the_nonce_is_recognized() {
        let (nonce, mut wire) = (Nonce::new(), Vec::new());
        HEAD.write(&mut wire, nonce).await.unwrap();
        let opening = Header::read(&mut &wire[..], nonce).await.unwrap();
        assert!(matches!(opening, Opening::Header(HEAD)), "{opening:?}");
    }

    #[tokio::test]
    async fn data_of_a_plain_sender_is_kept() {
        let (nonce, mut old) = (Nonce::new(), Vec::new());
        HEAD.write(&mut old, Nonce::new()).await.unwrap();
        for data in [&b""[..], b"t", b"tcpcat1", b"hello world, a long text", &old] {
            let mut rest = data;
            match Header::read(&mut rest, nonce).await.unwrap() {
                Opening::Plain(mut seen) => {
                    seen.extend(rest);
                    assert_eq!(seen, data);
                }
                Opening::Header(_) => panic!("{data:?} is not a header"),
            }
        }
    }

    #[tokio::test]
    async fn a_plain_receiver_does_not_greet() {
        assert_eq!(await_greeting(&mut &b"220 mail.example.com ESMTP ready"[..], false).await.unwrap(), None);
        assert_eq!(await_greeting(&mut &b""[..], false).await.unwrap(), None);
        let (nonce, mut wire) = (Nonce::new(), Vec::new());
        greet(&mut wire, nonce).await.unwrap();
        assert_eq!(await_greeting(&mut &wire[..], false).await.unwrap(), Some(nonce));
    }
}
