//! Accurate ECN on paths that change the field.

use ackclock_wire::{Codepoint, Fields, Flags};

use super::lone::{Lone, SMSS, handshake};
use super::*;
use crate::connection::Handshake;
use crate::connection::ecn::negotiation::Agreement;
use crate::profile::Ecn;

/// A sender whose peer counts marks; `ace` is the peer's counter.
struct Marked {
    lone: Lone,
    ace: u8,
}

impl Marked {
    fn new() -> Self {
        let ecn = Some(Agreement { form: Ecn::Accurate, capable: true });
        let mut tcp = TcpConfig::default();
        tcp.choices.pacing = false;
        let mut marked = Self { lone: Lone::agreed(tcp, Handshake { ecn, ..handshake() }), ace: 5 };
        let una = marked.lone.end.snd.flight().una().seq();
        let third = Fields { flags: Flags::ACK | Flags::from_ace(2), ..marked.lone.ack(una, 65_535) };
        marked.lone.give(&third, Codepoint::NotEct, &[]);
        marked
    }

    /// A round trip: all that may leave does, and each segment is acknowledged by itself; `marks` of them are
    /// reported as marked.
    fn round(&mut self, marks: usize) -> usize {
        let lone = &mut self.lone;
        lone.end.write(lone.now, &[1; 60_000]).unwrap_or(0);
        let mut ack = lone.end.snd.flight().una().seq();
        let sizes = lone.sizes();
        lone.now += Duration::from_millis(20);
        for (number, size) in sizes.iter().enumerate() {
            ack += *size as u32;
            self.ace = (self.ace + u8::from(number < marks)) & 7;
            let fields = Fields { flags: Flags::ACK | Flags::from_ace(self.ace), ..lone.ack(ack, 65_535) };
            lone.give(&fields, Codepoint::NotEct, &[]);
        }
        sizes.len()
    }

    fn info(&self) -> crate::ConnectionInfo {
        self.lone.end.info(self.lone.now)
    }
}

/// RFC 9768 §3.2.2.3: "If continuous CE-marking is detected, [..] the Data Sender ought to send
/// non-ECN-capable packets and it is advised not to respond to any feedback of CE markings": every packet of
/// "the first three or four rounds".
#[test]
fn path_that_marks_everything_is_not_answered_after_four_rounds() {
    let mut marked = Marked::new();
    for _ in 0..4 {
        assert!(marked.info().ecn.unwrap().capable);
        marked.round(usize::MAX);
    }
    let (cwnd, reductions) = (marked.info().cwnd, marked.info().ecn.unwrap().reductions);
    assert_eq!((marked.info().ecn.unwrap().capable, reductions), (false, 4));
    for _ in 0..30 {
        marked.round(usize::MAX);
    }
    let info = marked.info();
    assert_eq!(info.ecn.unwrap().reductions, 4, "no more answers");
    // Congestion avoidance: about a segment a round trip.
    let grown = (info.cwnd - cwnd) / SMSS as u64;
    assert!((10..=60).contains(&grown), "{cwnd} to {}", info.cwnd);
}

/// A path that marked all but one of the first packets is congested. So is one that marks everything later.
#[test]
fn marks_on_almost_everything_are_answered() {
    let mut marked = Marked::new();
    marked.round(9);
    for _ in 0..60 {
        marked.round(usize::MAX);
    }
    let info = marked.info();
    assert!(info.ecn.unwrap().capable && info.ecn.unwrap().reductions > 40, "{:?}", info.ecn);
    assert!(info.cwnd <= 3 * SMSS as u64, "{}", info.cwnd);
}
