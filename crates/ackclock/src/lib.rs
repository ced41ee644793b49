//! A TCP in user space with the socket API of `tokio::net`.
#![forbid(unsafe_code)]
