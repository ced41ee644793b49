//! Two joined connections with settings of all kinds, over a path that loses, delays and overtakes, beside
//! the plainest model of them: two streams of bytes.

use std::hash::Hasher as _;

use ackclock_test_support::rng::fill_stream;
use siphasher::sip::SipHasher13;

use super::*;
use crate::congestion::{IdlePolicy, Registry};
use crate::profile::{AckPolicy, Ecn, Recovery, UndoChoice};
use crate::walks::{Walk, each};
use crate::{Keepalive, MtuProbing, UserTimeoutOption};

const STEPS: u64 = 120;
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn streams_arrive_as_written_whatever_happens() {
    each(60, |walk| {
        let configs = [settings(walk), settings(walk)];
        let limits = if walk.one_in(2) { software(1500) } else { software(20_000) };
        let pair = ConnectionPair::crossing(configs, limits, path(walk));
        let mut streams = Streams { pair, written: [0; 2], read: [0; 2] };
        for _ in 0..STEPS {
            step(&mut streams, walk);
            streams.check();
        }
        streams.finish();
    });
}

/// The two ends, and what their applications know.
struct Streams {
    pair: ConnectionPair,
    /// Bytes that each end has written.
    written: [u64; 2],
    /// Bytes that each end has read.
    read: [u64; 2],
}

impl Streams {
    /// An end writes the next bytes of its stream.
    fn write(&mut self, side: usize, len: usize) {
        let (now, end) = (self.pair.now, &mut self.pair.ends[side]);
        let mut data = vec![0; len];
        fill_stream(side as u64, self.written[side], &mut data);
        let (is_writable, room) = (end.is_writable(), end.write_room());
        if let Ok(took) = end.write(now, &data) {
            assert!(is_writable && (1..=len.min(room)).contains(&took), "{took} of {len} taken, {room}");
            assert!(took == len.min(room) || end.snd.budget().used() > 0, "as much as there is room for");
            self.written[side] += took as u64;
        }
    }

    fn read(&mut self, side: usize, most: usize) {
        let (now, end) = (self.pair.now, &mut self.pair.ends[side]);
        let (readable, is_readable) = (end.readable(), end.is_readable());
        let mut into = vec![0; most];
        let Ok(len) = end.read(now, &mut into) else { return };
        assert!(is_readable);
        assert_eq!(len, most.min(readable));
        let mut expected = vec![0; len];
        fill_stream(1 - side as u64, self.read[side], &mut expected);
        assert!(into[..len] == expected, "read what was written");
        self.read[side] += len as u64;
        if len == 0 && readable == 0 && most > 0 && self.pair.ends[side].error().is_none() {
            let over = self.pair.ends[side].has_peer_ended();
            assert!(over, "an end of the stream only after its FIN");
        }
    }

    /// Each end's account of the streams agrees with the bytes that were written and read.
    fn check(&self) {
        for (side, end) in self.pair.ends.iter().enumerate() {
            let (info, delivery) = (end.info(self.pair.now), end.delivery());
            if end.state().is_synchronized() && end.error().is_none() {
                let other = self.pair.ends[1 - side].info(self.pair.now);
                assert_eq!(delivery.written, self.written[side]);
                let heard = other.bytes_received;
                assert!(delivery.acked <= heard && heard <= self.written[side], "{heard} of {delivery:?}");
                // The SYN or the FIN is outstanding, too.
                let sent = self.written[side] - delivery.not_sent;
                assert!(
                    (0..=1).contains(&(info.unacked as i64 - (sent - delivery.acked) as i64)),
                    "{info:?}"
                );
                assert_eq!(info.send_queue as u64, self.written[side] - delivery.acked);
                assert_eq!(end.readable() as u64, info.bytes_received - self.read[side]);
                assert!(info.sacked + info.lost + info.in_flight <= info.unacked);
                assert_eq!(
                    end.is_flushed() && !end.is_write_closed(),
                    info.send_queue == 0 && !end.is_write_closed()
                );
                assert_eq!(end.is_writable(), end.write_room() > 0 || end.is_write_closed());
            }
            assert!(end.poll_timeout().is_none_or(|due| due + self.pair.late > self.pair.now - SECOND));
            assert!(info.snd_mss > 0 && info.cwnd > 0 && info.rto > Duration::ZERO);
            assert!(info.bytes_retransmitted <= info.bytes_sent);
        }
    }

