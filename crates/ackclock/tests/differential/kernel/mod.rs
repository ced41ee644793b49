//! The kernel's side.

#[expect(clippy::duplicate_mod, reason = "the cases are compiled once for each side")]
#[path = "../cases/mod.rs"]
pub(crate) mod cases;
pub(crate) mod side;
