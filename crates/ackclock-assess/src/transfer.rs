//! Which captures show which end of which transfer.
//!
//! Of a connection the direction with more data is assessed. The sender is taken to be at the end whose
//! answers in the handshake took less time: at the client the SYN-ACK takes a round trip and the last ACK
//! none.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock_wire::{Flags, SeqNum};
use serde::Serialize;

use crate::capture::{Delivery, NotPaired, Vantage, pair};
use crate::retransmissions::Replay;
use crate::view::View;

/// Where captures were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Side {
    /// Judged by the handshake; connections that two captures show are paired.
    #[default]
    Guess,
    /// Each at the sender of the data.
    Sender,
    /// Each at the receiver of the data.
    Receiver,
    /// Two files: the first at the sender of the data, the second at its receiver.
    Both,
}

impl Side {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Guess, Self::Sender, Self::Receiver, Self::Both];

    /// The name by which a command line chooses it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guess => "guess",
            Self::Sender => "sender",
            Self::Receiver => "receiver",
            Self::Both => "both",
        }
    }

    /// A phrase for a list of them.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Guess => "Judged by the handshake; connections that two captures show are paired",
            Self::Sender => "Each at the sender of the data",
            Self::Receiver => "Each at the receiver of the data",
            Self::Both => "Two files: the first at the sender of the data, the second at its receiver",
        }
    }
}

/// A transfer of data that can be assessed.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The sender of the data.
    pub from: SocketAddr,
    /// Its receiver.
    pub to: SocketAddr,
    /// The time of the first packet at the sender, in nanoseconds.
    pub began: u64,
    /// The packets seen at the sender.
    pub(crate) sent: View,
    /// The packets seen at the receiver, and the fate of each packet between the two.
    pub(crate) received: Option<(View, Delivery)>,
    /// The round trip of the handshake, seen at the sender.
    pub(crate) handshake: Option<Duration>,
    /// The segments with their causes, and the acknowledgements.
    pub replay: Replay,
    /// Doubts about a transfer that is assessed all the same.
    pub doubts: Vec<Doubt>,
}

impl Transfer {
    /// Bytes of data, each counted once.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sent.bytes()
    }

    /// The largest segment, in bytes of payload.
    #[must_use]
    pub fn mss(&self) -> u32 {
        self.sent.mss
    }

    /// Whether both ends were captured.
    #[must_use]
    pub fn both_ends(&self) -> bool {
        self.received.is_some()
    }
}

/// Why a connection is not assessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOut {
    /// It carried no data.
    NoData,
    /// The capture shows one direction.
    NoAcknowledgements,
    /// It was captured at the receiver alone.
    ReceiverOnly,
    /// The capture lacks packets that were acknowledged.
    Holes,
    /// The capture's clock was set back.
    ClockSetBack,
    /// Two captures show different packets.
    NotPaired,
    /// More than two captures show it.
    SeenTooOften,
}

/// A doubt about a connection that is assessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// No handshake was seen, so it is taken as seen at the sender.
    NoHandshake,
    /// The handshake does not show at which end it was seen.
    SideUnclear,
    /// The sender's data was seen out of order.
    OutOfOrder,
    /// Packets were captured twice.
    Copies,
}

/// The transfers that these captures show, and the connections that are left out: client, server and reason.
#[must_use]
pub fn transfers(
    vantages: &[Vantage],
    side: Side,
) -> (Vec<Transfer>, Vec<(SocketAddr, SocketAddr, LeftOut)>) {
    let mut found = Vec::new();
    let mut left_out = Vec::new();
    for group in connections(vantages) {
        let first = group[0];
        match transfer(&group, side) {
            Ok(transfer) => found.push(transfer),
            Err(why) => left_out.push((first.client, first.server, why)),
        }
    }
    (found, left_out)
}

/// The views of each connection, in the order of the first.
pub(super) fn connections(vantages: &[Vantage]) -> Vec<Vec<&Vantage>> {
    let mut groups: Vec<Vec<&Vantage>> = Vec::new();
    let mut by_isn: HashMap<(SeqNum, SeqNum), usize> = HashMap::new();
    let mut by_addr: HashMap<(SocketAddr, SocketAddr), Vec<usize>> = HashMap::new();
    for vantage in vantages {
        let isns = vantage.client_isn.zip(vantage.server_isn);
        let addrs = (vantage.client.min(vantage.server), vantage.client.max(vantage.server));
        // A translator of addresses leaves the sequence numbers alone.
        let same = isns.and_then(|isns| by_isn.get(&isns).copied()).or_else(|| {
            let candidates = by_addr.get(&addrs)?;
            candidates
                .iter()
                .copied()
                .find(|&number| groups[number].iter().all(|other| may_be_same(other, vantage)))
        });
        match same {
            Some(number) => groups[number].push(vantage),
            None => {
                groups.push(vec![vantage]);
                by_addr.entry(addrs).or_default().push(groups.len() - 1);
                if let Some(isns) = isns {
                    by_isn.insert(isns, groups.len() - 1);
                }
            }
        }
    }
    groups
}

