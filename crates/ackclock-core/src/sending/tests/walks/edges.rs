//! Rare events of a flight, and events at the last moment: the instant of a deadline and the nanosecond
//! beside it, blocks at any edge, timers that come late.

use super::*;
use crate::bandwidth::SenderEstimatorKind;
use crate::congestion::IdlePolicy;
use crate::sending::Chosen;
use crate::trace::TraceConfig;

/// Widens the settings of a common walk.
pub(super) fn widen(sender: &mut Sender, walk: &mut Walk) {
    sender.tcp.choices.initial_window_segments = walk.pick(&[4, 20, 100]);
    sender.tcp.choices.idle =
        walk.pick(&[IdlePolicy::OneSegment, IdlePolicy::RestartWindow, IdlePolicy::Validated]);
    sender.tcp.choices.start_up = walk.one_in(3).then(|| walk.pick(&SenderEstimatorKind::ALL).1);
    sender.tcp.user_timeout = walk.one_in(4).then_some(Duration::from_secs(3));
    sender.trace = Trace::new(Some(TraceConfig::FULL), walk.one_in(3), sender.flight.una());
    sender.call(|flight, call| flight.establish(call, true, SMSS as u32, true));
    sender.flight.set_rto(&RtoConfig::find(walk.pick(&["rfc6298", "rfc6298,min=200ms"])).unwrap());
}

/// The end of a flight: nothing waits any more.
pub(super) fn end(mut sender: Sender) {
    sender.flight.stop_timers();
    assert_eq!(sender.flight.next_timeout(), Instant::FAR_FUTURE);
    sender.board = None;
    sender.flight.close();
    sender.call(|flight, call| flight.release(call.now));
    assert!(!sender.flight.has_data() && sender.flight.lost() == 0 && sender.flight.in_flight() == 0);
    assert_eq!(sender.flight.next_timeout(), Instant::FAR_FUTURE);
}

pub(super) fn step(sender: &mut Sender, walk: &mut Walk) {
    match walk.below(16) {
        0 => idle_for_a_timeout(sender, walk),
        1 => reported_after_a_timeout(sender, walk),
        2..=5 => blocks_anywhere(sender, walk),
        6 | 7 => rescue(sender),
        8 => {
            let end = sender.flight.nxt() + walk.pick(&[SMSS, SMSS, 1, 65_000, 1 << 16]);
            if sender.flight.is_plain() {
                let drained = walk.one_in(2);
                sender.call(|flight, call| flight.on_next_sent(call.now, end, drained));
                sender.call(|flight, call| flight.run_timer(call, true));
                sender.call(|flight, call| flight.arm_tail_probe(call.now));
            }
        }
        9 => {
            let start = sender.flight.una();
            if sender.flight.has_data() {
                sender.leaves(start, start + 1, SendReason::WindowProbe);
            }
        }
        10 | 11 => timers(sender, walk),
        12 => {
            for _ in 0..walk.pick(&[20, 70]) {
                sender.wait(1).send(1);
            }
        }
        13 => sender.call(|flight, call| match walk.below(4) {
            0 => flight.note_nothing_to_send(),
            1 => flight.note_waiting(call.now),
            2 => flight.note_answer(call.now),
            _ => flight.on_pause(call.now, Duration::from_secs(1)),
        }),
        14 => at_quarters_of_a_round_trip(sender, walk),
        _ => {
            // Everything is acknowledged, and memory is given back.
            let nxt = sender.flight.nxt();
            acknowledges(sender, walk, nxt, &[]);
            sender.call(|flight, call| flight.release(call.now));
        }
    }
}

/// As long as the timeout, or a nanosecond longer, since something left; then more is to be sent.
fn idle_for_a_timeout(sender: &mut Sender, walk: &mut Walk) {
    let nxt = sender.flight.nxt();
    acknowledges(sender, walk, nxt, &[]);
    wait_for_a_timeout(sender, walk);
    sender.call(|flight, call| flight.restart_after_idleness(call, SMSS));
    sender.call(|flight, call| flight.restart_after_idleness(call, SMSS));
}

fn wait_for_a_timeout(sender: &mut Sender, walk: &mut Walk) {
    let rto = sender.flight.rtt().rto();
    let since = sender.flight.sent_at().unwrap_or(sender.now) + rto;
    sender.now = sender.now.max(since + Duration::from_nanos(walk.below(3)) - Duration::from_nanos(1));
}