    /// Nothing is lost any more, and both ends read: a stream does not stall.
    fn finish(&mut self) {
        self.pair.path = perfect();
        let until = self.pair.now + 1000 * SECOND;
        let mut heard = (self.pair.now, self.read);
        while self.pair.now < until {
            let is_left = |side: usize| {
                let end = &self.pair.ends[side];
                end.state().is_synchronized() && end.error().is_none() && !end.is_flushed()
            };
            if !is_left(0) && !is_left(1)
                || self.pair.ends.iter().any(|end| end.error().is_some() || end.is_gone())
            {
                break;
            }
            (0..2).for_each(|side| self.read(side, 1 << 20));
            if self.read != heard.1 {
                heard = (self.pair.now, self.read);
            }
            assert!(self.pair.now < heard.0 + 200 * SECOND, "stalled: {:?}", self.pair.ends[0].info(until));
            self.pair.run_for(SECOND);
            self.check();
        }
    }
}

/// Which packets are lost, and how long the others take.
fn path(walk: &mut Walk) -> PathRule {
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

fn step(streams: &mut Streams, walk: &mut Walk) {
    let side = usize::try_from(walk.below(2)).unwrap();
    let pair = &mut streams.pair;
    let (now, end) = (pair.now, &mut pair.ends[side]);
    match walk.below(20) {
        0..=5 => {
            let len = walk.pick(&[1, 100, 1448, 1460, 5000, 50_000]);
            streams.write(side, len);
        }
        6..=8 => {
            let most = walk.pick(&[1, 536, 4000, 100_000]);
            streams.read(side, most);
        }
        9..=11 => {
            let mut urgent = [0; 6];
            fill_stream(side as u64, streams.written[side], &mut urgent);
            streams.written[side] += call_or_write(end, now, walk, &urgent) as u64;
        }
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
        13 if walk.one_in(6) => {
            let before = end.is_write_closed();
            assert!(end.shutdown(now).is_err() || end.is_write_closed() || before);
        }
        13 if walk.one_in(20) => end.abort(now),
        14 => end.set_mtu(now, walk.pick(&[1500, 1500, 1280, 9000])),
        _ => {
            let span = walk.pick(&[0, 1, 10, 20, 40, 200, 1000, 10_000]);
            pair.late = Duration::from_millis(walk.pick(&[0, 0, 0, 3]));
            pair.run_for(Duration::from_millis(span));
        }
    }
}

pub(super) fn call(end: &mut Connection, now: Instant, walk: &mut Walk) {
    call_or_write(end, now, walk, b"urgent");
}

/// Any setting, or urgent data. What was set can be asked for. Returns how much was written.
fn call_or_write(end: &mut Connection, now: Instant, walk: &mut Walk, urgent: &[u8]) -> usize {
    let on = walk.one_in(2);
    match walk.below(14) {
        0 => {
            end.set_nodelay(now, on);
            assert_eq!(end.nodelay(), on);
        }
        1 => {
            end.set_quickack(on);
            assert_eq!(end.quickack(), on);
        }
        2 => end.set_cork(now, on),
        3 => end.set_more_follows(on),
        4 => {
            let limit = on.then_some(3 * SECOND);
            if end.set_user_timeout(now, limit).is_ok() {
                assert_eq!(end.user_timeout(), limit);
            }
        }
        5 => {
            let bytes = walk.pick(&[1, 3000, 1 << 20]);
            end.set_send_buffer_max(bytes);
            assert_eq!(end.buffer_max().0, bytes);
        }
        6 => end.set_receive_buffer_max(walk.pick(&[1, 3000, 1 << 20])),
        7 => {
            let rate = on.then_some(100_000);
            end.set_max_pacing_rate(now, rate).unwrap();
            assert_eq!(end.max_pacing_rate(), rate);
        }
        8 => {
            end.set_not_sent_lowat(on.then_some(3000));
            assert_eq!(end.not_sent_lowat(), on.then_some(3000));
        }
        9 => {
            let policy = walk.pick(&Recovery::ALL).1;
            end.set_recovery(now, policy);
            let falls_back = !end.info(now).sack;
            assert!(end.recovery() == policy || falls_back || !end.is_established());
        }
        10 => {
            let policy = walk.pick(&ACKS);
            end.set_acks(policy).unwrap();
            assert_eq!(end.info(now).acks, policy);
        }
        11 => return end.write_urgent(now, urgent).unwrap_or(0),
        12 => {
            let keepalive = on.then_some(Keepalive { idle: SECOND, interval: SECOND, probes: 1 });
            end.set_keepalive(now, keepalive).unwrap();
            assert_eq!(end.keepalive(), keepalive);
        }
        _ => {
            let config = on.then_some(TraceConfig { records: 64, keep: TraceKeep::Newest });
            end.set_trace(now, config);
            assert_eq!(end.trace_config().is_some(), on);
        }
    }
    0
}

const ACKS: [AckPolicy; 3] = [
    AckPolicy::EVERY_SECOND,
    AckPolicy::BSD_4_3,
    AckPolicy::EverySecondByTick { tick: Duration::from_millis(200) },
];
