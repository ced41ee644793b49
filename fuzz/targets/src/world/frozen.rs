//! One connection leaves its endpoint as bytes, which may come to harm, and goes on at another.
//!
//! The input says in which form it moves, how often, to an endpoint with which settings, and what becomes of
//! the bytes on the way. Unharmed, the exact form must go on with the packets of a connection that stayed,
//! and the portable form must lose no byte in either direction.

use std::fmt::Debug;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use ackclock_control::congestion::Registry;
use ackclock_core::{ConnectionError, Endpoint, EndpointConfig, FormError, Instant, ThawError};
use ackclock_journal::RecordedEndpoint;
use arbitrary::{Arbitrary, Unstructured};

use super::calls::LONG;
use super::scene::{Scene, Step, Turn, duration};
use super::wire::FLOW;
use super::{Conn, FuzzedPair, TURNS_MAX};

/// Moves the one connection between two ends, and says how many steps they had.
pub(crate) fn frozen(bytes: &[u8]) -> u64 {
    let mut input = Unstructured::new(bytes);
    let begin: arbitrary::Result<([Scene; 2], Journey)> = input.arbitrary();
    let Ok(([scene, mut other], journey)) = begin else { return 0 };
    other.v6 = scene.v6;
    let (scene, other, journey) = (&scene, &other, &journey);
    match journey.kind() {
        Kind::Exact => compare(scene, journey, input),
        Kind::Portable => arrive_whole(scene, other, journey, input),
        Kind::Damaged => survive(scene, other, journey, input),
    }
}

/// The exact form: after each turn, the packets under way are those of a pair in which nothing moves.
fn compare(scene: &Scene, journey: &Journey, mut input: Unstructured<'_>) -> u64 {
    let [stayed, moved] = [(), ()].map(|()| open(scene, false));
    let (Some(mut stayed), Some(mut moved)) = (stayed, moved) else { return 1 };
    // A connection that stayed may have a timer that no longer means anything, which does not go along. The
    // time that a stopped process leaves out begins at the first timer, so no process stops here.
    let turns = turns(&mut input).filter(|turn| !matches!(turn.step, Step::Jump(_)));
    for (number, turn) in turns.enumerate() {
        if journey.cuts(number) {
            for side in journey.sides() {
                // The clock of an endpoint advances with each call.
                stayed.with(side, |end, now| end.endpoint.update(now, end.conns[0].id, |_, _| ()));
                moved.move_exactly(side);
            }
        }
        // Fragments are numbered by the steps before them.
        stayed.steps = stayed.steps.max(moved.steps);
        moved.steps = stayed.steps;
        let mut both = [&mut stayed, &mut moved];
        match turn.step {
            Step::Expire => _ = wake(&mut both, |_| true),
            Step::Pass { by, flows } => pass(&mut both, duration(by), flows),
            ref step => both.iter_mut().for_each(|pair| pair.happen(step)),
        }
        for pair in both {
            pair.collect();
            pair.carry(turn.pace());
            pair.check();
        }
        let (stayed, moved) = (&stayed.wire, &moved.wire);
        assert!(stayed == moved, "{turn:?}: {stayed:02x?}\n{moved:02x?}");
    }
    moved.come_to_rest();
    stayed.steps + moved.steps
}

/// Time passes for both pairs, which wake at the times of either.
fn pass(both: &mut [&mut FuzzedPair; 2], by: Duration, flows: bool) {
    let until = both[0].now + by;
    for _ in 0..WAKES_MAX {
        if flows {
            both.iter_mut().for_each(|pair| pair.carry(FLOW));
        }
        if !wake(both, |at| at <= until) {
            both.iter_mut().for_each(|pair| pair.now = pair.now.max(until));
            return;
        }
    }
}

/// Wakes both pairs at the time of the first timer of either, if it is one of those.
fn wake(both: &mut [&mut FuzzedPair; 2], is_one: impl Fn(Instant) -> bool) -> bool {
    let due = both.iter().filter_map(|pair| pair.next_timeout()).min().filter(|at| is_one(*at));
    if let Some(at) = due {
        both.iter_mut().for_each(|pair| pair.wake(at));
    }
    due.is_some()
}

