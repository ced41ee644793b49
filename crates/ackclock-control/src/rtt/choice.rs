//! Reading and writing a timeout estimator: a preset, and what differs from it.

use std::fmt;
use std::time::Duration;

use super::presets::{self, UnknownPreset};
use super::{Arithmetic, Backoff, DeviationFloor, Formula, Gain, RtoConfig, Sampling};
use crate::quantity::{Span, UnitError, exact};

/// A description of an estimator that is unknown or impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRto {
    /// No preset has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownPreset),
    /// Not a parameter, or not a value that it takes.
    #[error(
        "`{word}` is not a parameter of a timeout estimator; after the preset's name there may be \
         {PARAMETERS}"
    )]
    Parameter {
        /// The word.
        word: String,
    },
    /// A parameter that is not a time.
    #[error("`{word}` is not possible: {error}")]
    Time {
        /// The word.
        word: String,
        /// The mistake in its value.
        error: UnitError,
    },
    /// The parameter is not part of the preset's formula.
    #[error("`{word}` has no meaning here: the preset's formula has no such factor")]
    NoFactor {
        /// The word.
        word: String,
    },
    /// The lower bound lies above the upper one.
    #[error("the smallest timeout, {min:?}, is longer than the largest, {max:?}")]
    BoundsCrossed {
        /// The lower bound.
        min: Duration,
        /// The upper bound.
        max: Duration,
    },
    /// A factor of zero.
    #[error("a factor of zero makes no timeout; k and beta are 1 to 255")]
    ZeroFactor,
    /// A first or largest timeout of zero, or one too long to count.
    #[error("{what} cannot be {value:?}: it is above zero and at most {DURATION_MAX:?}")]
    Timeout {
        /// Which timeout.
        what: &'static str,
        /// Its value.
        value: Duration,
    },
    /// The clock's tick is too long.
    #[error(
        "a clock's tick cannot be {0:?}: it is at most {GRANULARITY_MAX:?}, and zero stands for a nanosecond"
    )]
    Granularity(Duration),
    /// The arithmetic of 1988 counts ticks and needs one.
    #[error("arithmetic in ticks needs a tick: give g=500ms, for instance")]
    NoTick,
}

impl RtoConfig {
    /// Parses an estimator: a preset's name (`rfc6298` if left out) and the parameters that differ from
    /// it, all separated by commas. `min`, `max`, `initial` and `g` (the clock's tick) take times, `k`,
    /// `k-falling` and `beta` factors, `a1` and `a2` gains such as `1/8` or `0`. `adapt` and `heartbeat`
    /// take `on` or `off`, `sampling` takes `every` or `flight`, `arithmetic` takes `fine`, `ticks`,
    /// `bsd-ticks` or `bsd43`, `floor` takes `term` or `deviation`. [`Display`](fmt::Display) writes the
    /// same words.
    ///
    /// # Errors
    /// [`InvalidRto`]; its message lists the valid choices.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ackclock_control::rtt::RtoConfig;
    ///
    /// let config = RtoConfig::find("rfc6298,min=1s,g=500ms")?;
    /// assert_eq!(config.rto_min, Duration::from_secs(1));
    /// assert!(RtoConfig::find("rfc6298,min=90s").unwrap_err().to_string().contains("longer than the largest"));
    /// # Ok::<(), ackclock_control::rtt::InvalidRto>(())
    /// ```
    pub fn find(words: &str) -> Result<Self, InvalidRto> {
        let config = Self::find_for_simulations(words)?;
        match words.split(',').map(str::trim).find(|word| word.starts_with("backoff=")) {
            Some(word) => Err(InvalidRto::Parameter { word: word.to_owned() }),
            None => Ok(config),
        }
    }

    /// As [`Self::find`], but `backoff=off` and `backoff=bsd43` are read too, which only a simulated network
    /// survives.
    pub(crate) fn find_for_simulations(words: &str) -> Result<Self, InvalidRto> {
        let mut config = Self::RFC_6298;
        for (index, word) in words.split(',').map(str::trim).enumerate() {
            match word.split_once('=') {
                None if index == 0 => config = presets::find(word)?.config,
                None => return Err(InvalidRto::Parameter { word: word.to_owned() }),
                Some((name, value)) => config.set(word, name, value)?,
            }
        }
        config.check()?;
        Ok(config)
    }

