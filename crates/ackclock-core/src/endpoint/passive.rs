//! From LISTEN to ESTABLISHED: SYNs, half-open records, cookies, Fast Open, and the accept queue
//! (RFC 9293 §3.10.7.2 and, for connections that come from LISTEN, §3.10.7.4 in SYN-RECEIVED).

use ackclock_control::tally::Tally;
use ackclock_wire::{Flags, SeqNum};

use super::deferred::{Decision, Incoming};
use super::demux::Target;
use super::fast_open::{Secrets, Worth};
use super::keys::Purpose;
use super::listening::{Expiry, HalfOpenAction, PeerSyn, Room};
use super::replies::bare;
use super::schedule::Subject;
use super::slot::Owner;
use super::time_wait::is_plain_syn;
use super::{Endpoint, Received};
use crate::connection::{Environment, FastOpenOutcome, Handshake, R2_SYN, default_mss, timestamp_clock};
use crate::{Connection, ConnectionId, FourTuple, IncomingId, Instant, ListenerId};

impl Endpoint {
    /// A segment in LISTEN. `old_snd_nxt`: SND.NXT of the connection in TIME-WAIT that it replaces.
    pub(super) fn for_listener(
        &mut self,
        now: Instant,
        id: ListenerId,
        arrival: &Received<'_>,
        old_snd_nxt: Option<SeqNum>,
    ) {
        let flags = arrival.segment.flags;
        // First, RST: it is ignored.
        if flags.contains(Flags::RST) {
            return self.counters.dropped_stray_reset.count();
        }
        // Second, ACK: a reset, unless it carries a cookie.
        if flags.contains(Flags::ACK) {
            if !self.take_cookie(now, id, arrival) {
                self.refuse(arrival);
            }
            return;
        }
        // Third, SYN. Fourth, anything else is dropped.
        // Deviation from RFC 9293 §3.10.7.2: a SYN with FIN is dropped too; no honest sender makes one.
        if !is_plain_syn(arrival.segment) {
            return self.counters.dropped_in_listen.count();
        }
        self.counters.syns_received.count();
        let Some(peer) = self.listening.peer(id, arrival.segment, arrival.codepoint) else { return };
        match self.listening.room(now, id, arrival.tuple.remote_addr) {
            Room::Record => self.take_syn(now, id, arrival, peer, old_snd_nxt),
            Room::Cookie => self.send_cookie(now, id, &arrival.tuple, &peer),
            Room::None => self.counters.dropped_syn_backlog.count(),
        }
    }

    /// A SYN requests a new connection under the four-tuple of a connection in TIME-WAIT, which it replaces.
    pub(super) fn reopen(&mut self, now: Instant, arrival: &Received<'_>, old_snd_nxt: SeqNum) {
        match self.listening.find(&arrival.tuple) {
            Some(listener) => self.for_listener(now, listener, arrival, Some(old_snd_nxt)),
            None => self.refuse(arrival),
        }
    }

    fn take_syn(
        &mut self,
        now: Instant,
        id: ListenerId,
        arrival: &Received<'_>,
        mut peer: PeerSyn,
        old_snd_nxt: Option<SeqNum>,
    ) {
        let tuple = arrival.tuple;
        let deferred = self.listening.is_deferred(id);
        let iss = self.isn_after(now, &tuple, old_snd_nxt);
        if !deferred && self.take_fast_open(now, id, arrival, &mut peer, iss) {
            return;
        }
        let options = &arrival.segment.options;
        let Some(index) = self.listening.add(now, id, tuple, peer, iss, options) else { return };
        self.tuples.enter(&tuple, Target::HalfOpen(index));
        if deferred {
            self.schedule.report(Subject::HalfOpen(index));
        } else {
            self.send_syn_ack(now, index);
        }
    }

    /// The SYN that waits under this id; `None` if it has been decided or is gone.
    pub fn incoming(&self, id: IncomingId) -> Option<Incoming> {
        self.listening.undecided(id).map(|(incoming, _)| incoming)
    }

