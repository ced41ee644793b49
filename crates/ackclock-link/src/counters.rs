//! Counters of a link: packets carried and dropped.

/// Counts since the link was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LinkCounters {
    /// Frames whose IP packet went to the stack.
    pub delivered: u64,
    /// Frames for other stations.
    pub other_station: u64,
    /// Frames of other protocols, VLAN tags among them.
    pub other_protocol: u64,
    /// Frames that this link sent and received back.
    pub own: u64,
    /// Frames, ARP messages, messages of neighbour discovery and multicast queries that are malformed or
    /// break a rule of their RFC (a hop limit below 255, a query without Router Alert).
    pub malformed: u64,
    /// Packets for one host in a broadcast frame (RFC 1122 §3.3.6).
    pub unicast_in_group_frame: u64,
    /// Redirects, which are ignored.
    pub redirects: u64,
    /// Messages that would have made a neighbour, a router or a prefix where their table is full.
    pub table_full: u64,
    /// Neighbours removed for another.
    pub evicted: u64,
    /// Packets that waited for an address and were dropped for a newer one.
    pub waiting_dropped: u64,
    /// Packets dropped because their next hop did not answer.
    pub unresolved: u64,
    /// Packets without a route: in none of the host's networks, and no router known.
    pub no_route: u64,
    /// Packets from an address of the host that is not in use: still probed, or another host's.
    pub source_not_usable: u64,
    /// The link's own messages that found no room.
    pub messages_dropped: u64,
    /// Messages that claim one of the host's addresses for another station.
    pub conflicts: u64,
}
