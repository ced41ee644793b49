//! Support code shared by the tests of this package.
