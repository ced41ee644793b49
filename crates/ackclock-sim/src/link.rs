//! One direction of a link: the queue, the transmitter, the wire.

use ackclock_core::{Instant, fetch};

use crate::flight::Flight;
use crate::link_trace::LinkTrace;
use crate::meter::{Histogram, LengthMeter};
use crate::queue::{
    AckThinning, Cake, CakeParameters, CoDel, CoDelParameters, DropRule, DropTail, DualPi2,
    DualPi2Parameters, FqCoDel, FqCoDelParameters, Pie, PieParameters, Policer, Queue, Red, RedParameters,
};
use crate::rng::Rng;
use crate::scenario::{Direction, Isolation, QueueConfig};
use crate::service::{Service, Weather};
use crate::transmitter::Transmitter;
use crate::units::{Bytes, Rate, Share};
use crate::wire::Wire;

/// One direction of a link.
///
/// Fields are in order of use: a packet that passes an idle link touches the first two cache lines. In a
/// simulation of thousands of links, a packet finds its link's lines evicted.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Link {
    pub from: u32,
    pub to: u32,
    pub mtu: u32,
    pub up: bool,
    /// Whether an event will come when the transmitter is free.
    pub waits: bool,
    pub needs_flows: bool,
    /// See [`Queue::is_transparent`].
    pub transparent: bool,
    pub transmitter: Transmitter,
    pub delay: u64,
    pub last_arrival: u64,
    pub wire: Option<Box<Wire>>,
    /// The packets on the wire that arrive in order. One event stands for the first.
    pub flying: Flight,
    pub stats: LinkStats,
    pub queue: Box<dyn Queue>,
    pub rng: Rng,
    /// Lets packets leave, if the transmitter is not free to send one after the other.
    pub service: Option<Box<Service>>,
}

/// A link's statistics, in order of use.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct LinkStats {
    pub(crate) offered: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) busy_ns: u64,
    pub(crate) length: LengthMeter,
    /// The waiting times of packets that waited; on most links none did.
    waits: Option<Box<Histogram>>,
    pub(crate) marked: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    pub(crate) damaged: u64,
    dropped: Option<Box<[u64; DropRule::ALL.len()]>>,
}

impl LinkStats {
    /// Counts a packet that leaves after waiting `nanos`.
    #[inline]
    pub fn note_wait(&mut self, nanos: u64) {
        if nanos > 0 {
            self.waits.get_or_insert_default().record(nanos);
        }
    }

    /// The distribution of waiting times.
    pub fn delays(&self) -> Histogram {
        let waits = self.waits.as_deref().cloned().unwrap_or_default();
        let at_once = self.sent - waits.count();
        waits.with_zeros(at_once)
    }

    /// Packets dropped, by rule.
    pub fn dropped(&self) -> [u64; DropRule::ALL.len()] {
        self.dropped.as_deref().copied().unwrap_or_default()
    }
}

impl Link {
    pub fn new(config: &Direction, ends: (u32, u32), wire: Option<Box<Wire>>, rng: Rng) -> Self {
        let (queue, service, rate) = (queue(config), Service::new(config), rate(config));
        let transmitter = match &service {
            None => Transmitter::new(rate),
            Some(_) => Transmitter::in_turns(rate),
        };
        let mut link = Self {
            from: ends.0,
            to: ends.1,
            mtu: config.mtu.0 as u32,
            up: true,
            waits: false,
            needs_flows: queue.needs_flows(),
            transparent: queue.is_transparent(),
            transmitter,
            delay: config.delay.0,
            last_arrival: 0,
            flying: Flight::NONE,
            queue,
            wire,
            service,
            rng,
            stats: LinkStats::default(),
        };
        link.follow(link.service.as_ref().map(|service| service.weather(0)).unwrap_or_default());
        link
    }

    /// Takes over what a trace says for packets that leave now.
    pub fn follow(&mut self, weather: Weather) {
        self.delay = weather.delay.unwrap_or(self.delay);
        if let Some(loss) = weather.loss {
            self.set_loss(loss);
        }
    }

    /// Prefetches the cache lines that a passing packet needs.
    #[inline]
    pub fn warm(&self) {
        fetch(self, OFTEN_USED);
    }

