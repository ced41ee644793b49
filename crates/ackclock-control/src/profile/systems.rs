//! The defaults of today's systems, as far as their documents say.
//!
//! A choice that no document gives is `modern`'s. Where a system's manuals are silent, the constants and
//! comments of its published source count as its document; no code is taken from it.

use std::time::Duration;

use super::table::MODERN;
use super::{AckPolicy, Choices, Ecn, Profile, Recovery, UndoChoice};
use crate::congestion::IdlePolicy;
use crate::rtt::RtoConfig;

/// A system, its profile, and what its documents say of each choice.
#[derive(Clone, Copy, Debug)]
pub struct System {
    /// The choices.
    pub profile: Profile,
    /// The release and the documents.
    pub documents: &'static str,
    /// The choices that a document gives: a key of [`CHOICES`](super::CHOICES) or `congestion`, and where.
    /// The others are assumed to be `modern`'s.
    pub documented: &'static [(&'static str, &'static str)],
    /// Facts of the documents that these choices cannot express.
    pub deviations: &'static [&'static str],
}

impl System {
    /// All systems.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().copied()
    }

    /// Where a document gives this choice, by its key; `None` if the value is assumed.
    #[must_use]
    pub fn document(&self, key: &str) -> Option<&'static str> {
        self.documented.iter().find(|(documented, _)| *documented == key).map(|(_, place)| *place)
    }
}

const ALL: &[System] = &[LINUX, FREEBSD, WINDOWS, MACOS];

pub(super) const LINUX: System = System {
    profile: Profile {
        name: "linux-6",
        summary: "Linux's defaults: CUBIC, RACK-TLP, the restart window after idleness, no pacing",
        source: "ip-sysctl.rst and net.rst of Linux 6.18, include/net/tcp.h, tc-fq(8)",
        congestion: "cubic",
        choices: Choices {
            rto: RtoConfig { rto_max: Duration::from_secs(120), ..RtoConfig::RFC_6298 },
            idle: IdlePolicy::RestartWindow,
            pacing: false,
            ..MODERN.choices
        },
    },
    documents: "Linux 6.18: `Documentation/networking/ip-sysctl.rst` (the names below), \
        `Documentation/admin-guide/sysctl/net.rst`, `net/ipv4/Kconfig`, `include/net/tcp.h`; tc-fq(8).",
    documented: &[
        ("congestion", "`tcp_congestion_control`: as configured; `DEFAULT_TCP_CONG` in `Kconfig`"),
        ("recovery", "`tcp_recovery` 0x1, `tcp_early_retrans` 3"),
        ("rto", "`tcp_rto_min_us` 200000, `tcp_rto_max_ms` 120000; first 1 s (`tcp_syn_retries`)"),
        ("undo", "`tcp_frto`: on unless 0; the other proofs are assumed"),
        ("idle", "`tcp_slow_start_after_idle` 1 (RFC 2861)"),
        ("pacing", "`default_qdisc` pfifo_fast in `net.rst`; pacing is fq's (tc-fq(8))"),
        ("initial-window", "`TCP_INIT_CWND` in `tcp.h`"),
        ("acks", "`TCP_DELACK_MIN` in `tcp.h`"),
        ("ecn", "`tcp_ecn` 2: not requested"),
        ("sack", "`tcp_sack` 1"),
        ("timestamps", "`tcp_timestamps` 1"),
        ("window-scaling", "`tcp_window_scaling` 1"),
    ],
    deviations: &[
        "A connection that a peer opens uses ECN if the peer asks for it (`tcp_ecn` 2); here ECN is off on \
         both sides.",
        "Linux's CUBIC ends slow start by HyStart (`hystart_detect` 3 in `net/ipv4/tcp_cubic.c`), not by \
         HyStart++.",
        "The first four repetitions of a SYN wait 1 s (`tcp_syn_linear_timeouts`); here the wait doubles.",
        "RFC 2861 halves the window for each timeout of idleness, down to the restart window; here it falls \
         to that window at once.",
        "The delay of an acknowledgement adapts between 40 and 200 ms (`TCP_DELACK_MAX`); here it is at most \
         40 ms.",
        "SACKs are thinned out for up to 1 ms (`tcp_comp_sack_delay_ns`).",
        "With fq as the queueing discipline, windows are paced (`tcp_pacing_ss_ratio`): here, set `pacing`.",
    ],
};

