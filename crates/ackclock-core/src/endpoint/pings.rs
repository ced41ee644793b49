//! Pings: ICMP echo requests, and who answers those to addresses that are not the endpoint's.
//!
//! A proxy or a VPN takes the traffic of any address. A ping to one of them may be answered at once, or only
//! once the program knows that the host behind it is there, as a SYN is (deferred accept). The program gets
//! the request itself, so the endpoint keeps nothing of a ping that was fetched: one that is dropped stays
//! without an answer.

use std::collections::VecDeque;
use std::net::IpAddr;

use ackclock_control::tally::Tally;
use ackclock_wire::icmp_out::is_echo_request;
use ackclock_wire::{IpPacket, IpPayload};

use super::deferred::Unreachable;
use super::{Endpoint, Frame};
use crate::Instant;
use crate::budget::{Budget, Lease};
use ackclock_form::byte_string;

/// Which pings are answered. Those to an address of the endpoint's own always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum PingPolicy {
    /// No others: they go where other packets go, or are dropped.
    #[default]
    Own,
    /// Those to any address of one host, as if each were the endpoint's.
    Any,
    /// The program decides about the others: [`Endpoint::poll_ping`] shows each,
    /// [`Endpoint::answer_ping`] answers it.
    Deferred,
}

/// An echo request to an address that is not the endpoint's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ping {
    /// The whole packet.
    packet: Vec<u8>,
    from: IpAddr,
    to: IpAddr,
}

/// An answer to a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PingAnswer {
    /// An echo reply with the request's data, from the address that it was sent to.
    Reply,
    /// An ICMP error.
    Unreachable(Unreachable),
}

impl Ping {
    /// The echo request that this whole IP packet is; `None` if it is something else. Its checksums are not
    /// looked at.
    #[must_use]
    pub fn parse(packet: Vec<u8>) -> Option<Self> {
        let ip = IpPacket::parse(&packet).ok().filter(is_echo_request)?;
        let (from, to) = (ip.src, ip.dst);
        Some(Self { packet, from, to })
    }

    /// The host that sent it.
    #[must_use]
    pub fn from(&self) -> IpAddr {
        self.from
    }

    /// The address that it was sent to.
    #[must_use]
    pub fn to(&self) -> IpAddr {
        self.to
    }

    /// The identifier, by which a program that pings tells its own requests.
    #[must_use]
    pub fn identifier(&self) -> u16 {
        self.number_at(4)
    }

    /// The sequence number within those.
    #[must_use]
    pub fn sequence(&self) -> u16 {
        self.number_at(6)
    }

    /// The data that the reply returns.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.message().get(8..).unwrap_or_default()
    }

    /// The whole IP packet.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }

    fn number_at(&self, at: usize) -> u16 {
        let bytes = self.message().get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
    }

    fn message(&self) -> &[u8] {
        match IpPacket::parse(&self.packet).map(|ip| ip.payload) {
            Ok(IpPayload::Icmp4(message) | IpPayload::Icmp6(message)) => message,
            _ => &[],
        }
    }
}

/// The pings that wait for the program.
#[derive(Debug, Default)]
pub(super) struct Pings {
    waiting: VecDeque<(Ping, Lease)>,
    /// Whether the program does not know of them yet.
    is_news: bool,
}

impl Pings {
    /// A ping arrived. Returns whether there was room.
    fn push(&mut self, ping: Ping, max: usize, budget: &Budget) -> bool {
        let lease = budget.try_lease(ping.packet.len());
        let Some(lease) = lease.filter(|_| self.waiting.len() < max) else { return false };
        self.waiting.push_back((ping, lease));
        self.is_news = true;
        true
    }

    /// Whether new pings wait for the program. Marks them as reported.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }
}

impl Endpoint {
    /// The next ping that waits for an answer ([`PingPolicy::Deferred`]). At most
    /// [`pings_max`](crate::EndpointConfig::pings_max) wait; later ones are dropped and counted.
    pub fn poll_ping(&mut self) -> Option<Ping> {
        self.non_tcp.as_mut()?.pings.waiting.pop_front().map(|(ping, _)| ping)
    }

    /// Whether [`poll_ping`](Self::poll_ping) would return one.
    #[must_use]
    pub fn has_ping(&self) -> bool {
        self.non_tcp.as_ref().is_some_and(|non_tcp| !non_tcp.pings.waiting.is_empty())
    }

    /// Answers a ping. Returns `false` if no answer is sent, because the limits on ICMP allow none now
    /// ([`echo_replies_per_second`](crate::EndpointConfig::echo_replies_per_second); six errors at once and
    /// one a second for each peer), or memory is short.
    pub fn answer_ping(&mut self, now: Instant, ping: &Ping, answer: PingAnswer) -> bool {
        let now = self.advance(now);
        let Ok(ip) = IpPacket::parse(&ping.packet) else { return false };
        let answered = match answer {
            PingAnswer::Reply => self.reply_to_echo(now, &ping.packet, &ip),
            PingAnswer::Unreachable(why) => {
                self.report_unreachable(now, why, &ping.packet, (ping.from, ping.to))
            }
        };
        self.check_invariants();
        answered
    }

    /// From now on no ping waits for the program: those to other addresses are treated as with
    /// [`PingPolicy::Own`].
    pub fn close_pings(&mut self) {
        self.config.pings = PingPolicy::Own;
        if let Some(non_tcp) = &mut self.non_tcp {
            non_tcp.pings = Pings::default();
        }
    }

    /// Keeps an echo request for the program.
    pub(super) fn defer_ping(&mut self, frame: &Frame<'_>) {
        let Some(ping) = Ping::parse(frame.packet.bytes.to_vec()) else { return };
        let (max, budget) = (self.config.pings_max, self.memory.budget().clone());
        let taken = self.non_tcp().pings.push(ping, max, &budget);
        let counters = self.rare_counters();
        (if taken { &mut counters.pings_deferred } else { &mut counters.dropped_pings }).count();
    }
}

ackclock_form::form! {
    enum PingPolicy { 0 Own, 1 Any, 2 Deferred }
    struct Ping { packet as byte_string, from, to }
    struct Pings { waiting, is_news }
}
