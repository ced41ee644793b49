//! Every small world: two real [`Endpoint`](ackclock_core::Endpoint)s, a network that may harm at most a few
//! packets, and two applications with a handful of calls, in every order.
//!
//! A [`World`] is one state, and a [`Move`] leads to the next. [`explore`] visits them breadth first, so the
//! first counterexample is the shortest. States that go on alike count once: they are compared by the exact
//! form of both endpoints, with times as distances from now ([`ackclock_form::Writer::relative_to`]). A
//! [`Setup`] fixes secrets and thereby initial sequence numbers, so these need no such care.
//!
//! A state is kept as the move that led to it, and made again from the beginning when it is expanded. So a
//! counterexample is its moves, and replays from its text ([`Script`]).
//!
//! ```
//! use ackclock_explore::{Setup, Bounds, explore};
//!
//! let report = explore(Setup::find("transfer").expect("it is one of the table"), &Bounds::states(300));
//! assert_eq!((report.states, report.counterexample.is_none()), (300, true));
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod explore;
mod judge;
mod linux;
mod protocol;
mod script;
mod setup;
mod step;
mod tape;
mod wire;
mod world;

pub use self::explore::{Bounds, Counterexample, Report, explore};
pub use self::judge::Breach;
pub use self::linux::{BEYOND, Entry, Model, ROWS, Row, Variation};
pub use self::protocol::{OneEnd, ProtocolTest, Unprintable};
pub use self::script::{Script, ScriptError};
pub use self::setup::{Changes, SETUPS, Setup};
pub use self::step::{Call, Move, Side};
pub use self::world::World;
