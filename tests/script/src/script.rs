//! One endpoint against a scripted peer, in virtual time: the test is the peer, in the style of packetdrill.
//!
//! Sequence numbers are relative: the peer's to its own initial sequence number, acknowledgements (and SACK
//! blocks) to the other side's, so the SYN of either side is 0 and its first byte of data 1.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock_core::profile::{Choices, Ecn};
use ackclock_core::{
    Connection, ConnectionError, ConnectionId, ConnectionInfo, Decision, EndpointConfig, Event, IncomingId,
    Instant, ListenAddr, ListenOptions, ListenerId, ReadError, Readiness, State, TcpConfig,
};

use crate::host::{Host, host_addr};
use crate::segment::{ACK, Frame, Opt, RST, SYN, Seg, seg};

/// The start of a script.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Settings of the endpoint's connections.
    pub tcp: TcpConfig,
    /// Options on the peer's SYN.
    pub peer_options: Vec<Opt>,
    /// The peer's window, unscaled, on the segments of the handshake.
    pub peer_window: u16,
    /// The peer's initial sequence number.
    pub irs: u32,
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// The endpoint's MTU.
    pub mtu: usize,
    /// When the endpoint starts.
    pub start: Instant,
    /// Whether the listener leaves the decision on each SYN to [`Script::decide`].
    pub deferred: bool,
    /// Changes the endpoint's settings before it is made.
    pub config: fn(&mut EndpointConfig),
}

impl Default for Setup {
    /// A peer with an MSS of 1460 and no other option; MTU 1500; IPv4; one hour after the epoch.
    fn default() -> Self {
        Self {
            tcp: TcpConfig::default(),
            peer_options: vec![Opt::Mss(1460)],
            peer_window: 65_535,
            irs: 10_000,
            v6: false,
            mtu: 1500,
            start: Instant::from_millis(3_600_000),
            deferred: false,
            config: |_| {},
        }
    }
}

/// An endpoint, its one connection of interest, and the peer's side of it.
#[derive(Debug)]
pub struct Script {
    /// The endpoint under test and its clock.
    pub host: Host,
    /// The endpoint's socket.
    pub local: SocketAddr,
    /// The peer's socket.
    pub remote: SocketAddr,
    /// The endpoint's initial sequence number, once a SYN of it was seen.
    pub iss: Option<u32>,
    /// The peer's initial sequence number.
    pub irs: u32,
    /// The listener, if there is one.
    pub listener: Option<ListenerId>,
    /// The connection, once connected or accepted.
    pub conn: Option<ConnectionId>,
    /// The last SYN that waits for a decision.
    pub incoming: Option<IncomingId>,
    /// The last SYN that was accepted, until the listener tells what came of it.
    pub promised: Option<IncomingId>,
    /// `Some(TSval)`: put timestamps on the peer's segments, echoing the newest TSval seen.
    pub ts_val: Option<u32>,
    /// The newest TSval that the endpoint sent.
    pub ts_seen: u32,
    /// The right edge of the endpoint's window, relative to `irs`, as last advertised.
    pub edge: u32,
    /// The window on the endpoint's SYN.
    pub syn_window: u16,
    /// Shift count of the endpoint's window, when both sides offered one.
    pub local_scale: u8,
    /// TOS or traffic class of the peer's packets.
    pub peer_traffic_class: u8,
    peer_scales: bool,
    peer_window: u16,
    queue: VecDeque<(Instant, Frame)>,
    /// The bytes that the application still has to write: next and last sequence number.
    stream: (u32, u32),
    accepts_at_once: bool,
    readiness: Readiness,
}

