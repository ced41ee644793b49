//! The choices of a connection, and the table from which flags, scenario files, lists and pages come.
//!
//! A new choice is a field of [`Choices`] and a row of [`CHOICES`], its value in the profiles (`table.rs`),
//! its place in recordings, and what it does in the core.

use std::fmt;

use super::{AckPolicy, Ecn, Profile, Recovery, UndoChoice};
use crate::bandwidth::SenderEstimatorKind;
use crate::congestion::IdlePolicy;
use crate::names::nearest;
use crate::rtt::{Backoff, RtoConfig, presets};

/// How a connection sends and acknowledges: all that a profile chooses, except the congestion controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choices {
    /// How losses are found and repaired, as far as the peer's options allow.
    pub recovery: Recovery,
    /// Parameters of the retransmission timeout, with the tick of its clock.
    pub rto: RtoConfig,
    /// The estimator that sets the first ssthresh, if any.
    pub start_up: Option<SenderEstimatorKind>,
    /// The proofs that take a wrong reduction back.
    pub undo: UndoChoice,
    /// The congestion window after idleness.
    pub idle: IdlePolicy,
    /// Whether to spread the window over the round trip, at a rate computed from the two, if the controller
    /// has no rate.
    pub pacing: bool,
    /// Initial window in segments (RFC 6928: 10).
    pub initial_window_segments: u32,
    /// When received data is acknowledged. No delay is longer than 500 ms (RFC 9293 MUST-40).
    pub acks: AckPolicy,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// How many bandwidth samples the receiver takes while the peer starts up, up to 256 (Allman and Paxson
    /// 1999, §3.4: 50); `None` (the default): none.
    pub receiver_bandwidth: Option<usize>,
}

impl Choices {
    /// Sets the choice with this key, as a flag or a line of a scenario does.
    ///
    /// # Errors
    /// [`InvalidChoice`]; its message lists the valid keys or values.
    ///
    /// ```
    /// use ackclock_control::profile::{Choices, Ecn};
    ///
    /// let mut choices = Choices::default();
    /// choices.choose("ecn", "classic")?;
    /// assert_eq!(choices.ecn, Ecn::Classic);
    /// assert!(choices.choose("enc", "classic").unwrap_err().to_string().contains("the nearest is `ecn`"));
    /// # Ok::<(), ackclock_control::profile::InvalidChoice>(())
    /// ```
    pub fn choose(&mut self, key: &str, value: &str) -> Result<(), InvalidChoice> {
        Choice::find(key)?.set(self, value)
    }

    /// Whether these choices break a rule that every network but a simulated one relies on: a timeout that
    /// does not double at each expiry.
    #[must_use]
    pub fn for_simulations_only(&self) -> bool {
        self.rto.backoff != Backoff::Doubling
    }
}

impl Default for Choices {
    /// Those of the profile `modern`.
    fn default() -> Self {
        Profile::modern().choices
    }
}

/// One row of [`CHOICES`].
#[derive(Debug)]
pub struct Choice {
    /// The name of its flag and of its key in a scenario file, as in `initial-window`.
    pub key: &'static str,
    /// The form of a value, as in `SEGMENTS`.
    pub grammar: &'static str,
    /// A value other than the default's.
    pub example: &'static str,
    /// One line on what it decides.
    pub help: &'static str,
    /// Where it is described.
    pub source: &'static str,
    names: Names,
    get: fn(&Choices) -> String,
    set: fn(&mut Choices, &str) -> Result<(), String>,
}

/// The names that a value can begin with, or none.
#[derive(Debug)]
enum Names {
    /// A value is one of these.
    Only(fn() -> Vec<Named>),
    /// A value can be something else too, such as one of these with parameters.
    Among(fn() -> Vec<Named>),
}

/// A value with a name, and one line on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: &'static str,
    /// Its behaviour, and the place that describes it.
    pub summary: &'static str,
}

impl Choice {
    /// The row with this key.
    ///
    /// # Errors
    /// [`InvalidChoice`] names the nearest key, and all.
    pub fn find(key: &str) -> Result<&'static Self, InvalidChoice> {
        CHOICES.iter().find(|choice| choice.key == key).ok_or_else(|| {
            let keys = CHOICES.iter().map(|choice| choice.key);
            let hint = nearest(key, keys.clone()).unwrap_or_default();
            let keys = keys.collect::<Vec<_>>().join(", ");
            let what = format!("no choice is called `{key}`; there are {keys}; the nearest is `{hint}`");
            InvalidChoice { key: key.to_owned(), value: String::new(), what }
        })
    }

    /// The value, in words that [`Self::set`] reads.
    #[must_use]
    pub fn get(&self, choices: &Choices) -> String {
        (self.get)(choices)
    }

    /// Sets the value. Nothing changes if it is not valid.
    ///
    /// # Errors
    /// [`InvalidChoice`]; its message lists the valid values.
    pub fn set(&self, choices: &mut Choices, value: &str) -> Result<(), InvalidChoice> {
        let wrong = |what| InvalidChoice { key: self.key.to_owned(), value: value.to_owned(), what };
        (self.set)(choices, value).map_err(wrong)
    }

    /// The values that have names.
    #[must_use]
    pub fn names(&self) -> Vec<Named> {
        let (Names::Only(names) | Names::Among(names)) = self.names;
        names()
    }

    /// Whether a value must be one of [`Self::names`], without parameters.
    #[must_use]
    pub fn is_one_of_names(&self) -> bool {
        matches!(self.names, Names::Only(_))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

/// A key or a value of a choice that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct InvalidChoice {
    /// The key.
    pub key: String,
    /// The value; empty if no choice has the key.
    pub value: String,
    /// The mistake, and the valid values.
    pub what: String,
}

