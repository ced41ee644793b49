//! The budget covers the allocator's bytes, not only those that are accounted.

use std::sync::Arc;
use std::time::Duration;

use ackclock_tests::segment::{ACK, Opt, RST, seg};

use super::crowd::{Crowd, FIRST_PORT};
use super::live;

/// By how much the allocated memory may exceed the accounted: five quarters, plus a constant.
fn most(used: usize) -> isize {
    (used + used / 4 + (1 << 20)) as isize
}

/// docs/security.md B4, SegmentSmack (CVE-2018-5390).
#[test]
fn sec_b4_crumbs_on_5000_connections_stay_in_the_budget_by_the_allocators_account() {
    const CRUMBS: u32 = 1_024;
    let mut crowd = Crowd::new(|config| config.memory_budget = 64 << 20);
    (0..5_000).for_each(|_| crowd.open(1_460, 500));
    let base = live();
    for crumb in 0..CRUMBS {
        for n in 0..crowd.peers.len() {
            let peer = crowd.peers[n];
            crowd.say(peer.addr, seg(ACK).seq(3 + 2 * crumb).ack(peer.next).data(&[7]));
            crowd.drain();
        }
        let ((used, limit), taken) = (crowd.host.endpoint.memory(), live() - base);
        assert!(used <= limit && taken <= most(used), "{crumb}: {taken} taken, {used} accounted");
    }
    let used = crowd.host.endpoint.memory().0;
    assert!(used >= 48 << 20, "{used} bytes: the attack does not reach the budget");
    for n in 0..crowd.peers.len() {
        let peer = crowd.peers[n];
        crowd.say(peer.addr, seg(RST | ACK).seq(1).ack(peer.next));
    }
    crowd.drain();
    assert_eq!(crowd.host.endpoint.memory().0, 0, "all is given back");
}

/// docs/security.md B6, SACK slowness (CVE-2019-11478), with the smallest segments (B7).
#[test]
fn sec_b6_sack_storms_stay_in_the_budget_by_the_allocators_account() {
    let mut crowd = Crowd::new(|config| {
        config.memory_budget = 256 << 20;
        Arc::make_mut(&mut config.tcp).send_buffer_max = 1 << 20;
    });
    (0..200).for_each(|_| crowd.open(216, 60_000));
    let base = live();
    for n in 0..crowd.peers.len() {
        let mut peer = crowd.peers[n];
        let mut flight = Vec::new();
        for round in 0..9 {
            crowd.fill(peer.id);
            let sent: Vec<_> = crowd.host.transmit().into_iter().map(|frame| frame.seg).collect();
            let sent: Vec<_> = sent.iter().map(|segment| (segment.seq, segment.end())).collect();
            if round == 8 {
                flight = sent;
            } else {
                peer.next = sent.last().map_or(peer.next, |&(_, end)| end);
                crowd.say(peer.addr, seg(ACK).seq(1).ack(peer.next).window(60_000));
            }
        }
        assert!(flight.len() > 1_000, "{} segments in flight", flight.len());
        for held in flight.iter().skip(1).step_by(2) {
            let block = Opt::Sack(vec![*held]);
            crowd.say(peer.addr, seg(ACK).seq(1).ack(peer.next).window(60_000).opt(block));
            crowd.drain();
        }
        drop(flight);
        let ((used, limit), taken) = (crowd.host.endpoint.memory(), live() - base);
        assert!(used <= limit && taken <= most(used), "{n}: {taken} taken, {used} accounted");
    }
}

/// docs/security.md B8, Sockstress (CVE-2008-4609): what an application has written waits behind windows that
/// never open.
#[test]
fn sec_b8_zero_windows_stay_in_the_budget_by_the_allocators_account() {
    let mut crowd = Crowd::new(|config| config.memory_budget = 64 << 20);
    (0..5_000).for_each(|_| crowd.open(1_460, 0));
    let base = live();
    let mut taken_max = 0;
    for n in 0..crowd.peers.len() {
        crowd.fill(crowd.peers[n].id);
        crowd.drain();
        let ((used, limit), taken) = (crowd.host.endpoint.memory(), live() - base);
        assert!(used <= limit && taken <= most(used), "{n}: {taken} taken, {used} accounted");
        taken_max = taken.max(taken_max);
    }
    assert!(taken_max >= 48 << 20, "{taken_max} bytes: the attack does not reach the budget");
    // Each probe is answered, for ten minutes, by a window that stays closed.
    let until = crowd.host.now + Duration::from_secs(600);
    while let Some(at) = crowd.host.next_timeout().filter(|at| *at <= until) {
        crowd.host.wake(at);
        for probe in crowd.host.transmit().iter().filter(|frame| !frame.seg.has(RST)) {
            let peer = crowd.peers[usize::from(probe.dst.port() - FIRST_PORT)];
            crowd.say(probe.dst, seg(ACK).seq(1).ack(peer.next).window(0));
        }
    }
    crowd.host.events();
    let ((used, limit), taken) = (crowd.host.endpoint.memory(), live() - base);
    assert!(used <= limit && taken <= most(used), "after ten minutes: {taken} taken, {used} accounted");
    for n in 0..crowd.peers.len() {
        let peer = crowd.peers[n];
        crowd.say(peer.addr, seg(RST | ACK).seq(1).ack(peer.next));
    }
    crowd.drain();
    assert_eq!(crowd.host.endpoint.memory().0, 0, "all is given back");
    // Free blocks are kept, 4 MiB at most; and of each connection, until its owner releases it, the counts of
    // what it sent again. Every one of them had memory, and sent.
    let counts = 400 * crowd.peers.len() as isize;
    assert!(live() - base <= (5 << 20) + counts, "{} bytes are not given back", live() - base);
}

/// docs/security.md B12, an application that does not read what arrives in order.
#[test]
fn sec_b12_unread_buffers_stay_in_the_budget_by_the_allocators_account() {
    let mut crowd = Crowd::new(|config| config.memory_budget = 64 << 20);
    (0..5_000).for_each(|_| crowd.open(1_460, 500));
    let base = live();
    for part in 0..44 {
        for n in 0..crowd.peers.len() {
            let peer = crowd.peers[n];
            crowd.say(peer.addr, seg(ACK).seq(1 + 1_460 * part).ack(peer.next).data(&[7; 1_460]));
            crowd.drain();
        }
        let ((used, limit), taken) = (crowd.host.endpoint.memory(), live() - base);
        assert!(used <= limit && taken <= most(used), "{part}: {taken} taken, {used} accounted");
    }
    let used = crowd.host.endpoint.memory().0;
    assert!(used >= 48 << 20, "{used} bytes: the attack does not reach the budget");
}
