//! The frame of every transfer: a host, the counts, the interrupt, and the output.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ackclock::ConnectionInfo;
use ackclock_cli::{Exit, Failure, output};

use crate::args::{Common, PeerArgs, Target, is_loopback};
use crate::bench::Figures;
use crate::dial::{self, addresses, any};
use crate::host::Host;
use crate::interrupt::{First, Interrupt};
use crate::net::{Listener, Net, Stream};
use crate::observe::{self, Observer};
use crate::trace::FlightRecorder;
use crate::transfer::written;

/// A running transfer.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) net: Net,
    pub(crate) meter: Meter,
    pub(crate) interrupt: Interrupt,
    pub(crate) observer: Observer,
    pub(crate) verbose: bool,
    file: bool,
    /// The stack's addresses.
    own: Vec<IpAddr>,
    pub(crate) started: Instant,
}

/// The kind of transfer, for reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub name: &'static str,
    /// Whether stdout carries data, so that nothing else may be written there.
    pub data_on_stdout: bool,
    /// Whether the end is worth a line even without `-v`.
    pub summary: bool,
    /// Whether a file is moved. An unfinished transfer of a file resets its connections, so that a part never
    /// passes for the whole, and the exit code is that of the signal that ended it.
    pub file: bool,
}

/// How much data has moved.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    sent: AtomicU64,
    received: AtomicU64,
    /// How much data there is to move; 0 while that is unknown.
    total: AtomicU64,
    /// The bytes that had been received when the present file began.
    received_before: AtomicU64,
}

/// The result of a transfer.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransferResult {
    /// Whether both ends agree on the hash; `None` if it was not compared.
    pub verified: Option<bool>,
    /// BLAKE3 of the data, if it was computed.
    pub blake3: Option<blake3::Hash>,
    /// From the first byte to the peer's confirmation, if that is less than the session's time.
    pub took: Option<Duration>,
    /// Both ends' figures of a measurement.
    pub bench: Option<Figures>,
    /// Further remarks.
    pub notes: Vec<String>,
}

