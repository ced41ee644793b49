//! Prints one hash of all packets that the stack sends in some hundred runs; fails if another is pinned:
//!
//!     cargo run --profile plain -p ackclock-packets

#![forbid(unsafe_code)]

use std::process::ExitCode;

use ackclock_packets::{PINNED, hash, parts};

fn main() -> ExitCode {
    let parts = parts();
    for part in &parts {
        println!("{part}");
    }
    let found = hash(&parts);
    println!("all packets hash to {found}");
    if found == PINNED {
        return ExitCode::SUCCESS;
    }
    eprintln!("they should hash to {PINNED}; see tests/packets/src/lib.rs");
    ExitCode::FAILURE
}
