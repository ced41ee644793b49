//! `tcpcat HOST PORT` and `tcpcat -l PORT`: joins a connection with stdin and stdout.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ackclock_cli::{Exit, Failure};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use super::input::{Input, Lent};
use super::output::{self, Output};
use super::{Broken, Copied, Copier, Framing};
use crate::args::{PipeArgs, Target};
use crate::net::Stream;
use crate::session::{Kind, Session, TransferResult, idle};

/// This process's own ends. Connections have them one after the other.
struct Own {
    input: Input,
    stdout: Arc<File>,
}

/// How the joining of a connection ended.
enum Ended {
    /// Both directions ended.
    Both { sent: Copied, received: Copied },
    /// `-q`: the time after the end of stdin is over.
    Quit,
    /// `-w`: nothing moved for this long.
    Idle(Duration),
    /// The user interrupted.
    Interrupted,
}

/// Joins a connection with stdin and stdout.
pub(crate) async fn run(args: PipeArgs, target: Target) -> Exit {
    let kind =
        Kind { name: "pipe", data_on_stdout: !args.zero_io, summary: args.common.verbose, file: false };
    let common = args.common.clone();
    let progress = args.move_.progress;
    Session::run(kind, &common, &target.clone(), progress, None, |session| pipe(session, args, target)).await
}

async fn pipe(session: &'static Session, args: PipeArgs, target: Target) -> Result<TransferResult, Failure> {
    let stdout = output::stdout().map_err(|error| Failure::file("write", Path::new("stdout"), &error))?;
    let mut own = Own { input: Input::new(!args.no_stdin), stdout };
    if args.keep_open {
        return keep_accepting(session, &args, &target, &mut own).await;
    }
    if args.zero_io {
        return scan(session, &args, &target).await;
    }
    let stream = session.reach(&target, &args.peer).await?;
    join(session, &args, stream, &mut own).await
}

