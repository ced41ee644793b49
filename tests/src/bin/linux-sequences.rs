//! Runs sequences of segments and calls against the Linux kernel and against this stack and prints where they
//! answer differently. As root:
//!
//!     cargo run -p ackclock-tests --bin linux-sequences -- 1 100000    # the seeds 1 to 100,000
//!     cargo run -p ackclock-tests --bin linux-sequences -- 7           # the seed 7

#![forbid(unsafe_code)]

use std::process::ExitCode;

use ackclock_tests::linux::judge_seeds;
use ackclock_tests::netns::{Namespace, in_namespaces};

fn main() -> ExitCode {
    let numbers: Option<Vec<u64>> = std::env::args().skip(1).map(|argument| argument.parse().ok()).collect();
    let (first, last) = match numbers.as_deref() {
        Some([]) => (1, 1_000),
        Some(&[seed]) => (seed, seed),
        Some(&[first, last]) if first <= last => (first, last),
        _ => {
            eprintln!("usage: linux-sequences [SEED | FIRST LAST]");
            return ExitCode::from(2);
        }
    };
    let mut differs = true;
    in_namespaces(|[home]: [Namespace; 1]| {
        let report = judge_seeds(&home, first..=last);
        println!("{report}");
        differs = !report.different.is_empty();
    });
    ExitCode::from(u8::from(differs))
}
