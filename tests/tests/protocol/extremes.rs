//! Settings at the ends of their ranges. Whatever their values, no arithmetic overflows (this build checks
//! all of it) and no connection hangs: a connection runs from start to end with each. Its performance does
//! not matter.

use std::sync::Arc;
use std::time::Duration;

use ackclock_control::congestion::IdlePolicy;
use ackclock_control::profile::AckPolicy;
use ackclock_control::rtt::{Formula, RtoConfig};
use ackclock_core::{
    ConnectionId, EndpointConfig, Instant, Keepalive, ListenAddr, ListenOptions, ListenerId, MtuProbing,
    ReassemblyConfig, TcpConfig, UserTimeoutOption,
};
use ackclock_tests::host::{Host, host_addr};

const COUNTS: [usize; 5] = [0, 1, 2, usize::MAX - 1, usize::MAX];
const TIMES: [Duration; 4] =
    [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(u64::MAX / 2), Duration::MAX];
const NUMBERS: [u32; 4] = [0, 1, u32::MAX - 1, u32::MAX];

#[test]
fn counts_of_an_endpoint_at_their_extremes() {
    let fields: [fn(&mut EndpointConfig, usize); 8] = [
        |config, count| config.mtu = count,
        |config, count| config.connections_max = count,
        |config, count| config.listeners_max = count,
        |config, count| config.orphans_max = count,
        |config, count| config.time_wait_max = count,
        |config, count| config.memory_budget = count,
        |config, count| config.other_packets = count.min(1 << 16),
        |config, count| {
            let bounds = ReassemblyConfig { timeout: Duration::MAX, ..ReassemblyConfig::default() };
            let bounds =
                ReassemblyConfig { bytes_max: count, packets_max: count, fragments_max: count, ..bounds };
            config.reassembly = Some(Box::new(bounds));
        },
    ];
    each(&fields, &COUNTS, |set| live(|config| set(config), |_| {}));
    for ports in [(0, 0), (65_535, 0), (65_535, 65_535), (2, 1)] {
        live(|config| config.ephemeral_ports = ports, |_| {});
    }
    for number in NUMBERS {
        live(|config| config.echo_replies_per_second = number, |_| {});
    }
}

#[test]
fn counts_of_a_listener_at_their_extremes() {
    let fields: [fn(&mut ListenOptions, usize); 4] = [
        |options, count| options.backlog = count,
        |options, count| options.syn_backlog = count,
        |options, count| options.decisions_max = count,
        |options, count| options.fast_open_max = count,
    ];
    each(&fields, &COUNTS, |set| live(|_| {}, |options| set(options)));
}

#[test]
fn counts_of_a_connection_at_their_extremes() {
    let fields: [fn(&mut TcpConfig, usize); 4] = [
        |tcp, count| tcp.send_buffer_max = count,
        |tcp, count| tcp.receive_buffer_max = count,
        |tcp, count| tcp.receive_buffer_initial = count,
        |tcp, count| tcp.choices.receiver_bandwidth = Some(count.min(256)),
    ];
    each(&fields, &COUNTS, |set| tcp_lives(|tcp| set(tcp)));
    let fields: [fn(&mut TcpConfig, u32); 6] = [
        |tcp, number| tcp.choices.initial_window_segments = number,
        |tcp, number| tcp.pacing_rate_max = Some(number.into()),
        |tcp, number| tcp.pacing_rate_max = Some(u64::MAX - u64::from(number)),
        |tcp, number| tcp.mss_max = Some(number as u16),
        |tcp, number| (tcp.ttl, tcp.dscp) = (number as u8, number as u8),
        |tcp, number| {
            tcp.keepalive = Some(Keepalive {
                idle: Duration::from_nanos(1),
                interval: Duration::from_nanos(1),
                probes: number,
            });
        },
    ];
    each(&fields, &NUMBERS, |set| tcp_lives(|tcp| set(tcp)));
}

#[test]
fn times_at_their_extremes() {
    let fields: [fn(&mut TcpConfig, Duration); 9] = [
        |tcp, time| tcp.user_timeout = Some(time),
        |tcp, time| tcp.time_wait = time,
        |tcp, time| tcp.fin_wait_2_max = time,
        |tcp, time| tcp.keepalive = Some(Keepalive { idle: time, interval: time, probes: 3 }),
        |tcp, time| tcp.choices.acks = AckPolicy::EverySecondSegment { delay_max: time },
        |tcp, time| tcp.choices.acks = AckPolicy::EverySecondByTick { tick: time },
        |tcp, time| tcp.choices.acks = AckPolicy::WindowShare { percent: 255, delay_max: time },
        |tcp, time| tcp.mtu_probing = Some(Box::new(MtuProbing { least: 0, raise_after: time })),
        |tcp, time| {
            let bounds = UserTimeoutOption { least: time, most: time, changeable: true };
            tcp.user_timeout_option = Some(Box::new(bounds));
        },
    ];
    each(&fields, &TIMES, |set| tcp_lives(|tcp| set(tcp)));
    for time in TIMES {
        live(|config| config.timer_granularity = time, |_| {});
    }
}

