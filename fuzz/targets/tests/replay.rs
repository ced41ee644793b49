//! The corpus is survived, within a bound for each input, and so are seeded random inputs.
//!
//! `FUZZ_SECONDS=n` draws inputs for each target for n seconds instead of a few hundred; `scripts/fuzz.py`
//! runs longer, and makes what it finds shorter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ackclock_fuzz::{TARGETS, Target, find, mutate};

/// Inputs drawn for each target.
const INPUTS: u64 = 300;

#[test]
fn every_input_of_the_corpus_is_survived_in_its_time() {
    for target in &TARGETS {
        let corpus = mutate::corpus(target).expect("each target has a corpus");
        assert!(!corpus.is_empty(), "{} has an empty corpus", target.name);
        for (name, input) in corpus {
            println!("{}/{name}", target.name);
            bounded(target, &input);
        }
    }
}

#[test]
fn random_inputs_are_survived_in_their_time() {
    let seconds = std::env::var("FUZZ_SECONDS").ok().map(|n| n.parse().expect("FUZZ_SECONDS is a number"));
    for target in &TARGETS {
        let corpus = mutate::corpus(target).expect("each target has a corpus");
        let (began, mut seed) = (Instant::now(), 0);
        while seconds.map_or(seed < INPUTS, |n| began.elapsed() < Duration::from_secs(n)) {
            survive(target, seed, &mutate::draw(target, &corpus, seed));
            seed += 1;
        }
        println!("{}: {seed} inputs in {:?}", target.name, began.elapsed());
    }
}

#[test]
fn empty_input_is_survived() {
    for target in &TARGETS {
        (target.run)(&[]);
    }
}

#[test]
fn corpus_is_small() {
    let sizes = TARGETS.iter().flat_map(|target| mutate::corpus(target).expect("each target has a corpus"));
    let bytes: usize = sizes.map(|(_, input)| input.len()).sum();
    assert!(bytes < 2_000_000, "{bytes} bytes");
}

#[test]
fn shrinking_keeps_what_fails_and_nothing_else() {
    let least = mutate::shrink(b"a long text with a needle in it", |input| {
        input.windows(6).any(|part| part == b"needle")
    });
    assert_eq!(least, b"needle");
}

/// Lives get somewhere: those that end at once prove nothing.
#[test]
fn lives_of_endpoints_have_many_steps() {
    let target = find("endpoint").expect("a target");
    let corpus = mutate::corpus(target).expect("it has a corpus");
    let steps: u64 = (0..100).map(|seed| (target.run)(&mutate::draw(target, &corpus, seed))).sum();
    assert!(steps > 5_000, "{steps} steps in 100 lives");
}

/// Each cut goes on from a frozen endpoint, and may not depart from the recording.
#[test]
fn recorded_lives_are_cut_a_thousand_times() {
    let target = find("thawed").expect("a target");
    let corpus = mutate::corpus(target).expect("it has a corpus");
    let drawn = (0..60).map(|seed| mutate::draw(target, &corpus, seed));
    let cuts: u64 = drawn.map(|input| (target.run)(&input)).sum();
    assert!(cuts >= 1000, "{cuts} cuts in 60 lives");
}

/// Connections that move live on.
#[test]
fn moved_connections_have_many_steps() {
    let target = find("frozen").expect("a target");
    let corpus = mutate::corpus(target).expect("it has a corpus");
    let steps: u64 = (0..100).map(|seed| (target.run)(&mutate::draw(target, &corpus, seed))).sum();
    assert!(steps > 20_000, "{steps} steps in 100 lives");
}

/// A form that is read counts two and its packets.
#[test]
fn kept_forms_are_read_and_run() {
    let target = find("form").expect("a target");
    for (name, input) in mutate::corpus(target).expect("it has a corpus") {
        if !name.starts_with("refused") {
            assert!((target.run)(&input) > 1, "{name} is refused");
        }
    }
}

/// A seed's input, kept in the temporary directory if it is not survived.
fn survive(target: &Target, seed: u64, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| bounded(target, input))).is_err() {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{seed}", target.name));
        std::fs::write(&path, input).expect("the temporary directory can be written to");
        panic!(
            "{}: seed {seed}; repeat it with scripts/fuzz.py {} --file {}",
            target.name,
            target.name,
            path.display()
        );
    }
}

/// Runs an input, which may take so much of the processor; who else runs makes no difference.
fn bounded(target: &Target, input: &[u8]) {
    let began = processor_time();
    let units = (target.run)(input);
    let (took, most) = (processor_time() - began, target.time_max(units));
    let Target { name, unit, .. } = target;
    assert!(took <= most, "an input of {name} takes {took:?} for {units} {unit}, more than {most:?}");
}

/// The processor time of this thread so far, as the kernel counts it.
fn processor_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let nanos = told.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("a number stands first");
    Duration::from_nanos(nanos)
}
