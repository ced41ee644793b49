//! Conversations of 1991: Peter Danzig and Sugih Jamin, "tcplib: A Library of TCP Internetwork Traffic
//! Characteristics", University of Southern California, report USC-CS-91-495, 1991; Danzig, Jamin, Cáceres,
//! Mitzel and Estrin, "An Empirical Workload Model for Driving Wide-Area TCP/IP Network Simulations",
//! Internetworking 3, 1992.
//!
//! The measurements are theirs, in `tcplib.tsv`: how many items an FTP conversation has and how long they
//! are, how many articles an NNTP conversation has and how long they are, how long a letter of SMTP is, how
//! long a TELNET conversation lasts, how far apart its packets are and what they carry. So are the shares of
//! the kinds ([`TcplibMix`]). Conversations begin at exponential intervals. The tables leave this open:
//!
//! * TELNET: a byte each time, answered by a packet of the table. L. Brakmo and L. Peterson (IEEE JSAC 13(8),
//!   1995, §IV-B2): they "send one byte and get one or more bytes back".
//! * FTP: each item has its own connection, which opens half a second after the one before has closed. At the
//!   same time the control conversation sends four commands for the login and three for each item. Their
//!   sizes are the table's, and 60 bytes answer each.
//! * NNTP: an offer of 50 bytes and 40 back, then the article and 30 back, in turn.
//! * SMTP: HELO, MAIL, RCPT and DATA, then the letter, then QUIT, in turn.
//!
//! A TELNET conversation has 2,000 packets at most.

use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;

use super::source::Step;
use crate::rng::Rng;
use crate::scenario::TcplibMix;
use crate::units::Span;

/// The steps of one connection.
pub(super) type Script = VecDeque<Step>;

/// A conversation of a random kind: rows of connections, the rows side by side, the connections of a row one
/// after the other.
pub(super) fn conversation(mix: TcplibMix, rng: &mut Rng) -> Vec<VecDeque<Script>> {
    let weights = [mix.telnet, mix.ftp, mix.nntp, mix.smtp].map(|share| u64::from(share.parts_per_billion()));
    let mut draw = rng.below(weights.iter().sum());
    let mut kind = 0;
    while kind < 3 && draw >= weights[kind] {
        draw -= weights[kind];
        kind += 1;
    }
    match kind {
        0 => vec![[telnet(rng)].into()],
        1 => ftp(rng),
        2 => vec![[nntp(rng)].into()],
        _ => vec![[smtp(rng)].into()],
    }
}

fn telnet(rng: &mut Rng) -> Script {
    let mut left = Span::millis(draw("telnet-duration-ms", rng)).0;
    let mut steps = Script::new();
    while steps.len() < TELNET_PACKETS_MAX {
        let after = Span(draw("telnet-interval-us", rng).saturating_mul(1000));
        if after.0 > left {
            break;
        }
        left -= after.0;
        let reply = draw("telnet-bytes", rng).max(1);
        steps.push_back(Step { after, bytes: 1, reply, ..Step::default() });
    }
    steps
}

fn ftp(rng: &mut Rng) -> Vec<VecDeque<Script>> {
    let items = draw("ftp-items", rng).max(1);
    let commands = 4 + 3 * items;
    let control = (0..commands).map(|_| command(draw("ftp-control-bytes", rng).max(1), 60)).collect();
    let item = |_| -> Script {
        let bytes = draw("ftp-item-bytes", rng).max(1);
        [Step { after: Span::millis(500), bytes, ..Step::default() }].into()
    };
    vec![[control].into(), (0..items).map(item).collect()]
}

fn nntp(rng: &mut Rng) -> Script {
    let mut steps = Script::from([command(1, 60)]);
    for _ in 0..draw("nntp-items", rng).max(1) {
        // IHAVE, then the article.
        steps.push_back(command(50, 40));
        steps.push_back(command(draw("nntp-item-bytes", rng).max(1), 30));
    }
    steps
}

fn smtp(rng: &mut Rng) -> Script {
    // HELO, MAIL, RCPT, DATA, the letter, QUIT.
    let mut steps: Script = [30, 40, 40, 6].map(|bytes| command(bytes, 50)).into();
    steps.push_back(command(draw("smtp-bytes", rng).max(1), 50));
    steps.push_back(command(6, 40));
    steps
}

/// A command and its reply, in turn.
fn command(bytes: u64, reply: u64) -> Step {
    Step { in_turn: true, bytes, reply, ..Step::default() }
}