/// The portable form: each byte that one application writes is read by the other, over any path, at
/// endpoints of any settings.
fn arrive_whole(scene: &Scene, other: &Scene, journey: &Journey, mut input: Unstructured<'_>) -> u64 {
    let Some(mut pair) = open(scene, true) else { return 1 };
    for (number, turn) in turns(&mut input).enumerate() {
        if journey.cuts(number) {
            for side in journey.sides() {
                let scene = if number.is_multiple_of(2) { other } else { scene };
                pair.move_portably(side, patient(scene.config(side.into())));
            }
        }
        let ends = match turn.step {
            // A router's error, an abort, a user timeout or keep-alive that runs out.
            Step::Icmp { .. } => true,
            Step::Call { what, .. } => matches!(what % 32, 3 | 6 | 9),
            _ => false,
        };
        if !ends {
            pair.turn(&turn);
            pair.check();
        }
    }
    pair.finish();
    pair.come_to_rest();
    pair.steps
}

/// Damaged bytes: they are refused and leave nothing, or the connection lives within the bounds.
fn survive(scene: &Scene, other: &Scene, journey: &Journey, mut input: Unstructured<'_>) -> u64 {
    let Some(mut pair) = open(scene, false) else { return 1 };
    let side = journey.side;
    for turn in turns(&mut input).take((journey.every % 16).into()) {
        pair.turn(&turn);
    }
    let Some(mut form) = pair.take_out(side, journey.is_portable()) else { return pair.steps };
    // Often a single one: each more makes it likelier that the form is refused.
    let damages = journey.damages.iter().take(1 + usize::from(journey.how / 64));
    damages.for_each(|damage| damage.change(&mut form));
    if journey.raw.is_multiple_of(8) {
        form.truncate(RAW_HEAD);
        form.extend(input.bytes(input.len() / 2).unwrap_or_default());
    }
    let (config, now) = (other.config(side.into()), pair.now);
    let mut endpoint = Endpoint::new(config.clone(), now);
    let thawed = if journey.is_portable() {
        endpoint.thaw_portable(now, &form, (*config.tcp).clone())
    } else {
        endpoint.thaw_connection(now, &form, &Registry::with_experiments()).map(|thawed| thawed.id)
    };
    let (used, limit) = endpoint.memory();
    assert!(used <= limit, "{used} bytes accounted, {limit} allowed");
    let Ok(id) = thawed else {
        assert_eq!((endpoint.connections().count(), used), (0, 0), "something is left of it");
        return pair.steps;
    };
    let connection = endpoint.connection(id).expect("it was thawed");
    let info = connection.info(now);
    let kept = info.send_queue + connection.readable();
    assert!(kept <= form.len(), "{kept} bytes of {}", form.len());
    pair.noisy = true;
    let end = &mut pair.ends[usize::from(side)];
    (end.endpoint, end.mtu) = (RecordedEndpoint::new(endpoint, None), config.mtu);
    (end.gso_max, end.connections_max) = (other.gso_max(side.into()), config.connections_max);
    end.conns = vec![Conn { id, read: 0, written: 0 }];
    pair.check();
    // A deadline may be damaged, too, and no driver lives to see the end of time.
    let is_endless = |pair: &FuzzedPair| pair.next_timeout().is_some_and(|at| at > pair.now + LONG);
    for turn in turns(&mut input) {
        if is_endless(&pair) {
            break;
        }
        pair.turn(&turn);
        pair.check();
    }
    if !is_endless(&pair) {
        pair.come_to_rest();
    }
    pair.steps
}

/// A pair with one connection, on which both sides have written something, and no listener at the server.
/// `patient`: no silence ends it but that of RFC 9293's R2.
fn open(scene: &Scene, is_patient: bool) -> Option<FuzzedPair> {
    let mut pair = FuzzedPair::new(scene, true, None);
    if is_patient {
        for (side, end) in pair.ends.iter_mut().enumerate() {
            let config = patient(scene.config(side));
            *end = super::End::new(config, scene.gso_max(side), pair.now, None);
        }
        pair.listen(true, 0, 16);
    }
    pair.written_max = WRITTEN_MAX;
    pair.connect(false, TO_PEER, 0);
    pair.collect();
    pair.pass(Duration::from_secs(2), true);
    pair.accept(true, 0);
    pair.close_listener(true, 0);
    pair.collect();
    pair.ends.iter().all(|end| end.conns.len() == 1).then_some(pair)
}

