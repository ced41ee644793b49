//! The parts of `tcplab`, for use in other programs: grids of simulated situations, the conformance pages of
//! controllers, and pages and tables for the results.
//!
//! To test a controller of yours, put its
//! [`ControllerFactory`](ackclock_control::congestion::ControllerFactory) into a
//! [`Registry`](ackclock_control::congestion::Registry); [`kit::examine`] and [`grid::Cell::run`] take the
//! registry:
//!
//! ```
//! use ackclock_control::congestion::{Registry, Reno, Start, factory};
//! use tcplab::grid::{Cell, Grid};
//!
//! let mut registry = Registry::with_experiments();
//! registry.register(factory("my-reno", |start: &Start| Box::new(Reno::new(start))))?;
//! let grid = Grid { cc: vec!["my-reno".into(), "vegas".into()], ..Grid::default() };
//! let cells: Vec<Cell> = grid.cells();
//! let [mine, vegas] = [cells[0].run(&registry)?, cells[1].run(&registry)?];
//! assert!(mine.queue_mean > vegas.queue_mean);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! None.
//!
//! # Limits
//!
//! A cell runs on one thread and is kept in memory as a whole until its row is made. Virtual time has no
//! operating system: its figures do not contain what a kernel, a device or a busy processor adds.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod grid;
pub mod kit;
pub mod page;

pub use ackclock_sim::measures as measure;
