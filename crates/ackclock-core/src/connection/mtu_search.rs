//! Finding the path's MTU without ICMP (RFC 4821, with the timers and the names of RFC 8899). Off unless
//! `TcpConfig::mtu_probing` turns it on.
//!
//! **Black holes.** A path that silently drops large packets never passes a full segment, however often it is
//! sent. When the retransmission timer expires twice in a row for a full segment, segments become as small as
//! `least`; after two more expiries, as small as ICMP could make them. If the trouble was something else,
//! nothing is lost: the search that follows finds the old size again.
//!
//! **The search.** A probe is one segment of new data, larger than the others, sent when enough data follows
//! it to reveal its loss. Its size is the largest possible at first, then the middle of the remaining range.
//! When it is acknowledged, segments take its size. When only the probe is lost, its data is sent again in
//! segments of the present size, and congestion control ignores the loss (RFC 4821 §7.6.1, §7.6.2), with and
//! without SACK (`sending/mtu_probe.rs`). After two such losses its size counts as too large. If other data
//! was lost too, the loss counts as any other. Once the bounds are less than [`STEP`] bytes apart, the search
//! rests for `raise_after`, and begins again if the path once took more. After ICMP has lowered the MTU it
//! rests first: that was not a guess.
//!
//! Deviation from RFC 4821 §7.4: a probe may leave although the congestion window is full, because a bulk
//! transfer's always is. It exceeds the window by at most one segment, once in [`PAUSE`], as limited transmit
//! does (RFC 3042). It does not leave into a window without room for it and for what must follow it. The
//! texts of RFC 4821 and RFC 8899 were not read for this; section numbers are from memory.

use std::time::Duration;

use ackclock_control::tally::Tally;
use ackclock_wire::Flags;

use super::header::Segment;
use super::{Connection, State, lend};
use crate::deadline::Deadline;
use crate::trace::{Extension, SendReason};
use crate::{Instant, MtuProbing};

/// What is known about the path, as sizes of IP packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MtuSearch {
    /// The largest size that may be tried: what the device and the peer accept.
    most: u32,
    /// A size known to be too large, or one above the largest that may be tried.
    too_large: u32,
    /// The size of the probe in flight, or of the next one.
    size: u32,
    /// How many times in a row a probe of this size was lost.
    losses: u8,
    /// A probe is in flight.
    out: bool,
    /// The search has ended, and begins again when the timer expires.
    resting: bool,
    /// How often there was not enough data for a probe.
    waits: u8,
    /// When a probe is due, or the outcome of the one in flight.
    due: Deadline,
}

impl MtuSearch {
    /// Nothing is known above `known`.
    fn new(known: u32, most: u32) -> Self {
        let mut search = Self {
            most,
            too_large: most.saturating_add(1),
            size: 0,
            losses: 0,
            out: false,
            resting: false,
            waits: 0,
            due: Deadline::UNSET,
        };
        search.size = search.next_size(known);
        search
    }

    fn is_due(&self) -> bool {
        self.size > 0 && !self.out && !self.resting
    }

    /// The largest first, then the middle; 0 at the end of the search.
    fn next_size(&self, known: u32) -> u32 {
        if self.most <= known || self.too_large <= known.saturating_add(STEP) {
            0
        } else if self.too_large > self.most {
            self.most
        } else {
            known.midpoint(self.too_large)
        }
    }
}

impl Connection {
    /// The retransmission timer has expired once more.
    pub(super) fn suspect_black_hole(&mut self, now: Instant) {
        let Some(probing) = self.mtu_probing() else { return };
        self.flight.lose_mtu_probe();
        let expiries = self.flight.timeouts_in_a_row();
        let is_full = self.flight.flight_size() >= u64::from(self.smss());
        if !is_full || expiries < 2 || !expiries.is_multiple_of(2) {
            return;
        }
        let least = self.least_mtu(probing, expiries > 2);
        if self.snd.pmtu <= least {
            return;
        }
        let most = self.largest_mtu();
        self.set_pmtu(now, least);
        self.trace_extension(now, Extension::MtuBlackHole, u64::from(least));
        self.start_search(MtuSearch::new(least, most), now + PAUSE);
    }