impl Script {
    /// An endpoint without connections or listeners.
    #[must_use]
    pub fn closed(setup: &Setup) -> Self {
        let local = SocketAddr::new(host_addr(setup.v6, 1), 80);
        let remote = SocketAddr::new(host_addr(setup.v6, 2), 4242);
        let mut config = EndpointConfig::new(vec![local.ip()], [7; 32]);
        config.mtu = setup.mtu;
        config.tcp = setup.tcp.clone().into();
        (setup.config)(&mut config);
        Self {
            host: Host::new(config, setup.start),
            local,
            remote,
            iss: None,
            irs: setup.irs,
            listener: None,
            conn: None,
            incoming: None,
            promised: None,
            ts_val: None,
            ts_seen: 0,
            edge: 0,
            syn_window: 0,
            local_scale: 0,
            peer_traffic_class: 0,
            peer_scales: setup.peer_options.iter().any(|o| matches!(o, Opt::WindowScale(_))),
            peer_window: setup.peer_window,
            queue: VecDeque::new(),
            stream: (0, 0),
            accepts_at_once: false,
            readiness: Readiness::default(),
        }
    }

    /// An endpoint that listens on its port.
    #[must_use]
    pub fn listening(setup: &Setup) -> Self {
        let mut script = Self::closed(setup);
        let addr = ListenAddr { addr: Some(script.local.ip()), port: Some(script.local.port()) };
        let options = ListenOptions { deferred: setup.deferred, ..ListenOptions::new(addr) };
        let listener = script.host.endpoint.listen(script.host.now, options);
        script.listener = Some(listener.expect("the port is free"));
        script
    }

    /// An endpoint that has sent its SYN, which is still in the queue of sent segments.
    #[must_use]
    pub fn connecting(setup: &Setup) -> Self {
        let mut script = Self::closed(setup);
        script.connect();
        script
    }

    /// A connection that the peer opened, accepted, its handshake taken from the queue of sent segments.
    #[must_use]
    pub fn accepted(setup: &Setup) -> Self {
        let mut script = Self::listening(setup);
        script.peer(peer_syn(setup));
        let syn_ack = script.sent();
        assert!(syn_ack.has(SYN | ACK), "SYN-ACK, not {syn_ack:?}");
        script.handshake_ack(setup);
        script.accept();
        script.nothing();
        script
    }

    /// A connection that the endpoint opened.
    #[must_use]
    pub fn connected(setup: &Setup) -> Self {
        let mut script = Self::connecting(setup);
        assert!(script.sent().has(SYN));
        script.start_timestamps(setup);
        script.peer(peer_syn(setup).ack(1));
        script.expect_ack(1);
        script.nothing();
        script
    }

    fn handshake_ack(&mut self, setup: &Setup) {
        self.start_timestamps(setup);
        self.peer(seg(ACK).seq(1).ack(1).window(setup.peer_window));
    }

    fn start_timestamps(&mut self, setup: &Setup) {
        let offered = setup.peer_options.iter().any(|o| matches!(o, Opt::Timestamps(..)));
        self.ts_val = (offered && setup.tcp.choices.timestamps).then_some(1_000);
    }

    // -- the peer's side ------------------------------------------------------------------------------------

    /// The peer sends a segment, and the endpoint's answers are collected.
    pub fn peer(&mut self, segment: Seg) {
        let packet = self.packet(segment);
        self.host.receive(&packet);
        self.drain();
    }

    /// The peer's segments arrive in one batch, before the endpoint may answer.
    pub fn peer_batch(&mut self, segments: impl IntoIterator<Item = Seg>) {
        for segment in segments {
            let packet = self.packet(segment);
            self.host.receive(&packet);
        }
        self.drain();
    }

    /// A packet arrives as it is, and the endpoint's answers are collected.
    pub fn raw(&mut self, packet: &[u8]) {
        self.host.receive(packet);
        self.drain();
    }

    /// An acknowledgement of everything up to `ack`, from the peer that has sent up to `seq`.
    pub fn peer_ack(&mut self, seq: u32, ack: u32) {
        self.peer(seg(ACK).seq(seq).ack(ack).window(self.peer_window));
    }

    /// The peer refuses a segment, as an end without a connection does: by a reset from the number 0 that
    /// acknowledges `ack`.
    pub fn peer_refuses(&mut self, ack: u32) {
        self.peer(seg(RST).seq(0_u32.wrapping_sub(self.irs)).ack(ack).window(0));
    }

    /// The packet that a segment of the peer travels in.
    #[must_use]
    pub fn packet(&self, segment: Seg) -> Vec<u8> {
        self.frame(segment).to_bytes()
    }

