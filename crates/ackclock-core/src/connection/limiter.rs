//! Limits how often a connection answers segments that it does not accept.

use std::time::Duration;

use crate::Instant;

/// Limits answers to one per interval and class, per connection. A counter shared between connections would
/// reveal one to an attacker through the other (CVE-2016-5696).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limiter {
    next: [Instant; 3],
}

/// The reason for an answer. The budgets are separate, so that one attack does not suppress another answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provocation {
    /// A RST in the window, not at its edge (RFC 5961 §3).
    Reset,
    /// A SYN in a synchronized state (RFC 5961 §4).
    Syn,
    /// A sequence or acknowledgement number outside what is acceptable (RFC 9293 §3.10.7.4, RFC 5961 §5).
    Unacceptable,
}

impl Limiter {
    const INTERVAL: Duration = Duration::from_millis(500);

    /// Whether an answer may be sent now. If so, it is counted.
    pub(crate) fn allow(&mut self, now: Instant, provocation: Provocation) -> bool {
        let [reset, syn, unacceptable] = &mut self.next;
        let next = match provocation {
            Provocation::Reset => reset,
            Provocation::Syn => syn,
            Provocation::Unacceptable => unacceptable,
        };
        let allowed = now >= *next;
        if allowed {
            *next = now + Self::INTERVAL;
        }
        allowed
    }
}

ackclock_form::form! {
    struct Limiter { next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_of_each_kind_in_half_a_second() {
        let mut limiter = Limiter::default();
        let mut allow = |millis, provocation| limiter.allow(Instant::from_millis(millis), provocation);
        assert!(allow(1000, Provocation::Reset));
        assert!(!allow(1000, Provocation::Reset) && !allow(1499, Provocation::Reset));
        assert!(allow(1499, Provocation::Syn) && allow(1499, Provocation::Unacceptable));
        assert!(allow(1500, Provocation::Reset) && !allow(1501, Provocation::Reset));
        assert!(!allow(1998, Provocation::Syn) && allow(1999, Provocation::Syn));
    }
}
