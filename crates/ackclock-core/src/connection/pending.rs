//! Segments that must be sent besides data and the acknowledgement of data.

use ackclock_wire::SeqNum;

/// A segment that answers one that was not accepted, or that the handshake calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// `<SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>`; within the window, if SND.NXT is not.
    Ack,
    /// `<SEQ=SEG.ACK><CTL=RST>`.
    Reset(SeqNum),
    /// An acknowledgement with the user timeout.
    UserTimeout,
    /// [`Self::Ack`] without our SYN, though that is not acknowledged.
    BareAck,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    reply: Option<Reply>,
    /// Everything else that must be sent, as bits: a single test shows that nothing must.
    owed: u8,
}

const SYN: u8 = 1;
const RESET: u8 = 1 << 1;
const KEEPALIVE: u8 = 1 << 2;

impl Pending {
    /// Whether nothing is.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.owed == 0 && self.reply.is_none()
    }

    /// Whether an answer or a reset is, which a connection that is over still sends.
    #[inline]
    pub fn outlives_the_end(&self) -> bool {
        self.reply.is_some() || self.owed & RESET != 0
    }

    /// Whether an answer is.
    pub fn has_reply(&self) -> bool {
        self.reply.is_some()
    }

    /// The peer is answered. Of several answers in one batch the last one leaves.
    pub fn reply(&mut self, reply: Reply) {
        self.reply = Some(reply);
    }

    /// The next acknowledgement has the user timeout, unless an answer waits.
    #[inline]
    pub fn tell_user_timeout(&mut self) {
        self.reply.get_or_insert(Reply::UserTimeout);
    }

    #[inline]
    pub fn take_reply(&mut self) -> Option<Reply> {
        self.reply.take()
    }

    /// A SYN, or in SYN-RECEIVED a SYN,ACK.
    pub fn owe_syn(&mut self) {
        self.owed |= SYN;
    }

    /// Takes the SYN, also if it has been acknowledged meanwhile. Returns whether it was owed.
    pub fn take_syn(&mut self) -> bool {
        self.take(SYN)
    }

    /// A RST that ends the connection.
    pub fn owe_reset(&mut self) {
        self.owed |= RESET;
    }

    #[inline]
    pub fn take_reset(&mut self) -> bool {
        self.take(RESET)
    }

    /// A keep-alive probe.
    pub fn owe_keepalive(&mut self) {
        self.owed |= KEEPALIVE;
    }

    #[inline]
    pub fn take_keepalive(&mut self) -> bool {
        self.take(KEEPALIVE)
    }

    #[inline]
    fn take(&mut self, one: u8) -> bool {
        let owed = self.owed & one != 0;
        self.owed &= !one;
        owed
    }

    /// The connection is over: only an answer that waits may still leave.
    pub fn close(&mut self) {
        *self = Self { reply: self.reply, ..Self::default() };
    }
}

ackclock_form::form! {
    enum Reply { 0 Ack, 1 Reset(value), 2 UserTimeout, 3 BareAck }
    struct Pending { reply, owed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_alone_is_a_reason_to_send() {
        let reasons: [fn(&mut Pending); 5] = [
            Pending::owe_syn,
            Pending::owe_reset,
            Pending::owe_keepalive,
            Pending::tell_user_timeout,
            |pending| pending.reply(Reply::Ack),
        ];
        assert!(Pending::default().is_empty());
        for (number, owe) in reasons.into_iter().enumerate() {
            let mut pending = Pending::default();
            owe(&mut pending);
            assert!(!pending.is_empty(), "reason {number}");
            pending.close();
            assert_eq!(pending.has_reply(), number > 2, "an answer outlives the end, reason {number}");
        }
    }
}