fn patient(mut config: EndpointConfig) -> EndpointConfig {
    let tcp = Arc::make_mut(&mut config.tcp);
    (tcp.user_timeout, tcp.keepalive, tcp.user_timeout_option) = (None, None, None);
    config
}

/// The turns that the input describes, without those that open other connections or close this one.
fn turns(input: &mut Unstructured<'_>) -> impl Iterator<Item = Turn> {
    let next = move || (!input.is_empty()).then(|| Turn::arbitrary(input).ok()).flatten();
    std::iter::from_fn(next).take(TURNS_MAX).filter(|turn| {
        !matches!(
            turn.step,
            Step::Connect { .. }
                | Step::Listen { .. }
                | Step::Release { .. }
                | Step::Bind { .. }
                | Step::Stranger { .. }
                | Step::Device { .. }
        )
    })
}

/// How the connection moves.
#[derive(Debug, Arbitrary)]
struct Journey {
    how: u8,
    /// The side whose connection moves, and whether the other's does, too.
    side: bool,
    both: bool,
    every: u8,
    damages: [Damage; 4],
    /// In one of eight, the rest of the form is what the input says.
    raw: u8,
}

enum Kind {
    Exact,
    Portable,
    Damaged,
}

impl Journey {
    fn kind(&self) -> Kind {
        match self.how % 4 {
            0 => Kind::Exact,
            1 => Kind::Portable,
            _ => Kind::Damaged,
        }
    }

    /// Whether the form that is damaged is portable.
    fn is_portable(&self) -> bool {
        self.how % 4 == 3
    }

    fn cuts(&self, turn: usize) -> bool {
        turn % usize::from(1 + self.every % 16) == usize::from(self.every / 16)
    }

    fn sides(&self) -> impl Iterator<Item = bool> + use<> {
        [Some(self.side), self.both.then_some(!self.side)].into_iter().flatten()
    }
}

/// A change to the bytes on their way.
#[derive(Debug, Arbitrary)]
enum Damage {
    None,
    Flip { at: Place, bit: u8 },
    Set { at: Place, to: u8 },
    Number { at: Place, number: u8, long: bool },
    Cut(Place),
    Drop { at: Place, len: u8 },
    Repeat { at: Place, len: u8 },
}

/// A place in a form: near its beginning, in the middle, or near its end.
#[derive(Debug, Arbitrary)]
enum Place {
    Front(u8),
    Middle(u16),
    Back(u8),
}

impl Place {
    fn of(&self, len: usize) -> usize {
        let last = len.saturating_sub(1);
        match *self {
            Self::Front(at) => last.min(at.into()),
            Self::Middle(at) => usize::from(at) * len / (1 + usize::from(u16::MAX)),
            Self::Back(at) => last.saturating_sub(at.into()),
        }
    }
}

impl Damage {
    fn change(&self, form: &mut Vec<u8>) {
        let part = |at: &Place, len: u8| {
            let from = at.of(form.len());
            from..form.len().min(from + usize::from(len % 16))
        };
        match self {
            Self::None => {}
            Self::Flip { at, bit } => {
                let at = at.of(form.len());
                form.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (bit % 8));
            }
            Self::Set { at, to } => {
                let at = at.of(form.len());
                form.iter_mut().skip(at).take(1).for_each(|byte| *byte = *to);
            }
            Self::Number { at, number, long } => {
                let number = NUMBERS[usize::from(*number) % NUMBERS.len()].to_le_bytes();
                let at = at.of(form.len());
                let places = form.iter_mut().skip(at).take(if *long { 8 } else { 4 });
                places.zip(number).for_each(|(place, byte)| *place = byte);
            }
            Self::Cut(at) => form.truncate(at.of(form.len())),
            Self::Drop { at, len } => drop(form.drain(part(at, *len))),
            Self::Repeat { at, len } => {
                let range = part(at, *len);
                let repeated = form[range.clone()].to_vec();
                form.splice(range.start..range.start, repeated);
            }
        }
    }
}

