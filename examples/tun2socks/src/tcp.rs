//! Connections: each client gets the answer that the proxy gives for its destination.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ackclock::pump::{End, Pump};
use ackclock::{DeferredListener, Incoming, TcpStream, Unreachable};
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use crate::dns;
use crate::gateway::Gateway;
use crate::names::Names;
use crate::proxy::{Destination, ProxyError, Refusal};

/// The answer to a client whose destination the proxy cannot reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The port is closed: a reset.
    Refused,
    /// An ICMP error.
    Unreachable(Unreachable),
}

/// The bounds on the connections of all threads.
#[derive(Debug)]
pub(crate) struct Bounds {
    room: Arc<Semaphore>,
    waiting: Arc<Waiting>,
}

impl Bounds {
    /// At most this many connections at one time; half of them may wait for the proxy.
    pub(crate) fn new(connections_max: usize) -> Self {
        Self {
            room: Arc::new(Semaphore::new(connections_max)),
            waiting: Arc::new(Waiting::new(connections_max / 2)),
        }
    }
}

/// Serves the clients of one of the stack's queues until the stack ends.
pub(crate) async fn serve(
    listener: Arc<DeferredListener>,
    queue: usize,
    gateway: Arc<Gateway>,
    bounds: Arc<Bounds>,
) {
    while let Ok(incoming) = listener.incoming_at(queue).await {
        // Those behind a SYN that finds no room wait in the listener, which drops what is too much. The
        // semaphore is never closed.
        let Ok(permit) = Arc::clone(&bounds.room).acquire_owned().await else { return };
        let dialled = incoming.local_addr();
        if gateway.is_proxy(dialled) {
            incoming.reset();
            continue;
        }
        let Some(place) = bounds.waiting.enter(dialled.ip()) else {
            // Without an answer: the client repeats it in a second.
            gateway.counters.crowded.add(1);
            continue;
        };
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move {
            let client = incoming.peer_addr();
            gateway.counters.connections.add(1);
            match carry(incoming, place, &gateway).await {
                Ok(()) => gateway.say(|| format!("{client} to {dialled}: done")),
                Err(why) => gateway.say(|| format!("{client} to {dialled}: {why}")),
            }
            drop(permit);
        });
    }
}

/// Has the proxy connect, accepts the client, and carries bytes both ways until both have finished.
async fn carry(incoming: Incoming, place: Place, gateway: &Gateway) -> Result<(), String> {
    let idle = gateway.tcp_timeouts.of(incoming.local_addr().port());
    // In a box, which is gone while bytes move: most connections are idle for most of their time.
    let Some((client, upstream)) = Box::pin(joined(incoming, place, gateway)).await? else { return Ok(()) };
    let counts = Arc::clone(&gateway.counters.carried);
    let pumped = Pump::new(client, upstream).idle_timeout(idle).counts(counts).turn_bytes(TURN_BYTES).await;
    match &pumped.end {
        End::Finished => return Ok(()),
        End::Idle => gateway.counters.idle.add(1),
        _ => gateway.counters.reset.add(1),
    }
    Err(pumped.end.to_string())
}

/// A client that was accepted, and the proxy's connection for it; `None` if it needs none.
async fn joined(
    incoming: Incoming,
    place: Place,
    gateway: &Gateway,
) -> Result<Option<(TcpStream, tokio::net::TcpStream)>, String> {
    let dialled = incoming.local_addr();
    let Some(destination) = gateway.destination(dialled) else {
        gateway.counters.refused.add(1);
        incoming.unreachable(Unreachable::Host);
        return Err(format!("{} stands for no name any more", dialled.ip()));
    };
    if let Some(names) = gateway.names.as_ref().filter(|_| dialled.port() == dns::PORT) {
        return answered(incoming, names, &destination, gateway).await.map_err(|error| error.to_string());
    }
    let upstream = match reached(gateway, &destination).await {
        Ok(upstream) => upstream,
        Err(error) => {
            match answer(&error) {
                Answer::Refused => incoming.reset(),
                Answer::Unreachable(why) => incoming.unreachable(why),
            }
            return Err(error.to_string());
        }
    };
    drop(place);
    let accepted = async {
        let client = incoming.accept().await?;
        // The pump writes what has arrived; there is nothing to wait for.
        client.set_nodelay(true)?;
        io::Result::Ok(client)
    };
    Ok(Some((accepted.await.map_err(|error| error.to_string())?, upstream)))
}

