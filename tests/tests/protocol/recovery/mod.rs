//! Loss recovery policies on real connections: what each sends again, when, and what its window does.

mod answers;
mod edges;
mod path;
mod patience;
mod policies;
mod timing;
