//! The claims that the four papers are read for, each with the values that decide it.

use ackclock_cli::table::{self, number};

use crate::{BandVerdict, ExperimentResult, Value};

/// A claim.
struct Claim {
    what: &'static str,
    paper: &'static str,
    /// The values that it is about: ids of experiments and names of values.
    values: &'static [(&'static str, &'static str)],
    /// Numbers that the paper prints for values that the experiments only judge by their order, by place.
    prints: &'static [(usize, &'static str)],
    /// Whether these values have the sign of the claim.
    sign: fn(&[f64]) -> bool,
    /// The obstacle, if there is one.
    why: &'static str,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// Each of its values is equal within noise or in the order that the paper claims.
    InSize,
    /// Its sign is right, and a value differs.
    InSign,
    Not,
}

impl Claim {
    /// The verdict, and the values in words. `None` if one of its experiments was not run.
    fn judge(&self, outcomes: &[ExperimentResult<'_>]) -> Option<(Holds, String)> {
        let ran = |id: &str| outcomes.iter().any(|one| one.experiment.id == id && one.findings.is_ok());
        if !self.values.iter().all(|(id, _)| ran(id)) {
            return None;
        }
        let found: Option<Vec<&Value>> =
            self.values.iter().map(|(id, name)| find(outcomes, id, name)).collect();
        let Some(values) = found else { return Some((Holds::Not, "a value is missing".to_owned())) };
        let measured: Vec<f64> = values.iter().map(|value| value.measured).collect();
        let equal = |value: &&Value| matches!(value.verdict(), BandVerdict::Equal | BandVerdict::Order);
        let in_size = values.iter().all(equal)
            && self.prints.iter().all(|(place, paper)| values[*place].is_equal_to(paper));
        let holds = match ((self.sign)(&measured), in_size) {
            (true, true) => Holds::InSize,
            (true, false) => Holds::InSign,
            (false, _) => Holds::Not,
        };
        Some((holds, measured.iter().map(|value| number(*value)).collect::<Vec<_>>().join(", ")))
    }
}

fn find<'a>(outcomes: &'a [ExperimentResult<'_>], id: &str, name: &str) -> Option<&'a Value> {
    let outcome = outcomes.iter().find(|outcome| outcome.experiment.id == id)?;
    outcome.findings.as_ref().ok()?.values.iter().find(|value| value.name == name)
}

/// The table of all claims whose experiments were run, with a line that counts them; nothing if there
/// are none.
pub(crate) fn page(outcomes: &[ExperimentResult<'_>]) -> String {
    let judged: Vec<_> = CLAIMS.iter().filter_map(|claim| Some((claim, claim.judge(outcomes)?))).collect();
    if judged.is_empty() {
        return String::new();
    }
    let count = |holds| judged.iter().filter(|(_, (verdict, _))| *verdict == holds).count();
    let rows: Vec<Vec<String>> = (1..)
        .zip(&judged)
        .map(|(place, (claim, (holds, ours)))| {
            let (verdict, why) = match holds {
                Holds::InSize => ("in sign and size", ""),
                Holds::InSign => ("in sign", claim.why),
                Holds::Not => ("**not**", claim.why),
            };
            [&place.to_string(), claim.what, claim.paper, ours, verdict, why].map(str::to_owned).to_vec()
        })
        .collect();
    format!(
        "## The claims\n\nOf {} claims {} hold in sign and size, {} in sign, {} not. A claim holds in \
         size if each of its values is equal to the paper's within noise, or in the order where the \
         paper gives no number; the values are below, by experiment.\n\n{}\n",
        judged.len(),
        count(Holds::InSize),
        count(Holds::InSign),
        count(Holds::Not),
        table::markdown(&["", "claim", "paper", "ours", "holds", "why not"], &rows)
    )
}

const CLAIMS: &[Claim] = &[
    Claim {
        what: "The old start-up uses a third of the bandwidth: KB/s in 10 s and a minute",
        paper: "7, 7 of 20",
        values: &[("JE3/4", "without: first 10 s"), ("JE3/4", "without: first minute")],
        prints: &[],
        sign: |v| v[1] < 0.8 * 20.0,
        why: "over the delay and others' share, which the paper does not give, it is 10.9 to 24.5",
    },
    Claim {
        what: "It sends nearly everything twice, some five times: share, most times",
        paper: "almost 1, 5",
        values: &[
            ("JE3/4", "without: share of segments sent more than once"),
            ("JE3/4", "without: most times that a segment was sent"),
        ],
        prints: &[],
        sign: |v| v[0] > 0.1 && v[1] >= 2.0,
        why: "4.3BSD sends one segment at a timeout, and little again unless much was lost",
    },
    Claim {
        what: "Slow start sends nothing again and costs two seconds: segments, KB/s in 10 s and a minute",
        paper: "0, 16, 19",
        values: &[
            ("JE3/4", "with: segments sent again"),
            ("JE3/4", "with: first 10 s"),
            ("JE3/4", "with: first minute"),
        ],
        prints: &[],
        sign: |v| v[0] < 5.0 && v[1] < v[2],
        why: "",
    },
    Claim {
        what: "Four old senders, which send 0.36 again: sent over what fits, delivered",
        paper: "1.25, 0.74 to 0.80",
        values: &[
            ("JE7-12", "without: sent, in units of the link's rate"),
            ("JE7-12", "without: share of the link that delivers, all four sending"),
        ],
        prints: &[],
        sign: |v| v[0] > 1.1 && v[1] < 0.9,
        why: "",
    },
    Claim {
        what: "With avoidance: share sent again, of wire speed",
        paper: "0.01, 1",
        values: &[
            ("JE7-12", "with: share sent again"),
            ("JE7-12", "with: share of the link that delivers, all four sending"),
        ],
        prints: &[],
        sign: |v| v[0] < 0.02 && v[1] > 0.95,
        why: "",
    },
    Claim {
        what: "Lazy receivers' senders lose three times as much: shares lost",
        paper: "0.018, 0.005",
        values: &[
            ("JE7-12", "with: share of lazy receivers' segments that is lost"),
            ("JE7-12", "with: the same of prompt ones"),
        ],
        prints: &[],
        sign: |v| v[0] > v[1],
        why: "a burst that an acknowledgement releases takes the places of packets that have left",
    },
    Claim {
        what: "Prompt receivers' senders get more: KB/s of the four",
        paper: "8, 4.5, 8, 4.5",
        values: &[
            ("JE7-12", "with: conversation 1, prompt, while all four send"),
            ("JE7-12", "with: conversation 2, lazy, while all four send"),
            ("JE7-12", "with: conversation 3, prompt, while all four send"),
            ("JE7-12", "with: conversation 4, lazy, while all four send"),
        ],
        prints: &[],
        sign: |v| v[0] > v[1] && v[2] > v[3],
        why: "",
    },
    Claim {
        what: "a + 4v essentially ends vain timeouts: in 1,000, and less than RFC 793 by",
        paper: "none, fewer",
        values: &[
            ("JE5/6", "BSD's clock, a + 4v: the same"),
            ("JE5/6", "BSD's clock, a + 4v less RFC 793: spurious expiries of a trace"),
        ],
        prints: &[],
        sign: |v| v[0] < 5.0 && v[1] < 0.0,
        why: "",
    },
    Claim {
        what: "Vegas over Reno on the Internet: 1 MB, 512 KB, 128 KB",
        paper: "1.37, 1.38, 1.71",
        values: &[
            ("VT1/2", "1 MB: Vegas/Reno throughput"),
            ("VT1/2", "512 KB: Vegas/Reno throughput"),
            ("VT1/2", "128 KB: Vegas/Reno throughput"),
        ],
        prints: &[],
        sign: |v| v.iter().all(|ratio| *ratio > 1.0),
        why: "Reno loses more on this path; over slow links of 1 Mbit/s a megabyte gains 1.43 (VT1/2's table)",
    },
    Claim {
        what: "It sends less again: of Reno's",
        paper: "0.51, 0.38, 0.17",
        values: &[
            ("VT1/2", "1 MB: Vegas/Reno sent again"),
            ("VT1/2", "512 KB: Vegas/Reno sent again"),
            ("VT1/2", "128 KB: Vegas/Reno sent again"),
        ],
        prints: &[],
        sign: |v| v.iter().all(|ratio| *ratio < 1.0),
        why: "Vegas sends a fifth less again than the paper's; the slow links decide (VT1/2's table)",
    },
    Claim {
        what: "It is faster in most runs (%)",
        paper: "92",
        values: &[("VT1/2", "1 MB: runs in which Vegas is faster than Reno")],
        prints: &[],
        sign: |v| v[0] > 50.0,
        why: "in 97.6 %: the load of single hours decides, which is not known",
    },
    Claim {
        what: "Vegas-1,3 and -2,4 are alike: on the Internet, beside tcplib",
        paper: "1.37 and 1.42, 1.53 and 1.58",
        values: &[
            ("VT1/2", "1 MB: Vegas/Reno throughput"),
            ("VT1/2", "1 MB: Vegas-2,4/Reno throughput"),
            ("VT4", "Vegas/Reno throughput"),
            ("VT4", "Vegas-2,4/Reno throughput"),
        ],
        prints: &[],
        sign: |v| (0.91..=1.09).contains(&(v[1] / v[0])) && (0.91..=1.09).contains(&(v[3] / v[2])),
        why: "the rate of the slow links decides, and is not known: over 1 Mbit/s they have 1.43 and 1.51 (VT1/2's table)",
    },
    Claim {
        what: "Alone: Reno and Vegas in KB/s, their ratio, packets that Vegas loses",
        paper: "123, 169, 1.37, 0",
        values: &[
            ("VE5/7", "Reno's throughput"),
            ("VE5/7", "Vegas' throughput"),
            ("VE5/7", "Vegas/Reno throughput"),
            ("VE5/7", "packets that Vegas loses after start-up"),
        ],
        prints: &[],
        sign: |v| v[2] > 1.2 && v[3] == 0.0,
        why: "Vegas alone differs, by 1 %: whether the handshake counts is not given (VE5/7's tables)",
    },
    Claim {
        what: "Table III: KB/s of 300 KB and 1 MB, one beside the other",
        paper: "60, 109; 61, 123; 66, 119; 74, 131",
        values: &[
            ("VT3", "Reno/Reno: throughput of 300 KB"),
            ("VT3", "Reno/Reno: throughput of 1 MB"),
            ("VT3", "Reno/Vegas: throughput of 300 KB"),
            ("VT3", "Reno/Vegas: throughput of 1 MB"),
            ("VT3", "Vegas/Reno: throughput of 300 KB"),
            ("VT3", "Vegas/Reno: throughput of 1 MB"),
            ("VT3", "Vegas/Vegas: throughput of 300 KB"),
            ("VT3", "Vegas/Vegas: throughput of 1 MB"),
        ],
        prints: &[],
        sign: |v| v[6] > v[0] && v[7] > v[1],
        why: "300 KB of Vegas beside Vegas differ, by 8 %, and a model in Python agrees with ours (VT3's third table)",
    },
    Claim {
        what: "Table III: KB sent again",
        paper: "30, 22; 43, 1.8; 1.5, 18; 0.3, 0.1",
        values: &[
            ("VT3", "Reno/Reno: sent again of 300 KB"),
            ("VT3", "Reno/Reno: sent again of 1 MB"),
            ("VT3", "Reno/Vegas: sent again of 300 KB"),
            ("VT3", "Reno/Vegas: sent again of 1 MB"),
            ("VT3", "Vegas/Reno: sent again of 300 KB"),
            ("VT3", "Vegas/Reno: sent again of 1 MB"),
            ("VT3", "Vegas/Vegas: sent again of 300 KB"),
            ("VT3", "Vegas/Vegas: sent again of 1 MB"),
        ],
        prints: &[],
        sign: |v| v[6] + v[7] < 0.1 * (v[0] + v[1]),
        why: "beside Reno, Vegas loses about one packet less than the paper's",
    },
    Claim {
        what: "Beside tcplib, of Reno's: throughput, sent again, timeouts",
        paper: "1.53, 0.49, 0.16",
        values: &[
            ("VT4", "Vegas/Reno throughput"),
            ("VT4", "Vegas/Reno sent again"),
            ("VT4", "Vegas/Reno coarse timeouts"),
        ],
        prints: &[],
        sign: |v| v[0] > 1.3 && v[1] < 1.0 && v[2] < 0.5,
        why: "",
    },
    Claim {
        what: "Reno beside Vegas is unchanged",
        paper: "1.02",
        values: &[("VT3", "Reno's 300 KB beside Vegas over beside Reno, throughput")],
        prints: &[(0, "1.02")],
        sign: |v| (0.91..=1.09).contains(&v[0]),
        why: "a seventh more, with a standard error of 0.05, which is within the noise of the paper's 12 runs",
    },
    Claim {
        what: "With traffic both ways: throughput of Reno's, sent again",
        paper: "as 1.53, 0.29",
        values: &[("VE-2way", "Vegas/Reno throughput"), ("VE-2way", "Vegas/Reno sent again")],
        prints: &[],
        sign: |v| v[0] > 1.3 && v[1] < 1.0,
        why: "the other way's acknowledgements take buffers, and Vegas loses by that as Reno does",
    },
    Claim {
        what: "Small send buffers: Vegas is flat from 20 KB on, Reno rises first and stays below",
        paper: "1, below 1, above 1, at least 1",
        values: &[
            ("VE-sndbuf", "Vegas' throughput with 20 KB over with 50 KB"),
            ("VE-sndbuf", "Vegas' throughput with 10 KB over with 20 KB"),
            ("VE-sndbuf", "Reno's best throughput over that with 50 KB"),
            ("VE-sndbuf", "least Vegas/Reno throughput of any size"),
        ],
        prints: &[],
        sign: |v| v[1] < 1.0 && v[2] > 1.0 && v[3] >= 1.0,
        why: "",
    },
    Claim {
        what: "Sixteen Vegas are fairer than sixteen Reno",
        paper: "0.972, 0.921",
        values: &[("VF", "16, both: Vegas"), ("VF", "16, both: Reno")],
        prints: &[],
        sign: |v| v[0] > v[1],
        why: "the time that hosts take for a packet decides (VF's table), and is not given",
    },
    Claim {
        what: "Many Vegas do not collapse: least goodput of 16, of the ring with a thousand a second",
        paper: "no stability problems",
        values: &[
            ("VS", "16 of Vegas: least goodput over link"),
            ("VS", "fig. 12, Vegas: goodput over link, where bulk transfers are held up"),
        ],
        prints: &[],
        sign: |v| v.iter().all(|share| *share > 0.8),
        why: "",
    },
    Claim {
        what: "TELNET's answers come sooner (%), with queues alike",
        paper: "18 to 40, 1",
        values: &[
            ("VQ", "TELNET's response time, less with Vegas by"),
            ("VQ", "mean queue, Vegas over Reno"),
        ],
        prints: &[],
        sign: |v| v[0] > 0.0,
        why: "",
    },
    Claim {
        what: "Vegas* does not lose where Vegas loses one",
        paper: "0, 1",
        values: &[("VE11", "packets that Vegas* loses"), ("VE11", "packets that Vegas loses")],
        prints: &[],
        sign: |v| v[0] == 0.0 && v[1] >= 1.0,
        why: "with one buffer as the threshold of slow start, as the paper has it, Vegas stops \
              before it loses; \
              with two it loses (VE11's second table)",
    },
    Claim {
        what: "BFA alone: power over Reno's, drops, constant; Reno's power falls with the buffer",
        paper: "up to an order of magnitude, 0, 1, below 1",
        values: &[
            ("BE4-6", "BFA/Reno power, the largest of all buffers"),
            ("BE4-6", "BFA: drops at 20 buffers and more"),
            ("BE4-6", "BFA: least over largest power from 20 buffers on"),
            ("BE4-6", "Reno: power at 100 buffers over that at 20"),
        ],
        prints: &[],
        sign: |v| v[0] > 1.0 && v[1] == 0.0 && v[3] < 1.0,
        why: "",
    },
    Claim {
        what: "BFA beside BFA is far above others; BFA beats Reno: power, throughput, buffers with which it does not",
        paper: "above 1, above 1, 0",
        values: &[
            ("BE7-10", "BFA with BFA: power over the better of the others', 20 buffers and more"),
            ("BE7-10", "BFA with Reno: BFA's throughput over Reno's"),
            ("BE7-10", "BFA with Reno: numbers of buffers with which BFA has less"),
        ],
        prints: &[],
        sign: |v| v[0] > 1.0 && v[1] > 1.0,
        why: "Reno has more with five of twenty sizes of the buffer in 1,000 s; with 60 and 100 packets not in 4,000 s",
    },
    Claim {
        what: "Two unequal paths, Jain's index: BFA together and apart, Reno",
        paper: "1.0000, 0.8989, 0.6164, 0.6467",
        values: &[
            ("BE11/12", "two unequal paths, together: BFA"),
            ("BE11/12", "two unequal paths, apart: BFA"),
            ("BE11/12", "two unequal paths, together: Reno"),
            ("BE11/12", "two unequal paths, apart: Reno"),
        ],
        prints: &[],
        sign: |v| v[0] > v[2] && v[1] > v[3],
        why: "",
    },
    Claim {
        what: "Six begun apart are less fair",
        paper: "0.89",
        values: &[("BE11/12", "six, apart: BFA")],
        prints: &[],
        sign: |v| v[0] < 0.95,
        why: "",
    },
    Claim {
        what: "Low congestion: throughput and power of Reno's",
        paper: "1.00, 1.88",
        values: &[("BE13-26", "low: BFA/Reno throughput"), ("BE13-26", "low: BFA/Reno power")],
        prints: &[],
        sign: |v| v[0] > 0.9 && v[1] > 1.0,
        why: "",
    },
    Claim {
        what: "Medium and high congestion: power of Reno's",
        paper: "1.13, 1.00",
        values: &[("BE13-26", "medium: BFA/Reno power"), ("BE13-26", "high: BFA/Reno power")],
        prints: &[],
        sign: |v| v[0] >= 1.0,
        why: "",
    },
    Claim {
        what: "A gain of 3/4 has more power than 1/2",
        paper: "3.5",
        values: &[("BE13-26", "medium: power with a gain of 3/4 over that with 1/2")],
        prints: &[],
        sign: |v| v[0] > 1.0,
        why: "the paper's two ran beside different traffic, by their throughputs (37.68 and 49.69 kbit/s)",
    },
    Claim {
        what: "The least timeout matters most, from 0 to 1 s: W~, B",
        paper: "2.7, 7.5",
        values: &[
            ("AT1-4", "table 1: W~ at 1 s over W~ without a minimum"),
            ("AT1-4", "table 1: B without a minimum over B at 1 s"),
        ],
        prints: &[(0, "2.7"), (1, "7.5")],
        sign: |v| v.iter().all(|ratio| *ratio > 1.0),
        why: "W~ is 1.7: a few connections of short round trips whose timer is backed off decide (2.4 if routers take 3 ms)",
    },
    Claim {
        what: "Gains and the rate of samples hardly matter: W~ over all gains, every sample over one a flight",
        paper: "1.3, 1.0",
        values: &[
            ("AT1-4", "table 3: largest over smallest W~ from very-slow to fast"),
            ("AT1-4", "table 3: W~ of std-every over std"),
        ],
        prints: &[(1, "1.0")],
        sign: |v| v[0] < 1.5 && (0.91..=1.09).contains(&v[1]),
        why: "",
    },
    Claim {
        what: "Clocks up to 100 ms are alike, 500 ms are not: W~",
        paper: "1.0, 2.3",
        values: &[
            ("AT1-4", "table 2: largest over smallest W~ for G of 1 to 100 ms"),
            ("AT1-4", "table 2: W~ at G = 500 ms over W~ at 1 ms"),
        ],
        prints: &[(0, "1.0"), (1, "2.3")],
        sign: |v| v[0] < 1.09 && v[1] > 2.0,
        why: "2.0 at 500 ms, with a standard error of 0.05",
    },
    Claim {
        what: "A least timeout of 250 ms is worth more than k = 6: B",
        paper: "0.93",
        values: &[("AT1-4", "table 4: B of RTO_min 250 ms with k = 4 over B of k = 6 without a minimum")],
        prints: &[],
        sign: |v| v[0] < 1.0,
        why: "half of the bad timeouts would have to be below 250 ms; here they are longer (AT1-4: 0.98 over 10 Mbit/s)",
    },
    Claim {
        what: "Undo with f = 1/2 halves the bad timeouts and is seldom wrong: fall of B, good ones among its finds",
        paper: "0.49, 0.025",
        values: &[("AU", "fall of B with f = 1/2"), ("AU", "the same with f = 1/2")],
        prints: &[],
        sign: |v| v[0] > 0.3 && v[1] < 0.5,
        why: "0.053, and 0.026 if busy hauls do not delay or lines have no other traffic (AT1-4, table of variants)",
    },
    Claim {
        what: "The largest of the receiver's samples harms least: share harmed, and by the smallest less the mean's",
        paper: "0.00, 0.52",
        values: &[
            ("AT5/6", "table 5: reduced performance by Recv max"),
            ("AT5/6", "table 6: reduced performance by Recv min, less that by Recv avg"),
        ],
        prints: &[(1, "0.52")],
        sign: |v| v[0] < 0.01 && v[1] > 0.0,
        why: "the smallest harms 0.57, with a standard error of 0.02",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::many::Summary;
    use crate::{Experiment, Findings, experiments};

    #[test]
    fn a_claim_holds_in_size_in_sign_or_not() {
        let claim = Claim {
            what: "more",
            paper: "2",
            values: &[("VT3", "one"), ("VT3", "other")],
            prints: &[(1, "2")],
            sign: |v| v[1] > v[0],
            why: "it is the path",
        };
        let experiment: &Experiment = experiments().iter().find(|one| one.id == "VT3").unwrap();
        let verdict = |one: f64, other: f64| {
            let of =
                |value: f64, name: &str| Summary::of([value]).value(name, "").printed("2").because("why");
            let values = vec![of(one, "one"), of(other, "other")];
            let outcome =
                ExperimentResult { experiment, findings: Ok(Findings { values, ..Findings::default() }) };
            claim.judge(&[outcome]).map(|(holds, _)| holds)
        };
        assert_eq!(verdict(1.9, 2.1), Some(Holds::InSize));
        assert_eq!(verdict(1.9, 9.0), Some(Holds::InSign));
        assert_eq!(verdict(2.1, 2.0), Some(Holds::Not));
        assert_eq!(claim.judge(&[]), None);
        let empty = ExperimentResult { experiment, findings: Ok(Findings::default()) };
        assert_eq!(claim.judge(&[empty]), Some((Holds::Not, "a value is missing".to_owned())));
        assert_eq!(page(&[]), "");
    }

    #[test]
    fn there_are_36_claims_of_experiments_that_exist() {
        assert_eq!(CLAIMS.len(), 36);
        for (id, _) in CLAIMS.iter().flat_map(|claim| claim.values) {
            assert!(experiments().iter().any(|experiment| experiment.id == *id), "{id}");
        }
    }
}
