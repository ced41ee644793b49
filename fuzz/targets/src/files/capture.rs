//! Captures: whatever is in them, what `tcplab` assesses, explains and draws of them comes to an end.

use std::hint::black_box;
use std::path::Path;

use ackclock_assess::capture::{Vantage, read_one};
use ackclock_assess::{Estimator, Side, StartUp, traced, transfers};
use ackclock_control::assess::timeouts::assess;
use ackclock_control::rtt::presets;

use super::trace::use_as_trace;

/// Reads a capture as a file, and as two of the two ends, and assesses the connections in it.
pub(crate) fn capture(bytes: &[u8]) -> u64 {
    let Ok((report, mut vantages)) = read_one(0, Path::new("any.pcap"), bytes) else { return 1 };
    black_box(report.remarks());
    assess_all(&vantages, Side::Guess);
    assess_all(&vantages, Side::Sender);
    use_as_trace(&traced(&vantages, "any"));
    if let Ok((_, others)) = read_one(1, Path::new("other.pcap"), bytes) {
        vantages.extend(others);
        assess_all(&vantages, Side::Both);
    }
    1
}

fn assess_all(vantages: &[Vantage], side: Side) {
    let (transfers, left_out) = transfers(vantages, side);
    assert!(transfers.len() + left_out.len() <= vantages.len(), "more connections than were seen");
    for (_, _, why) in left_out {
        black_box(why.in_words());
    }
    for preset in presets::all() {
        for transfer in &transfers {
            black_box(assess(transfer.replay.events.iter().copied(), &preset.config, Some(2)));
        }
    }
    let start_ups: Vec<StartUp> =
        transfers.iter().filter_map(|transfer| StartUp::new(transfer).ok()).collect();
    for estimator in Estimator::of_the_paper() {
        black_box(estimator.regions(&start_ups));
        for start_up in &start_ups {
            black_box(start_up.estimate(estimator));
        }
    }
}
