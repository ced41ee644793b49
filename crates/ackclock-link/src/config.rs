//! The configuration of a link: its addresses, its limits, its times.

use std::net::IpAddr;
use std::time::Duration;

use ackclock_wire::Cidr;

use crate::MacAddr;

/// The configuration of a link.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Its own Ethernet address.
    pub mac: MacAddr,
    /// The last 64 bits of the IPv6 addresses that it makes: the link-local one, and those from routers'
    /// prefixes. Two stations that share an Ethernet address need different ones.
    pub interface_id: [u8; 8],
    /// Its own IP addresses with the networks that are reached without a router. At most
    /// [`Limits::addresses_max`] count; the others are ignored.
    pub addresses: Vec<Cidr>,
    /// Routers for everything else, at most one of each family; they come before those that advertise
    /// themselves.
    pub gateways: Vec<IpAddr>,
    /// Whether to look for IPv6 routers, to believe their prefixes, and to make addresses from them.
    pub autoconfigure: bool,
    /// How to detect other hosts with the same addresses.
    pub detection: Detection,
    /// Whether frames for other stations go to the stack too, as a promiscuous device delivers them.
    pub any_station: bool,
    /// The seed of the random delays that keep hosts which start together apart.
    pub seed: u64,
    /// The bounds of its tables.
    pub limits: Limits,
    /// Its times.
    pub timing: Timing,
}

impl LinkConfig {
    /// A link without IP addresses, everything else at its default; its interface identifier is made from
    /// `mac`.
    #[must_use]
    pub fn new(mac: MacAddr) -> Self {
        Self {
            mac,
            interface_id: mac.interface_id(),
            addresses: Vec::new(),
            gateways: Vec::new(),
            autoconfigure: false,
            detection: Detection::default(),
            any_station: false,
            seed: 0,
            limits: Limits::default(),
            timing: Timing::default(),
        }
    }
}

/// How to detect other hosts with the same addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Detection {
    /// Each address is probed before it is used: 4 to 7 seconds for IPv4 (RFC 5227 §2.1), 1 to 2 for IPv6
    /// (RFC 4862 §5.4).
    #[default]
    Probe,
    /// Addresses are used and announced at once; a message of the other host reveals a conflict. For links to
    /// a known peer, such as a TAP device.
    Announce,
}

/// The bounds of a link's tables and queues.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Neighbours. A new one that a packet needs replaces the least used; one that only a peer's message
    /// would create is ignored while the table is full.
    pub neighbours_max: usize,
    /// Packets that wait for one neighbour's address; the oldest is dropped for one more.
    pub waiting_packets_max: usize,
    /// Bytes of all packets that wait. The oldest of the same neighbour are dropped for one more, and a
    /// packet that still finds no room is dropped itself.
    pub waiting_bytes_max: usize,
    /// Messages of the link's own that wait to be sent; one more is dropped.
    pub messages_max: usize,
    /// Own addresses, those made from prefixes included.
    pub addresses_max: usize,
    /// Routers that advertise themselves; one more is ignored.
    pub routers_max: usize,
    /// On-link prefixes that routers advertise; one more is ignored.
    pub prefixes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            neighbours_max: 512,
            waiting_packets_max: 64,
            waiting_bytes_max: 1 << 20,
            messages_max: 256,
            addresses_max: 16,
            routers_max: 4,
            prefixes_max: 16,
        }
    }
}

/// The times of the protocols. The defaults are those of RFC 4861 §10, RFC 4862 §5.1 and RFC 5227 §1.1.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long an answer proves that a neighbour can be reached (ReachableTime, before its random factor).
    pub reachable: Duration,
    /// Between two unanswered requests (RetransTimer).
    pub retransmit: Duration,
    /// How long a stale neighbour is used before a request goes to it (DELAY_FIRST_PROBE_TIME).
    pub first_probe: Duration,
    /// Requests to all before a neighbour is given up (MAX_MULTICAST_SOLICIT).
    pub multicast_questions: u32,
    /// Requests to the neighbour itself (MAX_UNICAST_SOLICIT).
    pub unicast_questions: u32,
    /// How long an unused neighbour stays in the table.
    pub forget: Duration,
    /// Probes for a tentative IPv6 address (DupAddrDetectTransmits).
    pub duplicate_questions: u32,
    /// The longest random wait before the first message of an interface (MAX_RTR_SOLICITATION_DELAY,
    /// PROBE_WAIT).
    pub start_max: Duration,
    /// ARP probes of an address (PROBE_NUM).
    pub arp_probes: u32,
    /// Between two of them, at least (PROBE_MIN).
    pub arp_probe_min: Duration,
    /// And at most (PROBE_MAX).
    pub arp_probe_max: Duration,
    /// From the last probe to the first announcement (ANNOUNCE_WAIT).
    pub arp_announce_wait: Duration,
    /// Announcements of an address (ANNOUNCE_NUM).
    pub announcements: u32,
    /// Between two of them (ANNOUNCE_INTERVAL).
    pub announce_interval: Duration,
    /// Between two defences of an address (DEFEND_INTERVAL).
    pub defend_interval: Duration,
    /// How long an IPv4 address of another host is left alone before it is probed again
    /// (RATE_LIMIT_INTERVAL).
    pub duplicate_retry: Duration,
    /// Router solicitations (MAX_RTR_SOLICITATIONS).
    pub router_questions: u32,
    /// Between two of them (RTR_SOLICITATION_INTERVAL).
    pub router_interval: Duration,
    /// How often a change of a multicast group is reported (Robustness Variable of RFC 3376 §8.1 and RFC 3810
    /// §9.1); 0 reports nothing, not even in answer to queries.
    pub reports: u32,
    /// The longest random time between two of these (Unsolicited Report Interval, RFC 3376 §8.11, RFC 3810
    /// §9.11). While a router of an older version is present, it is 10 s (RFC 2236 §8.10, RFC 2710 §7.10).
    pub report_interval: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            reachable: Duration::from_secs(30),
            retransmit: Duration::from_secs(1),
            first_probe: Duration::from_secs(5),
            multicast_questions: 3,
            unicast_questions: 3,
            forget: Duration::from_secs(600),
            duplicate_questions: 1,
            start_max: Duration::from_secs(1),
            arp_probes: 3,
            arp_probe_min: Duration::from_secs(1),
            arp_probe_max: Duration::from_secs(2),
            arp_announce_wait: Duration::from_secs(2),
            announcements: 2,
            announce_interval: Duration::from_secs(2),
            defend_interval: Duration::from_secs(10),
            duplicate_retry: Duration::from_secs(60),
            router_questions: 3,
            router_interval: Duration::from_secs(4),
            reports: 2,
            report_interval: Duration::from_secs(1),
        }
    }
}
