//! The language of the protocol tests: one endpoint against a scripted peer, in virtual time.
//!
//! - [`segment`]: segments as the tests' own peer builds and parses them, by etherparse alone;
//! - [`host`]: an endpoint in virtual time, with every frame that it emits checked;
//! - [`script`]: one endpoint against a scripted peer, in the style of packetdrill;
//! - [`step`]: the calls of a script as values, which run or print.

#![forbid(unsafe_code)]

pub mod host;
pub mod script;
pub mod segment;
pub mod step;