    /// The frame of a segment of the peer.
    #[must_use]
    pub fn frame(&self, mut segment: Seg) -> Frame {
        let iss = self.iss.unwrap_or(0);
        segment.seq = segment.seq.wrapping_add(self.irs);
        if segment.has(ACK) {
            segment.ack = segment.ack.wrapping_add(iss);
        }
        for option in &mut segment.options {
            if let Opt::Sack(blocks) = option {
                for (left, right) in blocks {
                    *left = left.wrapping_add(iss);
                    *right = right.wrapping_add(iss);
                }
            }
        }
        if let Some(val) = self.ts_val
            && segment.timestamps().is_none()
            && !segment.has(RST)
        {
            segment.options.push(Opt::Timestamps(val, self.ts_seen));
        }
        Frame { traffic_class: self.peer_traffic_class, ..Frame::new(self.remote, self.local, segment) }
    }

    // -- what the endpoint sent -----------------------------------------------------------------------------

    /// The next segment that the endpoint sent.
    ///
    /// # Panics
    /// If it sent none.
    #[track_caller]
    pub fn sent(&mut self) -> Seg {
        self.next_frame().seg
    }

    /// The next segment, with its IP header's fields; sequence numbers relative.
    ///
    /// # Panics
    /// If the endpoint sent none.
    #[track_caller]
    pub fn next_frame(&mut self) -> Frame {
        let (_, frame) = self.queue.pop_front().expect("the endpoint sent nothing");
        frame
    }

    /// Everything that the endpoint sent and the script has not taken yet.
    pub fn take_sent(&mut self) -> Vec<Seg> {
        self.queue.drain(..).map(|(_, frame)| frame.seg).collect()
    }

    /// The endpoint sent nothing more.
    ///
    /// # Panics
    /// If it did.
    #[track_caller]
    pub fn nothing(&self) {
        assert!(self.queue.is_empty(), "unexpected: {:?}", self.queue);
    }

