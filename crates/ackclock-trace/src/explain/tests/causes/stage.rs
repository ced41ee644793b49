//! One connection from `a` to `b`, with applications that follow a plan, and the account of its sender.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ackclock_control::congestion::Registry;
use ackclock_core::{ConnectionId, TcpConfig};
use ackclock_sim::observe::Traces;
use ackclock_sim::{App, AppContext, AppEvent, Simulation};

use super::super::*;

pub(super) const PORT: u16 = 9;

/// The sender's application. It has `bytes` to send in all.
#[derive(Clone, Debug)]
pub(super) struct Writes {
    pub bytes: u64,
    /// Writes this much at a time, and then works for this long. With no time, the application always has
    /// more.
    pub piece: u64,
    pub work: Duration,
    /// Writes a request in two pieces of this size, and waits for its answer.
    pub in_halves: Option<u64>,
    /// Takes this long to run after it hears of room.
    pub asleep: Duration,
    pub cork: bool,
    pub rate_max: Option<u64>,
}

/// The receiver's application.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    /// Reads this much, and then works for this long; all at once if `None`.
    pub pace: Option<(usize, Duration)>,
    /// Reads nothing for this long once this much has arrived.
    pub pause: Option<(u64, Duration)>,
    /// Answers each request of this size with a byte.
    pub answers: Option<u64>,
    pub quickack: bool,
}

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub tcp: TcpSettings,
    pub peer: TcpSettings,
    pub there: Direction,
    pub writes: Writes,
    pub reads: Reads,
}

/// The outcome of a stage.
#[derive(Debug)]
pub(super) struct StageResult {
    /// From the first SYN until the last byte was read.
    pub took: Duration,
    /// The causes' shares of that time.
    pub shares: BTreeMap<Waiting, f64>,
}

impl Default for Writes {
    fn default() -> Self {
        Self {
            bytes: 1_000_000,
            piece: u64::MAX,
            work: Duration::ZERO,
            in_halves: None,
            asleep: Duration::ZERO,
            cork: false,
            rate_max: None,
        }
    }
}

impl Default for Stage {
    /// Nothing limits but 1 Gbit/s and a round trip of 40 ms: no congestion control, a large window, a large
    /// buffer, no loss.
    fn default() -> Self {
        let tcp = TcpSettings { congestion: Some("none-1987".to_owned()), ..TcpSettings::default() };
        let tcp = TcpSettings { send_buffer: Some(Bytes(16 << 20)), ..tcp }.choose("pacing", "off");
        Self {
            tcp,
            peer: TcpSettings::default().fixed_window(16 << 20),
            there: Direction::new(Rate::mbit(1000), Span::millis(20)).buffers(100_000),
            writes: Writes::default(),
            reads: Reads::default(),
        }
    }
}

impl Stage {
    pub fn run(&self) -> StageResult {
        let back = Direction::new(Rate::mbit(1000), Span::millis(20)).buffers(100_000);
        let mut scenario = Scenario::new(Span::seconds(600)).host("a").host("b");
        scenario.full_packets = true;
        let scenario = scenario.asymmetric("a", "b", self.there.clone(), back);
        let mut simulation = Simulation::new(&scenario).unwrap();
        let traces = Rc::new(std::cell::RefCell::new(Traces::default()));
        simulation.observe(Rc::clone(&traces));
        let config = |tcp: &TcpSettings| tcp.config(&Registry::with_experiments()).unwrap();
        let server = (simulation.node("b").unwrap().addr, PORT).into();
        let done = Rc::new(Cell::new(None));
        let writer = Writer {
            does: self.writes.clone(),
            server,
            tcp: config(&self.tcp.clone().traced()),
            id: None,
            left: self.writes.bytes,
            halves: 0,
            asleep: false,
        };
        let reader = Reader::new(self.reads.clone(), config(&self.peer), self.writes.bytes, &done);
        assert!(simulation.add_app("b", "reader", Instant::ZERO, Box::new(reader)));
        assert!(simulation.add_app("a", "writer", Instant::ZERO, Box::new(writer)));
        simulation.run();
        let batches = traces.borrow();
        let batches: Vec<Batch> = batches.batches().iter().map(|(_, batch)| batch.clone()).collect();
        outcome(&batches, done.get().expect("all arrives in ten minutes"))
    }
}

/// The shares of the time until `done`.
pub(super) fn outcome(batches: &[Batch], done: Instant) -> StageResult {
    let mut bytes = Vec::new();
    let mut writer = crate::file::Writer::new(&mut bytes, &Origin::default()).unwrap();
    for batch in batches {
        writer.batch("a", batch).unwrap();
    }
    let source = Trace::read(&bytes).unwrap().sources.remove(0);
    let waits = account(&source).waits;
    let began = waits.spans[0].0;
    let took = done.saturating_since(began);
    let mut shares = BTreeMap::new();
    for (from, until, waiting) in waits.spans {
        let time = until.min(done).saturating_since(from).as_secs_f64();
        *shares.entry(waiting).or_insert(0.0) += time / took.as_secs_f64();
    }
    StageResult { took, shares }
}

