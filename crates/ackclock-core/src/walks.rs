//! Random walks for tests: what is seen on the way is digested, and the digests are kept in a file.
//!
//! A walk has no expectation of its own. It notices that something behaves in another way than before, where
//! no other test asks. If that was meant, `UPDATE_SNAPSHOTS=1 cargo test -p ackclock-core --lib walks` writes
//! the new digests.
//! With `SHOW_WALKS=1` and `--nocapture` a test prints what it sees, for a comparison with the former.

use std::fmt::{Debug, Write as _};
use std::hash::Hasher as _;
use std::path::Path;
use std::{env, fs};

use siphasher::sip::SipHasher13;

/// One walk: its choices, and the digest of what was seen.
pub(crate) struct Walk {
    seed: u64,
    choices: u64,
    seen: SipHasher13,
    line: String,
}

impl Walk {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, choices: 0, seen: SipHasher13::new(), line: String::new() }
    }

    /// A number below `bound`, each equally likely.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.choices += 1;
        let mut hasher = SipHasher13::new_with_keys(self.seed, 14);
        hasher.write_u64(self.choices);
        hasher.finish() % bound.max(1)
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::try_from(self.below(values.len() as u64)).unwrap()]
    }

    /// Adds all fields to the digest.
    pub(crate) fn see(&mut self, what: &impl Debug) {
        self.line.clear();
        writeln!(self.line, "{what:?}").unwrap();
        // A field that only exists with the feature `tcp-ao`.
        self.seen.write(self.line.replace(", authenticated: false", "").as_bytes());
        if env::var_os("SHOW_WALKS").is_some() {
            print!("{}", self.line);
        }
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &found).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    let other: Vec<_> = found.lines().filter(|line| !kept.lines().any(|kept| kept == *line)).collect();
    assert_eq!(other, [""; 0], "{file}: other walks; see src/walks.rs");
    assert_eq!(found.lines().count(), kept.lines().count(), "{file}: other walks");
}
