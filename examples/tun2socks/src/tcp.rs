//! Connections: each client gets the answer that the proxy gives for its destination.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use ackclock::{DeferredListener, Incoming, Unreachable};
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::Shared;
use crate::counters::Counted;
use crate::socks5::{Refusal, SocksError};

/// The answer to a client whose destination the proxy cannot reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The port is closed: a reset.
    Refused,
    /// An ICMP error.
    Unreachable(Unreachable),
}

/// Serves clients until the stack ends.
pub(crate) async fn serve(listener: DeferredListener, shared: Arc<Shared>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // A SYN that finds no room waits in the listener, which drops what is too much. The semaphore is never
    // closed.
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        let Ok(incoming) = listener.incoming().await else { return };
        if shared.is_proxy(incoming.local_addr()) {
            incoming.reset();
            continue;
        }
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let (client, dialled) = (incoming.peer_addr(), incoming.local_addr());
            shared.counters.connections.add(1);
            match carry(incoming, &shared).await {
                Ok(()) => shared.say(|| format!("{client} to {dialled}: done")),
                Err(why) => shared.say(|| format!("{client} to {dialled}: {why}")),
            }
            drop(permit);
        });
    }
}

/// Has the proxy connect, then accepts the client and carries bytes both ways until both have finished.
async fn carry(incoming: Incoming, shared: &Shared) -> Result<(), String> {
    let upstream = match reach(incoming.local_addr(), shared).await {
        Ok(upstream) => upstream,
        Err(error) => {
            shared.counters.refused.add(1);
            match answer(&error) {
                Answer::Refused => incoming.reset(),
                Answer::Unreachable(why) => incoming.unreachable(why),
            }
            return Err(error.to_string());
        }
    };
    let client = incoming.accept().await.map_err(|error| error.to_string())?;
    let mut client = Counted { stream: client, written: &shared.counters.bytes_down };
    let mut upstream = Counted { stream: upstream, written: &shared.counters.bytes_up };
    match copy_bidirectional_with_sizes(&mut client, &mut upstream, COPIED, COPIED).await {
        Ok(_) => Ok(()),
        Err(error) => {
            // Neither end may take what it has for everything.
            client.stream.abort();
            upstream.stream.set_zero_linger().map_err(|error| error.to_string())?;
            shared.counters.reset.add(1);
            Err(error.to_string())
        }
    }
}

async fn reach(destination: SocketAddr, shared: &Shared) -> Result<TcpStream, SocksError> {
    let upstream = shared.proxy.connect(destination).await?;
    upstream.set_nodelay(true).map_err(|error| SocksError::Proxy(shared.proxy.addr, error))?;
    Ok(upstream)
}

/// The answer that the client would have had without a proxy.
fn answer(error: &SocksError) -> Answer {
    match error {
        SocksError::Refused(Refusal::Network | Refusal::Unknown(8)) => {
            Answer::Unreachable(Unreachable::Network)
        }
        SocksError::Refused(Refusal::Host) => Answer::Unreachable(Unreachable::Host),
        SocksError::Proxy(_, error) if error.kind() == ErrorKind::TimedOut => {
            Answer::Unreachable(Unreachable::Host)
        }
        SocksError::Refused(Refusal::Forbidden) => Answer::Unreachable(Unreachable::Prohibited),
        _ => Answer::Refused,
    }
}

/// Connections at one time.
pub(crate) const CONNECTIONS_MAX: usize = 16_384;
/// The most bytes of one system call. A quarter of the processor's time less than with 8 KiB; 64 KiB saves no
/// more, and a connection has two such buffers.
const COPIED: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_hears_what_the_proxy_heard() {
        for (code, expected) in [
            (Refusal::General, Answer::Refused),
            (Refusal::Connection, Answer::Refused),
            (Refusal::Network, Answer::Unreachable(Unreachable::Network)),
            (Refusal::Host, Answer::Unreachable(Unreachable::Host)),
            (Refusal::Forbidden, Answer::Unreachable(Unreachable::Prohibited)),
            (Refusal::Unknown(8), Answer::Unreachable(Unreachable::Network)),
        ] {
            assert_eq!(answer(&SocksError::Refused(code)), expected, "{code}");
        }
        assert_eq!(answer(&SocksError::CredentialsRefused), Answer::Refused);
    }
}
