//! The parts of a test that only UDP has: the greeting by which a stream begins, the header of its datagrams,
//! and the receiver's counts.
//!
//! UDP has no connections, so the client greets the server's port from one socket for each stream, and the
//! server's answer accepts the stream. A datagram begins with the time at which it was sent, in seconds and
//! microseconds of any clock, and with its number, from 1 on; all big-endian. Source: `iperf_udp.c` of
//! esnet/iperf; no document describes it.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ackclock_cli::{Exit, Failure};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, coop};
use tokio::time::{sleep, timeout};

use super::flows::pattern;
use super::protocol::{Params, StreamResult};
use crate::net::{DATAGRAM_MAX, DatagramSocket, Stream};
use crate::session::Session;

/// One stream: a socket, which others may share, and a peer.
#[derive(Debug)]
pub(super) struct Link {
    socket: Arc<DatagramSocket>,
    peer: SocketAddr,
    arrivals: Arrivals,
    numbering: Numbering,
    /// Its clock begins here.
    made: Instant,
    counts: Counts,
    /// The next datagram.
    datagram: Vec<u8>,
}

/// The counts of a stream, while it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(Arc<Mutex<Tally>>);

/// The counts of a stream. A receiver counts as iperf3 does: a datagram with a lower number than one before
/// it is one that was missing, even if it is a duplicate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tally {
    seen: Seen,
    /// Those of the seconds that do not count.
    omitted: Seen,
    /// Mean deviation of the time between two datagrams, in seconds.
    jitter: f64,
    /// The newest datagram's time of arrival, less its time of sending, in microseconds of different clocks.
    transit_us: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    /// The highest number.
    packets: u64,
    lost: u64,
    out_of_order: u64,
}

/// Both ends' figures of the datagrams of a stream, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct DatagramFigures {
    sent: u64,
    received: u64,
    lost: u64,
    /// `None` if the peer receives: the results have no place for it.
    out_of_order: Option<u64>,
    jitter_ms: f64,
}

/// The server's socket, which all streams of a test share.
#[derive(Debug)]
pub(super) struct Port {
    socket: Arc<DatagramSocket>,
    client: SocketAddr,
    greeted: mpsc::Receiver<(SocketAddr, mpsc::Receiver<Arrival>)>,
    /// The task that sorts the datagrams ends with this value.
    _sorter: JoinSet<()>,
}

/// Where the datagrams of a stream come from.
#[derive(Debug)]
enum Arrivals {
    /// From its own socket.
    Alone(Vec<u8>),
    /// From one that others share.
    Sorted(mpsc::Receiver<Arrival>),
    /// This end only sends.
    Refused,
}

/// A datagram that has arrived.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Instant,
    len: usize,
    header: [u8; HEADER_LEN],
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    sent_us: i64,
    number: Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    /// Its lower half; the upper half follows from the numbers before.
    Short(u32),
    Long(u64),
}

/// How datagrams are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    Short,
    Long,
}

/// Why a server's answer to a greeting is missing.
#[derive(Debug)]
enum NoAnswer {
    Refused,
    Silent,
    Io(io::Error),
}

impl Link {
    /// Opens a stream to the server behind `control`.
    pub async fn open(session: &Session, control: &Stream, params: &Params) -> Result<Self, Failure> {
        let fails = |error| session.net.failure("opening a stream", &error);
        let (socket, peer) = beside(session, control, 0).await?;
        socket.connect(peer).await.map_err(fails)?;
        session.note(|| format!("greeting {peer} by UDP"));
        greet(&socket, peer).await.map_err(|no_answer| no_answer.failure(session, peer))?;
        Ok(Self::new(Arc::new(socket), peer, Arrivals::Alone(vec![0; ROOM]), params))
    }

