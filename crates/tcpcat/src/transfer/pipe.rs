//! `tcpcat HOST PORT` and `tcpcat -l PORT`: joins a connection with stdin and stdout.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ackclock_cli::{Exit, Failure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use super::{Broken, Copied, Copier, Framing};
use crate::args::{PipeArgs, Target};
use crate::net::Stream;
use crate::session::{Kind, Outcome, Session};

/// How the joining of a connection ended.
enum Ended {
    /// Both directions ended, or enough of them.
    Both { sent: Option<Copied>, received: Option<Copied> },
    /// `-q`: the time after the end of stdin is over.
    Quit,
    /// `-w`: nothing moved for this long.
    Idle(Duration),
}

/// Joins a connection with stdin and stdout.
pub(crate) async fn run(args: PipeArgs, target: Target) -> Exit {
    let kind =
        Kind { name: "pipe", data_on_stdout: !args.zero_io, summary: args.common.verbose, file: false };
    let common = args.common.clone();
    let moves = args.move_.clone();
    Session::run(kind, &common, &target.clone(), Some(&moves), None, |session| pipe(session, args, target))
        .await
}

async fn pipe(session: &'static Session, args: PipeArgs, target: Target) -> Result<Outcome, Failure> {
    if args.keep_open {
        return keep_accepting(session, &args, &target).await;
    }
    let stream = session.reach(&target, &args.peer).await?;
    if args.zero_io {
        let peer = stream.peer_addr().map_or_else(|_| "the peer".to_owned(), |peer| peer.to_string());
        return Ok(Outcome { notes: vec![format!("{peer} accepts connections")], ..Outcome::default() });
    }
    join(session, &args, stream).await
}

/// `-k`: one connection after the other, until the user interrupts.
async fn keep_accepting(
    session: &'static Session,
    args: &PipeArgs,
    target: &Target,
) -> Result<Outcome, Failure> {
    if matches!(target, Target::Connect { .. }) {
        return Err(Failure::usage("-k needs -l: it listens again after each connection"));
    }
    let listener = session.listen(target, &args.peer).await?;
    while let Some(stream) = session.accept(&listener).await? {
        if let Err(failure) = join(session, args, stream).await {
            // One connection's failure does not end the listener.
            session.observer.say(&failure.to_string());
        }
        if session.interrupt.is_set() {
            break;
        }
    }
    Ok(Outcome::default())
}

async fn join(session: &'static Session, args: &PipeArgs, stream: Stream) -> Result<Outcome, Failure> {
    let (reader, writer) = tokio::io::split(stream);
    let stdin_ended = AtomicBool::new(false);
    let mut ends = Ends { session, args, stdin_ended: &stdin_ended, reader, writer };
    let ended = tokio::select! {
        ended = ends.both() => ended,
        () = quit_after(args.quit_after, &stdin_ended) => Ok(Ended::Quit),
        idle = session.idle(args.peer.wait) => Ok(Ended::Idle(idle)),
    };
    match ended {
        Err(None) => ends.close(CLOSE_TIME_MAX).await,
        Ok(Ended::Quit | Ended::Idle(_)) => ends.close(Duration::ZERO).await,
        _ => {}
    }
    let Ends { reader, writer, .. } = ends;
    let stream = reader.unsplit(writer);
    session.observer.ended(&stream);
    match ended {
        Ok(Ended::Both { sent, received }) => Ok(outcome(args, sent, received)),
        Ok(Ended::Quit) => Ok(Outcome::default()),
        Ok(Ended::Idle(wait)) => {
            Err(Failure::new(Exit::Unreachable, format!("nothing moved for {wait:?} (-w)")))
        }
        Err(None) => Ok(Outcome::default()),
        Err(Some(failure)) => Err(failure),
    }
}

/// The two directions of a joined connection.
struct Ends<'a> {
    session: &'static Session,
    args: &'a PipeArgs,
    stdin_ended: &'a AtomicBool,
    reader: ReadHalf<Stream>,
    writer: WriteHalf<Stream>,
}

/// A failure, or `None` for the user's interrupt.
type Failed = Option<Failure>;

impl Ends<'_> {
    /// Ends in order: sends the end of the stream, and lets the peer finish within `time`.
    async fn close(&mut self, time: Duration) {
        let finish = async {
            self.writer.shutdown().await?;
            tokio::io::copy(&mut self.reader, &mut tokio::io::stdout()).await
        };
        let _ = tokio::time::timeout(time, finish).await;
    }

    async fn both(&mut self) -> Result<Ended, Failed> {
        let Self { session, args, stdin_ended, reader, writer } = self;
        let up = up(session, args, stdin_ended, writer);
        let down = down(session, args, reader);
        tokio::pin!(up, down);
        tokio::select! {
            sent = &mut up => {
                let sent = Some(sent?);
                Ok(Ended::Both { sent, received: Some(down.await?) })
            }
            received = &mut down => {
                let received = Some(received?);
                // A user at a terminal cannot say more to a peer that is gone; a file is still sent to its
                // end.
                let sent = if std::io::stdin().is_terminal() { None } else { Some(up.await?) };
                Ok(Ended::Both { sent, received })
            }
        }
    }
}

/// Stdin to the peer.
async fn up(
    session: &'static Session,
    args: &PipeArgs,
    stdin_ended: &AtomicBool,
    writer: &mut WriteHalf<Stream>,
) -> Result<Copied, Failed> {
    let mut stdin: Box<dyn AsyncRead + Send + Unpin> =
        if args.no_stdin { Box::new(tokio::io::empty()) } else { Box::new(tokio::io::stdin()) };
    let mut limited = (&mut stdin).take(args.move_.bytes.unwrap_or(u64::MAX));
    let copier = Copier::new(|len| session.meter.add_sent(len))
        .hashing(args.move_.verify)
        .paced(args.move_.rate)
        .until(&session.interrupt);
    let copied = copier.copy(&mut limited, writer, Framing::Plain).await.map_err(|broken| match broken {
        Broken::Read(error) => Some(Failure::file("read", Path::new("stdin"), &error)),
        Broken::Write(error) => Some(session.net.failure("sending", &error)),
        Broken::Interrupted => None,
    })?;
    stdin_ended.store(true, Ordering::Relaxed);
    if !args.no_shutdown && !args.no_stdin {
        writer.shutdown().await.map_err(|error| Some(session.net.failure("closing", &error)))?;
    }
    Ok(copied)
}

/// The peer to stdout.
async fn down(
    session: &'static Session,
    args: &PipeArgs,
    reader: &mut ReadHalf<Stream>,
) -> Result<Copied, Failed> {
    let copier = Copier::new(|len| session.meter.add_received(len))
        .hashing(args.move_.verify)
        .until(&session.interrupt);
    let mut stdout = tokio::io::stdout();
    copier.copy(reader, &mut stdout, Framing::Plain).await.map_err(|broken| match broken {
        Broken::Read(error) => Some(session.net.failure("receiving", &error)),
        Broken::Write(error) => Some(Failure::file("write", Path::new("stdout"), &error)),
        Broken::Interrupted => None,
    })
}

fn outcome(args: &PipeArgs, sent: Option<Copied>, received: Option<Copied>) -> Outcome {
    let mut outcome = Outcome::default();
    if args.move_.verify {
        for (word, copied) in [("sent", sent), ("received", received)] {
            let note = copied.map(|copied| format!("{word} {} bytes, blake3 {}", copied.bytes, copied.hash));
            outcome.notes.extend(note);
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

const POLL: Duration = Duration::from_millis(20);
