//! The compared part: the answer to a step, without everything that may differ.
//!
//! Left out are the initial sequence number, the values of timestamps, identifications and times to live, the
//! sizes of windows and shift counts, where segments are cut, pushes, retransmissions, and the name of an
//! error.

use ackclock_core::State;

use super::sequence::{Call, Step};

/// The answer to a step.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The result of the program's call.
    pub said: Said,
    /// The state of the program's stream, if it has one; CLOSED also for TIME-WAIT, which a program cannot
    /// distinguish.
    pub state: Option<State>,
    /// A SYN or SYN-ACK.
    pub opening: Option<Opening>,
    /// A reset.
    pub reset: Option<Reset>,
    /// SND.NXT, relative to the initial sequence number.
    pub sent: u32,
    /// Whether a FIN was sent.
    pub fin: bool,
    /// The bytes sent are not those written.
    pub garbled: bool,
    /// The acknowledgement, if one was sent.
    pub ack: Option<u32>,
    /// Whether the advertised window is closed.
    pub closed: bool,
    /// SACK blocks.
    pub sack: Vec<(u32, u32)>,
    /// The timestamp echoed, relative to the first.
    pub echo: Option<u32>,
    /// For the rows, not compared: the state of the connection in this stack, also after the program has
    /// closed its stream.
    pub inner: Option<State>,
    /// For the rows, not compared: SEG.SEQ and SEG.ACK of the segment, relative to what they number.
    pub segment: (u32, u32),
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Said {
    /// There was no call.
    #[default]
    Nothing,
    /// Success.
    Done,
    /// It would block.
    Blocked,
    /// Bytes.
    Bytes(Vec<u8>),
    /// The end of the stream, and the bytes before it.
    End(Vec<u8>),
    /// An error, and the bytes before it.
    Failed(Vec<u8>),
    /// The program has no socket to call it on.
    NoSocket,
}

/// A SYN or a SYN-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Whether it is a SYN-ACK.
    pub acks: bool,
    /// The MSS option.
    pub mss: Option<u16>,
    /// Whether a shift count is offered.
    pub scales: bool,
    /// Whether selective acknowledgements are.
    pub sack: bool,
    /// Whether timestamps are.
    pub timestamps: bool,
}

/// A reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// Its sequence number relative to the initial one; `None`: it is 0.
    pub seq: Option<u32>,
    /// The acknowledgement number.
    pub ack: Option<u32>,
}

impl Answer {
    /// Leaves out what two correct stacks may do differently after this step.
    pub fn normalise(&mut self, step: &Step) {
        // A read may open the window, and each stack chooses when that is worth a segment
        // (RFC 9293 §3.8.6.2.2).
        if matches!(step, Step::Call(Call::Read)) && self.opening.is_none() {
            (self.ack, self.closed, self.echo) = (None, false, None);
            self.sack.clear();
        }
    }

    /// The fields that differ.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let pairs = [
            ("said", self.said == other.said),
            ("state", self.state == other.state),
            ("opening", self.opening == other.opening),
            ("reset", self.reset == other.reset),
            ("sent", self.sent == other.sent),
            ("fin", self.fin == other.fin),
            ("garbled", self.garbled == other.garbled),
            ("ack", self.ack == other.ack),
            ("closed", self.closed == other.closed),
            ("sack", self.sack == other.sack),
            ("echo", self.echo == other.echo),
        ];
        pairs.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }
}
