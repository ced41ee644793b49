//! Writes and reads the settings of an endpoint, a listener and a connection. A choice is written by its name
//! in the grammar of choices, so that a program finds its own controllers again.

use std::sync::Arc;

use ackclock_control::congestion::form::factory;
use ackclock_form::{FormError, Reader, Writer};
use ackclock_wire::{ChecksumAt, Egress, Route};

use super::value::Value;
use ackclock_core::bandwidth::SenderEstimatorKind;
use ackclock_core::congestion::ControllerFactory;
use ackclock_core::profile::{Choices, Ecn, Profile, Recovery};
use ackclock_core::rtt::{Gain, RtoConfig};
use ackclock_core::{
    Decision, EndpointConfig, Limits, ListenOptions, PingAnswer, Shaping, Sharing, TcpConfig, Unreachable,
};

/// Structs that are their fields, one after the other.
macro_rules! structs {
    ($($type:ident { $($field:ident),* })*) => {
        $(impl Value for $type {
            fn put(&self, out: &mut Writer) {
                $(self.$field.put(out);)*
            }

            fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
                Ok(Self { $($field: Value::take(input)?),* })
            }
        })*
    };
}

impl<T: Value> Value for Route<T> {
    fn put(&self, out: &mut Writer) {
        self.destination.put(out);
        self.to.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok(Self { destination: Value::take(input)?, to: Value::take(input)? })
    }
}

/// Choices that are a number in a list.
macro_rules! choices {
    ($($type:ident [$($choice:expr),*])*) => {
        $(impl Value for $type {
            fn put(&self, out: &mut Writer) {
                let known = [$($choice),*];
                let at = known.iter().position(|choice| choice == self);
                out.push(at.and_then(|at| u8::try_from(at).ok()).unwrap_or(UNKNOWN));
            }

            fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
                let code = input.byte()?;
                [$($choice),*].get(usize::from(code)).copied().ok_or(FormError::Code(code))
            }
        })*
    };
}

/// The number of a choice that this version cannot write. Reading it fails.
const UNKNOWN: u8 = u8::MAX;

structs! {
    ListenOptions {
        addr, backlog, syn_backlog, decisions_max, deferred, reuse_address, reuse_port, fast_open_max, tcp
    }
    Sharing { reuse_address, reuse_port }
    Egress { link, mtu }
    Limits { gso_max_v4, gso_max_v6, tx_checksum }
    ChecksumAt { start, offset }
    RtoConfig {
        srtt_gain, rttvar_gain, formula, arithmetic, initial, rto_min, rto_max, granularity, deviation_floor,
        heartbeat, sampling, backoff
    }
}

choices! {
    Decision [
        Decision::Accept,
        Decision::Reset,
        Decision::Drop,
        Decision::Unreachable(Unreachable::Network),
        Decision::Unreachable(Unreachable::Host),
        Decision::Unreachable(Unreachable::Prohibited)
    ]
    PingAnswer [
        PingAnswer::Reply,
        PingAnswer::Unreachable(Unreachable::Network),
        PingAnswer::Unreachable(Unreachable::Host),
        PingAnswer::Unreachable(Unreachable::Prohibited)
    ]
}

/// The fields of [`TcpConfig`] and of its choices, and the order in which they are written.
macro_rules! tcp_config {
    ({ $($own:ident),* } choices { $($choice:ident),* } written: $($field:ident),*) => {
        impl Value for TcpConfig {
            fn put(&self, out: &mut Writer) {
                let Self { choices: Choices { $($choice),* }, $($own),* } = self;
                $($field.put(out);)*
            }

            fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
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
    fn put(&self, out: &mut Writer) {
        self.rate.put(out);
        self.burst.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok(Self::new(Value::take(input)?).burst(Value::take(input)?))
    }
}

impl Value for EndpointConfig {
    fn put(&self, out: &mut Writer) {
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

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
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

fn port_range((first, last): (u16, u16)) -> Result<(u16, u16), FormError> {
    if first == 0 || first > last { Err(FormError::Number) } else { Ok((first, last)) }
}

fn bounded(value: usize, least: usize, most: usize) -> Result<usize, FormError> {
    if (least..=most).contains(&value) { Ok(value) } else { Err(FormError::Number) }
}

impl Value for Arc<dyn ControllerFactory> {
    fn put(&self, out: &mut Writer) {
        factory::write(self, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        factory::read(input)
    }
}

/// A profile's name. One that this version does not have is only a name: its choices are written besides.
impl Value for &'static str {
    fn put(&self, out: &mut Writer) {
        out.text(self);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok(Profile::find(input.text()?).map_or("recorded", |profile| profile.name))
    }
}

impl Value for Recovery {
    fn put(&self, out: &mut Writer) {
        out.text(self.name());
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Self::find(input.text()?).map_err(|_| FormError::Name)
    }
}

impl Value for Ecn {
    fn put(&self, out: &mut Writer) {
        out.text(self.name());
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Self::find(input.text()?).map_err(|_| FormError::Name)
    }
}

impl Value for SenderEstimatorKind {
    fn put(&self, out: &mut Writer) {
        out.text(&self.to_string());
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Self::find(input.text()?).map_err(|_| FormError::Name)
    }
}

/// As one number, which version 1 of the format says; a form says before it whether there is one.
impl Value for Gain {
    fn put(&self, out: &mut Writer) {
        self.divisor().put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        u16::take(input).map(Self::one_in)
    }
}
