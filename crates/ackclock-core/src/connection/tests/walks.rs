//! Two joined connections with settings of all kinds, over a path that loses, delays and overtakes.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::*;
use crate::congestion::{IdlePolicy, Registry};
use crate::profile::{AckPolicy, Ecn, Recovery, UndoChoice};
use crate::walks::{Walk, check};
use crate::{Keepalive, MtuProbing, UserTimeoutOption};

const STEPS: u64 = 120;
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn connections_go_as_before() {
    check("connection/tests/walks.txt", 60, |walk| {
        let configs = [settings(walk), settings(walk)];
        let limits = if walk.one_in(2) { software(1500) } else { software(20_000) };
        let mut pair = Pair::crossing(configs, limits, path(walk));
        for _ in 0..STEPS {
            step(&mut pair, walk);
            for end in &mut pair.ends {
                walk.see(end);
                walk.see(&(end.info(pair.now), end.delivery(), end.limited_by(), end.poll_timeout()));
                walk.see(&(end.is_flushed(), end.is_writable(), end.write_room(), end.urgent_remaining()));
                walk.see(&(end.take_readiness(), end.buffer_max(), end.stalled_since(pair.now)));
            }
        }
    });
}

/// Which packets are lost, and how long the others take.
fn path(walk: &mut Walk) -> Path {
    let (seed, loss) = (walk.below(u64::MAX), walk.pick(&[0, 0, 8, 40]));
    let delays = walk.pick(&[[10, 10, 10], [10, 10, 45], [5, 5, 6], [100, 100, 700]]);
    Box::new(move |side, number| {
        let mut hasher = SipHasher13::new_with_keys(seed, side as u64);
        hasher.write_u64(number);
        let drawn = hasher.finish();
        if drawn % 100 < loss {
            return Fate::Drop;
        }
        Fate::Deliver(Duration::from_millis(delays[usize::try_from(drawn / 100 % 3).unwrap()]))
    })
}

pub(super) fn settings(walk: &mut Walk) -> TcpConfig {
    let mut tcp = TcpConfig::default();
    let registry = Registry::with_experiments();
    let names: Vec<_> = registry.names().collect();
    tcp.congestion = registry.find(if walk.one_in(2) { "cubic" } else { walk.pick(&names) }).unwrap();
    let choices = &mut tcp.choices;
    choices.recovery = walk.pick(&Recovery::ALL).1;
    choices.undo = walk.pick(&[UndoChoice::OFF, UndoChoice::ALL]);
    choices.idle = walk.pick(&IdlePolicy::ALL).1;
    choices.ecn = walk.pick(&Ecn::ALL).1;
    choices.acks = walk.pick(&ACKS);
    choices.pacing = walk.one_in(3);
    choices.sack = !walk.one_in(4);
    choices.timestamps = !walk.one_in(4);
    choices.window_scaling = !walk.one_in(4);
    choices.receiver_bandwidth = walk.one_in(4).then_some(8);
    tcp.nodelay = walk.one_in(3);
    tcp.keepalive = walk.one_in(3).then_some(Keepalive { idle: 2 * SECOND, interval: SECOND, probes: 2 });
    tcp.user_timeout = walk.pick(&[None, None, Some(SECOND), Some(30 * SECOND)]);
    tcp.user_timeout_option = walk.one_in(3).then(Box::<UserTimeoutOption>::default);
    let probing = MtuProbing { raise_after: 5 * SECOND, ..MtuProbing::default() };
    tcp.mtu_probing = walk.one_in(2).then(|| Box::new(probing));
    tcp.send_buffer_max = walk.pick(&[4 << 20, 4 << 20, 3000, 1]);
    tcp.receive_buffer_max = walk.pick(&[6 << 20, 6 << 20, 65_535, 4000, 1]);
    tcp.receive_buffer_initial = walk.pick(&[65_535, 65_535, 3000]);
    tcp.mss_max = walk.pick(&[None, None, Some(536), Some(216)]);
    (tcp.time_wait, tcp.fin_wait_2_max) = walk.pick(&[(SECOND, SECOND), (60 * SECOND, 60 * SECOND)]);
    tcp.trace = walk.one_in(3).then_some(TraceConfig::FULL);
    tcp
}

fn step(pair: &mut Pair, walk: &mut Walk) {
    let (now, side) = (pair.now, usize::try_from(walk.below(2)).unwrap());
    let end = &mut pair.ends[side];
    match walk.below(20) {
        0..=5 => {
            let len = walk.pick(&[1, 100, 1448, 1460, 5000, 50_000]);
            let written = end.write(now, &vec![7; len]);
            walk.see(&written.is_ok());
        }
        6..=8 => {
            let mut into = vec![0; walk.pick(&[1, 536, 4000, 100_000])];
            walk.see(&end.read(now, &mut into).is_ok());
        }
        9..=11 => call(end, now, walk),
        12 => {
            let told = walk.pick(&[1500, 1400, 1000, 600, 68, 0]);
            let kinds = [
                ackclock_wire::IcmpKind::PacketTooBig { mtu: told },
                ackclock_wire::IcmpKind::PacketTooBig { mtu: told },
                ackclock_wire::IcmpKind::HostUnreachable,
            ];
            let quoted = end.info(now).unacked as u32;
            let seq = end.snd.flight().una().seq() + walk.pick(&[0, 0, quoted]);
            end.handle_icmp(now, walk.pick(&kinds), seq);
        }
        13 if walk.one_in(6) => walk.see(&end.shutdown(now).is_ok()),
        13 if walk.one_in(20) => end.abort(now),
        14 => end.set_mtu(now, walk.pick(&[1500, 1500, 1280, 9000])),
        _ => {
            let span = walk.pick(&[0, 1, 10, 20, 40, 200, 1000, 10_000]);
            pair.late = Duration::from_millis(walk.pick(&[0, 0, 0, 3]));
            pair.run_for(Duration::from_millis(span));
        }
    }
}

/// Any setting.
pub(super) fn call(end: &mut Connection, now: Instant, walk: &mut Walk) {
    let on = walk.one_in(2);
    match walk.below(14) {
        0 => end.set_nodelay(now, on),
        1 => end.set_quickack(on),
        2 => end.set_cork(now, on),
        3 => end.set_more_follows(on),
        4 => walk.see(&end.set_user_timeout(now, on.then_some(3 * SECOND)).is_ok()),
        5 => end.set_send_buffer_max(walk.pick(&[1, 3000, 1 << 20])),
        6 => end.set_receive_buffer_max(walk.pick(&[1, 3000, 1 << 20])),
        7 => walk.see(&end.set_max_pacing_rate(now, on.then_some(100_000)).is_ok()),
        8 => end.set_not_sent_lowat(on.then_some(3000)),
        9 => end.set_recovery(now, walk.pick(&Recovery::ALL).1),
        10 => {
            let set = end.set_acks(walk.pick(&ACKS));
            walk.see(&set.is_ok());
        }
        11 => walk.see(&end.write_urgent(now, b"urgent").is_ok()),
        12 => {
            let keepalive = Keepalive { idle: SECOND, interval: SECOND, probes: 1 };
            walk.see(&end.set_keepalive(now, on.then_some(keepalive)).is_ok());
        }
        _ => end.set_trace(now, on.then_some(TraceConfig { records: 64, keep: TraceKeep::Newest })),
    }
}

const ACKS: [AckPolicy; 3] = [
    AckPolicy::EVERY_SECOND,
    AckPolicy::BSD_4_3,
    AckPolicy::EverySecondByTick { tick: Duration::from_millis(200) },
];
