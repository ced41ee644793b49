//! The checks of the kit. Each makes a controller, drives it, and reports any failure.

use std::time::Duration;

use super::operation::{State, sequence};
use super::path::{Flow, Path};
use crate::Instant;
use crate::congestion::{
    Ack, Controller, ControllerFactory, IdleRestart, LossCause, LossEpisode, RecoveryEnd, Start, Timeout,
    Undo,
};
use crate::tally::Tally;

/// A check: its name and its function.
pub(super) type Check = (&'static str, fn(&dyn ControllerFactory) -> Result<(), String>);

/// All checks, in the order of the report.
pub(super) const ALL: &[Check] = &[
    ("keeps its name", keeps_its_name),
    ("starts with the initial window", starts_with_the_initial_window),
    ("grows in slow start", grows_in_slow_start),
    ("at most doubles in a round", at_most_doubles_in_a_round),
    ("reduces on loss", reduces_on_loss),
    ("halves on loss", halves_on_loss),
    ("reduces on loss whatever is outstanding", reduces_whatever_is_outstanding),
    ("reduces on a mark", reduces_on_a_mark),
    ("restarts from one segment after a timeout", restarts_from_one_segment),
    ("keeps ssthresh at a second expiry", keeps_ssthresh_at_a_second_expiry),
    ("recovers after a timeout", recovers_after_a_timeout),
    ("restores the window on undo", restores_the_window_on_undo),
    ("does not grow in recovery", does_not_grow_in_recovery),
    ("does not grow when the application is the limit", does_not_grow_unused),
    ("divided acknowledgements buy nothing", divided_acks_buy_nothing),
    ("restarts small after idleness", restarts_small_after_idleness),
    ("uses the path", uses_the_path),
    ("survives a queue of three segments", survives_a_small_queue),
    ("survives no round-trip time", survives_no_rtt),
    ("survives nothing in flight", survives_nothing_in_flight),
    ("survives more than 2^32 bytes", survives_wrap),
    ("survives a storm of acknowledgements", survives_a_storm),
    ("survives steps of the clock", survives_clock_steps),
    ("survives reordering", survives_reordering),
    ("survives any sequence of events", survives_any_sequence),
    ("is deterministic", is_deterministic),
];

const SMSS: u32 = 1000;
const SEGMENT: u64 = SMSS as u64;
const INITIAL: u64 = 10 * SEGMENT;

fn create(factory: &dyn ControllerFactory) -> Box<dyn Controller> {
    factory.create(&Start { smss: SMSS, initial_window: INITIAL, now: Instant::from_millis(1) })
}

fn expect(condition: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message()) }
}

/// An acknowledgement of `bytes` on a path of 100 ms, in a round that began with `prior_delivered`.
fn ack(now_ms: u64, bytes: u64, delivered: u64, prior_delivered: u64) -> Ack {
    let rtt_ns = 100_000_000;
    Ack {
        now: Instant::from_millis(now_ms),
        bytes_acked: bytes,
        bytes_cumulative: bytes,
        rtt_ns: Some(rtt_ns),
        srtt_ns: rtt_ns,
        rtt_min_ns: rtt_ns,
        delivered,
        prior_delivered,
        sent_at: Instant::from_millis(now_ms.saturating_sub(100)),
        delivery_interval_ns: rtt_ns,
        app_limited: false,
        tx_in_flight: bytes,
        lost: 0,
        prior_in_flight: bytes,
        in_flight: 0,
        cwnd_limited: true,
        in_recovery: false,
        ecn_marked: 0,
    }
}

/// Acknowledges a few windows, a segment at a time, each acknowledgement modified by `change`.
fn acknowledge(controller: &mut dyn Controller, rounds: u64, change: impl Fn(&mut Ack)) {
    let mut delivered = 0_u64;
    for round in 1..=rounds {
        let prior_delivered = delivered;
        for _ in 0..controller.cwnd() / SEGMENT {
            delivered.grow(SEGMENT);
            let mut ack = ack(round.saturating_mul(100), SEGMENT, delivered, prior_delivered);
            change(&mut ack);
            controller.on_ack(&ack);
        }
    }
}

fn lose(controller: &mut dyn Controller, cause: LossCause) {
    let flight_size = controller.cwnd();
    let now = Instant::from_millis(1000);
    let bytes_lost = if cause == LossCause::EcnEcho { 0 } else { SEGMENT };
    controller.on_loss_episode(&LossEpisode {
        now,
        cause,
        flight_size,
        bytes_lost,
        delivered: 1 << 20,
        repeated: false,
        peer_window: u64::MAX,
    });
    let in_flight = controller.cwnd();
    controller.on_recovery_end(&RecoveryEnd { now, in_flight, delivered: 1 << 20, inflation: 0 });
}

