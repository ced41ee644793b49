//! Turns arbitrary bytes into an endpoint's life: its settings, packets, times, and calls of its
//! applications.
//!
//! [`run`] is a fuzz target: any bytes are a valid input, equal bytes give an equal run, and a run that
//! breaks an oracle panics. The bytes decide how the peer behaves: it answers correctly, almost correctly, or
//! with noise. `cargo test` replays a corpus of inputs; so does a fuzzer, whose finds belong in that corpus.

mod answers;
mod life;
mod settings;

use std::time::Duration;

use ackclock_core::EndpointConfig;

pub use answers::Answers;
pub use settings::{Choices, endpoint_config, every_choice};

use self::life::Life;

/// Runs the life that `bytes` describe. `choices`, if any, replace those that the bytes make.
///
/// # Panics
/// If an oracle is broken.
pub fn run(bytes: &[u8], choices: Option<Choices>) -> LifeTotals {
    live(bytes, choices, &mut Answers::default())
}

/// As [`run`], with the choices that the bytes make, and the answers.
///
/// # Panics
/// If an oracle is broken.
pub fn answers(bytes: &[u8], answers: &mut Answers) {
    live(bytes, None, answers);
}

fn live(bytes: &[u8], choices: Option<Choices>, answers: &mut Answers) -> LifeTotals {
    let mut input = Input::new(bytes);
    let scene = settings::scene(&mut input, choices);
    let mut life = Life::new(scene, answers);
    while !input.is_empty() {
        life.step(&mut input);
    }
    life.end()
}

/// Totals of a life, so that a test can check that its lives cover anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct LifeTotals {
    /// Connections that were established.
    pub established: u64,
    /// Payload bytes that the endpoint sent, and those that its applications read.
    pub sent: u64,
    /// See `sent`.
    pub read: u64,
    /// Segments retransmitted.
    pub again: u64,
    /// Packets that the endpoint sent, whatever is in them.
    pub packets: u64,
}

/// The start of a life.
#[derive(Debug)]
struct Scene {
    config: EndpointConfig,
    v6: bool,
    /// Largest packet that the device cuts.
    gso_max: usize,
}

/// Bytes, taken one by one; zeros when there are none left.
#[derive(Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether none are left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn long(&mut self) -> u32 {
        u32::from(self.word()) << 16 | u32::from(self.word())
    }

    fn chance(&mut self, one_in: u8) -> bool {
        self.byte().is_multiple_of(one_in)
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::from(self.byte()) % values.len()]
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// From zero to half an hour, short ones more often.
    fn duration(&mut self) -> Duration {
        let byte = self.byte();
        Duration::from_micros(u64::from(1 + byte % 16) << (byte / 16 * 2))
            .saturating_sub(Duration::from_micros(1))
    }
}
