//! The side of this crate.

#[path = "../cases/mod.rs"]
pub(crate) mod cases;
pub(crate) mod side;
