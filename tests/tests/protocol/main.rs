//! The protocol in virtual time: one endpoint against a scripted peer, and two over a link.

mod bandwidth;
mod controllers;
mod ecn;
mod experiment;
mod extremes;
mod fuzz;
mod pacing;
mod profiles;
mod receiver;
mod recovery;
mod rfc2525;
mod rfc9293;
mod security;
mod small_worlds;
mod state_table;
mod transfer;
