//! How long a transfer may take, and which errors are excused.
//!
//! # Too early
//!
//! A client that reads the end of the stream has waited for six one-way delays in a row: SYN, SYN-ACK, its
//! header, the server's answer, its own FIN, which it sends only then, and the server's FIN, which waits for
//! the client's. Each direction's bytes have also passed a link of a known rate after the header or the
//! answer. With D the delay, n the bytes and R the rate of each direction, up (u) and down (d), a transfer
//! takes at least
//!
//! ```text
//! max(3 Du + 3 Dd,  2 Du + 2 Dd + nu / Ru,  2 Du + 2 Dd + nd / Rd)
//! ```
//!
//! # Too late
//!
//! Each event of a plan has an end, after which the path is stationary: it has its rates, its delay and its
//! share p of lost packets. Let H be the end of the last event on the path or at the server, or the
//! transfer's start if that is later.
//!
//! *Getting going.* A timer that is set when H comes waits at most as long as its connection has waited
//! already (each backoff doubles), and never more than RTO_max, 60 s by default; the persist timer likewise.
//! With L the longest outage on the path and RTT the longest round trip (queues full), the wait is at most R
//! = max(1 s, L, 3 RTT). The next segment is lost again, or its acknowledgement is, with a probability of at
//! most 2p. After K times in a row, less likely than 10⁻⁷, and one more for a queue that was full,
//!
//! ```text
//! G = sum of min(60 s, R 2^k), k = 0 .. K
//! ```
//!
//! If something ended connections without one end noticing (a reboot, another address, a forgotten
//! translation), that end gives up at its user timeout of 120 s, which it checks when its timer expires, up
//! to 60 s later. It then connects again, and that SYN may meet the same bad luck. That adds 180 s and, once
//! more, G.
//!
//! *The work.* Padhye's model (see [`crate::model`]) gives the duration of a transfer that has the path to
//! itself:
//!
//! ```text
//! W = n 8/R + n/MSS (RTT sqrt(2bp/3) + T0 min(1, 3 sqrt(3bp/8)) p (1 + 32 p²)) + n/window RTT + 2 log2(n/MSS) RTT
//! ```
//!
//! Where a path is full, its rate decides, so RTT is the one without queues. Fair shares of a path are not
//! promised, so n is what all transfers of the path carry, summed over both directions. The model is a mean,
//! so three times that is allowed.
//!
//! ```text
//! end <= H + G + 3 W
//! ```

use std::time::Duration;

use ackclock::Instant;

use super::faults::Fault;
use super::plan::{Event, Plan, TransferPlan};
use super::program::Failure;
use crate::link::Faults;

/// Events that may end connections, with their times.
#[derive(Debug, Default)]
pub(super) struct Excuses(Vec<Excuse>);

#[derive(Clone, Copy, Debug)]
struct Excuse {
    from: Instant,
    until: Instant,
    /// On which path; `None`: everywhere.
    path: Option<usize>,
}

impl Excuses {
    pub(super) fn add(&mut self, from: Instant, lasts: Duration, path: Option<usize>) {
        self.0.push(Excuse { from, until: from + lasts, path });
    }

    /// Whether something that ends connections happened during this connection's life.
    pub(super) fn cover(&self, failure: &Failure) -> bool {
        let earlier = if failure.at_server { ACCEPTED_LATE } else { EARLIER };
        let is_concerned = |excuse: &Excuse| {
            excuse.path.is_none_or(|path| path == failure.path)
                && excuse.until + earlier >= failure.began
                && excuse.from <= failure.at
        };
        self.0.iter().any(is_concerned)
    }
}

/// A segment of an earlier connection can disturb an end this long after it.
const EARLIER: Duration = Duration::from_secs(5);
/// A stopped program accepts this much later.
const ACCEPTED_LATE: Duration = Duration::from_secs(20);

impl Event {
    /// Whether it may end connections.
    pub(super) fn is_fatal(&self) -> bool {
        match self.what {
            Fault::Reboot | Fault::AddressChange | Fault::NatTimeout | Fault::ResetExact => true,
            Fault::MemoryExhaustion => true,
            Fault::LinkFlap | Fault::Suspend => self.lasts >= LONG,
            _ => false,
        }
    }

    /// Whether it does its damage when it begins.
    fn is_instant(&self) -> bool {
        use Fault::{AddressChange, ClockStep, DeviceMtu, MtuDrop, NatTimeout};
        matches!(self.what, AddressChange | ClockStep | DeviceMtu | MtuDrop | NatTimeout)
    }

    pub(super) fn step(&self) -> Duration {
        Duration::from_millis(self.size)
    }

    fn ends(&self) -> Duration {
        self.at + if self.is_instant() { Duration::ZERO } else { self.lasts }
    }

    fn concerns(&self, path: usize) -> bool {
        self.path == path || self.at_server || self.what == Fault::MemoryExhaustion
    }
}

/// An outage from which a connection may not come back: keep-alive gives up after 40 s.
const LONG: Duration = Duration::from_secs(20);

/// The least and the most time that a transfer may take, from its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) least: Duration,
    /// Since the run began.
    pub(super) until: Duration,
}

