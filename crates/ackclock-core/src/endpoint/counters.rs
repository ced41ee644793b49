//! What an endpoint did and refused, one count for each reason.

/// Counts of what an endpoint did and refused, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Packets received.
    pub packets_received: u64,
    /// Packets sent; a large one counts once.
    pub packets_sent: u64,
    /// Segments handed to a connection.
    pub segments_delivered: u64,
    /// Those of them that were as predicted, and took the short way.
    pub segments_predicted: u64,
    /// Connections opened actively.
    pub opened_actively: u64,
    /// Connections established through a listener.
    pub opened_passively: u64,

    /// Dropped: not an IP packet, or its lengths contradict one another.
    pub dropped_malformed_ip: u64,
    /// Dropped: IPv4 header checksum wrong.
    pub dropped_ip_checksum: u64,
    /// Dropped: a fragment, because fragments are not put together here, or one that cannot belong to a packet.
    pub dropped_fragment: u64,
    /// Dropped: source-routed.
    pub dropped_source_route: u64,
    /// Dropped: neither TCP, UDP nor ICMP.
    pub dropped_other_protocol: u64,
    /// Dropped: TCP header or options malformed.
    pub dropped_malformed_tcp: u64,
    /// Dropped: TCP checksum wrong.
    pub dropped_tcp_checksum: u64,
    /// Dropped: from an address, or port 0, that cannot be a source.
    pub dropped_martian_source: u64,
    /// Dropped: to an address, or port 0, that cannot be a destination.
    pub dropped_martian_destination: u64,
    /// Dropped: source and destination are the same socket.
    pub dropped_land: u64,
    /// Dropped: to an address that is not ours, without a listener on any address.
    pub dropped_not_local: u64,
    /// Dropped: a reset for which there is no connection.
    pub dropped_stray_reset: u64,
    /// Dropped in LISTEN: neither a SYN nor an acknowledgement, or a SYN with FIN.
    pub dropped_in_listen: u64,
    /// Dropped: a segment that is not acceptable to a half-open connection.
    pub dropped_in_syn_received: u64,
    /// Dropped: a segment for a connection in TIME-WAIT that has no answer.
    pub dropped_in_time_wait: u64,
    /// Dropped: a SYN at a listener with deferred accept that holds as many as it may.
    pub dropped_syn_backlog: u64,
    /// Dropped: the last acknowledgement of a handshake, because the accept queue is full. The peer will repeat it.
    pub dropped_accept_queue: u64,
    /// Dropped: the same, because the table of connections is full.
    pub dropped_connections_max: u64,
    /// Dropped: replies beyond the bound of their queue.
    pub dropped_replies: u64,

    /// SYNs received in LISTEN.
    pub syns_received: u64,
    /// SYNs on which no decision was made in time.
    pub syns_undecided_expired: u64,
    /// Half-open connections given up after their SYN-ACK was repeated in vain.
    pub half_open_expired: u64,
    /// Half-open connections ended by a reset, a SYN or a hard ICMP error.
    pub half_open_ended: u64,
    /// SYN-ACKs repeated, by timer or because the SYN was.
    pub syn_acks_repeated: u64,
    /// SYN cookies sent.
    pub cookies_sent: u64,
    /// SYN cookies that came back and were good.
    pub cookies_accepted: u64,
    /// Acknowledgements in LISTEN, while cookies were in use, that were none.
    pub cookies_refused: u64,
    /// SYNs with a good Fast Open cookie of which a connection was made.
    pub fast_open_accepted: u64,
    /// SYNs with a Fast Open cookie that is not good: ordinary ones, which are given a new cookie.
    pub fast_open_refused: u64,
    /// SYNs with a good cookie that found as many open handshakes as their listener takes: ordinary ones.
    pub fast_open_over_bound: u64,
    /// Attempts of this end that were answered only when the SYN had neither cookie nor data.
    pub fast_open_fell_back: u64,
    /// Connections of this end that did without a cookie, because an attempt with one had fallen back not long ago.
    pub fast_open_suspended: u64,
    /// Resets sent for segments without a connection.
    pub resets_sent: u64,
    /// Acknowledgements sent for half-open and TIME-WAIT records.
    pub challenges_sent: u64,

    /// Dropped: a segment of a peer with keys that is not signed with one of them (TCP-AO).
    #[cfg(feature = "tcp-ao")]
    pub dropped_unauthenticated: u64,
    /// Segments to peers with keys that left without a signature, for which this end lacks what it takes (TCP-AO).
    #[cfg(feature = "tcp-ao")]
    pub sent_unauthenticated: u64,

    /// Connections reset after their release, because there were too many such.
    pub orphans_reset: u64,
    /// TIME-WAIT records that expired.
    pub time_wait_expired: u64,
    /// TIME-WAIT records recycled before their time, because there were too many.
    pub time_wait_recycled: u64,
    /// TIME-WAIT connections reopened by a SYN.
    pub time_wait_reopened: u64,

    /// ICMP errors handed to a connection or record.
    pub icmp_delivered: u64,
    /// Dropped: ICMP malformed.
    pub dropped_malformed_icmp: u64,
    /// Dropped: ICMP that is no error about TCP.
    pub dropped_icmp_other: u64,
    /// Dropped: ICMP Source Quench.
    pub dropped_source_quench: u64,
    /// Dropped: ICMP about a connection that there is not, or a sequence number that is not outstanding.
    pub dropped_icmp_unmatched: u64,

    /// Packets that the endpoint sent to an address of its own, and received.
    pub packets_looped: u64,
    /// Dropped: such packets beyond the bound of their queue.
    pub dropped_looped: u64,
    /// Packets handed to the program that takes other packets.
    pub others_received: u64,
    /// Packets taken from it.
    pub others_sent: u64,
    /// Dropped: packets beyond the bound of its queues, or of the budget.
    pub dropped_other_full: u64,
    /// Datagrams handed to a UDP socket.
    pub udp_received: u64,
    /// Datagrams sent.
    pub udp_sent: u64,
    /// Dropped: UDP header malformed.
    pub dropped_malformed_udp: u64,
    /// Dropped: UDP checksum wrong, or absent over IPv6.
    pub dropped_udp_checksum: u64,
    /// Dropped: datagrams to an address of ours for a port without a socket.
    pub dropped_udp_unbound: u64,
    /// Dropped: datagrams beyond the bound of their socket, or of the budget.
    pub dropped_udp_full: u64,
    /// Fragments taken to be put together.
    pub fragments_received: u64,
    /// Packets put together.
    pub packets_reassembled: u64,
    /// Dropped: fragments of a packet of which some overlap or contradict one another.
    pub dropped_fragment_overlap: u64,
    /// Dropped: unfinished packets that gave way to others, and fragments without room.
    pub dropped_reassembly_full: u64,
    /// Dropped: unfinished packets whose other fragments did not come in time.
    pub dropped_reassembly_time: u64,
    /// Echo requests answered.
    pub echoes_answered: u64,
    /// ICMP errors sent.
    pub icmp_errors_sent: u64,
    /// Dropped: echo replies and ICMP errors beyond their limits.
    pub dropped_icmp_limited: u64,

    /// Records of traces that were dropped because nobody fetched those before them.
    pub trace_records_dropped: u64,
}
