//! `tcpcat send FILE`.

use std::collections::VecDeque;
use std::io::{self, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use ackclock_cli::{Exit, Failure};
use blake3::Hash;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};

use super::blocks::BlockReader;
use super::protocol::{self, Header, Nonce, Receipt};
use super::{Broken, Copied, Copier, Framing};
use crate::args::{FileArgs, Target};
use crate::exit;
use crate::net::Stream;
use crate::session::{Kind, Session, TransferResult};

/// The data for one connection.
#[derive(Clone, Debug)]
struct Part {
    header: Header,
    /// The number of bytes, if it is known.
    len: Option<u64>,
    /// The most that is sent; `None`: until the file ends.
    limit: Option<u64>,
    /// Bits a second.
    rate: Option<u64>,
    verify: bool,
}

/// The result of one connection.
struct SentPart {
    /// When its data began to move, after the receiver's greeting or the wait for one.
    began: Instant,
    hash: Hash,
    /// Whether the peer has confirmed the hash.
    confirmed: bool,
}

/// Sends the file.
pub(crate) async fn run(args: FileArgs, target: Target) -> Exit {
    let kind = Kind { name: "send", data_on_stdout: false, summary: true, file: true };
    let common = args.common.clone();
    let progress = args.move_.progress;
    let path = args.file.clone();
    let file = Some(("", path.as_path()));
    Session::run(kind, &common, &target.clone(), progress, file, |session| send(session, args, target)).await
}

async fn send(session: &'static Session, args: FileArgs, target: Target) -> Result<TransferResult, Failure> {
    let parts = plan(&args).await.map_err(|error| Failure::file("read", &args.file, &error))?;
    let total = parts.first().and_then(|part| part.header.total);
    session.meter.expect(total.unwrap_or(0));
    if args.announce_length {
        session.net.carry_file(total);
    }
    let connected = Notify::new();
    let breaks_off = async {
        connected.notified().await;
        session.breaks_off(args.peer.wait).await
    };
    let mut sending = Sending { session, args: &args, tasks: JoinSet::new(), connected: &connected };
    let sent = tokio::select! {
        biased;
        sent = sending.send(&target, parts) => sent,
        failure = breaks_off => Err(failure),
    };
    match sent {
        Ok(sent) => {
            let mut outcome = outcome(&args, &sent);
            outcome.notes.extend(remark(&args, total, session.meter.sent()).await);
            Ok(outcome)
        }
        Err(failure) => {
            // Each stream that is dropped before its end is reset.
            sending.tasks.shutdown().await;
            Err(broken_off(session, total, failure))
        }
    }
}

/// The connections of a transfer. Each part goes as soon as it has one: a receiver may connect again only
/// when it has learnt how many parts there are.
struct Sending<'a> {
    session: &'static Session,
    args: &'a FileArgs,
    tasks: JoinSet<Result<SentPart, Failure>>,
    connected: &'a Notify,
}