    /// The next segment is this one, window and options included.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn expect(&mut self, segment: Seg) {
        assert_eq!(self.sent(), segment);
    }

    /// The next segment is a pure acknowledgement of `ack`.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn expect_ack(&mut self, ack: u32) -> Seg {
        let segment = self.sent();
        assert!(segment.flags == ACK && segment.payload.is_empty(), "a pure ACK, not {segment:?}");
        assert_eq!(segment.ack, ack, "{segment:?}");
        segment
    }

    /// The next segment carries `len` bytes from `seq` on.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn expect_data(&mut self, seq: u32, len: usize) -> Seg {
        let segment = self.sent();
        assert_eq!((segment.seq, segment.payload.len()), (seq, len), "{segment:?}");
        assert_eq!(segment.payload, pattern(seq, len), "the bytes at this sequence number");
        segment
    }

    /// The next segment is a reset with this sequence number.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn expect_rst(&mut self, seq: u32) -> Seg {
        let segment = self.sent();
        assert!(segment.has(RST) && segment.payload.is_empty(), "a reset, not {segment:?}");
        assert_eq!(segment.seq, seq, "{segment:?}");
        segment
    }

    /// The next segment refuses one that acknowledged nothing: a reset from the number 0 that acknowledges
    /// `ack` (RFC 9293 §3.10.7.1).
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn expect_refusal(&mut self, ack: u32) {
        let segment = self.sent();
        assert_eq!((segment.flags, segment.ack), (RST | ACK, ack), "{segment:?}");
        assert_eq!(segment.seq.wrapping_add(self.iss.unwrap_or(0)), 0, "{segment:?}");
    }

    // -- time -----------------------------------------------------------------------------------------------

    /// Time passes; timers expire on the way.
    pub fn advance(&mut self, by: Duration) {
        let until = self.host.now + by;
        while self.step(until) {}
        self.host.now = until;
    }

    /// Lets time pass until the endpoint sends, for `limit` at most, and returns how long it took.
    ///
    /// # Panics
    /// If something it sent earlier has not been taken from the queue.
    #[track_caller]
    pub fn wait(&mut self, limit: Duration) -> Option<(Duration, Seg)> {
        self.nothing();
        let (start, until) = (self.host.now, self.host.now + limit);
        while self.queue.is_empty() {
            if !self.step(until) {
                self.host.now = until;
                return None;
            }
        }
        let (at, frame) = self.queue.pop_front()?;
        Some((at.saturating_since(start), frame.seg))
    }

    /// Whether the endpoint sends such a segment before `limit` is over. Time stops at that segment, or at
    /// `limit`; the segments before it are taken from the queue.
    pub fn sends(&mut self, limit: Duration, is_such: impl Fn(&Seg) -> bool) -> bool {
        let until = self.host.now + limit;
        loop {
            while let Some((_, frame)) = self.queue.pop_front() {
                if is_such(&frame.seg) {
                    return true;
                }
            }
            if !self.step(until) {
                self.host.now = until;
                return false;
            }
        }
    }

    /// Time passes. Timers that expire at its very end have not expired yet: something else happens first.
    pub fn pass(&mut self, by: Duration) {
        let until = self.host.now + by;
        while self.host.next_timeout().is_some_and(|at| at < until) && self.step(until) {}
        self.host.now = until;
    }

    /// The host sleeps: its clock jumps, and no timer expires on the way.
    pub fn sleep(&mut self, by: Duration) {
        let until = self.host.now + by;
        self.host.wake(until);
        self.drain();
    }

    /// Lets the next timer up to `until` expire. False if there is none.
    fn step(&mut self, until: Instant) -> bool {
        let Some(at) = self.host.next_timeout().filter(|at| *at <= until) else { return false };
        for _ in 0..SPURIOUS_MAX {
            self.host.wake(at);
            self.drain();
            if self.host.next_timeout().is_none_or(|next| next > at) {
                return true;
            }
        }
        panic!("the timer at {at:?} does not go away");
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.host.now
    }

    // -- the application's side -----------------------------------------------------------------------------

    /// Takes the connection that the listener has ready.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn accept(&mut self) -> ConnectionId {
        self.try_accept().expect("a connection to accept")
    }

    /// Takes the connection that the listener has ready, if any.
    pub fn try_accept(&mut self) -> Option<ConnectionId> {
        let conn = self.take_accepted()?;
        self.conn = Some(conn);
        self.drain();
        Some(conn)
    }

    /// From now on, the application accepts each connection at once, keeps the first and releases the others.
    pub fn accept_at_once(&mut self) {
        self.accepts_at_once = true;
        self.drain();
    }

    fn take_accepted(&mut self) -> Option<ConnectionId> {
        let (conn, decided) = self.host.endpoint.accept_decided(self.host.now, self.listener?)?;
        self.promised = self.promised.filter(|id| Some(*id) != decided);
        Some(conn)
    }

    /// Decides on the SYN that waits.
    ///
    /// # Panics
    /// If none does.
    #[track_caller]
    pub fn decide(&mut self, decision: Decision) {
        let incoming = self.incoming.take().expect("a SYN that waits");
        let is_accepted = decision == Decision::Accept;
        if self.host.endpoint.decide(self.host.now, incoming, decision) && is_accepted {
            self.promised = Some(incoming);
        }
        self.drain();
    }

    /// Opens a connection to the peer.
    ///
    /// # Panics
    /// If the endpoint refuses.
    #[track_caller]
    pub fn connect(&mut self) {
        let (local, remote, now) = (self.local, self.remote, self.host.now);
        let conn = self.host.endpoint.connect(now, remote, (Some(local.ip()), local.port()), None);
        self.conn = Some(conn.expect("nothing is in the way"));
        self.drain();
    }

    /// The connection.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.host.endpoint.connection(self.conn.expect("a connection")).expect("the connection exists")
    }

    /// Does something with the connection and collects what it sends.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn update<R>(&mut self, f: impl FnOnce(&mut Connection, Instant) -> R) -> R {
        let conn = self.conn.expect("a connection");
        let result = self.host.endpoint.update(self.host.now, conn, f).expect("the connection exists");
        self.drain();
        result
    }

    /// The connection's state; CLOSED once it is gone.
    #[must_use]
    pub fn state(&self) -> State {
        let conn = self.conn.and_then(|conn| self.host.endpoint.connection(conn));
        conn.map_or(State::Closed, Connection::state)
    }

    /// The connection's information.
    #[must_use]
    pub fn info(&self) -> ConnectionInfo {
        self.connection().info(self.host.now)
    }

    /// Writes the next `len` bytes of the pattern that [`Self::expect_data`] expects.
    ///
    /// # Panics
    /// If they are not all taken.
    #[track_caller]
    pub fn write(&mut self, seq: u32, len: usize) {
        let taken = self.update(|c, now| c.write(now, &pattern(seq, len)));
        assert_eq!(taken, Ok(len));
    }

    /// Writes `len` bytes of the pattern, as fast as there is room from now on.
    pub fn stream(&mut self, seq: u32, len: u32) {
        self.stream = (seq, seq + len);
        self.drain();
    }

    /// Reads at most `len` bytes; none when nothing is there or at the end of the stream.
    ///
    /// # Panics
    /// If the connection ended in error.
    #[track_caller]
    pub fn read(&mut self, len: usize) -> Vec<u8> {
        let mut into = vec![0; len];
        let count = match self.update(|c, now| c.read(now, &mut into)) {
            Ok(count) => count,
            Err(ReadError::WouldBlock) => 0,
            Err(error) => panic!("{error}"),
        };
        into.truncate(count);
        into
    }

    /// Empties the receive buffer, which holds exactly `len` bytes of the pattern from `seq` on.
    ///
    /// # Panics
    /// If it reads anything else.
    #[track_caller]
    pub fn expect_read(&mut self, seq: u32, len: usize) {
        let (mut read, mut into) = (Vec::new(), [0; 64]);
        while let Ok(count @ 1..) = self.update(|c, now| c.read(now, &mut into)) {
            read.extend_from_slice(&into[..count]);
        }
        assert_eq!(read, pattern(seq, len), "the bytes that are read");
    }

    /// The stream of the peer is read to its end.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn expect_end(&mut self) {
        assert_eq!(self.try_read(), Ok(0), "the end of the stream");
    }

    /// The connection has ended in this error.
    ///
    /// # Panics
    /// If it has not.
    #[track_caller]
    pub fn expect_error(&mut self, error: ConnectionError) {
        assert_eq!(self.try_read(), Err(ReadError::Connection(error)));
    }

    /// The result of `read`.
    pub fn try_read(&mut self) -> Result<usize, ReadError> {
        self.update(|c, now| c.read(now, &mut [0; 4096]))
    }

    /// Shuts the sending side down.
    ///
    /// # Panics
    /// If that is refused.
    #[track_caller]
    pub fn shutdown(&mut self) {
        self.update(|c, now| c.shutdown(now)).expect("open for writing");
    }

    /// Resets the connection.
    pub fn abort(&mut self) {
        self.update(|c, now| c.abort(now));
    }

    /// Releases the connection.
    ///
    /// # Panics
    /// If there is none.
    pub fn release(&mut self) {
        let conn = self.conn.expect("a connection");
        self.host.endpoint.release(self.host.now, conn);
        self.drain();
    }

    /// How the connection ended.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        self.connection().error()
    }

    /// The readiness of the connection since the last call.
    pub fn readiness(&mut self) -> Readiness {
        self.collect_events();
        std::mem::take(&mut self.readiness)
    }

    // -- what no endpoint may do ----------------------------------------------------------------------------

    /// Acknowledges nothing beyond `place` (RFC 9293 §3.8.1).
    ///
    /// # Panics
    /// If a segment that has not been taken yet does.
    #[track_caller]
    pub fn acknowledges_up_to(&mut self, place: u32) {
        self.all_sent(|segment| !segment.has(ACK) || segment.has(RST) || segment.ack <= place);
    }

    /// Reports nothing but what lies in these ranges (RFC 2018 §3).
    ///
    /// # Panics
    /// If a segment that has not been taken yet does.
    #[track_caller]
    pub fn reports_only(&mut self, ranges: &[(u32, u32)]) {
        let is_within = |(left, right): &(u32, u32)| ranges.iter().any(|it| it.0 <= *left && *right <= it.1);
        self.all_sent(|segment| segment.sack().iter().all(is_within));
    }

    /// Keeps the right edge of its window at `place` or beyond (RFC 9293 §3.8.6).
    ///
    /// # Panics
    /// If a segment that has not been taken yet shrinks it.
    #[track_caller]
    pub fn keeps_edge(&mut self, place: u32) {
        let scale = self.local_scale;
        self.all_sent(|segment| {
            // RFC 7323 §2.2: the window of a SYN segment is not scaled.
            let window = u32::from(segment.window) << if segment.has(SYN) { 0 } else { scale };
            !segment.has(ACK) || segment.has(RST) || segment.ack + window >= place
        });
    }

    /// Sends no text beyond `place`, and no empty segment from there (RFC 9293 §3.8.6 and §3.4).
    ///
    /// # Panics
    /// If a segment that has not been taken yet lies there.
    #[track_caller]
    pub fn stays_within(&mut self, place: u32) {
        self.all_sent(|segment| {
            // A keep-alive probe lies one before the first byte.
            let end = segment.seq.wrapping_add(segment.payload.len() as u32);
            segment.has(RST) || segment.seq == u32::MAX || end <= place
        });
    }

    /// Sends the text that was written, each byte at its place.
    ///
    /// # Panics
    /// If a segment that has not been taken yet carries another.
    #[track_caller]
    pub fn sends_what_was_written(&mut self) {
        self.all_sent(|segment| segment.payload == pattern(segment.seq, segment.payload.len()));
    }

    #[track_caller]
    fn all_sent(&mut self, is_right: impl Fn(&Seg) -> bool) {
        let wrong = self.take_sent().into_iter().find(|segment| !is_right(segment));
        assert!(wrong.is_none(), "it sends {wrong:?}");
    }

    /// Counts `acked` bytes as acknowledged at most, and `held` with those that were reported.
    ///
    /// # Panics
    /// If it counts more.
    #[track_caller]
    pub fn believes_at_most(&mut self, acked: u64, held: u64) {
        let info = self.info();
        assert!(info.bytes_acked <= acked, "{} bytes count as acknowledged", info.bytes_acked);
        let believed = info.bytes_acked + info.sacked;
        assert!(believed <= held, "{believed} bytes count as acknowledged or held");
    }

    /// Has announced a window beyond `place` (RFC 9293 §3.8.6.2.2).
    ///
    /// # Panics
    /// If it has not.
    #[track_caller]
    pub fn has_opened_its_window(&mut self, place: u32) {
        assert!(self.edge > place, "the window ends at {}", self.edge);
    }

    /// The connection has not failed.
    ///
    /// # Panics
    /// If it has.
    #[track_caller]
    pub fn has_not_failed(&mut self) {
        assert_eq!(self.error(), None);
    }

    /// The connection is not over.
    ///
    /// # Panics
    /// If it is.
    #[track_caller]
    pub fn is_not_over(&mut self) {
        assert_ne!(self.state(), State::Closed);
    }

    /// Nothing is left of any connection.
    ///
    /// # Panics
    /// If one is.
    #[track_caller]
    pub fn has_finished(&mut self) {
        assert_eq!(self.host.endpoint.connection_count(), 0, "connections are left");
    }

    /// Each SYN that was reported still waits, or its outcome was reported, too.
    ///
    /// # Panics
    /// If one has vanished.
    #[track_caller]
    pub fn has_told_of_each_syn(&mut self) {
        let vanished = self.incoming.filter(|id| self.host.endpoint.incoming(*id).is_none());
        assert_eq!(vanished, None, "a SYN that waited is gone without a word");
        assert_eq!(self.promised, None, "an accepted SYN has no outcome");
    }

    /// Sends what lies at `place` before `limit` is over.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn goes_on(&mut self, place: u32, limit: Duration) {
        let covers = |segment: &Seg| segment.seq <= place && place < segment.seq.wrapping_add(segment.len());
        assert!(self.sends(limit, covers), "nothing is sent from {place} on");
    }

    /// Sends everything that the endpoint wants to send now.
    pub fn drain(&mut self) {
        while let Some(accepted) = self.accepts_at_once.then(|| self.take_accepted()).flatten() {
            if self.conn.is_some() {
                self.host.endpoint.release(self.host.now, accepted);
            }
            self.conn = self.conn.or(Some(accepted));
        }
        loop {
            let wrote = self.write_stream();
            for frame in self.host.transmit() {
                let seen = self.observe(frame);
                self.queue.push_back((self.host.now, seen));
            }
            if !wrote {
                break;
            }
        }
        self.collect_events();
    }

    fn write_stream(&mut self) -> bool {
        let (next, end) = self.stream;
        let Some(conn) = self.conn.filter(|_| next < end) else { return false };
        let chunk = pattern(next, (end - next).min(65_536) as usize);
        let wrote = self.host.endpoint.update(self.host.now, conn, |c, now| c.write(now, &chunk));
        let count = wrote.and_then(Result::ok).unwrap_or(0);
        self.stream.0 += count as u32;
        count > 0
    }

    fn collect_events(&mut self) {
        for event in self.host.events() {
            match event {
                Event::Connection(id, readiness) if Some(id) == self.conn => {
                    self.readiness = self.readiness.merged(readiness);
                }
                Event::Incoming(_, incoming) => self.incoming = Some(incoming),
                Event::IncomingGone(_, gone) => {
                    self.incoming = self.incoming.filter(|id| *id != gone);
                    self.promised = self.promised.filter(|id| *id != gone);
                }
                _ => {}
            }
        }
    }

    /// Makes sequence numbers relative, and notes initial sequence number, window and timestamps.
    fn observe(&mut self, mut frame: Frame) -> Frame {
        assert_eq!((frame.src, frame.dst), (self.local, self.remote), "frame of another connection");
        let segment = &mut frame.seg;
        if segment.has(SYN) {
            self.iss = Some(segment.seq);
            self.syn_window = segment.window;
            if let Some(shift) = segment.window_scale().filter(|_| self.peer_scales) {
                self.local_scale = shift;
            }
        }
        segment.seq = segment.seq.wrapping_sub(self.iss.unwrap_or(0));
        if let Some((val, _)) = segment.timestamps() {
            self.ts_seen = val;
        }
        if segment.has(ACK) {
            segment.ack = segment.ack.wrapping_sub(self.irs);
            for option in &mut segment.options {
                if let Opt::Sack(blocks) = option {
                    for (left, right) in blocks {
                        *left = left.wrapping_sub(self.irs);
                        *right = right.wrapping_sub(self.irs);
                    }
                }
            }
        }
        if segment.has(ACK) && !segment.has(RST) {
            // RFC 7323 §2.2: the window of a SYN segment is not scaled.
            let shift = if segment.has(SYN) { 0 } else { self.local_scale };
            self.edge = segment.ack.wrapping_add(u32::from(segment.window) << shift);
        }
        frame
    }
}