/// `-z`: whether the ports answer, one after the other. It fails only if none does.
async fn scan(
    session: &'static Session,
    args: &PipeArgs,
    target: &Target,
) -> Result<TransferResult, Failure> {
    let mut outcome = TransferResult::default();
    let mut failed = None;
    for target in target.of_each_port(args.peer.last_port()) {
        match session.reach(&target, &args.peer).await {
            Ok(stream) => {
                let peer = stream.peer_addr().map_or_else(|_| "the peer".to_owned(), |peer| peer.to_string());
                outcome.notes.push(format!("{peer} accepts connections"));
            }
            Err(failure) if matches!(failure.exit(), Exit::Refused | Exit::Unreachable) => {
                session.note(|| failure.message().to_owned());
                failed = Some(failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    match failed {
        Some(failure) if outcome.notes.is_empty() => Err(failure),
        _ => Ok(outcome),
    }
}

/// `-k`: one connection after the other, until the user interrupts.
async fn keep_accepting(
    session: &'static Session,
    args: &PipeArgs,
    target: &Target,
    own: &mut Own,
) -> Result<TransferResult, Failure> {
    if matches!(target, Target::Connect { .. }) {
        return Err(Failure::usage("-k needs -l: it listens again after each connection"));
    }
    let listener = session.listen(target, &args.peer).await?;
    while let Some(stream) = session.accept(&listener).await? {
        if let Err(failure) = join(session, args, stream, own).await {
            // Stdin and stdout are the same for the next connection.
            if matches!(failure.exit(), Exit::ReaderGone | Exit::File) {
                return Err(failure);
            }
            // One connection's failure does not end the listener.
            session.observer.say(&failure.to_string());
        }
        if session.interrupt.is_set() {
            break;
        }
    }
    Ok(TransferResult::default())
}

async fn join(
    session: &'static Session,
    args: &PipeArgs,
    stream: Stream,
    own: &mut Own,
) -> Result<TransferResult, Failure> {
    let (reader, writer) = tokio::io::split(stream);
    let stdin_ended = AtomicBool::new(false);
    let stdout = Output::new(Arc::clone(&own.stdout));
    let mut ends = Ends { session, args, stdin_ended: &stdin_ended, reader, writer, stdout };
    let ended = tokio::select! {
        biased;
        ended = ends.both(&mut own.input) => ended,
        () = quit_after(args.quit_after, &stdin_ended) => Ok(Ended::Quit),
        idle = session.idle(args.peer.wait) => Ok(Ended::Idle(idle)),
    };
    if matches!(ended, Ok(Ended::Interrupted)) {
        ends.close().await;
    }
    // The next connection's bytes come after this one's.
    let flushed = ends.stdout.flush().await;
    let Ends { reader, writer, .. } = ends;
    let mut stream = reader.unsplit(writer);
    let ended = match ended {
        Ok(ended) => conclude(session, args, &mut stream, &ended).await.map(|()| ended),
        Err(failure) => Err(failure),
    };
    session.observer.ended(&stream);
    let outcome = match ended? {
        Ended::Both { sent, received } => outcome(args, sent, received),
        _ => TransferResult::default(),
    };
    flushed.map_err(|error| Failure::file("write", Path::new("stdout"), &error))?;
    Ok(outcome)
}

/// Ends the sending side, and waits until the peer has all that was written: for as long as some of it moves
/// if both directions ended by themselves, and for a limited time without movement otherwise.
async fn conclude(
    session: &Session,
    args: &PipeArgs,
    stream: &mut Stream,
    ended: &Ended,
) -> Result<(), Failure> {
    let wait = match ended {
        Ended::Both { .. } => args.peer.wait,
        Ended::Quit | Ended::Interrupted => Some(args.peer.wait.unwrap_or(STALL_MAX).min(STALL_MAX)),
        Ended::Idle(wait) => return Err(missing(stream, idle(*wait))),
    };
    let arrives = async {
        stream.shutdown().await?;
        stream.delivered().await
    };
    let failure = tokio::select! {
        biased;
        arrived = arrives => match arrived {
            Ok(()) => return Ok(()),
            Err(error) => session.net.failure("waiting for the last acknowledgement", &error),
        },
        failure = session.stalls(wait) => failure,
        () = interrupted_for_long(session) => session.interrupted("the peer does not take the rest"),
    };
    Err(missing(stream, failure))
}

/// Adds what the peer lacks, and has the connection reset, so that the peer knows it too.
fn missing(stream: &mut Stream, failure: Failure) -> Failure {
    let Some(bytes) = stream.unacknowledged() else { return failure };
    stream.reset_unless_finished();
    failure.after(&format!("the peer has not acknowledged the last {bytes} bytes"))
}

/// Completes when the user has interrupted, and a time has passed that is enough for what still moves.
async fn interrupted_for_long(session: &Session) {
    session.interrupt.first().await;
    tokio::time::sleep(STALL_MAX).await;
}

/// The two directions of a joined connection.
struct Ends<'a> {
    session: &'static Session,
    args: &'a PipeArgs,
    stdin_ended: &'a AtomicBool,
    reader: ReadHalf<Stream>,
    writer: WriteHalf<Stream>,
    stdout: Output,
}

impl Ends<'_> {
    /// Ends in order: sends the end of the stream, and lets the peer finish.
    async fn close(&mut self) {
        let finish = async {
            self.writer.shutdown().await?;
            tokio::io::copy(&mut self.reader, &mut self.stdout).await
        };
        let _ = tokio::time::timeout(CLOSE_TIME_MAX, finish).await;
    }

    async fn both(&mut self, input: &mut Input) -> Result<Ended, Failure> {
        let Self { session, args, stdin_ended, reader, writer, stdout } = self;
        let peer_ended = AtomicBool::new(false);
        let waits_for_stdin = input.is_for_one(args.keep_open);
        let up = up(session, args, stdin_ended, input.lend(&peer_ended), writer);
        let down = down(session, args, reader, stdout);
        tokio::pin!(up, down);
        let (mut sent, mut received) = (None, None);
        while sent.is_none() || received.is_none() {
            tokio::select! {
                biased;
                ended = &mut down, if received.is_none() => {
                    let Some(copied) = ended? else { return Ok(Ended::Interrupted) };
                    received = Some(copied);
                    peer_ended.store(!waits_for_stdin, Ordering::Relaxed);
                }
                ended = &mut up, if sent.is_none() => match ended {
                    Ok(Some(copied)) => sent = Some(copied),
                    Ok(None) => return Ok(Ended::Interrupted),
                    Err(failure) if failure.exit() == Exit::File || received.is_some() => return Err(failure),
                    Err(failure) => {
                        // The peer's last words often say why it stopped listening.
                        down.await?;
                        return Err(failure);
                    }
                },
            }
        }
        Ok(match (sent, received) {
            (Some(sent), Some(received)) => Ended::Both { sent, received },
            _ => Ended::Interrupted,
        })
    }
}

/// Stdin to the peer; `None` if the user interrupts.
async fn up(
    session: &'static Session,
    args: &PipeArgs,
    stdin_ended: &AtomicBool,
    stdin: Lent<'_>,
    writer: &mut WriteHalf<Stream>,
) -> Result<Option<Copied>, Failure> {
    let mut limited = stdin.take(args.move_.bytes.unwrap_or(u64::MAX));
    let copier = Copier::new(|len| session.meter.add_sent(len))
        .hashing(args.move_.verify)
        .paced(args.move_.rate)
        .until(&session.interrupt);
    let copied = match copier.copy(&mut limited, writer, Framing::Plain).await {
        Ok(copied) => copied,
        Err(Broken::Read(error)) => return Err(Failure::file("read", Path::new("stdin"), &error)),
        Err(Broken::Write(error)) => return Err(session.net.failure("sending", &error)),
        Err(Broken::Interrupted) => return Ok(None),
    };
    stdin_ended.store(true, Ordering::Relaxed);
    // As for nc, -q implies -N. Many servers take the end of the stream for the client's end.
    if args.shutdown || args.quit_after.is_some() {
        writer.shutdown().await.map_err(|error| session.net.failure("closing", &error))?;
    }
    Ok(Some(copied))
}

/// The peer to stdout; `None` if the user interrupts.
async fn down(
    session: &'static Session,
    args: &PipeArgs,
    reader: &mut ReadHalf<Stream>,
    stdout: &mut Output,
) -> Result<Option<Copied>, Failure> {
    let copier = Copier::new(|len| session.meter.add_received(len))
        .hashing(args.move_.verify)
        .until(&session.interrupt);
    match copier.copy(reader, stdout, Framing::Plain).await {
        Ok(copied) => Ok(Some(copied)),
        Err(Broken::Read(error)) => Err(session.net.failure("receiving", &error)),
        Err(Broken::Write(error)) => Err(Failure::file("write", Path::new("stdout"), &error)),
        Err(Broken::Interrupted) => Ok(None),
    }
}

fn outcome(args: &PipeArgs, sent: Copied, received: Copied) -> TransferResult {
    let mut outcome = TransferResult::default();
    if args.move_.verify {
        for (word, copied) in [("sent", sent), ("received", received)] {
            outcome.notes.push(format!("{word} {} bytes, blake3 {}", copied.bytes, copied.hash));
        }
    }
    outcome
}

/// Completes the time of `-q` after the end of stdin.
async fn quit_after(wait: Option<Duration>, stdin_ended: &AtomicBool) {
    let Some(wait) = wait else { return std::future::pending().await };
    while !stdin_ended.load(Ordering::Relaxed) {
        tokio::time::sleep(POLL).await;
    }
    tokio::time::sleep(wait).await;
}

/// How long the peer may take to close after the user's interrupt.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long nothing may move once the user wants to end.
const STALL_MAX: Duration = Duration::from_secs(10);

const POLL: Duration = Duration::from_millis(20);
