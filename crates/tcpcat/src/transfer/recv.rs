//! `tcpcat recv FILE`.

use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use blake3::Hash;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::part_file::PartFile;
use super::protocol::{self, FrameReader, Header, Nonce, Opening, Verdict};
use super::{Broken, Copied, Copier, Framing};
use crate::args::{FileArgs, Target};
use crate::exit::{Exit, Failure};
use crate::net::{Listener, Stream};
use crate::session::{Kind, Outcome, Session};

/// A connection that has told what it carries.
struct Opened {
    stream: Stream,
    opening: Opening,
}

/// Where parts are written.
#[derive(Clone)]
struct Store {
    file: Arc<PartFile>,
    path: PathBuf,
    rate: Option<u64>,
}

/// Receives the file.
pub(crate) async fn run(args: FileArgs, target: Target) -> Exit {
    let kind = Kind { name: "recv", data_on_stdout: args.file == Path::new("-"), summary: true };
    let common = args.common.clone();
    let moves = args.move_.clone();
    Session::run(kind, &common, Some(&moves), |session| recv(session, args, target)).await
}

async fn recv(session: &'static Session, args: FileArgs, target: Target) -> Result<Outcome, Failure> {
    let file = PartFile::create(&args.file).map_err(|error| Failure::file("write", &args.file, &error))?;
    let store = Store { file: Arc::new(file), path: args.file.clone(), rate: args.move_.rate };
    let verify = args.move_.verify || args.streams > 1;
    let source = Source::open(session, &args, &target).await?;
    let first = open(session, source.next(session, &args, &target).await?, verify).await?;
    let started = Instant::now();
    let (copied, verified) = match first.opening {
        Opening::Plain(seen) => (plain(session, first.stream, seen, &store, &args).await?, None),
        Opening::Header(header) => {
            let all = parts(session, &source, &args, &target, &store, first.stream, header).await?;
            (all, Some(true))
        }
    };
    let Store { file, path, .. } = store;
    let file =
        Arc::into_inner(file).ok_or_else(|| Failure::new(Exit::File, "the file is still being written"))?;
    let committed = tokio::task::spawn_blocking(move || file.commit()).await.map_err(io::Error::other);
    committed.and_then(|result| result).map_err(|error| Failure::file("write", &path, &error))?;
    let mut outcome = Outcome { verified, took: Some(started.elapsed()), ..Outcome::default() };
    outcome.blake3 = copied.filter(|_| verify).map(|copied| copied.hash);
    if verify && verified.is_none() {
        outcome.notes.push(
            "the sender does not verify (tcpcat send --verify does): compare the hash by hand".to_owned(),
        );
    }
    Ok(outcome)
}

/// Where connections come from.
enum Source {
    Listener(Listener),
    Connect,
}

impl Source {
    async fn open(session: &Session, args: &FileArgs, target: &Target) -> Result<Self, Failure> {
        match target {
            Target::Listen { .. } => Ok(Self::Listener(session.listen(target, &args.place).await?)),
            Target::Connect { .. } => Ok(Self::Connect),
        }
    }

    async fn next(&self, session: &Session, args: &FileArgs, target: &Target) -> Result<Stream, Failure> {
        let Self::Listener(listener) = self else { return session.connect(target, &args.place).await };
        let accepting = session.accept(listener);
        let accepted = match args.place.wait {
            Some(wait) => tokio::time::timeout(wait, accepting).await.unwrap_or_else(|_| {
                Err(Failure::new(Exit::Unreachable, format!("nobody connected within {wait:?}")))
            })?,
            None => accepting.await?,
        };
        accepted.ok_or_else(|| Failure::interrupted("nobody had connected"))
    }
}

/// Greets the sender if the transfer is to be verified, and reads how it begins.
async fn open(session: &Session, mut stream: Stream, verify: bool) -> Result<Opened, Failure> {
    if !verify {
        return Ok(Opened { stream, opening: Opening::Plain(Vec::new()) });
    }
    let nonce = Nonce::new();
    let opening = async {
        protocol::greet(&mut stream, nonce).await?;
        Header::read(&mut stream, nonce).await
    };
    let opening = tokio::select! {
        opening = opening => opening.map_err(|error| session.net.failure("receiving", &error))?,
        () = session.interrupt.first() => return Err(Failure::interrupted("nothing had been sent")),
    };
    Ok(Opened { stream, opening })
}

