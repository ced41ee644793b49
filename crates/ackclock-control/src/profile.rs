//! Profiles: named sets of choices that reproduce a sender and a receiver of their time.
//!
//! A profile is data. Others build what it names: the [`Registry`](crate::congestion::Registry) the
//! controllers, [`RttEstimator`](crate::rtt::RttEstimator) the timeouts, the core the recovery policies.

mod choice;
mod choices;
mod overrides;
mod systems;
mod table;

use std::time::Duration;

pub use self::choices::{CHOICES, Choice, Choices, InvalidChoice, Named};
pub use self::overrides::Overrides;
pub use self::systems::System;
use crate::Instant;
use crate::divide::at_least_one;
use crate::time::nanos;

/// A named set of choices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// The name under which it is chosen.
    pub name: &'static str,
    /// One line on what it is.
    pub summary: &'static str,
    /// Where it is described.
    pub source: &'static str,
    /// Name of the congestion controller.
    pub congestion: &'static str,
    /// Everything else.
    pub choices: Choices,
}

impl Profile {
    /// The default: CUBIC with HyStart++, SACK, RACK-TLP, PRR, timestamps, pacing, undo.
    #[must_use]
    pub fn modern() -> Self {
        table::MODERN
    }

    /// Finds a profile by name.
    ///
    /// # Errors
    /// [`UnknownProfile`]; its message lists the valid names.
    ///
    /// ```
    /// use ackclock_control::profile::Profile;
    ///
    /// assert_eq!(Profile::find("vegas-1995")?.congestion, "vegas");
    /// assert!(Profile::find("vegas").unwrap_err().to_string().contains("vegas-1995"));
    /// # Ok::<(), ackclock_control::profile::UnknownProfile>(())
    /// ```
    pub fn find(name: &str) -> Result<Self, UnknownProfile> {
        let found = table::ALL.iter().find(|profile| profile.name == name);
        found.copied().ok_or_else(|| UnknownProfile { name: name.to_owned() })
    }

    /// All profiles, the default first, then by year, then those of today's systems.
    pub fn all() -> impl Iterator<Item = Self> {
        table::ALL.iter().copied()
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::modern()
    }
}

/// How losses are found and repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Recovery {
    /// The timer alone; everything outstanding is sent again (before 1988).
    GoBackN,
    /// Fast retransmit, then slow start (4.3BSD-Tahoe).
    Tahoe,
    /// Fast recovery up to the first new acknowledgement (4.3BSD-Reno; RFC 5681).
    Reno,
    /// Reno as it was released in 1990 and 1991: duplicates after a timeout retransmit, too (Net/2).
    Net2Reno,
    /// Fast recovery up to the last segment outstanding at its start (RFC 6582).
    NewReno,
    /// Selective acknowledgements (RFC 6675).
    Sack,
    /// Time-based detection and tail loss probes (RFC 8985), with proportional rate reduction.
    RackTlp,
    /// Reno with the fine-grained check of first duplicates (Brakmo and Peterson 1995, §III-A).
    Vegas,
    /// Vegas by the clock of USC's NetBSD.
    VegasUsc,
}

impl Recovery {
    /// All policies with their names.
    pub const ALL: [(&'static str, Self); 9] = [
        ("go-back-n", Self::GoBackN),
        ("tahoe", Self::Tahoe),
        ("reno", Self::Reno),
        ("net2-reno", Self::Net2Reno),
        ("newreno", Self::NewReno),
        ("sack", Self::Sack),
        ("rack-tlp", Self::RackTlp),
        ("vegas", Self::Vegas),
        ("vegas-usc", Self::VegasUsc),
    ];

    /// The name under which it is chosen.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, policy)| *policy == self).map_or("unknown", |(name, _)| name)
    }

    /// Finds a policy by name.
    ///
    /// # Errors
    /// [`UnknownRecovery`]; its message lists the valid names.
    pub fn find(name: &str) -> Result<Self, UnknownRecovery> {
        let found = Self::ALL.iter().find(|(valid, _)| *valid == name);
        found.map(|&(_, policy)| policy).ok_or_else(|| UnknownRecovery { name: name.to_owned() })
    }
}

/// Which proofs that nothing was lost take a reduction back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct UndoChoice {
    /// An echoed timestamp older than the retransmission (Eifel, RFC 3522 and 4015).
    pub timestamps: bool,
    /// A duplicate reported by SACK (RFC 3708).
    pub dsack: bool,
    /// Acknowledgements of new data after a timeout (RFC 5682).
    pub frto: bool,
    /// An acknowledgement sooner after a retransmission than this many quarters of the smallest round trip
    /// (Allman and Paxson §2.8: 2 or 3).
    pub min_rtt_quarters: Option<u8>,
}

