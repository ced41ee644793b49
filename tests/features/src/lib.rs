//! Nothing: only the dependencies of this crate matter. `scripts/features.py` writes them.

#![forbid(unsafe_code)]
