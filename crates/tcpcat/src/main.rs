//! tcpcat
fn main() {}
