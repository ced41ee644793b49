//! Storms of hostile packets: what each costs the core, and what others still get while they fall.

pub mod cost;
pub mod flood;
pub mod kind;
pub mod load;
pub mod many;
mod peers;
