//! Datagrams: one relay of the proxy for each address and port from which a client sends.
//!
//! Everything that the client sends from there goes through the relay, and everything sent to the relay goes
//! to the client (endpoint-independent mapping and filtering, RFC 4787 §4.1, §5; read in quotations). The
//! number of relays is bounded, as are the datagrams that wait for each and the time without traffic; dropped
//! datagrams are counted.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ackclock::{UdpSocket, UdpTransmit};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, sleep_until};

use crate::Shared;
use crate::socks5::{Association, SocksError, unwrap, wrap};

/// A client's datagram and its destination.
type Outgoing = (SocketAddr, Vec<u8>);

/// Serves clients until the stack ends.
pub(crate) async fn serve(any: UdpSocket, shared: Arc<Shared>) {
    let mut relays = Relays { open: HashMap::new(), any: Arc::new(any), shared };
    let any = Arc::clone(&relays.any);
    let mut buf = vec![0; DATAGRAM_MAX];
    while let Ok(meta) = any.recv_meta(&mut buf).await {
        // Several of one size, or one, which may be empty.
        let empty = (meta.len == 0).then_some(&buf[..0]);
        for payload in buf[..meta.len].chunks(meta.stride.max(1)).chain(empty) {
            relays.send(meta.from, (meta.to, payload.to_vec()));
        }
    }
}

/// The relays of all clients.
struct Relays {
    open: HashMap<SocketAddr, mpsc::Sender<Outgoing>>,
    /// The socket for any address, through which the clients get their answers.
    any: Arc<UdpSocket>,
    shared: Arc<Shared>,
}

impl Relays {
    /// Gives a datagram to the client's relay, or to a new one.
    fn send(&mut self, client: SocketAddr, outgoing: Outgoing) {
        let outgoing = match self.open.get(&client).map(|relay| relay.try_reserve()) {
            Some(Ok(place)) => return place.send(outgoing),
            Some(Err(TrySendError::Full(()))) => return self.shared.counters.dropped_full.add(1),
            Some(Err(TrySendError::Closed(()))) | None => outgoing,
        };
        self.open.retain(|_, relay| !relay.is_closed());
        if self.open.len() >= RELAYS_MAX {
            return self.shared.counters.dropped_no_relay.add(1);
        }
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        // There is room: this is the first datagram.
        sender.try_send(outgoing).ok();
        self.open.insert(client, sender);
        let (any, shared) = (Arc::clone(&self.any), Arc::clone(&self.shared));
        tokio::spawn(async move {
            shared.counters.relays.add(1);
            match relay(client, receiver, &any, &shared).await {
                Ok(()) => shared.say(|| format!("datagrams of {client}: none for long")),
                Err(error) => shared.say(|| format!("datagrams of {client}: {error}")),
            }
        });
    }
}

/// Carries datagrams both ways until none has arrived for long, or the proxy ends the relay.
async fn relay(
    client: SocketAddr,
    mut outgoing: mpsc::Receiver<Outgoing>,
    any: &UdpSocket,
    shared: &Shared,
) -> Result<(), SocksError> {
    let Association { mut control, relay } = shared.proxy.associate().await?;
    let lost = |error| SocksError::Proxy(shared.proxy.addr, error);
    let (mut buf, mut wrapped) = (vec![0; DATAGRAM_MAX], Vec::new());
    let mut idle_at = idle_at_after(shared.udp_timeout);
    loop {
        tokio::select! {
            next = outgoing.recv() => {
                let Some((destination, payload)) = next else { return Ok(()) };
                wrap(&mut wrapped, destination, &payload);
                // What the relay's host refuses is lost, as on any network.
                match relay.send(&wrapped).await {
                    Ok(_) => shared.counters.datagrams_up.add(1),
                    Err(_) => shared.counters.dropped_full.add(1),
                }
            }
            received = relay.recv(&mut buf) => {
                match received {
                    Ok(len) => answer(client, &buf[..len], any, shared),
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(error) => return Err(lost(error)),
                }
            }
            // RFC 1928 §6: a relay ends when the connection on which it was asked for ends.
            ended = control.read_u8() => return match ended {
                Ok(_) => Err(SocksError::NotSocks(shared.proxy.addr)),
                Err(error) => Err(lost(error)),
            },
            () = sleep_until(idle_at) => return Ok(()),
        }
        idle_at = idle_at_after(shared.udp_timeout);
    }
}

/// When a relay ends if no datagram comes. No clock reaches the longest time that a user can ask for.
fn idle_at_after(time: Duration) -> Instant {
    Instant::now() + time.min(YEAR)
}

/// Gives the client what a relay has passed on, with the original sender's address.
fn answer(client: SocketAddr, datagram: &[u8], any: &UdpSocket, shared: &Shared) {
    let Some((from, payload)) = unwrap(datagram) else {
        return shared.counters.dropped_malformed.add(1);
    };
    let transmit = UdpTransmit { from: Some(from), ..UdpTransmit::new(payload, Some(client)) };
    match any.try_send_transmit(&transmit) {
        Ok(_) => shared.counters.datagrams_down.add(1),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => shared.counters.dropped_full.add(1),
        Err(error) => {
            shared.counters.dropped_malformed.add(1);
            shared.say(|| format!("a datagram of {} bytes from {from} to {client}: {error}", payload.len()));
        }
    }
}

/// Relays at one time. Each takes a connection and a socket of the kernel.
const RELAYS_MAX: usize = 1024;
/// Datagrams that wait for one relay.
const WAITING_MAX: usize = 64;
/// The longest datagram.
const DATAGRAM_MAX: usize = 65_535;
/// The longest time that a relay waits for a datagram.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
/// RFC 4787 §4.3: a mapping must not end before two minutes have passed (read in quotations).
pub(crate) const IDLE_SECONDS: u64 = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_time_may_pass_before_a_relay_ends() {
        let now = Instant::now();
        assert!(idle_at_after(Duration::from_secs(u64::MAX)) >= now + YEAR);
        assert!(idle_at_after(Duration::ZERO) < now + YEAR);
    }
}
