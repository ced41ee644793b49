//! The steps that a caller takes on one connection.

use std::collections::VecDeque;

use crate::rng::{Rng, Variates as _};
use crate::scenario::{SizeOf, TimeOf};
use crate::units::{Rate, Span};

/// One step of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Step {
    /// Whether all earlier answers must have arrived.
    pub in_turn: bool,
    /// How long to wait then.
    pub after: Span,
    /// How many bytes to send.
    pub bytes: u64,
    /// How many bytes to expect back.
    pub reply: u64,
    /// How long the answerer waits before it sends them.
    pub serve: Span,
}

/// The source of the steps.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// These steps, in order.
    Script(VecDeque<Step>),
    /// Bursts and silence.
    OnOff { rate: Rate, write: u64, on: TimeOf, off: TimeOf, left: u64, silence: Span },
    /// Requests and responses.
    Requests {
        request: SizeOf,
        response: SizeOf,
        think: TimeOf,
        serve: TimeOf,
        left: Option<u64>,
        first: bool,
    },
}

impl Source {
    /// A transfer of this many bytes.
    pub fn bulk(bytes: u64) -> Self {
        Self::Script([Step { bytes, ..Step::default() }].into())
    }

    /// The next step; `None` at the end of the conversation.
    pub fn next(&mut self, rng: &mut Rng) -> Option<Step> {
        match self {
            Self::Script(steps) => steps.pop_front(),
            Self::OnOff { rate, write, on, off, left, silence } => {
                let mut after =
                    Span(u64::try_from(u128::from(*write) * 8_000_000_000 / u128::from(rate.bits())).ok()?);
                if *left < after.0 {
                    after = std::mem::replace(silence, off.draw(rng));
                    *left = on.draw(rng).0.max(1);
                } else {
                    *left -= after.0;
                }
                Some(Step { after, bytes: *write, ..Step::default() })
            }
            Self::Requests { request, response, think, serve, left, first } => {
                if let Some(left) = left {
                    *left = left.checked_sub(1)?;
                }
                let after = if std::mem::take(first) { Span(0) } else { think.draw(rng) };
                let (bytes, reply) = (request.draw(rng), response.draw(rng));
                Some(Step { in_turn: true, after, bytes, reply, serve: serve.draw(rng) })
            }
        }
    }
}

impl TimeOf {
    /// Draws a time.
    pub(crate) fn draw(self, rng: &mut Rng) -> Span {
        match self {
            Self::Fixed(time) => time,
            Self::Exponential(mean) => rng.exponential(mean),
            Self::Pareto { least, shape_thousandths } => Span(rng.pareto(least.0, shape_thousandths)),
        }
    }
}

impl SizeOf {
    /// Draws a size of at least one byte.
    pub(super) fn draw(self, rng: &mut Rng) -> u64 {
        let bytes = match self {
            Self::Fixed(bytes) => bytes.0,
            Self::Exponential(mean) => rng.exponential(Span(mean.0)).0,
            Self::Pareto { least, shape_thousandths } => rng.pareto(least.0, shape_thousandths),
        };
        bytes.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn bursts_send_at_their_rate_and_then_rest() {
        let (on, off) = (TimeOf::Fixed(Span::millis(10)), TimeOf::Fixed(Span::millis(90)));
        let mut source =
            Source::OnOff { rate: Rate::mbit(8), write: 1000, on, off, left: 0, silence: Span(0) };
        let mut rng = Rng::derive(1, "on-off");
        let steps: Vec<Step> = (0..110).map_while(|_| source.next(&mut rng)).collect();
        let time: u64 = steps.iter().map(|step| step.after.0).sum();
        // Eleven writes a burst: one at its beginning, and one after each of ten milliseconds.
        assert_eq!(steps.iter().filter(|step| step.after == Span::millis(90)).count(), 9);
        assert_eq!(time, 9 * 90_000_000 + 100 * 1_000_000);
    }

    #[test]
    fn requests_are_made_in_turn_and_end() {
        let size = SizeOf::Fixed(Bytes(100));
        let think = TimeOf::Fixed(Span(5));
        let mut source = Source::Requests {
            request: size,
            response: size,
            think,
            serve: think,
            left: Some(2),
            first: true,
        };
        let mut rng = Rng::derive(1, "requests");
        let step = Step { in_turn: true, after: Span(0), bytes: 100, reply: 100, serve: Span(5) };
        assert_eq!(source.next(&mut rng), Some(step));
        assert_eq!(source.next(&mut rng), Some(Step { after: Span(5), ..step }));
        assert_eq!(source.next(&mut rng), None);
    }
}
