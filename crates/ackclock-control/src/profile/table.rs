//! The profiles.

use std::time::Duration;

use super::{AckPolicy, Choices, Ecn, Profile, Recovery, UndoChoice, systems};
use crate::congestion::IdlePolicy;
use crate::rtt::{Arithmetic, Backoff, DeviationFloor, Formula, RtoConfig, Sampling};

/// The default first, then by year, then those of today's systems.
pub(super) const ALL: &[Profile] = &[
    MODERN,
    BSD43_1986,
    NONE_1987,
    BSD43_PLUS_1987,
    TAHOE_1988,
    CARD_1989,
    RENO_1990,
    TRI_S_1991,
    NET2_RENO_1991,
    DUAL_1992,
    VEGAS_1995,
    VEGAS_USC_1995,
    VEGAS_STAR_1995,
    BFA_1998,
    NEWRENO_1999,
    SACK_2003,
    DCTCP,
    PRAGUE,
    BBR,
    systems::LINUX.profile,
    systems::FREEBSD.profile,
    systems::WINDOWS.profile,
    systems::MACOS.profile,
];

pub(super) const MODERN: Profile = Profile {
    name: "modern",
    summary: "CUBIC with HyStart++, RACK-TLP with PRR, pacing, undo: the default",
    source: "RFC 9438, 9406, 8985, 9937, 7323, 7661",
    congestion: "cubic",
    choices: Choices {
        recovery: Recovery::RackTlp,
        rto: RtoConfig::RFC_6298,
        start_up: None,
        undo: UndoChoice { timestamps: true, dsack: true, frto: true, min_rtt_quarters: None },
        idle: IdlePolicy::Validated,
        pacing: true,
        initial_window_segments: 10,
        acks: EVERY_SECOND,
        sack: true,
        timestamps: true,
        window_scaling: true,
        ecn: Ecn::Off,
        receiver_bandwidth: None,
    },
};

const BBR: Profile = Profile {
    name: "bbr",
    summary: "BBR version 3 with RACK-TLP: sends at the bandwidth of a model",
    source: "draft-ietf-ccwg-bbr, RFC 8985",
    congestion: "bbr",
    choices: Choices { idle: IdlePolicy::Keep, ..MODERN.choices },
};

const DCTCP: Profile = Profile {
    name: "dctcp",
    summary: "answers the share of marked bytes; for networks under one administration",
    source: "RFC 8257, 9768",
    congestion: "dctcp",
    choices: Choices { ecn: Ecn::Accurate, ..MODERN.choices },
};

const PRAGUE: Profile = Profile {
    name: "prague",
    summary: "DCTCP's response, paced, with growth that does not favour short round trips",
    source: "draft-briscoe-iccrg-prague-congestion-control, RFC 9768",
    congestion: "prague",
    ..DCTCP
};

const SACK_2003: Profile = Profile {
    name: "sack-2003",
    summary: "Reno's window, selective acknowledgements",
    source: "RFC 2018, 3517 (6675), 2988 (6298), 3390",
    congestion: "reno:count=acks",
    choices: Choices {
        recovery: Recovery::Sack,
        rto: RtoConfig {
            initial: Duration::from_secs(3),
            rto_min: Duration::from_secs(1),
            ..RtoConfig::RFC_6298
        },
        undo: UndoChoice { timestamps: true, dsack: false, frto: false, min_rtt_quarters: None },
        idle: IdlePolicy::RestartWindow,
        pacing: false,
        initial_window_segments: 3,
        acks: AckPolicy::EverySecondSegment { delay_max: Duration::from_millis(200) },
        ..MODERN.choices
    },
};

const NEWRENO_1999: Profile = Profile {
    name: "newreno-1999",
    summary: "NewReno's fast recovery without selective acknowledgements",
    source: "RFC 2582 (6582), 2581",
    congestion: "newreno",
    choices: Choices {
        recovery: Recovery::NewReno,
        rto: BSD,
        undo: NO_UNDO,
        initial_window_segments: 2,
        timestamps: false,
        sack: false,
        ..SACK_2003.choices
    },
};

