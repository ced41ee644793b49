//! Support code shared by the examples of this package.