    /// ICMP reported that the path carries at most `told`; it used to carry more.
    pub(super) fn note_told_mtu(&mut self, now: Instant, told: u32) {
        let Some(probing) = self.mtu_probing() else { return };
        let most = self.largest_mtu();
        let resting = MtuSearch { resting: true, ..MtuSearch::new(told, most) };
        self.start_search(resting, now + probing.raise_after);
    }

    /// The device now carries `mtu`. Results below another MTU no longer count, including a probe in flight,
    /// and nothing larger may be tried.
    pub(super) fn forget_search(&mut self, mtu: u32) {
        if let Some(MtuSearch { due, .. }) = self.search() {
            self.keep_search(MtuSearch { due, ..MtuSearch::new(mtu, mtu) });
        }
    }

    /// The search's timer expired.
    pub(super) fn on_search_timer(&mut self, now: Instant) {
        let Some(mut search) = self.search() else { return };
        search.due.clear();
        if search.resting {
            search = MtuSearch::new(self.snd.pmtu, search.most);
        }
        if search.out {
            match self.flight.mtu_probe_outcome() {
                None => return self.start_search(search, now + self.flight.rtt().rto().max(PAUSE)),
                Some(arrived) => self.judge_probe(now, &mut search, arrived),
            }
        }
        if search.size == 0 {
            search.resting = true;
            // A path that carries the largest size is not probed again.
            if search.most > self.snd.pmtu {
                let raise_after = self.tcp.mtu_probing.as_ref().map_or(PAUSE, |probing| probing.raise_after);
                search.due.set(now + raise_after);
            }
            return self.keep_search(search);
        }
        self.pending.probe = true;
        // If the probe cannot leave now, try ever more rarely: an idle connection has nothing to probe with.
        let wait = PAUSE.saturating_mul(1 << search.waits.min(9));
        search.waits = search.waits.saturating_add(1);
        self.start_search(search, now + wait);
    }

    fn judge_probe(&mut self, now: Instant, search: &mut MtuSearch, arrived: bool) {
        let size = search.size;
        search.out = false;
        if arrived {
            self.set_pmtu(now, size);
            self.trace_extension(now, Extension::MtuRaised, u64::from(size));
            search.losses = 0;
        } else {
            search.losses = search.losses.saturating_add(1);
            if search.losses < LOSSES {
                return;
            }
            self.trace_extension(now, Extension::MtuTooLarge, u64::from(size));
            search.too_large = size;
            search.losses = 0;
        }
        search.size = search.next_size(self.snd.pmtu);
    }

    /// Whether to probe the path, not the peer's window.
    pub(super) fn wants_mtu_probe(&self) -> bool {
        self.snd.wnd > 0 && self.search().is_some_and(|search| search.is_due())
    }

    /// A probe of the peer's window has been answered; one of the path has yet to leave.
    #[inline]
    pub(super) fn settle_window_probe(&mut self) {
        if self.pending.probe {
            self.pending.probe = self.wants_mtu_probe();
        }
    }

    /// The probe, if one is due and can leave. If it cannot, it waits for the next acknowledgement.
    pub(super) fn mtu_probe(&mut self, now: Instant) -> Option<Segment> {
        let probe = self.choose_mtu_probe(now);
        self.pending.probe = probe.is_none() && self.flight.is_outstanding();
        probe
    }