/// The peer's SYN, to be made a SYN-ACK by [`Seg::ack`].
#[must_use]
pub fn peer_syn(setup: &Setup) -> Seg {
    Seg { options: setup.peer_options.clone(), ..seg(SYN).window(setup.peer_window) }
}

/// The options of a modern peer: MSS 1460, SACK, timestamps, window scale `shift`.
#[must_use]
pub fn modern_options(shift: u8) -> Vec<Opt> {
    vec![Opt::Mss(1460), Opt::SackPermitted, Opt::Timestamps(1_000, 0), Opt::WindowScale(shift)]
}

/// Settings without what only clocks tell apart, and a buffer of these many bytes for what arrives: no
/// timestamps, pacing, window scaling, ECN or Nagle.
#[must_use]
pub fn untimed(receive_buffer: usize) -> TcpConfig {
    let choices = Choices {
        timestamps: false,
        pacing: false,
        window_scaling: false,
        ecn: Ecn::Off,
        ..Choices::default()
    };
    TcpConfig {
        choices,
        nodelay: true,
        send_buffer_max: 64,
        receive_buffer_max: receive_buffer,
        receive_buffer_initial: receive_buffer,
        ..TcpConfig::default()
    }
}

/// The bytes of the test pattern at these sequence numbers; period 251, so that no segment size divides it.
#[must_use]
pub fn pattern(seq: u32, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| ((u64::from(seq) + i) % 251) as u8).collect()
}

const SPURIOUS_MAX: usize = 1_000;
