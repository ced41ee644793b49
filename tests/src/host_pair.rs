//! Two hosts, a path with every fault, and an application at each end, in virtual time.
//!
//! One seed decides everything: addresses, settings, sequence numbers, faults, and the applications' actions.
//! The oracles of [`crate::flow`] and of this module run after every step. Faults end at a time that the seed
//! also decides, and from then on everything must finish within bounded time.

use std::net::SocketAddr;
use std::time::Duration;

use ackclock_control::quantity::Share;
use ackclock_core::congestion::Snapshot;
use ackclock_core::profile::{Choices, Ecn};
use ackclock_core::{
    Connection, ConnectionError, ConnectionId, ConnectionInfo, EcnInfo, EndpointConfig, Instant, Keepalive,
    ListenAddr, ListenOptions, ListenerId, State, TcpConfig,
};

use crate::app::{App, Plan};
use crate::coalesce::coalesce;
use crate::flow::Flow;
use crate::host::{Host, check_frame, host_addr};
use crate::icmp::packet_too_big;
use crate::link::{Entered, Faults, Link, LinkStats};
use crate::rng::Rng;
use crate::segment::{Frame, SYN, seg};

/// The input of a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed it was drawn from.
    pub seed: u64,
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// MTU of both devices.
    pub mtu: usize,
    /// Settings of the client's and the server's connection.
    pub tcp: [TcpConfig; 2],
    /// Faults from client to server and back.
    pub faults: [Faults; 2],
    /// The plans of the client and the server.
    pub plans: [Plan; 2],
    /// Where the client's and the server's initial sequence number must lie, if anywhere special.
    pub iss: [Option<u32>; 2],
    /// When faults end.
    pub heal_after: Duration,
    /// When the path's MTU changes, and its new value.
    pub mtu_change: Option<(Duration, usize)>,
    /// Whether both devices cut packets of up to 64 KB, and merge what arrives at one instant.
    pub offload: bool,
    /// When both ends must have finished, faults or not; `None`: five minutes after faults end.
    pub limit: Option<Duration>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostPairReport {
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// The statistics of both links.
    pub links: [LinkStats; 2],
    /// Sequence numbers that passed 2^31 or 2^32 while data was sent.
    pub wraps: u32,
    /// Simulated time until both ends had finished.
    pub finished: Duration,
    /// Simulated time, including what follows the end.
    pub time: Duration,
    /// Segments that each end retransmitted.
    pub retransmits: [u64; 2],
    /// Expiries of each end's retransmission timer.
    pub timeouts: [u64; 2],
    /// Packets that arrived merged from several.
    pub merged: u64,
    /// The ECN counts of each end.
    pub ecn: [Option<EcnInfo>; 2],
    /// The snapshot of each end's controller when both had finished.
    pub controllers: [Snapshot; 2],
    /// A hash over every packet and its time: equal for equal runs.
    pub trace: [u8; blake3::OUT_LEN],
}

/// One end.
#[derive(Debug)]
struct Side {
    host: Host,
    /// The host's clock at simulated time zero.
    epoch: Instant,
    socket: SocketAddr,
    listener: Option<ListenerId>,
    conn: Option<ConnectionId>,
    app: App,
    flow: Flow,
    /// Payload bytes acknowledged at the last check.
    bytes_acked: u64,
}

/// The simulation.
#[derive(Debug)]
pub struct HostPair {
    scenario: Scenario,
    now: Instant,
    sides: [Side; 2],
    links: [Link; 2],
    healed: bool,
    merged: u64,
    /// The most by which a timer is late.
    late_max: Duration,
    /// Steps without time passing.
    spins: u32,
    trace: blake3::Hasher,
}

