//! Files that come from elsewhere: scenarios, traces, captures, and what a peer of tcpcat says.

mod capture;
mod journal;
mod scenario;
mod trace;
mod transfer;

pub(crate) use self::capture::capture;
pub(crate) use self::journal::journal;
pub(crate) use self::scenario::scenario;
pub(crate) use self::trace::trace;
pub(crate) use self::transfer::transfer;
