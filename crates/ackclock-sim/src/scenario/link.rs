//! Links as data: rates, queues, and what goes wrong on the wire.

use serde::{Deserialize, Serialize};

use super::{FollowedTrace, TimeOf, TraceEnd, is_default};
use crate::units::{Bytes, Limit, Rate, Share, Span};

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LinkConfig {
    /// Its name; by default the names of the two nodes with a hyphen between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The nodes that it joins.
    pub between: [String; 2],
    /// Its routing cost; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u32>,
    /// From the first node to the second.
    pub there: Direction,
    /// From the second node to the first; by default the same as `there`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // In a box: most links are alike both ways, and thousands of them would hold room for more.
    pub back: Option<Box<Direction>>,
}

/// One direction of a link: a queue, a transmitter, a wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Direction {
    /// The rate at which packets are sent, counting IP packets from header to end. Unlimited where a trace
    /// sets it; only there may a file leave it out.
    #[serde(default = "unlimited")]
    pub rate: Rate,
    /// The propagation delay. 0 where a trace sets it; only beside one may a file leave it out.
    #[serde(default)]
    pub delay: Span,
    /// The largest IP packet.
    #[serde(default = "mtu", skip_serializing_if = "is_usual_mtu")]
    pub mtu: Bytes,
    /// The trace that the link follows over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<FollowedTrace>,
    /// The behaviour at the end of the trace.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trace_end: TraceEnd,
    /// Where packets wait.
    #[serde(default)]
    pub queue: QueueConfig,
    /// A rate limit in front of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policer: Option<PolicerConfig>,
    /// Packets that leave in bursts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<Aggregation>,
    /// Acknowledgements that are left out where later ones tell as much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thin_acks: Option<ThinAcks>,
    /// Delay that varies from packet to packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
    /// Random loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Loss of packets by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drop: Vec<Scripted>,
    /// Packets that others overtake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reordering>,
    /// Packets that arrive twice.
    #[serde(default, skip_serializing_if = "is_default")]
    pub duplicate: Share,
    /// Packets that arrive damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Corruption>,
    /// Larger IP packets are lost silently: a black hole of path MTU discovery. By default there is none.
    #[serde(default = "no_size", skip_serializing_if = "is_no_size")]
    pub drop_above: Bytes,
    /// Times at which every packet is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blackout: Vec<Blackout>,
}

