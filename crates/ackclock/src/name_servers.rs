//! Which name servers a stack asks, how it tries a name's addresses, and the resolver.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

/// The name servers of a stack, and how it tries a name's addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub servers: Vec<SocketAddr>,
    pub eyeballs: HappyEyeballs,
}

/// How the addresses of a name are tried: the values that RFC 8305 §8 lets a client configure, for
/// [`StackBuilder::happy_eyeballs`](crate::StackBuilder::happy_eyeballs). The defaults are those recommended
/// there.
///
/// ```
/// use std::time::Duration;
/// use ackclock::HappyEyeballs;
///
/// // A distant network: an attempt gets half a second before the next one starts beside it.
/// let patient = HappyEyeballs::default().attempt_delay(Duration::from_millis(500));
/// assert_ne!(patient, HappyEyeballs::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct HappyEyeballs {
    pub(crate) resolution_delay: Duration,
    pub(crate) attempt_delay: Duration,
    pub(crate) first_family: usize,
}

impl Default for HappyEyeballs {
    fn default() -> Self {
        Self { resolution_delay: RESOLUTION_DELAY, attempt_delay: ATTEMPT_DELAY, first_family: FIRST_FAMILY }
    }
}

impl HappyEyeballs {
    /// How long IPv4 addresses wait for IPv6 ones (§3, Resolution Delay): 50 ms by default.
    pub fn resolution_delay(mut self, delay: Duration) -> Self {
        self.resolution_delay = delay;
        self
    }

    /// How long after the start of one attempt the next one starts, unless the attempt fails earlier (§5,
    /// Connection Attempt Delay): 250 ms by default. Values outside 100 ms to 2 s are clamped.
    pub fn attempt_delay(mut self, delay: Duration) -> Self {
        self.attempt_delay = delay.clamp(ATTEMPT_DELAY_MIN, ATTEMPT_DELAY_MAX);
        self
    }

    /// How many IPv6 addresses are tried before the families alternate (§4, First Address Family Count): 1 by
    /// default, 2 to favor IPv6 more; at least 1.
    pub fn first_family_count(mut self, count: usize) -> Self {
        self.first_family = count.max(1);
        self
    }
}

/// Asks a stack's name servers. The stack keeps one and does not know the sockets through which it asks.
pub(crate) trait NameLookup: fmt::Debug + Send + Sync {
    /// The addresses of a name: the answer for IPv6 and the one for IPv4.
    fn lookups(&self, host: &str) -> io::Result<(Lookup, Lookup)>;
}

/// The answer for one family.
pub(crate) type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// RFC 8305 §8, Minimum and Maximum Connection Attempt Delay, as recommended.
const ATTEMPT_DELAY_MIN: Duration = Duration::from_millis(100);
const ATTEMPT_DELAY_MAX: Duration = Duration::from_secs(2);
const FIRST_FAMILY: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_rfc_8305_and_the_bounds_hold() {
        let ms = Duration::from_millis;
        let defaults = HappyEyeballs::default();
        assert_eq!(
            (defaults.resolution_delay, defaults.attempt_delay, defaults.first_family),
            (ms(50), ms(250), 1)
        );
        let delay = |delay| defaults.attempt_delay(delay).attempt_delay;
        assert_eq!(
            [ms(0), ms(100), ms(700), ms(2000), ms(2001)].map(delay),
            [100, 100, 700, 2000, 2000].map(ms)
        );
        assert_eq!(defaults.first_family_count(0).first_family, 1);
    }
}
