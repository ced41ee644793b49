//! A reduction that is taken back has not happened: every controller goes on as its twin, which saw none
//! (RFC 4015 §3.2, RFC 5682 §4).

use std::collections::BTreeMap;
use std::time::Duration;

use super::{LossCause, LossEpisode, Registry, Timeout, Undo};
use crate::kit::{Flow, Path};

/// A reduction that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mistake {
    Loss,
    Timeout,
    /// The timer expires twice before the proof comes.
    TwoTimeouts,
    /// A mistake that is taken back, and another.
    Both,
}

/// Makes a mistake and proves it at once, as Eifel does: before the acknowledgement counts.
fn mistake(flow: &mut Flow, mistake: Mistake) {
    let undo = |flow: &mut Flow| flow.tell(|controller, now, _, _| controller.on_undo(&Undo { now }));
    let lose = |flow: &mut Flow| {
        flow.tell(|controller, now, flight_size, delivered| {
            let cause = LossCause::DuplicateAcks;
            controller.on_loss_episode(&LossEpisode {
                now,
                cause,
                flight_size,
                bytes_lost: 1000,
                delivered,
                repeated: false,
                peer_window: u64::MAX,
            });
        });
    };
    let expire = |flow: &mut Flow, expiries| {
        flow.tell(|controller, now, flight_size, delivered| {
            controller.on_timeout(&Timeout { now, flight_size, expiries, delivered, peer_window: u64::MAX });
        });
    };
    match mistake {
        Mistake::Loss => lose(flow),
        Mistake::Timeout => expire(flow, 1),
        Mistake::TwoTimeouts => [1, 2].into_iter().for_each(|expiries| expire(flow, expiries)),
        Mistake::Both => {
            lose(flow);
            undo(flow);
            expire(flow, 1);
        }
    }
    undo(flow);
}

/// All that a connection sees of it.
fn visible(flow: &Flow) -> String {
    let controller = flow.controller();
    let (cwnd, ssthresh, rate) = (controller.cwnd(), controller.ssthresh(), controller.pacing_rate());
    format!("{cwnd} {ssthresh} {rate:?} {:?} {:?}", controller.snapshot(), flow.totals())
}

/// Whether BBR is in Startup or ProbeBW_UP.
fn is_probing(flow: &Flow) -> bool {
    flow.controller().snapshot().iter().any(|(name, value)| name == "state" && [0, 5].contains(&value))
}

/// draft-ietf-ccwg-bbr-06 §5.5.11.2: HandleSpuriousLossDetection() calls ResetFullBW(), so Startup and
/// ProbeBW_UP count their three round trips without growth (§5.3.1.2) once more, the one under way not
/// included.
fn judge_probing(flows: [Flow; 2], path: Path, moment: Duration) {
    let [told, twin] = flows.map(|mut flow| {
        let begun = flow.now();
        while is_probing(&flow) {
            flow.run(Duration::from_millis(1));
        }
        flow.now().saturating_since(begun)
    });
    let full = Duration::from_nanos(path.buffer * 1_000_000_000 / path.rate);
    let more = 4 * (path.base_rtt + full);
    assert!((twin..=twin + more).contains(&told), "after {moment:?}: {told:?}, the twin {twin:?}");
}

/// A thousand bits a millisecond: slow enough for windows of a dozen segments, and many of them.
const SLOW: Path = Path { rate: 125_000, buffer: 12_000, segments_per_ack: 2, ..Path::TYPICAL };
const DEEP: Path = Path { buffer: 60_000, segments_per_ack: 1, mark_above: Some(20_000), ..SLOW };

#[test]
fn controller_goes_on_as_if_an_undone_mistake_had_not_been_made() {
    let mut wrong = BTreeMap::new();
    let registry = Registry::with_experiments();
    for name in registry.names() {
        let factory = registry.find(name).unwrap();
        for path in [SLOW, DEEP] {
            for moment in (1..30).map(|n| Duration::from_millis(73 * n * n / 4)) {
                for kind in [Mistake::Loss, Mistake::Timeout, Mistake::TwoTimeouts, Mistake::Both] {
                    let [mut told, mut twin] = [(); 2].map(|()| Flow::new(factory.as_ref(), path));
                    told.run(moment);
                    twin.run(moment);
                    mistake(&mut told, kind);
                    if name == "bbr" && is_probing(&twin) {
                        judge_probing([told, twin], path, moment);
                        continue;
                    }
                    for step in 0..150 {
                        if visible(&told) != visible(&twin) {
                            let seen = format!(
                                "{moment:?}, {step} steps later:\n  {}\n  {}",
                                visible(&told),
                                visible(&twin)
                            );
                            wrong.entry((name, kind)).or_insert(seen);
                            break;
                        }
                        told.run(Duration::from_millis(10));
                        twin.run(Duration::from_millis(10));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// RFC 5682 §2.1: two acknowledgements come before F-RTO's proof, and count. The window is then between what
/// it was and what the twin's has become, and what was measured meanwhile stays measured.
#[test]
fn controller_keeps_what_it_learns_before_the_proof() {
    let registry = Registry::with_experiments();
    for name in registry.names() {
        let factory = registry.find(name).unwrap();
        let mut compared = 0;
        for path in [SLOW, DEEP] {
            for moment in (1..30).map(|n| Duration::from_millis(73 * n * n / 4)) {
                let [mut told, mut twin] = [(); 2].map(|()| Flow::new(factory.as_ref(), path));
                told.run(moment);
                twin.run(moment);
                let episodes = twin.totals().episodes;
                let before = twin.controller().cwnd();
                told.tell(|controller, now, flight_size, delivered| {
                    controller.on_timeout(&Timeout {
                        now,
                        flight_size,
                        expiries: 1,
                        delivered,
                        peer_window: u64::MAX,
                    });
                });
                // The segments of a few acknowledgements.
                [&mut told, &mut twin].into_iter().for_each(|flow| flow.run(Duration::from_millis(30)));
                if told.totals().episodes > episodes || twin.totals().episodes > episodes {
                    // A loss is found meanwhile: the mistake stands, as the reduction before it.
                    continue;
                }
                compared += 1;
                told.tell(|controller, now, _, _| controller.on_undo(&Undo { now }));
                let (now, then) = (told.controller().cwnd(), twin.controller().cwnd());
                let case = format!("{name}, {moment:?}: {before}, then {now}, the twin {then}");
                assert!((before.min(then)..=before.max(then)).contains(&now), "{case}");
                let measured = |flow: &Flow| {
                    let snapshot = flow.controller().snapshot();
                    let kept = ["base_rtt_us", "avoiding", "srv_us", "rtt_min_us"];
                    snapshot.iter().filter(|(name, _)| kept.contains(name)).collect::<Vec<_>>()
                };
                assert_eq!(measured(&told), measured(&twin), "{case}");
            }
        }
        assert!(compared >= 40, "{name}: compared {compared} times of 58");
    }
}
