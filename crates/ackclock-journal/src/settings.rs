//! How the settings of an endpoint, a listener and a connection are written and read. What has a name in the
//! grammar of choices is written as that name, so that a program finds its own controllers again.

use std::sync::Arc;

use ackclock_wire::{ChecksumAt, ChecksumState, Cidr, Codepoint, Egress, Experiment, Route, RxMeta};

use super::value::{Input, Value, put_text, take_text};
use crate::Malformed;
use ackclock_core::bandwidth::SenderEstimatorKind;
use ackclock_core::congestion::{ControllerFactory, IdlePolicy};
use ackclock_core::profile::{AckPolicy, Choices, Ecn, Profile, Recovery, UndoChoice};
use ackclock_core::rtt::{Arithmetic, Backoff, DeviationFloor, Formula, Gain, RtoConfig, Sampling};
use ackclock_core::trace::{TraceConfig, TraceKeep};
use ackclock_core::{
    BindOptions, BoundId, ConnectionId, Decision, EndpointConfig, IncomingId, Keepalive, Limits, ListenAddr,
    ListenOptions, ListenerId, LocalAddress, MtuProbing, PathCacheConfig, PingAnswer, PingPolicy,
    ReassemblyConfig, Shaping, Sharing, TcpConfig, UdpId, UdpOptions, Unreachable, UserTimeoutOption,
};

/// Structs that are their fields, one after the other.
macro_rules! structs {
    ($($type:ident { $($field:ident),* })*) => {
        $(impl Value for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
                Ok(Self { $($field: Value::take(input)?),* })
            }
        })*
    };
}

impl<T: Value> Value for Route<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.destination.put(out);
        self.to.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self { destination: Value::take(input)?, to: Value::take(input)? })
    }
}

impl Value for Cidr {
    fn put(&self, out: &mut Vec<u8>) {
        self.addr().put(out);
        self.prefix_len().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Self::new(Value::take(input)?, Value::take(input)?).map_err(|_| Malformed::Number)
    }
}

/// Choices that are a number in a list.
macro_rules! choices {
    ($($type:ident [$($choice:expr),*])*) => {
        $(impl Value for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let known = [$($choice),*];
                let at = known.iter().position(|choice| choice == self);
                out.push(at.and_then(|at| u8::try_from(at).ok()).unwrap_or(UNKNOWN));
            }

            fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
                let code = input.byte()?;
                [$($choice),*].get(usize::from(code)).copied().ok_or(Malformed::Code(code))
            }
        })*
    };
}

/// The number of a choice that this version cannot write. Reading it fails.
const UNKNOWN: u8 = u8::MAX;

structs! {
    Keepalive { idle, interval, probes }
    MtuProbing { least, raise_after }
    UserTimeoutOption { least, most, changeable }
    Experiment { id, value }
    TraceConfig { records, keep }
    PathCacheConfig { paths_max, age_max }
    ReassemblyConfig { bytes_max, packets_max, fragments_max, timeout }
    ListenAddr { addr, port }
    ListenOptions {
        addr, backlog, syn_backlog, decisions_max, deferred, reuse_address, reuse_port, fast_open_max, tcp
    }
    BindOptions { addr, port, sharing }
    Sharing { reuse_address, reuse_port }
    Egress { link, mtu }
    LocalAddress { address, deprecated }
    UdpOptions { addr, receive_buffer_max, send_buffer_max, ttl, traffic_class, fragments }
    Limits { gso_max_v4, gso_max_v6, tx_checksum }
    RxMeta { checksum, segment_size }
    ChecksumAt { start, offset }
    UndoChoice { timestamps, dsack, frto, min_rtt_quarters }
    RtoConfig {
        srtt_gain, rttvar_gain, formula, arithmetic, initial, rto_min, rto_max, granularity, deviation_floor,
        heartbeat, sampling, backoff
    }
}

/// Ids, as the two parts of their numbers, since both are small.
macro_rules! ids {
    ($($type:ident: $bits:literal bits;)*) => {
        $(impl Value for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let number = self.to_number();
                (number & ((1 << $bits) - 1)).put(out);
                (number >> $bits).put(out);
            }

            fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
                let (low, high) = (u64::take(input)?, u64::take(input)?);
                let fits = low >> $bits == 0 && high << $bits >> $bits == high;
                fits.then(|| Self::from_number(high << $bits | low)).ok_or(Malformed::Number)
            }
        })*
    };
}

ids! {
    ConnectionId: 32 bits;
    ListenerId: 32 bits;
    IncomingId: 32 bits;
    BoundId: 16 bits;
}