/// A queue discipline with its parameters. A limit does not count the packet being sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum QueueConfig {
    /// Packets that arrive at a full queue are dropped.
    DropTail {
        /// The capacity.
        limit: Limit,
        /// ECN-capable packets that arrive while this much waits are marked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mark_above: Option<Limit>,
    },
    /// Random early detection (Floyd and Jacobson 1993).
    Red {
        /// The capacity.
        limit: Limit,
        /// min_th in packets.
        min: u32,
        /// max_th in packets.
        max: u32,
        /// max_p.
        #[serde(default = "red_max_p")]
        max_p: Share,
        /// w_q is 2 to the power of minus this.
        #[serde(default = "red_weight")]
        weight_shift: u32,
        /// Whether the probability rises to 1 at twice `max` instead of jumping.
        #[serde(default)]
        gentle: bool,
        /// Whether ECN-capable packets are marked instead.
        #[serde(default)]
        mark: bool,
    },
    /// Controlled delay (RFC 8289).
    Codel {
        /// The capacity.
        limit: Limit,
        /// An acceptable standing delay.
        #[serde(default = "codel_target")]
        target: Span,
        /// How long it may be exceeded.
        #[serde(default = "codel_interval")]
        interval: Span,
        /// Whether ECN-capable packets are marked instead.
        #[serde(default)]
        mark: bool,
    },
    /// A CoDel queue for each flow (RFC 8290).
    FqCodel {
        /// The capacity of all queues together.
        limit: Limit,
        /// An acceptable standing delay.
        #[serde(default = "codel_target")]
        target: Span,
        /// How long it may be exceeded.
        #[serde(default = "codel_interval")]
        interval: Span,
        /// The number of queues.
        #[serde(default = "fq_queues")]
        queues: u16,
        /// The bytes that a queue may send per turn.
        #[serde(default = "fq_quantum")]
        quantum: Bytes,
        /// Whether ECN-capable packets are marked instead.
        #[serde(default)]
        mark: bool,
    },
    /// Shares by host, a shaper and a filter of ACKs over FQ-CoDel, as CAKE (Høiland-Jørgensen, Täht and
    /// Morton 2018) has them.
    Cake {
        /// The capacity of all queues together.
        limit: Limit,
        /// The shaper's rate; the link's by default.
        #[serde(default = "cake_bandwidth")]
        bandwidth: Rate,
        /// Who gets equal shares.
        #[serde(default)]
        isolation: Isolation,
        /// Whether ACKs are dropped that others make redundant.
        #[serde(default)]
        ack_filter: bool,
        /// An acceptable standing delay, at high bandwidths.
        #[serde(default = "codel_target")]
        target: Span,
        /// How long it may be exceeded, at high bandwidths.
        #[serde(default = "codel_interval")]
        interval: Span,
        /// Whether ECN-capable packets are marked instead.
        #[serde(default)]
        mark: bool,
    },
    /// Proportional integral controller enhanced (RFC 8033).
    Pie {
        /// The capacity.
        limit: Limit,
        /// QDELAY_REF: the delay to keep to.
        #[serde(default = "pie_target")]
        target: Span,
        /// T_UPDATE: how often the probability changes.
        #[serde(default = "pie_target")]
        update: Span,
        /// MAX_BURST: a burst that lasts no longer loses nothing.
        #[serde(default = "pie_burst")]
        burst: Span,
        /// Whether ECN-capable packets are marked instead, up to a probability of 10 %.
        #[serde(default)]
        mark: bool,
    },
    /// Two queues, one for L4S traffic, with coupled marking (RFC 9332).
    #[serde(rename = "dualpi2")]
    DualPi2 {
        /// The capacity of both queues together.
        limit: Limit,
        /// The delay to keep to in the classic queue.
        #[serde(default = "pie_target")]
        target: Span,
        /// RTT_max: the longest round trip with which it is stable.
        #[serde(default = "dualpi2_rtt_max")]
        rtt_max: Span,
        /// k: L4S traffic is marked this many times as often as the root of the classic probability says.
        #[serde(default = "dualpi2_coupling")]
        coupling: u32,
        /// minTh: the delay from which the L queue marks on its own account.
        #[serde(default = "dualpi2_min_th")]
        min_th: Span,
        /// Beyond `min-th` by this much, it marks every packet.
        #[serde(default = "dualpi2_range")]
        range: Span,
    },
}

/// Who gets equal shares of a CAKE queue, in the words of tc-cake(8). A host's flows share its part equally.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Isolation {
    /// Flows.
    Flows,
    /// Hosts that send.
    DualSrchost,
    /// Hosts that receive.
    DualDsthost,
    /// Hosts at either side: a flow's part is the smaller of what both would give it.
    #[default]
    TripleIsolate,
}

/// Packets that leave in bursts, as on a shared medium: when packets wait, the link waits for access, then
/// sends as many as the limits allow under one preamble. All arrive at the burst's end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Aggregation {
    /// How long the link waits for the medium before each burst.
    pub access: TimeOf,
    /// The time that each burst takes besides its packets.
    #[serde(default)]
    pub preamble: Span,
    /// The most packets of a burst.
    #[serde(default = "burst_packets")]
    pub packets: u32,
    /// The most bytes of a burst. A burst has at least one packet.
    #[serde(default = "burst_bytes")]
    pub bytes: Bytes,
    /// The most time that a burst takes, with its preamble.
    #[serde(default = "burst_time")]
    pub time: Span,
}

/// Which pure acknowledgements a link leaves out. Duplicates, and those with SACK blocks, other options than
/// timestamps or another sign of ECN than the one before, always pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ThinAcks {
    /// Of those that wait for the link, one that a later one covers; the later one takes its place.
    Covered,
    /// All but one in this many of a connection. The last of a transfer may be among those left out.
    OneIn(u32),
}

/// A token-bucket policer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PolicerConfig {
    /// The rate that conforms.
    pub rate: Rate,
    /// The bytes that conform at once after a pause.
    pub burst: Bytes,
    /// Whether ECN-capable packets that do not conform are marked and passed.
    #[serde(default)]
    pub mark: bool,
}

/// Delay that varies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Jitter {
    /// How it is distributed; all of it is added to the delay.
    pub by: Variation,
    /// Whether packets may overtake each other; otherwise a packet waits for the one before it.
    #[serde(default)]
    pub may_reorder: bool,
}

/// How a jitter is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Variation {
    /// Evenly from 0 to this.
    Uniform(Span),
    /// Exponentially with this mean.
    Exponential(Span),
    /// One delay of all packets until another one is drawn.
    Held {
        /// How long a packet waits.
        wait: TimeOf,
        /// How long that stays so. The next one begins with a packet.
        lasting: TimeOf,
    },
}

