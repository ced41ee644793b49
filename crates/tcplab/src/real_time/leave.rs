//! Connections that leave the network: each goes on as one of the system's.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ackclock::Incoming;
use ackclock::pump::{Counts, End, Pump};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::time::timeout;

/// Connects to the program behind the network, answers the connection that has come through it, and carries
/// bytes until both have ended.
///
/// # Errors
/// There is no program, and the connection is not answered.
pub(crate) async fn leave(
    incoming: Incoming,
    to: impl ToSocketAddrs,
    counts: Option<Arc<Counts>>,
) -> Result<End, (Incoming, io::Error)> {
    let connected = match timeout(CONNECT_TIME_MAX, TcpStream::connect(to)).await {
        Ok(connected) => connected,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    let socket = match connected {
        Ok(socket) => socket,
        Err(error) => return Err((incoming, error)),
    };
    socket.set_nodelay(true).ok();
    match incoming.accept().await {
        Ok(stream) => {
            stream.set_nodelay(true).ok();
            let pump = Pump::new(stream, socket).turn_bytes(TURN_BYTES);
            let pump = counts.into_iter().fold(pump, Pump::counts);
            Ok(pump.await.end)
        }
        // The client has given up.
        Err(error) => {
            socket.set_zero_linger().ok();
            Ok(End::StreamFailed(error))
        }
    }
}

/// How long the program behind the network may take to answer.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(30);
/// A connection lets the network go first after this many bytes, which take some 20 µs to copy.
pub(crate) const TURN_BYTES: usize = 64 << 10;
