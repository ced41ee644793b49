//! A scenario shown on a page while it runs.

use std::thread;
use std::time::Instant as Clock;

use ackclock_sim::Simulation;
use ackclock_sim::units::Span;

use crate::live::Live;

/// Runs to the end of the scenario and shows it on the way. `pace`: seconds of the scenario that pass in a
/// second of the wall clock. A machine that is too slow takes longer.
pub(super) fn play(simulation: &mut Simulation, live: &Live, duration: Span, pace: Option<f64>) {
    let every = match pace {
        Some(pace) => Live::EVERY.as_nanos() as f64 * pace,
        None => duration.0 as f64 / MOMENTS,
    };
    let begun = Clock::now();
    live.show(simulation);
    for number in 1u32.. {
        if pace.is_some() {
            let due = Live::EVERY.saturating_mul(number);
            thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        let at = (every * f64::from(number)) as u64;
        simulation.run_until(ackclock_core::Instant::from_nanos(at.min(duration.0)));
        live.show(simulation);
        if at >= duration.0 {
            break;
        }
    }
}

pub(super) fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed| (SPEED_MIN..=SPEED_MAX).contains(speed));
    speed.ok_or_else(|| format!("allowed is a number from {SPEED_MIN} to {SPEED_MAX}"))
}

/// The moments of a scenario in a file.
const MOMENTS: f64 = 600.0;
const SPEED_MIN: f64 = 0.001;
const SPEED_MAX: f64 = 1000.0;