/// A client that asks for names over TCP: those that the pool answers, here; what follows, by the proxy.
async fn answered(
    incoming: Incoming,
    names: &Names,
    destination: &Destination,
    gateway: &Gateway,
) -> io::Result<Option<(TcpStream, tokio::net::TcpStream)>> {
    let Some((client, query)) = dns::serve(incoming.accept().await?, names).await? else { return Ok(None) };
    match reached(gateway, destination).await {
        Ok(mut upstream) => {
            upstream.write_all(&query).await?;
            Ok(Some((client, upstream)))
        }
        Err(error) => {
            client.abort();
            Err(io::Error::other(error))
        }
    }
}

/// The proxy's connection to the destination.
async fn reached(gateway: &Gateway, destination: &Destination) -> Result<tokio::net::TcpStream, ProxyError> {
    let reached = gateway.proxy.connect(destination).await;
    if reached.is_err() {
        gateway.counters.refused.add(1);
    }
    reached
}

/// The answer that the client would have had without a proxy.
fn answer(error: &ProxyError) -> Answer {
    match error {
        ProxyError::Refused(Refusal::Network) => Answer::Unreachable(Unreachable::Network),
        ProxyError::Refused(Refusal::Host) => Answer::Unreachable(Unreachable::Host),
        ProxyError::Unreachable(_, error) if error.kind() == ErrorKind::TimedOut => {
            Answer::Unreachable(Unreachable::Host)
        }
        ProxyError::Refused(Refusal::Forbidden) => Answer::Unreachable(Unreachable::Prohibited),
        _ => Answer::Refused,
    }
}

/// Who waits for the proxy's answer, by destination.
///
/// A dead destination keeps its clients for a minute. One destination may have as many places as it leaves
/// free (A. K. Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet
/// Switches", IEEE/ACM Transactions on Networking 6(2), 1998, with α = 1), so there is always room for
/// others. The clients' own addresses do not count: behind a gateway there is often only one.
#[derive(Debug)]
struct Waiting {
    max: usize,
    by_destination: Mutex<ByDestination>,
}

#[derive(Debug, Default)]
struct ByDestination {
    counts: HashMap<IpAddr, usize>,
    total: usize,
}

/// One place, given back when it is dropped.
#[derive(Debug)]
struct Place {
    of: Arc<Waiting>,
    destination: IpAddr,
}

impl Waiting {
    fn new(max: usize) -> Self {
        Self { max: max.max(1), by_destination: Mutex::default() }
    }

    fn enter(self: &Arc<Self>, destination: IpAddr) -> Option<Place> {
        let mut places = self.by_destination.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = places.counts.get(&destination).copied().unwrap_or(0);
        if taken >= self.max - places.total.min(self.max) {
            return None;
        }
        places.total += 1;
        *places.counts.entry(destination).or_default() += 1;
        Some(Place { of: Arc::clone(self), destination })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.of.by_destination.lock().unwrap_or_else(PoisonError::into_inner);
        places.total -= 1;
        if let Entry::Occupied(mut count) = places.counts.entry(self.destination) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// After how many bytes a connection lets others go first: some 40 µs of copying.
const TURN_BYTES: usize = 128 << 10;

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
        ] {
            assert_eq!(answer(&ProxyError::Refused(code)), expected, "{code}");
        }
        assert_eq!(answer(&ProxyError::CredentialsRefused), Answer::Refused);
    }

    #[test]
    fn no_destination_takes_the_last_place_of_the_others() {
        let waiting = Arc::new(Waiting::new(100));
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        let all = |last: u8| std::iter::from_fn(|| waiting.enter(ip(last))).collect::<Vec<_>>();
        let first = all(1);
        assert_eq!(first.len(), 50);
        let (second, third) = (all(2), all(3));
        assert_eq!((second.len(), third.len()), (25, 13));
        drop(first);
        assert_eq!(all(4).len(), 31, "half of the 62 that are free");
        drop((second, third));
        let places = waiting.by_destination.lock().unwrap();
        assert!(places.total == 0 && places.counts.is_empty());
    }
}
