//! Runs the pinned program on its virtual network and checks that this build sends the expected packets and
//! writes the expected traces:
//!
//!     cargo run --release -p ackclock-tests --bin virtual-hash

#![forbid(unsafe_code)]

use std::process::ExitCode;

use ackclock_tests::virtual_time::{PINNED, PINNED_TRACE, hash, trace_hash};

fn main() -> ExitCode {
    let (packets, events, _) = hash(5);
    let (traces, records) = trace_hash(5);
    println!("{events} events of packets hash to {packets}, {records} records of traces to {traces}");
    if (packets.as_str(), traces.as_str()) == (PINNED, PINNED_TRACE) {
        return ExitCode::SUCCESS;
    }
    eprintln!("they should hash to {PINNED} and {PINNED_TRACE}; see tests/src/virtual_time.rs");
    ExitCode::FAILURE
}
