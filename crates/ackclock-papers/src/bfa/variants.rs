//! What §6 leaves to future work, and the gentler gain of figures 21 and 22.

use ackclock_sim::TcpSettings;

/// BFA with a difference.
pub(super) struct Variant {
    pub(super) name: &'static str,
    /// The controller; overrides the profile's.
    congestion: Option<&'static str>,
    /// The timeout's estimator; overrides the profile's.
    rto: Option<&'static str>,
}

/// The paper's algorithm first.
pub(super) const ALL: &[Variant] = &[
    Variant { name: "the paper's (gain 1/2)", congestion: None, rto: None },
    Variant { name: "gain 3/4 (figs. 21 and 22)", congestion: Some("bfa-gentle"), rto: None },
    Variant { name: "decreasing while srv is very high", congestion: Some("bfa-decreasing"), rto: None },
    Variant { name: "thresholds from the path", congestion: Some("bfa-path"), rto: None },
    Variant { name: "timeout of 2v while srv < 0", congestion: None, rto: Some("bfa-1998") },
];

impl Variant {
    /// These settings with the variant's choices.
    pub fn over(&self, settings: TcpSettings) -> TcpSettings {
        let congestion = self.congestion.map(str::to_owned).or(settings.congestion.clone());
        let settings = TcpSettings { congestion, ..settings };
        match self.rto {
            Some(rto) => settings.choose("rto", rto),
            None => settings,
        }
    }
}
