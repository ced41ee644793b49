//! The draft function by function, and how each stands here: data for `docs/control.md`.

use Standing::{Departs, Resolved, Same};

use super::Bbr;

/// A function of draft-ietf-ccwg-bbr-05, without the prefix BBR, and how this implementation treats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftRow {
    /// Where the draft describes it.
    pub section: &'static str,
    /// Its name there, or several that stand alike.
    pub name: &'static str,
    /// How it stands.
    pub standing: Standing,
    /// The difference and its reason, or what the draft leaves open.
    pub note: &'static str,
}

/// How a function of the draft stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As written.
    Same,
    /// The draft's text and pseudocode, or two of its parts, disagree. The note says which one is followed.
    Resolved,
    /// Departs.
    Departs,
}

impl Bbr {
    /// The functions, in the draft's order.
    pub const DRAFT: &'static [DraftRow] = &[
        row(
            "4.1.2.2",
            "OnPacketSent",
            Same,
            "P.lost is kept beside P.tx_in_flight; both, and the time of sending, count in 32 bits",
        ),
        row("4.1.2.3", "UpdateRateSample, IsNewestPacket", Same, ""),
        row(
            "4.1.2.3",
            "GenerateRateSample",
            Same,
            "the longer of the times of sending and delivery; none shorter than the smallest round trip",
        ),
        row(
            "4.1.2.4",
            "CheckIfApplicationLimited",
            Departs,
            "when data is sent, not before acknowledgements and timers too: the last of what there was marks \
             the bubble",
        ),
        row(
            "5.2.1",
            "OnInit",
            Departs,
            "min_rtt begins with the first acknowledgement, not with SRTT: the handshake's round trip is not \
             told",
        ),
        row(
            "5.2.4",
            "HandleLostPacket",
            Departs,
            "once for all that one acknowledgement shows to be lost, at the newest of it, as for an \
             aggregate",
        ),
        row("5.3.1.2", "CheckFullBWReached, ResetFullBW", Same, ""),
        row(
            "5.3.1.3",
            "CheckStartupHighLoss",
            Departs,
            "ranges are counted by acknowledgements that show losses; IsInflightTooHigh as below, and, \
             unless `loss=draft`, only after a round trip without a quarter more bandwidth",
        ),
        row("5.3.2", "EnterDrain, CheckDrainDone", Same, ""),
        row(
            "5.3.3.5.3",
            "PickProbeWait",
            Departs,
            "no random numbers: the time and the model decide, which no two flows share",
        ),
        row(
            "5.3.3.5.3",
            "IsTimeToProbeBW, IsRenoCoexistenceProbeTime, TargetInflight",
            Same,
            "the target in segments, which the draft leaves to the reader",
        ),
        row("5.3.3.6", "StartProbeBW_DOWN, _CRUISE, _REFILL, _UP, UpdateProbeBWCyclePhase", Same, ""),
        row("5.3.3.6", "IsTimeToCruise, IsTimeToGoDown, InflightWithHeadroom", Same, ""),
        row(
            "5.3.3.6",
            "RaiseInflightLongtermSlope, ProbeInflightLongtermUpward",
            Same,
            "in whole segments; by selective acknowledgements too",
        ),
        row(
            "5.3.3.6",
            "AdaptLongTermModel",
            Resolved,
            "the max filter advances, and bw_probe_samples ends, once a cycle, a round trip after UP \
             (§5.5.6, §5.5.10.2); the pseudocode does it in every round trip, and never",
        ),
        row(
            "5.3.4.3",
            "UpdateMinRTT, CheckProbeRTT, HandleProbeRTT, CheckProbeRTTDone, ExitProbeRTT",
            Same,
            "",
        ),
        row(
            "5.4.1",
            "HandleRestartFromIdle",
            Departs,
            "a pause of more than a retransmission timeout counts as application-limited",
        ),
        row("5.5.1", "UpdateRound, StartRound", Same, ""),
        row("5.5.5", "UpdateMaxBw, AdvanceMaxBwFilter", Same, ""),
        row("5.5.8.1", "UpdateOffloadBudget", Same, ""),
        row("5.5.9", "UpdateACKAggregation", Same, ""),
        row(
            "5.5.10.2",
            "IsInflightTooHigh",
            Departs,
            "more than 2 % by two standard deviations of a count of independent losses; `loss=draft` as \
             written. Without SACK no single loss is enough: duplicate acknowledgements count as deliveries, \
             and losses are found by RFC 6582",
        ),
        row(
            "5.5.10.2",
            "HandleInflightTooHigh, InflightAtLoss",
            Resolved,
            "where losses before this one crossed the threshold, lost_prefix is 0, not negative",
        ),
        row(
            "5.5.10.2",
            "NoteLoss",
            Same,
            "a mark of congestion counts as a loss of nothing: the draft wants a response to marks (§3.7) \
             and gives none",
        ),
        row(
            "5.5.10.3",
            "UpdateLatestDeliverySignals, AdvanceLatestDeliverySignals, ResetCongestionSignals",
            Same,
            "",
        ),
        row(
            "5.5.10.3",
            "AdaptLowerBoundsFromCongestion, LossLowerBounds",
            Departs,
            "only where IsInflightTooHigh for the round trip that ends, or after a mark; `loss=draft` as \
             written, which sends less by what was lost in each round trip",
        ),
        row(
            "5.5.10.3",
            "InitLowerBounds",
            Departs,
            "after a timeout from the window before it: one segment says nothing of the path",
        ),
        row("5.5.10.3", "ResetShortTermModel, BoundBWForModel", Same, ""),
        row(
            "5.5.11",
            "SaveStateUponLoss, HandleSpuriousLossDetection",
            Departs,
            "returns to a state only if losses had ended it: to Startup with full_bw_reached cleared, which \
             the draft forgets; to UP by way of REFILL, so that losses are heeded there",
        ),
        row(
            "5.6.1",
            "the volume caps",
            Resolved,
            "the pseudocode of BoundCwndForModel, which leaves Drain without inflight_longterm; the table \
             does not",
        ),
        row(
            "5.6.2",
            "InitPacingRate, SetPacingRateWithGain",
            Same,
            "until the first round trip is known, 1 ms",
        ),
        row(
            "5.6.3",
            "SetSendQuantum",
            Departs,
            "computed for the offload budget; what leaves at once is the pacer's, two segments or what the \
             timers' granularity makes of the rate",
        ),
        row("5.6.4.2", "BDPMultiple, QuantizationBudget, Inflight, UpdateMaxInflight", Same, ""),
        row(
            "5.6.4.4",
            "OnEnterRTO, OnEnterFastRecovery, SaveCwnd, RestoreCwnd",
            Same,
            "recovery from a timeout ends when as much has been delivered as was outstanding",
        ),
        row("5.6.4.5", "ProbeRTTCwnd, BoundCwndForProbeRTT", Same, ""),
        row("5.6.4.6", "SetCwnd", Same, ""),
        row("5.6.4.7", "BoundCwndForModel", Same, ""),
    ];
}

const fn row(section: &'static str, name: &'static str, standing: Standing, note: &'static str) -> DraftRow {
    DraftRow { section, name, standing, note }
}
