//! One endpoint against a scripted peer, in virtual time: the test is the peer, in the style of packetdrill.
//!
//! Sequence numbers are relative: the peer's to its own initial sequence number, acknowledgements (and SACK
//! blocks) to the other side's, so the SYN of either side is 0 and its first byte of data 1.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock_core::{
    Connection, ConnectionError, ConnectionId, ConnectionInfo, EndpointConfig, Event, Instant, ListenAddr,
    ListenOptions, ListenerId, ReadError, Readiness, State, TcpConfig,
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
            readiness: Readiness::default(),
        }
    }

    /// An endpoint that listens on its port.
    #[must_use]
    pub fn listening(setup: &Setup) -> Self {
        let mut script = Self::closed(setup);
        let addr = ListenAddr { addr: Some(script.local.ip()), port: Some(script.local.port()) };
        let listener = script.host.endpoint.listen(script.host.now, ListenOptions::new(addr));
        script.listener = Some(listener.expect("the port is free"));
        script
    }

    /// An endpoint that has sent its SYN, which is still in the queue of sent segments.
    #[must_use]
    pub fn connecting(setup: &Setup) -> Self {
        let mut script = Self::closed(setup);
        let (local, remote, now) = (script.local, script.remote, script.host.now);
        let conn = script.host.endpoint.connect(now, remote, (Some(local.ip()), local.port()), None);
        script.conn = Some(conn.expect("nothing is in the way"));
        script.drain();
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
        let conn = self.host.endpoint.accept(self.host.now, self.listener?)?;
        self.conn = Some(conn);
        self.drain();
        Some(conn)
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

    /// Sends everything that the endpoint wants to send now.
    pub fn drain(&mut self) {
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
            if let Event::Connection(id, readiness) = event
                && Some(id) == self.conn
            {
                self.readiness = self.readiness.merged(readiness);
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

/// The bytes of the test pattern at these sequence numbers; period 251, so that no segment size divides it.
#[must_use]
pub fn pattern(seq: u32, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| ((u64::from(seq) + i) % 251) as u8).collect()
}

const SPURIOUS_MAX: usize = 1_000;
