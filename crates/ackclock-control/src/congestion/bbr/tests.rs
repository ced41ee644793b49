use std::time::Duration;

use super::model::Model;
use super::{Bbr, BbrLoss, State, inflight_at_loss};
use crate::Instant;
use crate::congestion::testing::{SMSS, START, ack, loss};
use crate::congestion::{Ack, Controller, LossCause, LossEpisode, Lost, Timeout, Undo, described};
use crate::kit::{Flow, Path};

const SECOND: Duration = Duration::from_secs(1);

fn flow(path: Path) -> Flow {
    let bbr = described(Bbr::NAME, Bbr::ABOUT, |start| Box::new(Bbr::new(start)));
    Flow::new(bbr.as_ref(), path)
}

fn value(flow: &Flow, name: &str) -> i64 {
    flow.controller().snapshot().iter().find(|(key, _)| *key == name).unwrap().1
}

fn states_within(flow: &mut Flow, time: Duration) -> Vec<i64> {
    let end = flow.now() + time;
    let mut states = vec![value(flow, "state")];
    while flow.now() < end {
        flow.run(Duration::from_millis(5));
        let state = value(flow, "state");
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    states
}

#[test]
fn startup_drains_and_cycles_through_probe_bw() {
    let mut flow = flow(Path::TYPICAL);
    let states = states_within(&mut flow, 10 * SECOND);
    assert_eq!(states[..2], [State::Startup, State::Drain].map(|state| state as i64), "{states:?}");
    let cycle = [State::ProbeBwCruise, State::ProbeBwRefill, State::ProbeBwUp, State::ProbeBwDown];
    let cycle = cycle.map(|state| state as i64);
    assert!(states.windows(4).any(|seen| seen == cycle), "{states:?}");
    assert!(states.contains(&(State::ProbeRtt as i64)), "{states:?}");
}

#[test]
fn model_finds_bandwidth_and_round_trip() {
    let mut flow = flow(Path::TYPICAL);
    flow.run(20 * SECOND);
    let (max_bw, min_rtt) = (value(&flow, "max_bw"), value(&flow, "min_rtt_us"));
    assert!((1_150_000..=1_300_000).contains(&max_bw), "{max_bw} B/s of 1,250,000");
    assert!((100_000..=102_000).contains(&min_rtt), "{min_rtt} µs of 100,000 and a segment's 800");
}

#[test]
fn path_is_used_with_a_short_queue() {
    let mut flow = flow(Path { buffer: 10_000_000, ..Path::TYPICAL });
    flow.run(10 * SECOND);
    let before = flow.totals();
    let mut queue = 0;
    for _ in 0..1000 {
        flow.run(SECOND / 50);
        queue += flow.queue();
    }
    let delivered = flow.totals().delivered - before.delivered;
    assert!(delivered > 20 * Path::TYPICAL.rate * 90 / 100, "{delivered} bytes in 20 s");
    assert!(
        queue / 1000 < Path::TYPICAL.bandwidth_delay_product() / 4,
        "{} bytes queued on average",
        queue / 1000
    );
}

#[test]
fn shallow_buffer_is_used_well_with_little_loss() {
    let mut flow = flow(Path { buffer: 10_000, ..Path::TYPICAL });
    flow.run(10 * SECOND);
    let before = flow.totals();
    flow.run(30 * SECOND);
    let (sent, dropped) = (flow.totals().sent - before.sent, flow.totals().dropped - before.dropped);
    assert!(dropped * 100 < sent * 2, "{dropped} of {sent} bytes dropped");
    assert!(flow.totals().delivered - before.delivered > 30 * Path::TYPICAL.rate * 80 / 100);
}

#[test]
fn heavy_loss_ends_startup_and_bounds_what_is_in_flight() {
    let mut flow = flow(Path { buffer: 5_000, ..Path::TYPICAL });
    flow.run(Duration::from_millis(1500));
    assert_ne!(value(&flow, "state"), State::Startup as i64);
    assert!(value(&flow, "inflight_longterm") < i64::MAX, "found by loss, not by a plateau");
}

#[test]
fn undone_loss_returns_to_startup() {
    let mut bbr = Bbr::new(&START);
    bbr.on_loss_episode(&loss(100, 10 * SMSS));
    bbr.undo.state = Some(State::Startup);
    bbr.state = State::Drain;
    bbr.full_bw_reached = true;
    bbr.on_undo(&Undo { now: Instant::ZERO });
    assert_eq!((bbr.state, bbr.full_bw_reached), (State::Startup, false));
}

#[test]
fn undone_loss_returns_to_probing_unless_it_still_probes() {
    use State::{ProbeBwDown, ProbeBwRefill, ProbeBwUp, ProbeRtt};
    for (now_in, then_in) in [(ProbeBwDown, ProbeBwRefill), (ProbeBwUp, ProbeBwUp), (ProbeRtt, ProbeRtt)] {
        let mut bbr = cruising(BbrLoss::Certain);
        bbr.undo.state = Some(ProbeBwUp);
        bbr.state = now_in;
        bbr.on_undo(&Undo { now: Instant::ZERO });
        assert_eq!(bbr.state, then_in, "from {now_in:?}");
    }
}

#[test]
fn loss_while_cruising_lowers_the_model_by_at_most_three_tenths() {
    let mut bbr = cruising(BbrLoss::Certain);
    lose(&mut bbr, 20);
    end_round(&mut bbr, 20);
    assert_eq!((bbr.model.bw_shortterm, bbr.model.inflight_shortterm), (700_000, 70 * SMSS));
}

/// BBR in ProbeBW_CRUISE at 1 MB/s with 100 segments in flight.
fn cruising(loss: BbrLoss) -> Bbr {
    let mut bbr = Bbr::with_loss(&START, loss);
    bbr.state = State::ProbeBwCruise;
    bbr.bw_probe_wait = 10 * SECOND;
    bbr.full_bw_reached = true;
    bbr.model.max_bw = 1_000_000;
    bbr.cwnd = 100 * SMSS;
    bbr
}

/// Declares this many of 100 segments in flight lost.
fn lose(bbr: &mut Bbr, segments: u64) {
    let (tx_in_flight, lost) = (100 * SMSS, segments * SMSS);
    let (now, bytes, delivered, prior_delivered, app_limited) = (Instant::ZERO, lost, 0, 0, false);
    bbr.on_lost(&Lost { now, bytes, delivered, prior_delivered, app_limited, tx_in_flight, lost });
}

/// Ends a round trip in which this many of 100 segments were lost.
fn end_round(bbr: &mut Bbr, segments: u64) {
    let (tx_in_flight, lost) = (100 * SMSS, segments * SMSS);
    let rate =
        Ack { delivered: SMSS, delivery_interval_ns: 1_000_000_000, app_limited: true, ..ack(100, SMSS) };
    bbr.on_ack(&Ack { tx_in_flight, lost, ..rate });
}

#[test]
fn losses_that_chance_explains_leave_the_model_as_it_is() {
    // Two of 100 are allowed. Chance explains two standard deviations of that count, 2.8.
    for (lost, heeded) in [(1, false), (4, false), (5, true)] {
        let mut bbr = cruising(BbrLoss::Certain);
        lose(&mut bbr, lost);
        end_round(&mut bbr, lost);
        assert_eq!(bbr.model.bw_shortterm == 700_000, heeded, "{lost} lost");
    }
}

#[test]
fn every_loss_lowers_the_model_by_the_letter_of_the_draft() {
    let mut bbr = cruising(BbrLoss::Draft);
    lose(&mut bbr, 1);
    end_round(&mut bbr, 1);
    assert_eq!(bbr.model.bw_shortterm, 700_000);
}

#[test]
fn mark_lowers_the_model_without_a_loss() {
    let mut bbr = cruising(BbrLoss::Certain);
    bbr.on_loss_episode(&LossEpisode { cause: LossCause::EcnEcho, bytes_lost: 0, ..loss(0, 100 * SMSS) });
    end_round(&mut bbr, 0);
    assert_eq!(bbr.model.bw_shortterm, 700_000);
}

#[test]
fn threshold_of_loss_is_a_share_of_what_was_in_flight_when_the_segment_left() {
    for (rule, segments) in [(BbrLoss::Draft, [2, 3]), (BbrLoss::Certain, [4, 5])] {
        let longterm = segments.map(|segments| {
            let mut bbr = cruising(rule);
            bbr.is_bw_probe_sample = true;
            lose(&mut bbr, segments);
            bbr.model.inflight_longterm
        });
        assert_eq!(longterm[0], u64::MAX, "{rule:?}: {segments:?}");
        assert!((90 * SMSS..=100 * SMSS).contains(&longterm[1]), "{rule:?}: {longterm:?}");
    }
}

#[test]
fn ignored_losses_bound_neither_model() {
    let mut bbr = cruising(BbrLoss::Ignored);
    bbr.is_bw_probe_sample = true;
    lose(&mut bbr, 90);
    end_round(&mut bbr, 90);
    assert_eq!(bbr.model.inflight_longterm, u64::MAX);
    assert_eq!((bbr.model.bw_shortterm, bbr.model.inflight_shortterm), (u64::MAX, u64::MAX));
}

#[test]
fn inflight_at_loss_is_where_losses_crossed_the_threshold() {
    // §5.5.10.2: 80 segments precede this aggregate of 20, and one of them was lost. Another 0.02 * 80 - 1 =
    // 0.6 were allowed; 0.6 / 0.98 of the aggregate's segments use them up.
    let lost = |bytes, lost| Lost {
        now: Instant::ZERO,
        bytes,
        delivered: 0,
        prior_delivered: 0,
        app_limited: false,
        tx_in_flight: 100 * SMSS,
        lost,
    };
    assert_eq!(inflight_at_loss(&lost(20 * SMSS, 21 * SMSS)), 80 * SMSS + 612);
    // The segments before it had crossed the threshold already.
    assert_eq!(inflight_at_loss(&lost(SMSS, 30 * SMSS)), 99 * SMSS);
}

#[test]
fn sample_shorter_than_any_round_trip_says_nothing_of_the_bandwidth() {
    let mut bbr = Bbr::new(&START);
    let delivery_interval_ns = 99_000_000;
    bbr.on_ack(&Ack { delivery_interval_ns, ..ack(100, SMSS) });
    assert_eq!(bbr.model.max_bw, 0);
    bbr.on_ack(&ack(100, SMSS));
    assert_eq!(bbr.model.max_bw, 10 * SMSS);
}

// draft-ietf-ccwg-bbr-05 §5.3.4.3: min_rtt_expired = Now() > BBR.min_rtt_stamp + MinRTTFilterLen.
#[test]
fn a_longer_round_trip_counts_once_the_shortest_is_more_than_ten_seconds_old() {
    let mut model = Model::new(Instant::ZERO);
    let stamp = Instant::from_millis(500);
    model.update_min_rtt(stamp, 20_000_000, stamp);
    for (now, expected) in
        [(stamp + 10 * SECOND, 20_000_000), (stamp + 10 * SECOND + Duration::from_nanos(1), 30_000_000)]
    {
        model.update_min_rtt(now, 30_000_000, now);
        assert_eq!(model.min_rtt, expected, "{now:?}");
    }
}

#[test]
fn window_before_a_timeout_returns_when_all_of_it_has_been_delivered() {
    let mut bbr = cruising(BbrLoss::Certain);
    (bbr.model.min_rtt, bbr.probe_rtt_min_delay) = (100_000_000, 100_000_000);
    bbr.on_timeout(&Timeout {
        now: Instant::ZERO,
        flight_size: 10 * SMSS,
        expiries: 1,
        delivered: 0,
        peer_window: u64::MAX,
    });
    assert_eq!(bbr.cwnd(), SMSS);
    bbr.on_ack(&Ack { delivered: 9 * SMSS, ..ack(100, SMSS) });
    assert!(bbr.recovery.cwnd_before_timeout() == 100 * SMSS && bbr.cwnd() < 10 * SMSS, "{}", bbr.cwnd());
    bbr.on_ack(&Ack { delivered: 10 * SMSS, ..ack(100, SMSS) });
    assert!(bbr.recovery.cwnd_before_timeout() == 0 && !bbr.recovery.is_fast() && !bbr.recovery.end());
    assert_eq!(bbr.recovery.restored(0), 100 * SMSS);
}

#[test]
fn probe_rtt_halves_what_is_in_flight() {
    let mut flow = flow(Path::TYPICAL);
    flow.run(4 * SECOND);
    let mut smallest = u64::MAX;
    for _ in 0..600 {
        flow.run(Duration::from_millis(10));
        if value(&flow, "state") == State::ProbeRtt as i64 {
            smallest = smallest.min(flow.controller().cwnd());
        }
    }
    let product = Path::TYPICAL.bandwidth_delay_product();
    assert!((product * 4 / 10..=product * 6 / 10).contains(&smallest), "{smallest} of {product}");
}

#[test]
fn lower_bandwidth_is_followed_within_cycles() {
    let mut flow = flow(Path::TYPICAL);
    flow.run(10 * SECOND);
    flow.set_path(Path { rate: 400_000, ..Path::TYPICAL });
    flow.run(20 * SECOND);
    let bw = value(&flow, "bw");
    assert!(bw < 500_000, "{bw} B/s on a path of 400,000");
}

#[test]
fn higher_bandwidth_is_found() {
    let mut flow = flow(Path { rate: 400_000, ..Path::TYPICAL });
    flow.run(10 * SECOND);
    flow.set_path(Path::TYPICAL);
    flow.run(30 * SECOND);
    let bw = value(&flow, "bw");
    assert!(bw > 1_000_000, "{bw} B/s on a path of 1,250,000");
}

#[test]
fn pacing_rate_is_a_hundredth_below_the_bandwidth_while_cruising() {
    let mut flow = flow(Path::TYPICAL);
    flow.run(3 * SECOND);
    for _ in 0..1000 {
        flow.run(Duration::from_millis(5));
        if value(&flow, "state") == State::ProbeBwCruise as i64 {
            let (rate, bw) = (flow.controller().pacing_rate().unwrap(), value(&flow, "bw").unsigned_abs());
            assert_eq!(rate, bw * 99 / 100);
            return;
        }
    }
    panic!("it never cruised");
}