    fn new(socket: Arc<DatagramSocket>, peer: SocketAddr, arrivals: Arrivals, params: &Params) -> Self {
        let numbering = if params.udp_counters_64bit > 0 { Numbering::Long } else { Numbering::Short };
        Self {
            socket,
            peer,
            arrivals,
            numbering,
            made: Instant::now(),
            counts: Counts::default(),
            datagram: pattern(
                usize::try_from(params.len).unwrap_or(usize::MAX).clamp(DATAGRAM_MIN, DATAGRAM_MAX),
            ),
        }
    }

    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// Sends the next datagram, and returns its length. It may be cancelled.
    pub async fn send(&mut self) -> io::Result<usize> {
        // A socket with room never waits, and other tasks run, too.
        coop::consume_budget().await;
        let number = self.counts.lock().seen.packets + 1;
        loop {
            let sent = self.made.elapsed();
            self.numbering.write(sent, number, &mut self.datagram);
            match self.socket.send_to(&self.datagram, self.peer).await {
                Ok(len) => {
                    self.counts.lock().seen.packets = number;
                    return Ok(len);
                }
                Err(error) if is_full(&error) => sleep(FULL_WAIT).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Receives and counts the next datagram, and returns its length. It may be cancelled.
    pub async fn receive(&mut self) -> io::Result<usize> {
        loop {
            let arrival = match &mut self.arrivals {
                Arrivals::Alone(room) => {
                    let (len, _) = self.socket.recv_from(room).await?;
                    Arrival::new(&room[..len])
                }
                Arrivals::Sorted(arrivals) => arrivals.recv().await.ok_or(io::ErrorKind::UnexpectedEof)?,
                Arrivals::Refused => std::future::pending().await,
            };
            if arrival.len >= self.numbering.header_len() {
                let at = arrival.at.saturating_duration_since(self.made);
                self.counts.lock().arrived(self.numbering.read(&arrival.header), at);
                return Ok(arrival.len);
            }
        }
    }

    /// Receives what was under way when its sender stopped; `None` if nothing comes any more.
    pub async fn receive_late(&mut self) -> Option<usize> {
        timeout(LATE_WAIT, self.receive()).await.ok()?.ok()
    }
}

impl NoAnswer {
    fn failure(self, session: &Session, peer: SocketAddr) -> Failure {
        let (exit, why) = match self {
            Self::Refused => (Exit::Refused, "nothing listens there".to_owned()),
            Self::Silent => (Exit::Unreachable, format!("no answer within {ANSWER_MAX:?}")),
            Self::Io(error) => return session.net.failure("opening a stream", &error),
        };
        Failure::new(exit, format!("greeting the server at UDP {peer}: {why}")).remedy(format!(
            "let UDP port {} and the answers from it pass; or measure TCP, without -u",
            peer.port()
        ))
    }
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::ConnectionRefused { Self::Refused } else { Self::Io(error) }
    }
}

impl Counts {
    pub fn tally(&self) -> Tally {
        *self.lock()
    }

    /// Leaves out the counts so far: they belong to the seconds that do not count.
    pub fn restart(&self) {
        let mut tally = self.lock();
        *tally = Tally { seen: tally.seen, omitted: tally.seen, jitter: 0.0, transit_us: None };
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    fn arrived(&mut self, header: Header, at: Duration) {
        let number = match header.number {
            Number::Short(low) => {
                let ahead = low.wrapping_sub(self.seen.packets as u32).cast_signed();
                self.seen.packets.saturating_add_signed(i64::from(ahead))
            }
            Number::Long(number) => number,
        };
        if number > self.seen.packets {
            self.seen.lost += number - self.seen.packets - 1;
            self.seen.packets = number;
        } else {
            self.seen.out_of_order += 1;
            self.seen.lost = self.seen.lost.saturating_sub(1);
        }
        // RFC 3550 §6.4.1: J(i) = J(i-1) + (|D(i-1,i)| - J(i-1))/16
        let transit_us = i64::try_from(at.as_micros()).unwrap_or(i64::MAX) - header.sent_us;
        if let Some(before) = self.transit_us.replace(transit_us) {
            let deviation = transit_us.abs_diff(before) as f64 / 1e6;
            self.jitter += (deviation - self.jitter) / 16.0;
        }
    }

    /// Adds the counts to a stream's results.
    pub fn fill(&self, result: &mut StreamResult) {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        result.jitter = self.jitter;
        result.errors = count(self.seen.lost);
        result.packets = count(self.seen.packets);
        result.omitted_errors = count(self.omitted.lost);
        result.omitted_packets = count(self.omitted.packets);
    }

    /// The figures of a stream, from both ends' results; `receives` if these are the counts of the receiver.
    pub fn figures(&self, receives: bool, sender: &StreamResult, receiver: &StreamResult) -> DatagramFigures {
        let counted = |all: i64, omitted: i64, own: u64| {
            // An older peer does not say what it left out: as much as this end, nearly.
            let omitted = u64::try_from(omitted).unwrap_or(own);
            u64::try_from(all).unwrap_or(0).saturating_sub(omitted)
        };
        let lost = counted(receiver.errors, receiver.omitted_errors, self.omitted.lost);
        let passed = counted(receiver.packets, receiver.omitted_packets, self.omitted.packets);
        DatagramFigures {
            sent: counted(sender.packets, sender.omitted_packets, self.omitted.packets),
            received: passed.saturating_sub(lost),
            lost,
            out_of_order: receives.then(|| self.seen.out_of_order.saturating_sub(self.omitted.out_of_order)),
            jitter_ms: receiver.jitter * 1000.0,
        }
    }
}

impl DatagramFigures {
    /// The figures of several streams together, with the mean of their jitters; `None` of none.
    pub fn sum(streams: &[Self]) -> Option<Self> {
        let sum = |of: fn(&Self) -> u64| streams.iter().fold(0, |sum: u64, one| sum.saturating_add(of(one)));
        let out_of_order =
            streams.iter().try_fold(0, |sum: u64, one| Some(sum.saturating_add(one.out_of_order?)));
        let jitters: f64 = streams.iter().map(|one| one.jitter_ms).sum();
        (!streams.is_empty()).then(|| Self {
            sent: sum(|one| one.sent),
            received: sum(|one| one.received),
            lost: sum(|one| one.lost),
            out_of_order,
            jitter_ms: jitters / streams.len() as f64,
        })
    }

    /// The receiver's view, for people.
    pub fn line(&self) -> String {
        let passed = self.received.saturating_add(self.lost);
        let share = self.lost as f64 / passed.max(1) as f64 * 100.0;
        let mut line = format!("{} of {passed} datagrams lost ({share:.2} %)", self.lost);
        if let Some(out_of_order) = self.out_of_order {
            line.push_str(&format!(", {out_of_order} out of order"));
        }
        line.push_str(&format!(", jitter {:.3} ms", self.jitter_ms));
        line
    }
}

impl Port {
    /// Binds the port of the control connection, for as many streams of its client.
    pub async fn open(session: &Session, control: &Stream, streams: usize) -> Result<Self, Failure> {
        let fails = |error| session.net.failure("opening the UDP port", &error);
        let local = control.local_addr().map_err(fails)?;
        let (socket, client) = beside(session, control, local.port()).await?;
        let socket = Arc::new(socket);
        let (greeting, greeted) = mpsc::channel(streams.max(1));
        let mut sorter = JoinSet::new();
        sorter.spawn(sort(Arc::clone(&socket), client.ip(), streams, greeting));
        Ok(Self { socket, client, greeted, _sorter: sorter })
    }

    /// The most bytes of a datagram to the client.
    pub fn payload_max(&self) -> usize {
        self.socket.payload_max(self.client.ip())
    }

    /// Takes the test's streams as they come, those that the client sends on first.
    pub async fn links(&mut self, params: &Params) -> io::Result<Vec<(bool, Link)>> {
        let mut links = Vec::new();
        for client_sends in params.ways() {
            let greeted = self.greeted.recv().await;
            let (peer, arrivals) = greeted.ok_or(io::ErrorKind::UnexpectedEof)?;
            let arrivals = if client_sends { Arrivals::Sorted(arrivals) } else { Arrivals::Refused };
            links.push((!client_sends, Link::new(Arc::clone(&self.socket), peer, arrivals, params)));
        }
        Ok(links)
    }
}

impl Arrival {
    fn new(datagram: &[u8]) -> Self {
        let mut header = [0; HEADER_LEN];
        let known = datagram.len().min(HEADER_LEN);
        header[..known].copy_from_slice(&datagram[..known]);
        Self { at: Instant::now(), len: datagram.len(), header }
    }
}

impl Numbering {
    fn header_len(self) -> usize {
        match self {
            Self::Short => 12,
            Self::Long => HEADER_LEN,
        }
    }

    fn write(self, sent: Duration, number: u64, datagram: &mut [u8]) {
        let seconds = sent.as_secs() as u32;
        datagram[..4].copy_from_slice(&seconds.to_be_bytes());
        datagram[4..8].copy_from_slice(&sent.subsec_micros().to_be_bytes());
        match self {
            Self::Short => datagram[8..12].copy_from_slice(&(number as u32).to_be_bytes()),
            Self::Long => datagram[8..16].copy_from_slice(&number.to_be_bytes()),
        }
    }

    fn read(self, header: &[u8; HEADER_LEN]) -> Header {
        let [a, b, c, d] = *header.as_chunks::<4>().0 else { unreachable!("16 bytes are four words") };
        let word = u32::from_be_bytes;
        Header {
            sent_us: i64::from(word(a)) * 1_000_000 + i64::from(word(b)),
            number: match self {
                Self::Short => Number::Short(word(c)),
                Self::Long => Number::Long(u64::from(word(c)) << 32 | u64::from(word(d))),
            },
        }
    }
}

/// The length of a test's datagrams: that of a segment of the control connection, unless the user names one.
pub(super) fn length(control: &Stream, wanted: Option<u64>) -> u64 {
    let of_segment = || control.mss().ok().map(u64::from).filter(|&mss| mss > 0);
    let whole = (DATAGRAM_MIN as u64)..=(DATAGRAM_MAX as u64);
    wanted.unwrap_or_else(|| of_segment().unwrap_or(DATAGRAM_LEN).clamp(*whole.start(), *whole.end()))
}

/// The most bytes of a datagram to the other end of `control`.
pub(super) async fn payload_max(session: &Session, control: &Stream) -> Result<u64, Failure> {
    let (socket, peer) = beside(session, control, 0).await?;
    Ok(socket.payload_max(peer.ip()) as u64)
}

/// A socket at the port `port` of this end of `control`, and the address of the other end.
async fn beside(
    session: &Session,
    control: &Stream,
    port: u16,
) -> Result<(DatagramSocket, SocketAddr), Failure> {
    let fails = |error| session.net.failure("binding a UDP socket", &error);
    let mut local = control.local_addr().map_err(fails)?;
    local.set_port(port);
    let peer = control.peer_addr().map_err(fails)?;
    Ok((session.net.datagrams(local).await.map_err(fails)?, peer))
}

/// Greets the server until it answers. A greeting or its answer may be lost.
async fn greet(socket: &DatagramSocket, peer: SocketAddr) -> Result<(), NoAnswer> {
    let mut room = [0; 16];
    let mut greetings = ANSWER_MAX.as_secs() / GREET_EVERY.as_secs();
    while greetings > 0 {
        greetings -= 1;
        socket.send_to(GREETING, peer).await?;
        let answered = timeout(GREET_EVERY, async {
            loop {
                let (len, _) = socket.recv_from(&mut room).await?;
                if ANSWERS.contains(&&room[..len]) {
                    return Ok(());
                }
            }
        });
        if let Ok(answered) = answered.await {
            return answered;
        }
    }
    Err(NoAnswer::Silent)
}

/// Answers greetings of a client, and gives each of its streams the datagrams that are its own.
async fn sort(
    socket: Arc<DatagramSocket>,
    client: IpAddr,
    streams: usize,
    greeted: mpsc::Sender<(SocketAddr, mpsc::Receiver<Arrival>)>,
) {
    let mut peers: HashMap<SocketAddr, mpsc::Sender<Arrival>> = HashMap::new();
    let mut room = vec![0; ROOM];
    loop {
        let (datagram, from) = match socket.recv_from(&mut room).await {
            Ok((len, from)) => (&room[..len], from),
            // Of a datagram that this end sent; the stream's own call reports it, too.
            Err(error) if is_reported(&error) => continue,
            Err(_) => return,
        };
        let greets = datagram.len() == GREETING.len();
        match peers.get(&from) {
            Some(arrivals) if !greets => {
                // A stream that this end only sends on takes none.
                let _ = arrivals.send(Arrival::new(datagram)).await;
                continue;
            }
            None if greets && peers.len() < streams && from.ip() == client => {
                let (arrivals, sorted) = mpsc::channel(ARRIVALS_MAX);
                peers.insert(from, arrivals);
                if greeted.send((from, sorted)).await.is_err() {
                    return;
                }
            }
            Some(_) => {}
            None => continue,
        }
        // A lost answer is asked for again.
        let _ = socket.send_to(ANSWERS[0], from).await;
    }
}

/// Whether the way out had no room for a moment, as the kernel tells without a wait.
fn is_full(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS) || error.kind() == io::ErrorKind::OutOfMemory
}

/// Whether an error is about a datagram that was sent, not about the socket.
fn is_reported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::InvalidInput)
}

