//! Spurious reductions are undone, others are not.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ackclock_wire::random::Rng;

use super::*;
use crate::congestion::Registry;
use crate::profile::{Choices, Recovery, UndoChoice};
use crate::trace::{Entry, UndoRule};
use crate::{ConnectionInfo, UndoCounts};

const OFF: UndoChoice = UndoChoice { timestamps: false, dsack: false, frto: false, min_rtt_quarters: None };
const TIMESTAMPS: UndoChoice = UndoChoice { timestamps: true, ..OFF };
const DSACK: UndoChoice = UndoChoice { dsack: true, ..OFF };
const FRTO: UndoChoice = UndoChoice { frto: true, ..OFF };
const MIN_RTT: UndoChoice = UndoChoice { min_rtt_quarters: Some(3), ..OFF };
const ALL: UndoChoice = UndoChoice { timestamps: true, dsack: true, frto: true, min_rtt_quarters: Some(2) };
const EACH: [(UndoChoice, UndoRule); 4] = [
    (TIMESTAMPS, UndoRule::Timestamps),
    (DSACK, UndoRule::Dsack),
    (FRTO, UndoRule::Frto),
    (MIN_RTT, UndoRule::MinRtt),
];

fn with(undo: UndoChoice) -> TcpConfig {
    TcpConfig { choices: Choices { undo, ..Choices::default() }, ..TcpConfig::default() }
}

fn by_rule(counts: UndoCounts, rule: UndoRule) -> u32 {
    match rule {
        UndoRule::Timestamps => counts.timestamps,
        UndoRule::Dsack => counts.dsack,
        UndoRule::Frto => counts.frto,
        UndoRule::MinRtt => counts.min_rtt,
    }
}

/// A bulk sender on a path whose forward direction can stall for a while.
struct Bulk {
    pair: ConnectionPair,
    bytes: usize,
    written: usize,
    read: usize,
}

impl Bulk {
    fn new(tcp: TcpConfig, bytes: usize, path: PathRule) -> Self {
        let mut pair = ConnectionPair::established([tcp, TcpConfig::default()], path);
        pair.trace(0);
        Self { pair, bytes, written: 0, read: 0 }
    }

    fn info(&self) -> ConnectionInfo {
        self.pair.ends[0].info(self.pair.now)
    }

    fn applications(&mut self) {
        let pair = &mut self.pair;
        while self.written < self.bytes {
            let data: Vec<u8> = (self.written..self.bytes.min(self.written + 16_384)).map(pattern).collect();
            match pair.ends[0].write(pair.now, &data) {
                Ok(n) => self.written += n,
                Err(_) => break,
            }
        }
        let mut buffer = vec![0; 1 << 16];
        while let Ok(n) = pair.ends[1].read(pair.now, &mut buffer) {
            assert!(buffer[..n].iter().enumerate().all(|(i, &b)| b == pattern(self.read + i)), "wrong byte");
            self.read += n;
        }
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.pair.now + time;
        self.applications();
        while self.pair.step(until) {
            self.applications();
        }
    }

    /// One step over a path of one packet in 100 us that stalls until `gate`.
    fn step_behind(&mut self, gate: Instant, free: &Rc<Cell<Instant>>, limit: Instant) -> bool {
        let (now, free) = (self.pair.now, Rc::clone(free));
        self.pair.path = Box::new(move |side, _| {
            if side == 1 {
                return Fate::Deliver(DELAY);
            }
            let departs = free.get().max(gate).max(now);
            free.set(departs + Duration::from_micros(100));
            Fate::Deliver(departs.saturating_since(now) + DELAY)
        });
        let more = self.pair.step(limit);
        self.applications();
        more
    }

    /// The path stalls for `time` from now on. Returns the state before the timer expired.
    fn stall(&mut self, time: Duration) -> ConnectionInfo {
        let (gate, free) = (self.pair.now + time, Rc::new(Cell::new(self.pair.now)));
        let mut before = self.info();
        while self.step_behind(gate, &free, gate + Duration::from_millis(200)) {
            if self.info().timeouts == 0 {
                before = self.info();
            }
        }
        self.pair.path = perfect();
        before
    }

    fn finish(&mut self) {
        let limit = self.pair.now + Duration::from_secs(600);
        self.applications();
        while self.read < self.bytes {
            assert!(self.pair.step(limit), "stalled at {}: {:?}", self.read, self.info());
            self.applications();
        }
        self.run_for(Duration::from_millis(500));
    }

