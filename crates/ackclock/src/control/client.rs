//! One client of the control socket.

use std::io;
use std::time::Duration;

use ackclock_core::Instant;
use ackclock_core::trace::Batch;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::list::{Listing, listeners};
use super::protocol::{Name, Records, Refusal, Request, answer, opening};
use super::taps::recorded;
use crate::info::{StackInfo, info};
use crate::shards::ShardRef;
use crate::shared::Shared;
use crate::state::{Queue, StackState};

/// The longest request in bytes, its end of line included.
pub(super) const REQUEST_MAX: usize = 4096;
/// How long a client may take to read an answer.
pub(super) const WRITE_MAX: Duration = Duration::from_secs(5);
/// How often a traced connection hands over its records.
const TRACE_EVERY: Duration = Duration::from_millis(500);

/// Tells a rejected client the reason, if the socket takes the line at once.
pub(super) fn refuse(stream: &UnixStream, kind: &'static str, message: &str) {
    let line = Refusal { kind, message: message.to_owned() }.line();
    // The buffer of a new socket has room for it.
    let _ = stream.try_write(line.as_bytes());
}

/// Answers a client until it disconnects or breaks a rule.
pub(super) async fn serve(stream: UnixStream, stack: ShardRef) {
    let (reader, writer) = stream.into_split();
    let mut lines = Lines { reader, buffer: Vec::with_capacity(REQUEST_MAX) };
    let mut client = Client { stack, writer, trace: None };
    let mut ticks = interval(TRACE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let traced = client.trace.is_some();
        let done = tokio::select! {
            biased;
            line = lines.next() => match line {
                Ok(Some(line)) => client.answer(&line).await,
                Ok(None) => return,
                Err(refusal) => return drop(client.say(refusal.line()).await),
            },
            batch = client.next_records(), if traced => client.give(batch).await,
            _ = ticks.tick(), if traced => client.ask_for_records(),
        };
        if done.is_err() {
            return;
        }
    }
}

/// A client's requests.
#[derive(Debug)]
struct Lines {
    reader: OwnedReadHalf,
    buffer: Vec<u8>,
}

impl Lines {
    /// The next line; `None` once the client has disconnected. Cancel-safe: bytes already read are kept.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Ok(Some(line));
            }
            let room = REQUEST_MAX - self.buffer.len();
            if room == 0 {
                let message = format!("a request has at most {REQUEST_MAX} bytes, its end of line included");
                return Err(Refusal { kind: "too-long", message });
            }
            let mut part = (&mut self.reader).take(room as u64);
            match part.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) => {}
            }
        }
    }
}

#[derive(Debug)]
struct Client {
    stack: ShardRef,
    writer: OwnedWriteHalf,
    trace: Option<Traced>,
}

/// A connection traced for this client. Dropping this ends the trace.
#[derive(Debug)]
struct Traced {
    stack: ShardRef,
    name: Name,
    tap: u64,
}

#[derive(Serialize)]
struct Whole {
    version: &'static str,
    pid: u32,
    #[serde(flatten)]
    info: StackInfo,
}

#[derive(Serialize)]
struct Began {
    at_us: u64,
}

#[derive(Serialize)]
struct Counted {
    counters: crate::Counters,
}

#[derive(Serialize)]
struct Named {
    connection: String,
}

impl Client {
    async fn answer(&mut self, line: &[u8]) -> io::Result<()> {
        match Request::parse(line).and_then(|request| self.done(request)) {
            Ok(Some(line)) => self.say(line).await,
            Ok(None) => timeout(WRITE_MAX, self.list()).await?,
            Err(refusal) => self.say(refusal.line()).await,
        }
    }

