//! Loss recovery policies on real connections: what each retransmits, when, and how its window changes.

mod answers;
mod edges;
mod path;
mod patience;
mod policies;
mod timing;
