//! Parsing the choices of a profile, and a one-line summary of each for lists.

use std::fmt;
use std::time::Duration;

use super::{AckPolicy, Ecn, Recovery, UndoChoice};
use crate::InvalidParameter;
use crate::quantity::{Span, exact};

impl Recovery {
    /// One line on what the policy does, and where it is described.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::GoBackN => "the timer alone, then everything outstanding again (before 1988)",
            Self::Tahoe => "fast retransmit, then slow start (4.3BSD-Tahoe; Jacobson and Karels 1988)",
            Self::Reno => "fast recovery up to the first new acknowledgement (4.3BSD-Reno; RFC 5681)",
            Self::Net2Reno => "the same as released in 1990: duplicates after a timeout retransmit (Net/2)",
            Self::NewReno => "fast recovery until all that was outstanding is acknowledged (RFC 6582)",
            Self::Sack => "selective acknowledgements tell what is lost (RFC 6675)",
            Self::RackTlp => "time tells what is lost, probes for lost tails (RFC 8985)",
            Self::Vegas => "Reno, with a look at the clock at first duplicates (Brakmo and Peterson 1995)",
            Self::VegasUsc => "the same by the clock of USC's NetBSD",
        }
    }
}

impl UndoChoice {
    /// No proof is used.
    pub const OFF: Self = Self { timestamps: false, dsack: false, frto: false, min_rtt_quarters: None };
    /// All proofs that need no threshold.
    pub const ALL: Self = Self { timestamps: true, dsack: true, frto: true, min_rtt_quarters: None };

    /// All proofs by name, with what proves and where it is described. `N` is a parameter.
    pub const PROOFS: [(&'static str, &'static str); 4] = [
        (
            "timestamps",
            "the acknowledgement echoes a timestamp older than the retransmission (Eifel, RFC 3522, RFC 4015)",
        ),
        ("dsack", "the peer reports that it received the retransmission twice (RFC 3708)"),
        ("frto", "after a timeout, acknowledgements of data that was not sent again (RFC 5682)"),
        (
            "min-rtt:N",
            "an acknowledgement within N quarters of the smallest round trip after a timeout (Allman and \
             Paxson 1999, §2.8)",
        ),
    ];

    /// Parses a choice: `off`, `all`, or any of `timestamps`, `dsack`, `frto` and `min-rtt:N` (N quarters of
    /// the smallest round trip, 1 to 4), separated by commas.
    ///
    /// # Errors
    /// [`InvalidParameter`]; its message lists the valid choices.
    pub fn find(words: &str) -> Result<Self, InvalidParameter> {
        let wrong = |word| InvalidParameter::new(word, UNDO_VALID);
        match words {
            "off" => return Ok(Self::OFF),
            "all" => return Ok(Self::ALL),
            _ => {}
        }
        let mut choice = Self::OFF;
        for word in words.split(',').map(str::trim) {
            match word.split_once(':').unwrap_or((word, "")) {
                ("timestamps", "") => choice.timestamps = true,
                ("dsack", "") => choice.dsack = true,
                ("frto", "") => choice.frto = true,
                ("min-rtt", quarters) => {
                    let quarters = quarters.parse().ok().filter(|quarters| (1..=4).contains(quarters));
                    choice.min_rtt_quarters = Some(quarters.ok_or_else(|| wrong(word))?);
                }
                _ => return Err(wrong(word)),
            }
        }
        Ok(choice)
    }
}

impl fmt::Display for UndoChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quarters = self.min_rtt_quarters.map(|quarters| format!("min-rtt:{quarters}"));
        let words = [
            self.timestamps.then_some("timestamps"),
            self.dsack.then_some("dsack"),
            self.frto.then_some("frto"),
            quarters.as_deref(),
        ];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        f.write_str(&if words.is_empty() { "off".to_owned() } else { words.join(",") })
    }
}

impl AckPolicy {
    /// Every second full-sized segment at once, the rest within 40 ms.
    pub const EVERY_SECOND: Self = Self::EverySecondSegment { delay_max: Duration::from_millis(40) };
    /// 4.3BSD: 35 % of the window or 200 ms.
    pub const BSD_4_3: Self = Self::WindowShare { percent: 35, delay_max: Duration::from_millis(200) };