#[test]
fn the_retransmission_timeout_at_its_extremes() {
    let fields: [fn(&mut RtoConfig, Duration); 5] = [
        |rto, time| rto.initial = time,
        |rto, time| rto.rto_min = time,
        |rto, time| rto.rto_max = time,
        |rto, time| rto.granularity = time,
        |rto, time| (rto.granularity, rto.heartbeat) = (time, true),
    ];
    each(&fields, &TIMES, |set| tcp_lives(|tcp| set(&mut tcp.choices.rto)));
    for formula in [
        Formula::MeanDeviation { k: 255, adapt: true },
        Formula::SignedDeviation { k: 255, k_falling: 0 },
        Formula::Multiple { beta: 255 },
        Formula::Static,
    ] {
        tcp_lives(|tcp| tcp.choices.rto.formula = formula);
    }
    for idle in [IdlePolicy::Keep, IdlePolicy::OneSegment, IdlePolicy::RestartWindow, IdlePolicy::Validated] {
        tcp_lives(|tcp| tcp.choices.idle = idle);
    }
}

#[test]
fn clocks_at_their_extremes() {
    for start in [Instant::ZERO, Instant::FAR_FUTURE] {
        let mut ends = Ends::new(start, &|_| {}, &|_| {});
        ends.live();
    }
}

/// Tries each field with each value; `run` gets the function that sets it.
fn each<T, V: Copy>(fields: &[fn(&mut T, V)], values: &[V], run: impl Fn(&dyn Fn(&mut T))) {
    for field in fields {
        for &value in values {
            run(&|settings| field(settings, value));
        }
    }
}

fn tcp_lives(adjust: impl Fn(&mut TcpConfig)) {
    live(|config| adjust(Arc::make_mut(&mut config.tcp)), |_| {});
}

/// Both ends have these settings; one of seven packets is lost.
fn live(adjust: impl Fn(&mut EndpointConfig), listen: impl Fn(&mut ListenOptions)) {
    Ends::new(Instant::from_millis(1), &adjust, &listen).live();
}

/// Two endpoints that are joined directly.
struct Ends {
    client: Host,
    server: Host,
    listener: Option<ListenerId>,
    accepted: Vec<ConnectionId>,
    packets: u32,
}

impl Ends {
    fn new(now: Instant, adjust: &dyn Fn(&mut EndpointConfig), listen: &dyn Fn(&mut ListenOptions)) -> Self {
        let [client, mut server] = [1, 2].map(|number| {
            let mut config = EndpointConfig::new(vec![host_addr(false, number)], [number; 32]);
            adjust(&mut config);
            Host::new(config, now)
        });
        let mut options = ListenOptions::new(ListenAddr { addr: None, port: Some(80) });
        listen(&mut options);
        let listener = server.endpoint.listen(now, options).ok();
        Self { client, server, listener, accepted: Vec::new(), packets: 0 }
    }

    /// Opens, talks, closes, and lets all timers run out.
    fn live(&mut self) {
        let to = (host_addr(false, 2), 80).into();
        let Ok(id) = self.client.endpoint.connect(self.client.now, to, (None, 0), None) else { return };
        for round in 0..300 {
            let now = self.client.now;
            self.client.endpoint.update(now, id, |c, now| c.write(now, &[7; 3_000]).ok());
            if round == 200 {
                self.client.endpoint.update(now, id, |c, now| c.shutdown(now).ok());
            }
            self.settle();
            self.pass(now + Duration::from_millis(5));
        }
        for id in std::mem::take(&mut self.accepted) {
            self.server.endpoint.release(self.server.now, id);
        }
        self.client.endpoint.release(self.client.now, id);
        for _ in 0..300 {
            self.settle();
            let next = [self.client.next_timeout(), self.server.next_timeout()].into_iter().flatten().min();
            let Some(next) = next else { return };
            self.pass(next);
        }
    }

    /// Carries packets, for a while at most, and has the server answer.
    fn settle(&mut self) {
        let mut buffer = [0; 4_096];
        for _ in 0..50 {
            let (there, back) = (self.client.transmit_one(), self.server.transmit_one());
            if there.is_none() && back.is_none() {
                break;
            }
            for (packet, to) in [(there, &mut self.server), (back, &mut self.client)] {
                self.packets += u32::from(packet.is_some());
                if let Some(packet) = packet.filter(|_| !self.packets.is_multiple_of(7)) {
                    to.receive(&packet);
                }
            }
            let now = self.server.now;
            if let Some(listener) = self.listener {
                self.accepted.extend(self.server.endpoint.accept(now, listener));
            }
            for id in &self.accepted {
                self.server.endpoint.update(now, *id, |c, now| {
                    let len = c.read(now, &mut buffer).unwrap_or(0);
                    c.write(now, buffer.get(..len / 2).unwrap_or_default()).ok()
                });
            }
            self.client.events();
            self.server.events();
        }
    }

    fn pass(&mut self, to: Instant) {
        self.client.wake(to);
        self.server.wake(to);
    }
}
