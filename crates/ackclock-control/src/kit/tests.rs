use proptest::prelude::*;

use super::{Operation, Outcome, State, check_names, examine};
use crate::Instant;
use crate::congestion::{Ack, Controller, IdleRestart, LossEpisode, Registry, Start, Timeout, Undo, factory};

/// A controller with one defect.
#[derive(Debug)]
struct Broken(u64, fn(&mut u64, &Ack));

impl Controller for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }
    fn on_ack(&mut self, ack: &Ack) {
        (self.1)(&mut self.0, ack);
    }
    fn on_loss_episode(&mut self, _: &LossEpisode) {}
    fn on_timeout(&mut self, _: &Timeout) {}
    fn on_idle_restart(&mut self, _: &IdleRestart) {}
    fn on_undo(&mut self, _: &Undo) {}
    fn on_mss_change(&mut self, _: u32) {}
    fn cwnd(&self) -> u64 {
        self.0
    }
    fn ssthresh(&self) -> u64 {
        u64::MAX
    }
}

fn failures_of(defect: fn(&mut u64, &Ack)) -> Vec<&'static str> {
    let broken = factory("broken", move |start| Box::new(Broken(start.initial_window, defect)));
    examine(broken.as_ref()).failures().map(|(check, _)| check).collect()
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
fn controller_that_ignores_losses_is_found() {
    let failed = failures_of(|cwnd, ack| *cwnd += ack.bytes_acked.min(1000));
    for check in ["reduces on loss", "reduces on a mark", "restarts from one segment after a timeout"] {
        assert!(failed.contains(&check), "{check} is not in {failed:?}");
    }
}

#[test]
fn segment_for_each_ack_is_found() {
    let failed = failures_of(|cwnd, _| *cwnd += 1000);
    assert!(failed.contains(&"divided acknowledgements buy nothing"), "{failed:?}");
    assert!(failed.contains(&"does not grow when the application is the limit"), "{failed:?}");
}

#[test]
fn fixed_window_is_found() {
    assert!(failures_of(|_, _| ()).contains(&"grows in slow start"));
}

#[test]
fn panic_is_a_failure() {
    let report = examine(
        factory("broken", |start| {
            Box::new(Broken(start.initial_window, |_, ack| {
                assert!(ack.rtt.is_some(), "a controller that needs a sample");
            }))
        })
        .as_ref(),
    );
    let outcome =
        &report.results.iter().find(|(check, _)| *check == "survives no round-trip time").unwrap().1;
    assert_eq!(*outcome, Outcome::Failed("it panicked; the message is on stderr".to_owned()));
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
                prop_assert!(controller.snapshot().iter().count() <= 8);
            }
        }
    }
}