    /// The name of the first preset with exactly these parameters.
    #[must_use]
    pub fn preset_name(&self) -> Option<&'static str> {
        presets::all().find(|preset| preset.config == *self).map(|preset| preset.name)
    }

    /// Checks that an estimator can have these parameters.
    ///
    /// # Errors
    /// [`InvalidRto`] if not. [`RttEstimator`](super::RttEstimator) accepts them anyway and moves them to
    /// possible values.
    pub fn check(&self) -> Result<(), InvalidRto> {
        if self.rto_min > self.rto_max {
            return Err(InvalidRto::BoundsCrossed { min: self.rto_min, max: self.rto_max });
        }
        for (what, value) in [("the first timeout", self.initial), ("the largest timeout", self.rto_max)] {
            if value.is_zero() || value > DURATION_MAX {
                return Err(InvalidRto::Timeout { what, value });
            }
        }
        if self.granularity > GRANULARITY_MAX {
            return Err(InvalidRto::Granularity(self.granularity));
        }
        if self.granularity.is_zero() && self.arithmetic != Arithmetic::Fine {
            return Err(InvalidRto::NoTick);
        }
        match self.formula {
            Formula::MeanDeviation { k: 0, .. }
            | Formula::SignedDeviation { k: 0, .. }
            | Formula::SignedDeviation { k_falling: 0, .. }
            | Formula::Multiple { beta: 0 } => Err(InvalidRto::ZeroFactor),
            _ => Ok(()),
        }
    }

    fn set(&mut self, word: &str, name: &str, value: &str) -> Result<(), InvalidRto> {
        let wrong = || InvalidRto::Parameter { word: word.to_owned() };
        let time = || match value.parse() {
            Ok(time) => Ok(Span::duration(time)),
            Err(error) => Err(InvalidRto::Time { word: word.to_owned(), error }),
        };
        let switch = || match value {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(wrong()),
        };
        match (name, value) {
            ("min", _) => self.rto_min = time()?,
            ("max", _) => self.rto_max = time()?,
            ("initial", _) => self.initial = time()?,
            ("g", _) => self.granularity = time()?,
            ("a1", _) => self.srtt_gain = gain(value).ok_or_else(wrong)?,
            ("a2", _) => self.rttvar_gain = gain(value).ok_or_else(wrong)?,
            ("heartbeat", _) => self.heartbeat = switch()?,
            ("backoff", _) => self.backoff = named(&BACKOFFS, value).ok_or_else(wrong)?,
            ("arithmetic", _) => self.arithmetic = named(&ARITHMETICS, value).ok_or_else(wrong)?,
            ("floor", "term") => self.deviation_floor = DeviationFloor::Term,
            ("floor", "deviation") => self.deviation_floor = DeviationFloor::Deviation,
            ("sampling", "every") => self.sampling = Sampling::EverySegment,
            ("sampling", "flight") => self.sampling = Sampling::OncePerFlight,
            ("k" | "k-falling" | "beta" | "adapt", _) => return self.set_factor(word, name, value),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    fn set_factor(&mut self, word: &str, name: &str, value: &str) -> Result<(), InvalidRto> {
        let wrong = || InvalidRto::Parameter { word: word.to_owned() };
        let factor = || value.parse::<u8>().map_err(|_| wrong());
        match (name, &mut self.formula) {
            ("k", Formula::MeanDeviation { k, .. } | Formula::SignedDeviation { k, .. }) => *k = factor()?,
            ("k-falling", Formula::SignedDeviation { k_falling, .. }) => *k_falling = factor()?,
            ("beta", Formula::Multiple { beta }) => *beta = factor()?,
            ("adapt", Formula::MeanDeviation { adapt, .. }) => {
                *adapt = match value {
                    "on" => true,
                    "off" => false,
                    _ => return Err(wrong()),
                }
            }
            _ => return Err(InvalidRto::NoFactor { word: word.to_owned() }),
        }
        Ok(())
    }
}

impl fmt::Display for RtoConfig {
    /// A preset's name, and in what these parameters differ.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.preset_name() {
            return f.write_str(name);
        }
        let mine = self.parameters();
        let differing = |preset: &presets::Preset| -> Vec<String> {
            let its = preset.config.parameters();
            mine.iter().filter(|word| !its.contains(word)).cloned().collect()
        };
        // A preset of another formula lacks a factor, and no word would change that.
        let alike = presets::all().filter(|preset| {
            std::mem::discriminant(&preset.config.formula) == std::mem::discriminant(&self.formula)
        });
        let nearest =
            alike.map(|preset| (preset.name, differing(&preset))).min_by_key(|(_, words)| words.len());
        match nearest {
            Some((name, words)) => write!(f, "{name},{}", words.join(",")),
            None => f.write_str(&mine.join(",")),
        }
    }
}

