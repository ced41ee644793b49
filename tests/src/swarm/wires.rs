//! Connections as seen on their host's wire: the oracles of [`Flow`], and what a forger needs to know.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::flow::Flow;
use crate::segment::{ACK, FIN, RST, SYN, Seg};

/// The connections of a host, by its own socket and the peer's.
#[derive(Debug, Default)]
pub(super) struct Wires(BTreeMap<(SocketAddr, SocketAddr), Wire>);

#[derive(Debug, Default)]
struct Wire {
    flow: Flow,
    iss: Option<u32>,
    /// The peer's recent SYNs. Which of them counts is known once one is answered.
    syns: Vec<Seg>,
    /// The highest sequence number that arrived.
    end: Option<u32>,
    /// A FIN or RST was seen, in either direction.
    over: bool,
    /// The peer has acknowledged something beyond a SYN.
    open: bool,
    /// The end of what the host has sent, counted from its ISS.
    sent: u32,
    /// The ranges that SACK blocks reported as held by the peer: start and end of each, counted from the ISS.
    held: BTreeMap<u32, u32>,
}

/// A receiver's expectations, as far as the wire shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// The largest acknowledgement sent.
    pub(super) ack: u32,
    /// The window's right edge.
    pub(super) edge: u32,
    /// The sequence number behind the last byte that arrived.
    pub(super) end: u32,
    /// The end of what the host has sent.
    pub(super) nxt: u32,
}

impl Wires {
    /// The host sent a segment.
    ///
    /// # Panics
    /// If it breaks an oracle.
    pub(super) fn sent(&mut self, local: SocketAddr, remote: SocketAddr, seg: &Seg) {
        let wire = self.0.entry((local, remote)).or_default();
        if seg.has(RST) {
            wire.over = true;
            return;
        }
        if seg.has(SYN) && wire.iss != Some(seg.seq) {
            let syns = std::mem::take(&mut wire.syns);
            *wire = Wire { iss: Some(seg.seq), ..Wire::default() };
            if let Some(syn) = syns.iter().rev().find(|syn| seg.has(ACK) && syn.end() == seg.ack) {
                wire.flow.received(syn);
                wire.end = Some(syn.end());
            }
        }
        if wire.iss.is_some() {
            wire.over |= seg.has(FIN);
            wire.flow.sent(seg);
            wire.sent = wire.sent.max(wire.offset(seg.end()));
        }
    }

    /// An intact segment arrived at the host.
    pub(super) fn received(&mut self, local: SocketAddr, remote: SocketAddr, seg: &Seg) {
        let wire = self.0.entry((local, remote)).or_default();
        if seg.has(SYN) && !seg.has(ACK) {
            wire.syns.push(seg.clone());
            if wire.syns.len() > SYNS_MAX {
                wire.syns.remove(0);
            }
            return;
        }
        let Some(iss) = wire.iss else { return };
        if seg.has(SYN) && seg.ack != iss.wrapping_add(1) {
            return;
        }
        wire.over |= seg.flags & (RST | FIN) != 0;
        wire.open |= seg.has(ACK) && !seg.has(SYN);
        wire.flow.received(seg);
        wire.note_held(seg);
        if !seg.has(RST) && wire.end.is_none_or(|end| seg.end().wrapping_sub(end) < 1 << 30) {
            wire.end = Some(seg.end());
        }
    }

    /// The host's next expected numbers on this connection, if it is open and neither end has begun to close
    /// it.
    pub(super) fn expected(&self, local: SocketAddr, remote: SocketAddr) -> Option<Expected> {
        let wire = self.0.get(&(local, remote)).filter(|wire| wire.open && !wire.over)?;
        let (ack, edge) = wire.flow.window_sent()?;
        let nxt = wire.iss?.wrapping_add(wire.sent);
        Some(Expected { ack, edge, end: wire.end?, nxt })
    }

    /// How many bytes the peer can hold beyond a gap, given all SACK blocks that reported sent data, with
    /// `unacked` bytes unacknowledged; `None`: the connection is not known.
    pub(super) fn held(&self, local: SocketAddr, remote: SocketAddr, unacked: u64) -> Option<u64> {
        let wire = self.0.get(&(local, remote)).filter(|wire| wire.iss.is_some())?;
        let una = wire.sent.saturating_sub(u32::try_from(unacked).ok()?);
        let beyond = |(left, right): (&u32, &u32)| u64::from(right.saturating_sub(una.max(*left)));
        Some(wire.held.iter().map(beyond).sum())
    }

    /// Whether the host has sent anything between these two sockets.
    pub(super) fn knows(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.0.get(&(local, remote)).is_some_and(|wire| wire.iss.is_some())
    }
}

impl Wire {
    /// The distance of a number from the ISS. A run sends a few megabytes, so comparing these is enough.
    fn offset(&self, seq: u32) -> u32 {
        seq.wrapping_sub(self.iss.unwrap_or(seq))
    }

    /// RFC 2018 §3: a block reports sent data.
    fn note_held(&mut self, seg: &Seg) {
        for &(left, right) in seg.sack() {
            let (mut left, mut right) = (self.offset(left), self.offset(right));
            if left >= right || right > self.sent {
                continue;
            }
            while let Some((&from, &until)) =
                self.held.range(..=right).next_back().filter(|(_, end)| **end >= left)
            {
                self.held.remove(&from);
                (left, right) = (left.min(from), right.max(until));
            }
            self.held.insert(left, right);
        }
    }
}

const SYNS_MAX: usize = 4;
