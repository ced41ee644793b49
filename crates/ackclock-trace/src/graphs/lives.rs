//! The life of each transmission, in a sentence.

use std::collections::BTreeMap;
use std::time::Duration;

use ackclock_core::trace::{LossRule, SendReason};

use super::timeline::{Timeline, Transmission};
use crate::explain::{rule_words, span};

/// A transmission with its cause and its end.
#[derive(Clone, Debug)]
pub(super) struct Life {
    /// Why its data was declared lost before it was sent again, if it was.
    pub because: Option<LossRule>,
    /// When and why this copy was declared lost itself.
    lost: Option<(f64, LossRule)>,
    /// When its last byte was acknowledged.
    acked_at: Option<f64>,
}

/// The life of each transmission of the timeline, in its order.
pub(super) fn lives(line: &Timeline) -> Vec<Life> {
    let mut all: Vec<Life> = line.sent.iter().map(|sent| Life::new(line, sent)).collect();
    // The last transmission of what begins here.
    let mut latest: BTreeMap<u64, usize> = BTreeMap::new();
    let mut verdicts = line.lost.iter().peekable();
    for (index, sent) in line.sent.iter().enumerate() {
        while let Some(&&(at, rule, start, end)) = verdicts.peek()
            && at <= sent.at
        {
            verdicts.next();
            judge(&mut all, &latest, (at, rule, start, end));
        }
        let before = latest.insert(sent.start, index);
        all[index].because = before.and_then(|before| all[before].lost).map(|(_, rule)| rule);
    }
    verdicts.for_each(|&verdict| judge(&mut all, &latest, verdict));
    all
}

fn judge(all: &mut [Life], latest: &BTreeMap<u64, usize>, (at, rule, start, end): (f64, LossRule, u64, u64)) {
    if start < end {
        latest.range(start..end).for_each(|(_, &index)| {
            all[index].lost.get_or_insert((at, rule));
        });
    }
}

impl Life {
    fn new(line: &Timeline, sent: &Transmission) -> Self {
        let acked = line.acked.partition_point(|acked| acked.bytes < sent.end());
        let acked_at = line.acked.get(acked).map(|acked| acked.at);
        Self { because: None, lost: None, acked_at }
    }

    /// Why data was sent again, in the few words of a legend.
    pub fn cause(&self, sent: &Transmission) -> String {
        let name = match (sent.reason, self.because) {
            (SendReason::Retransmission, Some(rule)) => rule.name(),
            (reason, _) => reason.name(),
        };
        name.replace('-', " ")
    }

    /// One sentence about a transmission: its bytes, its reason and its end.
    pub fn sentence(&self, sent: &Transmission) -> String {
        let (first, last) = (sent.start + 1, sent.end());
        let why = match (sent.reason, self.because) {
            (SendReason::NewData, _) => "new data".to_owned(),
            (_, Some(rule)) => format!("sent again because it was declared lost: {}", rule_words(rule)),
            (reason, None) => reason.name().replace('-', " "),
        };
        let after = |at: f64| span(Duration::from_secs_f64((at - sent.at).max(0.0)));
        let end = match (self.lost, self.acked_at) {
            (Some((at, rule)), _) if sent.repeated_at.is_some() => {
                format!("declared lost {} later: {}", after(at), rule_words(rule))
            }
            (_, _) if sent.repeated_at.is_some() => {
                format!("sent again {} later", after(sent.repeated_at.unwrap_or(sent.at)))
            }
            (_, Some(at)) => format!("acknowledged {} later", after(at)),
            (_, None) => "not acknowledged in this trace".to_owned(),
        };
        format!("Bytes {first} to {last}, {why}; {end}.")
    }
}