impl HostPair {
    /// Makes both ends and lets the client connect.
    ///
    /// # Panics
    /// If the stack refuses to.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        let mut rng = Rng::new(scenario.seed ^ 0x5eed);
        let ports = [rng.between(1024, 65_535) as u16, rng.between(1, 1023) as u16];
        let sockets = [0, 1].map(|i| SocketAddr::new(host_addr(scenario.v6, i as u8 + 1), ports[i]));
        let links = [0, 1].map(|i| Link::new(scenario.faults[i].clone(), rng.next_u64()));
        let streams = [rng.next_u64(), rng.next_u64()];
        let sides = [0, 1].map(|i| {
            let mut config = EndpointConfig::new(vec![sockets[i].ip()], [i as u8 + 1; 32]);
            config.mtu = scenario.mtu;
            config.tcp = scenario.tcp[i].clone().into();
            let epoch = epoch(&config, sockets[i], sockets[1 - i], i == 1, scenario.iss[i], &mut rng);
            let mut host = Host::new(config, epoch);
            host.gso_max = if scenario.offload { 65_535 } else { 0 };
            Side {
                host,
                epoch,
                socket: sockets[i],
                listener: None,
                conn: None,
                app: App::new(scenario.plans[i].clone(), streams[i], streams[1 - i]),
                flow: Flow::default(),
                bytes_acked: 0,
            }
        });
        let mut pair = Self {
            scenario,
            now: Instant::ZERO,
            sides,
            links,
            healed: false,
            merged: 0,
            late_max: Duration::ZERO,
            spins: 0,
            trace: blake3::Hasher::new(),
        };
        let [client, server] = &mut pair.sides;
        let addr = ListenAddr { addr: Some(server.socket.ip()), port: Some(server.socket.port()) };
        server.listener = server.host.endpoint.listen(server.host.now, ListenOptions::new(addr)).ok();
        let local = (Some(client.socket.ip()), client.socket.port());
        let conn = client.host.endpoint.connect(client.host.now, server.socket, local, None);
        client.conn = Some(conn.expect("the endpoint is empty"));
        pair.exchange();
        pair
    }

    /// Every timer is late by up to this much, drawn from the time at which it is due.
    #[must_use]
    pub fn with_late_timers(self, late_max: Duration) -> Self {
        Self { late_max, ..self }
    }

    /// Runs until both ends have finished and forgotten each other, then a while longer.
    ///
    /// # Panics
    /// If an oracle is broken.
    pub fn run(self) -> HostPairReport {
        self.run_and_look().0
    }

    /// As [`run`](Self::run), and returns the information of both connections once both have finished.
    ///
    /// # Panics
    /// If an oracle is broken.
    pub fn run_and_look(mut self) -> (HostPairReport, [Option<ConnectionInfo>; 2]) {
        let heal_at = Instant::ZERO + self.scenario.heal_after;
        // Twice the largest RTO, a zero-window probe interval, and the time for the data itself.
        let after_healing = self.scenario.heal_after + Duration::from_secs(300);
        let deadline = Instant::ZERO + self.scenario.limit.unwrap_or(after_healing);
        while !self.is_finished() {
            if !self.healed && self.now >= heal_at {
                self.heal();
                self.exchange();
            }
            assert!(self.now < deadline, "stuck, or not done in time: {}", self.describe());
            let next = self.next_event().map(|at| if self.healed { at } else { at.min(heal_at) });
            let next = next.unwrap_or_else(|| panic!("nothing will ever happen: {}", self.describe()));
            self.step(next);
        }
        self.check_endings();
        let finished = self.now.saturating_since(Instant::ZERO);
        let infos = [0, 1].map(|i| self.sides[i].connection().map(|c| c.info(self.sides[i].host.now)));
        self.close();
        let report = HostPairReport {
            bytes: self.sides.iter().map(|side| side.app.read).sum(),
            links: [self.links[0].stats, self.links[1].stats],
            wraps: self.sides.iter().map(|side| side.flow.wraps).sum(),
            finished,
            time: self.now.saturating_since(Instant::ZERO),
            retransmits: infos.each_ref().map(|info| info.as_ref().map_or(0, |info| info.retransmits)),
            timeouts: infos.each_ref().map(|info| info.as_ref().map_or(0, |info| info.timeouts)),
            merged: self.merged,
            ecn: infos.each_ref().map(|info| info.as_ref()?.ecn),
            controllers: infos
                .each_ref()
                .map(|info| info.as_ref().map(|info| info.controller).unwrap_or_default()),
            trace: self.trace.finalize().into(),
        };
        (report, infos)
    }

    fn is_finished(&self) -> bool {
        // A server whose client aborts before the handshake's last ACK arrives never learns of a connection.
        // One that never gets that ACK gives the half-open connection up, and resets what the client sends
        // later.
        let over = self.sides.iter().any(|side| side.app.aborted || side.app.error.is_some());
        self.sides.iter().all(|side| side.is_finished() || (over && side.conn.is_none()))
    }

    /// The next time at which anything happens.
    fn next_event(&self) -> Option<Instant> {
        let arrivals = self.links.iter().filter_map(Link::next_arrival);
        let timers = self.sides.iter().filter_map(|side| side.sim_time(side.wakes_at(self.late_max)?));
        let wakeups =
            self.sides.iter().filter(|side| !side.app.is_done() && side.app.paused_until > side.host.now);
        let wakeups = wakeups.filter_map(|side| side.sim_time(side.app.paused_until));
        let change =
            self.scenario.mtu_change.map(|(after, _)| Instant::ZERO + after).filter(|at| *at > self.now);
        arrivals.chain(timers).chain(wakeups).chain(change).min()
    }

    fn step(&mut self, to: Instant) {
        self.spins = if to > self.now { 0 } else { self.spins + 1 };
        assert!(self.spins < SPINS_MAX, "time stands still: {}", self.describe());
        self.now = to.max(self.now);
        if let Some((after, mtu)) = self.scenario.mtu_change
            && self.now >= Instant::ZERO + after
        {
            self.links.iter_mut().for_each(|link| link.faults.mtu = mtu);
        }
        for i in 0..2 {
            let side = &mut self.sides[i];
            let host_now = side.epoch + self.now.saturating_since(Instant::ZERO);
            if side.wakes_at(self.late_max).is_some_and(|at| at <= host_now) {
                side.host.wake(host_now);
            }
            side.host.now = host_now;
            self.receive(i);
        }
        self.exchange();
    }

    /// Delivers all that has arrived at end `i` by now.
    fn receive(&mut self, i: usize) {
        let side = &mut self.sides[i];
        let mut held = Vec::new();
        while let Some(packet) = self.links[1 - i].receive(self.now) {
            // Damage that no checksum covers, for instance of an IPv6 hop limit, leaves the segment
            // unchanged.
            if let Ok(frame) = Frame::parse(&packet) {
                side.flow.received(&frame.seg);
            }
            if self.scenario.offload {
                held.push(packet);
            } else {
                side.host.receive(&packet);
            }
        }
        for (packet, meta) in coalesce(held) {
            self.merged += u64::from(meta.segment_size.is_some());
            side.host.receive_as(&packet, meta);
        }
    }

    /// Runs applications and sends packets, until nothing more happens at this instant.
    fn exchange(&mut self) {
        for i in 0..2 {
            let side = &mut self.sides[i];
            side.host.events();
            if side.conn.is_none()
                && let Some(listener) = side.listener
            {
                side.conn = side.host.endpoint.accept(side.host.now, listener);
            }
            if let Some(conn) = side.conn {
                side.app.run(&mut side.host, conn);
            }
            self.transmit(i);
            self.sides[i].check(self.healed);
        }
        self.links.iter().for_each(Link::check);
    }

    fn transmit(&mut self, i: usize) {
        while let Some(packets) = self.sides[i].host.transmit_cut() {
            for packet in packets {
                self.carry(i, packet);
            }
        }
    }

    /// Sends a packet of end `i`.
    fn carry(&mut self, i: usize, packet: Vec<u8>) {
        let side = &mut self.sides[i];
        let frame =
            check_frame(&packet, side.host.mtu()).unwrap_or_else(|why| panic!("{why}: {packet:02x?}"));
        side.flow.sent(&frame.seg);
        self.trace.update(&self.now.as_nanos().to_le_bytes()).update(&packet);
        if let Entered::TooBig(mtu) = self.links[i].send(self.now, packet.clone()) {
            // The router's answer may be lost like any other packet.
            let report = packet_too_big(host_addr(self.scenario.v6, 254), mtu as u32, &packet);
            self.links[1 - i].send(self.now, report);
        }
    }

    fn heal(&mut self) {
        self.healed = true;
        self.links.iter_mut().for_each(Link::heal);
        self.sides.iter_mut().for_each(|side| side.app.hurry());
    }

    /// Every error has a cause, and after a clean end everything has been read.
    fn check_endings(&self) {
        let aborted = self.sides.iter().any(|side| side.app.aborted);
        let never_opened = self.sides.iter().any(|side| side.conn.is_none());
        for (side, other) in [(0, 1), (1, 0)].map(|(a, b)| (&self.sides[a].app, &self.sides[b].app)) {
            match side.error {
                None if aborted || never_opened => {}
                Some(ConnectionError::Reset) if never_opened => {}
                None => {
                    assert_eq!((side.read, other.shut), (other.written, true), "the end of the stream, early")
                }
                Some(
                    ConnectionError::Reset | ConnectionError::KeepaliveTimedOut | ConnectionError::TimedOut,
                ) if aborted => {}
                // An abort before the handshake was complete reaches the client as a refusal.
                Some(ConnectionError::Refused | ConnectionError::Aborted) if aborted => {}
                Some(error) => panic!("an error without a cause: {error}: {}", self.describe()),
            }
        }
    }

    /// Both applications release their connections; TIME-WAIT passes; then no memory is in use, and nothing
    /// more is ever sent.
    fn close(&mut self) {
        for side in &mut self.sides {
            if let Some(conn) = side.conn.take() {
                side.host.endpoint.release(side.host.now, conn);
            }
            side.listener
                .take()
                .inspect(|listener| side.host.endpoint.close_listener(side.host.now, *listener));
        }
        self.exchange();
        let deadline = self.now + Duration::from_secs(1_000);
        while let Some(next) = self.next_event().filter(|at| *at < deadline) {
            self.step(next);
        }
        let sent: u64 = self.links.iter().map(|link| link.stats.sent).sum();
        while let Some(next) = self.next_event().filter(|at| *at < deadline + Duration::from_secs(3_600)) {
            self.step(next);
        }
        assert_eq!(
            sent,
            self.links.iter().map(|link| link.stats.sent).sum::<u64>(),
            "closed ends still send"
        );
        for side in &self.sides {
            assert_eq!(side.host.endpoint.connections().count(), 0, "connections left over");
            assert_eq!(side.host.endpoint.memory().0, 0, "buffers left over");
        }
    }

    /// The state of both ends, for the message of a failure.
    fn describe(&self) -> String {
        let sides = self.sides.each_ref().map(|side| {
            let info = side.connection().map(|c| c.info(side.host.now));
            let next = side.host.next_timeout().and_then(|at| side.sim_time(at));
            format!("{:?}\n  flow {:?}\n  timer at {next:?}\n  {info:?}", side.app, side.flow)
        });
        let (seed, now, links) = (self.scenario.seed, self.now, self.links.each_ref().map(|l| l.stats));
        format!("seed {seed} at {now:?}, links {links:?}\nclient {}\nserver {}", sides[0], sides[1])
    }
}

