//! `tcpcat send FILE`.

use std::io::{self, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use ackclock_cli::{Exit, Failure};
use blake3::Hash;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::blocks::BlockReader;
use super::protocol::{self, Header, Receipt};
use super::{Broken, Copied, Copier, Framing};
use crate::args::{FileArgs, Target};
use crate::exit;
use crate::net::Stream;
use crate::session::{Kind, Outcome, Session};

/// The data for one connection.
#[derive(Clone, Debug)]
struct Part {
    header: Header,
    /// The number of bytes; `None`: until the file ends.
    len: Option<u64>,
    /// Bits a second.
    rate: Option<u64>,
    verify: bool,
}

/// The result of one connection.
struct SentPart {
    hash: Hash,
    /// Whether the peer has confirmed the hash.
    confirmed: bool,
}

/// Sends the file.
pub(crate) async fn run(args: FileArgs, target: Target) -> Exit {
    let kind = Kind { name: "send", data_on_stdout: false, summary: true, file: true };
    let common = args.common.clone();
    let moves = args.move_.clone();
    let path = args.file.clone();
    let file = Some(("", path.as_path()));
    Session::run(kind, &common, &target.clone(), Some(&moves), file, |session| send(session, args, target))
        .await
}

async fn send(session: &'static Session, args: FileArgs, target: Target) -> Result<Outcome, Failure> {
    let parts = plan(&args).await.map_err(|error| Failure::file("read", &args.file, &error))?;
    let total = parts.first().and_then(|part| part.header.total);
    session.meter.expect(total.unwrap_or(0));
    session.net.carry_file(total);
    let streams = connections(session, &args, &target, parts.len()).await?;
    let started = Instant::now();
    let mut sending = JoinSet::new();
    for (part, stream) in parts.into_iter().zip(streams) {
        let file = args.file.clone();
        sending.spawn(async move { send_part(session, stream, &file, part).await });
    }
    let sent = tokio::select! {
        biased;
        sent = all(&mut sending) => sent,
        failure = session.breaks_off(args.peer.wait) => Err(failure),
    };
    match sent {
        Ok(sent) => Ok(outcome(&args, &sent, started.elapsed())),
        Err(failure) => {
            // Each stream that is dropped before its end is reset.
            sending.shutdown().await;
            Err(broken_off(session, total, failure))
        }
    }
}

/// Waits for all parts, or for the first that fails.
async fn all(sending: &mut JoinSet<Result<SentPart, Failure>>) -> Result<Vec<SentPart>, Failure> {
    let mut all = Vec::new();
    while let Some(ended) = sending.join_next().await {
        all.push(ended.map_err(|error| Failure::new(Exit::Failed, error.to_string()))??);
    }
    Ok(all)
}

/// Reports how much of the file was sent.
fn broken_off(session: &Session, total: Option<u64>, failure: Failure) -> Failure {
    match failure.exit() {
        Exit::Failed | Exit::Unreachable | Exit::Interrupted | Exit::Terminated => {
            let sent = session.meter.sent();
            let of = total.map_or_else(String::new, |total| format!(" of {total}"));
            failure.after(&format!("{sent}{of} bytes were sent"))
        }
        _ => failure,
    }
}

fn outcome(args: &FileArgs, all: &[SentPart], took: Duration) -> Outcome {
    let verify = args.move_.verify || args.streams > 1;
    let confirmed = all.iter().all(|sent| sent.confirmed);
    let mut outcome = Outcome { took: Some(took), ..Outcome::default() };
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

/// One connection for each part, in the parts' order.
async fn connections(
    session: &Session,
    args: &FileArgs,
    target: &Target,
    count: usize,
) -> Result<Vec<Stream>, Failure> {
    let mut streams = Vec::with_capacity(count);
    if matches!(target, Target::Connect { .. }) {
        for _ in 0..count {
            streams.push(session.connect(target, &args.peer).await?);
        }
        return Ok(streams);
    }
    let listener = session.listen(target, &args.peer).await?;
    for _ in 0..count {
        streams.push(session.accept_within(&listener, args.peer.wait).await?);
    }
    Ok(streams)
}

/// Divides the file into parts.
async fn plan(args: &FileArgs) -> io::Result<Vec<Part>> {
    let len = length(&args.file).await?;
    let total = match (len, args.move_.bytes) {
        (Some(len), Some(most)) => Some(len.min(most)),
        (len, _) => len,
    };
    let streams = args.streams;
    let verify = args.move_.verify || streams > 1;
    let rate = args.move_.rate.map(|rate| rate.div_ceil(u64::from(streams)));
    if streams > 1 && total.is_none() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "only a regular file can be split into parts (-P)",
        ));
    }
    let each = total.unwrap_or(0).div_ceil(u64::from(streams));
    let parts = (0..streams).map(|index| {
        let offset = (u64::from(index) * each).min(total.unwrap_or(0));
        let len = total.map_or(args.move_.bytes, |total| Some(each.min(total - offset)));
        Part { header: Header { part: (index, streams), offset, total }, len, rate, verify }
    });
    Ok(parts.collect())
}

