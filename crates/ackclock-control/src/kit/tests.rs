use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::{KitReport, Operation, Outcome, State, check_names, examine};
use crate::Instant;
use crate::congestion::{
    About, Ack, Controller, Exception, IdleRestart, LossCause, LossEpisode, Registry, SlowStart, Snapshot,
    Start, Timeout, Undo, Window, described, factory,
};

/// Reno with one defect, which the check of this name detects.
#[derive(Debug)]
struct Flawed {
    flaw: &'static str,
    window: Window,
    expired: bool,
    last: (Instant, u64),
}

impl Flawed {
    fn new(flaw: &'static str, start: &Start) -> Self {
        let mut window = Window::new(start);
        if flaw == "starts with the initial window" {
            window.set_cwnd(20_000);
        }
        Self { flaw, window, expired: false, last: (Instant::ZERO, 0) }
    }

    fn has(&self, flaw: &str) -> bool {
        self.flaw == flaw
    }

    /// The acknowledgement as a defective controller reads it.
    fn misread(&self, ack: &Ack) -> Ack {
        let mut ack = *ack;
        match self.flaw {
            "does not grow in recovery" => ack.in_recovery = false,
            "does not grow when the application is the limit" => ack.cwnd_limited = true,
            "divided acknowledgements buy nothing" => ack.bytes_acked = 1000,
            "survives a storm of acknowledgements" => {
                ack.bytes_acked = ack.bytes_acked.max(1);
                ack.bytes_cumulative = ack.bytes_cumulative.max(1);
            }
            "at most doubles in a round" => ack.bytes_acked *= 4,
            _ => {}
        }
        ack
    }

    /// Trusts what a peer reports, as a defective controller does.
    fn trust(&mut self, ack: &Ack) {
        let (last_time, last_prior) = std::mem::replace(&mut self.last, (ack.now, ack.prior_delivered));
        match self.flaw {
            "survives no round-trip time" => {
                assert!(ack.rtt_ns.is_some(), "a sample with each acknowledgement")
            }
            "survives more than 2^32 bytes" => {
                assert!(u32::try_from(ack.delivered).is_ok(), "a short connection")
            }
            "survives steps of the clock" => assert!(ack.now >= last_time, "a clock that goes forward"),
            "survives reordering" if ack.prior_delivered < last_prior => self.window.set_cwnd(0),
            "is deterministic" => {
                let calls = CALLS.fetch_add(1, Ordering::Relaxed);
                self.window.set_cwnd(self.window.cwnd() + calls % 3);
            }
            _ => {}
        }
    }
}

static CALLS: AtomicU64 = AtomicU64::new(0);

