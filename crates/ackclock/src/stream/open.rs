//! How a stream is opened: the shard that takes it, and with data in its SYN.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ackclock_core::{ConnectError, ConnectionId, Instant, TcpConfig};

use super::TcpStream;
use crate::shards::{Handle, Owner};
use crate::state::StackState;
use crate::{error, names};

/// Begins to open a connection; the stream may not be used before it is connected.
pub(crate) fn open(
    shared: &Handle,
    remote: SocketAddr,
    local: (Option<IpAddr>, u16),
    tcp: Option<TcpConfig>,
) -> io::Result<TcpStream> {
    let attempt =
        |state: &mut StackState, now, remote, tcp| Ok((state.endpoint.connect(now, remote, local, tcp)?, ()));
    open_in_turn(shared, None, remote, tcp, attempt).map(|(stream, ())| stream)
}

/// Tries the shard whose turn it is, and the next ones while they have no room for a connection.
fn open_in_turn<T>(
    shared: &Handle,
    server: Option<IpAddr>,
    remote: SocketAddr,
    mut tcp: Option<TcpConfig>,
    attempt: impl Fn(
        &mut StackState,
        Instant,
        SocketAddr,
        Option<TcpConfig>,
    ) -> Result<(ConnectionId, T), ConnectError>,
) -> io::Result<(TcpStream, T)> {
    // If the attempt fails under a lock, the program's factory ends outside it.
    let _factory = tcp.as_ref().map(|tcp| Arc::clone(&tcp.congestion));
    let mapped = names::is_mapped(remote.ip());
    let mut turns = shared.in_turn(server);
    loop {
        let index = turns.next().unwrap_or_default();
        let is_last = turns.len() == 0;
        let tcp = if is_last { tcp.take() } else { tcp.clone() };
        let shard = shared.at(index);
        let opened = shard.call(|state, now| {
            state.check_up()?;
            state.check_tcp(tcp.as_ref())?;
            let remote = names::remote(state, remote);
            state.check_route(remote.ip())?;
            let opened = attempt(state, now, remote, tcp);
            if let (Ok((id, _)), Owner::Stack) = (&opened, shared.owner()) {
                state.own.insert(*id);
            }
            match opened {
                Err(ConnectError::TooManyConnections(_)) if !is_last => Ok(None),
                opened => opened.map(Some).map_err(error::connect),
            }
        });
        if let Some((id, result)) = opened? {
            return Ok((TcpStream::new(id, shard).mapped(mapped), result));
        }
    }
}

/// Opens a connection with data in the SYN. Returns how much of it was taken.
pub(crate) fn open_with_data(
    shared: &Handle,
    remote: SocketAddr,
    local: (Option<IpAddr>, u16),
    tcp: TcpConfig,
    data: &[u8],
) -> io::Result<(TcpStream, usize)> {
    let attempt = |state: &mut StackState, now, remote, tcp| {
        state.endpoint.connect_with_data(now, remote, local, tcp, data)
    };
    // A shard keeps the cookies of the servers that it has connected to.
    open_in_turn(shared, Some(remote.ip()), remote, Some(tcp), attempt)
}