impl Value for UdpId {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_number().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self::from_number(u64::take(input)?))
    }
}

choices! {
    TraceKeep [TraceKeep::All, TraceKeep::Newest, TraceKeep::Changes]
    Codepoint [Codepoint::NotEct, Codepoint::Ect1, Codepoint::Ect0, Codepoint::Ce]
    Decision [
        Decision::Accept,
        Decision::Reset,
        Decision::Drop,
        Decision::Unreachable(Unreachable::Network),
        Decision::Unreachable(Unreachable::Host),
        Decision::Unreachable(Unreachable::Prohibited)
    ]
    PingPolicy [PingPolicy::Own, PingPolicy::Any, PingPolicy::Deferred]
    PingAnswer [
        PingAnswer::Reply,
        PingAnswer::Unreachable(Unreachable::Network),
        PingAnswer::Unreachable(Unreachable::Host),
        PingAnswer::Unreachable(Unreachable::Prohibited)
    ]
    IdlePolicy [IdlePolicy::Keep, IdlePolicy::OneSegment, IdlePolicy::RestartWindow, IdlePolicy::Validated]
    Arithmetic [Arithmetic::Fine, Arithmetic::Ticks, Arithmetic::BsdTicks, Arithmetic::Bsd43]
    Backoff [Backoff::None, Backoff::Doubling, Backoff::Bsd43]
    DeviationFloor [DeviationFloor::Term, DeviationFloor::Deviation]
    Sampling [Sampling::EverySegment, Sampling::OncePerFlight]
}

/// The fields of [`TcpConfig`] and of its choices, and the order in which they are written.
macro_rules! tcp_config {
    ({ $($own:ident),* } choices { $($choice:ident),* } written: $($field:ident),*) => {
        impl Value for TcpConfig {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { choices: Choices { $($choice),* }, $($own),* } = self;
                $($field.put(out);)*
            }

            fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
                $(let $field = Value::take(input)?;)*
                Ok(Self { choices: Choices { $($choice),* }, $($own),* })
            }
        }
    };
}

tcp_config! {
    {
        profile, congestion, pacing_rate_max, experiment, trace, nodelay, keepalive, user_timeout,
        idle_timeout, mtu_probing, user_timeout_option, send_buffer_max, receive_buffer_max,
        receive_buffer_initial, mss_max, ttl, dscp, time_wait, fin_wait_2_max
    }
    choices {
        recovery, rto, start_up, undo, idle, pacing, initial_window_segments, acks, ecn, sack, timestamps,
        window_scaling, receiver_bandwidth
    }
    written: profile, congestion, start_up, pacing, pacing_rate_max, idle, recovery, rto, undo, acks,
        receiver_bandwidth, ecn, experiment, trace, nodelay, keepalive, user_timeout, idle_timeout,
        mtu_probing, user_timeout_option, send_buffer_max, receive_buffer_max, receive_buffer_initial,
        mss_max, ttl, dscp, timestamps, sack, window_scaling, initial_window_segments, time_wait,
        fin_wait_2_max
}

impl Value for Shaping {
    fn put(&self, out: &mut Vec<u8>) {
        self.rate.put(out);
        self.burst.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self::new(Value::take(input)?).burst(Value::take(input)?))
    }
}

impl Value for EndpointConfig {
    fn put(&self, out: &mut Vec<u8>) {
        // One endpoint alone is recorded, never one of several.
        let Self { addresses, mtu, broadcast, secret, connections_max, listeners_max, orphans_max, .. } =
            self;
        addresses.put(out);
        self.transparent.put(out);
        mtu.put(out);
        broadcast.put(out);
        secret.put(out);
        connections_max.put(out);
        listeners_max.put(out);
        orphans_max.put(out);
        let Self { time_wait_max, memory_budget, ephemeral_ports, timer_granularity, flow_labels, .. } = self;
        time_wait_max.put(out);
        memory_budget.put(out);
        ephemeral_ports.put(out);
        timer_granularity.put(out);
        flow_labels.put(out);
        self.header_prediction.put(out);
        self.other_packets.put(out);
        self.echo_replies_per_second.put(out);
        self.pings.put(out);
        self.pings_max.put(out);
        self.port_unreachable.put(out);
        self.reassembly.put(out);
        self.shaping.put(out);
        self.path_cache.put(out);
        self.tell_changes.put(out);
        self.tcp.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            addresses: Value::take(input)?,
            transparent: Value::take(input)?,
            mtu: bounded(Value::take(input)?, 68, 65_535)?,
            broadcast: Value::take(input)?,
            secret: Value::take(input)?,
            connections_max: Value::take(input)?,
            listeners_max: Value::take(input)?,
            orphans_max: Value::take(input)?,
            time_wait_max: Value::take(input)?,
            memory_budget: Value::take(input)?,
            // The bytes are zeros, but how `read_bytes` cuts them depends on the blocks that hold them.
            keep_bytes: true,
            histograms: true,
            ephemeral_ports: port_range(Value::take(input)?)?,
            timer_granularity: Value::take(input)?,
            flow_labels: Value::take(input)?,
            header_prediction: Value::take(input)?,
            other_packets: Value::take(input)?,
            echo_replies_per_second: Value::take(input)?,
            pings: Value::take(input)?,
            pings_max: Value::take(input)?,
            port_unreachable: Value::take(input)?,
            reassembly: Value::take(input)?,
            shaping: Value::take(input)?,
            path_cache: Value::take(input)?,
            tell_changes: Value::take(input)?,
            tcp: Value::take(input)?,
            shard: None,
        })
    }
}

