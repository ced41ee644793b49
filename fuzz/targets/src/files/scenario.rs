//! Scenarios: what is read is written and read back, and what passes the check runs.

use std::hint::black_box;
use std::time::Duration;

use ackclock_sim::{Scenario, Simulation};

/// Reads a scenario and runs its beginning.
pub(crate) fn scenario(bytes: &[u8]) -> u64 {
    let Ok(text) = std::str::from_utf8(bytes) else { return 1 };
    let scenario = match Scenario::from_toml("any.toml", text) {
        Ok(scenario) => scenario,
        Err(error) => {
            assert!(error.to_string().starts_with("any.toml"), "no place in `{error}`");
            return 1;
        }
    };
    let written = scenario.to_toml().expect("what was read can be written");
    let again = Scenario::from_toml("again.toml", &written);
    assert_eq!(again.as_ref().ok(), Some(&scenario), "{again:?} of:\n{written}");
    begin(&scenario);
    1
}

/// The most events of a scenario that are run: some take hours.
fn begin(scenario: &Scenario) {
    let mut simulation = Simulation::new(scenario).expect("what was read was checked");
    let mut step = Duration::from_micros(1);
    for _ in 0..STEPS_MAX {
        let before = simulation.events();
        if before > EVENTS_MAX {
            break;
        }
        let until = simulation.now() + step;
        simulation.run_until(until);
        let few = simulation.events() - before < EVENTS_MAX / 100;
        step = if few { (2 * step).min(STEP_MAX) } else { (step / 2).max(Duration::from_nanos(1)) };
    }
    black_box(simulation.report());
}

const STEPS_MAX: usize = 100;
const EVENTS_MAX: u64 = 10_000;
const STEP_MAX: Duration = Duration::from_secs(1);