    /// All policies by name, with what they do. Words in capitals are parameters.
    pub const NAMES: [(&'static str, &'static str); 5] = [
        (
            "every-second",
            "every second full-sized segment at once, the rest within 40 ms (RFC 9293 §3.8.6.3)",
        ),
        ("every-second:DELAY", "the same within another delay"),
        (
            "every-second-tick:TIME",
            "the rest at the next tick of a free-running clock (4.4BSD; Allman and Paxson 1999, §3.3.1)",
        ),
        (
            "window-share",
            "when 35 % of the window can move on, or after 200 ms (4.3BSD; Jacobson and Karels 1988)",
        ),
        ("window-share:PERCENT,DELAY", "the same with another share and delay"),
    ];

    /// Parses a policy: `every-second` or `every-second:DELAY`, `every-second-tick:TIME`, `window-share` or
    /// `window-share:PERCENT,DELAY`. Delay and time are at most 500 ms (RFC 9293 MUST-40).
    ///
    /// # Errors
    /// [`InvalidParameter`]; its message lists the valid choices.
    pub fn find(words: &str) -> Result<Self, InvalidParameter> {
        let wrong = || InvalidParameter::new(words, ACKS_VALID);
        let delay = |word: &str| match word.parse() {
            Ok(delay) => Ok(Span::duration(delay)),
            Err(error) => Err(InvalidParameter::new(words, format!("{error}; {ACKS_VALID}"))),
        };
        let policy = match words.split_once(':') {
            None if words == "every-second" => Self::EVERY_SECOND,
            None if words == "window-share" => Self::BSD_4_3,
            Some(("every-second", word)) => Self::EverySecondSegment { delay_max: delay(word)? },
            Some(("every-second-tick", word)) => Self::EverySecondByTick { tick: delay(word)? },
            Some(("window-share", parameters)) => {
                let (percent, word) = parameters.split_once(',').ok_or_else(wrong)?;
                let percent = exact(percent.trim_end_matches('%'), 1).and_then(|n| u8::try_from(n).ok());
                Self::WindowShare { percent: percent.ok_or_else(wrong)?, delay_max: delay(word)? }
            }
            _ => return Err(wrong()),
        };
        policy.check()?;
        Ok(policy)
    }

    /// Checks that a receiver can apply this policy.
    ///
    /// # Errors
    /// [`InvalidParameter`] for a delay of more than 500 ms (RFC 9293 MUST-40) or a share outside 1 to 100 %.
    pub fn check(self) -> Result<(), InvalidParameter> {
        let share_fits = match self {
            Self::EverySecondSegment { .. } | Self::EverySecondByTick { .. } => true,
            Self::WindowShare { percent, .. } => (1..=100).contains(&percent),
        };
        if share_fits && self.delay_max() <= DELAY_MAX {
            return Ok(());
        }
        Err(InvalidParameter::new(self.to_string(), ACKS_VALID))
    }
}

/// The words of the choice: `every-second:40ms`.
#[cfg(feature = "serde")]
impl serde::Serialize for AckPolicy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for AckPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EverySecondSegment { delay_max } => write!(f, "every-second:{}", Span::from(*delay_max)),
            Self::EverySecondByTick { tick } => write!(f, "every-second-tick:{}", Span::from(*tick)),
            Self::WindowShare { percent, delay_max } => {
                write!(f, "window-share:{percent},{}", Span::from(*delay_max))
            }
        }
    }
}

impl Ecn {
    /// All forms with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("off", Self::Off), ("classic", Self::Classic), ("accurate", Self::Accurate)];

    /// Finds a form by name: `off`, `classic` or `accurate`.
    ///
    /// # Errors
    /// [`InvalidParameter`]; its message lists the names.
    pub fn find(name: &str) -> Result<Self, InvalidParameter> {
        let found = Self::ALL.iter().find(|(valid, _)| *valid == name).map(|(_, form)| *form);
        found.ok_or_else(|| InvalidParameter::new(name, ECN_VALID))
    }

    /// The name under which it is chosen.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, form)| *form == self).map_or("unknown", |(name, _)| name)
    }

    /// One line on what is negotiated, and where it is described.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::Off => "not negotiated",
            Self::Classic => "one answer in a round trip (RFC 3168)",
            Self::Accurate => "the number of marks, falling back to RFC 3168 (RFC 9768)",
        }
    }
}