#[derive(Debug)]
struct Writer {
    does: Writes,
    server: SocketAddr,
    tcp: TcpConfig,
    id: Option<ConnectionId>,
    left: u64,
    /// Halves of requests written and not answered.
    halves: u64,
    /// A timer will wake it.
    asleep: bool,
}

impl Writer {
    fn sleep(&mut self, time: Duration, cx: &mut AppContext<'_>) {
        self.asleep = true;
        cx.set_timer(time, 0);
    }

    fn write(&mut self, cx: &mut AppContext<'_>) {
        let Some(id) = self.id else { return };
        while self.left > 0 && !self.asleep {
            let (piece, in_halves) = match self.does.in_halves {
                Some(_) if self.halves == 2 => return,
                Some(half) => (half, true),
                None => (self.does.piece, false),
            };
            let piece = piece.min(self.left);
            let written = cx.write_any(id, piece).unwrap_or(0);
            self.left -= written;
            self.halves += u64::from(in_halves);
            if self.left == 0 {
                cx.shutdown(id);
            }
            if written < piece {
                return;
            }
            if !self.does.work.is_zero() {
                self.sleep(self.does.work, cx);
            }
        }
    }
}

impl App for Writer {
    fn on_event(&mut self, event: AppEvent, cx: &mut AppContext<'_>) {
        match event {
            AppEvent::Start => self.id = cx.connect(self.server, Some(self.tcp.clone())).ok(),
            AppEvent::Timer(_) => {
                self.asleep = false;
                self.write(cx);
            }
            AppEvent::Ready(id, readiness) => {
                if readiness.connected {
                    cx.update(id, |connection, now| {
                        connection.set_cork(now, self.does.cork);
                        connection.set_max_pacing_rate(now, self.does.rate_max).unwrap();
                    });
                }
                if cx.read_any(id).is_ok_and(|(bytes, _)| bytes > 0) {
                    self.halves = 0;
                }
                if readiness.writable && !readiness.connected && !self.does.asleep.is_zero() && !self.asleep {
                    return self.sleep(self.does.asleep, cx);
                }
                self.write(cx);
            }
            AppEvent::Accepted(_) => {}
            _ => {}
        }
    }
}

/// The receiver's application.
#[derive(Debug)]
pub(super) struct Reader {
    does: Reads,
    tcp: TcpConfig,
    id: Option<ConnectionId>,
    received: u64,
    expected: u64,
    answered: u64,
    /// A timer will wake it.
    resting: bool,
    done: Rc<Cell<Option<Instant>>>,
}

impl Reader {
    /// Notes in `done` when all that is expected has been read.
    pub(super) fn new(does: Reads, tcp: TcpConfig, expected: u64, done: &Rc<Cell<Option<Instant>>>) -> Self {
        let done = Rc::clone(done);
        Self { does, tcp, id: None, received: 0, expected, answered: 0, resting: false, done }
    }

    fn rest(&mut self, time: Duration, cx: &mut AppContext<'_>) {
        self.resting = true;
        cx.set_timer(time, 0);
    }

    fn read(&mut self, cx: &mut AppContext<'_>) {
        let Some(id) = self.id.filter(|_| !self.resting) else { return };
        if let Some((after, time)) = self.does.pause
            && self.received >= after
        {
            self.does.pause = None;
            return self.rest(time, cx);
        }
        let read = match self.does.pace {
            Some((piece, work)) => {
                let read = cx.read(id, &mut vec![0; piece]).unwrap_or(0) as u64;
                if read > 0 {
                    self.rest(work, cx);
                }
                read
            }
            None => cx.read_any(id).map_or(0, |(bytes, _)| bytes),
        };
        self.received += read;
        if let Some(request) = self.does.answers {
            while self.received >= self.answered + request {
                self.answered += request;
                cx.write_any(id, 1).unwrap();
            }
        }
        if self.received >= self.expected && self.done.get().is_none() {
            self.done.set(Some(cx.now()));
        }
    }
}

impl App for Reader {
    fn on_event(&mut self, event: AppEvent, cx: &mut AppContext<'_>) {
        match event {
            AppEvent::Start => {
                cx.listen(PORT, Some(self.tcp.clone())).unwrap();
            }
            AppEvent::Timer(_) => self.resting = false,
            AppEvent::Accepted(id) => {
                self.id = Some(id);
                cx.update(id, |connection, _| connection.set_quickack(self.does.quickack));
            }
            AppEvent::Ready(..) => {}
            _ => {}
        }
        self.read(cx);
    }
}
