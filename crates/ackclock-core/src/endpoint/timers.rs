//! One timer for each of many small indices: a hierarchical wheel.
//!
//! George Varghese and Tony Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987, scheme 7: nine levels
//! of 64 slots, the slots of a level 64 times as long as those of the level below, 1.024 µs at the bottom.
//! Arming, re-arming and disarming cost a constant number of steps; a timer moves down at most eight times
//! before it fires.
//!
//! An endpoint with a handful of timers has no wheel and scans all of them. A simulation has thousands of
//! such endpoints, and a wheel is 9 KB.
//!
//! Beyond the paper: each slot knows a lower bound of its deadlines, so [`TimerWheel::next`] is exact unless
//! the earliest timer of a slot was disarmed; then it may be early, but never late. A timer fires only at its
//! exact deadline.

use crate::Instant;
use ackclock_form::{Form, FormError, Reader, Writer, lifetime};

/// The wheel. Indices should be dense: it keeps 24 bytes for each up to the largest.
#[derive(Debug)]
pub(super) struct TimerWheel {
    /// The tick up to which slots have been processed; no timer is placed before it.
    elapsed: u64,
    /// Bit n: some slot of level n is in use.
    levels_used: u16,
    /// `None` while all indices are below [`FEW`].
    levels: Option<Box<[Level; LEVELS]>>,
    nodes: Nodes,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    /// Bit n: slot n is in use.
    used: u64,
    slots: [Slot; SLOTS],
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    /// A lower bound of the deadlines in this slot.
    earliest: Instant,
}

/// All timers. The first is stored inline: an endpoint with one connection has no others.
#[derive(Debug)]
struct Nodes {
    first: Node,
    others: Vec<Node>,
}

/// A timer, linked to the others of its slot in both directions.
#[derive(Clone, Copy, Debug)]
struct Node {
    deadline: Instant,
    next: u32,
    previous: u32,
    /// Level and slot; [`NOWHERE`] while disarmed.
    place: SlotIndex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotIndex {
    level: u8,
    slot: u8,
}

impl TimerWheel {
    pub fn new(now: Instant) -> Self {
        Self { elapsed: tick(now), levels_used: 0, levels: None, nodes: Nodes::new() }
    }

    /// Sets the timer of `index`, whether or not it is already set.
    pub fn arm(&mut self, index: u32, deadline: Instant) {
        if self.nodes.reach(index) && self.levels.is_none() && self.nodes.len() > FEW {
            self.build();
        }
        self.disarm(index);
        self.link(index, deadline);
    }

    /// Builds the wheel, because there are too many timers to scan.
    #[cold]
    fn build(&mut self) {
        self.levels = Some(Box::new([Level { used: 0, slots: [Slot::FREE; SLOTS] }; LEVELS]));
        let armed: Vec<(u32, Instant)> = self.armed().collect();
        for (index, deadline) in armed {
            self.link(index, deadline);
        }
    }

    /// All timers that are set.
    fn armed(&self) -> impl Iterator<Item = (u32, Instant)> + '_ {
        let nodes = (0..).zip(self.nodes.iter());
        nodes.filter(|(_, node)| node.place != NOWHERE).map(|(index, node)| (index, node.deadline))
    }

    /// The earliest timer, without a wheel.
    #[inline]
    fn earliest_of_few(&self) -> Option<(u32, Instant)> {
        if self.nodes.others.is_empty() {
            return self.deadline(0).map(|deadline| (0, deadline));
        }
        self.armed().min_by_key(|(_, deadline)| *deadline)
    }

