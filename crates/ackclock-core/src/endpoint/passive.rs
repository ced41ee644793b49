//! From LISTEN to ESTABLISHED: SYNs, half-open records, cookies, and the accept queue
//! (RFC 9293 §3.10.7.2 and, for connections that come from LISTEN, §3.10.7.4 in SYN-RECEIVED).

use ackclock_control::tally::Tally;
use ackclock_wire::{Fields, Flags, SeqNum, TcpOptions};

use super::Endpoint;
use super::demux::Target;
use super::input::Arrival;
use super::keys::Purpose;
use super::known::KnownSources;
use super::listener::Listener;
use super::live::Owner;
use super::reply::bare;
use super::syn_queue::{Expiry, HalfOpen, HalfOpenAction, PeerSyn, Phase};
use super::time_wait::is_plain_syn;
use crate::connection::Offer;
use crate::connection::{
    EXPERIMENT_SYNS, Environment, Handshake, advertised_mss, default_mss, initial_receive_window,
    option_of_syn_ack, told_user_timeout, window_scale_for,
};
use crate::{Connection, FourTuple, IncomingId, Instant, ListenerId, TcpConfig};

impl Endpoint {
    /// A segment in LISTEN. `old_snd_nxt`: SND.NXT of the connection in TIME-WAIT that it replaces.
    pub(super) fn for_listener(
        &mut self,
        now: Instant,
        id: ListenerId,
        arrival: &Arrival<'_>,
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
        self.take_syn(now, id, arrival, old_snd_nxt);
    }

    /// A SYN requests a new connection under the name of a connection in TIME-WAIT, which it replaces.
    pub(super) fn reopen(&mut self, now: Instant, arrival: &Arrival<'_>, old_snd_nxt: SeqNum) {
        match self.listeners.find(&arrival.tuple) {
            Some(listener) => self.for_listener(now, listener, arrival, Some(old_snd_nxt)),
            None => self.refuse(arrival),
        }
    }

    fn take_syn(&mut self, now: Instant, id: ListenerId, arrival: &Arrival<'_>, old_snd_nxt: Option<SeqNum>) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let tuple = arrival.tuple;
        let mut peer = PeerSyn::new(arrival.segment, arrival.codepoint, &listener.tcp);
        let room = listener.has_room_for_syn()
            && self.half_open.has_room(id, tuple.remote_addr, listener.per_source_max());
        if !room && listener.deferred {
            return self.counters.dropped_syn_backlog.count();
        }
        if !room {
            listener.overflowed = Some(now);
            self.know_sources();
            return self.send_cookie(now, id, &tuple, &peer);
        }

        let deferred = listener.deferred;
        if !deferred && self.take_fast_open(now, id, arrival, &mut peer, old_snd_nxt) {
            return;
        }
        let Some(listener) = self.listeners.get_mut(id) else { return };
        listener.half_open.count();
        listener.undecided.grow(usize::from(deferred));
        let window = initial_receive_window(&listener.tcp);
        let phase = if deferred { Phase::Undecided } else { Phase::Answered { retransmits: 0, window } };
        let experiment = listener.tcp.shared_experiment(&arrival.segment.options);
        let iss = self.isn_after(now, &tuple, old_snd_nxt);
        let index = self.half_open.insert(HalfOpen::new(tuple, id, peer, iss, phase, now));
        self.enter(&tuple, Target::HalfOpen(index));
        if let Some(experiment) = experiment {
            self.half_open.keep_experiment(index, experiment);
        }
        if deferred {
            self.events.incoming.push(index);
        } else {
            self.send_syn_ack(now, index);
        }
    }

    /// From now on, remembers the sources that complete a handshake, beginning with those who are connected.
    fn know_sources(&mut self) {
        if self.known.is_some() {
            return;
        }
        let mut known = Box::new(KnownSources::new(self.later.subkey(Purpose::Known)));
        let open = self.connections.iter().filter(|(_, _, live)| live.connection.state().is_synchronized());
        open.for_each(|(_, _, live)| known.remember(live.name().remote_addr));
        self.known = Some(known);
    }

    /// A segment for a half-open connection.
    pub(super) fn for_half_open(&mut self, now: Instant, index: u32, arrival: &Arrival<'_>) {
        let Some(record) = self.half_open.at_mut(index) else { return };
        let action = record.judge(now, arrival.segment);
        if action == HalfOpenAction::Repeat && arrival.segment.flags.ace() == 0 {
            // RFC 9768 §3.1.4.1: the peer gave the flags up because it suspects them to be the obstacle.
            record.peer.ecn = Offer::None;
        }
        let record = *record;
        match action {
            HalfOpenAction::Drop => self.counters.dropped_in_syn_received.count(),
            HalfOpenAction::Forget => {
                self.counters.half_open_ended.count();
                self.forget_half_open(index);
            }
            HalfOpenAction::Repeat => {
                self.counters.syn_acks_repeated.count();
                self.send_syn_ack(now, index);
            }
            HalfOpenAction::Acknowledge => self.acknowledge_half_open(now, &record),
            HalfOpenAction::Reset => self.refuse(arrival),
            HalfOpenAction::Establish => {
                let Some(mut handshake) = self.handshake_of(now, &record) else { return };
                handshake.experiment = self.half_open.experiment(index);
                let may = self.may_establish(record.listener);
                if may {
                    let told = self.half_open.told_id(index);
                    self.remove_half_open(index);
                    self.establish(now, record.listener, record.iss, handshake, arrival, told);
                }
            }
        }
    }

