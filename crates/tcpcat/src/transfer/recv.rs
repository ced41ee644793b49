//! `tcpcat recv FILE`.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::future::poll_fn;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use ackclock_cli::{Exit, Failure};
use blake3::Hash;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::task::JoinSet;

use super::arrivals::{Arrivals, Opened, name};
use super::blocks::SliceWriter;
use super::part_file::PartFile;
use super::protocol::{FrameReader, Header, Opening, Receipt, cut_short};
use super::slices::Slices;
use super::{Broken, Copied, Copier, Framing};
use crate::args::{FileArgs, RecvArgs, STREAMS_MAX, Target};
use crate::exit;
use crate::net::Stream;
use crate::session::{Kind, Session, TransferResult};

/// The form of the data.
enum Incoming {
    /// Plain; these bytes have been read already, and at most `limit` are wanted.
    Plain { seen: Vec<u8>, limit: u64 },
    /// In frames, which hold `limit` bytes at most.
    Frames { limit: u64 },
}

/// Where parts are written.
#[derive(Clone)]
struct Store {
    file: Arc<PartFile>,
    path: PathBuf,
    rate: Option<u64>,
    /// `--bytes`.
    bytes: Option<u64>,
    /// `-w`.
    wait: Option<Duration>,
    /// Whether several connections write to different offsets.
    in_pieces: Arc<AtomicBool>,
}

/// Receives the file.
pub(crate) async fn run(args: RecvArgs, target: Target) -> Exit {
    let RecvArgs { file: args, keep_open } = args;
    let kind = Kind { name: "recv", data_on_stdout: args.file == Path::new("-"), summary: true, file: true };
    let common = args.common.clone();
    let progress = args.move_.progress;
    let path = args.file.clone();
    let file = Some(("FILE", path.as_path()));
    Session::run(kind, &common, &target.clone(), progress, file, |session| {
        recv(session, args, target, keep_open)
    })
    .await
}

async fn recv(
    session: &'static Session,
    args: FileArgs,
    target: Target,
    keep_open: bool,
) -> Result<TransferResult, Failure> {
    if args.announce_length {
        session.net.carry_file(None);
    }
    if keep_open {
        return recv_each(session, &args, &target).await;
    }
    let store = Store::create(&args, args.file.clone())?;
    let mut arrivals = Arrivals::open(session, &args, &target, keep_open).await?;
    match arrivals.first().await {
        Ok(first) => recv_one(session, &args, &mut arrivals, first, store).await,
        Err(failure) => Err(broken_off(session, store, failure)),
    }
}

/// `-k`: one file after the other, until the user interrupts. The failure of one does not end the others.
async fn recv_each(
    session: &'static Session,
    args: &FileArgs,
    target: &Target,
) -> Result<TransferResult, Failure> {
    let into_directory = args.file.is_dir();
    if !into_directory {
        // A destination that cannot be written is better known before a sender comes.
        drop(PartFile::create(&args.file)?);
    }
    let mut arrivals = Arrivals::open(session, args, target, true).await?;
    let mut number = 0;
    loop {
        let first = match arrivals.next_file().await {
            Ok(first) => first,
            Err(_) if session.interrupt.is_set() => return Ok(TransferResult::default()),
            Err(failure) => return Err(failure),
        };
        let who = name(&first.stream);
        let path =
            if into_directory { free_name(args, &first.stream, &mut number) } else { args.file.clone() };
        session.meter.begin_file();
        let store = Store::create(args, path.clone())?;
        match recv_one(session, args, &mut arrivals, first, store).await {
            Ok(outcome) => {
                let (bytes, _) = session.meter.of_file();
                session.observer.say(&described(&who, bytes, &path, &outcome));
            }
            Err(failure) if session.interrupt.is_set() => return Err(failure),
            // They would befall the next one, too.
            Err(failure) if matches!(failure.exit(), Exit::ReaderGone | Exit::File) => return Err(failure),
            Err(failure) => session.observer.say(&format!("{who}: {failure}")),
        }
    }
}