/// Whether two views between the same addresses may be of one connection.
fn may_be_same(one: &Vantage, other: &Vantage) -> bool {
    let agree = |a: Option<SeqNum>, b: Option<SeqNum>| a.zip(b).is_none_or(|(a, b)| a == b);
    one.place != other.place
        && (one.client != other.client
            || agree(one.client_isn, other.client_isn) && agree(one.server_isn, other.server_isn))
}

fn transfer(group: &[&Vantage], side: Side) -> Result<Transfer, LeftOut> {
    let from_client = sends_more(group[0]);
    let (sender, receiver) = ends(group, side, from_client)?;
    if sender.clock_back_ns > CLOCK_BACK_NS_MAX {
        return Err(LeftOut::ClockSetBack);
    }
    let sent = View::new(sender, from_client);
    if sent.bytes() == 0 {
        return Err(LeftOut::NoData);
    }
    if sent.acks() == 0 {
        return Err(LeftOut::NoAcknowledgements);
    }
    if sent.holes > 0 {
        return Err(LeftOut::Holes);
    }
    let received = match receiver {
        None => None,
        Some(receiver) => {
            let receiver = aligned(receiver, sender);
            let paired = pair(sender, &receiver, from_client, sent.mss);
            let delivery = paired.map_err(|NotPaired { .. }| LeftOut::NotPaired)?;
            Some((View::new(&receiver, from_client), delivery))
        }
    };
    let shake = Handshake::of(sender);
    let handshake = shake.and_then(|shake| if from_client { shake.at_server } else { shake.at_client });
    let delivery = received.as_ref().map(|(_, delivery)| delivery);
    let replay = Replay::new(&sent, delivery, response(sender, from_client));
    let doubts = [
        (shake.is_none(), Doubt::NoHandshake),
        (
            side == Side::Guess
                && receiver.is_none()
                && shake.is_some_and(|shake| shake.client_is_near().is_none()),
            Doubt::SideUnclear,
        ),
        (sent.out_of_order > 0, Doubt::OutOfOrder),
        (sender.copies > 0, Doubt::Copies),
    ];
    let (from, to) =
        if from_client { (sender.client, sender.server) } else { (sender.server, sender.client) };
    let doubts = doubts.into_iter().filter(|(applies, _)| *applies).map(|(_, doubt)| doubt).collect();
    let began = sender.segments.first().map_or(0, |segment| segment.at);
    Ok(Transfer { from, to, began, sent, received, handshake, replay, doubts })
}

/// The longest that a sender takes to answer an acknowledgement: as long as in the handshake, or twice as
/// long; timers are slower.
pub(super) fn response(sender: &Vantage, from_client: bool) -> Duration {
    let local =
        Handshake::of(sender).and_then(|shake| if from_client { shake.at_client } else { shake.at_server });
    local.unwrap_or_default().saturating_mul(2).max(RESPONSE)
}

/// Which view is the sender's and which the receiver's.
pub(super) fn ends<'a>(
    group: &[&'a Vantage],
    side: Side,
    from_client: bool,
) -> Result<(&'a Vantage, Option<&'a Vantage>), LeftOut> {
    let near_sender = |vantage: &Vantage| {
        let near_client = Handshake::of(vantage).and_then(Handshake::client_is_near);
        near_client.map(|near_client| near_client == from_client)
    };
    match (group, side) {
        (&[_], Side::Receiver) => Err(LeftOut::ReceiverOnly),
        (&[one], Side::Guess) if near_sender(one) == Some(false) => Err(LeftOut::ReceiverOnly),
        (&[one], Side::Both) if one.place.file > 0 => Err(LeftOut::ReceiverOnly),
        (&[one], _) => Ok((one, None)),
        (&[one, other], Side::Both) => {
            Ok(if one.place.file <= other.place.file { (one, Some(other)) } else { (other, Some(one)) })
        }
        // Where neither says, the order in which they were given does.
        (&[one, other], Side::Guess) => {
            let swapped = near_sender(one) == Some(false) || near_sender(other) == Some(true);
            Ok(if swapped { (other, Some(one)) } else { (one, Some(other)) })
        }
        (&[one, _], Side::Sender) => Ok((one, None)),
        (&[_, _], Side::Receiver) => Err(LeftOut::ReceiverOnly),
        _ => Err(LeftOut::SeenTooOften),
    }
}

