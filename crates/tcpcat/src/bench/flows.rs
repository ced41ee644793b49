//! The streams of a test while it runs: each sends or receives as fast as it can, or at its rate.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::datagrams::{BEHIND_MAX, Counts, Link};
use super::protocol::{Results, StreamResult};
use crate::net::Stream;
use crate::session::Session;
use crate::transfer::Pace;

/// How streams move their data.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Bytes of a block. A datagram is one.
    pub len: usize,
    /// Bits a second of each stream.
    pub rate: Option<u64>,
    /// The most bytes that this end's streams send together, and that they receive together.
    pub bytes: Option<u64>,
    /// Data is not copied between this program and its stack.
    pub zerocopy: bool,
    /// Data that arrives after the end still counts: the client has stopped sending by then.
    pub counts_late: bool,
}

/// The connection or socket under a stream.
#[derive(Debug)]
pub(super) enum Carrier {
    Stream(Stream),
    Datagrams(Link),
}

/// The streams of a test.
#[derive(Debug)]
pub(super) struct Flows {
    flows: Vec<Flow>,
    phase: watch::Sender<Phase>,
    tasks: JoinSet<(usize, io::Result<Carrier>)>,
    /// The streams whose tasks have ended, which stay open until the test is over.
    ended: Vec<Carrier>,
    budgets: Option<(Arc<Budget>, Arc<Budget>)>,
    started: Instant,
    took: Option<Duration>,
}

/// One stream.
#[derive(Debug)]
struct Flow {
    id: u64,
    sends: bool,
    bytes: Arc<AtomicU64>,
    /// Unknown for the kernel's, and while it sends.
    retransmits: Option<u64>,
    datagrams: Option<Counts>,
    running: bool,
}

/// Where a test is, for its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Nothing is sent any more.
    Ended,
    Over,
}

/// Bytes that several streams share.
#[derive(Debug)]
struct Budget {
    left: AtomicU64,
    spent: watch::Sender<bool>,
}

impl Flows {
    /// Starts all streams; `true` for one that sends. Their order is that in which the client made them, and
    /// gives each its number.
    pub fn start(session: &'static Session, streams: Vec<(bool, Carrier)>, settings: &Settings) -> Self {
        let (phase, _) = watch::channel(Phase::Running);
        let budgets = settings.bytes.map(|bytes| {
            let budget = || Arc::new(Budget::new(bytes));
            (budget(), budget())
        });
        let mut flows = Self {
            flows: Vec::new(),
            phase,
            tasks: JoinSet::new(),
            ended: Vec::new(),
            budgets,
            started: Instant::now(),
            took: None,
        };
        for (index, (sends, stream)) in streams.into_iter().enumerate() {
            flows.spawn(session, index, sends, stream, settings);
        }
        flows
    }

    fn spawn(
        &mut self,
        session: &'static Session,
        index: usize,
        sends: bool,
        mut stream: Carrier,
        settings: &Settings,
    ) {
        let bytes = Arc::<AtomicU64>::default();
        // Iperf3 numbers its streams 1, 3, 4, 5 and so on, and refuses results of others.
        let id = if index == 0 { 1 } else { index as u64 + 2 };
        let datagrams = stream.counts();
        let flow = Flow { id, sends, bytes: Arc::clone(&bytes), retransmits: None, datagrams, running: true };
        self.flows.push(flow);
        let mut phase = self.phase.subscribe();
        let settings = settings.clone();
        let budget = self.budgets.as_ref().map(|(up, down)| Arc::clone(if sends { up } else { down }));
        self.tasks.spawn(async move {
            let moved = if sends {
                let count = |len: usize| {
                    bytes.fetch_add(len as u64, Ordering::Relaxed);
                    session.meter.add_sent(len);
                };
                send(&mut stream, &settings, budget.as_deref(), &mut phase, count).await
            } else {
                let count = |len: usize| {
                    bytes.fetch_add(len as u64, Ordering::Relaxed);
                    session.meter.add_received(len);
                };
                receive(&mut stream, &settings, budget.as_deref(), &mut phase, count).await
            };
            (index, moved.map(|()| stream))
        });
    }

    /// Completes when the bytes of a limited test have moved, or a stream has failed. It may be cancelled.
    pub async fn finished(&mut self) -> io::Result<()> {
        while self.flows.iter().any(|flow| flow.running) {
            self.join().await?;
        }
        if self.budgets.is_some() { Ok(()) } else { std::future::pending().await }
    }

    /// The bytes so far do not count, nor does the time: they belong to the start that is left out.
    pub fn restart(&mut self) {
        for flow in &self.flows {
            flow.bytes.store(0, Ordering::Relaxed);
            if let Some(datagrams) = &flow.datagrams {
                datagrams.restart();
            }
        }
        self.started = Instant::now();
    }