    /// The windows that the trace shows right after each undo.
    fn undone_windows(&self) -> Vec<(UndoRule, u64)> {
        let entries: Vec<_> = self.pair.traced(0).into_iter().map(|(_, entry)| entry).collect();
        let mut window = 0;
        let mut found = Vec::new();
        for (place, &entry) in entries.iter().enumerate() {
            match (entry, entries.get(place + 1)) {
                (Entry::Window { cwnd, .. }, _) => window = cwnd.into(),
                (Entry::Undone(rule), Some(&Entry::Window { cwnd, .. })) => found.push((rule, cwnd.into())),
                // A controller that never reduces its window has nothing to undo.
                (Entry::Undone(rule), _) => found.push((rule, window)),
                _ => {}
            }
        }
        found
    }
}

/// A transfer whose path stalls once, for long enough that the timer expires. Returns the state before it
/// did.
// Without pacing: pacing spreads what the expired timer retransmits, so that most of it proves needless in
// time.
fn delayed(tcp: TcpConfig) -> (Bulk, ConnectionInfo) {
    let tcp = TcpConfig { choices: Choices { pacing: false, ..tcp.choices }, ..tcp };
    let by_time = tcp.choices.undo == MIN_RTT;
    let mut bulk = Bulk::new(tcp, 1 << 20, perfect());
    bulk.run_for(Duration::from_millis(40));
    let rto = bulk.info().rto;
    // The timer starts with the last acknowledgement, a round trip after the path stalls; the original's
    // acknowledgement must then arrive soon if time is to decide.
    let before = bulk.stall(if by_time { rto + Duration::from_millis(8) } else { rto + rto / 2 });
    assert_eq!(bulk.info().timeouts, 1, "{:?}", bulk.info());
    bulk.finish();
    (bulk, before)
}

/// The simplest recovery for a detector: no tail probes, which D-SACK does not count.
fn plain(choice: UndoChoice) -> TcpConfig {
    TcpConfig { choices: Choices { recovery: Recovery::Sack, ..with(choice).choices }, ..with(choice) }
}

#[test]
fn each_detector_alone_restores_the_window_after_a_spurious_timeout() {
    // Tests: A3
    for (choice, rule) in EACH {
        // A tail probe moves the timer.
        let with_probes = (rule != UndoRule::MinRtt).then(|| with(choice));
        for tcp in [Some(plain(choice)), with_probes].into_iter().flatten() {
            let (bulk, before) = delayed(tcp);
            let info = bulk.info();
            assert_eq!(bulk.undone_windows(), [(rule, before.cwnd)], "{:?}", info.undone);
            assert_eq!((by_rule(info.undone, rule), info.undone.total()), (1, 1));
            assert_eq!((info.timeouts, info.ssthresh), (1, before.ssthresh), "{rule:?}");
        }
    }
}

#[test]
fn nothing_restores_the_window_unless_chosen() {
    // Tests: A3
    let (bulk, before) = delayed(plain(OFF));
    let info = bulk.info();
    assert_eq!(info.undone, UndoCounts::default());
    assert_eq!(before.ssthresh, None);
    assert!(info.ssthresh.is_some_and(|ssthresh| ssthresh < before.cwnd), "{info:?}");
}

#[test]
fn spurious_timeout_that_is_found_at_once_sends_the_flight_no_second_time() {
    let flood = delayed(plain(OFF)).0.info().bytes_retransmitted;
    assert!(flood > 10 * 1_448, "{flood} bytes");
    for (choice, rule) in EACH {
        let again = delayed(plain(choice)).0.info().bytes_retransmitted;
        match rule {
            // Reports arrive when all has been sent.
            UndoRule::Dsack => assert!(again <= flood, "{again} bytes, {flood} without"),
            _ => assert_eq!(again, 1_448, "{rule:?}, {flood} without"),
        }
    }
}

#[test]
fn without_options_a_spurious_timeout_is_found_by_new_data_or_by_time() {
    for (choice, rule) in [(FRTO, UndoRule::Frto), (MIN_RTT, UndoRule::MinRtt)] {
        let tcp = TcpConfig {
            choices: Choices { timestamps: false, sack: false, ..with(choice).choices },
            ..with(choice)
        };
        let (bulk, before) = delayed(tcp);
        assert_eq!(bulk.undone_windows(), [(rule, before.cwnd)]);
    }
}