const BFA_1998: Profile = Profile {
    name: "bfa-1998",
    summary: "Reno that stops growing while round trips get longer; fine round trips, coarse timeouts",
    source: "Awadallah and Rai 1998",
    congestion: "bfa:sample=acks",
    choices: Choices { rto: BFA, timestamps: true, ..RENO_1990.choices },
};

const VEGAS_STAR_1995: Profile = Profile {
    name: "vegas-star-1995",
    summary: "Vegas with a slow start spaced by the bottleneck's bandwidth",
    source: "Brakmo and Peterson, JSAC 1995, §III-C",
    congestion: "vegas-star",
    ..VEGAS_1995
};

const VEGAS_1995: Profile = Profile {
    name: "vegas-1995",
    summary: "keeps one to three segments queued; checks the clock at the first duplicate",
    source: "Brakmo and Peterson, JSAC 1995",
    congestion: "vegas",
    choices: Choices { recovery: Recovery::Vegas, ..RENO_1990.choices },
};

const VEGAS_USC_1995: Profile = Profile {
    name: "vegas-usc-1995",
    summary: "Vegas by the code that was distributed: mean round trips, whole segments",
    source: "USC's NetBSD-Vegas, after ns' tcp-vegas.cc",
    congestion: "vegas-usc",
    choices: Choices { recovery: Recovery::VegasUsc, ..RENO_1990.choices },
};

const DUAL_1992: Profile = Profile {
    name: "dual-1992",
    summary: "Reno that gives up an eighth when delay is above its middle",
    source: "Wang and Crowcroft, CCR 1992",
    congestion: "dual",
    ..RENO_1990
};

const TRI_S_1991: Profile = Profile {
    name: "tri-s-1991",
    summary: "grows while another segment buys throughput",
    source: "Wang and Crowcroft, CCR 1991",
    congestion: "tri-s",
    ..RENO_1990
};

/// `sys/netinet` of the release of June 1991, whose TCP is that of 28 June 1990: `tcp_input.c` (fast
/// retransmit, growth, the round trip that counts a tick more at first), `tcp_timer.c` (halving at each
/// timeout), `tcp_output.c` (one segment after idleness), `tcp_timer.h` (one to 64 seconds).
///
/// Deviation: the fourth timeout in a row does not forget the mean.
const NET2_RENO_1991: Profile = Profile {
    name: "net2-reno-1991",
    summary: "Reno as released: halves cwnd or the peer's window, at each timeout, at duplicates after one",
    source: "Net/2, June 1991; Jacobson 1990",
    congestion: "net2-reno",
    choices: Choices {
        recovery: Recovery::Net2Reno,
        rto: RtoConfig { arithmetic: Arithmetic::BsdTicks, initial: Duration::from_secs(6), ..BSD },
        ..RENO_1990.choices
    },
};

const RENO_1990: Profile = Profile {
    name: "reno-1990",
    summary: "Reno's fast recovery by the rules of RFC 5681, ticks of 500 ms",
    source: "Jacobson 1990; RFC 5681",
    congestion: "reno:count=acks",
    choices: Choices {
        recovery: Recovery::Reno,
        initial_window_segments: 1,
        window_scaling: false,
        ..NEWRENO_1999.choices
    },
};

const CARD_1989: Profile = Profile {
    name: "card-1989",
    summary: "moves the window against the sign of the delay gradient",
    source: "Jain, CCR 1989",
    congestion: "card",
    ..RENO_1990
};

const TAHOE_1988: Profile = Profile {
    name: "tahoe-1988",
    summary: "slow start after every loss, a + 2v for the timeout",
    source: "Jacobson and Karels, SIGCOMM 1988",
    congestion: "tahoe",
    choices: Choices {
        recovery: Recovery::Tahoe,
        rto: RtoConfig { formula: Formula::MeanDeviation { k: 2, adapt: false }, ..BSD },
        idle: IdlePolicy::OneSegment,
        ..RENO_1990.choices
    },
};