/// A name in the directory that no file has: a number, and the sender.
fn free_name(args: &FileArgs, stream: &Stream, number: &mut u64) -> PathBuf {
    let sender = stream.peer_addr().map_or_else(|_| "unknown".to_owned(), |peer| peer.ip().to_string());
    loop {
        *number += 1;
        let path = args.file.join(format!("{number:04}-{sender}"));
        if path.symlink_metadata().is_err() {
            return path;
        }
    }
}

/// The line about a file of several.
fn described(who: &str, bytes: u64, path: &Path, outcome: &TransferResult) -> String {
    let place = if path == Path::new("-") { "stdout".to_owned() } else { path.display().to_string() };
    let mut text = format!("{who}: {bytes} bytes, in {place}");
    if let Some(hash) = &outcome.blake3 {
        text.push_str(&format!(", blake3 {hash}"));
    }
    if outcome.verified == Some(true) {
        text.push_str(", verified");
    }
    for note in &outcome.notes {
        text.push_str(&format!("; {note}"));
    }
    text
}

/// Receives a file whose first connection has come.
async fn recv_one(
    session: &'static Session,
    args: &FileArgs,
    arrivals: &mut Arrivals,
    first: Opened,
    store: Store,
) -> Result<TransferResult, Failure> {
    match receive(session, args, arrivals, first, &store).await {
        Ok(received) => commit(session, args, store, received).await,
        Err(failure) => Err(broken_off(session, store, failure)),
    }
}

/// All data sent has been written.
struct Received {
    /// The data of the only part, if there was one.
    copied: Option<Copied>,
    took: Duration,
    streams: Vec<Waiting>,
}

/// A sender that waits until the file has its name.
struct Waiting {
    stream: Stream,
    /// The sender's answer then; a plain sender only sees the end of the stream.
    receipt: Option<Receipt>,
}

async fn receive(
    session: &'static Session,
    args: &FileArgs,
    arrivals: &mut Arrivals,
    first: Opened,
    store: &Store,
) -> Result<Received, Failure> {
    let started = Instant::now();
    let (copied, streams) = match first.opening {
        Opening::Plain(seen) => {
            arrivals.close_after_last();
            plain(session, first.stream, seen, store, args).await?
        }
        Opening::Header(header) => parts(session, arrivals, store, (first.stream, header)).await?,
    };
    Ok(Received { copied, took: started.elapsed(), streams })
}

/// Gives the file its name, and then tells the sender.
async fn commit(
    session: &Session,
    args: &FileArgs,
    store: Store,
    received: Received,
) -> Result<TransferResult, Failure> {
    let Store { file, path, .. } = store;
    let file =
        Arc::into_inner(file).ok_or_else(|| Failure::new(Exit::File, "the file is still being written"))?;
    let committed = tokio::task::spawn_blocking(move || file.commit()).await;
    let committed =
        committed.unwrap_or_else(|error| Err(Failure::file("write", &path, &io::Error::other(error))));
    let confirmed = received.streams.iter().all(|waiting| waiting.receipt.is_some());
    let told = tell(session, received.streams, committed.is_ok()).await;
    committed?;
    let verify = args.move_.verify || args.streams > 1;
    let mut outcome = TransferResult {
        verified: confirmed.then_some(true),
        took: Some(received.took),
        ..TransferResult::default()
    };
    outcome.blake3 = received.copied.filter(|_| verify).map(|copied| copied.hash);
    if verify && !confirmed {
        outcome.notes.push(
            "the sender does not verify (tcpcat send --verify does); compare the hashes yourself".to_owned(),
        );
    }
    if let Err(error) = told {
        // The file is whole and has its name: the loss of the sender no longer matters.
        outcome.notes.push(format!("the sender left before it heard that the file is complete: {error}"));
    }
    Ok(outcome)
}

