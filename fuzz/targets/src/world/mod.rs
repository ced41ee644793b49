//! Two endpoints, several connections, and a path between them that the input rules.
//!
//! Every end is driven by the six methods that any driver calls. Between the ends is a queue of packets. The
//! input says which of them arrives, is lost, doubled, damaged, or comes back with other numbers from an
//! attacker who guesses. A packet older than the longest life of a segment is dropped, as RFC 9293 §3.4.1
//! expects of a network.
//!
//! A step, as these targets count, is one packet, one expiry or one call that an endpoint is given. After
//! each turn [`FuzzedPair::check`] asks the oracles; in builds with debug assertions the core asks its own
//! after each step.

mod calls;
mod check;
mod course;
mod frozen;
mod record;
mod scene;
mod thawed;
mod wire;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::mem;
use std::net::IpAddr;

use ackclock_core::{
    ConnectionId, Endpoint, EndpointConfig, IncomingId, Instant, ListenAddr, ListenOptions, ListenerId, UdpId,
};
use ackclock_journal::{Journal, RecordedEndpoint};
use ackclock_tests::fuzz::Answers;
use ackclock_tests::host::host_addr;
use ackclock_wire::hash::Fnv1a;
use ackclock_wire::random::mix;
use arbitrary::{Arbitrary, Unstructured};

pub(crate) use self::course::{answers as course_answers, course};
pub(crate) use self::frozen::frozen;
use self::record::Recorder;
use self::scene::{Scene, Step, Turn};
pub(crate) use self::thawed::form;
use self::wire::Flying;

/// Lives the lives of two endpoints, and says how many steps they had.
pub(crate) fn endpoint(bytes: &[u8]) -> u64 {
    live(bytes, &mut Answers::default(), None)
}

/// As [`endpoint`], and collects the endpoints' answers.
pub(crate) fn answers(bytes: &[u8], answers: &mut Answers) {
    live(bytes, answers, None);
}

/// As [`endpoint`], with a recording of each end, whose replays must not depart from it.
pub(crate) fn recording(bytes: &[u8]) -> u64 {
    let recorder = Recorder::default();
    let steps = live(bytes, &mut Answers::default(), Some(&recorder));
    let (replayed, _) = recorder.check(|_| false);
    assert!(replayed >= steps.min(1), "{steps} steps, of which nothing was recorded");
    steps
}

/// As [`recording`], but endpoints replay that are frozen and thawed before some of their calls. Returns how
/// many calls.
pub(crate) fn thawed(bytes: &[u8]) -> u64 {
    let recorder = Recorder::default();
    live(bytes, &mut Answers::default(), Some(&recorder));
    // About one call in eight, others for each input.
    let input = Fnv1a::of(bytes);
    let (_, cuts) = recorder.check(|call| mix(input ^ call).is_multiple_of(8));
    cuts
}

fn live(bytes: &[u8], answers: &mut Answers, recorder: Option<&Recorder>) -> u64 {
    let mut unstructured = Unstructured::new(bytes);
    let Ok(scene) = Scene::arbitrary(&mut unstructured) else { return 0 };
    let mut pair = FuzzedPair::new(&scene, true, recorder);
    pair.answers = mem::take(answers);
    for _ in 0..TURNS_MAX {
        if unstructured.is_empty() {
            break;
        }
        let Ok(turn) = Turn::arbitrary(&mut unstructured) else { break };
        pair.turn(&turn);
        pair.check();
        pair.show();
    }
    pair.come_to_rest();
    *answers = pair.answers;
    pair.steps
}

/// Gives one life to two pairs, one of which predicts nothing; both leave the same behind after each turn.
pub(crate) fn short_way(bytes: &[u8]) -> u64 {
    let mut unstructured = Unstructured::new(bytes);
    let Ok(scene) = Scene::arbitrary(&mut unstructured) else { return 0 };
    let [mut long, mut short] = [false, true].map(|predicts| FuzzedPair::new(&scene, predicts, None));
    for _ in 0..TURNS_MAX {
        if unstructured.is_empty() {
            break;
        }
        let Ok(turn) = Turn::arbitrary(&mut unstructured) else { break };
        long.turn(&turn);
        short.turn(&turn);
        long.is_as(&short, &turn);
    }
    long.steps + short.steps
}

/// One end of the path.
struct End {
    endpoint: RecordedEndpoint,
    connections_max: usize,
    mtu: usize,
    gso_max: usize,
    listeners: Vec<ListenerId>,
    incoming: Vec<IncomingId>,
    conns: Vec<Conn>,
    udp: Vec<UdpId>,
}

/// A connection that an application has.
#[derive(Clone, Copy, Debug)]
struct Conn {
    id: ConnectionId,
    /// Bytes read and written so far.
    read: u32,
    written: u32,
}

