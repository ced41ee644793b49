//! tcpcat's protocol: what a peer may say at any point of a verified transfer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use blake3::Hash;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::protocol::{FrameReader, Header, Nonce, Opening, Receipt, await_greeting, write_end};

/// The first byte selects the part of the protocol that the others are, and the size of the pieces in which
/// they arrive.
pub(crate) fn transfer(bytes: &[u8]) -> u64 {
    let Some((&kind, rest)) = bytes.split_first() else { return 1 };
    let size = 1 + usize::from(kind / 4);
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            match kind % 4 {
                0 => frames(rest, size).await,
                1 => opening(rest, size).await,
                2 => greeting(rest, size).await,
                _ => verdict(rest, size).await,
            }
        });
    });
    1
}

/// Bytes that arrive a few at a time.
struct Crumbs<'a> {
    rest: &'a [u8],
    size: usize,
}

impl AsyncRead for Crumbs<'_> {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let len = this.size.min(this.rest.len()).min(buf.remaining());
        let (now, later) = this.rest.split_at(len);
        buf.put_slice(now);
        this.rest = later;
        Poll::Ready(Ok(()))
    }
}

async fn frames(bytes: &[u8], size: usize) {
    let mut crumbs = Crumbs { rest: bytes, size };
    let mut reader = FrameReader::new(&mut crumbs);
    let mut read = Vec::new();
    let outcome = reader.read_to_end(&mut read).await;
    let hash = reader.into_hash();
    let left = crumbs.rest;
    match (unframed(bytes), outcome) {
        (Some((data, end, behind)), Ok(_)) => {
            assert_eq!((read, hash, left), (data, Some(end), behind));
        }
        (None, Err(error)) => {
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            assert_eq!(hash, None, "a hash of what was cut short");
        }
        (theirs, ours) => panic!("{ours:?} of {theirs:?}"),
    }
}

/// Reads frames independently: returns their data, the hash at their end and the bytes behind it; `None` if
/// they are cut short.
fn unframed(mut bytes: &[u8]) -> Option<(Vec<u8>, Hash, &[u8])> {
    let mut data = Vec::new();
    loop {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = u32::from_be_bytes(*length) as usize;
        if length == 0 {
            let (hash, behind) = rest.split_first_chunk::<32>()?;
            return Some((data, Hash::from_bytes(*hash), behind));
        }
        let (part, rest) = rest.split_at_checked(length)?;
        data.extend_from_slice(part);
        bytes = rest;
    }
}

async fn opening(bytes: &[u8], size: usize) {
    let nonce = nonce().await;
    let mut crumbs = Crumbs { rest: bytes, size };
    match Header::read(&mut crumbs, nonce).await {
        Ok(Opening::Plain(seen)) => {
            assert_eq!([&seen, crumbs.rest].concat(), bytes, "bytes of a file are lost")
        }
        Ok(Opening::Header(header)) => {
            let mut written = Vec::new();
            header.write(&mut written, nonce).await.expect("memory takes it");
            assert!(bytes.starts_with(&written), "{header:?}");
        }
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof),
    }
}

async fn greeting(bytes: &[u8], size: usize) {
    let mut crumbs = Crumbs { rest: bytes, size };
    let nonce = await_greeting(&mut crumbs, false).await.expect("the end of a stream is not an error");
    assert_eq!(nonce.is_some(), bytes.len() >= 24 && bytes.starts_with(b"tcpcat1<"));
}

async fn verdict(bytes: &[u8], size: usize) {
    let Ok(verdict) = Receipt::read(&mut Crumbs { rest: bytes, size }).await else {
        return assert!(bytes.len() < 40, "a verdict that is not read");
    };
    let mut written = Vec::new();
    verdict.write(&mut written).await.expect("memory takes it");
    assert!(bytes.starts_with(&written), "{verdict:?}");
    // The end of the frames is that hash behind an empty frame.
    let mut end = Vec::new();
    write_end(&mut end, &verdict.hash).await.expect("memory takes it");
    assert_eq!(unframed(&end).map(|(data, hash, _)| (data, hash)), Some((Vec::new(), verdict.hash)));
}

/// The nonce of a greeting that is always the same.
async fn nonce() -> Nonce {
    let mut greeting = &b"tcpcat1<0123456789abcdef"[..];
    await_greeting(&mut greeting, false).await.expect("it is whole").expect("it is a greeting")
}

thread_local! {
    static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime of one thread");
}
