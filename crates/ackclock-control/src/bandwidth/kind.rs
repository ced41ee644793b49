//! The estimators that may set ssthresh in a live connection, by name and parameters.

use std::fmt;
use std::time::Duration;

use super::{Csa, PacketPair, SenderEstimator, Tcsa, TcsaPrime, Tssf};
use crate::InvalidParameter;
use crate::quantity::exact;
use crate::time::nanos;

/// An estimator at the sender, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SenderEstimatorKind {
    /// [`Tssf`].
    Tssf {
        /// Acknowledgements of one flight, 2 to 100; 3 in the paper.
        n: u8,
    },
    /// [`Csa`].
    Csa(CsaConfig),
    /// [`Tcsa`].
    Tcsa(CsaConfig),
    /// [`TcsaPrime`].
    TcsaPrime(CsaConfig),
    /// [`PacketPair`].
    PacketPair,
}

/// The parameters of CSA(n, ν).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsaConfig {
    n: u8,
    nu_e4: u16,
}

impl CsaConfig {
    /// n = 3 and ν = 0.1, the values that the paper settles on.
    pub const PAPER: Self = Self { n: 3, nu_e4: 1000 };

    /// Groups of `n` acknowledgements, 2 to 100 (2 to 5 in the paper). Two neighbours may lie ν round trips
    /// apart, in ten thousandths: 1 to 10,000 (125 to 2,000 in the paper).
    ///
    /// # Errors
    /// [`InvalidParameter`] for any other.
    pub fn new(n: u8, nu_e4: u16) -> Result<Self, InvalidParameter> {
        if (2..=100).contains(&n) && (1..=10_000).contains(&nu_e4) {
            return Ok(Self { n, nu_e4 });
        }
        let valid = "n must be 2 to 100, nu 1/10000 to 10000/10000";
        Err(InvalidParameter::new(format!("n={n},nu={nu_e4}/10000"), valid))
    }

    /// Acknowledgements of a group.
    #[must_use]
    pub fn n(self) -> u32 {
        u32::from(self.n)
    }

    /// The longest time between two acknowledgements of a group.
    pub(super) fn gap_max(self, rtt: Duration) -> Duration {
        Duration::from_nanos(nanos(rtt).saturating_mul(self.nu_e4.into()) / E4)
    }
}

impl SenderEstimatorKind {
    /// All estimators by name, with the paper's parameters.
    pub const ALL: [(&'static str, Self); 5] = [
        ("tssf", Self::Tssf { n: 3 }),
        ("csa", Self::Csa(CsaConfig::PAPER)),
        ("tcsa", Self::Tcsa(CsaConfig::PAPER)),
        ("tcsa-prime", Self::TcsaPrime(CsaConfig::PAPER)),
        ("packet-pair", Self::PacketPair),
    ];

    /// Parses an estimator: its name, then, after a colon, any parameters that differ from the paper's, as in
    /// `tssf:5` or `csa:5,0.2`.
    ///
    /// # Errors
    /// [`InvalidEstimator`]; its message lists the valid choices.
    ///
    /// ```
    /// use ackclock_control::bandwidth::{CsaConfig, SenderEstimatorKind};
    ///
    /// let csa = SenderEstimatorKind::Csa(CsaConfig::new(5, 2000)?);
    /// assert_eq!(SenderEstimatorKind::find("csa:5,0.2")?, csa);
    /// assert!(SenderEstimatorKind::find("csa:1").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find(words: &str) -> Result<Self, InvalidEstimator> {
        let (name, parameters) = match words.split_once(':') {
            Some((name, parameters)) => (name, Some(parameters)),
            None => (words, None),
        };
        let named = Self::ALL.iter().find(|(valid, _)| *valid == name).map(|&(_, kind)| kind);
        let kind = named.ok_or_else(|| InvalidEstimator::Unknown { name: name.to_owned() })?;
        match parameters {
            Some(parameters) => kind.with_parameters(parameters),
            None => Some(kind),
        }
        .ok_or_else(|| InvalidEstimator::Parameters { words: words.to_owned() })
    }

