//! Mahimahi's format (Ravi Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC
//! 2015; `mm-link`'s manual page and `src/frontend/link_queue.cc`): each line is a time in whole
//! milliseconds at which 1,504 bytes may leave. Times do not decrease; a time on several lines is as many
//! opportunities. At the end, the trace begins again, its last time being the new zero.
//!
//! The manual page speaks of 1,500 bytes. The program takes 1,504, and so does this.

use std::num::NonZeroU64;

use super::{LinkTraceError, wrong};
use crate::units::Rate;

/// The opportunities of one round.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opportunities {
    /// In milliseconds, in order.
    times: Vec<u32>,
    period_ns: NonZeroU64,
}

impl Opportunities {
    pub fn parse<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Result<Self, LinkTraceError> {
        let mut times = Vec::new();
        for (number, line) in lines {
            let allowed = "allowed is a time in whole milliseconds, as in Mahimahi's traces; a table of \
                           rates begins with a line of names, `time` first";
            let time: u32 = line.parse().map_err(|_| wrong(number, format!("found `{line}`; {allowed}")))?;
            if let Some(last) = times.last().filter(|last| **last > time) {
                let what = format!("found {time} after {last}; allowed are times that do not decrease");
                return Err(wrong(number, what));
            }
            if times.len() == OPPORTUNITIES_MAX {
                return Err(LinkTraceError::TooLong(OPPORTUNITIES_MAX));
            }
            times.push(time);
        }
        let period = times.last().map_or(0, |last| u64::from(*last) * NS_PER_MS);
        let period_ns = NonZeroU64::new(period).ok_or(LinkTraceError::Empty("a time above 0"))?;
        Ok(Self { times, period_ns })
    }

    /// The number in all rounds of the first opportunity at `now` or later. It is found from scratch.
    pub fn first_from(&self, now: u64) -> u64 {
        // A round's last time belongs to it, not to the next one.
        let round = now.saturating_sub(1) / self.period_ns;
        let within = now - round * self.period_ns.get();
        let place = self.times.partition_point(|time| u64::from(*time) * NS_PER_MS < within);
        round.saturating_mul(self.times.len() as u64).saturating_add(place as u64)
    }

    /// When the opportunity of this number is, in nanoseconds.
    pub fn time(&self, number: u64) -> u64 {
        let count = self.times.len() as u64;
        let time = u64::from(self.times[(number % count) as usize]) * NS_PER_MS;
        (number / count).saturating_mul(self.period_ns.get()).saturating_add(time)
    }

    /// The bits that can leave before `until`.
    pub fn bits_until(&self, until: u64) -> u128 {
        u128::from(self.first_from(until)) * u128::from(OPPORTUNITY_BYTES) * 8
    }

    pub fn mean_rate(&self) -> Rate {
        let bits = self.times.len() as u128 * u128::from(OPPORTUNITY_BYTES) * 8;
        let rate = bits * 1_000_000_000 / u128::from(self.period_ns.get());
        Rate::bits_per_second(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

/// The bytes that an opportunity carries.
pub(crate) const OPPORTUNITY_BYTES: u32 = 1504;
/// The most lines of a trace, 40 MB of memory.
const OPPORTUNITIES_MAX: usize = 10_000_000;
const NS_PER_MS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    fn opportunities(text: &str) -> Opportunities {
        Opportunities::parse(lines(text)).expect("a trace")
    }

    #[test]
    fn rounds_follow_each_other_from_the_last_time() {
        let times = |text| {
            let trace = opportunities(text);
            (0..7).map(|number| trace.time(number) / NS_PER_MS).collect::<Vec<_>>()
        };
        assert_eq!(times("1"), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(times("0\n3\n3\n"), [0, 3, 3, 3, 6, 6, 6]);
        assert_eq!(times("# two in three\n2\n3\n"), [2, 3, 5, 6, 8, 9, 11]);
    }

    #[test]
    fn the_first_from_a_time_is_what_a_walk_finds() {
        for text in ["1", "0\n3\n3\n", "2\n3\n", "5\n5\n5\n90\n"] {
            let trace = opportunities(text);
            for now in (0..400 * NS_PER_MS).step_by(250_000) {
                let walked = (0..).find(|number| trace.time(*number) >= now);
                assert_eq!(Some(trace.first_from(now)), walked, "{text:?} at {now}");
            }
        }
    }

    #[test]
    fn the_mean_counts_1504_bytes_for_each_line() {
        assert_eq!(opportunities("1").mean_rate(), Rate::bits_per_second(12_032_000));
        assert_eq!(opportunities("1").bits_until(1000 * NS_PER_MS + 1), 12_032_000);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_line() {
        let error = |text: &str| Opportunities::parse(lines(text)).unwrap_err().to_string();
        assert!(
            error("1\n\n2.5").starts_with("line 3: found `2.5`; allowed is a time in whole milliseconds")
        );
        assert!(error("1\n-3").starts_with("line 2: found `-3`"));
        assert!(error("99999999999").starts_with("line 1: found"));
        assert_eq!(error("5\n4"), "line 2: found 4 after 5; allowed are times that do not decrease");
        assert_eq!(error("0\n0\n"), "the trace carries nothing; it needs a time above 0");
        assert_eq!(error("# none\n"), "the trace carries nothing; it needs a time above 0");
    }
}
