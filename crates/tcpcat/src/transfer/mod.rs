//! Moving data: files, pipes, and their common parts.

mod arrivals;
mod blocks;
mod copy;
mod input;
mod output;
mod part_file;
pub(crate) mod pipe;
pub(crate) mod protocol;
pub(crate) mod recv;
pub(crate) mod send;
mod slices;

pub(crate) use self::copy::{Broken, Copied, Copier, Framing, Pace};
pub(crate) use self::output::written;