/// Tells each sender whether the file was kept.
async fn tell(session: &Session, waiting: Vec<Waiting>, kept: bool) -> io::Result<()> {
    let mut told = Ok(());
    for Waiting { mut stream, receipt } in waiting {
        session.observer.ended(&stream);
        let Some(receipt) = receipt else {
            if kept {
                stream.finish()?;
                let _ = stream.shutdown().await;
            }
            // Otherwise it is reset, as after any loss.
            continue;
        };
        let receipt = if kept { receipt } else { Receipt::not_kept() };
        let tells = async {
            receipt.write(&mut stream).await?;
            stream.finish()?;
            stream.shutdown().await?;
            stream.delivered().await
        };
        let timeout = io::Error::from(io::ErrorKind::TimedOut);
        told = told.and(tokio::time::timeout(TELL_MAX, tells).await.unwrap_or(Err(timeout)));
    }
    told
}

/// Reports how much arrived and where it is: a part is kept unless it is useless.
fn broken_off(session: &Session, store: Store, failure: Failure) -> Failure {
    let (received, total) = session.meter.of_file();
    let useless = matches!(failure.exit(), Exit::File | Exit::ReaderGone | Exit::Verification | Exit::Usage);
    if useless || received == 0 && total.is_none() {
        return failure;
    }
    // Data written in one piece is counted in its file.
    let in_pieces = store.in_pieces.load(Ordering::Relaxed);
    let bytes = store.file.len().filter(|_| !in_pieces).unwrap_or(received);
    let of = total.map_or_else(|| " of an unknown number of".to_owned(), |total| format!(" of {total}"));
    let kept = if bytes > 0 { Arc::into_inner(store.file).and_then(PartFile::keep) } else { None };
    let kept = match kept {
        Some(path) if in_pieces => format!(", kept with gaps in {}", path.display()),
        Some(path) => format!(", and are in {}", path.display()),
        None => String::new(),
    };
    let exit = match failure.exit() {
        // However the sender was lost, the file is a part.
        Exit::Unreachable | Exit::Refused if bytes > 0 => Exit::Failed,
        exit => exit,
    };
    failure.after(&format!("{bytes}{of} bytes arrived{kept}")).with_exit(exit)
}

/// Receives from a plain peer until it closes. A close means that the data is whole, a reset that it is not.
async fn plain(
    session: &Session,
    mut stream: Stream,
    seen: Vec<u8>,
    store: &Store,
    args: &FileArgs,
) -> Result<(Option<Copied>, Vec<Waiting>), Failure> {
    let announced = stream.announced_length();
    let expected = args.move_.bytes.or(announced);
    // One byte more than was announced shows that the announcement is wrong.
    let limit = args.move_.bytes.or(announced.map(|length| length.saturating_add(1))).unwrap_or(u64::MAX);
    session.meter.expect(expected.unwrap_or(0));
    let incoming = Incoming::Plain { seen, limit };
    let (copied, _) = store.copy(session, &mut stream, incoming, 0, args.move_.verify).await?;
    check_length(copied.bytes, expected)?;
    Ok((Some(copied), vec![Waiting { stream, receipt: None }]))
}

/// Receives all parts of a verified transfer; the first connection has announced its own.
async fn parts(
    session: &'static Session,
    arrivals: &mut Arrivals,
    store: &Store,
    first: (Stream, Header),
) -> Result<(Option<Copied>, Vec<Waiting>), Failure> {
    let header = first.1;
    let count = header.part.1;
    check_count(count, store)?;
    let total = agreed(header.total, store.bytes)?;
    session.meter.expect(total.unwrap_or(0));
    store.in_pieces.store(count > 1, Ordering::Relaxed);
    let mut receiving = JoinSet::new();
    let received = gather(session, arrivals, store, first, &mut receiving).await;
    // The other streams are reset, and their tasks have released the file.
    receiving.shutdown().await;
    let received = received?;
    check_whole(received.iter().map(|part| (part.offset, part.copied.bytes)).collect(), header.total)?;
    if total.is_some_and(|total| received.iter().map(|part| part.copied.bytes).sum::<u64>() < total) {
        return Err(Failure::new(Exit::Failed, "the sender has no more").remedy(SAME_BYTES));
    }
    let copied = received.first().map(|part| part.copied).filter(|_| count == 1);
    let waiting = received.into_iter().map(|part| {
        let receipt = Receipt { bytes: part.copied.bytes, hash: part.copied.hash };
        Waiting { stream: part.stream, receipt: Some(receipt) }
    });
    Ok((copied, waiting.collect()))
}