fn expire(controller: &mut dyn Controller, flight_size: u64, expiries: u32) {
    controller.on_timeout(&Timeout {
        now: Instant::from_millis(2000),
        flight_size,
        expiries,
        delivered: 0,
        peer_window: u64::MAX,
    });
}

fn keeps_its_name(factory: &dyn ControllerFactory) -> Result<(), String> {
    let (made, kind) = (create(factory).name(), factory.name());
    expect(made == kind, || format!("the factory is `{kind}`, what it makes `{made}`"))
}

fn starts_with_the_initial_window(factory: &dyn ControllerFactory) -> Result<(), String> {
    let cwnd = create(factory).cwnd();
    expect(cwnd == INITIAL, || format!("{cwnd} bytes, not {INITIAL}"))
}

/// A path that a window of a thousand segments does not fill.
const LONG: Path = Path { rate: 125_000_000, buffer: 12_500_000, ..Path::TYPICAL };

fn grows_in_slow_start(factory: &dyn ControllerFactory) -> Result<(), String> {
    let windows = Flow::new(factory, LONG).rounds(6);
    expect(windows.last() > Some(&20), || format!("windows by round: {windows:?}"))
}

fn at_most_doubles_in_a_round(factory: &dyn ControllerFactory) -> Result<(), String> {
    let windows = Flow::new(factory, LONG).rounds(8);
    let mut before = 10_u64;
    for &window in &windows {
        // BBR's start-up gain is 2.77; nothing may exceed three.
        expect(window <= before.saturating_mul(3), || format!("windows by round: {windows:?}"))?;
        before = window;
    }
    Ok(())
}

fn reduces_on_loss(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    acknowledge(controller.as_mut(), 4, |_| ());
    let before = controller.cwnd();
    lose(controller.as_mut(), LossCause::DuplicateAcks);
    let after = controller.cwnd();
    expect(after <= before.saturating_sub(before / 8), || format!("from {before} to {after} bytes"))
}

/// Halves, as in RFC 5681. A controller that keeps more says why.
fn halves_on_loss(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    acknowledge(controller.as_mut(), 4, |_| ());
    let before = controller.cwnd();
    lose(controller.as_mut(), LossCause::DuplicateAcks);
    let after = controller.cwnd();
    expect(after <= (before / 2).saturating_add(SEGMENT), || format!("from {before} to {after} bytes"))
}

/// With selective acknowledgements much more than a window may be outstanding; the peer holds most of it
/// already.
fn reduces_whatever_is_outstanding(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    acknowledge(controller.as_mut(), 4, |_| ());
    let (before, now, cause) = (controller.cwnd(), Instant::from_millis(1000), LossCause::Reordering);
    let flight_size = before.saturating_mul(4);
    controller.on_loss_episode(&LossEpisode {
        now,
        cause,
        flight_size,
        bytes_lost: SEGMENT,
        delivered: 1 << 20,
        repeated: false,
        peer_window: u64::MAX,
    });
    let after = (controller.cwnd(), controller.ssthresh());
    expect(after.0 < before && after.1 < before, || {
        format!("{before} bytes, then cwnd and ssthresh {after:?}")
    })
}

fn reduces_on_a_mark(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    acknowledge(controller.as_mut(), 4, |ack| ack.ecn_marked = ack.bytes_acked);
    let before = controller.cwnd();
    lose(controller.as_mut(), LossCause::EcnEcho);
    let after = controller.cwnd();
    expect(after <= before.saturating_sub(before / 8), || format!("from {before} to {after} bytes"))
}

fn restarts_from_one_segment(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    acknowledge(controller.as_mut(), 2, |_| ());
    let flight_size = controller.cwnd();
    expire(controller.as_mut(), flight_size, 1);
    let cwnd = controller.cwnd();
    expect(cwnd == SEGMENT, || format!("{cwnd} bytes"))
}

fn keeps_ssthresh_at_a_second_expiry(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    let flight_size = controller.cwnd();
    expire(controller.as_mut(), flight_size, 1);
    let first = controller.ssthresh();
    expire(controller.as_mut(), SEGMENT, 2);
    let second = controller.ssthresh();
    expect(first == second, || format!("{first}, then {second} bytes"))
}

fn recovers_after_a_timeout(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    let flight_size = controller.cwnd();
    expire(controller.as_mut(), flight_size, 1);
    acknowledge(controller.as_mut(), 10, |_| ());
    let cwnd = controller.cwnd();
    expect(cwnd >= 4 * SEGMENT, || format!("{cwnd} bytes ten rounds later"))
}

