//! Service in turns: when packets leave a link that does not send one after the other at a constant rate.
//!
//! Packets wait in the link's queue until a turn. In a turn, as many leave as it has room for; they leave
//! together, at its end. What a turn is depends on the link:
//!
//! | a turn is | file |
//! |---|---|
//! | a moment of a trace at which some bytes may leave | `opportunities.rs` |
//! | one packet, at rates that a trace changes | `rates.rs` |
//! | a burst after an access to the medium | `bursts.rs` |

mod bursts;
mod opportunities;
mod rates;

use bursts::Bursts;
use opportunities::Opportunities;
use rates::Rates;

use crate::link_trace::{Kind, LinkTrace};
use crate::queue::Queued;
use crate::rng::Rng;
use crate::scenario::{Direction, TraceEnd};
use crate::units::{Rate, Share};

/// When packets leave a link in turns.
#[derive(Debug)]
pub(crate) struct Service {
    turns: Turns,
    /// The packet that the last turn had no room for.
    pub head: Option<Queued>,
    /// The packets of the present turn.
    pub leaving: Vec<Queued>,
}

#[derive(Debug)]
enum Turns {
    Opportunities(Opportunities),
    Rates(Rates),
    Bursts(Bursts),
}

/// The conditions of a trace for packets that leave at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// In nanoseconds.
    pub delay: Option<u64>,
    pub loss: Option<Share>,
}

impl Service {
    /// `None` for a link that sends at a constant rate.
    pub fn new(config: &Direction) -> Option<Box<Self>> {
        let repeats = config.trace_end == TraceEnd::Repeat;
        let trace = config.trace.as_ref().and_then(|trace| trace.trace());
        let turns = match (trace, config.aggregation) {
            (Some(trace), _) => Turns::of(trace, repeats, config.rate),
            (None, Some(aggregation)) => Turns::Bursts(Bursts::new(aggregation, config.rate)),
            (None, None) => return None,
        };
        Some(Box::new(Self { turns, head: None, leaving: Vec::new() }))
    }

    /// Packets wait from `from` on. Returns the time of their turn; `u64::MAX` if it never comes.
    pub fn turn(&mut self, from: u64, rng: &mut Rng) -> u64 {
        match &mut self.turns {
            Turns::Opportunities(opportunities) => opportunities.turn(from),
            Turns::Rates(rates) => rates.turn(from),
            Turns::Bursts(bursts) => bursts.turn(from, rng),
        }
    }

    /// Whether any more may leave in the turn at `now`.
    pub fn has_room(&self, now: u64) -> bool {
        match &self.turns {
            Turns::Opportunities(opportunities) => opportunities.has_room(now),
            Turns::Rates(rates) => rates.has_room(),
            Turns::Bursts(bursts) => bursts.has_room(),
        }
    }

    /// Takes a packet into the turn at `now`, or keeps it for the next. Returns whether it leaves.
    pub fn take(&mut self, now: u64, packet: Queued) -> bool {
        let leaves = match &mut self.turns {
            Turns::Opportunities(opportunities) => opportunities.take(now, packet.bytes),
            Turns::Rates(rates) => rates.take(now, packet.bytes),
            Turns::Bursts(bursts) => bursts.take(packet.bytes),
        };
        if leaves {
            self.leaving.push(packet);
        } else {
            self.head = Some(packet);
        }
        leaves
    }

    /// Ends the turn at `now`. Returns when its packets have left.
    pub fn close(&mut self, now: u64) -> u64 {
        match &mut self.turns {
            Turns::Opportunities(opportunities) => opportunities.close(now),
            Turns::Rates(rates) => rates.close(now),
            Turns::Bursts(bursts) => bursts.close(now),
        }
    }

    /// The conditions of the trace for packets that leave at `now`.
    pub fn weather(&self, now: u64) -> Weather {
        match &self.turns {
            Turns::Rates(rates) => rates.weather(now),
            Turns::Opportunities(_) | Turns::Bursts(_) => Weather::default(),
        }
    }

    /// Changes the rate of a link whose trace sets none.
    pub fn set_rate(&mut self, rate: Rate) {
        match &mut self.turns {
            Turns::Opportunities(_) => {}
            Turns::Rates(rates) => rates.set_rate(rate),
            Turns::Bursts(bursts) => bursts.set_rate(rate),
        }
    }

    /// The bits that a trace allows until `until`.
    pub fn bits_until(&self, until: u64) -> Option<u128> {
        match &self.turns {
            Turns::Opportunities(opportunities) => Some(opportunities.bits_until(until)),
            Turns::Rates(rates) => rates.bits_until(until),
            Turns::Bursts(_) => None,
        }
    }
}

impl Turns {
    fn of(trace: &LinkTrace, repeats: bool, rate: Rate) -> Self {
        match trace.kind() {
            Kind::Opportunities(_) => Self::Opportunities(Opportunities::new(trace.clone())),
            Kind::Conditions(_) => Self::Rates(Rates::new(trace.clone(), repeats, rate)),
        }
    }
}