    /// The SYNs that were reported and wait for a decision, for a program that takes over from another.
    pub fn awaited(&self) -> impl Iterator<Item = (ListenerId, IncomingId)> + '_ {
        self.listening.awaited()
    }

    /// Decides on a waiting SYN: `Accept` answers it, `Reset` and `Unreachable` refuse it, `Drop` forgets it
    /// without an answer. Without a decision it waits for at most 60 s. Returns whether it was still waiting.
    /// After `Accept` it becomes a connection, or [`Event::IncomingGone`](crate::Event::IncomingGone)
    /// follows.
    pub fn decide(&mut self, now: Instant, id: IncomingId, decision: Decision) -> bool {
        let now = self.advance(now);
        let Some((Incoming { tuple, .. }, irs)) = self.listening.undecided(id) else { return false };
        match decision {
            Decision::Accept if !self.listening.decide(now, id.index) => return false,
            Decision::Accept => self.send_syn_ack(now, id.index),
            Decision::Drop => self.remove_half_open(id.index),
            // If the limits allow no further error, a reset ends the client's attempt instead of letting it
            // wait.
            Decision::Unreachable(why) if self.send_unreachable(now, why, &tuple, irs) => {
                self.remove_half_open(id.index);
            }
            Decision::Reset | Decision::Unreachable(_) => {
                self.remove_half_open(id.index);
                self.counters.resets_sent.count();
                let reset = bare(SeqNum::default(), irs + 1, Flags::RST | Flags::ACK);
                self.reply(&tuple, self.config.tcp.ttl, reset);
            }
        }
        self.check_invariants();
        true
    }

    /// A segment for a half-open connection.
    pub(super) fn for_half_open(&mut self, now: Instant, index: u32, arrival: &Received<'_>) {
        match self.listening.judge(now, index, arrival.segment) {
            None => {}
            Some(HalfOpenAction::Drop) => self.counters.dropped_in_syn_received.count(),
            Some(HalfOpenAction::Forget) => self.end_half_open(index),
            Some(HalfOpenAction::Repeat) => {
                self.counters.syn_acks_repeated.count();
                self.send_syn_ack(now, index);
            }
            Some(HalfOpenAction::Acknowledge) => {
                self.counters.challenges_sent.count();
                self.answer(now, self.listening.acknowledgement(index));
            }
            Some(HalfOpenAction::Reset) => self.refuse(arrival),
            Some(HalfOpenAction::Establish) => {
                let settled = self.listening.handshake(now, index, &self.clock);
                let Some((handshake, listener, iss, told)) = settled else { return };
                if self.may_establish(listener) {
                    self.remove_half_open(index);
                    self.establish(now, listener, iss, handshake, arrival, told);
                }
            }
        }
    }

    /// Sends the SYN-ACK of a half-open connection, for the first time or repeated.
    fn send_syn_ack(&mut self, now: Instant, index: u32) {
        let Some(tuple) = self.listening.tuple(index) else { return };
        let mtu = self.addresses.mtu_to(tuple.remote_addr);
        let cookie = || self.fast_open_secrets().cookie(now, tuple);
        let syn_ack = self.listening.syn_ack(index, mtu, cookie);
        #[cfg(feature = "tcp-ao")]
        let syn_ack = syn_ack.map(|answer| self.without_room_for_options(answer));
        self.answer(now, syn_ack);
    }

    /// Whether there is room for another connection. Counts the dropped segment if not.
    fn may_establish(&mut self, id: ListenerId) -> bool {
        if !self.listening.has_room_to_wait(id) {
            self.counters.dropped_accept_queue.count();
            return false;
        }
        let room = self.connections.len() < self.config.connections_max;
        self.counters.dropped_connections_max.grow(u64::from(!room));
        room
    }

    /// Makes the connection, gives it the segment that completed the handshake, and queues it to be accepted.
    fn establish(
        &mut self,
        now: Instant,
        id: ListenerId,
        iss: SeqNum,
        handshake: Handshake,
        arrival: &Received<'_>,
        incoming: Option<IncomingId>,
    ) {
        let Some(tcp) = self.listening.tcp(id).cloned() else { return };
        let environment = self.environment(&arrival.tuple, iss);
        let flow_labels = environment.flow_labels.after(handshake.repetitions);
        let environment = Environment { flow_labels, ..environment };
        let connection = Connection::passive(now, arrival.tuple, tcp, &environment, handshake);
        let connection = self.add_connection(connection, Owner::Listener(id));
        self.replies.remember(arrival.tuple.remote_addr);
        self.listening.wait(id, connection, incoming);
        self.schedule.report(Subject::Listener(id.index));
        self.counters.opened_passively.count();
        if let Some(took) = handshake.rtt {
            self.tally(|histograms| histograms.record_handshake(took));
        }
        self.deliver(now, connection.index, arrival);
    }

    /// A reset, a SYN or a hard ICMP error ends a half-open connection.
    pub(super) fn end_half_open(&mut self, index: u32) {
        self.counters.half_open_ended.count();
        self.forget_half_open(index);
    }

    /// A half-open connection returns to LISTEN.
    fn forget_half_open(&mut self, index: u32) {
        let (tuple, tell) = self.listening.forget(index);
        if let Some(tuple) = tuple {
            self.tuples.strike(&tuple, Target::HalfOpen(index));
        }
        if tell {
            self.schedule.report(Subject::HalfOpen(index));
        }
    }

    /// Frees the slot of a half-open record without a report.
    pub(super) fn remove_half_open(&mut self, index: u32) {
        if let Some(tuple) = self.listening.remove(index) {
            self.tuples.strike(&tuple, Target::HalfOpen(index));
        }
    }

    /// Repeats the SYN-ACKs that are due, and gives up records.
    pub(super) fn half_open_timeouts(&mut self, now: Instant) {
        while let Some(expiry) = self.listening.pop_expired(now) {
            match expiry {
                Expiry::Repeat(index) => {
                    self.counters.syn_acks_repeated.count();
                    self.send_syn_ack(now, index);
                }
                Expiry::GiveUp { index, undecided } => {
                    self.counters.syns_undecided_expired.grow(u64::from(undecided));
                    self.counters.half_open_expired.grow(u64::from(!undecided));
                    self.forget_half_open(index);
                }
            }
        }
    }

    /// An ISS that, if a connection in TIME-WAIT was replaced, lies beyond everything that it sent.
    // RFC 9293 §3.6.1: the new ISN is larger than the largest sequence number of the old connection.
    fn isn_after(&self, now: Instant, tuple: &FourTuple, old_snd_nxt: Option<SeqNum>) -> SeqNum {
        let iss = self.numbers.iss(now, tuple);
        match old_snd_nxt {
            Some(old) if !iss.after(old) => old + ISN_STEP,
            _ => iss,
        }
    }

    /// Answers a SYN for which there is no room.
    fn send_cookie(&mut self, now: Instant, id: ListenerId, tuple: &FourTuple, peer: &PeerSyn) {
        if !self.replies.knows_sources() {
            // From now on those who complete a handshake go first, and those who are connected.
            let open =
                self.connections.iter().filter(|(_, _, slot)| slot.connection.state().is_synchronized());
            let sources = open.map(|(_, _, slot)| slot.tuple().remote_addr);
            self.replies.know(self.later.subkey(Purpose::Known), sources);
        }
        let (driver, mtu) = (self.clock.driver(now), self.addresses.mtu_to(tuple.remote_addr));
        let clock = timestamp_clock(now).wrapping_add(self.numbers.timestamp_offset(tuple));
        let cookie = self.listening.cookie(driver, id, tuple, peer, mtu, clock);
        self.counters.cookies_sent.count();
        self.tuples.cookie_sent(driver);
        self.answer(now, cookie);
    }

    /// Whether the ACK carries a cookie. If so, the connection is open, unless there is no room for it.
    fn take_cookie(&mut self, now: Instant, id: ListenerId, arrival: &Received<'_>) -> bool {
        let Received { tuple, segment, .. } = arrival;
        let driver = self.clock.driver(now);
        let elsewhere = self.tuples.has_cookies_out(driver);
        if segment.flags.contains(Flags::SYN) || !self.listening.may_return_cookie(now, id, elsewhere) {
            return false;
        }
        let Some(handshake) = self.listening.check_cookie(driver, id, tuple, segment) else {
            self.counters.cookies_refused.count();
            return false;
        };
        if self.may_establish(id) {
            self.counters.cookies_accepted.count();
            self.establish(now, id, segment.ack - 1, handshake, arrival, None);
        }
        true
    }

    fn fast_open_secrets(&self) -> Secrets {
        Secrets::new(&self.later)
    }

    /// Handles a SYN with the option at a listener that serves Fast Open. Returns whether it made a
    /// connection. If not, and a cookie is due, the half-open record says so.
    fn take_fast_open(
        &mut self,
        now: Instant,
        id: ListenerId,
        arrival: &Received<'_>,
        peer: &mut PeerSyn,
        iss: SeqNum,
    ) -> bool {
        let serves = self.listening.fast_opens(id).is_some();
        let Some(cookie) = arrival.segment.options.fast_open.filter(|_| serves) else { return false };
        let worth = self.fast_open_secrets().worth(now, &arrival.tuple, &cookie);
        if worth != Worth::Good {
            peer.want_cookie();
        }
        if worth == Worth::None {
            self.rare_counters().fast_open_refused.grow(u64::from(!cookie.is_request()));
            return false;
        }
        let is_open = |id: ConnectionId| {
            let slot = self.connections.get(id.index, id.generation);
            slot.is_some_and(|slot| slot.is_bound() && !slot.connection.is_established())
        };
        if !self.listening.fast_opens(id).is_some_and(|pending| pending.has_room(now, is_open)) {
            self.rare_counters().fast_open_over_bound.count();
            return false;
        }
        if !self.listening.has_room_to_wait(id) || self.connections.len() >= self.config.connections_max {
            return false;
        }
        self.establish_fast(now, id, arrival, peer, iss);
        true
    }

    /// A connection is over. If a SYN with data opened it, and nothing completed the handshake, it keeps its
    /// place among the pending.
    pub(super) fn keep_fast_open_place(&mut self, index: u32) {
        let Some(slot) = self.connections.at(index) else { return };
        if slot.is_bound()
            && slot.connection.ended_in_fast_open()
            && let Some(id) = self.listening.find(&slot.tuple())
            && let Some(pending) = self.listening.fast_opens(id)
        {
            pending.keep_place(index);
        }
    }

    fn establish_fast(
        &mut self,
        now: Instant,
        id: ListenerId,
        arrival: &Received<'_>,
        peer: &PeerSyn,
        iss: SeqNum,
    ) {
        let Some(tcp) = self.listening.tcp(id).cloned() else { return };
        let tuple = arrival.tuple;
        let experiment = tcp.shared_experiment(&arrival.segment.options);
        let handshake = Handshake { experiment, ..peer.handshake(&tuple, &tcp) };
        let tell = peer.wants_cookie().then(|| self.fast_open_secrets().cookie(now, &tuple));
        let environment = self.environment(&tuple, iss);
        let until = now + tcp.user_timeout.unwrap_or(R2_SYN);
        let (opening, text) = ((tell, peer.ecn()), arrival.segment.payload);
        let connection =
            Connection::passive_with_data(now, tuple, tcp, &environment, handshake, opening, text);
        let connection = self.add_connection(connection, Owner::Listener(id));
        self.listening.wait(id, connection, None);
        if let Some(pending) = self.listening.fast_opens(id) {
            pending.add(connection, until);
        }
        self.schedule.report(Subject::Listener(id.index));
        self.counters.opened_passively.count();
        self.rare_counters().fast_open_accepted.count();
        self.change(connection.index, |_| ());
    }

    /// A segment with SYN arrived for a connection: possibly the answer to a SYN with the option.
    pub(super) fn learn_fast_open(&mut self, now: Instant, index: u32, arrival: &Received<'_>) {
        let Some(slot) = self.connections.at_mut(index) else { return };
        let Some(outcome) = slot.connection.take_fast_open_outcome() else { return };
        let options = &arrival.segment.options;
        let given = options.fast_open.filter(|cookie| !cookie.is_request());
        let mss = options.mss.unwrap_or_else(|| default_mss(&arrival.tuple));
        self.rare_counters().fast_open_fell_back.grow(u64::from(outcome == FastOpenOutcome::FellBack));
        self.non_tcp().servers.learn(now, arrival.tuple.remote_addr, outcome, given, mss);
    }
}

/// How far the ISS lies beyond the old connection's last number if the clock alone does not take it there.
const ISN_STEP: u32 = 1 << 16;