    /// Ends the run: what was received stays as it is, and senders stop.
    pub async fn stop(&mut self, counts_late: bool) {
        self.took = Some(self.started.elapsed());
        self.phase.send_replace(Phase::Ended);
        // A receiver whose peer counts what this end says reads to the end.
        while self.flows.iter().any(|flow| flow.running && (flow.sends || counts_late)) {
            let _ = self.join().await;
        }
    }

    /// One stream's end.
    async fn join(&mut self) -> io::Result<()> {
        let Some(joined) = self.tasks.join_next().await else {
            self.flows.iter_mut().for_each(|flow| flow.running = false);
            return Ok(());
        };
        let (index, stream) = joined.map_err(io::Error::other)?;
        let flow = &mut self.flows[index];
        flow.running = false;
        let stream = stream?;
        if let (Carrier::Stream(stream), true) = (&stream, flow.sends) {
            flow.retransmits = stream.info().map(|info| info.retransmits);
        }
        self.ended.push(stream);
        Ok(())
    }

    /// This end's results.
    pub fn results(&self) -> Results {
        let seconds = self.took().as_secs_f64();
        let stream = |flow: &Flow| {
            let mut result = StreamResult {
                id: flow.id,
                bytes: flow.bytes.load(Ordering::Relaxed),
                retransmits: flow.retransmits.and_then(|count| i64::try_from(count).ok()).unwrap_or(-1),
                jitter: 0.0,
                errors: 0,
                packets: 0,
                omitted_errors: -1,
                omitted_packets: -1,
                start_time: 0.0,
                end_time: seconds,
            };
            if let Some(datagrams) = &flow.datagrams {
                datagrams.tally().fill(&mut result);
            }
            result
        };
        let has = match self.flows.iter().find(|flow| flow.sends) {
            Some(flow) => i64::from(flow.retransmits.is_some()),
            None => -1,
        };
        Results {
            cpu_util_total: 0.0,
            cpu_util_user: 0.0,
            cpu_util_system: 0.0,
            sender_has_retransmits: has,
            streams: self.flows.iter().map(stream).collect(),
        }
    }

    /// Which of them send, by number.
    pub fn sends(&self, id: u64) -> Option<bool> {
        self.flows.iter().find(|flow| flow.id == id).map(|flow| flow.sends)
    }

    /// This end's counts of the datagrams of a stream, by number.
    pub fn datagrams(&self, id: u64) -> Option<&Counts> {
        self.flows.iter().find(|flow| flow.id == id)?.datagrams.as_ref()
    }

    /// How long the run took.
    pub fn took(&self) -> Duration {
        self.took.unwrap_or_else(|| self.started.elapsed())
    }

    /// Closes the streams. Data that has not been sent belongs to no result, and is reset with them.
    pub async fn close(mut self, session: &Session) {
        self.phase.send_replace(Phase::Over);
        while self.flows.iter().any(|flow| flow.running) {
            let _ = self.join().await;
        }
        for stream in self.ended {
            if let Carrier::Stream(mut stream) = stream {
                session.observer.ended(&stream);
                stream.reset_unless_finished();
            }
        }
    }
}

impl Carrier {
    fn counts(&self) -> Option<Counts> {
        match self {
            Self::Stream(_) => None,
            Self::Datagrams(link) => Some(link.counts()),
        }
    }

    /// Sends a part of `slice`, or a datagram, which is always whole.
    async fn send(&mut self, mut slice: Bytes, slices: bool) -> io::Result<usize> {
        match self {
            Self::Stream(stream) if slices => poll_fn(|cx| stream.poll_write_bytes(cx, &mut slice)).await,
            Self::Stream(stream) => stream.write(&slice).await,
            Self::Datagrams(link) => link.send().await,
        }
    }

    /// Receives at most as much as `room` takes, or a datagram.
    async fn receive(&mut self, room: &mut [u8], slices: bool) -> io::Result<usize> {
        let read = match self {
            Self::Stream(stream) if slices => {
                poll_fn(|cx| stream.poll_read_bytes(cx, room.len())).await.map(|slice| slice.len())
            }
            Self::Stream(stream) => stream.read(room).await,
            Self::Datagrams(link) => link.receive().await,
        }?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed a stream in mid-test"));
        }
        Ok(read)
    }

    /// Receives what the peer had sent when it ended the run; `None` if there is no more.
    async fn receive_late(&mut self, room: &mut [u8]) -> Option<usize> {
        match self {
            Self::Stream(stream) => poll_fn(|cx| Poll::Ready(poll_once(stream, room, cx))).await,
            Self::Datagrams(link) => link.receive_late().await,
        }
    }

    fn is_datagrams(&self) -> bool {
        matches!(self, Self::Datagrams(_))
    }

    fn has_slices(&self) -> bool {
        matches!(self, Self::Stream(stream) if stream.has_slices())
    }

    /// Waits until the peer has acknowledged all data, if it does that.
    async fn delivered(&self) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.delivered().await,
            Self::Datagrams(_) => Ok(()),
        }
    }
}

impl Budget {
    fn new(bytes: u64) -> Self {
        Self { left: AtomicU64::new(bytes), spent: watch::Sender::new(bytes == 0) }
    }

