//! Two senders over the same emulated path: this stack's and the Linux kernel's, with the same controller.
//!
//! A path is a thread between two TUN devices in two namespaces ([`Emulator`]). It cuts packets of 64 KB, so
//! that all have the MTU's size. Each direction has a delay, optionally a bottleneck, and loses packets by
//! their number ([`Lane::offer`]). The same instruments measure both senders: what the receiving application
//! reads, and what enters the path ([`Seen`]).

mod cell;
mod emulator;
mod ground;
mod lane;
mod meter;
mod packet;
mod party;
mod record;
mod run;
mod trace;
mod tun;

pub use cell::{Cell, Party};
pub use emulator::{Emulator, PathReport};
pub use lane::{Fate, Lane, LaneCounts, LaneSpec};
pub use meter::{PAUSE, Seen};
pub use party::SenderReport;
pub use record::Recording;
pub use run::{Flow, RaceResult, Run};
pub use tun::Tun;
