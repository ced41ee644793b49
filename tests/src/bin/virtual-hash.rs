//! Runs the pinned program on its virtual network and says whether this build sends the packets that it should:
//!
//!     cargo run --release -p ackclock-tests --bin virtual-hash

#![forbid(unsafe_code)]

use std::process::ExitCode;

use ackclock_tests::virtual_time::{PINNED, hash};

fn main() -> ExitCode {
    let (found, records, _) = hash(5);
    println!("{records} records of packets hash to {found}");
    if found == PINNED {
        return ExitCode::SUCCESS;
    }
    eprintln!("they should hash to {PINNED}; see `PINNED` in tests/src/virtual_time.rs");
    ExitCode::FAILURE
}
