//! J11: the rate of datagrams, which have no window.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use ackclock_chart::{Figure, Series, Style};
use ackclock_control::rate::DatagramRate;
use ackclock_sim::report::jain_index;
use ackclock_sim::rng::Rng;

use super::{LINK, PACKET_BYTES};
use crate::many::{Summary, each};
use crate::{Band, Experiment, Findings, Table, Value, draw};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "J11",
    source: "Jacobson & Karels 1988, footnote 13",
    title: "requests without connections: an interval of αI/(α+I), and one that falls by a constant",
    set_up: "The footnote reports a simulation that \"appears to perform well\", without its network or a \
             number. Here: four hosts send requests in packets of 552 bytes over 230.4 kbit/s with 30 \
             buffers; an answer takes 220 ms more than the queue. A request without an answer after a second \
             is lost, and doubles the interval; the requests that were under way by then do not double it \
             again. α is 10 s. The constant is chosen so that both policies grow alike at a quarter of the \
             link's rate. The hosts start within 10 s, at intervals between 20 ms and a second; up to 1 ms \
             of each request's interval is random. 600 s, the first 100 s left out; 20 seeds.",
    run,
};

/// How the interval between two requests follows their fate.
#[derive(Clone, Debug)]
enum Policy {
    /// Footnote 13's.
    Linear(DatagramRate),
    /// "Subtracting a constant amount from interval", after the same doubling.
    Constant(Duration),
}

impl Policy {
    fn interval(&self) -> Duration {
        match self {
            Self::Linear(rate) => rate.interval(),
            Self::Constant(interval) => *interval,
        }
    }

    fn on_success(&mut self) {
        match self {
            Self::Linear(rate) => rate.on_success(),
            Self::Constant(interval) => {
                *interval = interval.saturating_sub(equal_decrement()).max(INTERVAL_MIN);
            }
        }
    }

    fn on_loss(&mut self) {
        match self {
            Self::Linear(rate) => rate.on_loss(),
            Self::Constant(interval) => *interval = interval.saturating_mul(2),
        }
    }
}

/// The decrement by which an interval of a fair share falls to αI/(α+I).
fn equal_decrement() -> Duration {
    let fair = service_time() * HOSTS as u32;
    let seconds = fair.as_secs_f64();
    Duration::from_secs_f64(seconds * seconds / (ALPHA.as_secs_f64() + seconds))
}

fn service_time() -> Duration {
    Duration::from_secs_f64(PACKET_BYTES as f64 * 8.0 / LINK.bits() as f64)
}

/// The course of one network.
struct Run {
    /// Requests of each host in each second that the link carried.
    carried: Vec<[u32; HOSTS]>,
    /// Requests of all hosts in each second, carried or lost.
    sent: Vec<u32>,
    /// Those of them that were lost.
    lost: Vec<u32>,
}

/// An event; times are since the start.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Request,
    Answered,
    /// Of a request that was sent at this time.
    Lost(Duration),
}

/// Four hosts around the link, until [`END`].
fn simulate(seed: u64, policy: impl Fn(Duration) -> Policy) -> Run {
    let mut rng = Rng::derive(seed, "datagrams");
    let mut due = BinaryHeap::new();
    let mut hosts: Vec<(Policy, Duration)> = Vec::new();
    for host in 0..HOSTS {
        let interval = Duration::from_millis(20 + rng.below(980));
        hosts.push((policy(interval), Duration::ZERO));
        due.push(Reverse((Duration::from_millis(rng.below(10_000)), host, Event::Request)));
    }
    // The departures of the packets in the buffers, the one on the wire first.
    let mut queue: VecDeque<Duration> = VecDeque::new();
    let seconds = END.as_secs() as usize;
    let mut run = Run { carried: vec![[0; HOSTS]; seconds], sent: vec![0; seconds], lost: vec![0; seconds] };
    while let Some(Reverse((now, host, event))) = due.pop() {
        if now >= END {
            break;
        }
        let (policy, doubled) = &mut hosts[host];
        match event {
            Event::Request => {
                run.sent[now.as_secs() as usize] += 1;
                let jitter = Duration::from_nanos(rng.below(1_000_000));
                due.push(Reverse((now + policy.interval() + jitter, host, Event::Request)));
                while queue.front().is_some_and(|departure| *departure <= now) {
                    queue.pop_front();
                }
                if queue.len() > BUFFERS {
                    run.lost[now.as_secs() as usize] += 1;
                    due.push(Reverse((now + LOST_AFTER, host, Event::Lost(now))));
                    continue;
                }
                let departure = queue.back().copied().unwrap_or(now) + service_time();
                queue.push_back(departure);
                if let Some(second) = run.carried.get_mut(departure.as_secs() as usize) {
                    second[host] += 1;
                }
                due.push(Reverse((departure + ROUND_TRIP, host, Event::Answered)));
            }
            Event::Answered => policy.on_success(),
            Event::Lost(sent) => {
                if sent >= *doubled {
                    policy.on_loss();
                    *doubled = now;
                }
            }
        }
    }
    run
}