impl Sending<'_> {
    /// Sends all parts.
    async fn send(&mut self, target: &Target, parts: Vec<Part>) -> Result<Vec<SentPart>, Failure> {
        let (session, in_parts) = (self.session, parts.len() > 1);
        if matches!(target, Target::Listen { .. }) {
            return self.serve(target, parts).await;
        }
        let mut opening = JoinSet::new();
        for part in parts {
            let (target, peer) = (target.clone(), self.args.peer.clone());
            opening.spawn(async move { Ok((session.connect(&target, &peer).await?, part)) });
        }
        while let Some(opened) = opening.join_next().await {
            let (stream, part) = joined(opened)?;
            self.connected.notify_one();
            let file = self.args.file.clone();
            self.tasks.spawn(async move {
                let greeted = greeted(session, stream, &part, in_parts).await?;
                send_part(session, greeted, &file, part).await
            });
        }
        all(&mut self.tasks).await
    }

    /// Sends a part to each receiver that comes. One that cannot take a part does not hold up the others.
    async fn serve(&mut self, target: &Target, parts: Vec<Part>) -> Result<Vec<SentPart>, Failure> {
        let (session, in_parts) = (self.session, parts.len() > 1);
        let listener = session.listen(target, &self.args.peer).await?;
        let mut parts = VecDeque::from(parts);
        let (mut greeting, mut sent) = (JoinSet::new(), Vec::new());
        while let Some(next) = parts.front() {
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next() => sent.push(joined(ended)?),
                Some(ended) = greeting.join_next() => {
                    let greeted: Greeted = match ended {
                        Ok(Ok(greeted)) => greeted,
                        Ok(Err(failure)) if !in_parts => return Err(failure),
                        _ => continue,
                    };
                    if in_parts && greeted.nonce.is_none() {
                        session.observer.say(
                            "a peer does not take a file in parts (tcpcat recv --verify does); still listening",
                        );
                        continue;
                    }
                    let Some(part) = parts.pop_front() else { break };
                    let file = self.args.file.clone();
                    self.tasks.spawn(async move { send_part(session, greeted, &file, part).await });
                }
                accepted = session.accept_within(&listener, self.args.peer.wait),
                    if in_parts || greeting.is_empty() => {
                    let stream = accepted?;
                    self.connected.notify_one();
                    let part = next.clone();
                    greeting.spawn(async move { greeted(session, stream, &part, in_parts).await });
                }
            }
        }
        sent.extend(all(&mut self.tasks).await?);
        Ok(sent)
    }
}

/// A connection to a receiver, and its nonce if it verifies.
struct Greeted {
    stream: Stream,
    nonce: Option<Nonce>,
}

/// Waits for the receiver's greeting if the part is to be verified.
async fn greeted(
    session: &Session,
    mut stream: Stream,
    part: &Part,
    in_parts: bool,
) -> Result<Greeted, Failure> {
    let lost = |error: &io::Error| session.net.failure("sending", error);
    stream.guard().map_err(|error| lost(&error))?;
    let nonce = if part.verify {
        protocol::await_greeting(&mut stream, in_parts).await.map_err(|error| lost(&error))?
    } else {
        None
    };
    Ok(Greeted { stream, nonce })
}

fn joined<T>(ended: Result<Result<T, Failure>, JoinError>) -> Result<T, Failure> {
    ended.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?
}

/// A remark for the user about a file that was sent without an error.
async fn remark(args: &FileArgs, total: Option<u64>, sent: u64) -> Option<String> {
    let file = args.file.display();
    if sent == 0 && !args.announce_length && !args.move_.verify && args.streams == 1 {
        return Some(format!(
            "{file} is empty; a plain tcpcat recv takes that for no file, --verify does not"
        ));
    }
    let now = length(&args.file).await.ok()?.1?;
    let grew = args.move_.bytes.is_none() && total.is_some_and(|total| now > total && sent == total);
    grew.then(|| format!("{file} grew while it was sent: its first {sent} bytes were sent"))
}

/// Waits for all parts, or for the first that fails.
async fn all(sending: &mut JoinSet<Result<SentPart, Failure>>) -> Result<Vec<SentPart>, Failure> {
    let mut all = Vec::new();
    while let Some(ended) = sending.join_next().await {
        all.push(joined(ended)?);
    }
    Ok(all)
}

/// Reports how much of the file was sent.
fn broken_off(session: &Session, total: Option<u64>, failure: Failure) -> Failure {
    match failure.exit() {
        Exit::Failed
        | Exit::Unreachable
        | Exit::HungUp
        | Exit::Interrupted
        | Exit::Quit
        | Exit::Terminated => {
            let sent = session.meter.sent();
            let of = total.map_or_else(String::new, |total| format!(" of {total}"));
            failure.after(&format!("{sent}{of} bytes were sent"))
        }
        _ => failure,
    }
}

