//! Quantities with their units, as scenario files write them: `1.5Mbit/s`, `50ms`, `16KiB`, `10packets`,
//! `1%`.
//!
//! They are those of [`ackclock_control::quantity`], which lists the units.

pub use ackclock_control::quantity::{Bytes, Limit, Rate, Share, Span, UnitError};