impl Side {
    /// A time of this host's clock, in simulated time.
    fn sim_time(&self, at: Instant) -> Option<Instant> {
        (at != Instant::FAR_FUTURE).then(|| Instant::ZERO + at.saturating_since(self.epoch))
    }

    /// When the host's next timer expires, up to `late_max` after it is due.
    fn wakes_at(&self, late_max: Duration) -> Option<Instant> {
        let due = self.host.endpoint.poll_timeout()?;
        let late = Rng::new(due.as_nanos()).below(late_max.as_nanos() as u64 + 1);
        Some((due + Duration::from_nanos(late)).max(self.host.now))
    }

    fn connection(&self) -> Option<&Connection> {
        self.conn.and_then(|conn| self.host.endpoint.connection(conn))
    }

    fn is_finished(&self) -> bool {
        let flushed = self.connection().is_some_and(Connection::is_flushed);
        self.app.is_done() && (flushed || self.app.error.is_some() || self.app.aborted)
    }

    /// Checks after a step: memory stays in its limit, data that waits has a timer, the RTO stays in its
    /// limit, and SND.UNA never goes back.
    fn check(&mut self, healed: bool) {
        let (used, limit) = self.host.endpoint.memory();
        assert!(used <= limit, "{used} bytes accounted, {limit} allowed");
        let Some(connection) = self.connection() else { return };
        let info = connection.info(self.host.now);
        let waits = matches!(
            info.state,
            State::SynSent
                | State::SynReceived
                | State::FinWait1
                | State::Closing
                | State::LastAck
                | State::TimeWait
        );
        if waits || info.send_queue > 0 {
            assert!(self.host.next_timeout().is_some(), "no timer is armed: {info:?}");
        }
        if info.backoff == 0 || healed {
            assert!(info.rto <= RTO_MAX, "RTO {:?}", info.rto);
        }
        assert!(info.bytes_acked >= self.bytes_acked, "SND.UNA went back");
        assert!(info.cwnd > 0 && info.snd_mss > 0, "{info:?}");
        self.bytes_acked = info.bytes_acked;
    }
}

