//! Moving data: files, pipes, and what both are made of.

mod copy;
mod part_file;
pub(crate) mod pipe;
pub(crate) mod protocol;
pub(crate) mod recv;
pub(crate) mod send;

pub(crate) use self::copy::{Broken, Copied, Copier, Framing};
