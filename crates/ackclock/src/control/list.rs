//! A list of all connections, made in pieces: a lock of the stack is held, and the thread kept from other
//! tasks, for a few connections at a time.

use std::collections::BTreeMap;
use std::ops::Range;

use ackclock_core::{ListenAddr, ListenerInfo};
use serde::Serialize;

use super::protocol::{Listed, Listener, Name, keep_name};
use crate::shards::ShardRef;
use crate::state::StackState;

/// The most connections in a list.
pub(super) const LISTED_MAX: usize = 10_000;

/// An answer to "listeners".
#[derive(Serialize)]
pub(super) struct Listening {
    listeners: Vec<Listener>,
    left_out: usize,
}

/// Where a list has got to. A connection that ends before its turn is not listed, and one that begins may not
/// be; none is listed twice, since the indices only rise.
#[derive(Debug, Default)]
pub(super) struct Listing {
    queue: usize,
    /// The next index to look at.
    from: u32,
    listed: usize,
    left_out: usize,
}

impl Listing {
    /// The next piece, which may be empty; `None` at the end.
    pub fn next(&mut self, stack: &ShardRef) -> Option<Vec<Listed>> {
        let shard = stack.all().get(self.queue)?;
        let now = shard.now();
        let (queue, from, room) = (self.queue, self.from, LISTED_MAX - self.listed);
        let (piece, next) = shard.look(|state| {
            let indices = state.endpoint.connection_indices();
            if room == 0 {
                let range = from..from.saturating_add(COUNTED_AT_ONCE).min(indices.end);
                self.left_out += state.endpoint.connections_in(range.clone()).count();
                return (Vec::new(), (range.end < indices.end).then_some(range.end));
            }
            let range = from..from.saturating_add(LOOKED_AT_ONCE).min(indices.end);
            let (piece, end) = listed(state, queue, range, LISTED_AT_ONCE.min(room), now);
            (piece, (end < indices.end).then_some(end))
        });
        self.listed += piece.len();
        (self.queue, self.from) = next.map_or((queue + 1, 0), |next| (queue, next));
        Some(piece)
    }

    /// The number of connections beyond the most.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

/// All listeners. A stack with several queues has each of them in every queue.
pub(super) fn listeners(stack: &ShardRef) -> Listening {
    let mut all: BTreeMap<ListenAddr, ListenerInfo> = BTreeMap::new();
    for shard in stack.all() {
        for info in shard.look(|state| state.endpoint.listeners().collect::<Vec<_>>()) {
            all.entry(info.addr)
                .and_modify(|sum| {
                    sum.waiting += info.waiting;
                    sum.half_open += info.half_open;
                })
                .or_insert(info);
        }
    }
    let left_out = all.len().saturating_sub(LISTED_MAX);
    Listening { listeners: all.values().take(LISTED_MAX).map(Listener::new).collect(), left_out }
}

/// Up to `most` connections with these indices, and the index after the last one looked at.
fn listed(
    state: &StackState,
    queue: usize,
    range: Range<u32>,
    most: usize,
    now: ackclock_core::Instant,
) -> (Vec<Listed>, u32) {
    let endpoint = &state.endpoint;
    let end = range.end;
    let mut piece = Vec::with_capacity(most);
    for (id, connection) in endpoint.connections_in(range) {
        let (tuple, info) = (connection.tuple(), state.info(now, connection));
        piece.push(Listed {
            id: Name { queue, number: endpoint.number(id).unwrap_or_default() }.word(),
            local: tuple.local(),
            remote: tuple.remote(),
            waits_for: connection.limited_by().name(),
            rto_estimator: info.rto_config.preset_name(),
            traced: keep_name(connection.trace_config().map(|config| config.keep)),
            closing: connection.is_released(),
            info,
        });
        if piece.len() == most {
            let last = u32::try_from(id.index()).unwrap_or(u32::MAX);
            return (piece, last.saturating_add(1));
        }
    }
    (piece, end)
}

/// How many connections are listed, and how many places looked at, under one lock.
const LISTED_AT_ONCE: usize = 32;
const LOOKED_AT_ONCE: u32 = 1024;
/// How many places are counted under one lock.
const COUNTED_AT_ONCE: u32 = 16 << 10;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use ackclock_device::memory;

    use super::*;
    use crate::{Stack, TcpStream};

    const SERVER: &str = "10.0.0.2:80";

    /// A stack with this many connections, and what keeps them.
    async fn stack(connections: usize) -> (Stack, Vec<TcpStream>, Stack) {
        let (left, right) = memory::pair(memory::Config::default());
        let host = |addr: &str| Stack::builder().address(addr.parse().unwrap()).seed(7);
        let stack = host("10.0.0.1/24").device(left).spawn().unwrap();
        let peer = host("10.0.0.2/24").device(right).spawn().unwrap();
        let server: SocketAddr = SERVER.parse().unwrap();
        let listener = peer.listen(server).unwrap();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..connections {
            let (one, other) = tokio::join!(stack.connect(server), listener.accept());
            ours.push(one.unwrap());
            theirs.push(other.unwrap());
        }
        tokio::spawn(async move {
            let _keeps = (theirs, listener);
            std::future::pending::<()>().await;
        });
        (stack, ours, peer)
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_are_small_and_complete() {
        for count in [0, 1, LISTED_AT_ONCE, 3 * LISTED_AT_ONCE + 5] {
            let (stack, ours, _peer) = stack(count).await;
            let mut listing = Listing::default();
            let pieces: Vec<_> = std::iter::from_fn(|| listing.next(&stack.shared)).collect();
            assert!(pieces.iter().all(|piece| piece.len() <= LISTED_AT_ONCE));
            let all: Vec<SocketAddr> = pieces.iter().flatten().map(|listed| listed.local).collect();
            let expected: Vec<SocketAddr> = ours.iter().map(|one| one.local_addr().unwrap()).collect();
            assert_eq!((all, listing.left_out()), (expected, 0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_end_and_begin_between_two_pieces() {
        let (stack, mut ours, _peer) = stack(2 * LISTED_AT_ONCE).await;
        let mut listing = Listing::default();
        let first = listing.next(&stack.shared).unwrap();
        assert_eq!(first.len(), LISTED_AT_ONCE);
        // A listed connection and an unlisted one end; their indices are used again at once.
        let gone = [0, LISTED_AT_ONCE + 1].map(|index| ours[index].local_addr().unwrap());
        for index in [LISTED_AT_ONCE + 1, 0] {
            let stream = ours.remove(index);
            stream.abort();
            drop(stream);
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let new = [stack.connect(SERVER.parse().unwrap()), stack.connect(SERVER.parse().unwrap())];
        for connecting in new {
            ours.push(connecting.await.unwrap());
        }
        let rest: Vec<Listed> = std::iter::from_fn(|| listing.next(&stack.shared)).flatten().collect();
        let mut seen: Vec<SocketAddr> = first.iter().chain(&rest).map(|listed| listed.local).collect();
        assert!(rest.iter().all(|listed| !gone.contains(&listed.local)));
        let listed = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), listed, "none twice");
        let unseen = ours.iter().filter(|one| !seen.contains(&one.local_addr().unwrap())).count();
        assert!(unseen <= 1, "all that lived throughout: {unseen}");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_beyond_the_most_are_counted() {
        let (stack, _ours, _peer) = stack(70).await;
        let mut listing = Listing { listed: LISTED_MAX - 40, ..Listing::default() };
        let listed = std::iter::from_fn(|| listing.next(&stack.shared)).flatten().count();
        assert_eq!((listed, listing.left_out()), (40, 30));
    }
}
