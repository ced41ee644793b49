//! The network of fig. 12: sites on a ring of four routers, and how the time of their links is used.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ackclock_chart::{Figure, Style};
use ackclock_core::Instant;
use ackclock_sim::observe::{Observer, PacketEvent, What};
use ackclock_sim::scenario::TcplibMix;
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario, TrafficConfig, TrafficKind};
use anyhow::Context;

use super::network::Sender;
use crate::Table;
use crate::draw::{axis, colour, panel, series};
use crate::many::Summary;

/// The results for fig. 12.
pub(super) struct Network {
    /// New connections a second.
    pub(super) opened: f64,
    /// Bytes of tcplib's conversations.
    pub(super) tcplib: f64,
    pub(super) failed: u64,
    timeouts: u64,
    /// The utilisation of the ring's links, by their names in reports.
    ring: Vec<(String, f64)>,
    /// One for each site with bulk transfers.
    ways: Vec<Way>,
}

/// The links between sites and ring on the path of a site's bulk transfers. The ring's links are never full.
#[derive(Debug)]
struct Way {
    site: usize,
    /// The length of the measurement.
    seconds: f64,
    /// The site's link to the ring, and the link from the ring to the destination site.
    links: [Carried; 2],
}

impl Network {
    /// Goodput of the sites' own links to the ring.
    pub fn own_links(&self) -> Summary {
        Summary::of(self.ways.iter().map(|way| way.goodput(0)))
    }

    /// Goodput of the fuller link of each path.
    pub fn bottlenecks(&self) -> Summary {
        Summary::of(self.ways.iter().map(|way| {
            let [own, far] = way.links.map(|link| link.bytes());
            way.goodput(usize::from(far > own))
        }))
    }
}

impl Way {
    /// Payload that passes a link for the first time, over the payload that it can carry.
    fn goodput(&self, link: usize) -> f64 {
        // Of each 1,400 bytes, 1,360 are payload.
        self.share(self.links[link].new) * 1400.0 / 1360.0
    }

    /// This many bytes, over those that a link can carry.
    fn share(&self, bytes: u64) -> f64 {
        bytes as f64 / (SITE_BYTES_PER_SECOND as f64 * self.seconds)
    }
}

/// The bytes that a link carries during the measurement.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    /// Payload that passes for the first time.
    new: u64,
    /// Payload that had passed before.
    again: u64,
    /// Headers of segments with payload.
    headers: u64,
    /// Segments without payload: acknowledgements, and the beginnings and ends of connections.
    bare: u64,
    /// Packets dropped for lack of room.
    dropped: u64,
}

impl Carried {
    fn bytes(&self) -> u64 {
        self.new + self.again + self.headers + self.bare
    }
}

/// Observes some links.
#[derive(Debug)]
struct Watch {
    /// When counting begins.
    from: Instant,
    links: BTreeMap<u32, Carried>,
    /// The sequence number after the highest byte that passed.
    passed: BTreeMap<Flow, u32>,
}

/// A flow over a link, from one node to an address, between two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flow {
    link: u32,
    from: u32,
    to: [u8; 4],
    ports: (u16, u16),
}

impl Observer for Watch {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        let Some(link) = event.link else { return };
        let Some(carried) = self.links.get_mut(&link) else { return };
        let counts = event.at >= self.from;
        if let What::Dropped(_) = event.what {
            carried.dropped += u64::from(counts);
        }
        let (What::Departed, Some(segment)) = (event.what, event.packet.segment()) else { return };
        let (len, payload) = (u64::from(event.packet.len()), event.packet.payload_len());
        let mut new = 0;
        if payload > 0 {
            let to = event.packet.header()[16..20].try_into().unwrap_or_default();
            let flow = Flow { link, from: segment.source, to, ports: segment.ports };
            let end = segment.seq.wrapping_add(payload);
            let passed = self.passed.entry(flow).or_insert(segment.seq);
            // How far the segment extends beyond what has passed, on the circle of sequence numbers.
            new = u32::try_from(end.wrapping_sub(*passed).cast_signed()).unwrap_or(0).min(payload);
            if new > 0 {
                *passed = end;
            }
        }
        if !counts {
            return;
        }
        if payload == 0 {
            carried.bare += len;
        } else {
            carried.new += u64::from(new);
            carried.again += u64::from(payload - new);
            carried.headers += len - u64::from(payload);
        }
    }
}