impl Run {
    /// Standard deviation over mean of the requests that all hosts send in a second.
    fn oscillation(&self) -> f64 {
        let sent = settled(&self.sent).iter().map(|sent| f64::from(*sent));
        let mean = Summary::of(sent.clone()).mean;
        Summary::of(sent.map(|sent| (sent - mean).powi(2))).mean.sqrt() / mean
    }

    /// Jain's index of what the hosts got in each minute, the mean of the minutes.
    fn fairness(&self) -> f64 {
        let minutes = settled(&self.carried).chunks(60).map(|minute| {
            let shares: [f64; HOSTS] =
                std::array::from_fn(|host| minute.iter().map(|second| f64::from(second[host])).sum());
            jain_index(&shares)
        });
        Summary::of(minutes).mean
    }

    fn utilisation(&self) -> f64 {
        let carried: u32 = settled(&self.carried).iter().flatten().sum();
        f64::from(carried) * service_time().as_secs_f64() / (END - SETTLED).as_secs_f64()
    }

    fn lost(&self) -> f64 {
        let total = |seconds| f64::from(settled(seconds).iter().sum::<u32>());
        total(&self.lost) / total(&self.sent)
    }
}

/// The seconds after the hosts have found their rates.
fn settled<T>(seconds: &[T]) -> &[T] {
    &seconds[SETTLED.as_secs() as usize..]
}

fn run() -> anyhow::Result<Findings> {
    let linear = each(0..SEEDS, |seed| {
        Ok(simulate(seed, |interval| Policy::Linear(DatagramRate::new(interval, ALPHA))))
    })?;
    let constant = each(0..SEEDS, |seed| Ok(simulate(seed, Policy::Constant)))?;
    let over = |runs: &[Run], measure: fn(&Run) -> f64| Summary::of(runs.iter().map(measure));
    let less = |measure: fn(&Run) -> f64| {
        Summary::of(
            constant.iter().zip(&linear).map(|(constant, linear)| measure(constant) - measure(linear)),
        )
    };
    let values = vec![
        Value {
            paper: "appears to perform well",
            // Congestion avoidance in windows reaches this beside it (JE7-12).
            band: Band::AtLeast(0.95),
            ..over(&linear, Run::utilisation).value("αI/(α+I): share of the link used", "")
        },
        over(&linear, Run::fairness).value("αI/(α+I): Jain's index of the hosts in a minute", ""),
        over(&linear, Run::lost).value("αI/(α+I): share of requests lost", ""),
        Value {
            paper: "a constant oscillates badly",
            band: Band::Above(0.0),
            reason: Some(RUNS_AWAY),
            ..less(Run::oscillation).value("I - c less αI/(α+I): deviation of what is sent over its mean", "")
        },
        less(Run::fairness).value("I - c less αI/(α+I): Jain's index", ""),
        Value {
            paper: "a destabilizing increase",
            band: Band::Above(0.0),
            ..less(Run::lost).value("I - c less αI/(α+I): share of requests lost", "")
        },
    ];
    let rows = [("αI/(α+I)", &linear), ("I - c", &constant)].map(|(name, runs)| {
        let measures: [fn(&Run) -> f64; 4] = [Run::utilisation, Run::oscillation, Run::fairness, Run::lost];
        let cells = measures.map(|measure| format!("{:.3}", over(runs, measure).mean));
        std::iter::once(name.to_owned()).chain(cells).collect()
    });
    let head = ["interval", "link used", "deviation over mean", "Jain's index", "lost"];
    let table = Table {
        title: "Four hosts, means of 20 seeds".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.to_vec(),
    };
    let figures = vec![("J11".to_owned(), picture(&linear[0], &constant[0]))];
    Ok(Findings { values, tables: vec![table], figures, notes: vec![growth(), PROPORTIONAL.to_owned()] })
}

