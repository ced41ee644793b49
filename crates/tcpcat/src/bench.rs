//! `tcpcat bench`: measures how fast data moves between two tcpcats.
//!
//! The client opens the connections and requests on each who sends, for how long or how much. The data is a
//! pattern in frames (see `transfer::protocol`), so that either end knows the end of the other's data and can
//! compare hashes with `--verify`. A receiver answers each stream with its result.

mod slices;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ackclock_cli::{Exit, Failure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::JoinSet;

use crate::args::{BenchClientArgs, BenchServerArgs, PeerArgs, Target};
use crate::exit;
use crate::net::Stream;
use crate::session::{Kind, Session, TransferResult};
use crate::transfer::protocol::{self, FrameReader, Receipt};
use crate::transfer::{Broken, Copied, Copier, Framing};

/// A client's request, sent on each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The client sends.
    pub up: bool,
    /// The server sends.
    pub down: bool,
    pub verify: bool,
    /// The longest time to send.
    pub time: Duration,
    /// The most bytes to send in each direction.
    pub bytes: Option<u64>,
    /// Bits a second.
    pub rate: Option<u64>,
}

/// How one end of a connection moves its data; the other end cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calls {
    /// By `read` and `write`.
    Copying,
    /// By slices.
    Slices,
}

impl Calls {
    fn new(zerocopy: bool) -> Self {
        if zerocopy { Self::Slices } else { Self::Copying }
    }

    /// Moves the data of a connection, counted by the session's meter.
    async fn exchange(
        self,
        session: &Session,
        stream: &mut Stream,
        request: Request,
    ) -> Result<Moved, Broken> {
        let (sent, received) = (|len| session.meter.add_sent(len), |len| session.meter.add_received(len));
        match self {
            // Only the copying loop keeps a rate.
            Self::Slices if stream.has_slices() && request.rate.is_none() => {
                slices::exchange(stream, request, sent, received).await
            }
            _ => exchange(stream, request, sent, received).await,
        }
    }
}

/// The findings of both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub sent: Option<Copied>,
    pub received: Option<Copied>,
}

/// Serves measurements until interrupted.
pub(crate) async fn run_server(args: BenchServerArgs, target: Target) -> Exit {
    let kind = Kind { name: "bench server", data_on_stdout: false, summary: false, file: false };
    let common = args.common.clone();
    Session::run(kind, &common, &target.clone(), None, None, |session| serve(session, args, target)).await
}

async fn serve(
    session: &'static Session,
    args: BenchServerArgs,
    target: Target,
) -> Result<TransferResult, Failure> {
    let listener = session.listen(&target, &PeerArgs::default()).await?;
    let calls = Calls::new(args.zerocopy);
    session.observer.say(&format!("serving measurements on port {}; Ctrl-C ends", args.port));
    let mut serving = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = session.accept(&listener) => accepted?,
            Some(ended) = serving.join_next(), if !serving.is_empty() => {
                let ended: Result<(), Failure> = ended.unwrap_or_else(|error| Err(Failure::new(Exit::Failed, error.to_string())));
                if let Err(failure) = ended {
                    session.observer.say(&failure.to_string());
                }
                if args.one_off && serving.is_empty() {
                    return Ok(TransferResult::default());
                }
                continue;
            }
        };
        let Some(stream) = stream else { return Ok(TransferResult::default()) };
        serving.spawn(serve_one(session, stream, calls));
    }
}

async fn serve_one(session: &'static Session, mut stream: Stream, calls: Calls) -> Result<(), Failure> {
    let peer = stream.peer_addr().map_or_else(|_| "a client".to_owned(), |peer| peer.to_string());
    let started = Instant::now();
    let served = async {
        let request = Request::read(&mut stream).await.map_err(Broken::Read)?;
        // The server receives the bytes that the client sends.
        let own = Request { up: request.down, down: request.up, ..request };
        calls.exchange(session, &mut stream, own).await
    };
    let moved = served.await.map_err(|broken| failure(session, broken))?;
    session.observer.ended(&stream);
    session.observer.say(&format!("{peer}: {}", describe(&moved, started.elapsed())));
    Ok(())
}

