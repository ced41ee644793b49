//! Which connections bring the file: those that say something.
//!
//! A health check connects and closes without a byte, a port scan resets, a stranger stays silent. None of
//! them is a sender, and none holds up the next connection: all that have not spoken are listened to at once.
//! A plain sender is known by its first byte, or by the length that it announced; one that verifies, by its
//! header.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ackclock_cli::{Exit, Failure};
use tokio::io::AsyncReadExt;
use tokio::task::{AbortHandle, JoinSet};

use super::protocol::{self, Header, Nonce, Opening};
use crate::args::{FileArgs, Target};
use crate::net::{Listener, Stream};
use crate::session::{Session, idle};

/// A connection whose beginning has been read.
pub(super) struct Opened {
    pub stream: Stream,
    pub opening: Opening,
}

/// The connections that may bring the file.
pub(super) struct Arrivals {
    session: &'static Session,
    request: Arc<Request>,
    /// `None`: this end connects.
    listener: Option<Listener>,
    unspoken: JoinSet<Knock>,
    /// Their tasks, the oldest first, some of which have ended.
    order: VecDeque<AbortHandle>,
    /// Whether further files are received after this one.
    pub keeps_open: bool,
    /// Connections that bring another file than the one that is being received, the oldest first.
    held: VecDeque<Opened>,
}

/// The request of this end.
struct Request {
    args: FileArgs,
    target: Target,
    verify: bool,
}

/// The fate of a connection.
enum Knock {
    Brings(Opened),
    /// It ended without a byte of a file.
    Empty {
        who: String,
        how: String,
    },
    Failed(Failure),
}

impl Arrivals {
    /// Listens, or connects once.
    pub async fn open(
        session: &'static Session,
        args: &FileArgs,
        target: &Target,
        keeps_open: bool,
    ) -> Result<Self, Failure> {
        let verify = args.move_.verify || args.streams > 1;
        let listener = match target {
            Target::Listen { .. } => Some(session.listen(target, &args.peer).await?),
            Target::Connect { .. } => None,
        };
        let request = Arc::new(Request { args: args.clone(), target: target.clone(), verify });
        let (unspoken, order) = (JoinSet::new(), VecDeque::new());
        let mut arrivals =
            Self { session, request, listener, unspoken, order, keeps_open, held: VecDeque::new() };
        arrivals.connect(1);
        Ok(arrivals)
    }

    /// Opens that many connections at once, unless this end listens.
    pub fn connect(&mut self, count: u16) {
        for _ in 0..if self.listener.is_some() { 0 } else { count } {
            let (session, request) = (self.session, Arc::clone(&self.request));
            self.unspoken.spawn(async move {
                match session.connect(&request.target, &request.args.peer).await {
                    Ok(stream) => hear(session, stream, request.verify).await,
                    Err(failure) => Knock::Failed(failure),
                }
            });
        }
    }

    /// The first connection that brings something. With `-w` it is not waited for any longer.
    pub async fn first(&mut self) -> Result<Opened, Failure> {
        let patience = self.request.args.peer.wait.filter(|_| self.listener.is_some());
        self.within(patience).await
    }

    /// The first connection of the next file, however long that takes.
    pub async fn next_file(&mut self) -> Result<Opened, Failure> {
        match self.held.pop_front() {
            Some(opened) => Ok(opened),
            None => self.within(None).await,
        }
    }

    /// Keeps a connection for [`next_file`](Self::next_file). Of too many the latest is reset.
    pub fn hold(&mut self, opened: Opened) {
        if self.held.len() < UNSPOKEN_MAX {
            self.held.push_back(opened);
        }
    }

    /// The only connection of a file has come. Unless further files follow, this ends the listening, and all
    /// connections that have not spoken: they have nothing more to wait for.
    pub fn close_after_last(&mut self) {
        if !self.keeps_open {
            self.listener = None;
            self.unspoken.abort_all();
        }
    }

