//! BBR's states, what it does in each, and how it answers losses.

use super::super::Settings;
use super::{PROBE_RTT_CWND_GAIN, STARTUP_PACING_GAIN};
use crate::InvalidParameter;

/// When BBR takes losses as a sign that too much is in flight.
///
/// Where it probes for bandwidth, the draft compares the losses of a round trip with 2 % of what was in
/// flight, packet by packet. Elsewhere it answers every loss: each round trip it sends less by the share that
/// was lost. The draft itself says that 1 % of loss leaves `0.99^n` after n round trips (§5.3.3.5.3). With a
/// few hundred packets in flight, 1 % of loss exceeds 2 % by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BbrLoss {
    /// In every state, losses count only beyond 2 % of what was in flight plus what chance explains: two
    /// standard deviations of a count of independent losses. They end Startup only if the bandwidth has
    /// stopped growing.
    #[default]
    Certain,
    /// As the draft has it.
    Draft,
    /// Losses change nothing, as in version 1. For experiments: it takes a bottleneck from flows that answer
    /// losses.
    Ignored,
}

impl BbrLoss {
    pub(in crate::congestion) fn from_settings(settings: &Settings) -> Result<Self, InvalidParameter> {
        Ok(match settings.value("loss") {
            0 => Self::Certain,
            1 => Self::Draft,
            _ => Self::Ignored,
        })
    }
}

/// BBR.state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

/// The table of §5.6.1, in hundredths.
impl State {
    pub(super) fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => STARTUP_PACING_GAIN,
            Self::Drain => 50,
            Self::ProbeBwDown => 90,
            Self::ProbeBwCruise | Self::ProbeBwRefill | Self::ProbeRtt => 100,
            Self::ProbeBwUp => 125,
        }
    }

    pub(super) fn cwnd_gain(self) -> u64 {
        match self {
            Self::ProbeBwUp => 225,
            Self::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => 200,
        }
    }

    /// IsInAProbeBWState().
    pub(super) fn is_probe_bw(self) -> bool {
        matches!(self, Self::ProbeBwDown | Self::ProbeBwCruise | Self::ProbeBwRefill | Self::ProbeBwUp)
    }

    /// IsProbingBW().
    pub(super) fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::ProbeBwRefill | Self::ProbeBwUp)
    }
}

/// BBR.ack_phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The state that an undone recovery restores (§2.16).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UndoState {
    pub state: Option<State>,
    pub bw_shortterm: u64,
    pub inflight_shortterm: u64,
    pub inflight_longterm: u64,
}

ackclock_form::form! {
    enum BbrLoss { 0 Certain, 1 Draft, 2 Ignored }
    enum State {
        0 Startup, 1 Drain, 2 ProbeBwDown, 3 ProbeBwCruise, 4 ProbeBwRefill, 5 ProbeBwUp, 6 ProbeRtt
    }
    enum AckPhase { 0 Init, 1 Refilling, 2 ProbeStarting, 3 ProbeFeedback, 4 ProbeStopping }
    struct UndoState { state, bw_shortterm, inflight_shortterm, inflight_longterm }
}
