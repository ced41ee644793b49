//! ICMP errors about a connection (RFC 9293 §3.9.2.2), believed as far as RFC 5927 allows.

use ackclock_wire::SeqNum;
use ackclock_wire::icmp::IcmpKind;

use super::{Connection, State, lend};
use crate::{ConnectionError, IcmpError, Instant};

/// The smallest path MTU that is believed (RFC 5927 §7): IPv4 routers that cannot carry this no longer exist.
pub(crate) const PMTU_MIN_V4: u32 = 552;
/// RFC 8200 §5.
const PMTU_MIN_V6: u32 = 1280;

impl Connection {
    /// An ICMP error quoted a segment of this connection with this sequence number.
    pub(crate) fn handle_icmp(&mut self, now: Instant, kind: IcmpKind, seq: SeqNum) {
        // RFC 5927 §4.1: only an error that quotes data in flight can be about it.
        let quoted = self.flight.una().near(seq);
        if quoted < self.flight.una() || quoted >= self.flight.nxt() {
            return;
        }
        match kind {
            IcmpKind::PacketTooBig { mtu } => self.on_packet_too_big(now, mtu),
            _ => self.on_unreachable(now, kind),
        }
    }

    fn on_unreachable(&mut self, now: Instant, kind: IcmpKind) {
        let Some(error) = soft_error(kind) else { return };
        // RFC 9293 MUST-54, RFC 9293 MUST-47, RFC 9293 SHLD-25: noted, and available to the application.
        self.errors.note_soft(error);
        self.readiness.soft_error = true;
        // Deviation from RFC 9293 SHLD-26: hard errors end a connection only while it is being opened,
        // because they can be forged (RFC 5927 §5.2). Later they are soft like the others (RFC 9293 MUST-56).
        let hard = matches!(kind, IcmpKind::ProtocolUnreachable | IcmpKind::PortUnreachable);
        if hard && matches!(self.state, State::SynSent | State::SynReceived) {
            let error = match kind {
                IcmpKind::PortUnreachable => ConnectionError::Refused,
                _ => ConnectionError::Unreachable(error),
            };
            self.close_with(now, Some(error));
        }
    }

    /// Path-MTU discovery (RFC 1191, RFC 8201).
    fn on_packet_too_big(&mut self, now: Instant, mtu: u32) {
        let is_ipv4 = self.tuple.remote_addr.is_ipv4();
        let believed = believed_mtu(mtu, self.snd.pmtu, is_ipv4);
        let Some(told) = believed.filter(|&told| told < self.snd.pmtu) else { return };
        self.note_told_mtu(now, told);
        self.set_pmtu(now, told);
        if self.established {
            self.flight.on_too_big(lend!(self, now));
        }
        self.update_send_timer(now);
    }

    /// The device's MTU changed: the path's is at most that.
    pub(crate) fn set_mtu(&mut self, now: Instant, mtu: usize) {
        let mtu = u32::try_from(mtu).unwrap_or(u32::MAX);
        self.set_pmtu(now, mtu);
        self.forget_search(mtu);
    }

    /// The smallest path MTU.
    pub(super) fn pmtu_min(&self) -> u32 {
        if self.tuple.remote_addr.is_ipv4() { PMTU_MIN_V4 } else { PMTU_MIN_V6 }
    }

    pub(super) fn set_pmtu(&mut self, now: Instant, pmtu: u32) {
        self.snd.pmtu = pmtu;
        let smss = self.effective_mss();
        self.flight.set_smss(lend!(self, now), smss);
        // A window that held a segment may be too small for a longer one.
        self.update_send_timer(now);
    }
}

fn soft_error(kind: IcmpKind) -> Option<IcmpError> {
    Some(match kind {
        IcmpKind::NetworkUnreachable => IcmpError::Network,
        IcmpKind::HostUnreachable => IcmpError::Host,
        IcmpKind::ProtocolUnreachable => IcmpError::Protocol,
        IcmpKind::PortUnreachable => IcmpError::Port,
        IcmpKind::Prohibited => IcmpError::Prohibited,
        IcmpKind::SourceRouteFailed => IcmpError::SourceRoute,
        IcmpKind::TimeExceeded => IcmpError::TimeExceeded,
        IcmpKind::ParameterProblem => IcmpError::ParameterProblem,
        // RFC 9293 MUST-55: source quench is silently discarded.
        _ => return None,
    })
}

/// The path MTU that a message with this MTU is believed to tell. It is about a packet larger than the
/// path's MTU, which was taken for `known`.
pub(crate) fn believed_mtu(told: u32, known: u32, is_ipv4: bool) -> Option<u32> {
    match told {
        // RFC 8201 §4: a message that tells less than each IPv6 link carries is discarded.
        _ if !is_ipv4 => (told >= PMTU_MIN_V6).then_some(told),
        // An old router does not report its MTU (RFC 1191 §5): step down the plateaus.
        0 => Some(plateau_below(known)),
        // The packet was too large, whatever the message says: the least that is believed is nearest.
        _ => Some(told.max(PMTU_MIN_V4)),
    }
}

/// The next lower plateau of RFC 1191 §7.1.
pub(crate) fn plateau_below(mtu: u32) -> u32 {
    const PLATEAUS: [u32; 7] = [17_914, 8166, 4352, 2002, 1492, 1006, 552];
    PLATEAUS.into_iter().find(|&plateau| plateau < mtu).unwrap_or(552)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_is_noted_is_noted_as_what_it_is() {
        for (kind, error) in [
            (IcmpKind::NetworkUnreachable, Some(IcmpError::Network)),
            (IcmpKind::HostUnreachable, Some(IcmpError::Host)),
            (IcmpKind::ProtocolUnreachable, Some(IcmpError::Protocol)),
            (IcmpKind::PortUnreachable, Some(IcmpError::Port)),
            (IcmpKind::Prohibited, Some(IcmpError::Prohibited)),
            (IcmpKind::SourceRouteFailed, Some(IcmpError::SourceRoute)),
            (IcmpKind::TimeExceeded, Some(IcmpError::TimeExceeded)),
            (IcmpKind::ParameterProblem, Some(IcmpError::ParameterProblem)),
            (IcmpKind::SourceQuench, None),
            (IcmpKind::Other, None),
        ] {
            assert_eq!(soft_error(kind), error);
        }
    }

    /// RFC 1191 §7.1: the next lower plateau; none is below the smallest that is believed.
    #[test]
    fn plateau_is_the_next_below_and_never_the_same_but_the_last() {
        for (mtu, below) in [(65_535, 17_914), (17_915, 17_914), (17_914, 8166), (1500, 1492), (1492, 1006)] {
            assert_eq!(plateau_below(mtu), below);
        }
        assert_eq!([1007, 1006, 553, 552, 0].map(plateau_below), [1006, 552, 552, 552, 552]);
    }
}