/// Receives each part as it comes, until all have come or one fails. They come from the host of the first,
/// each with a part that no other has.
async fn gather(
    session: &'static Session,
    arrivals: &mut Arrivals,
    store: &Store,
    (stream, header): (Stream, Header),
    receiving: &mut JoinSet<Result<ReceivedPart, Failure>>,
) -> Result<Vec<ReceivedPart>, Failure> {
    let host = |stream: &Stream| stream.peer_addr().ok().map(|peer| peer.ip());
    let (sender, count) = (host(&stream), usize::from(header.part.1));
    arrivals.connect(header.part.1.saturating_sub(1));
    let (mut opened, mut received) = (vec![header.part.0], Vec::new());
    receiving.spawn(store.clone().receive_part(session, stream, header));
    let breaks_off = session.breaks_off(store.wait);
    tokio::pin!(breaks_off);
    while received.len() < count {
        tokio::select! {
            biased;
            Some(ended) = receiving.join_next() => {
                received.push(ended.map_err(|error| Failure::new(Exit::Failed, error.to_string()))??);
            }
            error = is_left(&mut received) => return Err(session.net.failure("receiving", &error)),
            failure = &mut breaks_off => return Err(failure),
            next = arrivals.next(), if opened.len() < count => {
                let next = next?;
                if arrivals.keeps_open && !belongs(&next, &header) {
                    arrivals.hold(next);
                    continue;
                }
                let from_sender = host(&next.stream) == sender;
                match next.opening {
                    Opening::Header(part)
                        if from_sender && part.fits(&header) && !opened.contains(&part.part.0) =>
                    {
                        opened.push(part.part.0);
                        receiving.spawn(store.clone().receive_part(session, next.stream, part));
                    }
                    _ => arrivals.disregard(&name(&next.stream), "carries no part of the file")?,
                }
            }
        }
    }
    Ok(received)
}

/// Whether a connection brings a part of the file that began with `first`, rather than another file.
fn belongs(next: &Opened, first: &Header) -> bool {
    matches!(&next.opening, Opening::Header(part) if part.transfer == first.transfer)
}

/// Completes when a sender leaves that should wait for its receipt: the other parts will not come.
async fn is_left(received: &mut [ReceivedPart]) -> io::Error {
    poll_fn(|cx| {
        for part in &mut *received {
            let read = Pin::new(&mut part.stream).poll_read(cx, &mut ReadBuf::new(&mut [0]));
            if let Poll::Ready(read) = read {
                return Poll::Ready(read.err().unwrap_or_else(cut_short));
            }
        }
        Poll::Pending
    })
    .await
}

/// The length of the file, where either end knows it. The hash covers the whole stream, so a prefix cannot be
/// verified.
fn agreed(announced: Option<u64>, wanted: Option<u64>) -> Result<Option<u64>, Failure> {
    match (announced, wanted) {
        (Some(announced), Some(wanted)) if announced != wanted => Err(Failure::new(
            Exit::Failed,
            format!("the sender has {announced} bytes; --bytes asks for {wanted}"),
        )
        .remedy(SAME_BYTES)),
        _ => Ok(announced.or(wanted)),
    }
}

/// A part that was written and whose hash is right.
struct ReceivedPart {
    offset: u64,
    copied: Copied,
    stream: Stream,
}

