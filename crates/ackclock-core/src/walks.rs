//! Random walks for tests: what is seen on the way is digested, and the digests are kept in a file.
//!
//! A walk has no expectation of its own. It notices that something behaves in another way than before, where
//! no other test asks. If that was meant, `UPDATE_SNAPSHOTS=1 cargo test -p ackclock-core --lib walks` writes
//! the new digests.
//! With `SHOW_WALKS=1` and `--nocapture` a test prints what it sees, for a comparison with the former.

use std::fmt::{Debug, Write as _};
use std::hash::Hasher as _;
use std::path::Path;

use ackclock_test_support::rng::Rng;
use ackclock_test_support::snapshot;
use ackclock_wire::Flags;
use siphasher::sip::SipHasher13;

/// One walk: its choices, and the digest of what was seen.
pub(crate) struct Walk {
    number: u64,
    choices: Rng,
    seen: SipHasher13,
    line: String,
}

impl Walk {
    pub(crate) fn new(seed: u64) -> Self {
        Self { number: seed, choices: Rng::new(seed), seen: SipHasher13::new(), line: String::new() }
    }

    /// Which walk it is, from 0.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// A number below `bound`, each equally likely.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.choices.below(bound)
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.choices.one_in(many)
    }

    pub(crate) fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        self.choices.pick(values)
    }

    /// The flags of a segment: mostly those of an established connection.
    pub(crate) fn flags(&mut self) -> Flags {
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

    /// Adds all fields to the digest.
    pub(crate) fn see(&mut self, what: &impl Debug) {
        self.line.clear();
        writeln!(self.line, "{what:?}").unwrap();
        // A field that only exists with the feature `tcp-ao`.
        self.seen.write(self.line.replace(", authenticated: false", "").as_bytes());
        if std::env::var_os("SHOW_WALKS").is_some() {
            print!("{}", self.line);
        }
    }

    /// Adds bytes to the digest, and their number.
    pub(crate) fn see_bytes(&mut self, bytes: &[u8]) {
        self.see(&bytes.len());
        self.seen.write(bytes);
    }

    fn digest(&self) -> u64 {
        self.seen.finish()
    }
}

/// Takes these walks, and compares their digests with those in `file`, below `src`.
pub(crate) fn check(file: &str, walks: u64, go: impl Fn(&mut Walk)) {
    let mut found = String::new();
    for seed in 0..walks {
        let mut walk = Walk::new(seed);
        go(&mut walk);
        writeln!(found, "{seed} {:016x}", walk.digest()).unwrap();
    }
    snapshot::compare(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file), &found);
}
