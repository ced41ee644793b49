//! The TCP Authentication Option (RFC 5925) at the edge of the endpoint: what leaves for a peer with keys is signed when its
//! header is complete, and what arrives from it is verified before it is looked up.
//!
//! Connections know of it only that 16 bytes of options are taken, and that segments leave one at a time. What a signature
//! needs of a connection, both ISNs and the extensions of its sequence numbers, is in a [`Session`] by its name, made by an
//! authentic SYN or by our own. Sessions whose name nobody has any more are swept when they are half of the table.
//!
//! Keys roll over as §6.1 of the RFC says: each segment names the key that it is signed with (KeyID) and the one that its
//! sender would like to receive (RNextKeyID); who hears the latter sends with it from there on.
//!
//! A segment without the option, or with one that is not authentic, from a peer with keys is dropped and counted. An option
//! of a peer without keys is ignored. A reset for which there is no session leaves unsigned, and means nothing to the peer:
//! after a restart a connection of before ends by its timeout (§7.7 of the RFC).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use ackclock_wire::checksum::{pseudo_header, sum};
use ackclock_wire::{ChecksumState, ControlSegment, Flags, HEADER_MAX, Segment};

use super::Endpoint;
use super::demux::Target;
use super::keys::KeyedState;
use crate::authentication::mac::{Covered, KIND, MAC_LEN, OPTION_LEN, TrafficKey, same};
use crate::authentication::sequence::Extended;
use crate::connection::Outgoing;
use crate::{ConnectionId, Counters, FourTuple, KeyChain, MasterKey, State};

/// All keys, and the state of the connections that use them.
#[derive(Debug)]
pub(super) struct Authentication {
    chains: HashMap<IpAddr, KeyChain, KeyedState>,
    sessions: HashMap<FourTuple, Session, KeyedState>,
    /// Segments that could not be signed.
    unsigned: u64,
}

/// One connection, or the handshake of one.
#[derive(Debug)]
struct Session {
    local_isn: Option<u32>,
    remote_isn: Option<u32>,
    sent: Extended,
    received: Extended,
    /// Which key of the chain this end sends with (current_key).
    current: usize,
    /// Which one it would like to receive (rnext_key).
    next: usize,
}

/// The option in a header.
struct Found {
    at: usize,
    key_id: u8,
    next_key_id: u8,
    mac: [u8; MAC_LEN],
}

impl Endpoint {
    /// Keys that this end shares with a peer, for all connections with its address (TCP-AO, RFC 5925); `None`: none any more.
    /// They hold for segments from now on: without keys before, an open connection does not survive it. Of connections that
    /// have keys those go on that use a key which the new chain has, too.
    pub fn set_keys(&mut self, peer: IpAddr, chain: Option<KeyChain>) {
        let tables = self.tables.clone();
        let authentication = self.authentication.get_or_insert_with(|| {
            let (chains, sessions) = (HashMap::with_hasher(tables.clone()), HashMap::with_hasher(tables));
            Box::new(Authentication { chains, sessions, unsigned: 0 })
        });
        let old = authentication.chains.remove(&peer);
        if let Some(chain) = chain {
            for (_, session) in
                authentication.sessions.iter_mut().filter(|(name, _)| name.remote_addr == peer)
            {
                let moved = |index| {
                    let key = old.as_ref().and_then(|old| old.get(index));
                    key.and_then(|key| chain.by_send_id(key.send_id)).unwrap_or(0)
                };
                (session.current, session.next) = (moved(session.current), moved(session.next));
            }
            authentication.chains.insert(peer, chain);
        }
        if authentication.chains.is_empty() {
            self.authentication = None;
        }
    }

    /// Asks the peer of a connection to send with the key of this KeyID from now on (RNextKeyID). Returns whether there is such
    /// a key. The peer hears of it by the next segment that leaves.
    pub fn request_key(&mut self, id: ConnectionId, receive_id: u8) -> bool {
        let Some(tuple) = self.connection(id).map(crate::Connection::tuple) else { return false };
        let Some(authentication) = &mut self.authentication else { return false };
        let index =
            authentication.chains.get(&tuple.remote_addr).and_then(|chain| chain.by_receive_id(receive_id));
        match (index, authentication.sessions.get_mut(&tuple)) {
            (Some(index), Some(session)) => {
                session.next = index;
                true
            }
            _ => false,
        }
    }

