//! Storms of hostile packets: what each costs the core, and what others still get while they fall.

pub mod cost;
pub mod kind;
pub mod load;