/// The system of the traces of "4.3+BSD". They show no fast retransmit, which "is described in a
/// soon-to-be-published RFC" (§3), and a timeout of about three seconds, to which the intervals of figure 12
/// "were chosen to match", as a + 4v has it and a + 2v does not. Deltas of `sys/netinet`: `tcp_timer.c` of 30
/// June (mean and variance), 10 August (Karn's rule, doubling, the round trip of the SYN) and 4 September
/// 1987 (ssthresh).
const BSD43_PLUS_1987: Profile = Profile {
    name: "bsd43-plus-1987",
    summary: "slow start and avoidance by the timer alone, a + 4v in ticks of 500 ms",
    source: "4.3BSD's tcp_timer.c of September 1987; Jacobson and Karels, figs. 4, 9, 12",
    congestion: "tahoe",
    choices: Choices {
        recovery: Recovery::GoBackN,
        rto: RtoConfig { arithmetic: Arithmetic::BsdTicks, ..BSD },
        ..TAHOE_1988.choices
    },
};

const NONE_1987: Profile = Profile {
    name: "none-1987",
    summary: "no congestion control, the timeout of RFC 793: for simulated networks only",
    source: "4.3BSD before 1988; Jacobson and Karels, figs. 3 and 8",
    congestion: "none-1987",
    choices: Choices {
        recovery: Recovery::GoBackN,
        rto: RtoConfig {
            srtt_gain: crate::rtt::Gain::one_in(10),
            formula: Formula::Multiple { beta: 2 },
            arithmetic: Arithmetic::Fine,
            // Jacobson and Karels 1988, (ii): the exponential backoff is one of the new algorithms.
            backoff: Backoff::None,
            ..BSD
        },
        idle: IdlePolicy::Keep,
        acks: AckPolicy::WindowShare { percent: 35, delay_max: Duration::from_millis(200) },
        ..RENO_1990.choices
    },
};

/// Deltas of `sys/netinet`: `tcp_timer.c` 6.10 of 13 January 1986 (the table of factors), `tcp_output.c`
/// 6.7 of 14 November 1984 (one segment while the timer has expired) in the release of 5 June 1986. Its
/// delayed acknowledgements wait for gaps, too; only the delta of 14 May 1988 answers those at once.
const BSD43_1986: Profile = Profile {
    name: "bsd43-1986",
    summary: "no congestion control, one segment at each timeout: for simulated networks only",
    source: "4.3BSD as released, 5 June 1986; Jacobson and Karels, figs. 3 and 8",
    congestion: "none-1987:timeout=one",
    choices: Choices {
        rto: RtoConfig {
            arithmetic: Arithmetic::Bsd43,
            // tcp_timer.h: TCPTV_SRTTDFLT times beta, TCPTV_MAX.
            initial: Duration::from_secs(6),
            rto_max: Duration::from_secs(30),
            backoff: Backoff::Bsd43,
            ..NONE_1987.choices.rto
        },
        ..NONE_1987.choices
    },
};

/// The timeout of 4.3BSD-Reno: Jacobson's arithmetic, ticks of 500 ms, one timed segment a flight.
const BSD: RtoConfig = RtoConfig {
    arithmetic: Arithmetic::Ticks,
    initial: Duration::from_secs(3),
    rto_min: Duration::from_secs(1),
    rto_max: Duration::from_secs(64),
    granularity: Duration::from_millis(500),
    deviation_floor: DeviationFloor::Deviation,
    heartbeat: true,
    sampling: Sampling::OncePerFlight,
    ..RtoConfig::RFC_6298
};

/// §3.1: the timeout keeps its tick of 500 ms; the controller measures round trips separately.
const BFA: RtoConfig = RtoConfig { arithmetic: Arithmetic::Fine, sampling: Sampling::EverySegment, ..BSD };

const EVERY_SECOND: AckPolicy = AckPolicy::EverySecondSegment { delay_max: Duration::from_millis(40) };
const NO_UNDO: UndoChoice =
    UndoChoice { timestamps: false, dsack: false, frto: false, min_rtt_quarters: None };