/// A timeout, and all that it had sent again is reported as received twice, some time later.
fn reported_after_a_timeout(sender: &mut Sender, walk: &mut Walk) {
    let (una, nxt) = (sender.flight.una(), sender.flight.nxt());
    let timeouts = sender.info().timeouts;
    while sender.flight.next_timeout() < Instant::FAR_FUTURE && sender.info().timeouts == timeouts {
        sender.expire();
    }
    sender.resend(walk.pick(&[1, 2, 200]));
    sender.wait(1);
    acknowledges(sender, walk, nxt, &[]);
    if walk.one_in(2) {
        wait_for_a_timeout(sender, walk);
    }
    acknowledges(sender, walk, nxt, &[(una, nxt)]);
}

/// Up to three blocks, each of which may begin and end anywhere, and may be empty or the wrong way round.
fn blocks_anywhere(sender: &mut Sender, walk: &mut Walk) {
    let (una, out) = (sender.flight.una(), sender.flight.nxt().since(sender.flight.una()));
    let ack = una + walk.pick(&[0, 0, 0, SMSS, 1, out]).min(out);
    let mut edge = |beyond: u64| {
        let offset = walk.pick(&[0, 1, SMSS - 1, SMSS, 2 * SMSS, 3 * SMSS, 4 * SMSS, out, out + 1]);
        (una + offset.min(out + beyond)).back(walk.pick(&[0, 0, 0, 1, SMSS]))
    };
    let blocks: Vec<_> = [0, 1, 0].map(|beyond| (edge(beyond), edge(beyond))).into();
    let count = walk.below(4) as usize;
    acknowledges(sender, walk, ack, &blocks[..count]);
}

fn acknowledges(sender: &mut Sender, walk: &mut Walk, ack: Position, blocks: &[(Position, Position)]) {
    let sack: Vec<_> = blocks.iter().map(|(start, end)| (start.seq(), end.seq())).collect();
    let age = Duration::from_millis(walk.pick(&[0, 5, 9, 10, 20, 40]));
    let echo = walk.one_in(2).then(|| Echo::new(crate::sending::clock(sender.now - age), 0));
    let (window, reopened) = (walk.pick(&[1 << 20, 1 << 20, 0]), walk.one_in(12));
    let sendable = walk.pick(&[1 << 30, SMSS, SMSS - 1]);
    let seen =
        Acknowledgement { ack, sack: &sack, echo, bare: true, window, same_window: true, reopened, sendable };
    sender.hears(&seen, 0);
    sender.call(|flight, call| flight.end_marked_window(call));
}

/// The rescue retransmission of RFC 6675, when nothing is known to be lost.
fn rescue(sender: &mut Sender) {
    if let Some(Chosen { start, end, reason }) = sender.flight.next_rescue() {
        sender.leaves(start, end, reason);
    }
}

/// All timers at once, or one at its instant; the peer's window may be closed.
fn timers(sender: &mut Sender, walk: &mut Walk) {
    let due = sender.flight.expiries();
    let mut at = walk.pick(&[due.retransmission, due.tail_probe, due.reordering, due.pacing]);
    at = if at == Instant::FAR_FUTURE { sender.flight.next_timeout() } else { at };
    if at < Instant::FAR_FUTURE {
        sender.now = sender.now.max(at + walk.pick(&[Duration::ZERO, Duration::from_nanos(1)]));
        let open = !walk.one_in(4);
        sender.call(|flight, call| flight.on_timer(call, 65_535, open));
    }
}

/// Something leaves again, and its answer comes at half or three quarters of the shortest round trip.
fn at_quarters_of_a_round_trip(sender: &mut Sender, walk: &mut Walk) {
    sender.resend(1);
    let quarter = sender.flight.rtt().rtt_min() / 4;
    sender.now += quarter * walk.pick(&[1, 2, 3, 4]);
    let (una, nxt) = (sender.flight.una(), sender.flight.nxt());
    let ack = (una + walk.pick(&[SMSS, 2 * SMSS, 1])).min(nxt);
    acknowledges(sender, walk, ack, &[]);
}