const SITES: usize = 16;
/// The sites with bulk transfers.
const BULK_SITES: [usize; 4] = [0, 5, 10, 15];
/// The rate of the links between sites and ring.
const SITE_BYTES_PER_SECOND: u64 = 1_250_000;
/// Mean time between the conversations of one host, in ms.
const EVERY_MS: u64 = 48;

pub(super) fn figure_12(sender: Sender, seconds: u64) -> anyhow::Result<Network> {
    let every = Span::millis(crate::changes::open("every-ms", EVERY_MS)?);
    let scenario = network(sender, every, seconds);
    let mut simulation = crate::changes::simulation(&scenario)?;
    let counted_from = Instant::ZERO + Span::seconds(seconds / 3).duration();
    let link = |from: String, to: String| {
        simulation.link(&from, &to).with_context(|| format!("there is no link from {from} to {to}"))
    };
    let mut directions = Vec::new();
    for site in BULK_SITES {
        let far = far_side(site);
        directions.push([
            link(format!("gate{site}"), format!("core{}", site % 4))?,
            link(format!("core{}", far % 4), format!("gate{far}"))?,
        ]);
    }
    let links = directions.iter().flatten().map(|direction| (*direction, Carried::default())).collect();
    let watch = Rc::new(RefCell::new(Watch { from: counted_from, links, passed: BTreeMap::new() }));
    simulation.observe(watch.clone());
    simulation.run_until(counted_from);
    let before = simulation.report().time;
    let report = simulation.run();
    let of =
        |prefix: &str| report.flows.iter().filter(|flow| flow.name.starts_with(prefix)).collect::<Vec<_>>();
    let tcplib = of("tcplib");
    let opened: u64 = tcplib.iter().map(|flow| flow.connections).sum();
    let ring = report.links.iter().filter(|link| link.name.starts_with("ring"));
    let carried = &watch.borrow().links;
    let seconds = report.time - before;
    let ways = BULK_SITES.iter().zip(&directions).map(|(site, pair)| Way {
        site: *site,
        seconds,
        links: pair.map(|direction| carried[&direction]),
    });
    Ok(Network {
        opened: opened as f64 / report.time,
        tcplib: tcplib.iter().map(|flow| flow.there.bytes + flow.back.bytes).sum::<u64>() as f64,
        failed: report.flows.iter().map(|flow| flow.failed).sum(),
        timeouts: report.flows.iter().map(|flow| flow.there.timeouts + flow.back.timeouts).sum(),
        ring: ring.map(|link| (link.name.clone(), link.utilisation)).collect(),
        ways: ways.collect(),
    })
}

/// The destination of a site's bulk transfers, on the other side of the ring.
fn far_side(site: usize) -> usize {
    (site + 10) % SITES
}

