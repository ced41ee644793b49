//! Keys of the TCP Authentication Option (feature `tcp-ao`, RFC 5925).

use std::net::IpAddr;

use ackclock_core::KeyChain;

use crate::Stack;

impl Stack {
    /// Sets the keys that this stack shares with a peer. From now on all its connections with that address
    /// are signed and verified; `None`: none are. A connection that was opened without keys does not survive
    /// being given some. [`Counters::dropped_unauthenticated`](crate::Counters) counts segments dropped for
    /// their signature.
    pub fn set_keys(&self, peer: IpAddr, chain: Option<KeyChain>) {
        self.shared.each(|state, _| state.endpoint.set_keys(peer, chain.clone()));
    }
}