fn outcome(args: &FileArgs, all: &[SentPart]) -> TransferResult {
    let verify = args.move_.verify || args.streams > 1;
    let confirmed = all.iter().all(|sent| sent.confirmed);
    let took = all.iter().map(|sent| sent.began.elapsed()).max();
    let mut outcome = TransferResult { took, ..TransferResult::default() };
    if !verify {
        return outcome;
    }
    if let [sent] = all {
        outcome.blake3 = Some(sent.hash);
    }
    if confirmed {
        outcome.verified = Some(true);
    } else {
        outcome.notes.push(
            "the receiver does not verify (tcpcat recv --verify does); compare the hashes yourself"
                .to_owned(),
        );
    }
    outcome
}

/// Divides the file into parts.
async fn plan(args: &FileArgs) -> io::Result<Vec<Part>> {
    let (is_file, len) = length(&args.file).await?;
    let total = match (len, args.move_.bytes) {
        (Some(len), Some(most)) => Some(len.min(most)),
        (len, _) => len,
    };
    let verify = args.move_.verify || args.streams > 1;
    let streams = if len.is_none() && is_file { 1 } else { args.streams };
    // Without a promise a file goes to its end, wherever that is by then.
    let is_promised = verify || args.announce_length || args.move_.bytes.is_some();
    let rate = args.move_.rate.map(|rate| rate.div_ceil(u64::from(streams)));
    if streams > 1 && total.is_none() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "only a regular file can be split into parts (-P)",
        ));
    }
    let each = total.unwrap_or(0).div_ceil(u64::from(streams));
    let transfer = Nonce::new();
    let parts = (0..streams).map(|index| {
        let offset = (u64::from(index) * each).min(total.unwrap_or(0));
        let len = total.map_or(args.move_.bytes, |total| Some(each.min(total - offset)));
        let limit = len.filter(|_| is_promised);
        Part { header: Header { part: (index, streams), offset, total, transfer }, len, limit, rate, verify }
    });
    Ok(parts.collect())
}

/// Whether it is a regular file, and the length if that is known.
async fn length(file: &Path) -> io::Result<(bool, Option<u64>)> {
    if file == Path::new("-") {
        return Ok((false, None));
    }
    let metadata = tokio::fs::metadata(file).await?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Ok((false, None));
    }
    // Files of /proc have length 0 and are not empty.
    let is_true = metadata.len() > 0 || File::open(file).await?.read(&mut [0]).await? == 0;
    Ok((true, is_true.then_some(metadata.len())))
}

/// The source of the data.
enum Source {
    /// A regular file, for a stream that takes its blocks without copies.
    Blocks(BlockReader),
    Bytes(Box<dyn AsyncRead + Send + Unpin>),
}

async fn open(file: &Path, part: &Part, stream: &Stream) -> io::Result<Source> {
    let limit = part.limit.unwrap_or(u64::MAX);
    if part.header.total.is_some() && part.rate.is_none() && stream.has_slices() {
        return BlockReader::open(file.to_owned(), part.header.offset, limit).await.map(Source::Blocks);
    }
    open_bytes(file, part, limit).await.map(Source::Bytes)
}

async fn open_bytes(file: &Path, part: &Part, limit: u64) -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    if file == Path::new("-") {
        return Ok(Box::new(tokio::io::stdin().take(limit)));
    }
    let mut file = File::open(file).await?;
    if part.header.offset > 0 {
        file.seek(SeekFrom::Start(part.header.offset)).await?;
    }
    Ok(Box::new(file.take(limit)))
}