/// Runs a measurement.
pub(crate) async fn run_client(args: BenchClientArgs, target: Target) -> Exit {
    let kind = Kind { name: "bench client", data_on_stdout: false, summary: true, file: false };
    let common = args.common.clone();
    let moves = args.move_.clone();
    Session::run(kind, &common, &target.clone(), Some(&moves), None, |session| measure(session, args, target))
        .await
}

async fn measure(
    session: &'static Session,
    args: BenchClientArgs,
    target: Target,
) -> Result<TransferResult, Failure> {
    let streams = u64::from(args.streams);
    let request = Request {
        up: !args.reverse,
        down: args.reverse || args.bidir,
        verify: args.move_.verify,
        time: args.time.unwrap_or(if args.move_.bytes.is_some() { A_DAY } else { BENCH_TIME }),
        bytes: args.move_.bytes.map(|bytes| bytes.div_ceil(streams)),
        rate: args.move_.rate.map(|rate| rate.div_ceil(streams)),
    };
    if let Some(bytes) = request.bytes {
        session.meter.expect(bytes * streams);
    }
    let peer = PeerArgs::with_retry(args.retry);
    let mut connections = Vec::new();
    for _ in 0..args.streams {
        connections.push(session.connect(&target, &peer).await?);
    }
    let (calls, started) = (Calls::new(args.zerocopy), Instant::now());
    if calls == Calls::Slices && !connections.iter().all(Stream::has_slices) {
        let failure = Failure::usage(
            "--zerocopy needs the stack: the kernel's sockets have no calls for slices here".to_owned(),
        );
        return Err(failure.remedy("leave out --zerocopy or --kernel"));
    }
    let mut measuring = JoinSet::new();
    for stream in connections {
        measuring.spawn(measure_one(session, stream, request, calls));
    }
    while let Some(ended) = measuring.join_next().await {
        ended.map_err(|error| Failure::new(Exit::Failed, error.to_string()))??;
    }
    let verified = request.verify.then_some(true);
    Ok(TransferResult { verified, took: Some(started.elapsed()), ..TransferResult::default() })
}

async fn measure_one(
    session: &'static Session,
    mut stream: Stream,
    request: Request,
    calls: Calls,
) -> Result<Moved, Failure> {
    let measured = async {
        request.write(&mut stream).await.map_err(Broken::Write)?;
        calls.exchange(session, &mut stream, request).await
    };
    let moved = tokio::select! {
        moved = measured => moved.map_err(|broken| failure(session, broken))?,
        () = session.interrupt.first() => {
            return Err(Failure::interrupted("the measurement is incomplete"));
        }
    };
    session.observer.ended(&stream);
    stream.shutdown().await.map_err(|error| session.net.failure("closing", &error))?;
    Ok(moved)
}

fn failure(session: &Session, broken: Broken) -> Failure {
    match broken {
        Broken::Read(error) if error.kind() == io::ErrorKind::Unsupported => {
            Failure::new(Exit::Failed, error.to_string())
                .remedy("run tcpcat bench server there; or measure the kernel's TCP with iperf3 -c")
        }
        Broken::Read(error) if error.kind() == io::ErrorKind::InvalidData => {
            exit::verification(error.to_string())
        }
        Broken::Read(error) => session.net.failure("receiving", &error),
        Broken::Write(error) => session.net.failure("sending", &error),
        Broken::Interrupted => Failure::interrupted("the measurement is incomplete"),
    }
}

fn describe(moved: &Moved, took: Duration) -> String {
    use crate::units::{bits_per_second, show_bytes, show_rate};
    let part = |word: &str, copied: Option<Copied>| {
        let bytes = copied?.bytes;
        Some(format!(
            "{word} {} in {:.2} s, {}",
            show_bytes(bytes),
            took.as_secs_f64(),
            show_rate(bits_per_second(bytes, took))
        ))
    };
    let parts: Vec<String> =
        part("sent", moved.sent).into_iter().chain(part("received", moved.received)).collect();
    parts.join("; ")
}

