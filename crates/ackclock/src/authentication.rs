//! Keys of the TCP Authentication Option (feature `tcp-ao`, RFC 5925).

use std::net::IpAddr;

use ackclock_core::KeyChain;

use crate::{Stack, TcpStream};

impl Stack {
    /// Sets the keys that this stack shares with a peer: all its connections with that address are signed and verified from
    /// now on; `None`: none are any more. Without them before, an open connection does not survive it. Segments that are
    /// dropped for their signature are counted in [`Counters::dropped_unauthenticated`](crate::Counters).
    pub fn set_keys(&self, peer: IpAddr, chain: Option<KeyChain>) {
        self.shared.each(|state, _| state.endpoint.set_keys(peer, chain.clone()));
    }
}

impl TcpStream {
    /// Asks the peer to sign with the key of this KeyID from now on (`receive_id` of one of the keys that it shares with this
    /// stack). Returns whether there is such a key. The peer hears of it by the next segment that leaves.
    pub fn request_key(&self, receive_id: u8) -> bool {
        self.shared.control(|state, _| state.endpoint.request_key(self.id, receive_id))
    }

    /// The KeyIDs of what this stream sends with at present, and of what it would like to receive; `None` without keys.
    #[must_use]
    pub fn key_ids(&self) -> Option<(u8, u8)> {
        self.shared.look(|state| state.endpoint.key_ids(self.id))
    }
}
