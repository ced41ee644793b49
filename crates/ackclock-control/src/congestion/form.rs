//! The forms of a registry's controllers, which are written by name and found again.

/// A factory, as the words by which a registry finds it. The reader needs a [`Registry`](super::Registry)
/// lent to it.
pub mod factory {
    use std::sync::Arc;

    use ackclock_form::{FormError, Reader, Writer};

    use super::super::{ControllerFactory, Registry};

    /// Appends the factory's words.
    pub fn write(factory: &Arc<dyn ControllerFactory>, out: &mut Writer) {
        out.text(&factory.words());
    }

    /// Finds the factory.
    ///
    /// # Errors
    /// The registry has no such controller, or it does not take these parameters.
    pub fn read(input: &mut Reader<'_>) -> Result<Arc<dyn ControllerFactory>, FormError> {
        let words = input.text()?;
        let registry = input.lent::<Registry>().ok_or(FormError::Misplaced)?;
        registry.find(words).map_err(|unknown| FormError::Controller(unknown.to_string()))
    }
}

/// The name of a controller of the registry that is lent to the reader.
pub(super) mod registered_name {
    use ackclock_form::{FormError, Reader, Writer};

    use super::super::Registry;

    pub(in super::super) fn write(name: &str, out: &mut Writer) {
        out.text(name);
    }

    pub(in super::super) fn read(input: &mut Reader<'_>) -> Result<&'static str, FormError> {
        let name = input.text()?;
        let registry = input.lent::<Registry>().ok_or(FormError::Misplaced)?;
        registry.names().find(|&known| known == name).ok_or(FormError::Name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ackclock_form::{Form, Reader, Writer};

    use super::super::testing::{SMSS, START, ack, idle, loss, timeout};
    use super::super::{Controller, RecoveryEnd, Registry, StartUp, Undo};
    use crate::Instant;
    use crate::bandwidth::SenderEstimatorKind;

    /// A life with slow start, a loss, a mistake, a timeout and idleness, as far as `steps` goes.
    fn live(controller: &mut dyn Controller, steps: u64) {
        for step in 0..steps {
            let now = Instant::from_millis(100 * step);
            let in_flight = controller.cwnd();
            match step % 23 {
                7 => controller.on_loss_episode(&loss(100 * step, in_flight)),
                8 => {
                    controller.on_recovery_end(&RecoveryEnd { now, in_flight, inflation: 0, delivered: step })
                }
                9 => controller.on_undo(&Undo { now }),
                15 => controller.on_timeout(&timeout(in_flight, 1)),
                20 => controller.on_idle_restart(&idle(10 * SMSS)),
                _ => controller.on_ack(&ack(100 * step, 2 * SMSS)),
            }
        }
    }

    #[test]
    fn every_controller_goes_on_from_its_form() {
        let registry = Registry::with_experiments();
        for name in registry.names() {
            let factory = registry.find(name).unwrap();
            for steps in [0, 5, 12, 30, 90] {
                let mut frozen = factory.create(&START);
                live(&mut *frozen, steps);
                let mut form = Writer::default();
                assert!(frozen.freeze(&mut form), "{name} has no form");
                let mut thawed = factory.create(&START);
                let mut input = Reader::new(form.bytes());
                input.lend(Arc::new(registry.clone()));
                thawed.thaw(&mut input).unwrap_or_else(|why| panic!("{name}: {why}"));
                assert_eq!(input.end(), Ok(()), "{name}");
                assert_eq!(format!("{thawed:?}"), format!("{frozen:?}"));
                live(&mut *frozen, 40);
                live(&mut *thawed, 40);
                assert_eq!(format!("{thawed:?}"), format!("{frozen:?}"), "40 steps later");
            }
        }
    }

    #[test]
    fn every_estimator_of_the_start_goes_on_from_its_form() {
        for (name, _) in SenderEstimatorKind::ALL {
            let kind = SenderEstimatorKind::find(name).unwrap();
            let mut controller = Registry::builtin().find("newreno").unwrap().create(&START);
            let mut start_up = StartUp::new(kind, &START);
            for step in 0..3 {
                start_up.before_ack(&mut *controller, &ack(200 + step, SMSS));
                let mut form = Writer::default();
                start_up.write(&mut form);
                let read = StartUp::read(&mut Reader::new(form.bytes())).unwrap();
                assert_eq!(format!("{read:?}"), format!("{start_up:?}"), "{name}");
            }
        }
    }
}