/// When the receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPolicy {
    /// Every second full-sized segment at once, the rest after a delay (RFC 9293 §3.8.6.3; Jacobson and
    /// Karels 1988).
    EverySecondSegment {
        /// The longest delay.
        delay_max: Duration,
    },
    /// Every second full-sized segment at once, the rest at the next tick of a free-running clock (4.4BSD:
    /// 200 ms; Allman and Paxson §3.3.1).
    EverySecondByTick {
        /// The time from tick to tick.
        tick: Duration,
    },
    /// When the window can move on by a share of it, or at the next tick of a free-running clock,
    /// whether or not there are gaps (4.3BSD: 35 % or 200 ms; Jacobson and Karels 1988, fig. 9).
    WindowShare {
        /// The share in hundredths.
        percent: u8,
        /// The time from tick to tick: the longest delay.
        delay_max: Duration,
    },
}

impl AckPolicy {
    /// The longest delay of an acknowledgement.
    #[must_use]
    pub fn delay_max(self) -> Duration {
        match self {
            Self::EverySecondSegment { delay_max }
            | Self::EverySecondByTick { tick: delay_max }
            | Self::WindowShare { delay_max, .. } => delay_max,
        }
    }

    /// The latest time to acknowledge data that arrives `now`. The clock of [`Self::WindowShare`] ticks
    /// `phase` nanoseconds before each multiple of its tick, and that of [`Self::EverySecondByTick`] at
    /// each.
    #[must_use]
    #[inline]
    pub fn deadline(self, now: Instant, phase: u32) -> Instant {
        let (tick, phase) = match self {
            Self::EverySecondSegment { delay_max } => return now + delay_max,
            Self::EverySecondByTick { tick } => (tick, 0),
            Self::WindowShare { delay_max, .. } => (delay_max, phase),
        };
        let tick = at_least_one(nanos(tick));
        let since = now.as_nanos().saturating_add(phase.into()) % tick;
        now.plus_nanos(tick.get().saturating_sub(since))
    }
}

/// Explicit congestion notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Ecn {
    /// Not negotiated.
    Off,
    /// RFC 3168.
    Classic,
    /// RFC 9768, falling back to RFC 3168.
    Accurate,
}

/// No profile has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no profile is called `{name}`; choose one of: {}",
    Profile::all().map(|profile| profile.name).collect::<Vec<_>>().join(", ")
)]
pub struct UnknownProfile {
    /// The name asked for.
    pub name: String,
}

/// No recovery policy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no loss recovery is called `{name}`; choose one of: \
    {}", Recovery::ALL.map(|(name, _)| name).join(", "))]
pub struct UnknownRecovery {
    /// The name asked for.
    pub name: String,
}

ackclock_form::form! {
    enum Recovery {
        0 GoBackN, 1 Tahoe, 2 Reno, 3 Net2Reno, 4 NewReno, 5 Sack, 6 RackTlp, 7 Vegas, 8 VegasUsc
    }
    struct UndoChoice { timestamps, dsack, frto, min_rtt_quarters }
    enum AckPolicy {
        0 EverySecondSegment { delay_max }, 1 EverySecondByTick { tick },
        2 WindowShare { percent, delay_max }
    }
    enum Ecn { 0 Off, 1 Classic, 2 Accurate }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::{Choices, Ecn, Profile, Recovery};
    use crate::congestion::Registry;
    use crate::kit::{Flow, Path};

    #[test]
    fn default_is_modern() {
        let profile = Profile::default();
        assert_eq!(
            (profile.name, profile.congestion, profile.choices.recovery),
            ("modern", "cubic", Recovery::RackTlp)
        );
        let Choices { pacing, undo, sack, ecn, .. } = profile.choices;
        assert!(pacing && undo.timestamps && sack);
        assert_eq!(ecn, Ecn::Off);
    }

    #[test]
    fn names_are_unique_and_found() {
        let names: HashSet<_> = Profile::all().map(|profile| profile.name).collect();
        assert_eq!(names.len(), Profile::all().count());
        assert!(Profile::all().all(|profile| Profile::find(profile.name) == Ok(profile)));
    }

    #[test]
    fn unknown_names_list_the_valid_ones() {
        let message = Profile::find("reno").unwrap_err().to_string();
        assert!(message.contains("modern") && message.contains("reno-1990"), "{message}");
        let message = Recovery::find("rack").unwrap_err().to_string();
        assert!(message.ends_with("sack, rack-tlp, vegas, vegas-usc"), "{message}");
        assert!(
            Recovery::ALL
                .iter()
                .all(|&(name, policy)| Recovery::find(name) == Ok(policy) && policy.name() == name)
        );
    }

    #[test]
    fn every_profile_moves_data() {
        let registry = Registry::with_experiments();
        for profile in Profile::all() {
            let factory = registry.find(profile.congestion).unwrap();
            let segments = profile.choices.initial_window_segments;
            let mut flow = Flow::with_initial_window(factory.as_ref(), Path::TYPICAL, segments);
            flow.run(Duration::from_secs(20));
            assert!(flow.totals().delivered > 20 * Path::TYPICAL.rate / 2, "{}", profile.name);
        }
    }

    #[test]
    fn profiles_of_devices_need_no_experiment() {
        let registry = Registry::builtin();
        let experiments: Vec<_> = Profile::all()
            .filter(|profile| registry.find(profile.congestion).is_err())
            .map(|profile| profile.name)
            .collect();
        assert_eq!(experiments, ["bsd43-1986", "none-1987"]);
    }
}