fn restores_the_window_on_undo(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    acknowledge(controller.as_mut(), 4, |_| ());
    let before = (controller.cwnd(), controller.ssthresh());
    let undo = Undo { now: Instant::from_millis(1100) };
    lose(controller.as_mut(), LossCause::DuplicateAcks);
    controller.on_undo(&undo);
    let after_loss = (controller.cwnd(), controller.ssthresh());
    expect(after_loss == before, || format!("{before:?} before the loss, {after_loss:?} after undoing it"))?;
    expire(controller.as_mut(), before.0, 1);
    controller.on_undo(&undo);
    let after_timeout = (controller.cwnd(), controller.ssthresh());
    expect(after_timeout == before, || {
        format!("{before:?} before the timeout, {after_timeout:?} after undoing it")
    })?;
    // A timeout may be found spurious late, after the timer has expired again and slow start has begun.
    expire(controller.as_mut(), before.0, 1);
    expire(controller.as_mut(), SEGMENT, 2);
    controller.on_ack(&ack(2100, SEGMENT, 2 << 20, 1 << 20));
    controller.on_undo(&undo);
    let after_two = (controller.cwnd(), controller.ssthresh());
    expect(after_two == before, || {
        format!("{before:?} before two expiries, {after_two:?} after undoing them")
    })
}

fn does_not_grow_in_recovery(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    acknowledge(controller.as_mut(), 3, |_| ());
    let (now, flight_size) = (Instant::from_millis(400), controller.cwnd());
    let cause = LossCause::DuplicateAcks;
    controller.on_loss_episode(&LossEpisode {
        now,
        cause,
        flight_size,
        bytes_lost: SEGMENT,
        delivered: 1 << 20,
        repeated: false,
        peer_window: u64::MAX,
    });
    let before = controller.cwnd();
    acknowledge(controller.as_mut(), 1, |ack| ack.in_recovery = true);
    let after = controller.cwnd();
    expect(after <= before, || format!("from {before} to {after} bytes"))
}

fn does_not_grow_unused(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut flow = Flow::new(factory, Path::TYPICAL);
    flow.limit_application(3 * SEGMENT);
    flow.run(Duration::from_secs(10));
    let cwnd = flow.controller().cwnd();
    expect(cwnd <= INITIAL, || format!("{cwnd} bytes while three segments were in use"))
}

fn divided_acks_buy_nothing(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    let before = controller.cwnd();
    for byte in 1..=SEGMENT {
        controller.on_ack(&ack(100, 1, byte, 0));
    }
    let bought = controller.cwnd().saturating_sub(before);
    expect(bought <= SEGMENT, || format!("{SEGMENT} one-byte ACKs bought {bought} bytes"))
}

fn restarts_small_after_idleness(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    acknowledge(controller.as_mut(), 4, |_| ());
    let (now, idle, rto) = (Instant::from_millis(60_000), Duration::from_secs(59), Duration::from_secs(1));
    controller.on_idle_restart(&IdleRestart { now, idle, rto, restart_window: INITIAL });
    let cwnd = controller.cwnd();
    expect(cwnd <= INITIAL, || format!("{cwnd} bytes after a minute"))
}

fn uses_the_path(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut flow = Flow::new(factory, Path::TYPICAL);
    flow.run(Duration::from_secs(30));
    let before = flow.totals().delivered;
    flow.run(Duration::from_secs(30));
    let delivered = flow.totals().delivered.saturating_sub(before);
    let percent = delivered.saturating_mul(100) / (30 * Path::TYPICAL.rate);
    expect(percent >= 70, || format!("{percent} % of the rate in the second half minute"))
}

fn survives_a_small_queue(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut flow = Flow::new(factory, Path { buffer: 3 * SEGMENT, ..Path::TYPICAL });
    flow.run(Duration::from_secs(60));
    let (sent, dropped) = (flow.totals().sent, flow.totals().dropped);
    expect(dropped.saturating_mul(5) < sent, || format!("{dropped} of {sent} bytes dropped"))
}

fn survives_no_rtt(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    acknowledge(controller.as_mut(), 6, |ack| {
        ack.rtt_ns = None;
        (ack.srtt_ns, ack.rtt_min_ns, ack.delivery_interval_ns) = (0, 0, 0);
        ack.now = Instant::from_millis(1);
    });
    let cwnd = controller.cwnd();
    expect(cwnd >= SEGMENT, || format!("{cwnd} bytes"))
}

