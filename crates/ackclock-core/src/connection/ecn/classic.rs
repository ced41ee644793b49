//! The echo of RFC 3168 §6.1: one bit back, repeated until the sender says that it has reduced its window.

use ackclock_wire::{Codepoint, Flags};

/// Both roles of an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Classic {
    /// As receiver: a mark has arrived, and CWR has not.
    echo: bool,
    /// As sender: the next new data must carry CWR.
    cwr_due: bool,
}

impl Classic {
    /// Data arrived.
    // RFC 3168 §6.1.3: ECE on all acknowledgements from the first mark until CWR arrives; a mark on that very
    // segment is a new one.
    pub fn on_data(&mut self, flags: Flags, codepoint: Codepoint) {
        if flags.contains(Flags::CWR) {
            self.echo = false;
        }
        if codepoint == Codepoint::Ce {
            self.echo = true;
        }
    }

    /// The window was reduced, for whatever reason.
    pub fn on_reduction(&mut self) {
        self.cwr_due = true;
    }

    /// Whether the next new data carries CWR.
    pub fn cwr_due(&self) -> bool {
        self.cwr_due
    }

    /// The flags of a segment with an acknowledgement. `new_data`: with payload not sent before.
    // RFC 3168 §6.1.2: CWR on the first new data after a reduction.
    pub fn stamp(&mut self, new_data: bool) -> Flags {
        let echo = if self.echo { Flags::ECE } else { Flags::NONE };
        if new_data && std::mem::take(&mut self.cwr_due) { echo | Flags::CWR } else { echo }
    }
}

ackclock_form::form! {
    struct Classic { echo, cwr_due }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_lasts_from_the_mark_to_the_answer() {
        let mut receiver = Classic::default();
        receiver.on_data(Flags::ACK, Codepoint::Ect0);
        assert_eq!(receiver.stamp(false), Flags::NONE);
        receiver.on_data(Flags::ACK, Codepoint::Ce);
        receiver.on_data(Flags::ACK, Codepoint::Ect0);
        assert_eq!((receiver.stamp(false), receiver.stamp(true)), (Flags::ECE, Flags::ECE));
        receiver.on_data(Flags::ACK | Flags::CWR, Codepoint::Ce);
        assert_eq!(receiver.stamp(false), Flags::ECE, "the answer was marked, too");
        receiver.on_data(Flags::ACK | Flags::CWR, Codepoint::Ect0);
        assert_eq!(receiver.stamp(false), Flags::NONE);
    }

    #[test]
    fn answer_goes_out_once_and_with_new_data() {
        let mut sender = Classic::default();
        sender.on_reduction();
        let stamps = [false, true, true].map(|new_data| sender.stamp(new_data));
        assert_eq!(stamps, [Flags::NONE, Flags::CWR, Flags::NONE]);
    }
}
