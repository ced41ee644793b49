//! Keys of the TCP Authentication Option (feature `tcp-ao`, RFC 5925).

use std::net::IpAddr;

use ackclock_core::KeyChain;

use crate::{Stack, TcpStream};

impl Stack {
    /// Sets the keys that this stack shares with a peer. From now on all its connections with that address
    /// are signed and verified; `None`: none are. A connection that was opened without keys does not survive
    /// being given some. [`Counters::dropped_unauthenticated`](crate::Counters) counts segments dropped for
    /// their signature.
    pub fn set_keys(&self, peer: IpAddr, chain: Option<KeyChain>) {
        self.shared.each(|state, _| state.endpoint.set_keys(peer, chain.clone()));
    }
}

impl TcpStream {
    /// Asks the peer to sign with the key of this KeyID from now on (`receive_id` of one of the keys that it
    /// shares with this stack). Returns whether such a key exists. The next segment sent carries the request.
    pub fn request_key(&self, receive_id: u8) -> bool {
        self.shared.call(|state, _| state.endpoint.request_key(self.id, receive_id))
    }

    /// The KeyID that this stream signs with at present, and the one that it asks the peer to sign with;
    /// `None` without keys.
    #[must_use]
    pub fn key_ids(&self) -> Option<(u8, u8)> {
        self.shared.look(|state| state.endpoint.key_ids(self.id))
    }
}
