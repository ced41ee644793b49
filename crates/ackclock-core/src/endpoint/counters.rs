//! Counters of an endpoint's work and of its refusals, with one for each reason.
//!
//! Callers see one flat [`Counters`]. An endpoint keeps the counters of plain TCP inline, and allocates the
//! others when the first of them counts. A host with connections only saves their 200 bytes, and a simulation
//! has thousands of such hosts.

/// Declares each counter once: as a field of `$all`, and of the part that keeps it.
macro_rules! counters {
    (
        $(#[$all_doc:meta])* $all:ident
        $(#[$plain_doc:meta])* $plain:ident { $($(#[doc = $plain_help:literal])+ $plain_field:ident,)* }
        $(#[$rare_doc:meta])* $rare:ident { $($(#[doc = $rare_help:literal])+ $rare_field:ident,)* }
    ) => {
        $(#[$all_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct $all {
            $($(#[doc = $plain_help])+ pub $plain_field: u64,)*
            $($(#[doc = $rare_help])+ pub $rare_field: u64,)*
        }

        $(#[$plain_doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct $plain {
            $(pub(super) $plain_field: u64,)*
        }

        $(#[$rare_doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct $rare {
            $(pub(super) $rare_field: u64,)*
        }

        ackclock_form::form! {
            struct $plain { $($plain_field),* }
            struct $rare { $($rare_field),* }
        }

        impl $all {
            pub(super) fn of(plain: $plain, rare: $rare) -> Self {
                Self { $($plain_field: plain.$plain_field,)* $($rare_field: rare.$rare_field,)* }
            }

            /// The sum of both, counter by counter.
            #[must_use]
            pub fn plus(self, other: Self) -> Self {
                Self {
                    $($plain_field: self.$plain_field + other.$plain_field,)*
                    $($rare_field: self.$rare_field + other.$rare_field,)*
                }
            }

            /// Every counter: its field name, a one-sentence description, and its value.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + use<> {
                let counts = [
                    $((stringify!($plain_field), concat!($($plain_help),+), self.$plain_field),)*
                    $((stringify!($rare_field), concat!($($rare_help),+), self.$rare_field),)*
                ];
                counts.into_iter().map(|(name, help, count)| (name, help.trim_start(), count))
            }
        }
    };
}

counters! {
    /// Counters of what an endpoint has done and refused since its creation.
    Counters

    /// The counters of plain TCP.
    PlainCounters {
        /// Packets received.
        packets_received,
        /// Packets sent; a large one counts once.
        packets_sent,
        /// Segments handed to a connection.
        segments_delivered,
        /// Those of them that were as predicted, and took the short way.
        segments_predicted,
        /// Connections opened actively.
        opened_actively,
        /// Connections established through a listener.
        opened_passively,
        /// Dropped: not an IP packet, or its lengths contradict one another.
        dropped_malformed_ip,
        /// Dropped: IPv4 header checksum wrong.
        dropped_ip_checksum,
        /// Dropped: a fragment, because fragments are not put together here, or one that cannot belong to a
        /// packet.
        dropped_fragment,
        /// Dropped: source-routed.
        dropped_source_route,
        /// Dropped: neither TCP, UDP nor ICMP.
        dropped_other_protocol,
        /// Dropped: TCP header or options malformed.
        dropped_malformed_tcp,
        /// Dropped: TCP checksum wrong.
        dropped_tcp_checksum,
        /// Dropped: from an address, or port 0, that cannot be a source.
        dropped_martian_source,
        /// Dropped: to an address, or port 0, that cannot be a destination.
        dropped_martian_destination,
        /// Dropped: source and destination are the same socket.
        dropped_land,
        /// Dropped: to an address that is not ours, without a listener on any address.
        dropped_not_local,
        /// Dropped: a reset for which there is no connection.
        dropped_stray_reset,
        /// Dropped in LISTEN: neither a SYN nor an acknowledgement, or a SYN with FIN.
        dropped_in_listen,
        /// Dropped: a segment that is not acceptable to a half-open connection.
        dropped_in_syn_received,
        /// Dropped: a segment for a connection in TIME-WAIT that has no answer.
        dropped_in_time_wait,
        /// Dropped: a SYN at a listener with deferred accept that holds as many as it may.
        dropped_syn_backlog,
        /// Dropped: the last acknowledgement of a handshake, because the accept queue is full. The peer will
        /// repeat it.
        dropped_accept_queue,
        /// Dropped: the same, because the table of connections is full.
        dropped_connections_max,
        /// Dropped: replies beyond the bound of their queue.
        dropped_replies,
        /// Connections that began with what earlier ones had learned of their path.
        known_paths_used,
        /// SYNs received in LISTEN.
        syns_received,
        /// SYNs on which no decision was made in time.
        syns_undecided_expired,
        /// Half-open connections given up after their SYN-ACK was repeated in vain.
        half_open_expired,
        /// Half-open connections ended by a reset, a SYN or a hard ICMP error.
        half_open_ended,
        /// SYN-ACKs repeated, by timer or because the SYN was.
        syn_acks_repeated,
        /// SYN cookies sent.
        cookies_sent,
        /// SYN cookies that came back and were good.
        cookies_accepted,
        /// Acknowledgements in LISTEN, while cookies were in use, that carried none.
        cookies_refused,
        /// Resets sent for segments without a connection.
        resets_sent,
        /// Acknowledgements sent for half-open and TIME-WAIT records.
        challenges_sent,
        /// Connections reset after their release, because there were too many orphans.
        orphans_reset,
        /// Connections reset because no data moved either way for their idle timeout.
        idle_timeouts,
        /// TIME-WAIT records that expired.
        time_wait_expired,
        /// TIME-WAIT records recycled before their time, because there were too many.
        time_wait_recycled,
        /// TIME-WAIT connections reopened by a SYN.
        time_wait_reopened,
        /// ICMP errors handed to a connection or record.
        icmp_delivered,
        /// Dropped: ICMP malformed.
        dropped_malformed_icmp,
        /// Dropped: ICMP that is not an error about TCP.
        dropped_icmp_other,
        /// Dropped: ICMP Source Quench.
        dropped_source_quench,
        /// Dropped: ICMP about an unknown connection, or about a sequence number that is not outstanding.
        dropped_icmp_unmatched,
        /// Trace records that were dropped because earlier ones had not been fetched.
        trace_records_dropped,
    }

    /// The counters that few endpoints need.
    RareCounters {
        /// Connections reset because the memory budget was spent, and they held some of it for long without
        /// progress.
        memory_resets,
        /// Backoffs of retransmission timers taken back, because a router had no way to the peer (RFC 6069).
        backoffs_undone,
        /// SYNs with a good Fast Open cookie that made a connection.
        fast_open_accepted,
        /// SYNs with a Fast Open cookie that is not good: ordinary ones, which are given a new cookie.
        fast_open_refused,
        /// SYNs with a good cookie that found as many open handshakes as their listener takes: ordinary ones.
        fast_open_over_bound,
        /// Attempts of this end that were answered only when the SYN had neither cookie nor data.
        fast_open_fell_back,
        /// Connections of this end that did without a cookie, because an attempt with one had fallen back not
        /// long ago.
        fast_open_suspended,
        /// Dropped: a segment of a peer with keys that is not signed with one of them (TCP-AO).
        dropped_unauthenticated,
        /// Those among them without the option (feature `tcp-ao`).
        dropped_unsigned,
        /// Those whose KeyID no key has (feature `tcp-ao`).
        dropped_unknown_key,
        /// Those whose MAC is not the one of their key and connection (feature `tcp-ao`).
        dropped_wrong_mac,
        /// Segments to peers with keys that left unsigned, because this end lacks a key (TCP-AO).
        sent_unauthenticated,
        /// Packets of another queue, handed over to its endpoint.
        strays_handed_over,
        /// Those taken from endpoints of other queues.
        strays_taken,
        /// Dropped: such packets beyond the bound of a queue between endpoints or of the budget, and those
        /// whose connection went elsewhere meanwhile.
        dropped_strays,
        /// Packets that the endpoint sent to an address of its own, and received.
        packets_looped,
        /// Dropped: such packets beyond the bound of their queue.
        dropped_looped,
        /// Packets handed to the program that takes other packets.
        others_received,
        /// Packets taken from it.
        others_sent,
        /// Dropped: packets beyond the bound of its queues, or of the budget.
        dropped_other_full,
        /// Datagrams handed to a UDP socket.
        udp_received,
        /// Datagrams sent.
        udp_sent,
        /// Dropped: UDP header malformed.
        dropped_malformed_udp,
        /// Dropped: UDP checksum wrong, or absent over IPv6.
        dropped_udp_checksum,
        /// Dropped: datagrams to an address of ours for a port without a socket.
        dropped_udp_unbound,
        /// Dropped: datagrams beyond the bound of their socket, or of the budget.
        dropped_udp_full,
        /// Fragments taken to be put together.
        fragments_received,
        /// Packets put together.
        packets_reassembled,
        /// Dropped: fragments that overlap or contradict one another.
        dropped_fragment_overlap,
        /// Dropped: unfinished packets that gave way to others, and fragments without room.
        dropped_reassembly_full,
        /// Dropped: unfinished packets whose other fragments did not come in time.
        dropped_reassembly_time,
        /// Echo requests answered.
        echoes_answered,
        /// Echo requests to other addresses that were kept for the program to answer.
        pings_deferred,
        /// Dropped: such requests beyond the bound of their queue, or of the budget.
        dropped_pings,
        /// ICMP errors sent.
        icmp_errors_sent,
        /// Dropped: echo replies and ICMP errors beyond their limits.
        dropped_icmp_limited,
    }
}
