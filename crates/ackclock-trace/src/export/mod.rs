//! Traces for other programs: CSV, JSON lines, packet captures.

mod fields;
mod packets;
mod table;

pub use fields::{Value, fields};
pub use packets::pcapng;
pub use table::{COLUMNS, csv, json_lines};

#[cfg(test)]
mod tests;
