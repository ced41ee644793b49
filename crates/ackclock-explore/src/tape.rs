//! [`Tape`]: the life of one end as steps of a protocol test.

use ackclock_core::Instant;
use ackclock_test_script::step::Step;

/// Everything that has reached one end, from the network and its application, and everything that it sent.
/// Most worlds are explored without one.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    recording: Option<Recording>,
}

#[derive(Debug)]
struct Recording {
    steps: Vec<Step>,
    /// When the last step was made.
    at: Instant,
    /// Why some step has no words.
    gap: Option<String>,
}

impl Tape {
    /// A tape that records from `at` on.
    pub fn from(at: Instant) -> Self {
        Self { recording: Some(Recording { steps: Vec::new(), at, gap: None }) }
    }

    /// Records a step, and the time that has passed before it.
    pub fn record(&mut self, now: Instant, step: impl FnOnce() -> Step) {
        self.try_record(now, || Ok(step()));
    }

    /// Records a step that may have no words.
    pub fn try_record(&mut self, now: Instant, step: impl FnOnce() -> Result<Step, String>) {
        let Some(recording) = &mut self.recording else { return };
        match step() {
            Ok(step) => {
                recording.pass(now);
                recording.steps.push(step);
            }
            Err(why) => recording.gap = Some(why),
        }
    }

    /// Records that timers expire.
    pub fn record_timers(&mut self, now: Instant) {
        if let Some(recording) = &mut self.recording {
            recording.steps.push(Step::Advance(now.saturating_since(recording.at)));
            recording.at = now;
        }
    }

    /// Records that the host slept from `now` until `then`.
    pub fn record_sleep(&mut self, now: Instant, then: Instant) {
        if let Some(recording) = &mut self.recording {
            recording.pass(now);
            recording.steps.push(Step::Sleep(then.saturating_since(now)));
            recording.at = then;
        }
    }

    /// Takes the last step back.
    pub fn unrecord(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.steps.pop();
        }
    }

    /// The steps so far.
    pub fn steps(&self) -> &[Step] {
        self.recording.as_ref().map_or(&[], |recording| &recording.steps)
    }

    /// Why a step is missing, if one is.
    pub fn gap(&self) -> Option<&str> {
        self.recording.as_ref()?.gap.as_deref()
    }
}

impl Recording {
    fn pass(&mut self, now: Instant) {
        if now > self.at {
            self.steps.push(Step::Pass(now.saturating_since(self.at)));
            self.at = now;
        }
    }
}