/// Makes [`CHOICES`], and of its rows the first sentence of each setter's documentation.
macro_rules! choices {
    ($(Choice {
        key: $key:tt,
        grammar: $grammar:expr,
        example: $example:literal,
        help: $help:literal,
        source: $source:literal,
        $($rest:tt)*
    })*) => {
        /// Every field of [`Choices`], in the order in which lists show them.
        pub static CHOICES: [Choice; [$($key),*].len()] = [$(Choice {
            key: $key,
            grammar: $grammar,
            example: $example,
            help: $help,
            source: $source,
            $($rest)*
        }),*];

        /// The decision of the choice with this key, as the documentation of its setters.
        #[doc(hidden)]
        #[macro_export]
        macro_rules! choice_doc {
            $(($key) => {
                concat!($help, " (`", $key, "`; ", $source, ").")
            };)*
        }
    };
}

choices! {
    Choice {
        key: "recovery",
        grammar: "NAME",
        example: "newreno",
        help: "How losses are found and repaired: rack-tlp, sack, newreno, ...",
        source: "RFC 8985, 6675, 6582, 5681",
        names: Names::Only(|| named(Recovery::ALL.map(|(name, policy)| (name, policy.summary())))),
        get: |choices| choices.recovery.name().to_owned(),
        set: |choices, value| store(&mut choices.recovery, Recovery::find(value)),
    }
    Choice {
        key: "rto",
        grammar: "NAME",
        example: "rfc6298-strict,g=500ms",
        help: "Retransmission timeout: a preset, with changes: rfc6298,min=1s,g=500ms",
        source: "RFC 6298; Allman and Paxson 1999, §2",
        names: Names::Among(|| named(presets::all().map(|preset| (preset.name, preset.source)))),
        get: |choices| choices.rto.to_string(),
        set: |choices, value| store(&mut choices.rto, RtoConfig::find_for_simulations(value)),
    }
    Choice {
        key: "undo",
        grammar: "PROOFS",
        example: "timestamps,dsack",
        help: "Proofs that revert a wrong reduction: off, all, or any of timestamps,dsack,frto,min-rtt:N",
        source: "RFC 3522, 4015, 3708, 5682; Allman and Paxson 1999, §2.8",
        names: Names::Among(|| named(UndoChoice::PROOFS)),
        get: |choices| choices.undo.to_string(),
        set: |choices, value| store(&mut choices.undo, UndoChoice::find(value)),
    }
    Choice {
        key: "start-up",
        grammar: "NAME",
        example: "csa:5,0.2",
        help: "Bandwidth estimator that ends the first slow start: off, csa, csa:5,0.2, ...",
        source: "Allman and Paxson 1999, §3; Keshav 1991",
        names: Names::Among(|| {
            let kinds = SenderEstimatorKind::ALL.map(|(name, kind)| (name, kind.summary()));
            named([(OFF, "none: slow start ends as the controller decides")].into_iter().chain(kinds))
        }),
        get: |choices| choices.start_up.map_or_else(off, |kind| kind.to_string()),
        set: |choices, value| {
            let kind = if value == OFF { Ok(None) } else { SenderEstimatorKind::find(value).map(Some) };
            store(&mut choices.start_up, kind.map_err(|error| format!("{error}; or off")))
        },
    }
    Choice {
        key: "idle",
        grammar: "POLICY",
        example: "restart-window",
        help: "The window after idleness: validated, restart-window, one-segment or keep",
        source: "RFC 7661, RFC 5681 §4.1; Jacobson and Karels 1988",
        names: Names::Only(|| named(IdlePolicy::ALL.map(|(name, policy)| (name, policy.summary())))),
        get: |choices| choices.idle.name().to_owned(),
        set: |choices, value| store(&mut choices.idle, IdlePolicy::find(value)),
    }
    Choice {
        key: "pacing",
        grammar: SWITCH,
        example: "off",
        help: "Pace segments",
        source: "Aggarwal, Savage and Anderson 2000",
        names: Names::Only(|| named(ON_OR_OFF)),
        get: |choices| switch(choices.pacing),
        set: |choices, value| set_switch(&mut choices.pacing, value),
    }
    Choice {
        key: "initial-window",
        grammar: "SEGMENTS",
        example: "3",
        help: "Initial window in segments, 1 to 65535",
        source: "RFC 6928",
        names: NO_NAMES,
        get: |choices| choices.initial_window_segments.to_string(),
        set: |choices, value| {
            let segments = value.parse().ok().filter(|segments| (1..=65_535).contains(segments));
            let wrong = || format!("`{value}` is not an initial window: write 1 to 65535 segments, as 10");
            store(&mut choices.initial_window_segments, segments.ok_or_else(wrong))
        },
    }
    Choice {
        key: "acks",
        grammar: "POLICY",
        example: "every-second:100ms",
        help: "When to acknowledge data: every-second, every-second:DELAY, every-second-tick:TIME, \
               window-share or window-share:PERCENT,DELAY",
        source: "RFC 9293 §3.8.6.3; Jacobson and Karels 1988; Allman and Paxson 1999, §3.3.1",
        names: Names::Among(|| named(AckPolicy::NAMES)),
        get: |choices| choices.acks.to_string(),
        set: |choices, value| store(&mut choices.acks, AckPolicy::find(value)),
    }
    Choice {
        key: "ecn",
        grammar: "FORM",
        example: "classic",
        help: "Explicit congestion notification: off, classic (RFC 3168) or accurate (RFC 9768)",
        source: "RFC 3168, 9768",
        names: Names::Only(|| named(Ecn::ALL.map(|(name, form)| (name, form.summary())))),
        get: |choices| choices.ecn.name().to_owned(),
        set: |choices, value| store(&mut choices.ecn, Ecn::find(value)),
    }
    Choice {
        key: "sack",
        grammar: SWITCH,
        example: "off",
        help: "Offer selective acknowledgements",
        source: "RFC 2018",
        names: Names::Only(|| named(ON_OR_OFF)),
        get: |choices| switch(choices.sack),
        set: |choices, value| set_switch(&mut choices.sack, value),
    }
    Choice {
        key: "timestamps",
        grammar: SWITCH,
        example: "off",
        help: "Offer timestamps",
        source: "RFC 7323 §3",
        names: Names::Only(|| named(ON_OR_OFF)),
        get: |choices| switch(choices.timestamps),
        set: |choices, value| set_switch(&mut choices.timestamps, value),
    }
    Choice {
        key: "window-scaling",
        grammar: SWITCH,
        example: "off",
        help: "Offer window scaling; without it no window exceeds 65,535 bytes",
        source: "RFC 7323 §2",
        names: Names::Only(|| named(ON_OR_OFF)),
        get: |choices| switch(choices.window_scaling),
        set: |choices, value| set_switch(&mut choices.window_scaling, value),
    }
    Choice {
        key: "receiver-bandwidth",
        grammar: "SAMPLES",
        example: "50",
        help: "Bandwidth samples that the receiver takes while the peer starts up: off, or 1 to 256",
        source: "Allman and Paxson 1999, §3.4",
        names: NO_NAMES,
        get: |choices| choices.receiver_bandwidth.map_or_else(off, |samples| samples.to_string()),
        set: |choices, value| {
            let samples = value.parse().ok().filter(|samples| (1..=256).contains(samples)).map(Some);
            let samples = if value == OFF { Some(None) } else { samples };
            let wrong = || format!("`{value}` is not a number of samples: write off, or 1 to 256");
            store(&mut choices.receiver_bandwidth, samples.ok_or_else(wrong))
        },
    }
}

const OFF: &str = "off";
const SWITCH: &str = "on|off";
const ON_OR_OFF: [(&str, &str); 2] = [("on", "it is"), (OFF, "it is not")];
const NO_NAMES: Names = Names::Among(Vec::new);

fn off() -> String {
    OFF.to_owned()
}

fn named(names: impl IntoIterator<Item = (&'static str, &'static str)>) -> Vec<Named> {
    names.into_iter().map(|(name, summary)| Named { name, summary }).collect()
}

fn store<T, E: fmt::Display>(field: &mut T, value: Result<T, E>) -> Result<(), String> {
    *field = value.map_err(|error| error.to_string())?;
    Ok(())
}

fn switch(on: bool) -> String {
    if on { "on".to_owned() } else { off() }
}

fn set_switch(field: &mut bool, value: &str) -> Result<(), String> {
    let on = match value {
        "on" | "true" => Ok(true),
        OFF | "false" => Ok(false),
        _ => Err(format!("`{value}` is neither on nor off")),
    };
    store(field, on)
}

ackclock_form::form! {
    struct Choices {
        recovery, rto, start_up, undo, idle, pacing, initial_window_segments, acks, ecn, sack, timestamps,
        window_scaling, receiver_bandwidth
    }
}
