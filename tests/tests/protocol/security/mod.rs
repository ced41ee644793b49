//! Attacks on a connection and its endpoint, `sec_<row of docs/security.md>_<fact>`.
//!
//! A: attackers off the path; B: exhaustion; C: hostile peers; D: malformed packets. Rows that belong to the
//! endpoint's tables (floods, cookies, ports, martians) are tested beside them in `ackclock-core`.

mod exhaustion;
mod malformed;
mod off_path;
mod peer;
mod windows;