    /// KeyIDs of what a connection sends with at present, and of what it would like to receive.
    #[must_use]
    pub fn key_ids(&self, id: ConnectionId) -> Option<(u8, u8)> {
        let tuple = self.connection(id)?.tuple();
        let authentication = self.authentication.as_ref()?;
        let chain = authentication.chains.get(&tuple.remote_addr)?;
        let session = authentication.sessions.get(&tuple)?;
        Some((chain.get(session.current)?.send_id, chain.get(session.next)?.receive_id))
    }

    /// Signs a reply in the endpoint's header and returns its length.
    pub(super) fn sign_reply(&mut self, reply: &ControlSegment, len: usize) -> usize {
        let Some(authentication) = &mut self.authentication else { return len };
        let tuple = FourTuple::new(reply.src, reply.dst);
        let offset = if reply.src.is_ipv4() { 20 } else { 40 };
        authentication.sign(&mut self.header, (offset, len), &tuple, [&[], &[]]).unwrap_or(len)
    }

    /// Whether there are keys for this peer.
    pub(super) fn has_keys(&self, peer: IpAddr) -> bool {
        self.authentication.as_ref().is_some_and(|authentication| authentication.chains.contains_key(&peer))
    }

    /// Counts with those of segments that could not be signed.
    pub(super) fn with_authentication(&self, counters: Counters) -> Counters {
        let unsigned = self.authentication.as_ref().map_or(0, |authentication| authentication.unsigned);
        Counters { sent_unauthenticated: unsigned, ..counters }
    }

    /// Whether a segment may be what it says; counted if not.
    pub(super) fn is_authentic(&mut self, tuple: &FourTuple, bytes: &[u8], segment: &Segment<'_>) -> bool {
        let Some(mut authentication) = self.authentication.take() else { return true };
        let Some(chain) = authentication.chains.get(&tuple.remote_addr) else {
            self.authentication = Some(authentication);
            return true;
        };
        let opens = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        let session = authentication.sessions.get(tuple);
        let verified = verify(chain, session, tuple, bytes, segment);
        if let Some((index, wanted)) = verified {
            // An old SYN that is sent again must not touch an open connection.
            if opens && !self.is_open(tuple) {
                let seq = segment.seq.raw();
                if session.is_none_or(|session| session.remote_isn != Some(seq)) {
                    self.sweep(&mut authentication);
                    authentication.sessions.insert(*tuple, Session::passive(seq, index));
                }
            } else if let Some(session) = authentication.sessions.get_mut(tuple).filter(|_| !opens) {
                session.take(segment, wanted);
            }
        } else {
            self.rare_counters().dropped_unauthenticated += 1;
        }
        self.authentication = Some(authentication);
        verified.is_some()
    }

    fn is_open(&self, tuple: &FourTuple) -> bool {
        let Some(Target::Connection(index)) = self.find(tuple) else { return false };
        let state = self.connections.at(index).map(|live| live.connection.state());
        state.is_some_and(|state| state != State::TimeWait)
    }

    /// Makes room for one more session.
    fn sweep(&self, authentication: &mut Authentication) {
        if authentication.sessions.len() > 2 * self.demux.len() + SESSIONS_MIN {
            authentication.sessions.retain(|tuple, _| self.find(tuple).is_some());
        }
    }
}

impl Authentication {
    /// Signs what a connection sends.
    pub(super) fn sign_outgoing(
        &mut self,
        header: &mut [u8; HEADER_MAX],
        connection: &crate::Connection,
        outgoing: Outgoing,
    ) -> Outgoing {
        let place = (usize::from(outgoing.transport_offset), outgoing.header_len);
        let tuple = connection.tuple();
        match self.sign(header, place, &tuple, connection.payload(&outgoing)) {
            Some(header_len) => Outgoing { header_len, checksum: ChecksumState::Complete, ..outgoing },
            None => outgoing,
        }
    }