impl Session {
    /// Runs `body` on a host made from the flags, and reports the result; `progress` shows a bar. `file` is
    /// the file that is moved, after the word for it in messages, which is empty if the file is only read.
    pub async fn run<F>(
        kind: Kind,
        common: &Common,
        target: &Target,
        progress: bool,
        file: Option<(&str, &Path)>,
        body: impl FnOnce(&'static Self) -> F,
    ) -> Exit
    where
        F: Future<Output = Result<TransferResult, Failure>>,
    {
        let (host, interrupt) = match Self::prepare(kind, common, target, file).await {
            Ok(ready) => ready,
            Err(failure) => return observe::fail_early(kind, &common.observe, &failure),
        };
        // One session for the whole process: its tasks may borrow it without counting references.
        let session: &'static Self = Box::leak(Box::new(Self {
            net: host.net.clone(),
            meter: Meter::default(),
            interrupt,
            observer: Observer::new(kind, &host.net, &common.observe, progress),
            verbose: common.verbose,
            file: kind.file,
            own: common.device.addr.iter().map(|own| own.addr()).collect(),
            started: Instant::now(),
        }));
        let watcher = tokio::spawn(session.observer.watch(&session.meter, &session.net));
        let result = tokio::select! {
            biased;
            () = session.interrupt.second() => {
                session.net.abort();
                Err(session.interrupted("connections were reset"))
            }
            result = body(session) => result,
        };
        // Tasks that were cut off may not have dropped their streams yet, and none of these streams may end
        // in order.
        let broke_off = |failure: &Failure| kind.file && failure.exit() != Exit::Verification;
        if result.as_ref().is_err_and(broke_off) {
            session.net.abort();
        }
        watcher.abort();
        let exit = session.observer.finish(&session.meter, session.started, &result);
        let interrupt = session.interrupt.clone();
        tokio::select! {
            () = session.net.close() => {}
            // An earlier abort waits in there to let the resets leave.
            () = interrupt.second(), if !session.net.is_aborted() => session.net.give_up().await,
        }
        host.finish(common.verbose).await;
        exit
    }

    async fn prepare(
        kind: Kind,
        common: &Common,
        target: &Target,
        file: Option<(&str, &Path)>,
    ) -> Result<(Host, Interrupt), Failure> {
        refuse_this_host(common, target)?;
        refuse_overwriting(common, file)?;
        let interrupt = Interrupt::install(if kind.file { First::Aborts } else { First::Closes })
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot handle signals: {error}")))?;
        let host = tokio::select! {
            host = Host::start(common) => host?,
            () = interrupt.first() => {
                let failure = Failure::interrupted("nothing was done");
                return Err(if kind.file { failure.with_exit(interrupt.exit()) } else { failure });
            }
        };
        Ok((host, interrupt))
    }

    /// The user's interrupt, with the exit code that this kind of transfer has for it.
    pub fn interrupted(&self, what: &str) -> Failure {
        let failure = Failure::interrupted(what);
        if self.file { failure.with_exit(self.interrupt.exit()) } else { failure }
    }

    /// Completes when a transfer cannot go on: the user interrupts, nothing moves for the time of `-w`, or a
    /// peer that owes an answer is silent.
    pub async fn breaks_off(&self, wait: Option<Duration>) -> Failure {
        tokio::select! {
            () = self.interrupt.first() => self.interrupted("the transfer is incomplete"),
            failure = self.stalls(wait) => failure,
        }
    }

    /// Completes when nothing moves for the time of `-w`, or a peer that owes an answer is silent.
    pub async fn stalls(&self, wait: Option<Duration>) -> Failure {
        tokio::select! {
            wait = self.idle(wait) => idle(wait),
            () = self.silence() => Failure::new(Exit::Unreachable, "the peer stopped answering")
                .remedy("check that it still runs, and the path to it"),
        }
    }

    /// Completes when nothing has moved for the time of `-w`.
    pub async fn idle(&self, wait: Option<Duration>) -> Duration {
        let Some(wait) = wait else { return std::future::pending().await };
        let moved = || {
            let acknowledged: u64 = self.net.connections().iter().map(|(_, info)| info.bytes_acked).sum();
            self.meter.sent() + self.meter.received() + acknowledged + written()
        };
        let (mut last, mut since) = (moved(), tokio::time::Instant::now());
        let (mut queued, mut looked) = (self.net.kernel_queued(), since);
        loop {
            tokio::time::sleep(IDLE_POLL.min(wait)).await;
            let now = moved();
            if now != last {
                (last, since) = (now, tokio::time::Instant::now());
            }
            // The kernel takes large pieces and lets them go in small ones.
            let is_over = since.elapsed() >= wait;
            if is_over || looked.elapsed() >= wait / 16 {
                looked = tokio::time::Instant::now();
                let now = self.net.kernel_queued();
                if now != queued {
                    (queued, since) = (now, looked);
                }
            }
            if since.elapsed() >= wait {
                return wait;
            }
        }
    }

    /// Completes when a peer has sent nothing for long although it should have acknowledged something. While
    /// its window is closed, it only has to answer one probe a minute.
    async fn silence(&self) {
        let is_silent = |info: &ConnectionInfo| {
            let limit = if info.snd_wnd == 0 { SILENCE_CLOSED_MAX } else { SILENCE_MAX };
            info.unacked > 0 && info.last_received.is_some_and(|ago| ago >= limit)
        };
        while !self.net.connections().iter().any(|(_, info)| is_silent(info)) {
            tokio::time::sleep(SILENCE_POLL).await;
        }
    }

    /// Opens a connection, or fails with a message that the user can understand.
    pub async fn connect(&self, target: &Target, peer: &PeerArgs) -> Result<Stream, Failure> {
        let Target::Connect { host, port, local_port } = target else {
            return Err(Failure::usage("HOST to connect to is missing"));
        };
        let mut remotes = addresses(host, *port, peer, &self.net).await?;
        let first = remotes[0];
        remotes.retain(|remote| !self.own.contains(&remote.ip()));
        let Some(&remote) = remotes.first() else { return Err(own_address(first.ip())) };
        let doing = format!("connecting to {remote}");
        self.note(|| doing.clone());
        let connecting = self.attempt(peer, *local_port, &remotes);
        let (stream, remote) = tokio::select! {
            connected = connecting => connected?,
            () = self.interrupt.first() => return Err(self.interrupted("there was no connection yet")),
            () = patience(peer.wait, remote) => {
                return Err(self.net.failure(&doing, &std::io::ErrorKind::TimedOut.into()));
            }
        };
        self.observer.connected(&stream);
        self.note(|| format!("connected to {remote}"));
        Ok(stream)
    }

    /// Connects; with `--retry`, again and again while nothing listens there or nothing answers.
    async fn attempt(
        &self,
        peer: &PeerArgs,
        local_port: u16,
        remotes: &[SocketAddr],
    ) -> Result<(Stream, SocketAddr), Failure> {
        let mut told = false;
        loop {
            let failure = match dial::race(&self.net, peer.source, local_port, remotes).await {
                Ok(connected) => return Ok(connected),
                Err((remote, error)) => self.net.failure(&format!("connecting to {remote}"), &error),
            };
            if !peer.retry || !matches!(failure.exit(), Exit::Refused | Exit::Unreachable) {
                return Err(failure);
            }
            if !std::mem::replace(&mut told, true) {
                self.note(|| format!("{}; trying again every second", failure.message()));
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// Starts to listen.
    pub async fn listen(&self, target: &Target, peer: &PeerArgs) -> Result<Listener, Failure> {
        let Target::Listen { host, port } = target else {
            return Err(Failure::usage("PORT to listen on is missing"));
        };
        let local = match host {
            Some(host) => addresses(host, *port, peer, &self.net).await?[0],
            None => SocketAddr::new(peer.source.unwrap_or_else(|| any(peer.ipv6)), *port),
        };
        let listener = self.net.listen(local);
        let listener =
            listener.map_err(|error| self.net.failure(&format!("listening on {local}"), &error))?;
        self.note(|| format!("listening on {}", listener.local_addr().unwrap_or(local)));
        Ok(listener)
    }

    /// The next connection; `None` when the user interrupts.
    pub async fn accept(&self, listener: &Listener) -> Result<Option<Stream>, Failure> {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => accepted.map_err(|error| self.net.failure("accepting", &error))?,
            () = self.interrupt.first() => return Ok(None),
        };
        self.observer.connected(&stream);
        self.note(|| format!("connection from {peer}"));
        Ok(Some(stream))
    }

    /// One connection, opened or accepted.
    pub async fn reach(&self, target: &Target, peer: &PeerArgs) -> Result<Stream, Failure> {
        if matches!(target, Target::Connect { .. }) {
            return self.connect(target, peer).await;
        }
        let listener = self.listen(target, peer).await?;
        self.accept_within(&listener, peer.wait).await
    }

    /// The next connection, if one comes within the time of `-w`.
    pub async fn accept_within(
        &self,
        listener: &Listener,
        wait: Option<Duration>,
    ) -> Result<Stream, Failure> {
        let accepting = self.accept(listener);
        let accepted = match wait {
            Some(wait) => tokio::time::timeout(wait, accepting).await.unwrap_or_else(|_| {
                Err(Failure::new(Exit::Unreachable, format!("no peer connected within {wait:?}")))
            }),
            None => accepting.await,
        };
        accepted?.ok_or_else(|| self.interrupted("no peer had connected"))
    }

    /// Prints a note if the user asked for them.
    pub fn note(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            self.observer.say(&text());
        }
    }
}