    fn choose_mtu_probe(&mut self, now: Instant) -> Option<Segment> {
        let mut search = self.search().filter(MtuSearch::is_due)?;
        let headers = u32::from(self.template.transport_offset()) + 20;
        let options_len = self.data_options_len(now).saturating_add(self.option_reserve());
        let payload = search.size.checked_sub(headers)?.checked_sub(options_len)?;
        let smss = u64::from(self.smss());
        let start = self.flight.nxt();
        let end = start + u64::from(payload);
        // RFC 4821 §7.4: enough must follow to reveal the loss.
        let follows = u64::from(payload).saturating_add(FOLLOWERS * smss);
        let calm = self.flight.may_probe_mtu(u64::from(payload));
        // What is in flight opens the peer's window for the segments that follow.
        let right_edge = self.right_edge();
        let window = right_edge.since(end).saturating_add(self.flight.flight_size());
        let gathered = self.snd.gather(start, u64::from(payload), smss) == u64::from(payload);
        if !gathered || !calm || self.unsent() < follows || right_edge < end || window < FOLLOWERS * smss {
            return None;
        }
        search.out = true;
        search.waits = 0;
        self.start_search(search, now + self.flight.rtt().rto().max(PAUSE));
        self.counts.bytes_sent.grow(u64::from(payload));
        self.flight.send_mtu_probe(lend!(self, now), start, end);
        self.update_send_timer(now);
        self.flight.arm_tail_probe(now);
        self.trace_extension(now, Extension::MtuProbed, u64::from(search.size));
        Some(Segment {
            start,
            flags: Flags::ACK,
            payload_len: payload as usize,
            segment_max: payload,
            reason: SendReason::MtuProbe,
        })
    }

    /// The settings, if this open connection searches.
    fn mtu_probing(&self) -> Option<MtuProbing> {
        self.tcp.mtu_probing.as_deref().copied().filter(|_| self.established)
    }

    fn least_mtu(&self, probing: MtuProbing, again: bool) -> u32 {
        let floor = self.pmtu_min();
        if again { floor } else { u32::from(probing.least).max(floor) }
    }

    /// The largest packet that the device and the peer took when the search began.
    fn largest_mtu(&self) -> u32 {
        let headers = u32::from(self.template.transport_offset()) + 20;
        let most = self.search().map_or(self.snd.pmtu, |search| search.most.max(self.snd.pmtu));
        most.min(self.snd.peer_mss.saturating_add(headers))
    }

    fn search(&self) -> Option<MtuSearch> {
        self.cold.rest()?.mtu_search
    }

    fn keep_search(&mut self, search: MtuSearch) {
        self.cold.need_rest().mtu_search = Some(search);
    }

    /// Goes on with the search, at `at` while there is data to search with.
    fn start_search(&mut self, mut search: MtuSearch, at: Instant) {
        if matches!(self.state, State::Established | State::CloseWait) {
            search.due.set(at);
        }
        self.keep_search(search);
    }

    /// When the search goes on.
    #[inline]
    pub(super) fn mtu_search_due(&self) -> Deadline {
        self.search().map_or(Deadline::UNSET, |search| search.due)
    }

    /// The search ends with the data.
    pub(super) fn stop_mtu_search(&mut self) {
        if let Some(search) = self.cold.rest_mut().and_then(|extras| extras.mtu_search.as_mut()) {
            search.due.clear();
        }
    }
}

/// The shortest time between two probes, and before the first.
const PAUSE: Duration = Duration::from_secs(1);
/// Full segments that must follow a probe: enough to reveal its loss (RFC 5681: three duplicates).
const FOLLOWERS: u64 = 3;
/// Isolated losses after which a size counts as too large.
const LOSSES: u8 = 2;
/// The search ends when the bounds are this close, in bytes.
const STEP: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_begins_with_the_largest_and_halves_what_is_left() {
        let mut search = MtuSearch::new(1024, 1500);
        assert_eq!(search.size, 1500);
        let path = 1400;
        let (mut known, mut probes) = (1024, Vec::new());
        while search.size > 0 {
            probes.push(search.size);
            if search.size <= path {
                known = search.size
            } else {
                search.too_large = search.size
            }
            search.size = search.next_size(known);
        }
        assert_eq!(probes, [1500, 1262, 1381, 1440, 1410, 1395]);
        assert!((path - STEP..=path).contains(&known));
    }

    #[test]
    fn nothing_is_searched_where_nothing_larger_may_be() {
        assert_eq!(MtuSearch::new(1500, 1500).size, 0);
        assert_eq!(MtuSearch::new(1500, 1400).size, 0);
    }
}