struct FuzzedPair {
    ends: [End; 2],
    now: Instant,
    v6: bool,
    wire: VecDeque<Flying>,
    /// Bytes that a connection may write, and one write more: segments of it are to be paid for.
    written_max: u32,
    /// An attacker who guesses numbers took part: the data read is not to be trusted.
    noisy: bool,
    answers: Answers,
    steps: u64,
}

impl FuzzedPair {
    fn new(scene: &Scene, predicts: bool, recorder: Option<&Recorder>) -> Self {
        let now = Instant::from_millis(3_600_000);
        let mut ends = [0, 1].map(|side| {
            let config = scene.config(side);
            let config = EndpointConfig { header_prediction: predicts, ..config };
            let journal = recorder.as_ref().map(|recorder| recorder.begin(side, &config, now));
            End::new(config, scene.gso_max(side), now, journal)
        });
        for end in &mut ends {
            end.listen(now, ListenOptions::new(ListenAddr { addr: None, port: Some(80) }));
        }
        Self {
            ends,
            now,
            v6: scene.v6,
            wire: VecDeque::new(),
            written_max: WRITTEN_MAX,
            noisy: false,
            answers: Answers::default(),
            steps: 0,
        }
    }

    /// One thing happens, and some of what is under way arrives.
    fn turn(&mut self, turn: &Turn) {
        self.happen(&turn.step);
        self.collect();
        self.carry(turn.pace());
    }

    fn happen(&mut self, step: &Step) {
        match *step {
            Step::Connect { side, port, local } => self.connect(side, port, local),
            Step::Listen { side, port, kind } => self.listen(side, port, kind),
            Step::CloseListener { side, which } => self.close_listener(side, which),
            Step::Accept { side, which } | Step::AcceptAgain { side, which } => self.accept(side, which),
            Step::Decide { side, which, how } => self.decide(side, which, how),
            Step::Write { side, which, len } | Step::WriteAgain { side, which, len } => {
                self.write(side, which, len);
            }
            Step::Read { side, which, len } => self.read(side, which, len),
            Step::Call { side, which, what, by } => self.call(side, which, what, by),
            Step::Release { side, which } => self.release(side, which),
            Step::Datagram { side, port, len } => self.datagram(side, port, len),
            Step::Bind { side, port } => self.bind(side, port),
            Step::Arrive(which) => self.arrive(which),
            Step::Lose(which) => {
                self.take(which);
            }
            Step::Double(which) => self.double(which),
            Step::Damage { which, at, by } => self.damage(which, at, by),
            Step::Cut { which, size } => self.cut(which, size),
            Step::Forge { which, ref forged } => self.forge(which, forged),
            Step::Stranger { side, from, port, ref forged } => self.stranger(side, from, port, forged),
            Step::Icmp { which, kind, mtu } => self.icmp(which, kind, mtu),
            Step::Pass { by, flows } => self.pass(scene::duration(by), flows),
            Step::Expire => self.expire(),
            Step::Jump(by) => self.jump(scene::duration(by)),
            Step::Device { side, what } => self.device(side, what),
        }
    }

    /// Does something with an endpoint: one step.
    fn with<R>(&mut self, side: bool, f: impl FnOnce(&mut End, Instant) -> R) -> R {
        self.steps += 1;
        let now = self.now;
        f(&mut self.ends[usize::from(side)], now)
    }

    /// Makes a call of an application: one step, whose result is an answer.
    fn call_with<R: Debug>(&mut self, side: bool, what: &str, f: impl FnOnce(&mut End, Instant) -> R) {
        let told = self.with(side, f);
        self.answers.told(what, &told);
    }

    fn show(&mut self) {
        if self.answers.is_kept() {
            for end in &mut self.ends {
                self.answers.figures(self.now, &end.endpoint);
                let poll = || end.endpoint.poll_trace().or_else(|| end.endpoint.poll_changes());
                std::iter::from_fn(poll).for_each(|batch| self.answers.trace(&batch));
            }
        }
    }
}

impl End {
    fn new(config: EndpointConfig, gso_max: usize, now: Instant, journal: Option<Journal>) -> Self {
        Self {
            connections_max: config.connections_max,
            mtu: config.mtu,
            endpoint: RecordedEndpoint::new(Endpoint::new(config, now), journal),
            gso_max,
            listeners: Vec::new(),
            incoming: Vec::new(),
            conns: Vec::new(),
            udp: Vec::new(),
        }
    }

    fn listen(&mut self, now: Instant, options: ListenOptions) {
        if let Ok(id) = self.endpoint.listen(now, options) {
            self.listeners.push(id);
        }
    }
}

/// The address of a side, or of a stranger of this number.
fn addr_of(v6: bool, number: u8) -> IpAddr {
    host_addr(v6, number)
}

const TURNS_MAX: usize = 400;
const WRITTEN_MAX: u32 = 200_000;