/// Random loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Loss {
    /// Independent for each packet.
    Independent(Share),
    /// Gilbert (1960) and Elliott (1963): a good and a bad state, which may change before each packet.
    GilbertElliott {
        /// From good to bad.
        to_bad: Share,
        /// From bad to good.
        to_good: Share,
        /// Loss in the bad state.
        #[serde(default = "one")]
        in_bad: Share,
        /// Loss in the good state.
        #[serde(default)]
        in_good: Share,
    },
    /// Periods of time that lose a share of the packets. The first begins after some time without loss.
    Episodes {
        /// How long there is no loss between two.
        every: TimeOf,
        /// How long each lasts.
        lasting: TimeOf,
        /// The share that is lost in them.
        share: Share,
    },
}

/// Loss by number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scripted {
    /// Which packets, counted from 1 as they leave the queue, those lost included.
    pub packets: Vec<u64>,
    /// Whether only packets with payload count.
    #[serde(default)]
    pub data: bool,
    /// Whether only packets of this traffic count, in either direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
}

/// Packets that others overtake.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Reordering {
    /// Their share.
    pub share: Share,
    /// How much later they arrive.
    pub by: Span,
}

/// Packets that are damaged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Corruption {
    /// The share with one flipped bit, which the checksum detects.
    #[serde(default)]
    pub found: Share,
    /// The share with two swapped words of payload, which the checksum does not detect.
    #[serde(default)]
    pub unseen: Share,
}

/// A period in which every packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Blackout {
    /// When it begins.
    pub from: Span,
    /// When it ends.
    pub to: Span,
}

impl LinkConfig {
    /// A link that is alike in both directions.
    #[must_use]
    pub fn new(a: &str, b: &str, there: Direction) -> Self {
        Self { name: None, between: [a.to_owned(), b.to_owned()], cost: None, there, back: None }
    }

    /// Its name in reports.
    #[must_use]
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.between.join("-"))
    }

    /// From the second node to the first.
    #[must_use]
    pub fn back(&self) -> &Direction {
        self.back.as_deref().unwrap_or(&self.there)
    }
}

impl Direction {
    /// A wire with a drop-tail queue of 1,000 packets and without impairments.
    #[must_use]
    pub fn new(rate: Rate, delay: Span) -> Self {
        Self {
            rate,
            delay,
            mtu: mtu(),
            queue: QueueConfig::default(),
            trace: None,
            trace_end: TraceEnd::Repeat,
            policer: None,
            aggregation: None,
            thin_acks: None,
            jitter: None,
            loss: None,
            drop: Vec::new(),
            reorder: None,
            duplicate: Share::ZERO,
            corrupt: None,
            drop_above: no_size(),
            blackout: Vec::new(),
        }
    }

    /// With this queue.
    #[must_use]
    pub fn queue(mut self, queue: QueueConfig) -> Self {
        self.queue = queue;
        self
    }

    /// With a drop-tail queue of this many packets.
    #[must_use]
    pub fn buffers(self, packets: u64) -> Self {
        self.queue(QueueConfig::drop_tail(Limit::Packets(packets)))
    }

    /// With this largest packet.
    #[must_use]
    pub fn mtu(mut self, bytes: u64) -> Self {
        self.mtu = Bytes(bytes);
        self
    }

    /// With silent loss of larger packets.
    #[must_use]
    pub fn drop_above(mut self, bytes: u64) -> Self {
        self.drop_above = Bytes(bytes);
        self
    }

    /// A wire that follows `trace`. `delay` must be 0 where the trace sets it.
    #[must_use]
    pub fn following(trace: FollowedTrace, delay: Span) -> Self {
        Self { trace: Some(trace), ..Self::new(Rate::UNLIMITED, delay) }
    }

    /// With bursts.
    #[must_use]
    pub fn aggregation(mut self, aggregation: Aggregation) -> Self {
        self.aggregation = Some(aggregation);
        self
    }

    /// With these acknowledgements left out.
    #[must_use]
    pub fn thin_acks(mut self, rule: ThinAcks) -> Self {
        self.thin_acks = Some(rule);
        self
    }

    /// With this loss.
    #[must_use]
    pub fn loss(mut self, loss: Loss) -> Self {
        self.loss = Some(loss);
        self
    }
}