impl RtoConfig {
    /// Every parameter, as [`Self::set`] reads it.
    fn parameters(&self) -> Vec<String> {
        let Self { srtt_gain, rttvar_gain, initial, rto_min, rto_max, granularity, .. } = self;
        let mut words = vec![
            format!("min={}", Span::from(*rto_min)),
            format!("max={}", Span::from(*rto_max)),
            format!("initial={}", Span::from(*initial)),
            format!("g={}", Span::from(*granularity)),
            format!("a1={}", gain_words(*srtt_gain)),
            format!("a2={}", gain_words(*rttvar_gain)),
            format!("heartbeat={}", on_or_off(self.heartbeat)),
            format!("backoff={}", name_of(&BACKOFFS, self.backoff)),
            format!("arithmetic={}", name_of(&ARITHMETICS, self.arithmetic)),
        ];
        words.push(match self.sampling {
            Sampling::EverySegment => "sampling=every".to_owned(),
            Sampling::OncePerFlight => "sampling=flight".to_owned(),
        });
        words.push(match self.deviation_floor {
            DeviationFloor::Term => "floor=term".to_owned(),
            DeviationFloor::Deviation => "floor=deviation".to_owned(),
        });
        match self.formula {
            Formula::MeanDeviation { k, adapt } => {
                words.push(format!("k={k}"));
                words.push(format!("adapt={}", on_or_off(adapt)));
            }
            Formula::SignedDeviation { k, k_falling } => {
                words.push(format!("k={k}"));
                words.push(format!("k-falling={k_falling}"));
            }
            Formula::Multiple { beta } => words.push(format!("beta={beta}")),
            Formula::Static => {}
        }
        words
    }
}

fn gain_words(gain: Gain) -> String {
    match gain.divisor() {
        0 => "0".to_owned(),
        n => format!("1/{n}"),
    }
}

fn named<T: Copy>(values: &[(&str, T)], name: &str) -> Option<T> {
    values.iter().find(|(valid, _)| *valid == name).map(|&(_, value)| value)
}

