//! TCP in a browser tab: simulations, captures and controllers behind one function.
//!
//! A [`Lab`] takes a request as JSON and answers with JSON. It has no clock, thread, file or socket. The
//! static page runs it as WebAssembly, `tcplab serve` natively.
//!
//! ```
//! let mut lab = ackclock_lab::Lab::new();
//! assert!(lab.answer(r#"{"ask": "catalogue"}"#).starts_with('{'));
//! let wrong = lab.answer(r#"{"ask": "weather"}"#);
//! assert!(wrong.contains("unknown request"), "{wrong}");
//! ```
//!
//! # Features
//!
//! None.
//!
//! # Limits
//!
//! A run is in memory as a whole, and so is a capture's table of connections.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod capture;
mod lab;
mod page;

pub use self::lab::Lab;
pub use self::page::{Engine, page};
