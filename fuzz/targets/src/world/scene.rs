//! The beginning of a pair, and the steps that may follow.

use std::sync::Arc;
use std::time::Duration;

use ackclock_core::trace::{TraceConfig, TraceKeep};
use ackclock_core::{EndpointConfig, MtuProbing, ReassemblyConfig};
use ackclock_tests::fuzz::{Input, endpoint_config};
use ackclock_wire::Experiment;
use arbitrary::Arbitrary;

use super::addr_of;
use super::wire::BROADCAST;

/// The beginning of a pair.
#[derive(Debug, Arbitrary)]
pub(super) struct Scene {
    pub(super) v6: bool,
    /// The settings of each side, as `ackclock_tests::fuzz` reads them.
    settings: [[u8; 24]; 2],
    reassembles: bool,
    gso: u8,
    budget: u8,
}

impl Scene {
    pub(super) fn config(&self, side: usize) -> EndpointConfig {
        let number = if side == 0 { 1 } else { 2 };
        let mut input = Input::new(&self.settings[side]);
        let mut config = endpoint_config(&mut input, vec![addr_of(self.v6, number)], None);
        config.secret[31] = number;
        config.mtu = config.mtu.min(9000);
        if self.budget >> (4 * side) & 7 == 0 {
            config.memory_budget = 30_000;
        }
        if self.reassembles {
            let bounds = ReassemblyConfig { bytes_max: 8192, packets_max: 4, ..ReassemblyConfig::default() };
            config.reassembly = Some(Box::new(bounds));
        }
        let tcp = Arc::make_mut(&mut config.tcp);
        // Bits that neither `gso_max` nor the budget above reads.
        let chosen = |byte: u8, bit: u8| byte & bit << (4 * side) != 0;
        tcp.trace = chosen(self.gso, 4).then_some(TraceConfig::FULL);
        config.tell_changes = chosen(self.gso, 8);
        tcp.mtu_probing = chosen(self.budget, 8).then(Box::default);
        tcp.user_timeout_option = chosen(self.settings[side][23], 8).then(Box::default);
        if chosen(self.settings[side][23], 4) {
            tcp.experiment = Some(Experiment { id: 0x1234, value: [number; 8] });
        }
        self.rarer(side, &mut config);
        config
    }

    /// Settings that few lives need, each in one of four, from bytes that `endpoint_config` does not read.
    fn rarer(&self, side: usize, config: &mut EndpointConfig) {
        let one_in_four = |byte: usize, pair: u8| self.settings[side][byte] >> (2 * pair) & 3 == 3;
        let second = Duration::from_secs(1);
        if one_in_four(19, 0) {
            config.flow_labels = false;
            config.timer_granularity = second / 100;
        }
        if one_in_four(19, 1) {
            config.ephemeral_ports = (4002, 4005);
            config.listeners_max = 3;
        }
        if one_in_four(19, 2) {
            config.broadcast = vec![addr_of(self.v6, BROADCAST)];
            config.other_packets = 4;
        }
        if one_in_four(19, 3) {
            config.echo_replies_per_second = 1;
            config.port_unreachable = false;
        }
        let tcp = Arc::make_mut(&mut config.tcp);
        if one_in_four(20, 0) {
            tcp.mtu_probing = Some(Box::new(MtuProbing { least: 600, raise_after: 3 * second }));
        }
        if one_in_four(20, 1) {
            tcp.trace = Some(TraceConfig { records: 64, keep: TraceKeep::Newest });
        }
        if one_in_four(21, 0) {
            (tcp.ttl, tcp.dscp) = (9, 10);
        }
        if one_in_four(21, 1) {
            tcp.pacing_rate_max = Some(100_000);
        }
        if one_in_four(21, 2) {
            tcp.receive_buffer_initial = 3000;
        }
        if one_in_four(21, 3) {
            tcp.choices.initial_window_segments = 2;
        }
        if one_in_four(22, 0) {
            tcp.choices.rto.rto_min = second;
        }
        if one_in_four(22, 1) {
            tcp.choices.receiver_bandwidth = Some(8);
        }
    }

    pub(super) fn gso_max(&self, side: usize) -> usize {
        if self.gso >> (4 * side) & 3 == 0 { 20_000 } else { 0 }
    }
}

/// A step, and how much of what is under way arrives behind it.
#[derive(Debug, Arbitrary)]
pub(super) struct Turn {
    pub(super) step: Step,
    pace: u8,
}

impl Turn {
    pub(super) fn pace(&self) -> usize {
        [0, 1, 2, 8, 64, 64, 64, 64][usize::from(self.pace % 8)]
    }
}

/// A possible step. `which` picks one of those that exist, modulo their number.
#[derive(Debug, Arbitrary)]
pub(super) enum Step {
    Connect {
        side: bool,
        port: u8,
        local: u8,
    },
    Listen {
        side: bool,
        port: u8,
        kind: u8,
    },
    CloseListener {
        side: bool,
        which: u8,
    },
    Accept {
        side: bool,
        which: u8,
    },
    AcceptAgain {
        side: bool,
        which: u8,
    },
    Decide {
        side: bool,
        which: u8,
        how: u8,
    },
    Write {
        side: bool,
        which: u8,
        len: u16,
    },
    WriteAgain {
        side: bool,
        which: u8,
        len: u16,
    },
    Read {
        side: bool,
        which: u8,
        len: u16,
    },
    Call {
        side: bool,
        which: u8,
        what: u8,
        by: u8,
    },
    Release {
        side: bool,
        which: u8,
    },
    Datagram {
        side: bool,
        port: u8,
        len: u16,
    },
    Bind {
        side: bool,
        port: u8,
    },
    /// A packet overtakes those before it.
    Arrive(u8),
    Lose(u8),
    Double(u8),
    Damage {
        which: u8,
        at: u8,
        by: u8,
    },
    /// A packet is cut into fragments.
    Cut {
        which: u8,
        size: u8,
    },
    /// A copy without payload comes with other numbers.
    Forge {
        which: u8,
        forged: Forged,
    },
    /// A segment from a third host.
    Stranger {
        side: bool,
        from: u8,
        port: u8,
        forged: Forged,
    },
    Icmp {
        which: u8,
        kind: u8,
        mtu: u16,
    },
    Pass {
        by: u8,
        flows: bool,
    },
    Expire,
    Jump(u8),
    Device {
        side: bool,
        what: u8,
    },
}

/// The header of a forged segment: numbers relative to a true one, or any.
#[derive(Debug, Arbitrary)]
pub(super) struct Forged {
    pub(super) flags: u8,
    pub(super) seq: Distance,
    pub(super) ack: Distance,
    pub(super) window: u16,
    pub(super) options: [u8; 4],
}

/// How far from the true number.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(super) enum Distance {
    None,
    Small(i8),
    Middle(i16),
    Any(u32),
}

impl Distance {
    pub(super) fn from(self, number: u32) -> u32 {
        let by = match self {
            Self::None => 0,
            Self::Small(by) => i32::from(by).cast_unsigned(),
            Self::Middle(by) => i32::from(by).cast_unsigned(),
            Self::Any(by) => by,
        };
        number.wrapping_add(by)
    }
}

/// From nothing to half an hour, the short ones more often.
pub(super) fn duration(byte: u8) -> Duration {
    let micros = u64::from(1 + byte % 16) << (byte / 16 * 2);
    Duration::from_micros(micros - 1)
}