#[test]
fn every_controller_gets_its_window_back() {
    // Tests: A3
    let registry = Registry::with_experiments();
    for name in registry.names() {
        let congestion = registry.find(name).unwrap();
        let (bulk, before) = delayed(TcpConfig { congestion, ..plain(TIMESTAMPS) });
        let cwnd = before.cwnd.min(u64::from(u32::MAX));
        assert_eq!(bulk.undone_windows(), [(UndoRule::Timestamps, cwnd)], "{name}");
    }
}

#[test]
fn every_recovery_policy_ends_with_an_undo() {
    for (name, recovery) in Recovery::ALL {
        for (choice, rule) in [(TIMESTAMPS, UndoRule::Timestamps), (FRTO, UndoRule::Frto)] {
            let (bulk, before) =
                delayed(TcpConfig { choices: Choices { recovery, ..with(choice).choices }, ..with(choice) });
            let info = bulk.info();
            assert_eq!(bulk.undone_windows(), [(rule, before.cwnd)], "{name}");
            assert!(info.bytes_retransmitted <= 3 * 1_448, "{name}: {}", info.bytes_retransmitted);
        }
    }
}

/// One packet is overtaken by many.
fn overtaken(number: u64) -> PathRule {
    Box::new(move |side, n| {
        let late = if (side, n) == (0, number) { Duration::from_millis(12) } else { Duration::ZERO };
        Fate::Deliver(DELAY + late)
    })
}

#[test]
fn spurious_fast_retransmit_is_undone() {
    for (choice, rule) in EACH {
        for recovery in [Recovery::Sack, Recovery::RackTlp] {
            let tcp = TcpConfig { choices: Choices { recovery, ..with(choice).choices }, ..with(choice) };
            let mut bulk = Bulk::new(tcp, 1 << 20, overtaken(60));
            bulk.finish();
            let info = bulk.info();
            assert_eq!((info.loss_episodes, info.timeouts), (1, 0), "{recovery:?}");
            // F-RTO judges timeouts.
            let expected = u32::from(rule != UndoRule::Frto);
            assert_eq!(by_rule(info.undone, rule), expected, "{rule:?} with {recovery:?}");
            assert_eq!(info.ssthresh.is_none(), expected == 1, "{rule:?} with {recovery:?}");
        }
    }
}

#[test]
fn second_expiry_leaves_it_to_the_other_detectors() {
    for (choice, rule) in [(TIMESTAMPS, Some(UndoRule::Timestamps)), (FRTO, None)] {
        let mut bulk = Bulk::new(plain(choice), 1 << 20, perfect());
        bulk.run_for(Duration::from_millis(40));
        let rto = bulk.info().rto;
        let before = bulk.stall(rto * 4);
        bulk.finish();
        assert_eq!(bulk.info().timeouts, 2);
        let expected: Vec<_> = rule.map(|rule| (rule, before.cwnd)).into_iter().collect();
        assert_eq!(bulk.undone_windows(), expected);
    }
}

/// A path with random loss and nothing else; of the return direction as well, if `both`.
fn lossy(seed: u64, per_mille: u64, both: bool) -> PathRule {
    let mut rng = Rng::new(seed);
    Box::new(move |side, _| {
        let lost = rng.below(1000) < per_mille && (side == 0 || both);
        if lost { Fate::Drop } else { Fate::Deliver(DELAY) }
    })
}

#[test]
fn real_loss_is_never_undone() {
    for recovery in [Recovery::RackTlp, Recovery::Sack, Recovery::NewReno] {
        for seed in 0..25 {
            for (choice, _) in EACH {
                let tcp = TcpConfig { choices: Choices { recovery, ..with(choice).choices }, ..with(choice) };
                let mut bulk = Bulk::new(tcp, 300_000, lossy(seed, 20 + 4 * seed, false));
                bulk.finish();
                let info = bulk.info();
                assert!(info.retransmits > 0);
                // A retransmission by a tail probe or the timer is needless if an acknowledgement was only
                // delayed, and the peer reports that.
                assert_eq!(info.undone.total() - info.undone.dsack, 0, "seed {seed}, {recovery:?}: {info:?}");
            }
        }
    }
}

#[test]
fn lost_syn_is_not_a_reduction() {
    let path = Box::new(|_, number| if number == 0 { Fate::Drop } else { Fate::Deliver(DELAY) });
    let mut pair = ConnectionPair::crossing([with(ALL), with(ALL)], software(1500), path);
    pair.run_for(Duration::from_secs(10));
    pair.transfer(100_000);
    let info = pair.ends[0].info(pair.now);
    assert!(info.timeouts > 0, "{info:?}");
    assert_eq!(info.undone, UndoCounts::default());
}
