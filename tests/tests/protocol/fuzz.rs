//! Arbitrary lives of an endpoint: a permanent corpus, every combination of choices, and random ones.
//!
//! `fuzz/corpus/connection` holds inputs of [`ackclock_tests::fuzz::run`], each under a name that says why it
//! is kept, and `fuzz/corpus/packet` packets. `FUZZ_LIVES=n` runs n random lives instead of a few; a failing
//! input is written to the temporary directory of the tests, for inspection.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use ackclock_core::{EndpointConfig, Instant};
use ackclock_tests::fuzz::{Choices, LifeTotals, every_choice, run};
use ackclock_tests::host::{Host, host_addr};
use ackclock_tests::rng::Rng;
use ackclock_wire::{ChecksumAt, ChecksumState, RxMeta};
use proptest::prelude::*;

#[test]
fn every_life_of_the_corpus_is_survived() {
    for (name, bytes) in corpus("connection") {
        println!("{name}");
        run(&bytes, None);
    }
}

#[test]
fn every_packet_of_the_corpus_is_survived() {
    for (name, packet) in corpus("packet") {
        println!("{name}");
        for checksum in
            [ChecksumState::Complete, ChecksumState::Verified, ChecksumState::Partial(ChecksumAt::tcp(20))]
        {
            let addresses = [false, true].map(|v6| host_addr(v6, 1)).to_vec();
            let mut host = Host::new(EndpointConfig::new(addresses, [1; 32]), Instant::from_millis(1));
            host.receive_as(&packet, RxMeta { checksum, segment_size: None });
            host.transmit();
        }
    }
}

/// All combinations of recovery, undo proofs, form of ECN and acknowledgement policy.
#[test]
fn every_combination_of_choices_is_survived() {
    let mut sum = LifeTotals::default();
    for (number, choices) in (0..).zip(every_choice()) {
        for life in 0..LIVES {
            add(&mut sum, live(number * LIVES + life, Some(choices)));
        }
    }
    println!("{sum:?}");
    // Lives without progress prove nothing.
    assert!(
        sum.established > 5_000 && sum.sent > 20_000_000 && sum.read > 1_000_000 && sum.again > 10_000,
        "{sum:?}"
    );
}

#[test]
fn equal_bytes_live_equal_lives() {
    for seed in 0..20 {
        let [first, second] = [(); 2].map(|()| format!("{:?}", live(seed, None)));
        assert_eq!(first, second);
    }
}

#[test]
fn random_lives_are_survived() {
    let lives = std::env::var("FUZZ_LIVES").map_or(2_000, |n| n.parse().expect("FUZZ_LIVES is a number"));
    for seed in 0..lives {
        live(1 << 40 | seed, None);
    }
}

proptest! {
    // Shrinks what it finds, which the lives above cannot.
    #[test]
    fn arbitrary_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        run(&bytes, None);
    }
}

/// The life of a seed; its bytes are written to a file if it fails.
fn live(seed: u64, choices: Option<Choices>) -> LifeTotals {
    let mut rng = Rng::new(seed);
    let bytes: Vec<u8> = (0..rng.between(50, 1_500)).map(|_| rng.next_u64() as u8).collect();
    match catch_unwind(AssertUnwindSafe(|| run(&bytes, choices))) {
        Ok(outcome) => outcome,
        Err(_) => {
            let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("life-{seed}"));
            fs::write(&path, &bytes).expect("the temporary directory can be written to");
            panic!("seed {seed} with {choices:?}; its bytes are in {}", path.display());
        }
    }
}

fn add(sum: &mut LifeTotals, one: LifeTotals) {
    sum.established += one.established;
    sum.sent += one.sent;
    sum.read += one.read;
    sum.again += one.again;
}

fn corpus(folder: &str) -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(folder);
    let mut entries: Vec<_> = fs::read_dir(&path)
        .expect("the corpus is there")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| (path.display().to_string(), fs::read(&path).expect("a readable file")))
        .collect();
    entries.sort();
    assert!(!entries.is_empty(), "{} is empty", path.display());
    entries
}

/// Lives for each combination.
const LIVES: u64 = 4;