/// The length of a regular file.
async fn length(file: &Path) -> io::Result<Option<u64>> {
    if file == Path::new("-") {
        return Ok(None);
    }
    let metadata = tokio::fs::metadata(file).await?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(metadata.is_file().then_some(metadata.len()))
}

/// The source of the data.
enum Source {
    /// A regular file, for a stream that takes its blocks without copies.
    Blocks(BlockReader),
    Bytes(Box<dyn AsyncRead + Send + Unpin>),
}

async fn open(file: &Path, part: &Part, stream: &Stream) -> io::Result<Source> {
    let limit = part.len.unwrap_or(u64::MAX);
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
    mut stream: Stream,
    file: &Path,
    part: Part,
) -> Result<SentPart, Failure> {
    let lost = |error: &io::Error| session.net.failure("sending", error);
    stream.guard().map_err(|error| lost(&error))?;
    let mut source = open(file, &part, &stream).await.map_err(|error| Failure::file("read", file, &error))?;
    let nonce = if part.verify {
        protocol::await_greeting(&mut stream).await.map_err(|error| lost(&error))?
    } else {
        None
    };
    let Some(nonce) = nonce else {
        if part.header.part.1 > 1 {
            return Err(Failure::new(Exit::Failed, "the receiver does not accept a file in parts")
                .remedy("receive with tcpcat recv --verify, or send without -P"));
        }
        let copied = copy(session, &mut source, &mut stream, file, &part, Framing::Plain).await?;
        acknowledged(session, &mut stream).await?;
        session.observer.ended(&stream);
        stream.finish().map_err(|error| lost(&error))?;
        return Ok(SentPart { hash: copied.hash, confirmed: false });
    };
    part.header.write(&mut stream, nonce).await.map_err(|error| lost(&error))?;
    let copied = copy(session, &mut source, &mut stream, file, &part, Framing::Frames).await?;
    protocol::write_end(&mut stream, &copied.hash).await.map_err(|error| lost(&error))?;
    let receipt = receipt(session, &mut stream).await?;
    session.observer.ended(&stream);
    stream.finish().map_err(|error| lost(&error))?;
    stream.shutdown().await.map_err(|error| lost(&error))?;
    let expected = Receipt { bytes: copied.bytes, hash: copied.hash };
    if receipt != expected {
        return Err(exit::verification(format!(
            "the receiver got {} bytes with hash {}; {} were sent with hash {}",
            receipt.bytes, receipt.hash, expected.bytes, expected.hash
        )));
    }
    Ok(SentPart { hash: copied.hash, confirmed: true })
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
        Ok(copied) if part.header.total.is_some() && Some(copied.bytes) != part.len => {
            Err(Failure::new(Exit::File, format!("{} was truncated while it was read", file.display())))
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
