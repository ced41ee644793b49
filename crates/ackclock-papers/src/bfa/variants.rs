//! The future work of §6, and the gentler gain of figures 21 and 22.

use ackclock_sim::TcpSettings;

/// BFA with a difference.
pub(super) struct Variant {
    pub(super) name: &'static str,
    /// The controller's parameters.
    parameters: Option<&'static str>,
    /// The timeout's estimator; overrides the profile's.
    rto: Option<&'static str>,
}

/// The paper's algorithm first.
pub(super) const ALL: &[Variant] = &[
    Variant { name: "the paper's (gain 1/2)", parameters: None, rto: None },
    Variant { name: "gain 3/4 (figs. 21 and 22)", parameters: Some("gain=3/4"), rto: None },
    Variant { name: "decreasing while srv is very high", parameters: Some("decreasing=yes"), rto: None },
    Variant { name: "thresholds from the path", parameters: Some("thresholds=path"), rto: None },
    Variant { name: "timeout of 2v while srv < 0", parameters: None, rto: Some("bfa-1998") },
];

impl Variant {
    /// These settings of a BFA that samples `rounds` or `acks`, with the variant's choices.
    pub fn over(&self, settings: TcpSettings, sample: &str) -> TcpSettings {
        let congestion = self.parameters.map(|parameters| format!("bfa:{parameters},sample={sample}"));
        let settings = TcpSettings { congestion: congestion.or(settings.congestion), ..settings };
        match self.rto {
            Some(rto) => settings.choose("rto", rto),
            None => settings,
        }
    }
}