fn check_count(count: u16, store: &Store) -> Result<(), Failure> {
    if !(1..=STREAMS_MAX).contains(&count) {
        return Err(Failure::new(
            Exit::Failed,
            format!("the sender announced {count} parts; from 1 to {STREAMS_MAX} are possible"),
        ));
    }
    if count > 1 && !store.file.is_seekable() {
        return Err(Failure::usage(format!(
            "{} cannot receive a file in {count} parts",
            store.path.display()
        ))
        .remedy("receive into a regular file, or send without -P"));
    }
    Ok(())
}

/// Whether a plain sender closed where it should.
fn check_length(bytes: u64, expected: Option<u64>) -> Result<(), Failure> {
    match expected.map(|expected| bytes.cmp(&expected)) {
        Some(Less) => Err(Failure::new(Exit::Failed, "the sender closed before the end of the data")),
        Some(Greater) => {
            Err(Failure::new(Exit::Failed, "the sender has more than the length that it announced"))
        }
        Some(Equal) | None => Ok(()),
    }
}

/// Whether parts, given by offset and length, cover the file from the beginning to `total` without gaps.
fn check_whole(mut extents: Vec<(u64, u64)>, total: Option<u64>) -> Result<(), Failure> {
    extents.sort_unstable();
    let end = extents.iter().try_fold(
        0,
        |end: u64, &(offset, len)| {
            if offset == end { end.checked_add(len) } else { None }
        },
    );
    match end {
        Some(end) if total.is_none_or(|total| total == end) => Ok(()),
        _ => Err(exit::verification("the parts received do not make up the announced file")),
    }
}

impl Header {
    /// Whether another connection belongs to the same transfer.
    fn fits(&self, first: &Self) -> bool {
        self.transfer == first.transfer && self.part.1 == first.part.1 && self.total == first.total
    }
}

impl Store {
    fn create(args: &FileArgs, path: PathBuf) -> Result<Self, Failure> {
        Ok(Self {
            file: Arc::new(PartFile::create(&path)?),
            path,
            rate: args.move_.rate,
            bytes: args.move_.bytes,
            wait: args.peer.wait,
            in_pieces: Arc::default(),
        })
    }

    /// Receives one part and compares its hash. A sender whose data is wrong learns it at once.
    async fn receive_part(
        self,
        session: &Session,
        mut stream: Stream,
        header: Header,
    ) -> Result<ReceivedPart, Failure> {
        let length = header.total.or(self.bytes).unwrap_or(u64::MAX);
        let incoming = Incoming::Frames { limit: length.saturating_sub(header.offset) };
        let (copied, told) = self.copy(session, &mut stream, incoming, header.offset, true).await?;
        if told == Some(copied.hash) {
            return Ok(ReceivedPart { offset: header.offset, copied, stream });
        }
        let receipt = Receipt { bytes: copied.bytes, hash: copied.hash };
        let lost = |error: io::Error| session.net.failure("confirming", &error);
        receipt.write(&mut stream).await.map_err(lost)?;
        session.observer.ended(&stream);
        stream.finish().map_err(lost)?;
        stream.shutdown().await.map_err(lost)?;
        Err(exit::verification(format!(
            "the data received has hash {}, not the sender's; {} is untouched",
            copied.hash,
            self.path.display()
        )))
    }