const UNDO_VALID: &str = "for undo, choose off, all, or any of timestamps, dsack, frto, min-rtt:N (N of 1 to \
     4 quarters of the smallest round trip), separated by commas";
const ACKS_VALID: &str = "for acknowledgements, choose every-second, every-second:DELAY, \
    every-second-tick:TIME, window-share, or window-share:PERCENT,DELAY, as window-share:35,200ms; delay and \
    time are at most 500ms, the share 1 to 100 %";
const ECN_VALID: &str = "for ECN, choose off, classic (RFC 3168) or accurate (RFC 9768)";

// RFC 9293 MUST-40: an acknowledgement is delayed by less than 0.5 seconds.
const DELAY_MAX: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{AckPolicy, Ecn, UndoChoice};
    use crate::profile::Profile;

    #[test]
    fn undo_is_any_set_of_proofs() {
        assert_eq!(UndoChoice::find("off"), Ok(UndoChoice::OFF));
        assert_eq!(UndoChoice::find("all"), Ok(Profile::modern().choices.undo));
        let some = UndoChoice { dsack: true, min_rtt_quarters: Some(2), ..UndoChoice::OFF };
        assert_eq!(UndoChoice::find("dsack,min-rtt:2"), Ok(some));
        assert_eq!(some.to_string().parse(), Ok(some));
        assert_eq!(UndoChoice::OFF.to_string(), "off");
        for words in ["", "dsak", "min-rtt", "min-rtt:0", "min-rtt:5", "dsack,", "dsack:1", "off,dsack"] {
            assert!(UndoChoice::find(words).unwrap_err().to_string().contains("min-rtt:N"), "{words}");
        }
    }

    #[test]
    fn ack_policies_have_names_and_parameters() {
        let ms = Duration::from_millis;
        assert_eq!(AckPolicy::find("every-second"), Ok(Profile::modern().choices.acks));
        assert_eq!(AckPolicy::find("window-share"), Ok(Profile::find("none-1987").unwrap().choices.acks));
        let policy = AckPolicy::EverySecondSegment { delay_max: ms(100) };
        assert_eq!(AckPolicy::find("every-second:100ms"), Ok(policy));
        let policy = AckPolicy::EverySecondByTick { tick: ms(200) };
        assert_eq!(AckPolicy::find("every-second-tick:200ms"), Ok(policy));
        assert_eq!(policy.to_string().parse(), Ok(policy));
        let policy = AckPolicy::WindowShare { percent: 50, delay_max: ms(500) };
        assert_eq!(AckPolicy::find("window-share:50%, 0.5s"), Ok(policy));
        assert_eq!(policy.to_string().parse(), Ok(policy));
        for words in [
            "",
            "window-share:0,200ms",
            "window-share:101,200ms",
            "window-share:35",
            "every-second:501ms",
            "each",
        ] {
            assert!(
                AckPolicy::find(words).unwrap_err().to_string().contains("window-share:35,200ms"),
                "{words}"
            );
        }
    }

    #[test]
    fn delays_are_times_with_their_units() {
        let tick = Duration::from_micros(1500);
        for words in ["every-second-tick:1500us", "every-second-tick:1.5ms", "every-second-tick:0.0015s"] {
            assert_eq!(AckPolicy::find(words), Ok(AckPolicy::EverySecondByTick { tick }), "{words}");
        }
        for words in ["every-second:100", "every-second-tick:100", "window-share:35,100"] {
            let message = AckPolicy::find(words).unwrap_err().to_string();
            let unit =
                "`100` has no unit; write `100ms` or `100s`; for acknowledgements, choose every-second";
            assert!(message.starts_with(&format!("`{words}` is not possible: {unit}")), "{message}");
        }
    }

    #[test]
    fn ecn_has_three_forms() {
        for (name, ecn) in Ecn::ALL {
            assert_eq!((Ecn::find(name), ecn.name()), (Ok(ecn), name));
        }
        assert!(Ecn::find("on").unwrap_err().to_string().contains("accurate (RFC 9768)"));
    }
}