    /// Clears the timer of `index`.
    pub fn disarm(&mut self, index: u32) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let Node { next, previous, place, .. } = *node;
        if place == NOWHERE {
            return;
        }
        *node = Node::DISARMED;
        if self.levels.is_none() {
            return;
        }
        if let Some(next) = self.nodes.get_mut(next) {
            next.previous = previous;
        }
        match self.nodes.get_mut(previous) {
            Some(previous) => previous.next = next,
            None => self.set_head(place, next),
        }
    }

    /// Ensures that the timer of `index` fires at `deadline` at the latest. One that is set too early stays:
    /// data in flight moves a deadline with each segment, and an early expiry does nothing.
    #[inline]
    pub fn rearm(&mut self, index: u32, deadline: Option<Instant>) {
        match (deadline, self.deadline(index)) {
            (Some(deadline), Some(armed)) if armed <= deadline => {}
            (Some(deadline), _) => self.arm(index, deadline),
            (None, Some(_)) => self.disarm(index),
            (None, None) => {}
        }
    }

    /// The deadline of `index`, if its timer is set.
    #[inline]
    pub fn deadline(&self, index: u32) -> Option<Instant> {
        self.nodes.get(index).filter(|node| node.place != NOWHERE).map(|node| node.deadline)
    }

    /// When the next timer is due: never too late, and too early only after a timer was disarmed.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        match self.levels {
            None => self.earliest_of_few().map(|(_, deadline)| deadline),
            Some(_) => self.first().map(|(_, earliest)| earliest),
        }
    }

    /// Disarms and returns a timer that is due; `None` if none is left. Call it until it returns `None`.
    pub fn pop_expired(&mut self, now: Instant) -> Option<u32> {
        let now_tick = tick(now).max(self.elapsed);
        if self.levels.is_none() {
            let due = self.earliest_of_few().filter(|(_, deadline)| *deadline <= now);
            if let Some((index, _)) = due {
                self.disarm(index);
                return Some(index);
            }
        }
        while let Some((place, earliest)) = self.first() {
            let start = self.start(place);
            if start > now_tick {
                break;
            }
            self.elapsed = self.elapsed.max(start);
            if place.level > 0 {
                self.turn(place);
            } else if earliest > now {
                return None;
            } else if let Some(index) = self.due_in(place, now) {
                self.disarm(index);
                return Some(index);
            }
        }
        // Every slot in use starts after `now`, so its level and number are valid from here, too.
        self.elapsed = now_tick;
        None
    }

    /// The slot with the earliest deadlines, and its bound: on the lowest level in use, because a timer's
    /// level is that of the highest digit in which its tick differs from `elapsed`.
    #[inline]
    fn first(&self) -> Option<(SlotIndex, Instant)> {
        let level = self.levels_used.trailing_zeros();
        let wheel = self.levels.as_ref()?.get(level as usize)?;
        let slot = wheel.used.trailing_zeros();
        #[expect(clippy::cast_possible_truncation, reason = "at most 16 and 64")]
        let place = SlotIndex { level: level as u8, slot: slot as u8 };
        wheel.slots.get(slot as usize).map(|slot| (place, slot.earliest))
    }

    /// The first tick of a slot.
    fn start(&self, place: SlotIndex) -> u64 {
        let shift = u32::from(place.level) * DIGIT;
        let above = (self.elapsed >> shift) >> DIGIT << DIGIT;
        (above | u64::from(place.slot)) << shift
    }

    /// Moves the timers of a slot to lower levels.
    fn turn(&mut self, place: SlotIndex) {
        let mut index = self.head(place);
        self.set_head(place, NIL);
        while let Some(&Node { deadline, next, .. }) = self.nodes.get(index) {
            self.link(index, deadline);
            index = next;
        }
    }

    /// A due timer in a slot of the lowest level. If there is none, the slot's bound is made exact.
    fn due_in(&mut self, place: SlotIndex, now: Instant) -> Option<u32> {
        let mut index = self.head(place);
        let mut earliest = Instant::FAR_FUTURE;
        while let Some(node) = self.nodes.get(index) {
            if node.deadline <= now {
                return Some(index);
            }
            earliest = earliest.min(node.deadline);
            index = node.next;
        }
        if let Some(slot) = self.slot_mut(place) {
            slot.earliest = earliest;
        }
        None
    }

    fn link(&mut self, index: u32, deadline: Instant) {
        if self.levels.is_none() {
            if let Some(node) = self.nodes.get_mut(index) {
                *node = Node { deadline, next: NIL, previous: NIL, place: SOMEWHERE };
            }
            return;
        }
        let place = self.place(deadline);
        let next = self.head(place);
        if let Some(node) = self.nodes.get_mut(index) {
            *node = Node { deadline, next, previous: NIL, place };
        }
        if let Some(next) = self.nodes.get_mut(next) {
            next.previous = index;
        }
        if let Some(slot) = self.slot_mut(place) {
            slot.earliest = slot.earliest.min(deadline);
        }
        self.set_head(place, index);
    }

    /// The place of a timer relative to `elapsed`.
    #[inline]
    fn place(&self, deadline: Instant) -> SlotIndex {
        let due = tick(deadline).max(self.elapsed);
        // A difference in the lowest digit, or none, is level 0.
        let highest = ((due ^ self.elapsed) | 1).ilog2();
        let level = highest / DIGIT;
        let slot = due.wrapping_shr(level.wrapping_mul(DIGIT)) & SLOT_MASK;
        #[expect(clippy::cast_possible_truncation, reason = "below 9 and below 64")]
        let place = SlotIndex { level: level as u8, slot: slot as u8 };
        place
    }

    #[inline]
    fn head(&self, place: SlotIndex) -> u32 {
        let level = self.levels.as_ref().and_then(|levels| levels.get(usize::from(place.level)));
        level.and_then(|level| level.slots.get(usize::from(place.slot))).map_or(NIL, |slot| slot.head)
    }

    #[inline]
    fn slot_mut(&mut self, place: SlotIndex) -> Option<&mut Slot> {
        self.levels.as_mut()?.get_mut(usize::from(place.level))?.slots.get_mut(usize::from(place.slot))
    }

    /// Sets the head of a slot's list, and the bits that mark it as used.
    fn set_head(&mut self, place: SlotIndex, head: u32) {
        let Some(levels) = &mut self.levels else { return };
        let Some(level) = levels.get_mut(usize::from(place.level)) else { return };
        let Some(slot) = level.slots.get_mut(usize::from(place.slot)) else { return };
        slot.head = head;
        if head == NIL {
            slot.earliest = Instant::FAR_FUTURE;
            level.used &= !(1 << place.slot);
        } else {
            level.used |= 1 << place.slot;
        }
        if level.used == 0 {
            self.levels_used &= !(1 << place.level);
        } else {
            self.levels_used |= 1 << place.level;
        }
    }
}