/// The start of the host's clock that gives its connection the wanted initial sequence number.
fn epoch(
    config: &EndpointConfig,
    local: SocketAddr,
    remote: SocketAddr,
    passive: bool,
    iss: Option<u32>,
    rng: &mut Rng,
) -> Instant {
    let drawn = Instant::from_millis(rng.between(1, 100_000_000));
    let Some(wanted) = iss else { return drawn };
    let mut probe = Host::new(config.clone(), drawn);
    if passive {
        let addr = ListenAddr { addr: Some(local.ip()), port: Some(local.port()) };
        probe.endpoint.listen(drawn, ListenOptions::new(addr)).expect("the port is free");
        probe.receive(&Frame::new(remote, local, seg(SYN)).to_bytes());
    } else {
        probe
            .endpoint
            .connect(drawn, remote, (Some(local.ip()), local.port()), None)
            .expect("nothing in the way");
    }
    let syn = probe.transmit().pop().expect("a SYN");
    // RFC 9293 MUST-8: the initial sequence number grows by one every 4 µs.
    drawn + Duration::from_micros(4 * u64::from(wanted.wrapping_sub(syn.seg.seq)))
}

impl Scenario {
    /// The scenario of a seed. Each kind of fault is on in some seeds only, so that rare combinations occur,
    /// too.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mtu = rng.pick(&[1500, 1500, 1500, 1280, 9000, 576]);
        let v6 = mtu >= 1280 && rng.chance(400_000);
        let aborts = rng.chance(100_000);
        let heal_after = Duration::from_millis(rng.between(2_000, 60_000));
        let mut tcp = [draw_tcp(&mut rng, aborts), draw_tcp(&mut rng, aborts)];
        // From a separate source, so that the other draws of a seed stay the same.
        let mut pacing_rng = Rng::new(seed ^ 0x9ace);
        tcp.iter_mut().for_each(|tcp| draw_pacing(&mut pacing_rng, tcp));
        let faults = [draw_faults(&mut rng, heal_after), draw_faults(&mut rng, heal_after)];
        let slow = faults.iter().any(|f| f.rate_bps.is_some() || f.loss > Share::ZERO);
        let plans = [0, 1].map(|i| draw_plan(&mut rng, slow, aborts && i == seed as usize % 2));
        let iss = [0, 1].map(|i| {
            // In a third of all seeds (more here) numbers wrap while data flows.
            let place = rng.pick(&[None, Some(1_u32 << 31), Some(0)]);
            let before = rng.below(plans[i].total.clamp(2_000, 300_000)) as u32;
            place.map(|place| place.wrapping_sub(before))
        });
        let mtu_change = (mtu > 1300 && rng.chance(200_000))
            .then(|| (Duration::from_millis(rng.below(3_000)), rng.between(1280, 1400) as usize));
        Self { seed, v6, mtu, tcp, faults, plans, iss, heal_after, mtu_change, offload: false, limit: None }
    }

    /// A transfer of `bytes` from client to server, answered by one byte, on a path with `path` in both
    /// directions.
    #[must_use]
    pub fn transfer(seed: u64, bytes: u64, tcp: [TcpConfig; 2], path: &Faults) -> Self {
        Self {
            seed,
            v6: false,
            mtu: 1500,
            tcp,
            faults: [path.clone(), path.clone()],
            plans: [Plan::plain(bytes), Plan::plain(1)],
            iss: [None, None],
            heal_after: Duration::from_secs(3600),
            mtu_change: None,
            offload: false,
            limit: None,
        }
    }
}