    fn acknowledge_half_open(&mut self, now: Instant, record: &HalfOpen) {
        let Phase::Answered { window, .. } = record.phase else { return };
        let ttl =
            self.listeners.get(record.listener).map_or(self.config.tcp.ttl, |listener| listener.tcp.ttl);
        let mut ack = Fields { window, ..bare(record.iss + 1, record.peer.irs + 1, Flags::ACK) };
        ack.options.timestamps = self.timestamps(now, &record.tuple, record.peer.timestamps);
        self.counters.challenges_sent.count();
        let label = self.flow_labels.of(&record.tuple).after(record.phase.repetitions()).current();
        self.reply_labelled(&record.tuple, ttl, label, ack);
    }

    /// Sends the SYN-ACK of a half-open connection, for the first time or repeated.
    pub(super) fn send_syn_ack(&mut self, now: Instant, index: u32) {
        let Some(record) = self.half_open.at(index).copied() else { return };
        let Some(listener) = self.listeners.get(record.listener) else { return };
        let mut fields = syn_ack(
            &record.tuple,
            record.iss,
            &record.peer,
            &listener.tcp,
            self.mtu_to(record.tuple.remote_addr),
        );
        fields.options.timestamps = self.timestamps(now, &record.tuple, record.peer.timestamps);
        let repetitions = record.phase.repetitions();
        if u32::from(repetitions) >= EXPERIMENT_SYNS {
            (fields.options.experiment, fields.options.user_timeout) = (None, None);
        }
        fields.flags = fields.flags | record.peer.ecn.answer(repetitions);
        // RFC 9768 §3.2.3.2.2: a repeated SYN,ACK does without the option.
        fields.options.accecn =
            record.peer.ecn.agreement(0).filter(|_| repetitions == 0).and_then(option_of_syn_ack);
        if record.peer.wants_cookie && u32::from(repetitions) < EXPERIMENT_SYNS {
            // There is no room for both; the counters of a SYN,ACK say little.
            fields.options.accecn = None;
            fields.options.fast_open = Some(self.fast_open_cookie(now, &record.tuple));
        }
        #[cfg(feature = "tcp-ao")]
        if self.has_keys(record.tuple.remote_addr) {
            // There is no room for them beside a signature.
            (fields.options.accecn, fields.options.fast_open) = (None, None);
            fields.options.experiment = None;
        }
        let ttl = listener.tcp.ttl;
        let label = self.flow_labels.of(&record.tuple).after(repetitions).current();
        self.reply_labelled(&record.tuple, ttl, label, fields);
    }

    /// What this record's exchange of SYNs settled.
    fn handshake_of(&self, now: Instant, record: &HalfOpen) -> Option<Handshake> {
        let Phase::Answered { retransmits, .. } = record.phase else { return None };
        let ours = window_scale_for(self.listeners.get(record.listener)?.tcp.receive_buffer_max);
        let PeerSyn { irs, timestamps, window, mss, window_scale, sack, ecn, wants_cookie: _ } = record.peer;
        Some(Handshake {
            irs,
            peer_mss: mss.unwrap_or_else(|| default_mss(&record.tuple)),
            window_scale: window_scale.map(|peers| (peers, ours)),
            sack,
            timestamps,
            // RFC 6298 §3 (Karn): no sample from a SYN-ACK that was sent more than once, or before a pause.
            rtt: (retransmits == 0 && !record.repeated && !self.pauses.is_since(record.since))
                .then(|| now.saturating_since(record.since)),
            repetitions: retransmits,
            peer_window: window,
            ecn: ecn.agreement(retransmits),
            experiment: None,
        })
    }

    /// Whether there is room for another connection. Counts the dropped segment if not.
    pub(super) fn may_establish(&mut self, id: ListenerId) -> bool {
        if !self.listeners.get(id).is_some_and(Listener::has_room) {
            self.counters.dropped_accept_queue.count();
            return false;
        }
        let room = self.connections.len() < self.config.connections_max;
        self.counters.dropped_connections_max.grow(u64::from(!room));
        room
    }

