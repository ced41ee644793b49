//! Worlds as protocol tests of one end: they run on the protocol tests' own runner.

use std::collections::BTreeMap;
use std::time::Duration;

use ackclock_core::Keepalive;
use ackclock_explore::{Bounds, SETUPS, Script, Setup, Side, World, changes, explore};
use ackclock_test_script::step::Step;
use ackclock_wire::random::Rng;

/// A path through a world, by chance.
fn walk(setup: &'static Setup, rng: &mut Rng, len: usize) -> Script {
    let mut world = World::begin(setup);
    let (mut script, mut moves) = (Script { setup, moves: Vec::new() }, Vec::new());
    while script.moves.len() < len {
        moves.clear();
        world.moves(&mut moves);
        let Some(&step) = moves.get(rng.below(moves.len().max(1) as u64) as usize) else { break };
        script.moves.push(step);
        world.advance(step).expect("a healthy world");
    }
    script
}

#[test]
fn each_end_of_a_random_world_does_the_same_alone() {
    let mut tests = BTreeMap::<_, [u32; 2]>::new();
    for setup in &SETUPS {
        let mut rng = Rng::derive(1, setup.name);
        for walked in 0..WALKS {
            let script = walk(setup, &mut rng, 4 + walked % 40);
            for side in Side::BOTH {
                let [ran, without] = tests.entry(setup.name).or_default();
                match script.one_end(side) {
                    Ok(test) => {
                        assert_eq!(test.run(), Ok(()), "{script}\n{test}");
                        *ran += 1;
                    }
                    Err(why) => {
                        let acts_otherwise = side == Side::Server && setup.variations > 0;
                        let expected = why.to_string().contains("an old duplicate of a SYN")
                            || acts_otherwise && why.to_string().contains("a Linux");
                        assert!(expected, "{side:?}: {why}");
                        *without += 1;
                    }
                }
            }
        }
    }
    println!("{tests:?}");
    // Only where both may open does an old SYN begin another connection. A server has no words for two of the
    // ways of a Linux.
    let all = 2 * u32::try_from(WALKS).expect("few");
    let some = |name: &str| name == "crossing" || name.starts_with("linux");
    let few = tests.iter().filter(|(name, [ran, _])| *ran < if some(name) { all / 2 } else { all });
    assert_eq!(few.count(), 0, "{tests:?}");
}

/// A counterexample that is one although the stack is healthy: one probe without an answer ends a connection.
static IMPATIENT: [Setup; 1] = [Setup {
    name: "impatient",
    what: "one probe and no patience",
    faults: 1,
    tcp: changes!(|tcp| tcp.keepalive =
        Some(Keepalive { idle: Duration::from_secs(60), interval: Duration::from_secs(1), probes: 1 })),
    ..Setup::PLAIN
}];

#[test]
fn counterexample_is_a_test_that_fails() {
    let found = explore(&IMPATIENT[0], &Bounds::states(1000)).counterexample.expect("a loss ends it");
    let test = found.script.protocol_test().expect("it has one");
    let [end] = &test.ends[..] else { panic!("one end failed:\n{test}") };
    let why = end.run().expect_err("it fails alone, too");
    assert!(why.starts_with("script.has_not_failed();"), "{why}");
    assert!(why.contains("KeepaliveTimedOut"), "{why}");
    // Without the rule, everything else is as it was.
    let (rule, steps) = end.steps().split_last().expect("it has steps");
    assert_eq!(rule, &Step::HasNotFailed);
    assert_eq!(end.with_steps(steps.to_vec()).run(), Ok(()));
    for line in [
        "use std::time::Duration;",
        "use ackclock_core::Keepalive;",
        "#[test]",
        "    let mut tcp = untimed(64);",
        "    script.has_not_failed();",
    ] {
        assert!(test.to_string().lines().any(|it| it == line), "{line}\n{test}");
    }
}

#[test]
fn healthy_world_has_no_counterexample_to_print() {
    let script: Script = "world transfer\ncall client write 1".parse().expect("it is a script");
    let why = script.protocol_test().expect_err("nothing is wrong");
    assert_eq!(why.to_string(), "no protocol test of this: nothing is wrong");
}

const WALKS: usize = 400;
