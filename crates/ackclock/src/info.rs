//! [`StackInfo`]: what a stack has and uses.

use std::time::Duration;

use crate::Cidr;
use crate::shards::ShardRef;
use crate::shared::Shared;

/// A stack's addresses, connections and use of resources at one moment.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StackInfo {
    /// Local addresses.
    #[cfg_attr(feature = "serde", serde(serialize_with = "in_words"))]
    pub addresses: Vec<Cidr>,
    /// Routes; `None`: every destination goes to the device.
    #[cfg_attr(feature = "serde", serde(serialize_with = "in_words_if_any"))]
    pub routes: Option<Vec<Cidr>>,
    /// Largest IP packet in bytes that every device carries.
    pub mtu: usize,
    /// Queues of its device; the connections are divided among them.
    pub queues: usize,
    /// Connections that exist, including those that close in the background.
    pub connections: usize,
    /// Listeners.
    pub listeners: usize,
    /// UDP sockets.
    pub udp_sockets: usize,
    /// Bytes used by all buffers.
    pub memory_used: usize,
    /// The most bytes that they may use.
    pub memory_max: usize,
    /// How often a call or a driver found the lock of its queue taken.
    pub lock_waits: u64,
    /// The total time of those waits.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "lock_waited_us", serialize_with = "ackclock_core::micros::one")
    )]
    pub lock_waited: Duration,
}

/// Takes stock of a stack.
pub(crate) fn info(stack: &ShardRef) -> StackInfo {
    let shards = stack.all();
    let connections = |shard: &Shared| shard.look(|state| state.endpoint.connection_count());
    let waits = shards.iter().map(Shared::lock_waits);
    let (lock_waits, lock_waited) =
        waits.fold((0, Duration::ZERO), |sum, (times, waited)| (sum.0 + times, sum.1 + waited));
    let connections = shards.iter().map(connections).sum();
    // The first queue has what is not divided.
    shards[0].look(|state| {
        let (memory_used, memory_max) = state.endpoint.memory();
        StackInfo {
            addresses: state.network.addresses().to_vec(),
            routes: state.network.routes(),
            mtu: state.network.mtu(),
            queues: shards.len(),
            connections,
            listeners: state.listeners.len(),
            udp_sockets: state.datagrams.len(),
            memory_used,
            memory_max,
            lock_waits,
            lock_waited,
        }
    })
}

/// Networks in text form: `"10.0.0.1/24"`.
#[cfg(feature = "serde")]
fn in_words<'a, S: serde::Serializer>(
    networks: impl IntoIterator<Item = &'a Cidr>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(networks.into_iter().map(Cidr::to_string))
}

#[cfg(feature = "serde")]
fn in_words_if_any<S: serde::Serializer>(
    networks: &Option<Vec<Cidr>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match networks {
        Some(networks) => in_words(networks, serializer),
        None => serializer.serialize_none(),
    }
}