    /// Makes the connection, gives it the segment that completed the handshake, and queues it to be accepted.
    pub(super) fn establish(
        &mut self,
        now: Instant,
        id: ListenerId,
        iss: SeqNum,
        handshake: Handshake,
        arrival: &Arrival<'_>,
        incoming: Option<IncomingId>,
    ) {
        let Some(listener) = self.listeners.get(id) else { return };
        let tcp = listener.tcp.clone();
        let environment = self.environment(&arrival.tuple, iss);
        let flow_labels = environment.flow_labels.after(handshake.repetitions);
        let environment = Environment { flow_labels, ..environment };
        let connection = Connection::passive(now, arrival.tuple, tcp, &environment, handshake);
        let connection = self.add_connection(connection, Owner::Listener(id));
        if let Some(known) = &mut self.known {
            known.remember(arrival.tuple.remote_addr);
        }
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.accept_queue.push_back((connection, incoming));
        }
        self.events.acceptable.push(id.index);
        self.counters.opened_passively.count();
        self.deliver(now, connection.index, arrival);
    }

    /// A half-open connection returns to LISTEN. If its SYN was reported, the application must learn of that.
    /// Until then the record keeps its slot, without a name, so that short-lived ones are bounded like
    /// others.
    pub(super) fn forget_half_open(&mut self, index: u32) {
        let Some(record) = self.half_open.at(index).copied().filter(|record| record.told) else {
            return self.remove_half_open(index);
        };
        self.strike(&record.tuple, Target::HalfOpen(index));
        self.note_decided(&record);
        self.half_open.end(index);
        self.events.incoming.push(index);
    }

    /// Frees the slot of a half-open record without a report.
    pub(super) fn remove_half_open(&mut self, index: u32) {
        let Some(record) = self.half_open.remove(index) else { return };
        if record.phase != Phase::Gone {
            self.strike(&record.tuple, Target::HalfOpen(index));
        }
        self.note_decided(&record);
        if let Some(listener) = self.listeners.get_mut(record.listener) {
            listener.half_open = listener.half_open.saturating_sub(1);
        }
    }

    /// A record no longer waits for a decision, if it did.
    pub(super) fn note_decided(&mut self, record: &HalfOpen) {
        if record.phase == Phase::Undecided
            && let Some(listener) = self.listeners.get_mut(record.listener)
        {
            listener.undecided = listener.undecided.saturating_sub(1);
        }
    }

    pub(super) fn half_open_timeouts(&mut self, now: Instant) {
        while let Some(expiry) = self.half_open.pop_expired(now) {
            match expiry {
                Expiry::Repeat(index) => {
                    self.counters.syn_acks_repeated.count();
                    self.send_syn_ack(now, index);
                }
                Expiry::GiveUp(index) => {
                    let undecided =
                        self.half_open.at(index).is_some_and(|record| record.phase == Phase::Undecided);
                    self.counters.syns_undecided_expired.grow(u64::from(undecided));
                    self.counters.half_open_expired.grow(u64::from(!undecided));
                    self.forget_half_open(index);
                }
            }
        }
    }

    /// An ISS that, if a connection in TIME-WAIT was replaced, lies beyond everything that it sent.
    // RFC 9293 §3.6.1: the new ISN is larger than the largest sequence number of the old connection.
    pub(super) fn isn_after(&self, now: Instant, tuple: &FourTuple, old_snd_nxt: Option<SeqNum>) -> SeqNum {
        let iss = self.isn.iss(now, tuple);
        match old_snd_nxt {
            Some(old) if !iss.after(old) => old + ISN_STEP,
            _ => iss,
        }
    }
}

/// The SYN-ACK that answers `peer`, without timestamps. It mirrors what the SYN offered.
pub(super) fn syn_ack(tuple: &FourTuple, iss: SeqNum, peer: &PeerSyn, tcp: &TcpConfig, mtu: usize) -> Fields {
    let ip_header = if tuple.local_addr.is_ipv4() { 20 } else { 40 };
    let options = TcpOptions {
        // RFC 9293 MUST-14, RFC 9293 SHLD-5, RFC 9293 MAY-3: the MSS goes out in every SYN-ACK.
        mss: Some(advertised_mss(tcp, mtu, ip_header)),
        window_scale: peer.window_scale.map(|_| window_scale_for(tcp.receive_buffer_max)),
        sack_permitted: peer.sack,
        experiment: tcp.experiment,
        user_timeout: told_user_timeout(tcp, tcp.user_timeout),
        ..TcpOptions::default()
    };
    // RFC 7323 §2.2: the window of a SYN-ACK is never shifted.
    let window = initial_receive_window(tcp);
    Fields { window, options, ..bare(iss, peer.irs + 1, Flags::SYN | Flags::ACK) }
}

/// How far the ISS lies beyond the old connection's last number if the clock alone does not take it there.
const ISN_STEP: u32 = 1 << 16;
