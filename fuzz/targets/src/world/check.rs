//! Checks after each turn, and at the end.

use std::fmt::Write;
use std::time::Duration;

use ackclock_core::State;

use super::calls::LONG;
use super::scene::Turn;
use super::wire::FLOW;
use super::{End, FuzzedPair};

impl FuzzedPair {
    pub(super) fn check(&self) {
        for end in &self.ends {
            let (used, limit) = end.endpoint.memory();
            assert!(used <= limit, "{used} bytes accounted, {limit} allowed");
            let count = end.endpoint.connections().count();
            assert!(count <= end.connections_max, "{count} connections, {} allowed", end.connections_max);
            for (id, connection) in end.endpoint.connections() {
                let info = connection.info(self.now);
                assert!(info.cwnd > 0 && info.snd_mss > 0, "{id:?}: {info:?}");
                assert!(
                    info.in_flight <= info.unacked + 1 && info.sacked <= info.unacked,
                    "{id:?}: {info:?}"
                );
                assert!(info.rto <= RTO_MAX, "{id:?}: {:?}", info.rto);
                if info.unacked > 0 && info.state != State::Closed {
                    assert!(end.endpoint.poll_timeout().is_some(), "{id:?} has no timer: {info:?}");
                }
            }
        }
    }

    /// Lets everything go. The packets between the ends arrive; then time passes until nothing is left.
    pub(super) fn come_to_rest(&mut self) {
        for side in [false, true] {
            self.with(side, End::let_go);
        }
        self.collect();
        let (end, steps) = (self.now + LONG, self.steps);
        while self.steps - steps < STEPS_MAX {
            self.carry(FLOW);
            let Some(at) = self.next_timeout() else {
                if self.wire.is_empty() {
                    return self.check_rest();
                }
                // Each of these is a step.
                continue;
            };
            assert!(at < end, "a timer beyond {LONG:?}: {:?}", self.ends.each_ref().map(|end| &end.endpoint));
            self.wake(at);
        }
        panic!("they do not come to rest: {}", self.look());
    }

    fn check_rest(&self) {
        for end in &self.ends {
            let left: Vec<_> = end.endpoint.connections().map(|(_, one)| one.info(self.now)).collect();
            assert!(left.is_empty(), "connections without a timer: {left:?}");
            assert_eq!(end.endpoint.memory().0, 0, "bytes without an owner");
        }
    }

    /// Another pair has the same connections, in every field, and the same packets under way.
    pub(super) fn is_as(&self, other: &Self, turn: &Turn) {
        assert!(self.wire == other.wire, "{turn:?}: {:02x?}\n{:02x?}", self.wire, other.wire);
        let [of_long, of_short] = [self.look(), other.look()];
        assert!(of_long == of_short, "{turn:?}:\n{}", difference(&of_long, &of_short));
    }

    fn look(&self) -> String {
        let mut seen = String::new();
        for end in &self.ends {
            let mut counters = end.endpoint.counters();
            // How many took which way is the one difference.
            counters.segments_predicted = 0;
            let (memory, due) = (end.endpoint.memory(), end.endpoint.poll_timeout());
            let written = write!(seen, "{counters:?} {memory:?} {due:?}");
            written.expect("a string takes it");
            for (id, connection) in end.endpoint.connections() {
                write!(seen, "{id:?} {connection:?}").expect("a string takes it");
            }
        }
        seen
    }
}

impl End {
    fn let_go(&mut self, now: ackclock_core::Instant) {
        for conn in self.conns.drain(..) {
            self.endpoint.release(now, conn.id);
        }
        for listener in self.listeners.drain(..) {
            self.endpoint.close_listener(now, listener);
        }
        for id in self.udp.drain(..) {
            self.endpoint.udp_close(id);
        }
        self.endpoint.close_others();
    }
}

fn difference(long: &str, short: &str) -> String {
    let pairs = long.split(", ").zip(short.split(", ")).filter(|(long, short)| long != short);
    pairs.take(12).map(|(long, short)| format!("long: {long}\nshort: {short}\n")).collect()
}

const RTO_MAX: Duration = Duration::from_secs(240);
/// More than all that can wait to be sent takes, segment by segment.
const STEPS_MAX: u64 = 300_000;