    /// Takes up to `most` bytes.
    fn take(&self, most: usize) -> usize {
        let taken = |left: u64| left.min(most as u64);
        let before =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left - taken(left)));
        usize::try_from(before.map_or(0, taken)).unwrap_or(most)
    }

    /// Takes up to `most` bytes for good; the last ones end all who wait for that.
    fn spend(&self, most: usize) -> usize {
        let taken = self.take(most);
        if self.left.load(Ordering::Relaxed) == 0 {
            self.spent.send_replace(true);
        }
        taken
    }

    /// Completes when all is spent.
    async fn spent(&self) {
        // It lives as long as its sender.
        let _ = self.spent.subscribe().wait_for(|spent| *spent).await;
    }

    /// Gives back what was not used.
    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Sends blocks until the run or the budget ends; of the latter, everything is acknowledged then.
async fn send(
    stream: &mut Carrier,
    settings: &Settings,
    budget: Option<&Budget>,
    phase: &mut watch::Receiver<Phase>,
    count: impl Fn(usize),
) -> io::Result<()> {
    let block = Bytes::from(pattern(settings.len));
    let slices = settings.zerocopy && stream.has_slices();
    let mut pace = settings.rate.map(Pace::new);
    let mut most = block.len();
    match &mut pace {
        // Datagrams are short, and are not split.
        Some(pace) if stream.is_datagrams() => pace.catch_up(BEHIND_MAX),
        Some(pace) => most = most.min(pace.piece()),
        None => {}
    }
    let sending = async {
        loop {
            let wanted = budget.map_or(most, |budget| budget.take(most));
            if wanted == 0 {
                return stream.delivered().await;
            }
            if let Some(pace) = &mut pace {
                sleep_until(pace.take(wanted)).await;
            }
            let sent = stream.send(block.slice(..wanted), slices).await?;
            count(sent);
            if let Some(budget) = budget {
                budget.give_back(wanted.saturating_sub(sent));
            }
        }
    };
    tokio::select! {
        biased;
        _ = phase.wait_for(|phase| *phase != Phase::Running) => {}
        sent = sending => sent?,
    }
    if let (Carrier::Stream(stream), true) = (stream, settings.counts_late) {
        // A client of iperf3 3.12 reads whole blocks to the end of the stream before it hears the server.
        stream.shutdown().await?;
    }
    Ok(())
}

/// Reads until the run or the budget ends. After the run it counts what the peer had sent by then, or reads
/// on, so that the peer can hear the end, until the test is over.
async fn receive(
    stream: &mut Carrier,
    settings: &Settings,
    budget: Option<&Budget>,
    phase: &mut watch::Receiver<Phase>,
    count: impl Fn(usize),
) -> io::Result<()> {
    let mut room = vec![0; settings.len];
    let slices = settings.zerocopy && stream.has_slices();
    let spent = async {
        match budget {
            Some(budget) => budget.spent().await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(spent);
    loop {
        let read = tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Running) => break,
            () = &mut spent => return Ok(()),
            read = stream.receive(&mut room, slices) => read?,
        };
        let wanted = budget.map_or(read, |budget| budget.spend(read));
        count(if stream.is_datagrams() { read } else { wanted });
    }
    if settings.counts_late {
        let until = Instant::now() + LATE_MAX;
        while Instant::now() < until {
            match stream.receive_late(&mut room).await {
                Some(read) if read > 0 => count(read),
                _ => return Ok(()),
            }
        }
        return Ok(());
    }
    // A sender of datagrams does not wait for its reader.
    let Carrier::Stream(stream) = stream else { return Ok(()) };
    let discarding = async { while stream.read(&mut room).await.is_ok_and(|read| read > 0) {} };
    tokio::select! {
        _ = phase.wait_for(|phase| *phase == Phase::Over) => {}
        () = discarding => {}
    }
    Ok(())
}

/// Reads what has arrived; `None` if nothing has.
fn poll_once(stream: &mut Stream, room: &mut [u8], cx: &mut Context<'_>) -> Option<usize> {
    let mut buf = ReadBuf::new(room);
    match Pin::new(stream).poll_read(cx, &mut buf) {
        Poll::Ready(Ok(())) => Some(buf.filled().len()),
        _ => None,
    }
}

/// Bytes that no layer can compress.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(b"tcpcat bench").finalize_xof().fill(&mut bytes);
    bytes
}

/// How long a server reads what a client has sent before it ended the run.
const LATE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_shared_to_the_last_byte() {
        let budget = Budget::new(100);
        assert_eq!((budget.take(60), budget.take(60), budget.take(60)), (60, 40, 0));
        budget.give_back(15);
        assert_eq!((budget.take(60), budget.take(60)), (15, 0));
        assert!(!*budget.spent.borrow());
        budget.give_back(5);
        assert_eq!(budget.spend(60), 5);
        assert!(*budget.spent.borrow());
    }
}