/// The client's greeting, "6789" as a number of a little-endian machine.
const GREETING: &[u8] = b"9876";

/// The server's answers: today's, and that of versions before 3.11, which is 987654321.
const ANSWERS: [&[u8]; 2] = [b"6789", &987_654_321_u32.to_le_bytes()];

/// The longest header.
const HEADER_LEN: usize = 16;

/// The fewest bytes of a datagram: iperf3's limit.
pub(crate) const DATAGRAM_MIN: usize = HEADER_LEN;

/// A datagram's bytes if nothing else is known, as for iperf3.
pub(super) const DATAGRAM_LEN: u64 = 1460;

/// No datagram is longer.
const ROOM: usize = 65_536;

/// How long a server may take to answer, as for iperf3, and how often it is greeted. The server of iperf3
/// counts a second greeting as data if it has heard the first, so this is not often.
const ANSWER_MAX: Duration = Duration::from_secs(30);
const GREET_EVERY: Duration = Duration::from_secs(5);

/// Datagrams of a stream that wait to be counted; others wait at the socket, which drops what is too much.
const ARRIVALS_MAX: usize = 1024;

/// How long a sender waits for room.
const FULL_WAIT: Duration = Duration::from_millis(1);

/// How long a receiver waits for datagrams that were under way when their sender stopped.
const LATE_WAIT: Duration = Duration::from_millis(100);