pub(super) const FREEBSD: System = System {
    profile: Profile {
        name: "freebsd-14",
        summary: "FreeBSD's defaults: CUBIC, SACK, the restart window after idleness, no pacing",
        source: "tcp(4), mod_cc(4), tcp_rack(4), FreeBSD 14; tcp_timer.h, cc.c",
        congestion: "cubic",
        choices: Choices {
            recovery: Recovery::Sack,
            rto: RtoConfig { rto_max: Duration::from_secs(64), ..RtoConfig::RFC_6298 },
            idle: IdlePolicy::RestartWindow,
            pacing: false,
            ..MODERN.choices
        },
    },
    documents: "FreeBSD 14: tcp(4), mod_cc(4) of 13 September 2022, cc_cubic(4), tcp_rack(4) of 5 March \
        2024; `sys/netinet/tcp_timer.h` and `sys/netinet/cc/cc.c`. tcp(4) still calls NewReno the default in \
        one place; mod_cc(4) and cc_cubic(4) say CUBIC.",
    documented: &[
        ("congestion", "mod_cc(4), cc_cubic(4): CUBIC, which supports HyStart++"),
        ("recovery", "tcp(4): `sack.enable`, `rfc6675_pipe`; tcp_rack(4): RACK-TLP is another stack"),
        ("rto", "tcp(4), `rexmit_min`: in effect 200 ms; `tcp_timer.h`: first 1 s, longest 64 s"),
        ("idle", "`cc.c`: RFC 5681 §4.1"),
        ("pacing", "tcp_rack(4) has it for that stack, tcp(4) has none"),
        ("initial-window", "tcp(4), `initcwnd_segments`"),
        ("acks", "tcp(4), `delayed_ack`; `tcp_timer.h`: 40 ms"),
        ("ecn", "tcp(4), `ecn.enable` 2: not requested"),
        ("sack", "tcp(4), `sack.enable`"),
        ("timestamps", "tcp(4), `rfc1323`"),
        ("window-scaling", "tcp(4), `rfc1323`"),
    ],
    deviations: &[
        "Recovery follows PRR (`do_prr`); here RFC 6675's policy keeps to its own cwnd - pipe.",
        "The retransmission timeout adds 200 ms (`rexmit_slop`) to SRTT + 4 RTTVAR; here 200 ms is its lower \
         bound.",
        "A connection that a peer opens uses ECN if the peer asks for it; here ECN is off on both sides.",
        "cc_cubic(4) says that the window keeps four fifths at a loss; RFC 9438's CUBIC keeps seven tenths.",
        "An idle window also raises ssthresh to three quarters of it (`cc.c`, after RFC 2861).",
        "A wrong timeout is taken back (mod_cc(9), `CC_RTO_ERR`); the manuals do not name the proof.",
    ],
};

pub(super) const WINDOWS: System = System {
    profile: Profile {
        name: "windows-11",
        summary: "Windows' defaults: CUBIC, RACK-TLP, timeouts of at least 300 ms, no timestamps, no pacing",
        source: "Microsoft: What's new in Windows Server 2022; TCP Templates, 2018; Get-NetTCPSetting",
        congestion: "cubic",
        choices: Choices {
            rto: RtoConfig { rto_min: Duration::from_millis(300), ..RtoConfig::RFC_6298 },
            idle: IdlePolicy::Keep,
            pacing: false,
            timestamps: false,
            ..MODERN.choices
        },
    },
    documents: "Windows 11 and Windows Server 2022, the template Internet. \"What's new\": Microsoft Learn, \
        What's new in Windows Server 2022. \"Templates\": Microsoft Networking Blog, TCP Templates for \
        Windows Server 2019, 3 October 2018. \"Printed\": the output of `Get-NetTCPSetting` and `netsh \
        int tcp show global` as users have published it.",
    documented: &[
        ("congestion", "Templates: CUBIC; What's new: HyStart++"),
        ("recovery", "What's new: RACK (RFC 8985)"),
        ("rto", "Templates: MinRto 300 ms; Printed: InitialRto 1 s; the longest is assumed"),
        ("idle", "Templates: CwndRestart False"),
        ("pacing", "Printed: Pacing Profile off"),
        ("initial-window", "Templates: InitialCongestionWindow 10"),
        ("acks", "Templates: DelayedAckFrequency 2, DelayedAckTimeout 40 ms"),
        ("ecn", "Printed: EcnCapability Disabled"),
        ("timestamps", "Printed: Timestamps Disabled"),
        ("window-scaling", "Printed: AutoTuningLevelLocal Normal"),
    ],
    deviations: &[
        "Servers use the template Datacenter for round trips of at most 10 ms: MinRto 20 ms, \
         DelayedAckTimeout 10 ms. Here, set `rto` and `acks`.",
        "HyStart++ is that of draft-ietf-tcpm-hystartplusplus-00; here it is RFC 9406's.",
        "Some published outputs print timestamps as allowed, and ECN as enabled.",
        "Programs may ask for LEDBAT: here `ledbat-plus-plus`.",
    ],
};

