//! Shared by `tcpcat` and `tcplab`: how a command ends, and the files that it leaves.
//!
//! [`Exit`] is the table of exit codes, [`Failure`] a cause with its remedy, [`NewFile`] a file that is
//! complete or absent, [`output`] what goes to stdout and stderr, [`table`] numbers and columns of text, and
//! [`manual`] what a command line says of itself.
//!
//! ```
//! use std::path::Path;
//!
//! use ackclock_cli::{Exit, Failure, output};
//!
//! let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
//! let failure = Failure::file("read", Path::new("a.trace"), &missing);
//! assert_eq!((failure.exit(), failure.exit().code()), (Exit::File, 6));
//! output::say(&failure); // "cannot read a.trace: ..", and below it "to fix it: check the name"
//! ```
//!
//! # Features
//!
//! None.
//!
//! # Limits
//!
//! It serves these two programs. Names of files are Unix's: `-` is stdin or stdout.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod exit;
mod failure;
pub mod manual;
mod new_file;
pub mod output;

pub use ackclock_chart::table;

pub use self::exit::{Exit, Program};
pub use self::failure::Failure;
pub use self::new_file::NewFile;
