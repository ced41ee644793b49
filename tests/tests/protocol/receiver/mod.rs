//! A receiver: the segments that it accepts, its reports, and the contents of its headers.

mod discarded;
mod edge;
mod labels;
mod reports;
mod resets;
mod stamps;