fn draw_tcp(rng: &mut Rng, keepalive: bool) -> TcpConfig {
    // From a copy, so that the other draws of a seed stay the same.
    let ecn = rng.clone().pick(&[Ecn::Off, Ecn::Off, Ecn::Classic, Ecn::Accurate, Ecn::Accurate]);
    let probing = Keepalive { idle: Duration::from_secs(10), interval: Duration::from_secs(5), probes: 5 };
    TcpConfig {
        nodelay: rng.chance(300_000), // When the peer aborts and its reset is lost, an end that only reads learns of it by probing.
        keepalive: keepalive.then_some(probing),
        send_buffer_max: rng.pick(&[4_096, 65_536, 1 << 20, 4 << 20]),
        receive_buffer_max: rng.pick(&[2_920, 16_384, 65_535, 1 << 20, 6 << 20]),
        mss_max: rng.pick(&[None, None, None, Some(536), Some(1000)]),
        choices: Choices {
            timestamps: rng.chance(700_000),
            sack: rng.chance(700_000),
            window_scaling: rng.chance(700_000),
            ecn,
            ..Choices::default()
        },
        ..TcpConfig::default()
    }
}

fn draw_pacing(rng: &mut Rng, tcp: &mut TcpConfig) {
    tcp.choices.pacing = rng.chance(700_000);
    tcp.pacing_rate_max = rng.chance(150_000).then(|| rng.between(50_000, 10_000_000));
}

