//! Losses of the first slow start at a queue of one bandwidth-delay product.

use crate::paths::{LossyPath, Pattern};

/// 167 packets fill it, and as many its queue.
const PATH: LossyPath = LossyPath { mbit: 100, rtt_ms: 20, loss: 0, pattern: Pattern::Chance };

/// Two things cannot be helped: what is out when the first late samples arrive, a round trip after the queue
/// began to grow, and what Conservative Slow Start adds in the round trip in which the loss shows, a quarter
/// of what path and queue hold.
#[test]
fn hystart_loses_a_quarter_to_a_third_of_what_path_and_queue_hold() {
    let slow = LossyPath { mbit: 10, rtt_ms: 40, ..PATH };
    // 4 ms, the minimum that counts as late, is nearly half of its round trip.
    let short = LossyPath { mbit: 1000, rtt_ms: 10, ..PATH };
    for (path, least, most) in [(PATH, 70, 100), (slow, 15, 25), (short, 450, 600)] {
        for seed in 1..=5 {
            let dropped = path.dropped("cubic", seed, 2);
            println!("{path:?}, seed {seed}: {dropped} lost");
            assert!((least..=most).contains(&dropped), "{path:?}, seed {seed}: {dropped} lost");
        }
    }
}

#[test]
fn slow_start_without_it_loses_what_it_sent_too_much() {
    let dropped = PATH.dropped("cubic-plain", 1, 2);
    println!("without it: {dropped} lost");
    assert!((400..=800).contains(&dropped), "{dropped} lost");
}
