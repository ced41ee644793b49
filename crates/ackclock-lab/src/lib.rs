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
//! - `bundle` (off): tests of the page that `scripts/lab.sh` has built.
//!
//! # Limits
//!
//! A run is in memory as a whole, and so is a capture's table of connections.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod capture;
mod dials;
mod kit;
mod lab;
mod page;
pub mod pictures;
mod run;
mod scenes;
mod script;
mod setting;
pub mod tables;
#[cfg(target_arch = "wasm32")]
mod wasm;

pub use self::capture::lossy_upload;
pub use self::lab::Lab;
pub use self::page::{Engine, page};
pub use self::script::{Script, ScriptEvent, ScriptState, Windows};
