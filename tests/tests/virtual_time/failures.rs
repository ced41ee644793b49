//! Failures: the message says what failed, and nothing hangs.

use std::time::Duration;

use ackclock_sim::units::Span;
use ackclock_sim::{RunError, Scenario, TrafficConfig, VirtualNetwork};
use tokio::io::AsyncReadExt;
use tokio::time::{advance, sleep};

use super::support::{dumbbell, echo, ends, path, two};

#[test]
fn waiting_for_what_nobody_does_ends_with_the_time_since_when() {
    let scenario = two(path());
    let mut net = VirtualNetwork::new(&scenario).unwrap();
    let (_client, listener, _addr) = ends(&mut net, "a", "b");
    let stalled = net.run(async {
        sleep(Duration::from_millis(1500)).await;
        listener.accept().await.map(|_| ())
    });
    let error = stalled.unwrap_err();
    let RunError::Stalled { since, end } = error else { panic!("{error}") };
    assert_eq!((since.as_millis(), end.as_millis()), (1500, 600_000));
    let said = error.to_string();
    assert!(said.contains("last called or reached, at 1.500000000 s; no packet is under way"), "{said}");
    // Later calls say so at once.
    assert!(matches!(net.run(std::future::pending::<()>()), Err(RunError::Stalled { .. })));
    assert_eq!(net.run(async { 7 }), Ok(7));
}

#[test]
fn a_spawned_task_that_sleeps_and_wakes_is_not_a_stall() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let slept = net.run(async { tokio::spawn(sleep(Duration::from_secs(599))).await.is_ok() });
    assert_eq!(slept, Ok(true));
}

#[test]
fn a_program_that_never_ends_is_stopped_by_the_scenarios_end() {
    let scenario = dumbbell(path()).traffic(TrafficConfig::bulk("load", "y", "b", None));
    let mut net = VirtualNetwork::new(&Scenario { duration: Span::millis(10_500), ..scenario }).unwrap();
    let (client, listener, addr) = ends(&mut net, "a", "x");
    let never = net.run(async {
        tokio::spawn(echo(listener));
        client.connect(addr).await.unwrap().read_u8().await
    });
    let error = never.map(|_| ()).unwrap_err();
    let RunError::OutOfTime { since, end } = error else { panic!("{error}") };
    assert!(since.as_millis() < 1000 && end.as_millis() == 10_500, "{error}");
    assert_eq!(net.now(), end);
}

#[test]
fn moving_tokios_clock_by_oneself_is_found_out() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, listener, addr) = ends(&mut net, "a", "b");
    let moved = net.run(async {
        tokio::spawn(echo(listener));
        tokio::spawn(async {
            sleep(Duration::from_millis(1)).await;
            advance(Duration::from_secs(1)).await;
        });
        client.connect(addr).await.map(|_| ())
    });
    assert!(matches!(moved, Err(RunError::ClockMoved { .. })), "{moved:?}");
}

#[tokio::test]
async fn a_network_within_a_runtime_is_refused() {
    let error = VirtualNetwork::new(&two(path())).unwrap_err().to_string();
    assert!(error.contains("has a tokio runtime of its own: make it outside of any other"), "{error}");
}

#[test]
fn a_host_with_traffic_of_the_scenario_has_no_second_stack() {
    let scenario = dumbbell(path()).traffic(TrafficConfig::bulk("load", "y", "b", None));
    let mut net = VirtualNetwork::new(&scenario).unwrap();
    let mut refused = |host: &str| net.stack(host).map(|_| ()).unwrap_err().to_string();
    assert!(refused("b").starts_with("host `b` runs the traffic `load` and has an endpoint already"));
    assert!(refused("q").starts_with("the scenario has no host `q`; it has `a`, `b`"));
    assert!(refused("l").starts_with("`l` is a router"));
    let _stack = net.stack("a").unwrap();
    assert!(net.stack("a").map(|_| ()).unwrap_err().to_string().starts_with("host `a` has a stack already"));
    assert!(!net.add_app("a", "app", net.now(), Box::new(Nothing)));
}

#[test]
fn a_panic_of_the_program_is_the_callers_and_one_of_a_task_is_its_handles() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let joined = net.run(async { tokio::spawn(async { panic!("of a task") }).await });
    assert!(joined.unwrap().unwrap_err().is_panic());
    let program = std::panic::AssertUnwindSafe(|| net.run(async { panic!("of the program") }));
    assert!(std::panic::catch_unwind(program).is_err());
    assert_eq!(net.run(async { 7 }), Ok(7));
}

#[test]
fn a_stack_that_is_gone_answers_nobody() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, listener, addr) = ends(&mut net, "a", "b");
    net.run(async {
        drop(listener);
        sleep(Duration::from_secs(1)).await;
        let failed = client.connect(addr).await.map(|_| ()).unwrap_err();
        assert_eq!(failed.kind(), std::io::ErrorKind::TimedOut);
        drop(client);
    })
    .unwrap();
}

#[derive(Debug)]
struct Nothing;

impl ackclock_sim::App for Nothing {
    fn on_event(&mut self, _: ackclock_sim::AppEvent, _: &mut ackclock_sim::AppContext<'_>) {}
}
