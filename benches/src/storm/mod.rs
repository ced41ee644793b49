//! Storms of hostile packets: what each costs the core, and what others still get during them.

pub mod cost;
pub mod flood;
pub mod kind;
pub mod load;
pub mod many;
mod peers;