/// Without a handshake, the first packet decides which end is the client, and the two captures can disagree.
fn aligned(vantage: &Vantage, like: &Vantage) -> Vantage {
    let mut vantage = vantage.clone();
    if vantage.client == like.server && vantage.server == like.client {
        std::mem::swap(&mut vantage.client, &mut vantage.server);
        std::mem::swap(&mut vantage.client_isn, &mut vantage.server_isn);
        std::mem::swap(&mut vantage.client_mss, &mut vantage.server_mss);
        std::mem::swap(&mut vantage.client_scale, &mut vantage.server_scale);
        std::mem::swap(&mut vantage.client_sack, &mut vantage.server_sack);
        vantage.segments.iter_mut().for_each(|segment| segment.from_client = !segment.from_client);
    }
    vantage
}

fn sends_more(vantage: &Vantage) -> bool {
    let bytes = |from_client: bool| {
        let segments = vantage.segments.iter().filter(|segment| segment.from_client == from_client);
        segments.map(|segment| u64::from(segment.len)).sum::<u64>()
    };
    bytes(true) >= bytes(false)
}

/// How long both ends took to answer in the handshake, as seen at one place; `None` where a segment is
/// missing or was sent twice.
#[derive(Clone, Copy, Debug)]
struct Handshake {
    /// From the SYN to the SYN-ACK.
    at_server: Option<Duration>,
    /// From the SYN-ACK to the first segment of the client.
    at_client: Option<Duration>,
}

impl Handshake {
    fn of(vantage: &Vantage) -> Option<Self> {
        let opening = vantage.segments.get(..HANDSHAKE_SEGMENTS.min(vantage.segments.len()))?;
        let mut syns = opening.iter().filter(|segment| segment.flags.contains(Flags::SYN));
        let (syn, syn_ack) = (syns.next()?, syns.next()?);
        if !syn.from_client || syn_ack.from_client || syns.next().is_some() {
            return None;
        }
        let answer =
            opening.iter().find(|segment| segment.from_client && !segment.flags.contains(Flags::SYN));
        let between = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
        Some(Self {
            at_server: Some(between(syn.at, syn_ack.at)),
            at_client: answer.map(|answer| between(syn_ack.at, answer.at)),
        })
    }

    /// Whether this is the client's end; `None` if the two do not differ enough to tell.
    fn client_is_near(self) -> Option<bool> {
        let (server, client) = (self.at_server?, self.at_client?);
        if client.saturating_mul(2) < server {
            Some(true)
        } else if server.saturating_mul(2) < client {
            Some(false)
        } else {
            None
        }
    }
}

impl LeftOut {
    /// The predicate of a sentence about a number of connections.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::NoData => "carried no data",
            Self::NoAcknowledgements => "show no acknowledgements: capture both directions",
            Self::ReceiverOnly => {
                "were captured at the receiver alone: give the sender's capture too, or --side sender if \
                 this is the sender's"
            }
            Self::Holes => "lack packets that were acknowledged: the capture dropped them",
            Self::ClockSetBack => "have times that go back by more than 10 ms",
            Self::NotPaired => {
                "have packets at one end that the other never sent: the captures differ in time, or dropped \
                 some"
            }
            Self::SeenTooOften => "were seen at more than two places: give one capture of each end",
        }
    }
}

impl Doubt {
    /// The predicate of a sentence about a number of connections.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::NoHandshake => "without a handshake, taken as seen at the sender",
            Self::SideUnclear => {
                "whose handshake does not show the end of the capture, taken as seen at the sender"
            }
            Self::OutOfOrder => {
                "with data out of order at the sender: the capture was taken elsewhere, or lacks packets"
            }
            Self::Copies => "with packets captured twice; the second copy is left out",
        }
    }
}

/// The time that a sender's computer may take to answer an acknowledgement.
const RESPONSE: Duration = Duration::from_millis(10);
/// Captures of several queues of a device may be slightly out of order.
const CLOCK_BACK_NS_MAX: u64 = 10_000_000;
const HANDSHAKE_SEGMENTS: usize = 8;
