//! Support code shared by the benchmarks: two endpoints of the core joined by memory, on one thread;
//! scenarios of the simulator; two senders over an emulated path; programs over TUN; storms of hostile
//! packets, and a soak.

#![deny(unsafe_code)]

pub mod over_tun;
pub mod pair;
pub mod race;
pub mod scenarios;
pub mod soak;
pub mod storm;
#[expect(unsafe_code, reason = "system calls")]
mod sys;