fn network(sender: Sender, every: Span, seconds: u64) -> Scenario {
    let lan = Direction::new(Rate::mbit(100), Span(100_000)).mtu(1400).buffers(200);
    let site =
        Direction::new(Rate::bytes_per_second(SITE_BYTES_PER_SECOND), Span::millis(3)).mtu(1400).buffers(50);
    let ring = Direction::new(Rate::mbit(45), Span::millis(10)).mtu(1400).buffers(50);
    let mut scenario = Scenario::new(Span::seconds(seconds)).seed(12).tcp(sender.tcp());
    for n in 0..4 {
        scenario = scenario.router(format!("core{n}"));
    }
    for n in 0..4 {
        scenario = scenario.link(&format!("core{n}"), &format!("core{}", (n + 1) % 4), ring.clone());
        scenario.links[n].name = Some(format!("ring{n}"));
    }
    for n in 0..SITES {
        let gateway = format!("gate{n}");
        scenario = scenario.router(&*gateway).link(&gateway, &format!("core{}", n % 4), site.clone());
        if let Some(link) = scenario.links.last_mut() {
            link.name = Some(format!("site{n}"));
        }
        for host in 0..2 + n % 2 {
            let name = format!("h{n}.{host}");
            scenario = scenario.host(&*name).link(&name, &gateway, lan.clone());
        }
    }
    for n in 0..SITES {
        for host in 0..2 + n % 2 {
            // One, three and five sites on: over one, three and one links of the ring.
            let to = format!("h{}.{}", (n + 1 + 2 * host) % SITES, host % 2);
            let what = TrafficKind::Tcplib { every, until: None, mix: TcplibMix::default() };
            scenario = scenario.traffic(TrafficConfig::new(
                &format!("tcplib{n}.{host}"),
                &format!("h{n}.{host}"),
                &to,
                what,
            ));
        }
    }
    for site in BULK_SITES {
        for n in 0..3 {
            let to = format!("h{}.{}", far_side(site), n % 2);
            let name = format!("bulk{site}.{n}");
            scenario = scenario.traffic(TrafficConfig::bulk(&name, &format!("h{site}.{}", n % 2), &to, None));
        }
    }
    scenario
}

pub(super) fn network_table(vegas: &Network, reno: &Network) -> Table {
    let row = |name: &str, of: &dyn Fn(&Network) -> String| vec![name.to_owned(), of(vegas), of(reno)];
    let mut rows = vec![
        row("new connections a second", &|one| format!("{:.0}", one.opened)),
        row("connections that ended in error", &|one| one.failed.to_string()),
        row("coarse timeouts", &|one| one.timeouts.to_string()),
        row("tcplib (MB)", &|one| format!("{:.1}", one.tcplib / 1e6)),
    ];
    for (n, (name, _)) in vegas.ring.iter().enumerate() {
        rows.push(row(&format!("{name}, busy"), &|one| format!("{:.2}", one.ring[n].1)));
    }
    Table { title: "Fig. 12".to_owned(), head: ["", "Vegas", "Reno"].map(str::to_owned).to_vec(), rows }
}

/// How the time of the links on the bulk transfers' paths is used.
pub(super) fn links_table(found: &[(Sender, &Network)]) -> Table {
    let rows = found.iter().flat_map(|(sender, network)| network.ways.iter().map(move |way| (sender, way)));
    let rows = rows.flat_map(|(sender, way)| {
        let names =
            [format!("site {} to the ring", way.site), format!("the ring to site {}", far_side(way.site))];
        names.into_iter().zip(&way.links).map(move |(name, link)| {
            let idle = 1.0 - way.share(link.bytes());
            let shares = [link.new, link.again, link.headers, link.bare].map(|bytes| way.share(bytes));
            let shares = shares.into_iter().chain([idle]).map(|share| format!("{:.1}", 100.0 * share));
            let names = [sender.name.to_owned(), name];
            names.into_iter().chain(shares).chain([link.dropped.to_string()]).collect()
        })
    });
    let head =
        ["sender", "link", "payload (%)", "again", "its headers", "without payload", "idle", "dropped"];
    Table {
        title: "Where the time of the links goes that bulk transfers take".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

pub(super) fn figure(vegas: &Network, reno: &Network) -> (String, Figure) {
    let bars = |name: &str, found: &Network| {
        let points: Vec<_> = found.ring.iter().zip(0u32..).map(|((_, busy), n)| (n.into(), *busy)).collect();
        series(name, Style::Bars, colour(name), points)
    };
    let mut x = axis("direction of a link of the ring");
    x.categories = vegas.ring.iter().map(|(name, _)| name.clone()).collect();
    let figure = Figure {
        title: "The ring of fig. 12".to_owned(),
        caption:
            "How busy the links between the four routers are, when everything runs over Vegas and over Reno; one run of each. The paper prints no numbers."
                .to_owned(),
        x,
        panels: vec![panel("share of time", vec![bars("Vegas", vegas), bars("Reno", reno)])],
    };
    ("fig12-ring".to_owned(), figure)
}