pub(super) const MACOS: System = System {
    profile: Profile {
        name: "macos-15",
        summary: "macOS' defaults: CUBIC without HyStart++, RACK-TLP, ECN, acknowledgements within 100 ms",
        source: "xnu 11417.101.15 (macOS 15.4), bsd/netinet",
        congestion: "cubic-plain",
        choices: Choices {
            rto: RtoConfig {
                rto_min: Duration::from_millis(230),
                rto_max: Duration::from_secs(64),
                ..RtoConfig::RFC_6298
            },
            undo: UndoChoice { frto: false, ..UndoChoice::ALL },
            pacing: false,
            acks: AckPolicy::EverySecondSegment { delay_max: Duration::from_millis(100) },
            ecn: Ecn::Classic,
            ..MODERN.choices
        },
    },
    documents: "macOS 15.4: the files of xnu 11417.101.15 in `bsd/netinet`, because no manual has these \
        values.",
    documented: &[
        ("congestion", "`tcp_sysctls.c`, `use_newreno` 0: CUBIC; `tcp_cubic.c`: slow start without HyStart"),
        ("recovery", "`tcp_sysctls.c`, `rack` 1; `tcp_output.c`, `enable_tlp` 1"),
        ("rto", "`tcp_timer.h`: first 1 s, longest 64 s, at least 30 ms and 200 ms of slop"),
        ("undo", "`tcp_input.c`, `tcp_bad_rexmt_check`: by timestamps and DSACK"),
        ("idle", "`tcp_output.c`, `tcp_cc.h`: it stays for 3 minutes"),
        ("pacing", "only `tcp_prague.c` sets a pace"),
        ("initial-window", "`tcp_cc.h`: 10"),
        ("acks", "`tcp_timer.c`: 100 ms; `tcp_cc.c`: every other packet"),
        ("ecn", "`tcp_output.c`, `ecn_initiate_out` 2; `bsd/net/dlil.c`: on except on cellular networks"),
        ("sack", "`tcp_sack.c`, `sack` 1"),
        ("timestamps", "`tcp_subr.c`, `do_timestamps` 1"),
        ("window-scaling", "`tcp_subr.c`: always requested"),
    ],
    deviations: &[
        "The timeout adds 200 ms to SRTT + 4 RTTVAR (`TCPTV_REXMTSLOP`); here 230 ms is its lower bound.",
        "Acknowledgements are stretched while a stream flows (`delayed_ack` 3), and the timer of 100 ms may \
         fire after 200 ms.",
        "After 3 minutes of idleness the window becomes the initial window; here it is halved after 5.",
        "With L4S, Prague and accurate ECN replace CUBIC and classic ECN: here `prague`. Background traffic \
         uses LEDBAT++: here `ledbat-plus-plus`.",
        "ECN is turned off by a heuristic where it has failed before.",
    ],
};

#[cfg(test)]
mod tests {
    use super::{Profile, System};
    use crate::profile::CHOICES;

    #[test]
    fn a_system_differs_from_modern_only_where_a_document_says_so() {
        let modern = Profile::modern();
        for system in System::all() {
            let Profile { name, congestion, choices, .. } = system.profile;
            let differs = CHOICES.iter().filter(|choice| choice.get(&choices) != choice.get(&modern.choices));
            let mut differs: Vec<_> = differs.map(|choice| choice.key).collect();
            differs.extend((congestion != modern.congestion).then_some("congestion"));
            assert!(!differs.is_empty(), "{name} is modern");
            let assumed: Vec<_> = differs.iter().filter(|key| system.document(key).is_none()).collect();
            assert!(assumed.is_empty(), "{name} differs without a document: {assumed:?}");
        }
    }

    #[test]
    fn documents_are_of_choices_that_exist_each_once() {
        for system in System::all() {
            let keys: Vec<_> = system.documented.iter().map(|(key, _)| *key).collect();
            let in_order = std::iter::once("congestion").chain(CHOICES.iter().map(|choice| choice.key));
            let in_order: Vec<_> = in_order.filter(|key| keys.contains(key)).collect();
            assert_eq!(keys, in_order, "{}", system.profile.name);
        }
    }

    #[test]
    fn systems_are_profiles() {
        for system in System::all() {
            assert_eq!(Profile::find(system.profile.name), Ok(system.profile));
        }
    }
}