/// Receives what a plain peer sends: all until it closes.
async fn plain(
    session: &Session,
    mut stream: Stream,
    seen: Vec<u8>,
    store: &Store,
    args: &FileArgs,
) -> Result<Option<Copied>, Failure> {
    let limit = args.move_.bytes.unwrap_or(u64::MAX);
    if let Some(bytes) = args.move_.bytes {
        session.meter.expect(bytes);
    }
    let mut reader = Cursor::new(seen).chain(&mut stream).take(limit);
    let verify = args.move_.verify;
    let copied = store.copy(session, &mut reader, 0, verify).await?;
    if args.move_.bytes.is_some_and(|expected| copied.bytes < expected) {
        return Err(Failure::new(
            Exit::Failed,
            format!("the sender closed after {} of {limit} bytes", copied.bytes),
        ));
    }
    session.observer.ended(&stream);
    stream.shutdown().await.map_err(|error| session.net.failure("closing", &error))?;
    Ok(Some(copied))
}

/// Receives all parts of a verified transfer, of which the first connection has told its own.
async fn parts(
    session: &'static Session,
    source: &Source,
    args: &FileArgs,
    target: &Target,
    store: &Store,
    stream: Stream,
    header: Header,
) -> Result<Option<Copied>, Failure> {
    let count = header.part.1;
    if count > 1 && !store.file.is_seekable() {
        return Err(Failure::usage(format!("{} takes no file in {count} parts", store.path.display()))
            .remedy("receive into a regular file, or send without -P"));
    }
    if let Some(total) = header.total {
        session.meter.expect(total);
    }
    let mut receiving = JoinSet::new();
    let mut indexes = vec![header.part.0];
    let spawn = |receiving: &mut JoinSet<_>, stream, header: Header| {
        let store = store.clone();
        receiving.spawn(async move { store.receive_part(session, stream, header).await });
    };
    spawn(&mut receiving, stream, header);
    for _ in 1..count {
        let next = open(session, source.next(session, args, target).await?, true).await?;
        match next.opening {
            Opening::Header(other) if other.fits(&header) && !indexes.contains(&other.part.0) => {
                indexes.push(other.part.0);
                spawn(&mut receiving, next.stream, other);
            }
            _ => {
                return Err(Failure::new(
                    Exit::Failed,
                    "a connection came in between that carries no part of the file",
                ));
            }
        }
    }
    let mut copied = Vec::new();
    while let Some(ended) = receiving.join_next().await {
        copied.push(ended.map_err(|error| Failure::new(Exit::Failed, error.to_string()))??);
    }
    let bytes: u64 = copied.iter().map(|copied| copied.bytes).sum();
    if header.total.is_some_and(|total| total != bytes) {
        return Err(Failure::verification(format!(
            "{bytes} bytes came of {}",
            header.total.unwrap_or_default()
        )));
    }
    Ok(copied.first().copied().filter(|_| count == 1))
}

impl Header {
    /// Whether another connection belongs to the same transfer.
    fn fits(&self, first: &Self) -> bool {
        self.part.1 == first.part.1 && self.part.0 < self.part.1 && self.total == first.total
    }
}

impl Store {
    /// Receives one part, compares its hash and tells the sender.
    async fn receive_part(
        self,
        session: &Session,
        mut stream: Stream,
        header: Header,
    ) -> Result<Copied, Failure> {
        let mut frames = FrameReader::new(&mut stream);
        let copied = self.copy(session, &mut frames, header.offset, true).await?;
        let told: Option<Hash> = frames.into_hash();
        let verdict = Verdict { bytes: copied.bytes, hash: copied.hash };
        let lost = |error: io::Error| session.net.failure("confirming", &error);
        verdict.write(&mut stream).await.map_err(lost)?;
        session.observer.ended(&stream);
        stream.shutdown().await.map_err(lost)?;
        if told != Some(copied.hash) {
            return Err(Failure::verification(format!(
                "what arrived has hash {}, not that of what was sent; {} is not touched",
                copied.hash,
                self.path.display()
            )));
        }
        Ok(copied)
    }

    async fn copy(
        &self,
        session: &Session,
        reader: &mut (impl AsyncRead + Unpin),
        offset: u64,
        hash: bool,
    ) -> Result<Copied, Failure> {
        let write_failed = |error: &io::Error| Failure::file("write", &self.path, error);
        let mut writer = self.file.writer(offset).await.map_err(|error| write_failed(&error))?;
        let copier = Copier::new(|len| session.meter.add_received(len))
            .hashing(hash)
            .paced(self.rate)
            .until(&session.interrupt);
        copier.copy(reader, &mut *writer, Framing::Plain).await.map_err(|broken| match broken {
            Broken::Read(error) => session.net.failure("receiving", &error),
            Broken::Write(error) => write_failed(&error),
            Broken::Interrupted => Failure::interrupted(&format!(
                "the file was not complete; {} is not touched",
                self.path.display()
            )),
        })
    }
}