    /// Sets the rate for later packets.
    pub fn set_rate(&mut self, rate: Rate) {
        self.transmitter.set_rate(rate);
        if let Some(service) = &mut self.service {
            service.set_rate(rate);
        }
    }

    /// Sets the independent loss for later packets.
    pub fn set_loss(&mut self, loss: Share) {
        self.wire().set_loss(loss);
    }

    /// The wire, made if the link had none.
    pub fn wire(&mut self) -> &mut Wire {
        self.wire.get_or_insert_with(|| Box::new(Wire::clean()))
    }

    /// Records the queue's length.
    #[inline]
    pub fn note_length(&mut self, now: Instant) {
        self.stats.length.set(now.as_nanos(), self.queue.len(), self.queue.bytes());
    }

    #[inline]
    pub fn count_drop(&mut self, rule: DropRule) {
        self.stats.dropped.get_or_insert_default()[rule as usize] += 1;
    }
}

/// The rate; of a link that follows a trace, the trace's mean.
fn rate(config: &Direction) -> Rate {
    let trace = config.trace.as_ref().and_then(|followed| followed.trace());
    trace.and_then(LinkTrace::mean_rate).unwrap_or(config.rate)
}

/// The queue for a direction's settings.
fn queue(config: &Direction) -> Box<dyn Queue> {
    let queue: Box<dyn Queue> = match config.queue {
        QueueConfig::DropTail { limit, mark_above } => Box::new(DropTail::new(limit, mark_above)),
        QueueConfig::Red { limit, min, max, max_p, weight_shift, gentle, mark } => {
            // Floyd and Jacobson count idle time in packets of typical size.
            let packet_time_ns = Transmitter::time_for(rate(config), TYPICAL_PACKET);
            let (min_th, max_th) = (min, max);
            let parameters =
                RedParameters { limit, min_th, max_th, max_p, weight_shift, gentle, mark, packet_time_ns };
            Box::new(Red::new(parameters))
        }
        QueueConfig::Codel { limit, target, interval, mark } => {
            let max_packet = config.mtu.0 as u32;
            Box::new(CoDel::new(CoDelParameters { limit, target, interval, max_packet, mark }))
        }
        QueueConfig::FqCodel { limit, target, interval, queues, quantum, mark } => {
            let max_packet = config.mtu.0 as u32;
            let codel = CoDelParameters { limit, target, interval, max_packet, mark };
            let quantum = quantum.0 as u32;
            let (isolation, filter_acks) = (Isolation::Flows, false);
            Box::new(FqCoDel::new(FqCoDelParameters { codel, queues, quantum, isolation, filter_acks }))
        }
        QueueConfig::Cake { limit, bandwidth, isolation, ack_filter, target, interval, mark } => {
            let max_packet = config.mtu.0 as u32;
            let codel = CoDelParameters { limit, target, interval, max_packet, mark };
            Box::new(Cake::new(CakeParameters { codel, bandwidth, isolation, filter_acks: ack_filter }))
        }
        QueueConfig::DualPi2 { limit, target, rtt_max, coupling, min_th, range } => {
            let mtu = config.mtu.0 as u32;
            Box::new(DualPi2::new(DualPi2Parameters { limit, target, rtt_max, coupling, min_th, range, mtu }))
        }
        QueueConfig::Pie { limit, target, update, burst, mark } => {
            let mean_packet = config.mtu.0 as u32;
            Box::new(Pie::new(PieParameters { limit, target, update, burst, mean_packet, mark }))
        }
    };
    let queue = match config.thin_acks {
        Some(rule) => Box::new(AckThinning::new(rule, queue)),
        None => queue,
    };
    match config.policer {
        Some(policer) => Box::new(policed(queue, policer.rate, policer.burst, policer.mark)),
        None => queue,
    }
}

fn policed(queue: Box<dyn Queue>, rate: Rate, burst: Bytes, mark: bool) -> Policer {
    Policer::new(rate, burst, mark, queue)
}

/// The size of the fields that each packet uses; they come first.
const OFTEN_USED: usize = 192;
/// The packet size in which RED counts idle time.
const TYPICAL_PACKET: u32 = 1000;