/// Sends and receives as `request` asks, from the end that is `up`. Compares hashes and lengths; a difference
/// is [`Broken::Read`] with [`io::ErrorKind::InvalidData`].
pub(crate) async fn exchange<S>(
    stream: &mut S,
    request: Request,
    count_sent: impl Fn(usize) + Send + Sync,
    count_received: impl Fn(usize) + Send + Sync,
) -> Result<Moved, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (mut reader, mut writer) = tokio::io::split(&mut *stream);
    // The result for the received data follows this end's data, so that neither end waits for the other's
    // first.
    let sending = async {
        if !request.up {
            return Ok(None);
        }
        let copier = Copier::new(count_sent).hashing(request.verify).paced(request.rate);
        let copied = copier.copy(&mut Pattern::new(&request), &mut writer, Framing::Frames).await?;
        protocol::write_end(&mut writer, &copied.hash).await.map_err(Broken::Write)?;
        Ok::<_, Broken>(Some(copied))
    };
    let receiving = async {
        if !request.down {
            // The other end owes its receipt only when it has everything: what it says before that is another
            // protocol.
            let first = reader.read_u8().await.map_err(Broken::Read)?;
            refuse_iperf3(first)?;
            return Err(Broken::Read(io::Error::other("the server answered before it had the data")));
        }
        let first = [reader.read_u8().await.map_err(Broken::Read)?];
        refuse_iperf3(first[0])?;
        let mut frames = FrameReader::new(first.as_slice().chain(&mut reader));
        let copier = Copier::new(count_received).hashing(request.verify);
        let copied = copier.copy(&mut frames, &mut tokio::io::sink(), Framing::Plain).await?;
        Ok(Some((copied, frames.into_hash())))
    };
    let (sent, received) = if request.down {
        tokio::try_join!(sending, receiving)?
    } else {
        tokio::select! {
            biased;
            sent = sending => (sent?, None),
            early = receiving => (None, early?),
        }
    };
    drop((reader, writer));
    conclude(stream, sent, received).await
}

/// Reports to the other end what was received and its hash, and reads the report on what was sent.
async fn conclude<S>(
    stream: &mut S,
    sent: Option<Copied>,
    received: Option<(Copied, Option<blake3::Hash>)>,
) -> Result<Moved, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    if let Some((copied, _)) = received {
        let receipt = Receipt { bytes: copied.bytes, hash: copied.hash };
        receipt.write(stream).await.map_err(Broken::Write)?;
    }
    if let Some(copied) = sent {
        let receipt = Receipt::read(stream).await.map_err(Broken::Read)?;
        check(copied, receipt.bytes, receipt.hash)?;
    }
    if let Some((copied, told)) = received {
        check(copied, copied.bytes, told.unwrap_or(copied.hash))?;
    }
    Ok(Moved { sent, received: received.map(|(copied, _)| copied) })
}

/// Names a server that asks for iperf3's parameters, as iperf3's does when it has a cookie.
fn refuse_iperf3(first: u8) -> Result<(), Broken> {
    /// PARAM_EXCHANGE of iperf3's control connection. A frame of a measurement is never so long that it
    /// begins with it.
    const PARAM_EXCHANGE: u8 = 9;
    if first == PARAM_EXCHANGE {
        let what = "the server is iperf3's: it answered the request as if that were iperf3's cookie";
        return Err(Broken::Read(io::Error::new(io::ErrorKind::Unsupported, what)));
    }
    Ok(())
}

fn check(own: Copied, bytes: u64, hash: blake3::Hash) -> Result<(), Broken> {
    if own.bytes == bytes && own.hash == hash {
        return Ok(());
    }
    let what =
        format!("{} bytes with hash {} at this end, {bytes} with {hash} at the other", own.bytes, own.hash);
    Err(Broken::Read(io::Error::new(io::ErrorKind::InvalidData, what)))
}

