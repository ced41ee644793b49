//! Flights of every policy and controller beside a naive model of every byte, through whatever may happen to
//! one, with times and sizes that often coincide.

mod edges;

use std::cell::Cell;

use super::*;
use crate::congestion::Registry;
use crate::profile::{Recovery, UndoChoice};
use crate::rtt::RtoConfig;
use crate::sending::Echo;
use crate::walks::{Walk, each};

const STEPS: u64 = 250;
/// Walks after these go along the edges.
const COMMON: u64 = 84;

#[test]
fn a_flight_agrees_with_a_model_of_single_bytes() {
    let (walked, compared) = (Cell::new(0), Cell::new(0));
    each(COMMON + 70, |walk| {
        let mut sender = Sender::new(settings(walk));
        let at_edges = walk.number() >= COMMON;
        if at_edges {
            edges::widen(&mut sender, walk);
        }
        if walk.one_in(4) {
            sender.call(|flight, call| {
                flight.establish(call, false, SMSS as u32, false);
            });
        }
        for _ in 0..STEPS {
            if at_edges && walk.one_in(2) {
                edges::step(&mut sender, walk);
            } else {
                step(&mut sender, walk);
            }
            walked.set(walked.get() + 1);
            compared.set(compared.get() + u64::from(sender.board.is_some()));
        }
        edges::end(sender);
    });
    // The model leaves a flight that has grown too long for it. Most steps have it.
    let (walked, compared) = (walked.get(), compared.get());
    assert!(walked == STEPS || compared * 4 >= walked * 3, "{compared} of {walked} steps were compared");
}

fn settings(walk: &mut Walk) -> TcpConfig {
    let registry = Registry::with_experiments();
    let names: Vec<_> = registry.names().collect();
    let name = if walk.one_in(2) { "reno" } else { walk.pick(&names) };
    let mut tcp = TcpConfig { congestion: registry.find(name).unwrap(), ..TcpConfig::default() };
    tcp.choices.recovery = walk.pick(&Recovery::ALL).1;
    tcp.choices.undo = walk.pick(&UNDO);
    tcp.choices.pacing = walk.one_in(3);
    tcp.choices.initial_window_segments = walk.pick(&[1, 4, 10, 20]);
    tcp.pacing_rate_max = walk.one_in(5).then_some(200_000);
    tcp
}

fn step(sender: &mut Sender, walk: &mut Walk) {
    let out = sender.flight.nxt().since(sender.flight.una());
    match walk.below(24) {
        0..=4 => new_data(sender, walk),
        5 | 6 => {
            sender.resend(1 + walk.below(4) as usize);
        }
        7..=13 => acknowledged(sender, walk),
        14 | 15 => {
            if sender.flight.next_timeout() < Instant::FAR_FUTURE {
                sender.expire();
            }
        }
        16 | 17 => {
            sender.wait(walk.pick(&[1, 5, 20, 20, 40, 200]));
        }
        18 => {
            // As long as the timeout, or a little longer, since something left.
            let rto = sender.flight.rtt().rto();
            let since = sender.flight.sent_at().unwrap_or(sender.now) + rto;
            sender.now = sender.now.max(since) + Duration::from_nanos(walk.below(2));
            sender.call(|flight, call| flight.restart_after_idleness(call, walk.below(2) * SMSS));
        }
        19 => probe_of_path(sender, walk),
        20 => set(sender, walk),
        21 => sender.call(|flight, call| match walk.below(3) {
            0 => flight.on_pause(call.now, Duration::from_secs(60)),
            1 => flight.on_too_big(call),
            _ => flight.release(call.now),
        }),
        22 => {
            let ack = sender.flight.una() + walk.below(out + 1);
            if ack > sender.flight.una() {
                sender.call(|flight, call| flight.on_advance(call, ack, true));
            }
        }
        _ => sender.call(|flight, call| {
            let echo = flight.una();
            flight.settle_probe_by_duplicate(echo, None, false);
            flight.run_timer(call, walk.one_in(2));
        }),
    }
    sender.call(|flight, call| flight.end_marked_window(call));
}