/// How much time a paced sender may make up for.
pub(super) const BEHIND_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use ackclock::Stack;
    use ackclock_device::memory;

    use super::*;

    fn header(number: u64, sent_us: i64) -> Header {
        Header { sent_us, number: Number::Long(number) }
    }

    /// Counts datagrams of these numbers, all of them as long under way.
    fn counted(numbers: &[u64]) -> Tally {
        let mut tally = Tally::default();
        for &number in numbers {
            tally.arrived(header(number, 0), Duration::ZERO);
        }
        tally
    }

    #[test]
    fn what_is_lost_and_what_is_late_is_what_a_list_of_all_numbers_says() {
        let mut random = 1_u64;
        for _ in 0..200 {
            // Some of the numbers, swapped with one a few places on.
            let mut numbers: Vec<u64> = Vec::new();
            for number in 1..=60 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if random >> 62 != 0 {
                    let place = numbers.len().saturating_sub((random >> 58 & 3) as usize);
                    numbers.insert(place, number);
                }
            }
            let highest = numbers.iter().copied().max().unwrap();
            let late =
                (0..numbers.len()).filter(|&at| numbers[..at].iter().any(|&before| before > numbers[at]));
            let expected = Seen {
                packets: highest,
                lost: highest - numbers.len() as u64,
                out_of_order: late.count() as u64,
            };
            assert_eq!(counted(&numbers).seen, expected, "{numbers:?}");
        }
    }

    /// RFC 3550 §6.4.1, by hand: the second is 16 ms later than the first, so J = 16/16 = 1 ms; the third is
    /// as late, so J = 1 - 1/16; the fourth makes up for 8 ms, so J = 0.9375 + (8 - 0.9375)/16.
    #[test]
    fn jitter_is_a_sixteenth_of_each_new_deviation() {
        let mut tally = Tally::default();
        for (number, sent_ms, at_ms, jitter_ms) in [
            (1, 7_000_000, 100, 0.0),
            (2, 7_000_010, 126, 1.0),
            (3, 7_000_020, 136, 0.9375),
            (4, 7_000_030, 138, 1.378_906_25),
        ] {
            tally.arrived(header(number, sent_ms * 1000), Duration::from_millis(at_ms));
            assert!((tally.jitter * 1000.0 - jitter_ms).abs() < 1e-9, "{number}: {tally:?}");
        }
    }

    #[test]
    fn a_short_number_goes_on_past_its_end() {
        let mut tally = Tally { seen: Seen { packets: 0xffff_fffe, ..Seen::default() }, ..Tally::default() };
        for low in [0xffff_ffff, 1, 0] {
            tally.arrived(Header { sent_us: 0, number: Number::Short(low) }, Duration::ZERO);
        }
        assert_eq!(tally.seen, Seen { packets: 0x1_0000_0001, lost: 0, out_of_order: 1 });
    }

    #[test]
    fn what_was_omitted_counts_for_neither_end() {
        let counts = Counts::default();
        let see = |numbers: &[u64]| {
            for &number in numbers {
                counts.lock().arrived(header(number, 0), Duration::ZERO);
            }
        };
        see(&[1, 4, 3, 6]);
        counts.restart();
        see(&[7, 10, 9]);
        let tally = counts.tally();
        let mut own = StreamResult {
            id: 1,
            bytes: 0,
            retransmits: -1,
            jitter: 0.0,
            errors: 0,
            packets: 0,
            omitted_errors: -1,
            omitted_packets: -1,
            start_time: 0.0,
            end_time: 0.0,
        };
        let peers = StreamResult { packets: 11, omitted_packets: 6, ..own };
        tally.fill(&mut own);
        assert_eq!((own.packets, own.omitted_packets, own.errors, own.omitted_errors), (10, 6, 3, 2));
        let expected =
            DatagramFigures { sent: 5, received: 3, lost: 1, out_of_order: Some(1), jitter_ms: 0.0 };
        assert_eq!(tally.figures(true, &peers, &own), expected);
        // An older peer leaves out what this end does.
        let older = StreamResult { omitted_packets: -1, ..peers };
        assert_eq!(tally.figures(true, &older, &own), expected);
    }

    /// Bytes as in `iperf_udp.c`: seconds, microseconds and the number, big-endian.
    #[test]
    fn a_header_is_read_as_it_was_written() {
        let sent = Duration::new(258, 3_000);
        for (numbering, number, wire) in [
            (Numbering::Short, 0x0102_0304, &[0, 0, 1, 2, 0, 0, 0, 3, 1, 2, 3, 4][..]),
            (Numbering::Long, 0x0102_0304_0506, &[0, 0, 1, 2, 0, 0, 0, 3, 0, 0, 1, 2, 3, 4, 5, 6]),
        ] {
            let mut datagram = [0xff; HEADER_LEN];
            numbering.write(sent, number, &mut datagram);
            assert_eq!((&datagram[..wire.len()], numbering.header_len()), (wire, wire.len()));
            let read = numbering.read(&datagram);
            assert_eq!(read.sent_us, 258_000_003);
            let expected = match numbering {
                Numbering::Short => Number::Short(0x0102_0304),
                Numbering::Long => Number::Long(number),
            };
            assert_eq!(read.number, expected);
        }
    }

    #[test]
    fn several_streams_are_summed_and_their_jitters_averaged() {
        let one = DatagramFigures { sent: 10, received: 7, lost: 2, out_of_order: Some(1), jitter_ms: 0.5 };
        let sum = DatagramFigures::sum(&[one, DatagramFigures { lost: 9, jitter_ms: 1.0, ..one }]).unwrap();
        assert_eq!(sum.line(), "11 of 25 datagrams lost (44.00 %), 2 out of order, jitter 0.750 ms");
        assert_eq!(DatagramFigures::sum(&[]), None);
    }

    /// A client's socket, and one that stands for its server's.
    async fn sockets() -> (DatagramSocket, DatagramSocket, SocketAddr) {
        let stack = |device, addr: &str| {
            Stack::builder().device(device).address(addr.parse().unwrap()).spawn().unwrap()
        };
        let (left, right) = memory::pair(memory::Config::default());
        let (client, server) = (stack(left, "10.0.0.1/24"), stack(right, "10.0.0.2/24"));
        let peer = "10.0.0.2:5201".parse().unwrap();
        let own = client.udp("10.0.0.1:0".parse().unwrap()).unwrap();
        own.connect(peer).await.unwrap();
        (DatagramSocket::User(own), DatagramSocket::User(server.udp(peer).unwrap()), peer)
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_is_given_up_after_half_a_minute() {
        let (own, _server, peer) = sockets().await;
        let began = tokio::time::Instant::now();
        let answered = greet(&own, peer).await;
        assert!(matches!(answered, Err(NoAnswer::Silent)), "{answered:?}");
        assert_eq!(began.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_greeting_is_repeated_and_other_datagrams_are_no_answer() {
        let (own, server, peer) = sockets().await;
        let answers = async {
            let mut room = [0; 100];
            for answer in [b"data, which came first".as_slice(), ANSWERS[1]] {
                let (len, client) = server.recv_from(&mut room).await.unwrap();
                assert_eq!(&room[..len], b"9876");
                server.send_to(answer, client).await.unwrap();
            }
        };
        let began = tokio::time::Instant::now();
        let (answered, ()) = tokio::join!(greet(&own, peer), answers);
        answered.unwrap();
        assert_eq!(began.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_client_gets_streams_and_no_more_than_it_asked_for() {
        let device = memory::pair(memory::Config::default());
        let stack = |device, addrs: &[&str]| {
            let builder = Stack::builder().device(device);
            addrs.iter().fold(builder, |all, addr| all.address(addr.parse().unwrap())).spawn().unwrap()
        };
        let client = stack(device.0, &["10.0.0.1/24", "10.0.0.3/24"]);
        let server = stack(device.1, &["10.0.0.2/24"]);
        let port: SocketAddr = "10.0.0.2:5201".parse().unwrap();
        let socket = Arc::new(DatagramSocket::User(server.udp(port).unwrap()));
        let (greeting, mut greeted) = mpsc::channel(2);
        let mut sorter = JoinSet::new();
        sorter.spawn(sort(socket, "10.0.0.1".parse().unwrap(), 2, greeting));
        let mut room = [0; 100];
        for (from, answered) in
            [("10.0.0.3:7", false), ("10.0.0.1:7", true), ("10.0.0.1:8", true), ("10.0.0.1:9", false)]
        {
            let socket = client.udp(from.parse().unwrap()).unwrap();
            for greeting in [b"9876".as_slice(), b"9876", b"no greeting"] {
                socket.send_to(greeting, port).await.unwrap();
                let heard = timeout(Duration::from_secs(1), socket.recv(&mut room)).await;
                assert_eq!(heard.is_ok(), answered && greeting == b"9876", "{from}: {greeting:?}");
            }
            if answered {
                let (peer, mut arrivals) = greeted.recv().await.unwrap();
                assert_eq!(peer, from.parse().unwrap());
                assert_eq!(arrivals.recv().await.unwrap().len, b"no greeting".len());
            }
        }
        assert!(greeted.try_recv().is_err());
    }
}
