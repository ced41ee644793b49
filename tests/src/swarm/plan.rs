//! The plan of a seed: the network, its hosts, the transfers, and the events with their targets and times.
//!
//! A plan is drawn completely before anything runs. Leaving parts out ([`Cut`]) does not change the draws for
//! the rest, so a failing seed can be minimised.

use std::time::Duration;

use ackclock::{Keepalive, MtuProbing, TcpConfig};
use ackclock_control::quantity::Share;

use super::boxes::{Fixed, Midstream, Rewrite, Strip};
use super::faults::Fault;
use crate::link::Faults;
use crate::rng::Rng;

/// The parts of a seed's plan that remain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The events that remain, by number; `None`: all.
    pub events: Option<Vec<usize>>,
    /// The transfers that remain; `None`: all.
    pub transfers: Option<Vec<usize>>,
    /// All transfers are shorter by this factor; 0 is 1.
    pub divide: u64,
    /// No boxes stand on the paths, and links only delay.
    pub plain: bool,
}

/// The input of a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) v6: bool,
    /// Of the server and each client.
    pub(super) hosts: Vec<HostPlan>,
    /// Of each client to the server.
    pub(super) paths: Vec<PathPlan>,
    /// Path, start, bytes up and down, by number.
    pub(super) transfers: Vec<(usize, TransferPlan)>,
    pub(super) events: Vec<(usize, Event)>,
}

#[derive(Clone, Debug)]
pub(super) struct HostPlan {
    pub(super) tcp: TcpConfig,
    pub(super) memory_budget: usize,
}

#[derive(Clone, Debug)]
pub(super) struct PathPlan {
    /// From the client to the server, and back.
    pub(super) links: [Faults; 2],
    pub(super) fixed: Fixed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TransferPlan {
    pub(super) path: usize,
    pub(super) start: Duration,
    pub(super) up: u64,
    pub(super) down: u64,
}

/// An event and its duration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) at: Duration,
    pub(super) lasts: Duration,
    pub(super) path: usize,
    /// Whether it affects the server rather than the path's client.
    pub(super) at_server: bool,
    pub(super) what: Fault,
    /// A size, a count or a choice, as the fault needs.
    pub(super) size: u64,
}

impl Plan {
    pub(super) fn draw(seed: u64, cut: &Cut) -> Self {
        let mut rng = Rng::new(seed ^ 0x05a7_a6d3);
        let v6 = rng.chance(300_000);
        let paths: Vec<PathPlan> =
            (0..rng.between(2, 5)).map(|_| draw_path(&mut rng.fork(), cut.plain)).collect();
        let hosts = (0..=paths.len()).map(|host| draw_host(&mut rng.fork(), host == 0)).collect();
        let mut all = Vec::new();
        for (path, plan) in paths.iter().enumerate() {
            let mut rng = rng.fork();
            for _ in 0..rng.between(3, 10) {
                all.push(draw_transfer(&mut rng, path, plan, cut.divide.max(1)));
            }
        }
        let mut events: Vec<Event> =
            (0..rng.between(12, 24)).map(|_| draw_event(&mut rng.fork(), v6, &paths)).collect();
        // After the others, whose draws stay the same.
        let mut forged = |most, what: &[Fault]| {
            let number = rng.below(most);
            events.extend((0..number).map(|_| draw_forged(&mut rng.fork(), &paths, what)));
        };
        forged(3, &[Fault::OldSegment]);
        forged(5, &[Fault::SackOutside, Fault::SackInside]);
        let keep = |kept: &Option<Vec<usize>>, at: usize| kept.as_ref().is_none_or(|kept| kept.contains(&at));
        let numbered = |at: &(usize, TransferPlan)| keep(&cut.transfers, at.0);
        let transfers = all.into_iter().enumerate().filter(numbered).collect();
        let events = events.into_iter().enumerate().filter(|(at, _)| keep(&cut.events, *at)).collect();
        Self { v6, hosts, paths, transfers, events }
    }
}

fn draw_host(rng: &mut Rng, is_server: bool) -> HostPlan {
    let mut tcp = TcpConfig::default();
    tcp.choices.timestamps = rng.chance(800_000);
    tcp.choices.sack = rng.chance(850_000);
    tcp.choices.window_scaling = rng.chance(850_000);
    tcp.nodelay = rng.chance(500_000);
    tcp.send_buffer_max = rng.pick(&[32 << 10, 128 << 10, 1 << 20]);
    tcp.receive_buffer_max = rng.pick(&[32 << 10, 128 << 10, 1 << 20, 6 << 20]);
    tcp.receive_buffer_initial = tcp.receive_buffer_initial.min(tcp.receive_buffer_max);
    tcp.time_wait = Duration::from_secs(rng.pick(&[1, 10, 60]));
    tcp.user_timeout = Some(USER_TIMEOUT);
    tcp.keepalive =
        Some(Keepalive { idle: Duration::from_secs(10), interval: Duration::from_secs(5), probes: 6 });
    if rng.chance(500_000) {
        tcp.mtu_probing = Some(Box::new(MtuProbing { least: 552, ..MtuProbing::default() }));
    }
    let tight = if is_server { 1 << 20 } else { 4 << 20 };
    HostPlan { tcp, memory_budget: rng.pick(&[tight, 64 << 20]) }
}

