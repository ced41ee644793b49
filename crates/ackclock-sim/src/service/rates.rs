//! Turns of one packet each, at rates that a trace changes under it.
//!
//! A packet is sent with the rates of its whole transmission: what an outage interrupts goes on after it. As
//! at a constant rate, the remainder of a nanosecond carries over to the next packet in a row.

use super::Weather;
use crate::link_trace::{Conditions, Kind, LinkTrace, Position};
use crate::units::Rate;

/// The rates of a link.
#[derive(Debug)]
pub(super) struct Rates {
    trace: LinkTrace,
    repeats: bool,
    /// The link's own rate, if the trace has none.
    constant: u64,
    busy_until: u64,
    /// The remainder of the rounding, in bits times 10⁹.
    remainder: u128,
    taken: bool,
}

impl Rates {
    pub fn new(trace: LinkTrace, repeats: bool, constant: Rate) -> Self {
        let constant = constant.bits();
        Self { trace, repeats, constant, busy_until: 0, remainder: 0, taken: false }
    }

    pub fn turn(&mut self, from: u64) -> u64 {
        if from > self.busy_until {
            (self.busy_until, self.remainder) = (from, 0);
        }
        // A packet that an outage holds up waits in the queue.
        let mut at = self.busy_until;
        while let Position { left, .. } = self.at(at)
            && self.rate(at) == 0
        {
            let Some(left) = left.filter(|left| at < u64::MAX - left) else { return u64::MAX };
            at += left;
        }
        at
    }

    pub fn has_room(&self) -> bool {
        !self.taken
    }

    pub fn take(&mut self, now: u64, bytes: u32) -> bool {
        if now > self.busy_until {
            (self.busy_until, self.remainder) = (now, 0);
        }
        let mut wanted = u128::from(bytes) * 8_000_000_000 + self.remainder;
        let mut at = self.busy_until;
        if self.repeats && self.governs() {
            // Whole rounds at once.
            let (round, length) = self.conditions().map_or((1, 0), |rows| (rows.round(), rows.length()));
            let rounds = wanted.saturating_sub(1) / round;
            wanted -= rounds * round;
            at = at.saturating_add(u64::try_from(rounds).unwrap_or(u64::MAX).saturating_mul(length));
        }
        (self.busy_until, self.remainder) = loop {
            let rate = u128::from(self.rate(at));
            let left = self.at(at).left;
            let fits = left.is_none_or(|left| u128::from(left) * rate >= wanted);
            match (fits, left) {
                (true, _) if rate > 0 => {
                    let time = u64::try_from(wanted / rate).unwrap_or(u64::MAX);
                    break (at.saturating_add(time), wanted % rate);
                }
                (_, Some(left)) if at < u64::MAX - left => {
                    wanted -= u128::from(left) * rate;
                    at += left;
                }
                // It never leaves.
                _ => break (u64::MAX, 0),
            }
        };
        self.taken = true;
        true
    }

    pub fn close(&mut self, now: u64) -> u64 {
        if std::mem::take(&mut self.taken) { self.busy_until } else { now }
    }

    pub fn set_rate(&mut self, rate: Rate) {
        (self.constant, self.remainder) = (rate.bits(), 0);
    }

    pub fn bits_until(&self, until: u64) -> Option<u128> {
        let rows = self.conditions().filter(|_| self.governs())?;
        Some(rows.capacity_until(until, self.repeats) / 1_000_000_000)
    }

    pub fn weather(&self, now: u64) -> Weather {
        let Some(rows) = self.conditions() else { return Weather::default() };
        let (row, governed) = (rows.at(now, self.repeats).row, rows.governed());
        Weather { delay: governed.delay.then_some(row.delay), loss: governed.loss.then_some(row.loss) }
    }

    fn governs(&self) -> bool {
        self.conditions().is_some_and(|rows| rows.governed().rate)
    }

    fn rate(&self, now: u64) -> u64 {
        if self.governs() { self.at(now).row.rate } else { self.constant }
    }