/// New data, seldom more than the window takes.
fn new_data(sender: &mut Sender, walk: &mut Walk) {
    for _ in 0..=walk.below(5) {
        if sender.flight.room() < SMSS && !walk.one_in(8) {
            sender.flight.note_cwnd_limited();
            return;
        }
        let start = sender.flight.nxt();
        let len = walk.pick(&[SMSS, SMSS, SMSS, 1, 2 * SMSS, SMSS / 2]);
        let chosen = super::super::Chosen { start, end: start + len, reason: SendReason::NewData };
        let Sender { flight, tcp, now, .. } = sender;
        let Some(chosen) = flight.pace(*now, tcp, chosen) else { return };
        let drained = walk.one_in(4);
        let (reason, segment) = (SendReason::NewData, sender.flight.smss());
        sender.departs(&Departure { start, end: chosen.end, reason, segment, drained });
    }
}

/// An acknowledgement as a peer may send it: all, some, nothing new, blocks, duplicates, echoes, marks.
fn acknowledged(sender: &mut Sender, walk: &mut Walk) {
    let (una, out) = (sender.flight.una(), sender.flight.nxt().since(sender.flight.una()));
    let segments = out / SMSS;
    let advance = match walk.below(6) {
        0 | 1 => out,
        2 => SMSS.min(out),
        3 => walk.below(segments + 1) * SMSS,
        4 => walk.below(out + 1),
        _ => 0,
    };
    let ack = una + advance;
    let mut sack = Vec::new();
    if walk.one_in(6) {
        // RFC 2883: a duplicate first.
        let start = ack.back(SMSS * (1 + walk.below(3)));
        sack.push((start.seq(), (start + SMSS).seq()));
    }
    let left = out - advance;
    if left > SMSS && walk.one_in(2) {
        let start = SMSS * (1 + walk.below(left / SMSS));
        let end = (start + SMSS * (1 + walk.below(3))).min(left);
        if start < end {
            sack.push(((ack + start).seq(), (ack + end).seq()));
        }
    }
    let age = Duration::from_millis(walk.pick(&[5, 20, 20, 41]));
    let left_at = sender.now - age.min(sender.now.saturating_since(Instant::ZERO));
    let echo = walk.one_in(2).then(|| Echo::new(super::super::clock(left_at), 0));
    let (bare, same_window, reopened) = (!walk.one_in(8), !walk.one_in(8), walk.one_in(20));
    let sendable = walk.pick(&[1 << 30, 0, SMSS]);
    let marked = if walk.one_in(8) { SMSS } else { 0 };
    let sack = &sack[..];
    let seen = Acknowledgement { ack, sack, echo, bare, window: 1 << 20, same_window, reopened, sendable };
    sender.hears(&seen, marked);
}

fn probe_of_path(sender: &mut Sender, walk: &mut Walk) {
    let len = SMSS + walk.pick(&[100, SMSS]);
    match walk.below(3) {
        0 if sender.flight.may_probe_mtu(len) => sender.call(|flight, call| {
            let start = flight.nxt();
            flight.send_mtu_probe(call, start, start + len);
            flight.run_timer(call, true);
        }),
        1 => sender.flight.lose_mtu_probe(),
        _ => {
            sender.flight.mtu_probe_outcome();
        }
    }
}

/// A setting changes while data is out.
fn set(sender: &mut Sender, walk: &mut Walk) {
    match walk.below(6) {
        0 | 1 => {
            sender.tcp.choices.recovery = walk.pick(&Recovery::ALL).1;
            sender.call(|flight, call| flight.set_recovery(call));
        }
        2 => {
            let smss = walk.pick(&[SMSS, SMSS, 700]);
            sender.call(|flight, call| flight.set_smss(call, smss as u32));
        }
        3 => {
            let words = walk.pick(&["rfc6298", "rfc6298,min=1s", "rfc6298,heartbeat=on"]);
            sender.flight.set_rto(&RtoConfig::find(words).unwrap());
        }
        4 => sender.call(|flight, call| flight.replace_controller(call)),
        _ => {
            sender.tcp.choices.undo = walk.pick(&UNDO);
            sender.call(|flight, call| flight.restart_pacing(call.now));
        }
    }
}

const UNDO: [UndoChoice; 6] = [
    UndoChoice::OFF,
    UndoChoice::ALL,
    UndoChoice { timestamps: true, ..UndoChoice::OFF },
    UndoChoice { dsack: true, ..UndoChoice::OFF },
    UndoChoice { frto: true, ..UndoChoice::OFF },
    UndoChoice { min_rtt_quarters: Some(2), ..UndoChoice::OFF },
];
