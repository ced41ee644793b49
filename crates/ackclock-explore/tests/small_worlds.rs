//! Small worlds as `cargo test` visits them: 10^5 states, and a script that replays.

use std::time::Duration;

use ackclock_core::Keepalive;
use ackclock_explore::{Bounds, Call, Move, SETUPS, Script, Setup, Side, changes, explore};

#[test]
fn no_small_world_breaks_a_promise() {
    let states = 100_000 / SETUPS.len() + 1;
    let mut seen = 0;
    for setup in &SETUPS {
        let report = explore(setup, &Bounds::states(states));
        let found = report.counterexample.map(|found| format!("{}\n{}", found.breach, found.script));
        assert_eq!(found, None, "{}", setup.name);
        assert!(report.states == states || report.complete, "{}: {} states", setup.name, report.states);
        seen += report.states;
    }
    println!("{seen} states");
}

/// Ends that give up after one unanswered probe, so that one loss ends a connection without a cause.
static IMPATIENT: [Setup; 1] = [Setup {
    name: "impatient",
    what: "one probe and no patience",
    faults: 1,
    tcp: changes!(|tcp| tcp.keepalive =
        Some(Keepalive { idle: Duration::from_secs(60), interval: Duration::from_secs(1), probes: 1 })),
    ..Setup::PLAIN
}];

#[test]
fn shortest_counterexample_replays_from_its_text() {
    let found = explore(&IMPATIENT[0], &Bounds::states(1000)).counterexample.expect("a loss ends it");
    assert!(found.breach.to_string().contains("the peer answers no keep-alive probe"), "{}", found.breach);
    // A probe leaves, it or its answer is lost, and the next timer gives up. Timers that do nothing may come
    // between.
    let losses = found.script.moves.iter().filter(|step| matches!(step, Move::Lose(..))).count();
    assert_eq!(losses, 1, "{}", found.script);
    assert!((3..=6).contains(&found.script.moves.len()), "{}", found.script);
    let again = Script::parse_among(&found.script.to_string(), &IMPATIENT).expect("it is a script");
    assert_eq!(again.moves, found.script.moves);
    assert_eq!(again.replay(), Err(found.breach));
}

/// Nothing of a state may depend on how it was reached: two orders of calls at the two ends that do not
/// concern each other lead to one state.
#[test]
fn states_that_go_on_alike_count_once() {
    // At depth 1 a world has as many states as moves, at depth 2 fewer than pairs of moves.
    let bounds = |depth| Bounds { depth, ..Bounds::states(1_000_000) };
    let setup = Setup::find("both-ways").expect("it is in the table");
    // Each end may write 1, write 2 or close.
    assert_eq!(explore(setup, &bounds(1)).states, 1 + 6);
}

#[test]
fn script_replays_from_its_text() {
    let moves = vec![
        Move::Call(Side::Client, Call::Write(1)),
        Move::Lose(Side::Server, 0),
        Move::Call(Side::Client, Call::Write(2)),
        Move::Deliver(Side::Server, 0),
        Move::Timer(Side::Client),
    ];
    let script = Script { setup: Setup::find("transfer").expect("it is in the table"), moves: moves.clone() };
    let text = script.to_string();
    assert!(
        text.contains("lose server 0          # client > server: seg(PSH | ACK).seq(1).ack(1)"),
        "{text}"
    );
    assert!(text.contains(".opt(Opt::Sack(vec![(2, 4)]))"), "the byte beyond the gap is reported:\n{text}");
    let again: Script = text.parse().expect("it is a script");
    assert_eq!(again.moves, moves);
    assert_eq!(again.replay(), Ok(()));
    assert_eq!(again.to_string(), text);
}

#[test]
fn what_is_not_a_script_is_refused_with_its_line() {
    for (text, line) in [("", 1), ("world nowhere", 1), ("world transfer\n\ndeliver nothing 0", 3)] {
        let refused = text.parse::<Script>().map(|script| script.moves).expect_err(text).to_string();
        assert!(refused.starts_with(&format!("line {line}: ")), "{refused}");
    }
}

#[test]
fn script_that_does_not_fit_is_a_breach_and_no_panic() {
    let script: Script = "world transfer\nlose server 9".parse().expect("it is a script");
    let breach = script.replay().expect_err("nothing is on the way");
    assert!(breach.to_string().contains("no packet 9 is on the way"), "{breach}");
}
