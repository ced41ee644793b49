//! The settings of an endpoint, drawn from bytes.

use std::net::IpAddr;
use std::time::Duration;

use ackclock_control::bandwidth::SenderEstimatorKind;
use ackclock_control::congestion::{IdlePolicy, Registry};
use ackclock_control::profile::{AckPolicy, Ecn, Profile, Recovery, UndoChoice};
use ackclock_core::{EndpointConfig, Keepalive, TcpConfig};

use super::{Input, Scene};
use crate::host::host_addr;

/// The choices of which every combination must work.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    /// How losses are found and repaired.
    pub recovery: Recovery,
    /// Which proofs take a wrong reduction back.
    pub undo: UndoChoice,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// When the receiver acknowledges.
    pub acks: AckPolicy,
}

/// Every combination.
pub fn every_choice() -> impl Iterator<Item = Choices> {
    Recovery::ALL.into_iter().flat_map(|(_, recovery)| {
        UNDO.into_iter().flat_map(move |undo| {
            ECN.into_iter()
                .flat_map(move |ecn| ACKS.into_iter().map(move |acks| Choices { recovery, undo, ecn, acks }))
        })
    })
}

pub(super) fn scene(input: &mut Input<'_>, choices: Option<Choices>) -> Scene {
    let v6 = input.chance(4);
    let config = endpoint_config(input, vec![host_addr(v6, 1)], choices);
    let gso_max = input.pick(&[0, 65_535, 20_000]);
    Scene { config, v6, gso_max }
}

/// The settings that the bytes make of an endpoint with these addresses.
pub fn endpoint_config(
    input: &mut Input<'_>,
    addresses: Vec<IpAddr>,
    choices: Option<Choices>,
) -> EndpointConfig {
    let mut config = EndpointConfig::new(addresses, [input.byte(); 32]);
    config.mtu = input.pick(&[1500, 1500, 1280, 9000, 65_535]);
    config.connections_max = input.pick(&[1 << 20, 1 << 20, 1, 3]);
    config.orphans_max = input.pick(&[65_536, 1, 2]);
    config.time_wait_max = input.pick(&[65_536, 1]);
    config.memory_budget = input.pick(&[1 << 30, 1 << 30, 100_000, 10_000]);
    config.tcp = tcp(input, choices).into();
    config
}

fn tcp(input: &mut Input<'_>, choices: Option<Choices>) -> TcpConfig {
    let registry = Registry::with_experiments();
    let profiles: Vec<Profile> = Profile::all().collect();
    let mut tcp = TcpConfig::default();
    tcp.apply(&input.pick(&profiles), &registry).expect("its controller is registered");
    let drawn = Choices {
        recovery: input.pick(&Recovery::ALL).1,
        undo: input.pick(&UNDO),
        ecn: input.pick(&ECN),
        acks: input.pick(&ACKS),
    };
    let chosen = choices.unwrap_or(drawn);
    if choices.is_some() || input.chance(2) {
        Choices {
            recovery: tcp.choices.recovery,
            undo: tcp.choices.undo,
            ecn: tcp.choices.ecn,
            acks: tcp.choices.acks,
        } = chosen;
    }
    tcp.choices.start_up = input.pick(&[
        None,
        None,
        Some(SenderEstimatorKind::Tssf { n: 3 }),
        Some(SenderEstimatorKind::PacketPair),
    ]);
    tcp.choices.idle = input.pick(&[
        IdlePolicy::Keep,
        IdlePolicy::OneSegment,
        IdlePolicy::RestartWindow,
        IdlePolicy::Validated,
    ]);
    let flags = input.byte();
    tcp.choices.pacing = flags & 1 != 0;
    tcp.nodelay = flags & 2 != 0;
    tcp.choices.timestamps = flags & 4 != 0;
    tcp.choices.sack = flags & 24 != 0;
    tcp.choices.window_scaling = flags & 32 != 0;
    let second = Duration::from_secs(1);
    tcp.keepalive =
        (flags & 192 == 0).then_some(Keepalive { idle: 10 * second, interval: second, probes: 3 });
    tcp.user_timeout = input.pick(&[None, None, Some(second), Some(60 * second)]);
    tcp.send_buffer_max = input.pick(&[4 << 20, 1, 3_000, 65_536]);
    tcp.receive_buffer_max = input.pick(&[6 << 20, 1, 3_000, 65_535]);
    tcp.mss_max = input.pick(&[None, None, Some(216), Some(536)]);
    tcp
}

const UNDO: [UndoChoice; 24] = {
    let mut all = [UndoChoice { timestamps: false, dsack: false, frto: false, min_rtt_quarters: None }; 24];
    let mut i = 0;
    while i < all.len() {
        all[i] = UndoChoice {
            timestamps: i & 1 != 0,
            dsack: i & 2 != 0,
            frto: i & 4 != 0,
            min_rtt_quarters: [None, Some(2), Some(3)][i / 8],
        };
        i += 1;
    }
    all
};
const ECN: [Ecn; 3] = [Ecn::Off, Ecn::Classic, Ecn::Accurate];
const ACKS: [AckPolicy; 3] = [
    AckPolicy::EverySecondSegment { delay_max: Duration::from_millis(40) },
    AckPolicy::WindowShare { percent: 35, delay_max: Duration::from_millis(200) },
    AckPolicy::EverySecondSegment { delay_max: Duration::from_millis(500) },
];