impl Nodes {
    fn new() -> Self {
        Self { first: Node::DISARMED, others: Vec::new() }
    }

    fn len(&self) -> usize {
        self.others.len().saturating_add(1)
    }

    /// Makes an entry for `index`. Returns whether there was none.
    #[inline]
    fn reach(&mut self, index: u32) -> bool {
        let is_new = self.len() <= index as usize;
        if is_new {
            self.others.resize(index as usize, Node::DISARMED);
        }
        is_new
    }

    #[inline]
    fn get(&self, index: u32) -> Option<&Node> {
        match index.checked_sub(1) {
            None => Some(&self.first),
            Some(other) => self.others.get(other as usize),
        }
    }

    #[inline]
    fn get_mut(&mut self, index: u32) -> Option<&mut Node> {
        match index.checked_sub(1) {
            None => Some(&mut self.first),
            Some(other) => self.others.get_mut(other as usize),
        }
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = &Node> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl Slot {
    const FREE: Self = Self { head: NIL, earliest: Instant::FAR_FUTURE };
}

impl Node {
    const DISARMED: Self = Self { deadline: Instant::FAR_FUTURE, next: NIL, previous: NIL, place: NOWHERE };
}

/// The tick of an instant.
#[inline]
fn tick(instant: Instant) -> u64 {
    instant.as_nanos() >> TICK_SHIFT
}

/// Bytes of a timer besides its index.
pub(super) const TIMER_BYTES: usize = size_of::<Node>();

/// A tick is 2^10 ns.
const TICK_SHIFT: u32 = 10;
/// The bits of a tick number that one level resolves.
const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
const SLOT_MASK: u64 = SLOTS as u64 - 1;
const LEVELS: usize = 9;
/// Up to this many timers are scanned.
const FEW: usize = 8;
const NIL: u32 = u32::MAX;
const NOWHERE: SlotIndex = SlotIndex { level: u8::MAX, slot: 0 };
/// The place of a timer that is set while there is no wheel.
const SOMEWHERE: SlotIndex = SlotIndex { level: 0, slot: 0 };

const _: () = assert!(
    TICK_SHIFT as usize + DIGIT as usize * LEVELS == u64::BITS as usize,
    "the wheel spans all of time"
);
const _: () = assert!(LEVELS <= u16::BITS as usize, "one bit for each level");

/// The deadlines, and the order of each slot. A timer's place follows from its deadline.
impl Form for TimerWheel {
    fn write(&self, out: &mut Writer) {
        let Self { elapsed, levels_used: _, levels, nodes } = self;
        lifetime::write(elapsed, out);
        nodes.len().write(out);
        for node in nodes.iter() {
            (node.place != NOWHERE).then_some(node.deadline).write(out);
        }
        levels.is_some().write(out);
        for place in self.places_in_use() {
            let mut order = Vec::new();
            let mut index = self.head(place);
            while let Some(node) = nodes.get(index) {
                order.push(index);
                index = node.next;
            }
            order.write(out);
            self.slot(place).map_or(Instant::FAR_FUTURE, |slot| slot.earliest).write(out);
        }
        Vec::<u32>::new().write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let mut wheel =
            Self { elapsed: u64::read(input)?, levels_used: 0, levels: None, nodes: Nodes::new() };
        let mut deadlines = Vec::<Option<Instant>>::read(input)?;
        let last = deadlines.len().checked_sub(1).and_then(|last| u32::try_from(last).ok());
        wheel.nodes.reach(last.ok_or(FormError::Invariant("TimerWheel"))?);
        if bool::read(input)? {
            wheel.build();
        } else {
            for (index, deadline) in (0..).zip(&mut deadlines) {
                if let Some(deadline) = deadline.take() {
                    wheel.link(index, deadline);
                }
            }
        }
        loop {
            let order = Vec::<u32>::read(input)?;
            let Some(&first) = order.first() else { break };
            let deadline_of = |index: u32| deadlines.get(index as usize).copied().flatten();
            let place = deadline_of(first).map(|deadline| wheel.place(deadline));
            // A slot is filled from its end.
            for &index in order.iter().rev() {
                let deadline = deadlines.get_mut(index as usize).and_then(Option::take);
                let deadline = deadline.filter(|&deadline| Some(wheel.place(deadline)) == place);
                wheel.link(index, deadline.ok_or(FormError::Invariant("TimerWheel"))?);
            }
            let earliest = Instant::read(input)?;
            if let Some(slot) = place.and_then(|place| wheel.slot_mut(place)) {
                slot.earliest = slot.earliest.min(earliest);
            }
        }
        if deadlines.iter().any(Option::is_some) {
            return Err(FormError::Invariant("TimerWheel"));
        }
        Ok(wheel)
    }
}

impl TimerWheel {
    fn slot(&self, place: SlotIndex) -> Option<&Slot> {
        self.levels.as_ref()?.get(usize::from(place.level))?.slots.get(usize::from(place.slot))
    }

    /// The slots that are in use, from the lowest level on.
    fn places_in_use(&self) -> impl Iterator<Item = SlotIndex> + '_ {
        let levels = (0_u8..).zip(self.levels.iter().flat_map(|levels| levels.iter()));
        levels.flat_map(|(level, wheel)| {
            let used = (0_u8..64).filter(|&slot| wheel.used >> slot & 1 == 1);
            used.map(move |slot| SlotIndex { level, slot })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn expired(wheel: &mut TimerWheel, now: Instant) -> Vec<u32> {
        std::iter::from_fn(|| wheel.pop_expired(now)).collect()
    }

    #[test]
    fn a_timer_fires_at_its_deadline_and_not_a_nanosecond_before() {
        let mut wheel = TimerWheel::new(at(0));
        wheel.arm(0, at(5_000_000_123));
        assert_eq!(wheel.next(), Some(at(5_000_000_123)));
        assert_eq!(expired(&mut wheel, at(5_000_000_122)), []);
        assert_eq!(wheel.next(), Some(at(5_000_000_123)));
        assert_eq!(expired(&mut wheel, at(5_000_000_123)), [0]);
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn a_deadline_in_the_past_is_due_at_once() {
        let mut wheel = TimerWheel::new(at(1 << 40));
        wheel.arm(3, at(17));
        assert_eq!(wheel.next(), Some(at(17)));
        assert_eq!(expired(&mut wheel, at(1 << 40)), [3]);
    }

    #[test]
    fn rearming_moves_a_timer_and_disarming_removes_it() {
        let mut wheel = TimerWheel::new(at(0));
        wheel.arm(1, at(1_000));
        wheel.arm(1, at(900_000_000));
        assert_eq!(expired(&mut wheel, at(800_000_000)), []);
        wheel.disarm(1);
        wheel.disarm(1);
        assert_eq!((wheel.next(), wheel.deadline(1)), (None, None));
        assert_eq!(expired(&mut wheel, at(u64::MAX)), []);
    }

    #[test]
    fn the_ends_of_time_are_deadlines_like_others() {
        let mut wheel = TimerWheel::new(at(0));
        wheel.arm(0, Instant::FAR_FUTURE);
        wheel.arm(1, at(0));
        assert_eq!(expired(&mut wheel, at(0)), [1]);
        assert_eq!(expired(&mut wheel, at(u64::MAX - 2)), []);
        assert_eq!(expired(&mut wheel, at(u64::MAX)), [0]);
    }

    #[test]
    fn a_timer_rearmed_while_others_expire_does_not_fire_again_at_the_same_instant() {
        let mut wheel = TimerWheel::new(at(0));
        wheel.arm(0, at(2_000));
        assert_eq!(wheel.pop_expired(at(2_001)), Some(0));
        wheel.arm(0, at(2_002));
        assert_eq!(wheel.pop_expired(at(2_001)), None);
        assert_eq!(wheel.next(), Some(at(2_002)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arm(u32, u64),
        Disarm(u32),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Spans of every magnitude, so that every level of the wheel is used.
        let span = || (0_u32..63, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1));
        prop_oneof![
            4 => (0_u32..24, span()).prop_map(|(index, span)| Step::Arm(index, span)),
            1 => (0_u32..24).prop_map(Step::Disarm),
            3 => span().prop_map(Step::Wait),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn agrees_with_a_naive_model(start in any::<u32>(), steps in prop::collection::vec(step(), 1..120)) {
            let mut now = at(u64::from(start));
            let mut wheel = TimerWheel::new(now);
            let mut model: BTreeMap<u32, Instant> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Arm(index, span) => {
                        let deadline = at(now.as_nanos().saturating_add(span));
                        wheel.arm(index, deadline);
                        model.insert(index, deadline);
                    }
                    Step::Disarm(index) => {
                        wheel.disarm(index);
                        model.remove(&index);
                    }
                    Step::Wait(span) => now = at(now.as_nanos().saturating_add(span)),
                }
                let mut fired = expired(&mut wheel, now);
                fired.sort_unstable();
                let due: Vec<u32> = model.iter().filter(|(_, at)| **at <= now).map(|(index, _)| *index).collect();
                prop_assert_eq!(&fired, &due);
                model.retain(|_, at| *at > now);

                let earliest = model.values().min().copied();
                prop_assert_eq!(wheel.next().is_some(), earliest.is_some());
                // Never late, and never in the past, so that a driver that sleeps until then makes progress.
                prop_assert!(wheel.next() <= earliest && wheel.next().is_none_or(|next| next > now));
                for index in 0..24 {
                    prop_assert_eq!(wheel.deadline(index), model.get(&index).copied());
                }
            }
        }

        #[test]
        fn sleeping_until_next_reaches_every_deadline_exactly(spans in prop::collection::vec(0_u64..1 << 45, 1..40)) {
            let mut wheel = TimerWheel::new(at(0));
            for (index, span) in (0_u32..).zip(&spans) {
                wheel.arm(index, at(*span));
            }
            let mut fired = 0;
            while let Some(next) = wheel.next() {
                for index in expired(&mut wheel, next) {
                    prop_assert_eq!(at(spans[index as usize]), next);
                    fired += 1;
                }
            }
            prop_assert_eq!(fired, spans.len());
        }
    }
}