    /// Signs the segment in `header`, which ends at `len`, and returns where it ends now. `None`: it goes as it is.
    pub(super) fn sign(
        &mut self,
        header: &mut [u8; HEADER_MAX],
        (offset, len): (usize, usize),
        tuple: &FourTuple,
        payload: [&[u8]; 2],
    ) -> Option<usize> {
        let chain = self.chains.get(&tuple.remote_addr)?;
        let signed = prepare(&mut self.sessions, chain, header, (offset, len), tuple, payload);
        self.unsigned += u64::from(signed.is_none());
        signed
    }
}

impl Session {
    fn passive(remote_isn: u32, key: usize) -> Self {
        Self {
            local_isn: None,
            remote_isn: Some(remote_isn),
            sent: Extended::new(0),
            received: Extended::new(remote_isn),
            current: key,
            next: key,
        }
    }

    fn active(local_isn: u32) -> Self {
        Self {
            local_isn: Some(local_isn),
            remote_isn: None,
            sent: Extended::new(local_isn),
            received: Extended::new(0),
            current: 0,
            next: 0,
        }
    }

    /// An authentic segment arrived; the peer would like to receive `wanted`.
    fn take(&mut self, segment: &Segment<'_>, wanted: Option<usize>) {
        let seq = segment.seq.raw();
        if self.remote_isn.is_none() && segment.flags.contains(Flags::SYN) {
            self.remote_isn = Some(seq);
            self.received = Extended::new(seq);
        }
        self.received.note(seq);
        self.current = wanted.unwrap_or(self.current);
    }
}

/// Which key a segment is signed with, and which its sender would like to receive; `None`: it is not authentic.
fn verify(
    chain: &KeyChain,
    session: Option<&Session>,
    tuple: &FourTuple,
    bytes: &[u8],
    segment: &Segment<'_>,
) -> Option<(usize, Option<usize>)> {
    let header = bytes.get(..bytes.len().checked_sub(segment.payload.len())?)?;
    let found = find_option(header)?;
    let index = chain.by_receive_id(found.key_id)?;
    let key = chain.get(index)?;
    let seq = segment.seq.raw();
    let (syn, ack) = (segment.flags.contains(Flags::SYN), segment.flags.contains(Flags::ACK));
    let (isns, sne) = if syn && !ack {
        ((seq, 0), 0)
    } else {
        let session = session?;
        let remote = session.remote_isn.or_else(|| syn.then_some(seq))?;
        let sne = if session.remote_isn.is_some() { session.received.sne(seq) } else { 0 };
        ((remote, session.local_isn?), sne)
    };
    let remote = SocketAddr::new(tuple.remote_addr, tuple.remote_port);
    let local = SocketAddr::new(tuple.local_addr, tuple.local_port);
    let covered = Covered {
        src: remote.ip(),
        dst: local.ip(),
        sne,
        header,
        option_at: found.at,
        payload: [segment.payload, &[]],
    };
    let mac = TrafficKey::derive(key, remote, local, isns).mac(&covered, key.covers_options);
    same(&mac, &found.mac).then(|| (index, chain.by_send_id(found.next_key_id)))
}