    fn at(&self, now: u64) -> Position {
        match self.trace.kind() {
            Kind::Conditions(rows) => rows.at(now, self.repeats),
            Kind::Opportunities(_) => Position::NONE,
        }
    }

    fn conditions(&self) -> Option<&Conditions> {
        match self.trace.kind() {
            Kind::Conditions(rows) => Some(rows),
            Kind::Opportunities(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::transmitter::Transmitter;

    const SECOND: u64 = 1_000_000_000;

    fn rates(text: &str, repeats: bool) -> Rates {
        Rates::new(LinkTrace::parse(text).expect("a trace"), repeats, Rate::UNLIMITED)
    }

    /// When a packet that is taken at `now` has left.
    fn send(rates: &mut Rates, now: u64, bytes: u32) -> u64 {
        let turn = rates.turn(now);
        assert!(rates.has_room() && rates.take(turn, bytes) && !rates.has_room());
        rates.close(turn)
    }

    #[test]
    fn a_packet_is_sent_at_all_the_rates_of_its_time() {
        // 1,000 bits in the first second, none in the next, 3,000 in each of the last two.
        let text = "time (s),rate (bit/s)\n0,1000\n1,0\n2,3000\n3,\n";
        let mut link = rates(text, true);
        // 2,000 bits: 1,000 in the first second, 1,000 in a third of the third.
        assert_eq!(send(&mut link, 0, 250), 2 * SECOND + SECOND / 3);
        // A round carries 7,000 bits.
        assert_eq!(send(&mut link, 4 * SECOND, 3 * 7000 / 8), 16 * SECOND);
        // In an outage, it waits for its turn.
        assert_eq!(link.turn(17 * SECOND + 5), 18 * SECOND);
    }

    #[test]
    fn what_holds_an_outage_for_ever_never_has_a_turn() {
        let mut link = rates("time (s),rate (bit/s)\n0,1000\n1,0\n", false);
        assert_eq!(send(&mut link, 0, 100), SECOND * 8 / 10);
        assert_eq!(send(&mut link, 0, 100), u64::MAX);
        assert_eq!(rates("time (s),rate (bit/s)\n0,1000\n1,0\n", false).turn(SECOND), u64::MAX);
    }

    #[test]
    fn a_packet_that_takes_more_than_all_of_time_never_leaves() {
        let mut link = rates("time,rate\n0,1bit/s\n1ns,0\n8000h,\n", true);
        assert_eq!(send(&mut link, 0, 1500), u64::MAX);
        assert_eq!(link.turn(SECOND), u64::MAX);
    }

    #[test]
    fn delay_and_loss_are_those_of_the_time_at_which_a_packet_has_left() {
        let text = "time (s),delay (ms),loss (%)\n0,10,0\n1,30,5\n";
        let mut link = Rates::new(LinkTrace::parse(text).expect("a trace"), true, Rate::mbit(1));
        let mut weather = |now| {
            let turn = link.turn(now);
            link.take(turn, 1250);
            let left = link.close(turn);
            let Weather { delay, loss } = link.weather(left);
            (left - now, delay, loss.map(|loss| loss.parts_per_billion()))
        };
        assert_eq!(weather(0), (SECOND / 100, Some(10_000_000), Some(0)));
        assert_eq!(weather(SECOND - 1), (SECOND / 100, Some(30_000_000), Some(50_000_000)));
    }

    proptest! {
        /// Where the rate stays, this is the constant transmitter.
        #[test]
        fn a_flat_trace_is_a_constant_rate(
            rate in 1000u64..1_000_000_000_000,
            packets in prop::collection::vec((0u64..1 << 24, 1u32..65_536), 1..50),
        ) {
            let text = format!("time (us),rate\n0,{rate}bit/s\n7,\n23,\n");
            let mut traced = rates(&text, true);
            let mut constant = Transmitter::new(Rate::bits_per_second(rate));
            let mut now = 0;
            for (pause, bytes) in packets {
                now += pause;
                let begins = now.max(constant.busy_until());
                let left = send(&mut traced, now, bytes);
                prop_assert_eq!(left, constant.send(begins, bytes));
            }
        }
    }
}