impl FuzzedPair {
    fn take_out(&mut self, side: bool, is_portable: bool) -> Option<Vec<u8>> {
        self.with(side, |end, now| {
            let id = end.conns[0].id;
            let endpoint = end.endpoint.unrecorded()?;
            let freeze = if is_portable { Endpoint::freeze_portable } else { Endpoint::freeze_connection };
            let before = endpoint.connections().count();
            let form = freeze(endpoint, now, id);
            let left = endpoint.connections().count();
            assert_eq!(left, before - usize::from(form.is_ok()), "{form:?}");
            form.ok()
        })
    }

    /// The connection leaves the endpoint and comes back.
    fn move_exactly(&mut self, side: bool) {
        let Some(form) = self.take_out(side, false) else { return };
        self.with(side, |end, now| {
            let endpoint = end.endpoint.unrecorded().expect("no recording");
            let thawed = endpoint.thaw_connection(now, &form, &Registry::with_experiments());
            let thawed = thawed.unwrap_or_else(|why| panic!("{why}"));
            assert!(thawed.begun_again.is_empty(), "{thawed:?}");
            end.conns[0].id = thawed.id;
        });
    }

    /// The connection goes on at an endpoint with other settings, or where it was if there is no room.
    fn move_portably(&mut self, side: bool, config: EndpointConfig) {
        let Some(form) = self.take_out(side, true) else { return };
        self.with(side, |end, now| {
            let mut endpoint = Endpoint::new(config.clone(), now);
            let tcp = (*config.tcp).clone();
            end.conns[0].id = match endpoint.thaw_portable(now, &form, tcp.clone()) {
                Ok(id) => {
                    (end.endpoint, end.mtu) = (RecordedEndpoint::new(endpoint, None), config.mtu);
                    end.connections_max = config.connections_max;
                    id
                }
                Err(ThawError::Form(FormError::Invariant("Budget"))) => {
                    assert_eq!(endpoint.memory().0, 0, "something is left of it");
                    let endpoint = end.endpoint.unrecorded().expect("no recording");
                    let thawed = endpoint.thaw_portable(now, &form, tcp);
                    thawed.unwrap_or_else(|why| panic!("it was here before: {why}"))
                }
                Err(why) => panic!("{why}"),
            };
        });
    }

    /// Nothing more is written or lost: in the end everything is read. An attacker may spoil that, and a path
    /// that was dead for long ends a connection.
    fn finish(&mut self) {
        if self.noisy {
            return;
        }
        let (mut missing, mut idle) = (self.missing(), 0);
        for _ in 0..ROUNDS_MAX {
            if missing == 0 || self.timed_out() || self.steps > STEPS_MAX {
                return;
            }
            for side in [false, true] {
                self.read(side, 0, u16::MAX);
            }
            self.collect();
            self.carry(FLOW);
            self.pass(Duration::from_secs(30), true);
            let left = self.missing();
            idle = if mem::replace(&mut missing, left) > left { 0 } else { idle + 1 };
            assert!(idle < IDLE_MAX, "{left} bytes do not arrive: {:?}", self.infos());
        }
    }

    /// Bytes that were written and not read.
    fn missing(&self) -> u32 {
        let [first, second] = self.ends.each_ref().map(|end| end.conns[0]);
        (first.written - second.read) + (second.written - first.read)
    }

    fn timed_out(&self) -> bool {
        let mut errors = self.ends.iter().filter_map(|end| end.endpoint.connection(end.conns[0].id)?.error());
        errors.any(|error| matches!(error, ConnectionError::TimedOut | ConnectionError::OutOfMemory))
    }

    fn infos(&self) -> Vec<impl Debug> {
        self.ends.iter().map(|end| Some(end.endpoint.connection(end.conns[0].id)?.info(self.now))).collect()
    }
}

const WRITTEN_MAX: u32 = 40_000;
/// A port byte of `FuzzedPair::connect`: the other side's listening port.
const TO_PEER: u8 = 65;
/// A raw form keeps the magic number and the version.
const RAW_HEAD: usize = 20;
const NUMBERS: [u64; 8] =
    [0, 1, u64::MAX, u32::MAX as u64, 1 << 31, i64::MAX as u64, u16::MAX as u64, 1 << 30];
/// Windows of one byte need many rounds, and steps.
const ROUNDS_MAX: u32 = 3000;
const STEPS_MAX: u64 = 20_000;
/// Rounds without a byte: longer than the longest wait of a probe.
const IDLE_MAX: u32 = 40;
/// Of a pass; what is left of it does not pass.
const WAKES_MAX: usize = 200;