/// Adds the option to a header, with lengths, MAC and checksums.
fn prepare(
    sessions: &mut HashMap<FourTuple, Session, KeyedState>,
    chain: &KeyChain,
    header: &mut [u8; HEADER_MAX],
    (offset, len): (usize, usize),
    tuple: &FourTuple,
    payload: [&[u8]; 2],
) -> Option<usize> {
    let seq = u32::from_be_bytes(*header.get(offset + 4..)?.first_chunk()?);
    let flags = Flags::from_bits((*header.get(offset + 13)?).into());
    let (syn, ack) = (flags.contains(Flags::SYN), flags.contains(Flags::ACK));
    if syn && !ack && sessions.get(tuple).is_none_or(|session| session.local_isn != Some(seq)) {
        sessions.insert(*tuple, Session::active(seq));
    }
    let session = sessions.get_mut(tuple)?;
    if syn && ack && session.local_isn.is_none() {
        session.local_isn = Some(seq);
        session.sent = Extended::new(seq);
    }
    let (key, next) = (chain.get(session.current)?, chain.get(session.next)?);
    let isns = (session.local_isn?, if syn && !ack { 0 } else { session.remote_isn? });
    let sne = session.sent.sne(seq);
    session.sent.note(seq);

    let end = len + OPTION_LEN;
    if end - offset > TCP_HEADER_MAX {
        return None;
    }
    let option = header.get_mut(len..end)?;
    option.fill(0);
    option.iter_mut().zip([KIND, 16, key.send_id, next.receive_id]).for_each(|(to, from)| *to = from);
    *header.get_mut(offset + 12)? += 0x40;
    write_mac(header, (offset, len, end), tuple, payload, (key, isns, sne))?;
    write_lengths(header, (offset, end), tuple, payload)?;
    Some(end)
}

fn write_mac(
    header: &mut [u8; HEADER_MAX],
    (offset, option, end): (usize, usize, usize),
    tuple: &FourTuple,
    payload: [&[u8]; 2],
    (key, isns, sne): (&MasterKey, (u32, u32), u32),
) -> Option<()> {
    let local = SocketAddr::new(tuple.local_addr, tuple.local_port);
    let remote = SocketAddr::new(tuple.remote_addr, tuple.remote_port);
    let covered = Covered {
        src: local.ip(),
        dst: remote.ip(),
        sne,
        header: header.get(offset..end)?,
        option_at: option - offset,
        payload,
    };
    let mac = TrafficKey::derive(key, local, remote, isns).mac(&covered, key.covers_options);
    header.get_mut(option + 4..end)?.copy_from_slice(&mac);
    Some(())
}

/// The IP header's length and checksum, and TCP's checksum.
fn write_lengths(
    header: &mut [u8; HEADER_MAX],
    (offset, end): (usize, usize),
    tuple: &FourTuple,
    payload: [&[u8]; 2],
) -> Option<()> {
    let tcp_len = end - offset + payload.iter().map(|part| part.len()).sum::<usize>();
    let length = if tuple.local_addr.is_ipv4() { offset + tcp_len } else { tcp_len };
    let length_at = if tuple.local_addr.is_ipv4() { 2 } else { 4 };
    *header.get_mut(length_at..)?.first_chunk_mut()? = u16::try_from(length).ok()?.to_be_bytes();
    if tuple.local_addr.is_ipv4() {
        header.get_mut(10..12)?.fill(0);
        *header.get_mut(10..)?.first_chunk_mut()? = sum(header.get(..offset)?).checksum().to_be_bytes();
    }
    header.get_mut(offset + 16..offset + 18)?.fill(0);
    let pseudo = pseudo_header(tuple.local_addr, tuple.remote_addr, 6, tcp_len);
    let checksum = pseudo.plus_bytes(header.get(offset..end)?).plus_parts(payload).checksum();
    *header.get_mut(offset + 16..)?.first_chunk_mut()? = checksum.to_be_bytes();
    Some(())
}

/// The option in a TCP header whose options are well-formed.
fn find_option(header: &[u8]) -> Option<Found> {
    let mut at = 20;
    loop {
        let option = header.get(at..)?;
        match option {
            [1, ..] => at += 1,
            [KIND, 16, key_id, next_key_id, rest @ ..] => {
                let mac = *rest.first_chunk()?;
                return Some(Found { at, key_id: *key_id, next_key_id: *next_key_id, mac });
            }
            [0 | KIND, ..] => return None,
            [_, len, ..] => at += usize::from(*len).max(2),
            _ => return None,
        }
    }
}

const TCP_HEADER_MAX: usize = 60;
/// As many sessions are kept without looking whether their names are in use.
const SESSIONS_MIN: usize = 64;
