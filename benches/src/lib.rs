//! Support code shared by the benches of this package.
