//! Without a build script cargo ignores the dependencies of one.

fn main() {}