fn draw_faults(rng: &mut Rng, until: Duration) -> Faults {
    let micros = |rng: &mut Rng, most| Duration::from_micros(rng.below(most));
    let delay = rng.pick(&[50, 1_000, 20_000, 150_000]);
    let mut faults = Faults::none(micros(rng, delay));
    let mut marks = *rng;
    faults.mark = Share::per_million(if marks.chance(500_000) { marks.below(1_000_001) as u32 } else { 0 });
    let mut on = |parts: u32, most: u64| if rng.chance(parts) { rng.below(most) as u32 } else { 0 };
    faults.loss = Share::per_million(on(600_000, 300_000) / 2_u32.pow(on(700_000, 6)));
    faults.duplicate = Share::per_million(on(300_000, 300_000));
    faults.reorder = Share::per_million(on(400_000, 300_000));
    faults.corrupt = Share::per_million(on(300_000, 50_000));
    faults.truncate = Share::per_million(on(200_000, 50_000));
    let reorder_most = rng.pick(&[2_000, 20_000, 200_000, 5_000_000]);
    faults.reorder_by = micros(rng, reorder_most);
    if rng.chance(300_000) {
        faults.jitter = micros(rng, delay.max(100));
    }
    if rng.chance(400_000) {
        faults.rate_bps = Some(rng.between(200_000, 100_000_000));
        faults.queue_packets = rng.between(3, 200) as usize;
    }
    if rng.chance(150_000) {
        let from = Instant::ZERO + micros(rng, 2_000_000);
        faults.blackouts.push((from, from + until.min(micros(rng, 40_000_000))));
    }
    faults
}

fn draw_plan(rng: &mut Rng, slow: bool, aborts: bool) -> Plan {
    let most = if slow { 300_000 } else { 1_500_000 };
    let total =
        rng.pick(&[0, 1, rng.clone().below(10_000), rng.clone().below(most), rng.clone().below(most)]);
    let chunk = rng.pick(&[(1, 100), (1, 10_000), (1_448, 1_448), (1, 65_536)]);
    let tiny_reads = total < 100_000 && rng.chance(200_000);
    Plan {
        total,
        write_chunk: if total < 50_000 { chunk } else { (chunk.0.max(100), chunk.1.max(10_000)) },
        read_chunk: if tiny_reads {
            (1, 1)
        } else {
            rng.pick(&[(1, 10_000), (65_536, 65_536), (500, 2_000)])
        },
        pause: if rng.chance(300_000) { Share::percent(2) } else { Share::ZERO },
        pause_max: Duration::from_millis(rng.pick(&[1, 50, 2_000])),
        abort_after: aborts.then(|| rng.below(total.max(1))),
    }
}

/// The most steps at one instant.
const SPINS_MAX: u32 = 10_000;

/// RFC 6298 §2.5 lets an implementation set a maximum of at least 60 s.
const RTO_MAX: Duration = Duration::from_secs(120);
