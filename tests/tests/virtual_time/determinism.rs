//! A scenario, a seed and a program give the same packets in every build.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_sim::VirtualNetwork;
use ackclock_sim::observe::{PacketLog, Pcapng};
use ackclock_tests::virtual_time::{PINNED_TRACE, exchange, hash, rough, trace_hash};

#[test]
fn the_same_seed_gives_the_same_log_byte_by_byte() {
    let log = || {
        let mut net = VirtualNetwork::new(&rough(1)).unwrap();
        let log = Rc::new(RefCell::new(PacketLog::default()));
        net.observe(Rc::clone(&log));
        let capture = Rc::new(RefCell::new(Pcapng::new(Vec::new(), [(0, "a"), (3, "x")])));
        net.observe(Rc::clone(&capture));
        exchange(&mut net);
        capture.borrow_mut().finish().unwrap();
        drop(net);
        let capture = Rc::into_inner(capture).unwrap().into_inner().into_inner();
        (Rc::into_inner(log).unwrap().into_inner().bytes().to_vec(), capture)
    };
    let ((log, capture), (log_again, capture_again)) = (log(), log());
    assert!(log.len() > 10_000 * PacketLog::RECORD && log == log_again);
    assert!(capture.len() > 500_000 && capture == capture_again);
}

#[test]
fn another_seed_gives_other_packets_and_every_client_an_answer_or_its_timeout() {
    let (first, records, results) = hash(1);
    assert_ne!(first, hash(2).0);
    assert!(records > 10_000 && results.len() == 12);
    assert!(results.iter().filter(|bytes| **bytes > 0).count() >= 6, "{results:?}");
}

/// The records of traces hash to this number in every build; `packets` of `tests/packets` hashes the packets.
#[test]
fn the_traces_of_a_pinned_program_are_the_same_in_every_build() {
    let (found, records) = trace_hash(5);
    assert!(records > 10_000, "{records}");
    assert_eq!(found, PINNED_TRACE);
}

/// Only for programs built with `RUSTFLAGS="--cfg tokio_unstable"`: no other tokio accepts a seed for its
/// order.
#[cfg(tokio_unstable)]
#[test]
fn the_order_that_select_draws_is_the_seeds() {
    let order = |seed| {
        let mut net = VirtualNetwork::new(&rough(seed)).unwrap();
        let draws = async {
            let mut order = 0_u64;
            for _ in 0..64 {
                let drawn = tokio::select! {
                    () = async {} => 0,
                    () = async {} => 1,
                };
                order = order << 1 | drawn;
            }
            order
        };
        net.run(draws).unwrap()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}
