//! Pins what every controller, estimator, check and grammar answers, in fingerprints of long seeded runs: a
//! change of behaviour anywhere must be meant. What is right is for the other tests to say.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p ackclock-control --test answers` rewrites the files.

mod controllers;
mod estimators;
mod judging;
mod observed;
mod recorder;
mod walk;
mod words;
