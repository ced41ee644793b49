//! The swarm: many connections, every fault. `tests/src/swarm/mod.rs` lists
//! the checks of each run; docs/robustness.md explains how to run more of it.

use ackclock_tests::swarm::{Cut, Fault, PINNED_SEEDS, run, run_many};

#[test]
fn every_fault_strikes_and_nothing_is_lost() {
    let (total, failed) = run_many(0..PINNED_SEEDS, |_| true);
    println!("{total}");
    if let Some((seed, why)) = failed {
        panic!("seed {seed}; `swarm minimise {seed}` makes it smaller: {why}");
    }
    assert_eq!(total.done.counts.rarer_than(1), [], "faults that never struck");
    assert!(total.done.transfers > 15 * PINNED_SEEDS && total.done.connections >= total.done.transfers);
    assert!(total.done.bytes > PINNED_SEEDS << 20, "{} bytes", total.done.bytes);
}

#[test]
fn the_same_seed_gives_the_same_packets_and_another_one_others() {
    let hash =
        |seed| run(seed, &Cut::default(), None).unwrap_or_else(|why| panic!("seed {seed}: {why}")).hash;
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

// A host slept while the handshake's last acknowledgement waited for it, so its round trip is one of seven
// seconds.
#[test]
fn a_sender_that_waits_for_a_timeout_gets_it() {
    run(2222, &Cut::default(), None).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn what_is_cut_out_of_a_seed_does_not_happen_and_the_rest_does() {
    let seed = 3;
    let whole = run(seed, &Cut::default(), None).expect("a good seed");
    let without = Cut { events: Some(Vec::new()), plain: true, ..Cut::default() };
    let calm = run(seed, &without, None).expect("a calm one");
    assert_eq!(calm.done.transfers, whole.done.transfers);
    assert!(Fault::ALL.into_iter().all(|fault| calm.done.counts.of(fault) == 0), "{}", calm.done.counts);
    assert!(calm.done.connections == calm.done.transfers && whole.done.packets > calm.done.packets);
    let one = run(seed, &Cut { transfers: Some(vec![0]), divide: 8, ..without }, None).expect("one transfer");
    assert!(one.done.transfers == 1 && one.done.bytes < calm.done.bytes / 8);
}