async fn send_part(
    session: &Session,
    greeted: Greeted,
    file: &Path,
    part: Part,
) -> Result<SentPart, Failure> {
    let lost = |error: &io::Error| session.net.failure("sending", error);
    let Greeted { mut stream, nonce } = greeted;
    let began = Instant::now();
    let mut source = open(file, &part, &stream).await.map_err(|error| Failure::file("read", file, &error))?;
    let Some(nonce) = nonce else {
        if part.header.part.1 > 1 {
            return Err(Failure::new(Exit::Failed, "the receiver does not accept a file in parts")
                .remedy("receive with tcpcat recv --verify, or send without -P"));
        }
        let copied = copy(session, &mut source, &mut stream, file, &part, Framing::Plain).await?;
        acknowledged(session, &mut stream).await?;
        session.observer.ended(&stream);
        stream.finish().map_err(|error| lost(&error))?;
        return Ok(SentPart { began, hash: copied.hash, confirmed: false });
    };
    part.header.write(&mut stream, nonce).await.map_err(|error| lost(&error))?;
    let copied = copy(session, &mut source, &mut stream, file, &part, Framing::Frames).await?;
    protocol::write_end(&mut stream, &copied.hash).await.map_err(|error| lost(&error))?;
    let receipt = receipt(session, &mut stream).await?;
    session.observer.ended(&stream);
    stream.finish().map_err(|error| lost(&error))?;
    stream.shutdown().await.map_err(|error| lost(&error))?;
    if receipt == Receipt::not_kept() {
        return Err(Failure::new(Exit::Failed, "the receiver got everything, but could not keep the file")
            .remedy("its own message says why"));
    }
    let expected = Receipt { bytes: copied.bytes, hash: copied.hash };
    if receipt != expected {
        return Err(exit::verification(format!(
            "the receiver got {} bytes with hash {}; {} were sent with hash {}",
            receipt.bytes, receipt.hash, expected.bytes, expected.hash
        )));
    }
    Ok(SentPart { began, hash: copied.hash, confirmed: true })
}

async fn receipt(session: &Session, stream: &mut Stream) -> Result<Receipt, Failure> {
    Receipt::read(stream).await.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Failure::new(Exit::Failed, "the receiver closed without confirming")
            .remedy("its own message says why"),
        _ => session.net.failure("waiting for the receiver's confirmation", &error),
    })
}

async fn copy(
    session: &Session,
    source: &mut Source,
    stream: &mut Stream,
    file: &Path,
    part: &Part,
    framing: Framing,
) -> Result<Copied, Failure> {
    let copier = Copier::new(|len| session.meter.add_sent(len)).hashing(part.verify).paced(part.rate);
    let copied = match source {
        Source::Blocks(blocks) => copier.send_blocks(blocks, stream, framing).await,
        Source::Bytes(bytes) => copier.copy(&mut **bytes, stream, framing).await,
    };
    match copied {
        Ok(copied) if part.header.total.is_some() && part.len.is_some_and(|len| copied.bytes < len) => {
            Err(Failure::new(Exit::File, format!("{} was truncated while it was read", file.display()))
                .remedy("send it again; a file of /sys goes through a pipe: cat FILE | tcpcat send -"))
        }
        Ok(copied) => Ok(copied),
        Err(Broken::Read(error)) => Err(Failure::file("read", file, &error)),
        Err(Broken::Write(error)) => Err(session.net.failure("sending", &error)),
        Err(Broken::Interrupted) => Err(session.interrupted("the transfer is incomplete")),
    }
}

/// Closes the sending side, which marks the file as whole, and waits until the peer has acknowledged all of
/// it.
async fn acknowledged(session: &Session, stream: &mut Stream) -> Result<(), Failure> {
    let lost = |error| session.net.failure("waiting for the last acknowledgement", &error);
    stream.all_written().map_err(lost)?;
    stream.shutdown().await.map_err(lost)?;
    let mut ignored = vec![0; 64 << 10];
    loop {
        tokio::select! {
            // A reset is an error before it is an end.
            biased;
            read = stream.read(&mut ignored) => {
                if read.map_err(lost)? == 0 {
                    break;
                }
            }
            () = tokio::time::sleep(ACKNOWLEDGED_POLL) => {
                if stream.is_acknowledged() {
                    break;
                }
            }
        }
    }
    // A peer may end its side long before it has everything.
    loop {
        stream.delivered().await.map_err(lost)?;
        if stream.is_acknowledged() {
            return Ok(());
        }
        tokio::time::sleep(ACKNOWLEDGED_POLL).await;
    }
}

const ACKNOWLEDGED_POLL: Duration = Duration::from_millis(20);