    /// The name under which it is chosen, without its parameters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tssf { .. } => "tssf",
            Self::Csa(_) => "csa",
            Self::Tcsa(_) => "tcsa",
            Self::TcsaPrime(_) => "tcsa-prime",
            Self::PacketPair => "packet-pair",
        }
    }

    /// One line on what it does, and where it is described.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::Tssf { .. } => {
                "n acknowledgements of one slow-start flight (Allman and Paxson 1999, §3.3.1)"
            }
            Self::Csa(_) => "n acknowledgements, each within ν of a round trip after the last (§3.3.2)",
            Self::Tcsa(_) => "CSA again and again: the smallest, until one is within 10 % of it (§3.3.3)",
            Self::TcsaPrime(_) => "CSA again and again, until two in a row are within 10 % (§3.3.3)",
            Self::PacketPair => "acknowledgements of pairs sent back to back (Keshav 1991)",
        }
    }

    /// An estimator for a connection whose round trip is `rtt` and whose initial window is `initial_window`
    /// bytes.
    #[must_use]
    pub fn create(self, rtt: Duration, initial_window: u64, smss: u64) -> Box<dyn SenderEstimator> {
        match self {
            Self::Tssf { n } => Box::new(Tssf::new(u32::from(n), initial_window, smss)),
            Self::Csa(config) => Box::new(Csa::new(config, rtt)),
            Self::Tcsa(config) => Box::new(Tcsa::new(Csa::new(config, rtt))),
            Self::TcsaPrime(config) => Box::new(TcsaPrime::new(Csa::new(config, rtt))),
            Self::PacketPair => Box::new(PacketPair::new()),
        }
    }

    fn with_parameters(self, parameters: &str) -> Option<Self> {
        let (n, nu) = match parameters.split_once(',') {
            Some((n, nu)) => (n, Some(nu.trim())),
            None => (parameters, None),
        };
        let n = n.trim().parse().ok().filter(|n| (2..=100).contains(n))?;
        let csa = |config: CsaConfig| {
            let nu_e4 = match nu {
                None => config.nu_e4,
                Some(nu) => u16::try_from(exact(nu, 10_000)?).ok()?,
            };
            CsaConfig::new(n, nu_e4).ok()
        };
        match self {
            Self::Tssf { .. } => nu.is_none().then_some(Self::Tssf { n }),
            Self::Csa(config) => csa(config).map(Self::Csa),
            Self::Tcsa(config) => csa(config).map(Self::Tcsa),
            Self::TcsaPrime(config) => csa(config).map(Self::TcsaPrime),
            Self::PacketPair => None,
        }
    }
}

impl fmt::Display for SenderEstimatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PacketPair => f.write_str(self.name()),
            Self::Tssf { n } => write!(f, "{}:{n}", self.name()),
            Self::Csa(config) | Self::Tcsa(config) | Self::TcsaPrime(config) => {
                let nu = format!("{:04}", config.nu_e4 % 10_000);
                let nu = nu.trim_end_matches('0');
                let (point, whole) = (if nu.is_empty() { "" } else { "." }, config.nu_e4 / 10_000);
                write!(f, "{}:{},{whole}{point}{nu}", self.name(), config.n)
            }
        }
    }
}

/// A description that matches no estimator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEstimator {
    /// No estimator has this name.
    #[error(
        "no bandwidth estimator is called `{name}`; choose one of: {}",
        SenderEstimatorKind::ALL.map(|(name, _)| name).join(", ")
    )]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// The estimator does not take these parameters.
    #[error(
        "`{words}` has parameters that the estimator does not take; there are tssf:N, csa:N,NU, tcsa:N,NU, \
         tcsa-prime:N,NU with N of 2 to 100 acknowledgements and NU of 0.0001 to 1 round trips, as csa:5,0.2"
    )]
    Parameters {
        /// The words.
        words: String,
    },
}

const E4: u64 = 10_000;

ackclock_form::form! {
    enum SenderEstimatorKind { 0 Tssf { n }, 1 Csa(value), 2 Tcsa(value), 3 TcsaPrime(value), 4 PacketPair }
    struct CsaConfig { n, nu_e4 }
}
