//! How long something may be idle, by the port that it goes to.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

/// A time for all ports, and other times for some.
#[derive(Clone, Debug)]
pub(crate) struct Timeouts {
    others: Duration,
    by_port: HashMap<u16, Duration>,
}

/// `SECONDS`, or `PORT=SECONDS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeout {
    port: Option<u16>,
    time: Duration,
}

impl Timeouts {
    /// The given times over the defaults; the last one for a port counts.
    pub(crate) fn new(defaults: &[(Option<u16>, u64)], given: &[Timeout]) -> Self {
        let defaults = defaults.iter().map(|&(port, seconds)| (port, Duration::from_secs(seconds)));
        let mut all = Self { others: Duration::MAX, by_port: HashMap::new() };
        for (port, time) in defaults.chain(given.iter().map(|timeout| (timeout.port, timeout.time))) {
            match port {
                Some(port) => drop(all.by_port.insert(port, time)),
                None => all.others = time,
            }
        }
        all
    }

    pub(crate) fn of(&self, port: u16) -> Duration {
        self.by_port.get(&port).copied().unwrap_or(self.others)
    }
}

impl FromStr for Timeout {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (port, seconds) = match text.split_once('=') {
            Some((port, seconds)) => (Some(port.parse().map_err(|_| WRONG)?), seconds),
            None => (None, text),
        };
        Ok(Self { port, time: Duration::from_secs(seconds.parse().map_err(|_| WRONG)?) })
    }
}

const WRONG: &str = "write SECONDS, or PORT=SECONDS for one port";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_the_last_time_given_for_it() {
        let given = ["20", "443=300", "443=600"].map(|text| text.parse().unwrap());
        let times = Timeouts::new(&[(None, 120), (Some(53), 10)], &given);
        assert_eq!([53, 443, 80].map(|port| times.of(port).as_secs()), [10, 600, 20]);
        for wrong in ["", "=1", "a=1", "1=", "70000=1", "-1"] {
            assert_eq!(wrong.parse::<Timeout>(), Err(WRONG), "{wrong}");
        }
    }
}
