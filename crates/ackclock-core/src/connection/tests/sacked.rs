//! RFC 6675 §4: each octet that the peer reports is marked, in whatever segments it left.

use ackclock_wire::icmp::IcmpKind;
use ackclock_wire::{Codepoint, Fields, SackBlocks, TcpOptions};

use super::lone::{Lone, SMSS};
use super::*;
use crate::profile::Recovery;
use crate::trace::LossRule;

/// A sender on a device that cuts large packets itself.
fn on_device_that_cuts(recovery: Recovery) -> Lone {
    let mut tcp = TcpConfig::default();
    tcp.choices.pacing = false;
    tcp.choices.recovery = recovery;
    let mut lone = Lone::new(tcp);
    lone.limits = Limits { gso_max_v4: 65_535, ..software(1500) };
    lone
}

/// Everything before `una + acked` is acknowledged, and these ranges beyond `una` are reported.
fn report(lone: &mut Lone, una: SeqNum, acked: u32, ranges: &[(u32, u32)]) {
    for some in ranges.chunks(3) {
        let mut sack = SackBlocks::default();
        some.iter().for_each(|&(start, end)| sack.push(una + start, una + end));
        let options = TcpOptions { sack, ..TcpOptions::default() };
        let fields = Fields { options, ..lone.ack(una + acked, 65_535) };
        lone.give(&fields, Codepoint::NotEct, &[]);
    }
}

/// The bytes held beyond a gap, and those found to be lost by what is held.
fn known(lone: &Lone) -> (u64, u64) {
    let info = lone.end.info(lone.now);
    (info.sacked, info.losses.of(LossRule::LaterDelivered) + info.losses.of(LossRule::SackEvidence))
}

/// Every second of `count` segments of `size` bytes, from the second on.
fn every_second(count: u32, size: u32) -> Vec<(u32, u32)> {
    (0..count).filter(|k| k % 2 == 1).map(|k| (k * size, (k + 1) * size)).collect()
}

/// A gap in the other direction puts SACK blocks on each segment, whose payload is 12 bytes less. The device
/// cuts a packet of ten such segments, and the path loses every second.
#[test]
fn segments_made_short_by_options_are_held_whole() {
    for recovery in [Recovery::RackTlp, Recovery::Sack] {
        let mut lone = on_device_that_cuts(recovery);
        let beyond = Fields {
            seq: lone.end.rcv.nxt().seq() + 100,
            ..lone.ack(lone.end.snd.flight().una().seq(), 65_535)
        };
        lone.give(&beyond, Codepoint::NotEct, &[1; 100]);
        lone.sent();
        let una = lone.end.snd.flight().una().seq();
        lone.end.write(lone.now, &[2; 40_000]).unwrap();
        let size = SMSS - 12;
        assert_eq!(lone.sizes(), [10 * size], "one packet for the device");
        lone.now += Duration::from_millis(20);
        report(&mut lone, una, 0, &every_second(10, size as u32));
        let (held, lost) = known(&lone);
        assert_eq!(held, 5 * size as u64, "{recovery:?}: each octet");
        // The last is held, so all five gaps lie below three held segments or were sent before a held one.
        let found = if recovery == Recovery::Sack { 4 } else { 5 };
        assert!((3 * size as u64..=found * size as u64).contains(&lost), "{recovery:?}: {lost}");
    }
}

/// After "packet too big" the data in flight leaves again, as one packet for the device, cut into smaller
/// segments.
#[test]
fn segments_that_a_router_made_smaller_are_held_whole() {
    for written in [2 * SMSS, 5 * SMSS] {
        let mut lone = on_device_that_cuts(Recovery::RackTlp);
        let una = lone.end.snd.flight().una().seq();
        lone.end.write(lone.now, &vec![2; written]).unwrap();
        lone.sent();
        lone.end.handle_icmp(lone.now, IcmpKind::PacketTooBig { mtu: 670 }, una);
        let size = 630;
        assert_eq!(lone.sizes().iter().sum::<usize>(), written);
        lone.now += Duration::from_millis(20);
        let ranges = every_second((written / size) as u32, size as u32);
        report(&mut lone, una, 0, &ranges);
        assert_eq!(known(&lone).0, (ranges.len() * size) as u64, "of {written} bytes");
    }
}

/// The first transmission may arrive after all, in its own segments.
#[test]
fn segments_of_the_first_transmission_are_held_after_they_were_sent_again_smaller() {
    let mut lone = on_device_that_cuts(Recovery::RackTlp);
    let una = lone.end.snd.flight().una().seq();
    lone.end.write(lone.now, &[2; 4 * SMSS]).unwrap();
    lone.sent();
    lone.end.handle_icmp(lone.now, IcmpKind::PacketTooBig { mtu: 1040 }, una);
    lone.sent();
    lone.now += Duration::from_millis(20);
    let size = SMSS as u32;
    report(&mut lone, una, 0, &[(size, 2 * size), (3 * size, 4 * size)]);
    assert_eq!(known(&lone).0, 2 * SMSS as u64);
    report(&mut lone, una, 0, &[(2 * size, 3 * size)]);
    assert_eq!(known(&lone).0, 3 * SMSS as u64);
}

/// A proxy may acknowledge a part of a segment. The segments after it keep the boundaries with which they
/// left.
#[test]
fn acknowledgement_within_a_segment_does_not_move_the_others() {
    let mut lone = on_device_that_cuts(Recovery::RackTlp);
    let una = lone.end.snd.flight().una().seq();
    lone.end.write(lone.now, &[2; 10 * SMSS]).unwrap();
    lone.sent();
    lone.now += Duration::from_millis(20);
    let size = SMSS as u32;
    report(&mut lone, una, 500, &[(size, 2 * size), (3 * size, 3 * size + 700)]);
    assert_eq!(known(&lone).0, SMSS as u64 + 700);
}

/// The last segment of a packet that the device cuts is short, and a FIN follows it.
#[test]
fn short_last_segment_is_held_with_and_without_its_fin() {
    for fin in [false, true] {
        let mut lone = on_device_that_cuts(Recovery::RackTlp);
        let una = lone.end.snd.flight().una().seq();
        lone.end.set_nodelay(lone.now, true);
        lone.end.write(lone.now, &[2; 3 * SMSS + 100]).unwrap();
        if fin {
            lone.end.shutdown(lone.now).unwrap();
        }
        assert_eq!(lone.sizes(), [3 * SMSS + 100]);
        lone.now += Duration::from_millis(20);
        let size = SMSS as u32;
        report(&mut lone, una, 0, &[(2 * size, 3 * size + 100)]);
        assert_eq!(known(&lone).0, SMSS as u64 + 100, "a peer that has not seen the FIN: {fin}");
    }
}