/// The growth of the rate by one answer, at a fair share and at a quarter and four times as much.
fn growth() -> String {
    let fair = service_time() * HOSTS as u32;
    let added = |interval: Duration| {
        let mut policy = Policy::Constant(interval);
        policy.on_success();
        1.0 / policy.interval().as_secs_f64() - 1.0 / interval.as_secs_f64()
    };
    format!(
        "An answer adds 1/α = {:.3} requests a second to a rate, however high it is. The constant, {:.3} ms, \
         adds {:.4} at a quarter of a fair share, {:.3} at a fair share, and {:.3} at four times as much: a \
         slow host hardly gains, and a fast one runs away.",
        1.0 / ALPHA.as_secs_f64(),
        equal_decrement().as_secs_f64() * 1e3,
        added(fair * 4),
        added(fair),
        added(fair / 4),
    )
}

fn picture(linear: &Run, constant: &Run) -> Figure {
    let hosts = |run: &Run| -> Vec<Series> {
        let of_host = |host: usize| {
            let points =
                run.carried.iter().enumerate().map(move |(second, of)| (second as f64, f64::from(of[host])));
            draw::series(&format!("host {}", host + 1), Style::Line, draw::KINDS[host], points.take(PICTURED))
        };
        (0..HOSTS).map(of_host).collect()
    };
    let panels = vec![
        draw::panel("αI/(α+I): packets/s", hosts(linear)),
        draw::panel("I - c: packets/s", hosts(constant)),
    ];
    let caption = "What the link carries for each of four hosts in a second: 230.4 kbit/s, 30 buffers, 52 \
                   packets a second in all.";
    draw::figure("J11: a rate for requests without connections", caption, "s", panels)
}

const PROPORTIONAL: &str = "\
    Each answer adds the same, but a fast host has more answers: its rate grows in proportion to itself over \
    time, not by a constant as a window's does. Only a full queue evens the hosts out, because it strikes \
    those more often that send more.";
const RUNS_AWAY: &str = "\
    it does not swing, it runs away: the link's 52 answers a second take 30 ms from an interval between two \
    doublings, which are a second apart; a host whose interval is below that falls to the least, 1 ms, and \
    stays there, while the others are starved";
const HOSTS: usize = 4;
const BUFFERS: usize = 30;
const SEEDS: u64 = 20;
/// Seconds in the picture.
const PICTURED: usize = 300;
const ALPHA: Duration = Duration::from_secs(10);
const ROUND_TRIP: Duration = Duration::from_millis(220);
/// More than the round trip behind full buffers.
const LOST_AFTER: Duration = Duration::from_secs(1);
const SETTLED: Duration = Duration::from_secs(100);
const END: Duration = Duration::from_secs(600);
/// Far above what the link carries.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_policies_grow_alike_at_a_fair_share() {
        let fair = service_time() * HOSTS as u32;
        let mut linear = Policy::Linear(DatagramRate::new(fair, ALPHA));
        let mut constant = Policy::Constant(fair);
        linear.on_success();
        constant.on_success();
        let apart = linear.interval().abs_diff(constant.interval());
        assert!(linear.interval() < fair && apart <= Duration::from_nanos(2), "{apart:?}");
    }

    #[test]
    fn a_flight_of_losses_doubles_the_interval_once() {
        // At a request each millisecond hundreds are lost before the first loss is known. If each doubled
        // the interval, hardly any request would follow.
        let run = simulate(1, |_| Policy::Linear(DatagramRate::new(INTERVAL_MIN, Duration::from_secs(3600))));
        let (all, settled) = (run.sent[..20].iter().max(), run.sent[30]);
        assert!(all.is_some_and(|all| (1_500..3_000).contains(all)), "{all:?}");
        assert!((40..60).contains(&settled), "{settled}");
    }
}
