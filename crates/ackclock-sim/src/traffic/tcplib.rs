//! Conversations of 1991: Peter Danzig and Sugih Jamin, "tcplib: A Library of TCP Internetwork Traffic
//! Characteristics", University of Southern California, report USC-CS-91-495, 1991; Danzig, Jamin, Cáceres,
//! Mitzel and Estrin, "An Empirical Workload Model for Driving Wide-Area TCP/IP Network Simulations",
//! Internetworking 3, 1992.
//!
//! tcplib is code around tables of measured distributions, and those tables are not here. What stands in
//! their place, number by number:
//!
//! * Structure: TELNET sends small packets at random intervals and is echoed; FTP is a control conversation
//!   and a number of items, each on a connection of its own; NNTP sends a number of articles, SMTP one
//!   letter, each with the dialogue of its protocol. Conversations begin at exponential intervals. That is
//!   tcplib's.
//! * TELNET, time between packets: a table of quantiles made from what Paxson and Floyd ("Wide-Area Traffic:
//!   The Failure of Poisson Modeling", IEEE/ACM ToN 3(3), 1995, §IV) say of tcplib's table: less than 2 % are
//!   below 8 ms, more than 15 % above 1 s; the body is close to Pareto's distribution with shape 0.9, the
//!   upper 3 % to shape 0.95; the mean is about 1.1 s, to which the table's upper end of 60 s was chosen.
//! * TELNET, duration: log-normal with median 240 s and a standard deviation of log2 7.8 (Paxson,
//!   "Empirically Derived Analytic Models of Wide-Area TCP Connections", IEEE/ACM ToN 2(4), 1994, which fits
//!   tcplib's sites too).
//! * TELNET, sizes: one byte and its echo; one in sixteen ends a line and is answered by a log-normal output
//!   with median 160 bytes, which makes the responder send about twenty times as much as the originator
//!   (Paxson 1994). The median is an approximation.
//! * FTP, NNTP and SMTP: log-normal sizes of items with medians of 3,000, 2,000 and 1,500 bytes and standard
//!   deviations of 3, 1.5 and 1.6 powers of 2; a geometric number of items with mean 4 for FTP and 5 for
//!   NNTP. These are approximations, of the order that Cáceres, Danzig, Jamin and Mitzel ("Characteristics of
//!   Wide-Area TCP/IP Conversations", SIGCOMM 1991) report: most transfers are below 10 KB, few above 100 KB,
//!   and means of tens of KB come from these few. An item is at most 10 MB, a TELNET conversation at most
//!   2,000 packets.

use std::collections::VecDeque;

use super::source::Step;
use crate::rng::{Rng, Variates as _};
use crate::scenario::TcplibMix;
use crate::units::Span;

/// A conversation of a random kind: the scripts of its connections, which all begin at once.
pub(super) fn conversation(mix: TcplibMix, rng: &mut Rng) -> Vec<VecDeque<Step>> {
    let weights = [mix.telnet, mix.ftp, mix.nntp, mix.smtp].map(|share| u64::from(share.parts_per_billion()));
    let mut draw = rng.below(weights.iter().sum());
    let mut kind = 0;
    while kind < 3 && draw >= weights[kind] {
        draw -= weights[kind];
        kind += 1;
    }
    match kind {
        0 => vec![telnet(rng)],
        1 => ftp(rng),
        2 => vec![nntp(rng)],
        _ => vec![smtp(rng)],
    }
}

fn telnet(rng: &mut Rng) -> VecDeque<Step> {
    let mut left = rng.log_normal(240_000_000_000, 2963);
    let mut steps = VecDeque::new();
    while steps.len() < TELNET_PACKETS_MAX {
        let after = interarrival(rng);
        if after.0 > left {
            break;
        }
        left -= after.0;
        let output = if rng.below(16) == 0 { rng.log_normal(160, 1500).min(ITEM_MAX) } else { 0 };
        steps.push_back(Step { after, bytes: 1, reply: 1 + output, ..Step::default() });
    }
    steps
}

/// The time between two packets of a TELNET originator.
fn interarrival(rng: &mut Rng) -> Span {
    let share = rng.below(100_000);
    let upper =
        INTERARRIVALS.iter().position(|(quantile, _)| share < *quantile).unwrap_or(INTERARRIVALS.len() - 1);
    let ((from, low), (to, high)) = (INTERARRIVALS[upper.max(1) - 1], INTERARRIVALS[upper.max(1)]);
    // Within a row, steps are short enough for linear interpolation.
    Span((low + (high - low) * (share - from) / (to - from)) * 1_000)
}

/// The control conversation, and a connection for each item. In FTP, items follow each other. Here each
/// begins when the control conversation would have requested it, at two commands a second.
fn ftp(rng: &mut Rng) -> Vec<VecDeque<Step>> {
    let items = geometric(4, rng);
    let dialogue = |n: u64| (0..n).map(|_| command(40, 60));
    let control = dialogue(4).chain(dialogue(3 * items)).collect();
    let mut connections = vec![control];
    for item in 0..items {
        let bytes = rng.log_normal(3000, 3000).clamp(1, ITEM_MAX);
        let after = Span::millis(1500 * (item + 1));
        connections.push([Step { after, bytes, ..Step::default() }].into());
    }
    connections
}

