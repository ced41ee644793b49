//! Traces of TCP connections: packet captures, tables, graphs, explanations.
//!
//! [`file`](mod@file) stores the records of a stack or a simulation, [`export`] converts them to tables and
//! captures, [`graphs`] makes figures and pages of them (`ackclock-chart` draws those), and [`explain`] says
//! why things happened.
//!
//! ```
//! use ackclock_trace::export;
//! use ackclock_trace::file::{Origin, Trace, Writer};
//!
//! let mut bytes = Vec::new();
//! Writer::new(&mut bytes, &Origin::default())?.flush()?; // `batch` writes what `Stack::next_trace` gives
//! let trace = Trace::read(&bytes[..])?;
//! let mut table = Vec::new();
//! export::csv(&trace, &mut table)?;
//! assert!(table.starts_with(b"time,source,entry,"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! None.
//!
//! # Limits
//!
//! A trace is read into memory as a whole, at some tens of bytes per record. Records have lengths and
//! positions, never payload.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod explain;
pub mod export;
pub mod file;
pub mod graphs;
mod stream;
#[cfg(test)]
mod testing;
pub mod theory;