fn draw_path(rng: &mut Rng, plain: bool) -> PathPlan {
    let delay = Duration::from_micros(rng.pick(&[500, 5_000, 20_000, 80_000]));
    let rough = rng.chance(700_000);
    let links = [0, 1].map(|_| {
        let mut link = Faults::none(delay);
        link.rate_bps = Some(rng.pick(&[1, 2, 5, 10, 20, 50]) * 1_000_000);
        link.queue_packets = rng.pick(&[10, 30, 60]);
        link.mtu = 1500;
        let mut odd = |most| Share::per_million(if rough { rng.below(most) as u32 } else { 0 });
        link.loss = odd(20_000);
        link.duplicate = odd(5_000);
        link.reorder = odd(10_000);
        link.corrupt = odd(2_000);
        link.truncate = odd(1_000);
        link.reorder_by = delay + Duration::from_millis(1);
        link.jitter = Duration::from_micros(rng.below(500));
        link
    });
    let mut fixed = Fixed::default();
    if rng.chance(300_000) {
        let timestamps = rng.chance(400_000);
        fixed.strip = Strip {
            mss: rng.chance(300_000),
            scale: rng.chance(400_000),
            sack_permitted: rng.chance(400_000),
            timestamps,
            sack_blocks: rng.chance(300_000),
        };
    }
    if rng.chance(350_000) {
        fixed.rewrite = Some(Rewrite { key: rng.next_u64(), sack: rng.chance(500_000) });
    }
    if rng.chance(500_000) {
        fixed.nat = Some(rng.pick(&[Midstream::Taken, Midstream::Dropped, Midstream::Reset]));
    }
    if plain {
        let links = links.map(|link| Faults { rate_bps: link.rate_bps, mtu: 1500, ..Faults::none(delay) });
        return PathPlan { links, fixed: Fixed::default() };
    }
    PathPlan { links, fixed }
}

fn draw_transfer(rng: &mut Rng, path: usize, plan: &PathPlan, divide: u64) -> TransferPlan {
    let start = Duration::from_millis(rng.below(5_000));
    // Two seconds of a direction's capacity are enough for its events.
    let most = plan.links.each_ref().map(|link| link.rate_bps.unwrap_or(0) / 8 * 2);
    let mut size = |way: usize| {
        let size = match rng.below(10) {
            0..=2 => rng.below(100),
            3..=5 => rng.between(100, 65_536),
            _ => rng.between(65_536, 1_500_000),
        };
        size.min(most[way]) / divide
    };
    let (up, down) = (size(0), size(1));
    match rng.below(4) {
        0 => TransferPlan { path, start, up, down: down.min(100) },
        1 | 2 => TransferPlan { path, start, up: up.min(100), down },
        _ => TransferPlan { path, start, up, down },
    }
}

fn draw_event(rng: &mut Rng, v6: bool, paths: &[PathPlan]) -> Event {
    let what = rng.pick(&Fault::events());
    let path = rng.below(paths.len() as u64) as usize;
    let nats: Vec<usize> = (0..paths.len()).filter(|path| paths[*path].fixed.nat.is_some()).collect();
    let path = if what == Fault::NatTimeout && !nats.is_empty() { rng.pick(&nats) } else { path };
    let millis = match what {
        Fault::Reboot => rng.pick(&[1, 5, 20, 100, 1_000]),
        Fault::LinkFlap | Fault::Suspend if rng.chance(50_000) => rng.between(20_000, 150_000),
        Fault::LinkFlap | Fault::Suspend => rng.between(50, 8_000),
        Fault::ProcessStall => rng.between(50, 15_000),
        Fault::MemoryExhaustion => rng.between(1_000, 12_000),
        Fault::ResetOutside | Fault::ResetInside | Fault::ResetExact => 5_000,
        Fault::MtuBlackHole => rng.between(1_000, 20_000),
        _ => rng.between(100, 4_000),
    };
    let least_mtu = if v6 { 1280 } else { 600 };
    let size = match what {
        Fault::ClockStep => rng.pick(&[1, 500, 5_000, 3_600_000, 86_400_000]),
        Fault::MtuDrop | Fault::MtuBlackHole | Fault::DeviceMtu => rng.between(least_mtu, 1490),
        Fault::WindowClamp => rng.between(50, 2_000),
        Fault::AsymmetricRate => rng.between(5, 50),
        Fault::MemoryExhaustion => rng.between(24, 40),
        _ => rng.next_u64(),
    };
    Event {
        at: Duration::from_millis(rng.between(50, 6_500)),
        lasts: Duration::from_millis(millis),
        path,
        at_server: what != Fault::AddressChange && rng.chance(350_000),
        what,
        size,
    }
}

fn draw_forged(rng: &mut Rng, paths: &[PathPlan], what: &[Fault]) -> Event {
    Event {
        at: Duration::from_millis(rng.between(50, 6_500)),
        lasts: Duration::from_secs(5),
        path: rng.below(paths.len() as u64) as usize,
        at_server: rng.chance(500_000),
        size: rng.next_u64(),
        what: rng.pick(what),
    }
}

impl Fault {
    /// Faults that have a time. The others are permanent boxes, or drawn separately.
    fn events() -> Vec<Self> {
        use Fault::{OldSegment, OptionStripping, SackInside, SackOutside};
        use Fault::{SequenceRewriting, SequenceRewritingWithoutSack};
        let boxes = [OptionStripping, SequenceRewriting, SequenceRewritingWithoutSack];
        let forged = [OldSegment, SackOutside, SackInside];
        Self::ALL.into_iter().filter(|fault| !boxes.contains(fault) && !forged.contains(fault)).collect()
    }
}

/// How long what was sent may stay unacknowledged: longer than all but the longest outages.
pub(super) const USER_TIMEOUT: Duration = Duration::from_secs(120);