impl Meter {
    pub fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A file begins, after others.
    pub fn begin_file(&self) {
        self.received_before.store(self.received(), Ordering::Relaxed);
        self.total.store(0, Ordering::Relaxed);
    }

    /// How much there is to move, of the present file; 0 if that is unknown.
    pub fn expect(&self, total: u64) {
        let before = if total > 0 { self.received_before.load(Ordering::Relaxed) } else { 0 };
        self.total.store(before.saturating_add(total), Ordering::Relaxed);
    }

    /// How much of the present file was received, and how long it is, if that is known.
    pub fn of_file(&self) -> (u64, Option<u64>) {
        let before = self.received_before.load(Ordering::Relaxed);
        (self.received() - before, self.total().map(|total| total - before))
    }

    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub fn total(&self) -> Option<u64> {
        Some(self.total.load(Ordering::Relaxed)).filter(|&total| total > 0)
    }
}

/// The failure of a transfer in which nothing moved for the time of `-w`.
pub(crate) fn idle(wait: Duration) -> Failure {
    Failure::new(Exit::Unreachable, format!("nothing moved for {wait:?} (-w)"))
}

/// Refuses a peer that no packet on the device reaches, before there is a device to wait for.
fn refuse_this_host(common: &Common, target: &Target) -> Result<(), Failure> {
    let Target::Connect { host, .. } = target else { return Ok(()) };
    if common.kernel {
        return Ok(());
    }
    if is_loopback(host) {
        return Err(Failure::usage(format!(
            "{host} is this machine's loopback, which only its kernel reaches"
        ))
        .remedy(
            "use --kernel to reach a server of this machine there, or dial the kernel's address on the \
                 device",
        ));
    }
    match host.parse() {
        Ok(addr) if common.device.addr.iter().any(|own| own.addr() == addr) => Err(own_address(addr)),
        _ => Ok(()),
    }
}

/// The failure of a stack that dials itself.
fn own_address(addr: IpAddr) -> Failure {
    Failure::usage(format!("{addr} is this stack's own address, where nothing else listens"))
        .remedy("dial the peer's; or use --kernel to reach the host's")
}

/// Refuses to write one file over another, or over the file that is moved.
fn refuse_overwriting(common: &Common, file: Option<(&str, &Path)>) -> Result<(), Failure> {
    let observe = &common.observe;
    output::distinct(&[
        file.map_or(("", None), |(word, path)| (word, Some(path))),
        ("--pcap", observe.pcap.as_deref()),
        ("--trace", observe.trace.as_deref()),
        ("--flight-recorder", observe.flight_recorder.as_ref().map(FlightRecorder::path)),
        ("--record", observe.record.as_deref()),
        ("--control", observe.control_socket.as_deref()),
    ])
}

/// Completes when the user's time limit is over; reports once that no answer has arrived yet.
async fn patience(limit: Option<Duration>, remote: SocketAddr) {
    let notice = tokio::time::sleep(NOTICE_AFTER);
    let Some(limit) = limit else {
        notice.await;
        say!("tcpcat: no answer from {remote} yet; -w SECS bounds the wait");
        return std::future::pending().await;
    };
    tokio::time::sleep(limit).await;
}

/// How often the meter is checked for movement.
const IDLE_POLL: Duration = Duration::from_millis(20);

/// How long a peer may leave data unanswered; and how long while its window is closed and it is probed once a
/// minute.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const SILENCE_CLOSED_MAX: Duration = Duration::from_secs(75);
const SILENCE_POLL: Duration = Duration::from_secs(1);

/// How long `--retry` waits.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// After this long without an answer the user sees a notice.
const NOTICE_AFTER: Duration = Duration::from_secs(3);