impl Bounds {
    pub(super) fn of(plan: &Plan, transfer: &TransferPlan) -> Self {
        let links = &plan.paths[transfer.path].links;
        let rates = links.each_ref().map(|link| link.rate_bps.unwrap_or(u64::MAX) as f64);
        let delays = links.each_ref().map(|link| link.delay.as_secs_f64());
        let both = delays[0] + delays[1];
        let carry = |bytes: u64, way: usize| 2.0 * both + bytes as f64 * 8.0 / rates[way];
        let least = (3.0 * both).max(carry(transfer.up, 0)).max(carry(transfer.down, 1));

        let events: Vec<&Event> = plan
            .events
            .iter()
            .map(|(_, event)| event)
            .filter(|event| event.concerns(transfer.path))
            .collect();
        let last = events.iter().map(|event| event.ends()).max().unwrap_or_default().max(transfer.start);
        let outage = events.iter().filter(|event| !event.is_instant()).map(|event| event.lasts).max();
        let waits = |link: usize| links[link].queue_packets as f64 * PACKET_BITS / slowest(&rates, &events);
        let late = |link: usize| (links[link].jitter + links[link].reorder_by).as_secs_f64();
        let base = both + late(0) + late(1);
        let rtt = base + waits(0) + waits(1);
        let first = outage.unwrap_or_default().as_secs_f64().max(3.0 * rtt).max(1.0);
        let tries = tries(2.0 * lost(&links[0]).max(lost(&links[1])));
        let going: f64 = (0..tries).map(|k| (first * 2_f64.powi(k)).min(RTO_MAX)).sum();
        let fatal = events.iter().any(|event| event.is_fatal());
        let again = if fatal { 180.0 + going } else { 0.0 };
        let until = last.as_secs_f64() + going + again + 3.0 * work(plan, transfer.path, &rates, base);
        Self { least: Duration::from_secs_f64(least), until: Duration::from_secs_f64(until) }
    }
}

/// The lowest rate while events last.
fn slowest(rates: &[f64; 2], events: &[&Event]) -> f64 {
    let by = events.iter().filter(|event| event.what == Fault::AsymmetricRate).map(|event| event.size).max();
    (rates[0].min(rates[1]) / by.unwrap_or(1) as f64).max(RATE_MIN as f64)
}

/// The share of packets that a link loses or that its receiver cannot use. An overtaken packet may be taken
/// for lost.
fn lost(link: &Faults) -> f64 {
    let shares = [link.loss, link.corrupt, link.truncate, link.reorder];
    shares.iter().map(|share| f64::from(share.parts_per_billion())).sum::<f64>() / 1e9
}

/// The most times in a row that a segment or its acknowledgement is lost, except in one case in ten million;
/// and once by a queue.
fn tries(p: f64) -> i32 {
    let mut tries = 2;
    while p.powi(tries - 1) > 1e-7 {
        tries += 1;
    }
    tries
}

/// Padhye's model for everything that the path has to carry, in seconds.
fn work(plan: &Plan, path: usize, rates: &[f64; 2], rtt: f64) -> f64 {
    let transfers: Vec<_> =
        plan.transfers.iter().map(|(_, other)| other).filter(|other| other.path == path).collect();
    let hosts = [&plan.hosts[0], &plan.hosts[path + 1]];
    let strip = plan.paths[path].fixed.strip;
    let narrow = plan.events.iter().map(|(_, event)| event).filter(|event| event.narrows());
    let mtu = narrow.map(|event| event.size).min().unwrap_or(1500);
    let mss = if strip.mss { MSS_MIN } else { mtu.saturating_sub(HEADER_MAX) as f64 };
    let tight = hosts.iter().any(|host| host.memory_budget <= TIGHT);
    let buffers = hosts.iter().map(|host| host.tcp.receive_buffer_max.min(host.tcp.send_buffer_max));
    let window = if tight { WINDOW_MIN } else { buffers.min().unwrap_or(0).min(65_535) as f64 };
    let timeout = (3.0 * rtt).max(1.0);
    let one_way = |way: usize, bytes: f64| {
        let p = lost(&plan.paths[path].links[way]);
        let segments = bytes / mss;
        let halving = rtt * (2.0 * B * p / 3.0).sqrt();
        let expiring = timeout * (3.0 * (3.0 * B * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
        let carried = bytes * 8.0 * (mss + HEADER_MAX as f64) / mss / rates[way];
        carried + segments * (halving + expiring) + bytes / window * rtt
    };
    let up: u64 = transfers.iter().map(|other| other.up).sum();
    let down: u64 = transfers.iter().map(|other| other.down).sum();
    let opening: f64 = transfers
        .iter()
        .map(|other| 2.0 * ((other.up + other.down) as f64 / mss + 2.0).log2() * rtt + 1.0)
        .sum();
    one_way(0, up as f64) + one_way(1, down as f64) + opening
}

impl Event {
    fn narrows(&self) -> bool {
        matches!(self.what, Fault::MtuDrop | Fault::MtuBlackHole | Fault::DeviceMtu)
    }
}

/// The default of `RtoConfig`.
const RTO_MAX: f64 = 60.0;
/// Segments that an acknowledgement stands for.
const B: f64 = 2.0;
/// Where the option was stripped (RFC 9293 §3.7.1).
const MSS_MIN: f64 = 524.0;
/// IPv6, TCP and its timestamps.
const HEADER_MAX: u64 = 72;
/// A budget that connections may have to share.
const TIGHT: usize = 4 << 20;
/// The window that a share of a tight memory budget leaves.
const WINDOW_MIN: f64 = 8192.0;
const PACKET_BITS: f64 = 12_000.0;
/// No event makes a path slower than this, in bits a second.
pub(super) const RATE_MIN: u64 = 100_000;