impl Request {
    pub async fn write(&self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([u8::from(self.up), u8::from(self.down), u8::from(self.verify)]);
        bytes.extend(u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend(self.bytes.unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend(self.rate.unwrap_or(u64::MAX).to_be_bytes());
        bytes.resize(COOKIE_LEN, 0);
        writer.write_all(&bytes).await
    }

    pub async fn read(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut head = [0; 11];
        reader.read_exact(&mut head).await?;
        let [up, down, verify] = [head[8], head[9], head[10]].map(|flag| flag != 0);
        // iperf3's cookie is of lower-case letters and digits.
        if !head.starts_with(MAGIC) && head.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7')) {
            let what = "the client is iperf3's: it began with a cookie";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        if !head.starts_with(MAGIC) {
            return Err(io::Error::other("the client is not a tcpcat bench of this version"));
        }
        let time = Duration::from_millis(reader.read_u64().await?);
        let bytes = Some(reader.read_u64().await?).filter(|&bytes| bytes != u64::MAX);
        let rate = Some(reader.read_u64().await?).filter(|&rate| rate != u64::MAX);
        reader.read_exact(&mut [0; COOKIE_LEN - REQUEST_LEN]).await?;
        Ok(Self { up, down, verify, time, bytes, rate })
    }
}

/// Bytes that differ everywhere, for a time and up to an amount.
#[derive(Debug)]
struct Pattern {
    block: Vec<u8>,
    at: usize,
    left: Option<u64>,
    until: Instant,
}

impl Pattern {
    fn new(request: &Request) -> Self {
        let block = pattern(BLOCK_LEN);
        Self { block, at: 0, left: request.bytes, until: Instant::now() + request.time.min(A_DAY) }
    }
}

impl AsyncRead for Pattern {
    fn poll_read(self: Pin<&mut Self>, _cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if Instant::now() >= this.until {
            return Poll::Ready(Ok(()));
        }
        let left = this.left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let mut room = buf.remaining().min(left);
        if let Some(left) = &mut this.left {
            *left -= room as u64;
        }
        while room > 0 {
            let part = room.min(this.block.len() - this.at);
            buf.put_slice(&this.block[this.at..this.at + part]);
            this.at = (this.at + part) % this.block.len();
            room -= part;
        }
        Poll::Ready(Ok(()))
    }
}

/// Bytes that no layer can compress.
fn pattern(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(MAGIC).finalize_xof().fill(&mut bytes);
    bytes
}

/// How long a measurement takes if neither a time nor an amount is given.
const BENCH_TIME: Duration = Duration::from_secs(10);

/// Practically no limit.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

const MAGIC: &[u8] = b"tcpcat1c";

/// Without what fills it up.
const REQUEST_LEN: usize = 35;

/// As long as the cookie that iperf3's client begins with, so that its server answers at once.
const COOKIE_LEN: usize = 37;

/// A prime length, so that shifted data never looks right.
const BLOCK_LEN: usize = 65_521;

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request = Request {
        up: true,
        down: true,
        verify: true,
        time: Duration::from_secs(60),
        bytes: Some(1_000_003),
        rate: None,
    };

    #[tokio::test]
    async fn a_request_is_read_as_it_was_written() {
        for request in [REQUEST, Request { bytes: None, rate: Some(7), up: false, ..REQUEST }] {
            let mut wire = Vec::new();
            request.write(&mut wire).await.unwrap();
            assert_eq!(Request::read(&mut &wire[..]).await.unwrap(), request);
        }
    }

    #[tokio::test]
    async fn both_ends_agree_on_what_moved() {
        let (mut client, mut server) = tokio::io::duplex(10_000);
        for (up, down) in [(true, false), (false, true), (true, true)] {
            let request = Request { up, down, ..REQUEST };
            let mirror = Request { up: down, down: up, ..REQUEST };
            let (a, b) = tokio::join!(
                exchange(&mut client, request, |_| {}, |_| {}),
                exchange(&mut server, mirror, |_| {}, |_| {})
            );
            let (a, b) = (a.unwrap(), b.unwrap());
            assert_eq!(a.sent.map(|copied| copied.bytes), up.then_some(1_000_003));
            assert_eq!(a.sent.map(|copied| copied.hash), b.received.map(|copied| copied.hash));
            assert_eq!(a.received.map(|copied| copied.hash), b.sent.map(|copied| copied.hash));
        }
    }

    #[test]
    fn a_difference_is_invalid_data() {
        let own = Copied { bytes: 3, hash: blake3::hash(b"abc") };
        assert!(check(own, 3, own.hash).is_ok());
        for (bytes, hash) in [(2, own.hash), (3, blake3::hash(b"abd"))] {
            assert!(
                matches!(check(own, bytes, hash), Err(Broken::Read(error)) if error.kind() == io::ErrorKind::InvalidData)
            );
        }
    }
}