impl Controller for Flawed {
    fn name(&self) -> &'static str {
        if self.has("keeps its name") { "another" } else { "flawed" }
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.trust(ack);
        let ack = self.misread(ack);
        let is_stuck = self.expired && self.has("recovers after a timeout")
            || self.has("uses the path") && self.window.cwnd() > 30_000;
        if !Window::may_grow(&ack) || is_stuck {
            return;
        }
        if !self.window.in_slow_start() {
            self.window.reno_step(ack.bytes_acked);
        } else if !self.has("grows in slow start") {
            self.window.slow_start(ack.bytes_acked, SlowStart::Unlimited);
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        let half = self.window.half_of(loss.flight_size);
        let is_mark = loss.cause == LossCause::EcnEcho;
        match self.flaw {
            "reduces on loss" if !is_mark => {}
            "survives a queue of three segments" => {}
            "reduces on a mark" if is_mark => {}
            "halves on loss" => self.window.reduce(half + half / 2),
            "reduces on loss whatever is outstanding" => self.window.reduce(loss.flight_size / 2),
            "survives nothing in flight" => {
                let percent = 100 * loss.bytes_lost / loss.flight_size;
                self.window.reduce(half.max(percent));
            }
            _ => self.window.reduce(half),
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.expired = true;
        let half = self.window.half_of(timeout.flight_size);
        if self.has("restarts from one segment after a timeout") {
            self.window.reduce(half);
        } else if self.has("keeps ssthresh at a second expiry") {
            self.window.collapse(&Timeout { expiries: 1, ..*timeout }, half);
        } else {
            self.window.collapse(timeout, half);
        }
    }

    fn on_idle_restart(&mut self, idle: &IdleRestart) {
        if !self.has("restarts small after idleness") {
            self.window.restart(idle);
        }
    }

    fn on_undo(&mut self, _: &Undo) {
        if !self.has("restores the window on undo") {
            self.window.undo();
        }
    }

    fn on_mss_change(&mut self, smss: u32) {
        if !self.has("survives any sequence of events") {
            self.window.set_smss(smss);
        }
    }

    fn cwnd(&self) -> u64 {
        self.window.cwnd()
    }

    fn ssthresh(&self) -> u64 {
        if self.has("no threshold") { 0 } else { self.window.ssthresh() }
    }
}

fn examined(flaw: &'static str) -> KitReport {
    examine(factory("flawed", move |start| Box::new(Flawed::new(flaw, start))).as_ref())
}

#[test]
fn every_builtin_conforms() {
    let registry = Registry::with_experiments();
    for name in registry.names() {
        let report = examine(registry.find(name).unwrap().as_ref());
        assert!(report.passed(), "{report}");
    }
}

#[test]
fn controller_without_a_flaw_passes() {
    let report = examined("none");
    assert!(report.passed(), "{report}");
}

#[test]
fn every_check_finds_the_flaw_that_it_looks_for() {
    for check in check_names() {
        let report = examined(check);
        assert!(report.failures().any(|(failed, _)| failed == check), "{check} finds nothing:\n{report}");
    }
}

#[test]
fn threshold_counts_as_the_window_does() {
    let report = examined("no threshold");
    assert!(report.failures().any(|(failed, _)| failed == "survives nothing in flight"), "{report}");
}

#[test]
fn panic_is_a_failure() {
    let report = examined("survives no round-trip time");
    let outcome =
        &report.results.iter().find(|(check, _)| *check == "survives no round-trip time").unwrap().1;
    assert_eq!(*outcome, Outcome::Failed("it panicked; the message is on stderr".to_owned()));
}

#[test]
fn exception_without_need_is_a_failure() {
    const ABOUT: About =
        About { exceptions: &[Exception { check: "halves on loss", why: "it need not" }], ..About::UNKNOWN };
    let report = examine(described("flawed", ABOUT, |start| Box::new(Flawed::new("none", start))).as_ref());
    assert_eq!(report.failures().next(), Some(("halves on loss", "it passes, although it is excepted")));
}

#[test]
fn report_has_a_line_for_each_check() {
    let report = examined("reduces on a mark").to_string();
    assert_eq!(report.lines().count(), 1 + check_names().count());
    assert!(report.contains("\n  ok       grows in slow start\n"), "{report}");
    assert!(report.contains("\n  FAILED   reduces on a mark: from "), "{report}");
}

#[test]
fn exceptions_of_builtins_name_checks_that_exist() {
    let registry = Registry::with_experiments();
    for name in registry.names() {
        for exception in registry.find(name).unwrap().about().exceptions {
            assert!(check_names().any(|check| check == exception.check), "{name}: {}", exception.check);
        }
    }
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let size =
        || prop_oneof![0_u64..100_000, Just(u64::MAX), any::<u64>(), (0_u64..2000).prop_map(|k| k * 1000)];
    (any::<u8>(), size(), size(), size(), size())
        .prop_map(|(kind, a, b, c, d)| Operation::from_numbers(kind, a, b, c, d))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn every_builtin_survives_any_operations(
        operations in prop::collection::vec(any_operation(), 1..120), smss in 1_u16..=u16::MAX,
    ) {
        let registry = Registry::with_experiments();
        for name in registry.names() {
            let start = Start { smss: u32::from(smss), initial_window: 10 * u64::from(smss), now: Instant::ZERO };
            let mut controller = registry.find(name).unwrap().create(&start);
            let mut state = State::new(smss);
            for operation in &operations {
                operation.apply(controller.as_mut(), &mut state);
                prop_assert!(controller.cwnd() >= u64::from(state.smss), "{name} after {operation:?}");
                prop_assert!(controller.pacing_rate() != Some(0), "{name} after {operation:?}");
                prop_assert!(controller.snapshot().iter().count() < Snapshot::MAX);
            }
        }
    }
}
