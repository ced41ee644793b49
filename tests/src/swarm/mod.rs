//! The swarm: many connections on one network with every fault that networks have.
//!
//! A seed is a network of a server and two to five clients, each with a path of its own: rates that differ by
//! direction, delay, queues, loss, copies, damage, boxes that strip options, rewrite sequence numbers,
//! translate addresses; some dozens of transfers; and a dozen or two of events (see [`Fault`]), from a merged
//! segment to a reboot of the server. The stacks are the program's own, with the sockets that a program has;
//! the swarm moves their packets and their clocks, in virtual time.
//!
//! | question | file |
//! |---|---|
//! | What does a seed stand for, and how is it made smaller? | `plan.rs` |
//! | Which faults are there, and how often did they strike? | `faults.rs` |
//! | What happens next? | `world.rs`; what an event does, `events.rs`; forged segments, `forgery.rs` |
//! | What do the boxes on a path do? | `boxes.rs`; the links beside them, `path.rs` |
//! | What is a host? | `machine.rs` |
//! | What do the programs do, and compare? | `program.rs`, polled by `tasks.rs` |
//! | How long may a transfer take, and which errors are excused? | `judge.rs` |
//! | What holds for each segment? | `wires.rs`, and [`crate::flow`] |
//!
//! Each run must satisfy:
//!
//! - Every byte is compared, and the end of a stream is where its sender ended it.
//! - Every packet passes [`crate::host::check_frame`] and [`crate::flow`]: sizes, options, flags; the
//!   window's right edge moves back by less than its unit, and nothing is sent beyond the peer's window.
//! - A connection fails only after an event that ends connections.
//! - A forged reset ends a connection when its number is exact, and never otherwise (RFC 9293 §3.10.7.4).
//! - An old segment with numbers of today is recognised by its timestamp, and none of its data is taken (RFC
//!   7323 §5).
//! - A forged SACK block of anything but outstanding data counts for nothing (RFC 2018 §3). After one of data
//!   that the peer does not hold, that data is still sent again (RFC 2018 §5).
//! - Memory stays within the budget, and a connection that waits has a timer.
//! - The peer learns of a window that has opened, and no data counts as held without a SACK block that covers
//!   it.
//! - Each transfer ends within its bounds, neither too early nor too late (`judge.rs`).
//! - At the end nothing is left: no connection, no memory, and an hour without a packet.

mod boxes;
mod events;
mod faults;
mod forgery;
mod judge;
mod machine;
mod path;
mod plan;
mod program;
mod tasks;
mod wires;
mod world;

use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use self::faults::{Counts, Fault};
pub use self::plan::Cut;
use self::world::SwarmRun;
use crate::link::LinkStats;

/// The number of seeds whose packets are pinned, from 0 on (`tests/packets`).
pub const PINNED_SEEDS: u64 = 24;

/// The totals of one seed, or of many.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Payload bytes that programs received and compared.
    pub bytes: u64,
    /// Transfers, all of which ended.
    pub transfers: u64,
    /// Connections that clients established for them.
    pub connections: u64,
    /// Packets that the stacks sent.
    pub packets: u64,
    /// Segments that reached a host for a connection from before its reboot.
    pub old_segments: u64,
    /// Simulated time until the last transfer ended.
    pub seconds: f64,
    /// The largest share of its upper bound that a transfer used.
    pub of_bound: f64,
    /// How often each fault struck.
    pub counts: Counts,
}

/// The result of a seed.
#[derive(Clone, Debug)]
pub struct SeedResult {
    /// Counts of actions.
    pub done: Done,
    /// The statistics of each direction of each path.
    pub links: Vec<LinkStats>,
    /// Over every packet sent or received, and its time.
    pub hash: u64,
}

/// Runs a seed, or a cut of it.
///
/// # Errors
/// The violation, in the words of the check that found it.
pub fn run(seed: u64, cut: &Cut, trace: Option<Box<dyn Write>>) -> Result<SeedResult, String> {
    let run = AssertUnwindSafe(|| SwarmRun::new(seed, cut, trace).run());
    catch_unwind(run).map_err(|panic| match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => {
            panic.downcast_ref::<&str>().map_or("a panic without a message", |message| message).to_owned()
        }
    })
}

/// The totals of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Total {
    /// The number of seeds.
    pub seeds: u64,
    /// Their outcome together.
    pub done: Done,
    /// Packets lost, dropped by queues, copied, held back, damaged, cut short.
    pub links: [u64; 6],
    /// The hashes of all seeds, in the order in which they were added.
    pub hash: u64,
}