    /// Writes the data from `offset` on; returns the hash that the sender gave, if the data came in frames.
    async fn copy(
        &self,
        session: &Session,
        stream: &mut Stream,
        incoming: Incoming,
        offset: u64,
        hash: bool,
    ) -> Result<(Copied, Option<Hash>), Failure> {
        let copier = Copier::new(|len| session.meter.add_received(len)).hashing(hash).paced(self.rate);
        let in_slices = self.rate.is_none() && stream.has_slices();
        let regular = if in_slices { self.file.regular(offset) } else { Ok(None) };
        if let Some(file) = regular.map_err(|error| self.write_failed(&error))? {
            let mut slices = match incoming {
                Incoming::Plain { seen, limit } => Slices::plain(stream, seen, limit),
                Incoming::Frames { limit } => Slices::frames(stream, limit),
            };
            let mut writer = SliceWriter::new(file);
            let copied = self.ended(session, copier.receive_slices(&mut slices, &mut writer)).await;
            if copied.is_err() {
                // The part shows what arrived. If it cannot be written, it shows less.
                let _ = writer.flush().await;
            }
            return Ok((copied?, slices.told()));
        }
        match incoming {
            Incoming::Plain { seen, limit } => {
                let mut reader = Cursor::new(seen).chain(stream).take(limit);
                Ok((self.copy_bytes(session, copier, &mut reader, offset).await?, None))
            }
            Incoming::Frames { limit } => {
                let mut frames = FrameReader::new(stream).at_most(limit);
                let copied = self.copy_bytes(session, copier, &mut frames, offset).await?;
                Ok((copied, frames.into_hash()))
            }
        }
    }

    async fn copy_bytes(
        &self,
        session: &Session,
        copier: Copier<'_>,
        reader: &mut (impl AsyncRead + Unpin),
        offset: u64,
    ) -> Result<Copied, Failure> {
        let mut writer = self.file.writer(offset).await.map_err(|error| self.write_failed(&error))?;
        let copied = self.ended(session, copier.copy(reader, &mut writer, Framing::Plain)).await;
        if copied.is_err() {
            // As above.
            let _ = writer.flush().await;
        }
        copied
    }

    /// How a copy ends unless the user or `-w` ends it.
    async fn ended(
        &self,
        session: &Session,
        copy: impl Future<Output = Result<Copied, Broken>>,
    ) -> Result<Copied, Failure> {
        tokio::select! {
            biased;
            copied = copy => copied.map_err(|broken| match broken {
                Broken::Read(error) if error.kind() == io::ErrorKind::InvalidData => match self.bytes {
                    Some(_) => Failure::new(Exit::Failed, error.to_string()).remedy(SAME_BYTES),
                    None => exit::verification(error.to_string()),
                },
                Broken::Read(error) => session.net.failure("receiving", &error),
                Broken::Write(error) => self.write_failed(&error),
                Broken::Interrupted => session.interrupted("the transfer is incomplete"),
            }),
            failure = session.breaks_off(self.wait) => Err(failure),
        }
    }

    fn write_failed(&self, error: &io::Error) -> Failure {
        self.file.failure(error)
    }
}

/// The hint for a verified transfer of a part of a file.
const SAME_BYTES: &str = "give both ends the same --bytes, or leave it away at both";

/// How long a sender may take to take the result.
const TELL_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_stream_has_the_length_that_was_announced() {
        assert!(check_length(4, Some(4)).is_ok() && check_length(4, None).is_ok());
        for (bytes, says) in [(3, "closed before the end"), (5, "more than the length that it announced")] {
            let failure = check_length(bytes, Some(4)).unwrap_err();
            assert_eq!(failure.exit(), Exit::Failed);
            assert!(failure.message().contains(says), "{failure}");
        }
    }

    #[test]
    fn parts_must_lie_side_by_side() {
        assert!(check_whole(vec![(4, 4), (0, 4), (8, 0)], Some(8)).is_ok());
        assert!(check_whole(vec![(0, 5)], None).is_ok());
        let twice_or_short: [&[(u64, u64)]; 4] = [&[(0, 4), (0, 4)], &[(0, 4), (5, 3)], &[(0, 4)], &[(4, 4)]];
        for extents in twice_or_short {
            let failure = check_whole(extents.to_vec(), Some(8)).unwrap_err();
            assert_eq!(failure.exit(), Exit::Verification, "{extents:?}");
        }
        assert!(check_whole(vec![(0, u64::MAX), (u64::MAX, 1)], None).is_err());
    }
}
