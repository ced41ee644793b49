//! Random walks for tests: a model test takes many of them, and compares with a naive model after each step.

use ackclock_test_support::rng::Rng;
use ackclock_wire::Flags;

/// One walk: the choices that its number leads to.
pub(crate) struct Walk {
    number: u64,
    choices: Rng,
}

impl Walk {
    pub fn new(number: u64) -> Self {
        Self { number, choices: Rng::new(number) }
    }

    /// Which walk it is, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// A number below `bound`, each equally likely.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.choices.below(bound)
    }

    pub fn one_in(&mut self, many: u64) -> bool {
        self.choices.one_in(many)
    }

    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        self.choices.pick(values)
    }

    /// The flags of a segment: mostly those of an established connection.
    pub fn flags(&mut self) -> Flags {
        self.pick(&[
            Flags::ACK,
            Flags::ACK,
            Flags::ACK | Flags::PSH,
            Flags::ACK | Flags::PSH,
            Flags::ACK,
            Flags::ACK | Flags::FIN,
            Flags::ACK | Flags::URG,
            Flags::RST,
            Flags::RST | Flags::ACK,
            Flags::SYN,
            Flags::SYN | Flags::ACK,
            Flags::FIN,
        ])
    }
}

/// Takes `walks` walks, or with `WALK=17` that one alone. A test that fails shows which it was.
pub(crate) fn each(walks: u64, go: impl Fn(&mut Walk)) {
    let only: Option<u64> = std::env::var("WALK").ok().map(|number| number.parse().expect("a number"));
    for number in (0..walks).filter(|number| only.is_none_or(|only| only == *number)) {
        println!("again with: WALK={number} cargo test -p ackclock-core --lib {}", test_name());
        go(&mut Walk::new(number));
    }
}

/// The test that runs in this thread.
fn test_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}
