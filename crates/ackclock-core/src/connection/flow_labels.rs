//! The flow labels of one connection's IPv6 packets (RFC 6437): one for all of them, and another after each
//! timeout.
//!
//! Routers that share load among several paths choose by the label. If the present path loses everything, the
//! next may not, so a timeout changes the label, as in Linux. This can be turned off
//! ([`EndpointConfig::flow_labels`](crate::EndpointConfig::flow_labels)): where the label also chooses
//! between servers of one address, a change takes the connection to a server that does not know it.

use std::ops::{Deref, DerefMut};

use ackclock_wire::{FlowLabel, HeaderTemplate};

use crate::{FourTuple, TcpConfig};

/// The labels of one connection, and which is the present one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowLabels {
    first: FlowLabel,
    /// The step to the next label on the circle of all labels except 0; 0 without labels.
    step: u32,
    changes: u8,
}

impl FlowLabels {
    /// For IPv4, and where labels are off.
    pub const NONE: Self = Self { first: FlowLabel::NONE, step: 0, changes: 0 };

    /// The labels from a keyed hash of the four-tuple, which only this endpoint can compute.
    // RFC 6437 §3: uniformly distributed, and hard to guess.
    pub fn from_hash(hash: u64) -> Self {
        let step = u32::try_from((hash >> 32) % (LABELS - 1)).unwrap_or(0).saturating_add(1);
        Self { first: label(hash & 0xffff_ffff), step, changes: 0 }
    }

    /// The present label.
    pub fn current(self) -> FlowLabel {
        if self.step == 0 {
            return FlowLabel::NONE;
        }
        let ahead = u64::from(self.step).saturating_mul(self.changes.into());
        label(u64::from(self.first.bits()).saturating_sub(1).saturating_add(ahead))
    }

    /// The labels after this many more changes.
    pub fn after(self, changes: u8) -> Self {
        Self { changes: self.changes.wrapping_add(changes), ..self }
    }
}

/// The label at this place of the circle.
fn label(place: u64) -> FlowLabel {
    FlowLabel::new(u32::try_from(place % LABELS).unwrap_or(0).saturating_add(1))
}

/// The labels on the circle: all except 0.
const LABELS: u64 = FlowLabel::MAX as u64;

/// The header of a connection's segments, with its present label.
#[derive(Debug)]
pub(super) struct LabelledTemplate {
    template: HeaderTemplate,
    labels: FlowLabels,
}

impl LabelledTemplate {
    pub fn new(tuple: &FourTuple, tcp: &TcpConfig, labels: FlowLabels) -> Self {
        let mut template = HeaderTemplate::new(tuple.local(), tuple.remote(), tcp.ttl, tcp.dscp << 2);
        template.set_flow_label(labels.current());
        let labelled = Self { template, labels };
        debug_assert_eq!(labelled.tuple(), *tuple, "addresses of one family");
        labelled
    }

    /// The two sockets between which it goes.
    #[inline]
    pub fn tuple(&self) -> FourTuple {
        FourTuple::new(self.template.src(), self.template.dst())
    }

    /// The retransmission timer expired: the present label's path may be the one that loses.
    pub fn change_label(&mut self) {
        self.labels = self.labels.after(1);
        self.template.set_flow_label(self.labels.current());
    }

    /// How often the label has changed.
    pub fn label_changes(&self) -> u8 {
        self.labels.changes
    }
}

impl Deref for LabelledTemplate {
    type Target = HeaderTemplate;

    #[inline]
    fn deref(&self) -> &HeaderTemplate {
        &self.template
    }
}

impl DerefMut for LabelledTemplate {
    fn deref_mut(&mut self) -> &mut HeaderTemplate {
        &mut self.template
    }
}

ackclock_form::form! {
    struct FlowLabels { first, step, changes }
    struct LabelledTemplate { template, labels }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn labels_are_never_zero_and_each_change_gives_another(hash: u64, changes: u8) {
            let first = FlowLabels::from_hash(hash);
            prop_assert_eq!(first.current(), first.first);
            let (mut one_by_one, mut previous) = (first, None);
            for _ in 0..changes {
                prop_assert_ne!(one_by_one.current().bits(), 0);
                prop_assert_ne!(previous, Some(one_by_one.current()));
                previous = Some(one_by_one.current());
                one_by_one = one_by_one.after(1);
            }
            prop_assert_eq!(first.after(changes), one_by_one);
            prop_assert_eq!(FlowLabels::NONE.after(changes).current(), FlowLabel::NONE);
        }
    }

    /// A step around the whole circle would lead to the same label again.
    #[test]
    fn longest_step_leads_to_another_label() {
        for step in [0, 1, FlowLabel::MAX - 2, FlowLabel::MAX - 1, FlowLabel::MAX, u32::MAX] {
            let labels = FlowLabels::from_hash(u64::from(step) << 32);
            assert_eq!(labels.step, 1 + step % (FlowLabel::MAX - 1));
            assert_ne!(labels.after(1).current(), labels.current(), "{step}");
        }
    }
}
