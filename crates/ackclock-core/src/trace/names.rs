//! The names of controllers and of their numbers, in forms. They are written as text and found again.

/// One name.
pub(super) mod known_name {
    use ackclock_control::congestion::{Registry, Start};
    use ackclock_form::{FormError, Reader, Writer};

    use crate::Instant;

    pub(in crate::trace) fn write(name: &str, out: &mut Writer) {
        out.text(name);
    }

    pub(in crate::trace) fn read(input: &mut Reader<'_>) -> Result<&'static str, FormError> {
        let name = input.text()?;
        let registry = input.lent::<Registry>().ok_or(FormError::Misplaced)?;
        if let Some(known) = registry.names().find(|&known| known == name) {
            return Ok(known);
        }
        // A number's name is its controller's, which shows it from the beginning.
        let start = Start { smss: 1460, initial_window: 14_600, now: Instant::ZERO };
        let factories = registry.names().filter_map(|known| registry.find(known).ok());
        let mut snapshots = factories.map(|factory| factory.create(&start).snapshot());
        let named = |snapshot: ackclock_control::congestion::Snapshot| {
            snapshot.iter().map(|(known, _)| known).find(|&known| known == name)
        };
        Ok(snapshots.find_map(named).unwrap_or("unknown"))
    }
}

/// Several names.
pub(super) mod known_names {
    use ackclock_form::{Form, FormError, Reader, Writer};

    use super::known_name;

    pub(in crate::trace) fn write(names: &[&'static str], out: &mut Writer) {
        names.len().write(out);
        names.iter().for_each(|name| known_name::write(name, out));
    }

    pub(in crate::trace) fn read(input: &mut Reader<'_>) -> Result<Vec<&'static str>, FormError> {
        let len = usize::read(input)?;
        if len > input.len() {
            return Err(FormError::Short);
        }
        (0..len).map(|_| known_name::read(input)).collect()
    }
}