fn nntp(rng: &mut Rng) -> VecDeque<Step> {
    let mut steps = VecDeque::from([command(1, 60)]);
    for _ in 0..geometric(5, rng) {
        // IHAVE, then the article.
        steps.push_back(command(50, 40));
        steps.push_back(Step { bytes: rng.log_normal(2000, 1500).clamp(1, ITEM_MAX), ..command(0, 30) });
    }
    steps
}

fn smtp(rng: &mut Rng) -> VecDeque<Step> {
    // HELO, MAIL, RCPT, DATA, the letter, QUIT.
    let mut steps: VecDeque<Step> = [30, 40, 40, 6].map(|bytes| command(bytes, 50)).into();
    steps.push_back(Step { bytes: rng.log_normal(1500, 1600).clamp(1, ITEM_MAX), ..command(0, 50) });
    steps.push_back(command(6, 40));
    steps
}

/// A command and its reply, in turn.
fn command(bytes: u64, reply: u64) -> Step {
    Step { in_turn: true, bytes, reply, ..Step::default() }
}

/// A geometrically distributed number of at least 1 with this mean.
fn geometric(mean: u64, rng: &mut Rng) -> u64 {
    let mut n = 1;
    while n < ITEMS_MAX && rng.below(mean) != 0 {
        n += 1;
    }
    n
}

/// Quantiles in parts of 100,000, and microseconds.
const INTERARRIVALS: [(u64, u64); 22] = [
    (0, 1_000),
    (1_900, 8_000),
    (10_000, 30_000),
    (20_000, 60_000),
    (30_000, 95_000),
    (40_000, 130_000),
    (50_000, 170_000),
    (60_000, 230_000),
    (70_000, 350_000),
    (78_000, 600_000),
    (84_000, 1_000_000),
    (88_000, 1_380_000),
    (91_000, 1_900_000),
    (94_000, 2_980_000),
    (97_000, 6_430_000),
    (97_700, 8_505_000),
    (98_200, 11_000_000),
    (98_600, 14_300_000),
    (99_000, 20_400_000),
    (99_300, 29_700_000),
    (99_500, 42_400_000),
    (100_000, 60_000_000),
];
const TELNET_PACKETS_MAX: usize = 2000;
const ITEMS_MAX: u64 = 100;
const ITEM_MAX: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const N: u64 = 200_000;

    #[test]
    fn telnet_packets_come_as_published_of_tcplib() {
        let mut rng = Rng::derive(1, "telnet");
        let times: Vec<u64> = (0..N).map(|_| interarrival(&mut rng).0).collect();
        let share = |above: u64| times.iter().filter(|time| **time > above).count() as f64 / N as f64;
        assert!(1.0 - share(8_000_000) < 0.02);
        assert!(share(1_000_000_000) > 0.15);
        let mean = times.iter().sum::<u64>() as f64 / N as f64 / 1e9;
        assert!((1.0..1.2).contains(&mean), "{mean}");
        // Pareto's shape from 1 s to the 97 % quantile: log(share ratio) / log(time ratio).
        let shape = (share(1_000_000_000) / share(5_000_000_000)).ln() / 5f64.ln();
        assert!((0.8..1.0).contains(&shape), "{shape}");
    }

    #[test]
    fn responders_of_telnet_send_about_twenty_times_as_much() {
        let mut rng = Rng::derive(2, "telnet");
        let (mut sent, mut answered) = (0, 0);
        for _ in 0..2000 {
            for step in telnet(&mut rng) {
                sent += step.bytes;
                answered += step.reply;
            }
        }
        let ratio = answered as f64 / sent as f64;
        assert!((14.0..26.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn kinds_come_by_their_weights_and_most_items_are_small() {
        let mut rng = Rng::derive(3, "mix");
        let mix = TcplibMix { nntp: crate::units::Share::ZERO, ..TcplibMix::default() };
        let conversations: Vec<_> = (0..30_000).map(|_| conversation(mix, &mut rng)).collect();
        let ftp: Vec<_> = conversations.iter().filter(|scripts| scripts.len() > 1).collect();
        assert!((9_500..10_500).contains(&ftp.len()), "{}", ftp.len());
        let items: Vec<u64> =
            ftp.iter().flat_map(|scripts| &scripts[1..]).map(|script| script[0].bytes).collect();
        let small = items.iter().filter(|bytes| **bytes < 10_000).count() as f64 / items.len() as f64;
        assert!((0.66..0.78).contains(&small), "{small}");
        let mean_items = items.len() as f64 / ftp.len() as f64;
        assert!((3.8..4.2).contains(&mean_items), "{mean_items}");
    }
}
