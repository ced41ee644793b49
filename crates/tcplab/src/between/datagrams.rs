//! Datagrams: from the programs to the second host, and from there to the program behind it.

use std::io;
use std::sync::Arc;

use ackclock::Stack;
use tokio::net::UdpSocket;

use super::Way;
use crate::real_time::datagrams::{Fixed, Relay, any};

/// The first host: takes datagrams of programs into the network.
pub(super) async fn from_programs(ways: Arc<[Way]>, index: usize, stack: Stack) -> anyhow::Result<()> {
    let way = &ways[index];
    let Some(socket) = &way.datagrams else { return Ok(()) };
    let socket = socket.try_clone()?;
    socket.set_nonblocking(true)?;
    let near = Relay { near: UdpSocket::from_std(socket)?, idle: way.datagrams_idle };
    let server = way.server;
    let open = |_| {
        let stack = stack.clone();
        async move {
            let socket = stack.udp(any(server))?;
            socket.set_fragments(true)?;
            Ok((socket, Fixed(server)))
        }
    };
    near.run(open, way.tally.entering()).await
}

/// The second host: passes them to the program behind it.
pub(super) async fn to_program(ways: Arc<[Way]>, index: usize, stack: Stack) -> anyhow::Result<()> {
    let way = &ways[index];
    if way.datagrams.is_none() {
        return Ok(());
    }
    let socket = stack.udp(way.server)?;
    socket.set_fragments(true)?;
    let near = Relay { near: socket, idle: way.datagrams_idle };
    let open = |_| {
        let to = way.to.clone();
        async move {
            let mut found = tokio::net::lookup_host(to).await?;
            let to = found.next().ok_or(io::ErrorKind::NotFound)?;
            Ok((UdpSocket::bind(any(to)).await?, Fixed(to)))
        }
    };
    near.run(open, way.tally.leaving()).await
}