fn port_range((first, last): (u16, u16)) -> Result<(u16, u16), Malformed> {
    if first == 0 || first > last { Err(Malformed::Number) } else { Ok((first, last)) }
}

fn bounded(value: usize, least: usize, most: usize) -> Result<usize, Malformed> {
    if (least..=most).contains(&value) { Ok(value) } else { Err(Malformed::Number) }
}

impl Value for ChecksumState {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Complete => out.push(0),
            Self::Partial(at) => {
                out.push(1);
                at.put(out);
            }
            Self::Verified => out.push(2),
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        match input.byte()? {
            0 => Ok(Self::Complete),
            1 => Ok(Self::Partial(Value::take(input)?)),
            2 => Ok(Self::Verified),
            code => Err(Malformed::Code(code)),
        }
    }
}

impl Value for Arc<dyn ControllerFactory> {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(&self.words(), out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let words = take_text(input)?;
        input.registry.find(words).map_err(Malformed::Controller)
    }
}

/// A profile's name. One that this version does not have is only a name: its choices are written besides.
impl Value for &'static str {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(self, out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Profile::find(take_text(input)?).map_or("recorded", |profile| profile.name))
    }
}

impl Value for Recovery {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(self.name(), out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Self::find(take_text(input)?).map_err(|_| Malformed::Name)
    }
}

impl Value for Ecn {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(self.name(), out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Self::find(take_text(input)?).map_err(|_| Malformed::Name)
    }
}

impl Value for SenderEstimatorKind {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(&self.to_string(), out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Self::find(take_text(input)?).map_err(|_| Malformed::Name)
    }
}

impl Value for AckPolicy {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::EverySecondSegment { delay_max } => {
                out.push(0);
                delay_max.put(out);
            }
            Self::EverySecondByTick { tick } => {
                out.push(1);
                tick.put(out);
            }
            Self::WindowShare { percent, delay_max } => {
                out.push(2);
                percent.put(out);
                delay_max.put(out);
            }
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        match input.byte()? {
            0 => Ok(Self::EverySecondSegment { delay_max: Value::take(input)? }),
            1 => Ok(Self::EverySecondByTick { tick: Value::take(input)? }),
            2 => Ok(Self::WindowShare { percent: Value::take(input)?, delay_max: Value::take(input)? }),
            code => Err(Malformed::Code(code)),
        }
    }
}

impl Value for Gain {
    fn put(&self, out: &mut Vec<u8>) {
        self.divisor().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        u16::take(input).map(Self::one_in)
    }
}

impl Value for Formula {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::MeanDeviation { k, adapt } => {
                out.push(0);
                k.put(out);
                adapt.put(out);
            }
            Self::SignedDeviation { k, k_falling } => {
                out.push(1);
                k.put(out);
                k_falling.put(out);
            }
            Self::Multiple { beta } => {
                out.push(2);
                beta.put(out);
            }
            Self::Static => out.push(3),
            _ => out.push(UNKNOWN),
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        match input.byte()? {
            0 => Ok(Self::MeanDeviation { k: Value::take(input)?, adapt: Value::take(input)? }),
            1 => Ok(Self::SignedDeviation { k: Value::take(input)?, k_falling: Value::take(input)? }),
            2 => Ok(Self::Multiple { beta: Value::take(input)? }),
            3 => Ok(Self::Static),
            code => Err(Malformed::Code(code)),
        }
    }
}
