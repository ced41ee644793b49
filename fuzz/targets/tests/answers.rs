//! Endpoints answer as they did: the same packets at the same times, results, events, figures and traces, in
//! some hundred lives of every profile, under loss, damage, forgery and resets.
//!
//! A change of behaviour shows here although no other test asks for the old one. If it was meant, write the
//! new digests with `UPDATE_SNAPSHOTS=1 cargo test -p ackclock-fuzz --test answers`. To see what an input
//! changes, compare the lines that `scripts/fuzz.py TARGET --file INPUT --answers` prints before and after.
//!
//! An input has three digests: its packets and results; its figures and traces; and every field of the
//! connections after each step. A change that only arranges the fields in another way changes the third
//! alone.

use std::fmt::Write;
use std::path::Path;

use ackclock_fuzz::{answers, find, mutate};
use ackclock_test_support::snapshot;
use ackclock_tests::fuzz::Answers;

#[test]
fn a_scripted_peer_gets_the_same_answers() {
    check("connection", 150);
}

#[test]
fn endpoints_give_each_other_the_same_answers() {
    check("endpoint", 150);
}

#[test]
fn long_transfers_get_the_same_answers() {
    check("course", 60);
}

/// `drawn`: inputs drawn for the target, beside those of its corpus.
fn check(name: &str, drawn: u64) {
    let target = find(name).expect("a target");
    let kept = mutate::corpus(target).expect("it has a corpus");
    // Drawn without the corpus: a new input there changes no other.
    let drawn = (0..drawn).map(|seed| (format!("seed-{seed}"), mutate::draw(target, &[], seed)));
    let mut found = String::new();
    for (input, bytes) in kept.into_iter().chain(drawn) {
        println!("{name}/{input}");
        let mut kept = Answers::kept(false);
        assert!(answers(target, &bytes, &mut kept), "{name} has no endpoints");
        let [answers, figures, state] = kept.digests().expect("they are kept");
        writeln!(found, "{input} {answers} {figures} {state}").expect("a string takes it");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/answers").join(name).with_extension("txt");
    snapshot::compare(path, &found);
}
