//! Long transfers: connections that always have something to send, over a path with a delay, a queue and an
//! MTU, while the input makes calls and changes the path.
//!
//! The steps of [`FuzzedPair`] alone seldom send much for long. Here each round takes a fixed time. The
//! applications write and read in each, and each packet under way at its beginning arrives, is lost or waits.
//! A round trip takes two rounds.

use std::mem;
use std::time::Duration;

use ackclock_control::quantity::Share;
use ackclock_tests::fuzz::Answers;
use ackclock_tests::rng::Rng;
use ackclock_wire::ecn;
use arbitrary::{Arbitrary, Unstructured};

use super::FuzzedPair;
use super::scene::{Scene, Step, duration};
use super::wire::Flying;

/// Lives through long transfers, and says how many steps they had.
pub(crate) fn course(bytes: &[u8]) -> u64 {
    live(bytes, &mut Answers::default())
}

/// As [`course`], and collects the endpoints' answers.
pub(crate) fn answers(bytes: &[u8], answers: &mut Answers) {
    live(bytes, answers);
}

fn live(bytes: &[u8], answers: &mut Answers) -> u64 {
    let mut unstructured = Unstructured::new(bytes);
    let begin = Scene::arbitrary(&mut unstructured).and_then(|scene| Ok((scene, unstructured.arbitrary()?)));
    let Ok((scene, path)) = begin else { return 0 };
    let mut pair = FuzzedPair::new(&scene, true, None);
    pair.answers = mem::take(answers);
    pair.written_max = WRITTEN_MAX;
    let mut course = Course::new(&path);
    pair.close_listener(true, 0);
    pair.listen(true, 0, path.listener);
    for round in 0..ROUNDS {
        if round % path.reconnects().max(1) == 0 {
            pair.connect(false, TO_PEER, path.opening.rotate_left(round));
        }
        course.round(&mut pair, round, &mut unstructured);
        pair.check();
        pair.show();
    }
    pair.come_to_rest();
    *answers = pair.answers;
    pair.steps
}

/// The conditions of the path and the applications.
#[derive(Debug, Arbitrary)]
struct Conditions {
    listener: u8,
    opening: u8,
    round: u8,
    queue: u8,
    loss: u8,
    rhythm: u8,
    seed: u16,
}

impl Conditions {
    fn reconnects(&self) -> u32 {
        [ROUNDS, 15, 31, 50][usize::from(self.rhythm / 64)]
    }
}

/// The path and the applications as they are now.
struct Course {
    rng: Rng,
    round: Duration,
    queue_max: usize,
    loss: Share,
    /// Packets longer than this do not pass.
    mtu: usize,
    /// A router says so.
    tells: bool,
    /// Packets longer than this many in the queue are marked, or overtaken.
    mark_above: usize,
    doubles: bool,
    reorders: bool,
    /// Rounds in which nothing arrives; what is under way waits.
    stalled: u8,
    /// How many bytes each side writes in a round, and whether it reads.
    writes: [u16; 2],
    reads: [bool; 2],
}

impl Course {
    fn new(path: &Conditions) -> Self {
        let write = |bits: u8| [65_532, 4000, 7, 0][usize::from(bits % 4)];
        Self {
            rng: Rng::new(path.seed.into()),
            round: Duration::from_millis([10, 1, 50, 200][usize::from(path.round % 4)]),
            queue_max: [100, 40, 15, 60][usize::from(path.queue % 4)],
            loss: Share::percent([0, 0, 1, 6][usize::from(path.loss % 4)]),
            mtu: [9000, 9000, 1400, 1300][usize::from(path.loss / 4 % 4)],
            tells: path.loss & 64 != 0,
            mark_above: [usize::MAX, 8][usize::from(path.queue / 64 % 2)],
            doubles: path.queue & 16 != 0,
            reorders: path.queue & 32 != 0,
            stalled: 0,
            writes: [write(path.rhythm), write(path.rhythm / 4 + 1)],
            reads: [true; 2],
        }
    }

    fn round(&mut self, pair: &mut FuzzedPair, round: u32, input: &mut Unstructured<'_>) {
        let byte = if input.is_empty() { 0 } else { input.arbitrary().unwrap_or(0) };
        match byte {
            0..120 => {}
            120..170 => self.change(pair, byte, input.arbitrary().unwrap_or(0)),
            _ => pair.happen(&Step::arbitrary(input).unwrap_or(Step::Expire)),
        }
        self.applications(pair, round);
        pair.collect();
        let under_way = mem::take(&mut pair.wire);
        pair.pass(self.round, false);
        let held = mem::take(&mut pair.wire);
        if self.stalled > 0 {
            self.stalled -= 1;
            pair.wire.extend(under_way);
        } else {
            self.arrive(pair, under_way.into());
        }
        pair.wire.extend(held);
    }

    /// A change on the path, or in the behaviour of the applications.
    fn change(&mut self, pair: &mut FuzzedPair, what: u8, by: u8) {
        let side = usize::from(by % 2);
        match what % 12 {
            0 => self.mtu = [9000, 1500, 1400, 1280, 900, 600][usize::from(by) % 6],
            1 => self.tells ^= true,
            2 => self.writes[side] = [65_532, 4000, 1, 0][usize::from(by / 2 % 4)],
            3 => self.reads[side] ^= true,
            4 => self.stalled = by % 32,
            5 => pair.pass(duration(by), false),
            6 => self.loss = Share::percent([0, 0, 2, 30][usize::from(by % 4)]),
            7 => self.queue_max = 2 + usize::from(by % 64),
            8 => self.mark_above = if by < 128 { usize::MAX } else { usize::from(by % 16) },
            9 => self.reorders ^= true,
            10 => self.doubles ^= true,
            // All that is under way is lost.
            _ => pair.wire.clear(),
        }
    }

    fn applications(&mut self, pair: &mut FuzzedPair, round: u32) {
        for side in [false, true] {
            for listener in 0..2 {
                pair.decide(side, listener, 3);
                pair.accept(side, listener);
            }
            let at = usize::from(side);
            let which = round as u8;
            if self.reads[at] {
                pair.read(side, which, u16::MAX);
            }
            if self.writes[at] > 0 {
                pair.write(side, which, self.writes[at]);
            }
        }
    }

    fn arrive(&mut self, pair: &mut FuzzedPair, mut packets: Vec<Flying>) {
        if self.reorders && packets.len() > 1 {
            let at = self.rng.below(packets.len() as u64 - 1) as usize;
            packets.swap(at, at + 1);
            let last = self.rng.below(packets.len() as u64) as usize;
            packets.swap(0, last);
        }
        let mut taken = [0; 2];
        for (at, mut flying) in packets.into_iter().enumerate() {
            let taken = &mut taken[usize::from(flying.is_for_second())];
            *taken += 1;
            if flying.bytes().len() > self.mtu {
                if self.tells {
                    pair.too_big(&flying, self.mtu as u16);
                }
                continue;
            }
            if *taken > self.queue_max || self.loss.holds(self.rng.next_u64()) {
                continue;
            }
            if *taken > self.mark_above && !flying.is_damaged() {
                ecn::mark(flying.bytes_mut());
            }
            if self.doubles && at % 11 == 5 {
                pair.deliver(&flying);
            }
            pair.deliver(&flying);
        }
    }
}

const ROUNDS: u32 = 120;
const WRITTEN_MAX: u32 = 3_000_000;
/// A port byte of `FuzzedPair::connect`: the other side's listening port.
const TO_PEER: u8 = 65;