impl Done {
    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.transfers += other.transfers;
        self.connections += other.connections;
        self.packets += other.packets;
        self.old_segments += other.old_segments;
        self.seconds += other.seconds;
        self.of_bound = self.of_bound.max(other.of_bound);
        self.counts.merge(&other.counts);
    }
}

impl Total {
    /// Adds one seed.
    pub fn add(&mut self, outcome: &SeedResult) {
        self.seeds += 1;
        self.done.add(&outcome.done);
        for link in &outcome.links {
            let one = [
                link.lost,
                link.queue_drops,
                link.duplicated,
                link.reordered,
                link.corrupted,
                link.truncated,
            ];
            self.links.iter_mut().zip(one).for_each(|(all, one)| *all += one);
        }
        self.hash = (self.hash.rotate_left(5) ^ outcome.hash).wrapping_mul(0x0100_0000_01b3);
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = &self.done;
        let [lost, dropped, copied, held, damaged, cut] = self.links;
        writeln!(
            f,
            "{} seeds: {} transfers over {} connections, {:.3} GiB compared, {} packets, {:.1} simulated \
             hours",
            self.seeds,
            done.transfers,
            done.connections,
            done.bytes as f64 / f64::from(1 << 30),
            done.packets,
            done.seconds / 3600.0
        )?;
        writeln!(
            f,
            "packets lost {lost}, dropped by queues {dropped}, copied {copied}, held back {held}, damaged \
             {damaged}, cut short {cut}; segments of before a reboot {}",
            done.old_segments
        )?;
        writeln!(f, "at most {:.0} % of a transfer's time were used; faults:", 100.0 * done.of_bound)?;
        write!(f, "{}", done.counts)
    }
}

/// Runs seeds as long as `go_on` says, and adds them up. Returns the sum and the first seed that fails, with
/// its message; the run ends there.
pub fn run_many(
    seeds: impl Iterator<Item = u64>,
    mut go_on: impl FnMut(&Total) -> bool,
) -> (Total, Option<(u64, String)>) {
    let mut total = Total::default();
    for seed in seeds {
        if !go_on(&total) {
            break;
        }
        match run(seed, &Cut::default(), None) {
            Ok(outcome) => total.add(&outcome),
            Err(why) => return (total, Some((seed, why))),
        }
    }
    (total, None)
}

/// Removes from a failing seed what it does not need: boxes and loss, events, transfers, length.
#[must_use]
pub fn minimise(seed: u64, mut say: impl FnMut(&Cut)) -> Cut {
    let mut cut = Cut::default();
    let fails = |cut: &Cut| run(seed, cut, None).is_err();
    let mut try_it = |cut: &mut Cut, smaller: Cut| {
        let still = fails(&smaller);
        if still {
            *cut = smaller;
            say(cut);
        }
        still
    };
    let plain = Cut { plain: true, ..cut.clone() };
    try_it(&mut cut, plain);
    let (events, transfers) = SwarmRun::sizes(seed);
    shrink((0..events).collect(), |left| {
        let smaller = Cut { events: Some(left), ..cut.clone() };
        try_it(&mut cut, smaller)
    });
    shrink((0..transfers).collect(), |left| {
        let smaller = Cut { transfers: Some(left), ..cut.clone() };
        try_it(&mut cut, smaller)
    });
    for divide in [1024, 64, 8, 2] {
        let smaller = Cut { divide, ..cut.clone() };
        if try_it(&mut cut, smaller) {
            break;
        }
    }
    cut
}

/// Tries to remove ever smaller parts of `all`; keeps what is left when `works` says so.
fn shrink(mut all: Vec<usize>, mut works: impl FnMut(Vec<usize>) -> bool) {
    let mut part = all.len();
    while part > 0 {
        let mut from = 0;
        while from < all.len() {
            let left: Vec<usize> = all
                .iter()
                .enumerate()
                .filter(|(at, _)| !(from..from + part).contains(at))
                .map(|(_, one)| *one)
                .collect();
            if works(left.clone()) {
                all = left;
            } else {
                from += part;
            }
        }
        part /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_remains_and_nothing_else() {
        let mut best = Vec::new();
        shrink((0..20).collect(), |left| {
            let works = left.contains(&3) && left.contains(&17);
            if works {
                best = left;
            }
            works
        });
        assert_eq!(best, [3, 17]);
    }
}