    /// Carries out the request, and returns the answer; `None`: a list, which is made while it is sent.
    fn done(&mut self, request: Request) -> Result<Option<String>, Refusal> {
        Ok(Some(match request {
            Request::Connections => return Ok(None),
            Request::Stack => {
                let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
                answer("stack", Whole { version, pid, info: info(&self.stack) })
            }
            Request::Listeners => answer("listeners", listeners(&self.stack)),
            Request::Counters => answer("counters", Counted { counters: self.stack.counters() }),
            Request::TraceOn(name) => {
                self.trace_on(name)?;
                answer("trace-on", Named { connection: name.word() })
            }
            Request::TraceOff(name) => {
                if !self.shard(name)?.call(|state, now| untap(state, now, name, None)) {
                    let message =
                        format!("connection {} is not traced by a client of this socket", name.word());
                    return Err(Refusal { kind: "not-traced", message });
                }
                answer("trace-off", Named { connection: name.word() })
            }
            Request::Dump(name) => {
                let batch = self.shard(name)?.look(|state| recorded(&state.endpoint, name))?;
                answer("dump", Records::new(name, &batch))
            }
        }))
    }

    /// Lists the connections, and lets other tasks run after each piece of the list.
    async fn list(&mut self) -> io::Result<()> {
        let at_us = self.stack.now().as_nanos() / 1000;
        let mut text = opening("connections", Began { at_us }) + ",\"connections\":[";
        let (mut listing, mut first) = (Listing::default(), true);
        while let Some(piece) = listing.next(&self.stack) {
            for listed in piece.iter().filter_map(|listed| serde_json::to_string(listed).ok()) {
                if !std::mem::take(&mut first) {
                    text.push(',');
                }
                text += &listed;
            }
            self.writer.write_all(text.as_bytes()).await?;
            text.clear();
            tokio::task::yield_now().await;
        }
        text += &format!("],\"left_out\":{}}}\n", listing.left_out());
        self.writer.write_all(text.as_bytes()).await
    }

    fn trace_on(&mut self, name: Name) -> Result<(), Refusal> {
        if let Some(traced) = &self.trace {
            let message = format!(
                "connection {} is being traced by this client, and it can be one at a time: open another \
                 client",
                traced.name.word()
            );
            return Err(Refusal { kind: "busy", message });
        }
        let tap = self.shard(name)?.call(|state, now| state.taps.tap(&mut state.endpoint, now, name))?;
        self.trace = Some(Traced { stack: self.stack.clone(), name, tap });
        Ok(())
    }

    fn shard(&self, name: Name) -> Result<&Shared, Refusal> {
        self.stack.all().get(name.queue).ok_or_else(|| Refusal::no_such_connection(&name.word()))
    }

    /// The next records of the traced connection; `None` once there are no more. Cancel-safe.
    async fn next_records(&self) -> Option<Batch> {
        let traced = self.trace.as_ref()?;
        let shard = self.stack.all().get(traced.name.queue)?;
        let attempt = |state: &mut StackState, _| {
            let is_down = state.poll_down().is_ready();
            state.taps.poll(&mut state.endpoint, traced.name, traced.tap, is_down)
        };
        shard.wait(Queue::Traces, attempt).await
    }

    fn ask_for_records(&self) -> io::Result<()> {
        if let Some(Traced { stack, name, .. }) = &self.trace
            && let Some(shard) = stack.all().get(name.queue)
        {
            shard.call(|state, now| state.taps.ask(&mut state.endpoint, now, *name));
        }
        Ok(())
    }

    async fn give(&mut self, batch: Option<Batch>) -> io::Result<()> {
        let Some(name) = self.trace.as_ref().map(|traced| traced.name) else { return Ok(()) };
        let line = match &batch {
            Some(batch) if batch.records.is_empty() && batch.missed == 0 => return Ok(()),
            Some(batch) => answer("trace", Records::new(name, batch)),
            None => {
                self.trace = None;
                answer("trace-end", Named { connection: name.word() })
            }
        };
        self.say(line).await
    }

    async fn say(&mut self, line: String) -> io::Result<()> {
        timeout(WRITE_MAX, self.writer.write_all(line.as_bytes())).await?
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if let Some(shard) = self.stack.all().get(self.name.queue) {
            shard.call(|state, now| untap(state, now, self.name, Some(self.tap)));
        }
    }
}

/// Undoes a tap, and lets the program's task look for its own records. Returns whether there was one.
fn untap(state: &mut StackState, now: Instant, name: Name, only: Option<u64>) -> bool {
    let untapped = state.taps.untap(&mut state.endpoint, now, name, only);
    if untapped {
        state.traces.wake(&mut state.woken);
    }
    untapped
}