fn survives_nothing_in_flight(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    expire(controller.as_mut(), 0, 1);
    let (now, cause) = (Instant::from_millis(3000), LossCause::Reordering);
    controller.on_loss_episode(&LossEpisode {
        now,
        cause,
        flight_size: 0,
        bytes_lost: 0,
        delivered: 0,
        repeated: false,
        peer_window: u64::MAX,
    });
    controller.on_ack(&Ack { prior_in_flight: 0, ..ack(3100, 0, 0, 0) });
    let (cwnd, ssthresh) = (controller.cwnd(), controller.ssthresh());
    expect(cwnd >= SEGMENT && ssthresh >= SEGMENT, || format!("cwnd {cwnd}, ssthresh {ssthresh}"))
}

fn survives_wrap(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    let mut delivered = (1 << 32) - 5 * SEGMENT;
    for now_ms in (110..=1100).step_by(10) {
        delivered.grow(SEGMENT);
        controller.on_ack(&ack(now_ms, SEGMENT, delivered, delivered.saturating_sub(10 * SEGMENT)));
    }
    let cwnd = controller.cwnd();
    expect(cwnd >= INITIAL, || format!("{cwnd} bytes"))
}

/// Twenty thousand acknowledgements at once. Most of them acknowledge nothing.
fn survives_a_storm(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    let (before, mut delivered) = (controller.cwnd(), 0_u64);
    for number in 0..20_000_u64 {
        let bytes = u64::from(number.is_multiple_of(100));
        delivered.grow(bytes);
        controller.on_ack(&ack(100, bytes, delivered, 0));
    }
    let (cwnd, most) = (controller.cwnd(), before.saturating_add(2 * SEGMENT));
    expect((SEGMENT..=most).contains(&cwnd), || format!("{cwnd} bytes for {delivered} acknowledged"))
}

fn survives_clock_steps(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    let mut delivered = 0_u64;
    for now in [0, u64::MAX, 5, 1 << 60, 1, 0] {
        delivered.grow(SEGMENT);
        controller.on_ack(&Ack { now: Instant::from_nanos(now), ..ack(0, SEGMENT, delivered, 0) });
        lose(controller.as_mut(), LossCause::DuplicateAcks);
    }
    let cwnd = controller.cwnd();
    expect((SEGMENT..1 << 33).contains(&cwnd), || format!("{cwnd} bytes"))
}

fn survives_reordering(factory: &dyn ControllerFactory) -> Result<(), String> {
    let mut controller = create(factory);
    let mut delivered = 0_u64;
    for (segment, now_ms) in (0_u64..200).zip((100..).step_by(10)) {
        // Pairs arrive swapped, so `prior_delivered` goes back and forth.
        delivered.grow(SEGMENT);
        let prior = (segment ^ 1).saturating_sub(10).saturating_mul(SEGMENT);
        controller.on_ack(&ack(now_ms, SEGMENT, delivered, prior));
    }
    let cwnd = controller.cwnd();
    expect(cwnd >= INITIAL / 2, || format!("{cwnd} bytes without a loss"))
}

fn survives_any_sequence(factory: &dyn ControllerFactory) -> Result<(), String> {
    for seed in 1..=SEQUENCES {
        let mut controller = create(factory);
        let mut state = State::new(1000);
        for operation in sequence(seed).take(SEQUENCE_LENGTH) {
            operation.apply(controller.as_mut(), &mut state);
            let cwnd = controller.cwnd();
            let least = u64::from(state.smss);
            expect(cwnd >= least, || {
                format!("seed {seed}: {cwnd} bytes, a segment has {least}, after {operation:?}")
            })?;
            let rate = controller.pacing_rate();
            expect(rate != Some(0), || format!("seed {seed}: a pacing rate of zero after {operation:?}"))?;
            controller.snapshot();
        }
    }
    Ok(())
}

fn is_deterministic(factory: &dyn ControllerFactory) -> Result<(), String> {
    let run = |seed| {
        let mut controller = create(factory);
        let mut state = State::new(1000);
        let observed: Vec<_> = sequence(seed)
            .take(SEQUENCE_LENGTH)
            .map(|operation| {
                operation.apply(controller.as_mut(), &mut state);
                (controller.cwnd(), controller.ssthresh(), controller.pacing_rate())
            })
            .collect();
        observed
    };
    expect((1..10).all(|seed| run(seed) == run(seed)), || "two runs of the same events differ".to_owned())
}

const SEQUENCES: u64 = 200;
const SEQUENCE_LENGTH: usize = 200;
