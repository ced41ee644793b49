//! Choices that differ from a profile's.

use std::collections::BTreeMap;

use super::choices::{Choices, InvalidChoice};

/// Single choices, by key, to be made over those of a profile.
///
/// ```
/// use ackclock_control::profile::{Choices, Overrides};
///
/// let mut overrides = Overrides::default();
/// overrides.set("initial-window", "3")?;
/// let mut choices = Choices::default();
/// overrides.apply(&mut choices)?;
/// assert_eq!(choices.initial_window_segments, 3);
/// # Ok::<(), ackclock_control::profile::InvalidChoice>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(BTreeMap<String, String>);

impl Overrides {
    /// Sets a choice, in place of an earlier value.
    ///
    /// # Errors
    /// [`InvalidChoice`]; its message lists the valid keys or values. Then nothing changes.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), InvalidChoice> {
        Choices::default().choose(key, value)?;
        self.set_unchecked(key, value);
        Ok(())
    }

    /// As [`Self::set`], for data that is checked later: [`Self::apply`] reports a wrong key or value.
    pub fn set_unchecked(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.0.insert(key.into(), value.into());
    }

    /// The keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value of this key, if it is set.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Whether no choice is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These laid over `below`: where both set a choice, this value counts.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        let mut both = below.0.clone();
        both.extend(self.0.clone());
        Self(both)
    }

    /// Makes the choices.
    ///
    /// # Errors
    /// [`InvalidChoice`] for the first that is not valid.
    pub fn apply(&self, choices: &mut Choices) -> Result<(), InvalidChoice> {
        self.iter().try_for_each(|(key, value)| choices.choose(key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::Overrides;
    use crate::profile::{CHOICES, Choices, Profile};

    #[test]
    fn values_of_every_choice_of_every_profile_are_read_as_they_are_written() {
        for profile in Profile::all() {
            let mut all = Overrides::default();
            let mut read = Choices::default();
            for choice in &CHOICES {
                let value = choice.get(&profile.choices);
                choice.set(&mut read, &value).unwrap();
                all.set(choice.key, &value).unwrap();
                assert_eq!(choice.get(&read), value, "{} of {}", choice.key, profile.name);
            }
            assert_eq!(read, profile.choices, "{}", profile.name);
            let mut made = Choices::default();
            all.apply(&mut made).unwrap();
            assert_eq!((made, all.iter().count()), (profile.choices, CHOICES.len()));
        }
    }

    #[test]
    fn every_name_without_parameters_is_a_value() {
        for choice in &CHOICES {
            for named in choice.names() {
                let mut choices = Choices::default();
                // A capital letter stands for a parameter.
                if named.name.contains(|c: char| c.is_ascii_uppercase()) {
                    continue;
                }
                choice.set(&mut choices, named.name).unwrap();
                if choice.is_one_of_names() {
                    assert_eq!(choice.get(&choices), named.name, "{}", choice.key);
                }
            }
            let mut example = Choices::default();
            choice.set(&mut example, choice.example).unwrap();
            assert_ne!(example, Choices::default(), "{}", choice.key);
            let refused = choice.set(&mut Choices::default(), "nonsense").unwrap_err();
            assert_eq!((refused.key.as_str(), refused.value.as_str()), (choice.key, "nonsense"));
            assert!(refused.what.contains("`nonsense`"), "{refused}");
        }
    }

    #[test]
    fn wrong_values_and_keys_change_nothing() {
        let mut overrides = Overrides::default();
        let before = Choices::default();
        for (key, value, valid) in [
            ("initial-window", "0", "1 to 65535"),
            ("initial-window", "65536", "1 to 65535"),
            ("receiver-bandwidth", "257", "1 to 256"),
            ("receiver-bandwidth", "0", "1 to 256"),
            ("pacing", "yes", "neither on nor off"),
            ("idle", "kept", "validated"),
            ("start-up", "csa:1", "csa:5,0.2"),
            ("inital-window", "10", "the nearest is `initial-window`"),
        ] {
            let mut choices = before;
            for refused in [overrides.set(key, value), choices.choose(key, value)] {
                assert!(refused.unwrap_err().to_string().contains(valid), "{key} {value}");
            }
            assert_eq!(choices, before);
        }
        assert!(overrides.is_empty());
    }

    #[test]
    fn unchecked_choices_are_checked_when_they_are_made() {
        for (key, value) in [("enc", "off"), ("ecn", "of")] {
            let mut overrides = Overrides::default();
            overrides.set_unchecked(key, value);
            let refused = overrides.apply(&mut Choices::default()).unwrap_err();
            assert_eq!(refused.key, key);
        }
    }

    #[test]
    fn overrides_above_count() {
        let (mut above, mut below) = (Overrides::default(), Overrides::default());
        above.set("ecn", "classic").unwrap();
        below.set("ecn", "accurate").unwrap();
        below.set("idle", "keep").unwrap();
        let both = above.over(&below);
        assert_eq!(
            (both.get("ecn"), both.get("idle"), both.get("acks")),
            (Some("classic"), Some("keep"), None)
        );
        above.set("ecn", "off").unwrap();
        assert_eq!(below.iter().count(), 2);
        assert_eq!(above.iter().collect::<Vec<_>>(), [("ecn", "off")]);
    }
}