impl Aggregation {
    /// Bursts after this time of access, within the limits of 802.11n.
    #[must_use]
    pub fn new(access: TimeOf) -> Self {
        let (packets, bytes, time) = (burst_packets(), burst_bytes(), burst_time());
        Self { access, preamble: Span(0), packets, bytes, time }
    }
}

impl QueueConfig {
    /// Drop-tail without marking.
    #[must_use]
    pub fn drop_tail(limit: Limit) -> Self {
        Self::DropTail { limit, mark_above: None }
    }

    /// CoDel with the RFC's parameters.
    #[must_use]
    pub fn codel(limit: Limit, mark: bool) -> Self {
        Self::Codel { limit, target: codel_target(), interval: codel_interval(), mark }
    }

    /// FQ-CoDel with the RFC's parameters.
    #[must_use]
    pub fn fq_codel(limit: Limit, mark: bool) -> Self {
        let (target, interval) = (codel_target(), codel_interval());
        Self::FqCodel { limit, target, interval, queues: fq_queues(), quantum: fq_quantum(), mark }
    }

    /// CAKE with its defaults: `triple-isolate`, no shaper and no filter.
    #[must_use]
    pub fn cake(limit: Limit, mark: bool) -> Self {
        Self::Cake {
            limit,
            bandwidth: cake_bandwidth(),
            isolation: Isolation::default(),
            ack_filter: false,
            target: codel_target(),
            interval: codel_interval(),
            mark,
        }
    }

    /// PIE with the RFC's parameters.
    #[must_use]
    pub fn pie(limit: Limit, mark: bool) -> Self {
        Self::Pie { limit, target: pie_target(), update: pie_target(), burst: pie_burst(), mark }
    }

    /// DualPI2 with the RFC's parameters.
    #[must_use]
    pub fn dual_pi2(limit: Limit) -> Self {
        Self::DualPi2 {
            limit,
            target: pie_target(),
            rtt_max: dualpi2_rtt_max(),
            coupling: dualpi2_coupling(),
            min_th: dualpi2_min_th(),
            range: dualpi2_range(),
        }
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self::drop_tail(Limit::Packets(1000))
    }
}

fn unlimited() -> Rate {
    Rate::UNLIMITED
}

/// The window of a block acknowledgement in IEEE 802.11n.
fn burst_packets() -> u32 {
    64
}

/// The longest A-MPDU of IEEE 802.11n.
fn burst_bytes() -> Bytes {
    Bytes(65_535)
}

/// The longest PPDU of IEEE 802.11ac.
fn burst_time() -> Span {
    Span(5_484_000)
}

fn mtu() -> Bytes {
    Bytes(1500)
}

fn is_usual_mtu(bytes: &Bytes) -> bool {
    *bytes == mtu()
}

/// No packet is larger.
fn no_size() -> Bytes {
    Bytes(65_535)
}

fn is_no_size(bytes: &Bytes) -> bool {
    *bytes >= no_size()
}

fn one() -> Share {
    Share::ONE
}

/// Floyd and Jacobson 1993, §4: 1/50.
fn red_max_p() -> Share {
    Share::percent(2)
}

/// Floyd and Jacobson 1993, §4: 0.002, about 2^-9.
fn red_weight() -> u32 {
    9
}

/// RFC 8289 §4.2.
fn codel_target() -> Span {
    Span::millis(5)
}

/// RFC 8289 §4.2.
fn codel_interval() -> Span {
    Span::millis(100)
}

/// RFC 8290 §5.2.3.
fn fq_queues() -> u16 {
    1024
}

/// RFC 8290 §5.2.4: an MTU; 1514 with Ethernet's header, which is not sent here.
fn fq_quantum() -> Bytes {
    Bytes(1514)
}

/// No shaper: tc-cake(8)'s default.
fn cake_bandwidth() -> Rate {
    Rate::UNLIMITED
}

/// RFC 8033 §4.2: QDELAY_REF and T_UPDATE. RFC 9332 appendix A.1, figure 2: target.
fn pie_target() -> Span {
    Span::millis(15)
}

/// RFC 8033 §4.4.
fn pie_burst() -> Span {
    Span::millis(150)
}

/// RFC 9332 appendix A.1, figure 2.
fn dualpi2_rtt_max() -> Span {
    Span::millis(100)
}

/// RFC 9332 §2.5.1.
fn dualpi2_coupling() -> u32 {
    2
}

/// RFC 9332 appendix A.1, figure 2.
fn dualpi2_min_th() -> Span {
    Span(800_000)
}

/// RFC 9332 appendix A.1, figure 2.
fn dualpi2_range() -> Span {
    Span(400_000)
}