    /// The next connection that brings something.
    pub async fn next(&mut self) -> Result<Opened, Failure> {
        self.within(None).await
    }

    async fn within(&mut self, patience: Option<Duration>) -> Result<Opened, Failure> {
        let gives_up = tokio::time::sleep(patience.unwrap_or(Duration::MAX));
        tokio::pin!(gives_up);
        loop {
            let accept = async {
                match &self.listener {
                    Some(listener) => self.session.accept(listener).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(knock) = self.unspoken.join_next() => match knock {
                    Ok(Knock::Brings(opened)) => return Ok(opened),
                    Ok(Knock::Empty { who, how }) => self.disregard(&who, &how)?,
                    Ok(Knock::Failed(failure)) => return Err(failure),
                    // It was the oldest of too many.
                    Err(_) => {}
                },
                accepted = accept => {
                    let Some(stream) = accepted? else {
                        return Err(self.session.interrupted("no file had come"));
                    };
                    self.listen_to(stream);
                }
                () = &mut gives_up, if patience.is_some() => {
                    let wait = patience.unwrap_or_default();
                    return Err(match self.unspoken.is_empty() {
                        true => Failure::new(
                            Exit::Unreachable,
                            format!("no peer connected within {wait:?}"),
                        ),
                        false => idle(wait),
                    });
                }
                failure = self.session.breaks_off(self.request.args.peer.wait),
                    if self.listener.is_none() => return Err(failure),
            }
        }
    }

    /// Says that a connection is not what was waited for. A peer that the user named has failed then.
    pub fn disregard(&self, who: &str, how: &str) -> Result<(), Failure> {
        if self.listener.is_none() {
            return Err(Failure::new(Exit::Failed, format!("{who} {how}")).remedy(
                "add --verify if the sender has --verify or -P; an empty file needs --verify, or \
                     --announce-length, at both ends",
            ));
        }
        self.session.observer.say(&format!("{who} {how}; still listening"));
        Ok(())
    }

    fn listen_to(&mut self, stream: Stream) {
        self.order.retain(|task| !task.is_finished());
        if self.order.len() >= UNSPOKEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            oldest.abort();
        }
        let (session, verify) = (self.session, self.request.verify);
        self.order.push_back(self.unspoken.spawn(hear(session, stream, verify)));
    }
}

/// Reads how a connection begins, after a greeting if the transfer is verified.
async fn hear(session: &Session, mut stream: Stream, verify: bool) -> Knock {
    let who = name(&stream);
    let opening = async {
        stream.guard()?;
        if verify {
            let nonce = Nonce::new();
            protocol::greet(&mut stream, nonce).await?;
            return Header::read(&mut stream, nonce).await;
        }
        let mut seen = Vec::with_capacity(FIRST_MAX);
        if stream.announced_length() != Some(0) {
            (&mut stream).take(FIRST_MAX as u64).read_buf(&mut seen).await?;
        }
        Ok::<_, io::Error>(Opening::Plain(seen))
    };
    let opening = opening.await;
    let is_empty = stream.announced_length() == Some(0);
    match opening {
        Ok(Opening::Plain(seen)) if seen.is_empty() && !is_empty => {
            // Its own end is orderly, and so is the answer.
            let _ = stream.finish();
            Knock::Empty { who, how: "closed without sending a byte".to_owned() }
        }
        Ok(opening) => {
            if let Some(length) = stream.announced_length() {
                session.meter.expect(length);
            }
            Knock::Brings(Opened { stream, opening })
        }
        Err(error) => Knock::Empty { who, how: format!("sent no file: {error}") },
    }
}

/// A peer, in messages.
pub(super) fn name(stream: &Stream) -> String {
    stream.peer_addr().map_or_else(|_| "the peer".to_owned(), |peer| peer.to_string())
}

/// How many silent connections are listened to. Beyond that the one that has been silent longest is reset.
const UNSPOKEN_MAX: usize = 64;

/// The most that is read before it is known where the data goes.
const FIRST_MAX: usize = 64 << 10;