/// A value of one of the tables.
fn draw(table: &str, rng: &mut Rng) -> u64 {
    let points = tables().get(table).map_or(&[][..], Vec::as_slice);
    let thousandths = rng.below(1000);
    let upper = points.partition_point(|(_, share)| *share <= thousandths);
    let value = |place: usize| points.get(place).map_or(0, |(value, _)| *value);
    match upper {
        0 => value(0),
        _ => {
            let (low, high) = (value(upper - 1), value(upper).max(value(upper - 1)));
            low + rng.below(high - low + 1)
        }
    }
}

/// The tables by name: values, and how many of a thousand are at most that.
fn tables() -> &'static BTreeMap<&'static str, Vec<(u64, u64)>> {
    static TABLES: OnceLock<BTreeMap<&'static str, Vec<(u64, u64)>>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut tables: BTreeMap<&'static str, Vec<(u64, u64)>> = BTreeMap::new();
        for line in include_str!("tcplib.tsv").lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split('\t');
            let (name, value, share) = (words.next(), words.next(), words.next());
            let number = |word: Option<&str>| word.and_then(|word| word.parse().ok());
            if let (Some(name), Some(value), Some(share)) = (name, number(value), number(share)) {
                tables.entry(name).or_default().push((value, share));
            }
        }
        tables
    })
}

const TELNET_PACKETS_MAX: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Share;

    const N: u64 = 100_000;

    fn mean(table: &str, seed: u64) -> f64 {
        let mut rng = Rng::derive(seed, table);
        (0..N).map(|_| draw(table, &mut rng) as f64).sum::<f64>() / N as f64
    }

    #[test]
    fn means_are_those_of_the_tables() {
        // The mean of a piecewise uniform distribution, by hand of the file: sum of (share of a bin) times
        // (its middle). The tolerance is four standard errors of the heaviest.
        for (table, expected, tolerance) in [
            ("ftp-items", 7.1, 0.3),
            ("ftp-control-bytes", 28.2, 0.5),
            ("nntp-items", 383.0, 15.0),
            ("nntp-item-bytes", 2023.0, 30.0),
            ("smtp-bytes", 1674.0, 120.0),
            ("telnet-bytes", 25.2, 1.0),
            ("telnet-duration-ms", 674_600.0, 20_000.0),
        ] {
            let mean = mean(table, 1);
            assert!((mean - expected).abs() < tolerance, "{table}: {mean}");
        }
    }

    #[test]
    fn telnet_packets_come_as_the_table_says() {
        // Of a thousand 44 are at most 7.2 ms and 856 at most 1 s. Paxson and Floyd (IEEE/ACM ToN 3(3), 1995,
        // §IV) say less than 2 % below 8 ms and more than 15 % above 1 s, which is not quite this table.
        let mut rng = Rng::derive(1, "telnet");
        let times: Vec<u64> = (0..N).map(|_| draw("telnet-interval-us", &mut rng)).collect();
        let share = |above: u64| times.iter().filter(|time| **time > above).count() as f64 / N as f64;
        assert!((0.953..0.959).contains(&share(7_200)), "{}", share(7_200));
        assert!((0.141..0.147).contains(&share(1_000_000)), "{}", share(1_000_000));
    }

    #[test]
    fn tables_rise_to_their_end() {
        assert_eq!(tables().len(), 9);
        for (name, points) in tables() {
            assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1), "{name}");
            assert_eq!(points.last().map(|(_, share)| *share), Some(1000), "{name}");
        }
    }

    #[test]
    fn kinds_come_by_their_weights_and_items_of_ftp_one_after_the_other() {
        let mut rng = Rng::derive(3, "mix");
        let third = Share::per_million(333_333);
        let mix = TcplibMix { telnet: third, ftp: third, nntp: Share::ZERO, smtp: third };
        let conversations: Vec<_> = (0..30_000).map(|_| conversation(mix, &mut rng)).collect();
        let ftp: Vec<_> = conversations.iter().filter(|rows| rows.len() > 1).collect();
        assert!((9_500..10_500).contains(&ftp.len()), "{}", ftp.len());
        let items = ftp.iter().map(|rows| rows[1].len()).sum::<usize>() as f64 / ftp.len() as f64;
        assert!((6.5..7.7).contains(&items), "{items}");
        assert!(ftp.iter().all(|rows| rows[0].len() == 1 && rows[0][0].len() == 4 + 3 * rows[1].len()));
    }
}