fn name_of<T: PartialEq>(values: &[(&'static str, T)], value: T) -> &'static str {
    values.iter().find(|(_, valid)| *valid == value).map_or("unknown", |&(name, _)| name)
}

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// `1/8`, or `0` and `1`.
fn gain(word: &str) -> Option<Gain> {
    match word.split_once('/') {
        Some(("1", n)) => n.parse().ok().filter(|&n| n > 0).map(Gain::one_in),
        Some(_) => None,
        None => match exact(word, 1)? {
            0 => Some(Gain::ZERO),
            1 => Some(Gain::ONE),
            _ => None,
        },
    }
}

const PARAMETERS: &str = "min=TIME, max=TIME, initial=TIME, g=TIME (a time as 200ms or 1.5s), k=N, \
    k-falling=N, beta=N, a1=1/N, a2=1/N, adapt=on|off, heartbeat=on|off, sampling=every|flight, \
    arithmetic=fine|ticks|bsd-ticks|bsd43, floor=term|deviation";

const ARITHMETICS: [(&str, Arithmetic); 4] = [
    ("fine", Arithmetic::Fine),
    ("ticks", Arithmetic::Ticks),
    ("bsd-ticks", Arithmetic::BsdTicks),
    ("bsd43", Arithmetic::Bsd43),
];
const BACKOFFS: [(&str, Backoff); 3] =
    [("on", Backoff::Doubling), ("off", Backoff::None), ("bsd43", Backoff::Bsd43)];

/// The longest time that the estimator counts.
const DURATION_MAX: Duration = Duration::from_secs(86_400);
/// Ticks are counted in 32 bits of nanoseconds.
const GRANULARITY_MAX: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::presets;
    use super::{Backoff, Formula, Gain, InvalidRto, RtoConfig, Sampling};

    #[test]
    fn preset_alone_is_the_preset() {
        for preset in presets::all() {
            assert_eq!(RtoConfig::find(preset.name), Ok(preset.config), "{}", preset.name);
            let named = preset.config.preset_name().map(|name| presets::find(name).unwrap().config);
            assert_eq!(named, Some(preset.config));
        }
    }

    #[test]
    fn parameters_differ_from_the_preset() {
        let config = RtoConfig::find("jacobson-1992, min=0, g=100ms,k=2,a1=1/16,sampling=every").unwrap();
        assert_eq!((config.rto_min, config.granularity), (Duration::ZERO, Duration::from_millis(100)));
        assert_eq!(config.formula, Formula::MeanDeviation { k: 2, adapt: false });
        assert_eq!((config.srtt_gain, config.sampling), (Gain::one_in(16), Sampling::EverySegment));
        assert_eq!(config.preset_name(), None);
        assert_eq!(RtoConfig::find("k=4"), Ok(RtoConfig::RFC_6298), "rfc6298 unless another is named");
        assert_eq!(RtoConfig::find("rfc793,beta=3").unwrap().formula, Formula::Multiple { beta: 3 });
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |words| RtoConfig::find(words).unwrap_err();
        assert!(matches!(refused("rfc6298,min=2s,max=1s"), InvalidRto::BoundsCrossed { .. }));
        for words in ["k=0", "rfc793,beta=0"] {
            assert_eq!(refused(words), InvalidRto::ZeroFactor, "{words}");
        }
        assert!(matches!(refused("g=5s"), InvalidRto::Granularity(_)));
        assert!(matches!(refused("initial=0"), InvalidRto::Timeout { .. }));
        assert!(matches!(refused("min=0,max=0"), InvalidRto::Timeout { .. }));
        assert!(matches!(refused("initial=99999999s"), InvalidRto::Timeout { .. }));
        assert_eq!(refused("arithmetic=ticks"), InvalidRto::NoTick);
        for words in ["rfc793,k=4", "ap-static-500,k=4", "beta=2"] {
            assert!(matches!(refused(words), InvalidRto::NoFactor { .. }), "{words}");
        }
    }

    #[test]
    fn written_estimators_read_back_the_same() {
        for words in [
            "rfc6298",
            "ap-k-16",
            "bfa-1998,k=5,k-falling=3,g=1ms",
            "rfc793,beta=3,a1=0,a2=1,initial=1.5s",
            "rfc6298,min=1s,heartbeat=on,sampling=flight,floor=deviation,adapt=on,max=64s,k=7,a1=1/3",
            "ap-static-2000,initial=1500us,g=10ns",
            "ap-g-500,initial=0.000000001s",
        ] {
            let config = RtoConfig::find(words).unwrap();
            assert_eq!(RtoConfig::find(&config.to_string()), Ok(config), "{words}: {config}");
        }
        assert_eq!(RtoConfig::find("rfc6298,min=1s,g=500ms").unwrap().to_string(), "rfc6298-strict,g=500ms");
    }

    #[test]
    fn timeout_without_backoff_is_for_simulated_networks_only() {
        let config = RtoConfig::find_for_simulations("rfc6298,backoff=off").unwrap();
        assert_eq!(config, RtoConfig { backoff: Backoff::None, ..RtoConfig::RFC_6298 });
        for words in ["rfc6298,backoff=off", "backoff=on"] {
            assert!(matches!(RtoConfig::find(words), Err(InvalidRto::Parameter { .. })), "{words}");
        }
        assert_eq!(RtoConfig::find_for_simulations(&config.to_string()), Ok(config));
    }

    #[test]
    fn errors_list_what_would_do() {
        let said = |words: &str| RtoConfig::find(words).unwrap_err().to_string();
        assert!(said("rfc6289").contains("rfc6298, rfc6298-strict"), "{}", said("rfc6289"));
        for words in ["rfc6298,min", "k=256", "a1=2/3", "a1=1/0", "speed=3", "adapt=2", "=", "rfc6298,"] {
            assert!(said(words).contains("min=TIME"), "{words}: {}", said(words));
        }
        for name in ["min", "max", "initial", "g"] {
            let (bare, never) = (format!("{name}=1"), format!("{name}=never"));
            assert_eq!(
                said(&bare),
                format!("`{bare}` is not possible: `1` has no unit; write `1ms` or `1s`")
            );
            assert!(
                said(&never).starts_with(&format!("`{never}` is not possible: found `never`; allowed is a"))
            );
        }
        assert_eq!(RtoConfig::find("min=150us,max=2min").unwrap().to_string(), "rfc6298,min=150us,max=120s");
    }
}
