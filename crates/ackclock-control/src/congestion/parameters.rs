//! Parameters of controllers in words, as in `vegas:alpha=2,beta=4`.

use std::fmt;

use crate::InvalidParameter;
use crate::quantity::Span;

/// A parameter that may follow a controller's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its permitted values.
    pub values: Values,
    /// Its default: a number, or the index of a word.
    pub default: i64,
}

/// The permitted values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Values {
    /// A whole number, from the first to the second.
    Number(i64, i64),
    /// Milliseconds, from the first to the second, written as `10ms`.
    Millis(i64, i64),
    /// One of these words. Its value is its index.
    Words(&'static [&'static str]),
}

impl Values {
    fn parse(self, text: &str) -> Option<i64> {
        match self {
            Self::Number(min, max) => text.parse().ok().filter(|number| (min..=max).contains(number)),
            Self::Millis(min, max) => {
                let (sign, time) = text.strip_prefix('-').map_or((1, text), |time| (-1, time));
                let Span(nanos) = time.parse().ok()?;
                let millis = i64::try_from(nanos / MILLI.0).ok()?;
                (nanos % MILLI.0 == 0)
                    .then_some(millis.saturating_mul(sign))
                    .filter(|millis| (min..=max).contains(millis))
            }
            Self::Words(words) => {
                let place = words.iter().position(|&word| word == text)?;
                i64::try_from(place).ok()
            }
        }
    }

    /// The value in the word that [`Values::parse`] takes.
    fn word(self, value: i64) -> String {
        let named = |words: &[&'static str]| words.get(usize::try_from(value).ok()?).copied();
        match self {
            Self::Number(..) => value.to_string(),
            Self::Millis(..) => format!("{value}ms"),
            Self::Words(words) => named(words).unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for Settings {
    /// In words that [`Settings::changed`] takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (parameter, value)) in self.parameters.iter().zip(&self.values).enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}={}", parameter.name, parameter.values.word(*value))?;
        }
        Ok(())
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(min, max) => write!(f, "{min} to {max}"),
            Self::Millis(min, max) => write!(f, "{min}ms to {max}ms"),
            Self::Words(words) => f.write_str(&words.join(" or ")),
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.values)
    }
}

/// A value for each parameter of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    parameters: &'static [Parameter],
    values: Vec<i64>,
}

impl Settings {
    /// The defaults.
    #[must_use]
    pub fn defaults(parameters: &'static [Parameter]) -> Self {
        Self { parameters, values: parameters.iter().map(|parameter| parameter.default).collect() }
    }

    /// These settings, changed as `text` says, for example `alpha=2,beta=4`.
    ///
    /// # Errors
    /// [`InvalidParameter`] for an unknown name or a value out of range; its message lists the valid ones.
    pub fn changed(&self, text: &str) -> Result<Self, InvalidParameter> {
        let mut changed = self.clone();
        for assignment in text.split(',') {
            let invalid = || InvalidParameter::new(assignment, self.valid());
            let (name, value) = assignment.split_once('=').ok_or_else(invalid)?;
            let at = self.parameters.iter().position(|parameter| parameter.name == name.trim());
            let (parameter, slot) = at
                .and_then(|at| Some((self.parameters.get(at)?, changed.values.get_mut(at)?)))
                .ok_or_else(invalid)?;
            *slot = parameter.values.parse(value.trim()).ok_or_else(invalid)?;
        }
        Ok(changed)
    }

    /// The value of this parameter; zero if there is none.
    #[must_use]
    pub fn value(&self, name: &str) -> i64 {
        let named = self.parameters.iter().zip(&self.values).find(|(parameter, _)| parameter.name == name);
        named.map_or(0, |(_, &value)| value)
    }

    /// All parameters with their ranges, in words.
    fn valid(&self) -> String {
        if self.parameters.is_empty() {
            return "it takes no parameters".to_owned();
        }
        let parameters: Vec<String> = self.parameters.iter().map(ToString::to_string).collect();
        format!("it takes {}", parameters.join(", "))
    }
}

const MILLI: Span = Span::millis(1);

#[cfg(test)]
mod tests {
    use super::{Parameter, Settings, Values};

    const PARAMETERS: &[Parameter] = &[
        Parameter { name: "n", values: Values::Number(1, 9), default: 3 },
        Parameter { name: "delay", values: Values::Millis(-20, 20), default: 10 },
        Parameter { name: "gain", values: Values::Words(&["0", "1/4", "1/2", "3/4"]), default: 2 },
    ];

    fn values(text: &str) -> Option<[i64; 3]> {
        let settings = Settings::defaults(PARAMETERS).changed(text).ok()?;
        Some(["n", "delay", "gain"].map(|name| settings.value(name)))
    }

    #[test]
    fn what_is_not_said_keeps_its_default() {
        assert_eq!(values("n=4"), Some([4, 10, 2]));
        assert_eq!(values("gain=3/4, delay=-5ms"), Some([3, -5, 3]));
        assert_eq!(values("delay=0.02s"), Some([3, 20, 2]));
        assert_eq!(values("delay=-2000us"), Some([3, -2, 2]));
    }

    #[test]
    fn impossible_values_are_refused() {
        for text in [
            "",
            "n",
            "n=",
            "n=0",
            "n=10",
            "n=x",
            "delay=5",
            "delay=0.5ms",
            "delay=--5ms",
            "delay=21ms",
            "gain=1",
            "m=1",
            "n=1,,delay=1ms",
        ] {
            assert_eq!(values(text), None, "{text}");
        }
    }

    #[test]
    fn errors_list_every_parameter_with_its_range() {
        let error = Settings::defaults(PARAMETERS).changed("n=12").unwrap_err().to_string();
        assert_eq!(
            error,
            "`n=12` is not possible: it takes n (1 to 9), delay (-20ms to 20ms), gain (0 or 1/4 or 1/2 or \
             3/4)"
        );
        let error = Settings::defaults(&[]).changed("n=1").unwrap_err().to_string();
        assert_eq!(error, "`n=1` is not possible: it takes no parameters");
    }
}
