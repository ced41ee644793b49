//! One hash of every packet that the stack sends in some hundred runs: every profile, loss, damage, forgery,
//! resets, pauses.
//!
//! A change that only rearranges the code leaves it alone, in debug and in release. A change that is meant to
//! send other packets puts the number that the program prints into [`PINNED`].

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use ackclock_fuzz::{answers, find, mutate};
use ackclock_sim::observe::LogHash;
use ackclock_sim::{Scenario, Simulation};
use ackclock_tests::fuzz::Answers;
use ackclock_tests::{swarm, virtual_time};

/// The hash of all packets, and of their times.
pub const PINNED: &str = "c1c6d9a5889ce122";

/// The runs of one kind.
#[derive(Clone, Debug)]
pub struct Part {
    /// The name of the run.
    pub name: &'static str,
    /// Packets sent.
    pub packets: u64,
    /// Of their bytes and times.
    pub hash: String,
}

/// All runs, one kind after the other. It takes about ten seconds without optimisation for size or speed.
///
/// # Panics
/// If a run breaks what must hold of it.
#[must_use]
pub fn parts() -> Vec<Part> {
    vec![
        lives("connection", 150),
        lives("endpoint", 150),
        lives("course", 60),
        swarm_seeds(),
        program(),
        simulation(),
    ]
}

/// The one hash.
#[must_use]
pub fn hash(parts: &[Part]) -> String {
    let mut all = blake3::Hasher::new();
    for part in parts {
        all.update(part.to_string().as_bytes());
    }
    short(&all)
}

/// The lives of a fuzz target: those of its corpus, and `drawn` more. They are drawn without the corpus, so
/// that a new input there changes no other.
fn lives(name: &'static str, drawn: u64) -> Part {
    let target = find(name).expect("a target");
    let kept = mutate::corpus(target).expect("it has a corpus").into_iter().map(|(_, input)| input);
    let drawn = (0..drawn).map(|seed| mutate::draw(target, &[], seed));
    let (mut all, mut packets) = (blake3::Hasher::new(), 0);
    for input in kept.chain(drawn) {
        let mut life = Answers::kept(false);
        assert!(answers(target, &input, &mut life), "{name} has no endpoints");
        let (hash, count) = life.packets().expect("they are kept");
        all.update(hash.as_bytes());
        packets += count;
    }
    Part { name, packets, hash: short(&all) }
}

/// The swarm's pinned seeds.
fn swarm_seeds() -> Part {
    let (total, failed) = swarm::run_many(0..swarm::PINNED_SEEDS, |_| true);
    assert_eq!(failed, None, "a seed of the swarm failed");
    Part { name: "swarm", packets: total.done.packets, hash: format!("{:016x}", total.hash) }
}

/// A program with sockets on a rough virtual network.
fn program() -> Part {
    let (hash, packets, _) = virtual_time::hash(5);
    Part { name: "program", packets, hash }
}

/// A busy simulated network.
fn simulation() -> Part {
    let scenario = Scenario::from_toml("busy.toml", include_str!("busy.toml")).expect("it is valid");
    let log = Rc::new(RefCell::new(LogHash::default()));
    let mut simulation = Simulation::new(&scenario).expect("it is valid");
    simulation.observe(log.clone());
    simulation.run();
    let log = log.borrow();
    Part { name: "simulation", packets: log.records(), hash: format!("{:016x}", log.value()) }
}

fn short(hasher: &blake3::Hasher) -> String {
    hasher.finalize().to_hex()[..16].to_owned()
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<12} {:>9} packets  {}", self.name, self.packets, self.hash)
    }
}
