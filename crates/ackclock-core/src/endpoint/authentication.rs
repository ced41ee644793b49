//! The TCP Authentication Option (RFC 5925) at the edge of the endpoint: segments to a peer with keys are
//! signed when their headers are complete, and segments from it are verified before they are looked up.
//!
//! Connections only know that 16 bytes of options are taken, and that segments leave one at a time. The
//! connection state for a signature (both ISNs, the extensions of its sequence numbers, its traffic keys) is
//! in a [`Session`] under its four-tuple, created by an authentic SYN or by our own. Sessions without a
//! connection are swept when they fill half of the table.
//!
//! Keys roll over as in §6.1 of the RFC: each segment names the key that it is signed with (KeyID) and the
//! one that its sender would like to receive (RNextKeyID). The receiver of the latter sends with it from then
//! on.
//!
//! A segment from a peer with keys that is not signed, or not authentic, is dropped and counted by its
//! defect. An option from a peer without keys is ignored. A connection's trace shows which keys it uses,
//! their changes, and what was refused. A reset without a session leaves unsigned, and means
//! nothing to the peer: after a restart, an old connection ends by its timeout (§7.7 of the RFC).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use ackclock_control::tally::Tally;
use ackclock_wire::checksum::{pseudo_header, sum};
use ackclock_wire::{ChecksumState, ControlSegment, Flags, HEADER_MAX, Segment};

use super::demux::Target;
use super::keys::KeyedState;
use super::{Answer, Endpoint};
use crate::authentication::derived::TrafficKeys;
use crate::authentication::mac::{Covered, KIND, MAC_LEN, OPTION_LEN, TrafficKey, same};
use crate::authentication::sequence::Extended;
use crate::connection::Outgoing;
use crate::trace::Extension;
use crate::{ConnectionId, Counters, FourTuple, KeyChain, State};

/// All keys, and the state of the connections that use them.
#[derive(Debug)]
pub(super) struct Authentication {
    chains: HashMap<IpAddr, KeyChain, KeyedState>,
    sessions: HashMap<FourTuple, Session, KeyedState>,
    /// Segments that could not be signed.
    unsigned: u64,
}

/// One connection, or its handshake.
#[derive(Debug)]
struct Session {
    local_isn: Option<u32>,
    remote_isn: Option<u32>,
    sent: Extended,
    received: Extended,
    /// The index of the key that this end sends with (current_key).
    current: usize,
    /// The index of the key that it would like to receive (rnext_key).
    next: usize,
    /// Traffic keys of what is sent, and of what is received.
    sending: TrafficKeys,
    receiving: TrafficKeys,
    noted: Noted,
}

/// The keys that the connection's trace knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Noted {
    /// KeyID of what it sends, and RNextKeyID: what it would like to receive.
    sent: Option<(u8, u8)>,
    /// KeyID of what it receives.
    received: Option<u8>,
}

/// Why a segment of a peer with keys is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// It has no option, or one of another length.
    Unsigned,
    /// No key has the KeyID it names.
    UnknownKey(u8),
    /// The key exists, but its MAC does not match; or the connection is unknown.
    WrongMac(u8),
}

/// An authentic segment.
#[derive(Clone, Copy, Debug)]
struct Verified {
    /// The index of its key in the chain.
    index: usize,
    /// Its KeyID.
    key_id: u8,
    /// The index of the key that its sender would like to receive.
    wanted: Option<usize>,
}

/// A header with the option added.
struct Signed<'a> {
    session: &'a mut Session,
    /// The end of the header.
    end: usize,
    /// KeyID and RNextKeyID.
    ids: (u8, u8),
}

/// KeyID and RNextKeyID of a connection, as last recorded in its trace.
type KeyIds = Option<(u8, u8)>;

/// The option in a header.
struct Found {
    at: usize,
    key_id: u8,
    next_key_id: u8,
    mac: [u8; MAC_LEN],
}

impl Endpoint {
    /// Sets the keys shared with a peer, for all connections with its address (TCP-AO, RFC 5925); `None`
    /// removes them. They apply to segments from now on: an open connection without keys does not survive the
    /// change. A connection with keys continues if the new chain has the key that it uses.
    pub fn set_keys(&mut self, peer: IpAddr, chain: Option<KeyChain>) {
        let tables = self.tables.clone();
        let authentication = self.authentication.get_or_insert_with(|| {
            let (chains, sessions) = (HashMap::with_hasher(tables.clone()), HashMap::with_hasher(tables));
            Box::new(Authentication { chains, sessions, unsigned: 0 })
        });
        let old = authentication.chains.remove(&peer);
        if let Some(chain) = chain {
            for (_, session) in
                authentication.sessions.iter_mut().filter(|(tuple, _)| tuple.remote_addr == peer)
            {
                let moved = |index| {
                    let key = old.as_ref().and_then(|old| old.get(index));
                    key.and_then(|key| chain.by_send_id(key.send_id)).unwrap_or(0)
                };
                (session.current, session.next) = (moved(session.current), moved(session.next));
                // Their indices have changed, and possibly a secret.
                (session.sending, session.receiving) = Default::default();
            }
            authentication.chains.insert(peer, chain);
        }
        if authentication.chains.is_empty() {
            self.authentication = None;
        }
    }

    /// Asks a connection's peer to send with the key of this KeyID from now on (RNextKeyID). Returns whether
    /// the key exists. The next segment that leaves carries the request.
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

    /// The KeyID that a connection sends with now, and the one that it would like to receive.
    #[must_use]
    pub fn key_ids(&self, id: ConnectionId) -> Option<(u8, u8)> {
        let tuple = self.connection(id)?.tuple();
        let authentication = self.authentication.as_ref()?;
        let chain = authentication.chains.get(&tuple.remote_addr)?;
        let session = authentication.sessions.get(&tuple)?;
        Some((chain.get(session.current)?.send_id, chain.get(session.next)?.receive_id))
    }

    /// Signs a reply in the endpoint's header. Returns its length.
    pub(super) fn sign_reply(&mut self, reply: &ControlSegment, len: usize) -> usize {
        let Some(authentication) = &mut self.authentication else { return len };
        let tuple = FourTuple::new(reply.src, reply.dst);
        let offset = if reply.src.is_ipv4() { 20 } else { 40 };
        authentication
            .sign(&mut self.header, (offset, len), &tuple, [&[], &[]])
            .map_or(len, |signed| signed.end)
    }

    /// An answer that is signed has no room for these options beside the signature.
    pub(super) fn without_room_for_options(&self, mut answer: Answer) -> Answer {
        if self.has_keys(answer.tuple.remote_addr) {
            let options = &mut answer.fields.options;
            (options.accecn, options.fast_open, options.experiment) = (None, None, None);
        }
        answer
    }

    /// Whether there are keys for this peer.
    pub(super) fn has_keys(&self, peer: IpAddr) -> bool {
        self.authentication.as_ref().is_some_and(|authentication| authentication.chains.contains_key(&peer))
    }

    /// The counters, including segments that could not be signed.
    pub(super) fn with_authentication(&self, counters: Counters) -> Counters {
        let unsigned = self.authentication.as_ref().map_or(0, |authentication| authentication.unsigned);
        Counters { sent_unauthenticated: unsigned, ..counters }
    }

    /// Whether a segment is authentic. Counts it if not.
    pub(super) fn is_authentic(&mut self, tuple: &FourTuple, bytes: &[u8], segment: &Segment<'_>) -> bool {
        let Some(mut authentication) = self.authentication.take() else { return true };
        let Some(chain) = authentication.chains.get(&tuple.remote_addr) else {
            self.authentication = Some(authentication);
            return true;
        };
        let session = authentication.sessions.get_mut(tuple);
        let verified = verify(chain, session, tuple, bytes, segment);
        match verified {
            Ok(found) => self.take_authentic(&mut authentication, tuple, segment, found),
            Err(refusal) => self.refuse_unauthentic(tuple, refusal),
        }
        self.authentication = Some(authentication);
        verified.is_ok()
    }

    fn take_authentic(
        &mut self,
        authentication: &mut Authentication,
        tuple: &FourTuple,
        segment: &Segment<'_>,
        found: Verified,
    ) {
        let opens = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        if opens {
            // A replayed SYN must not affect an open connection.
            let seq = segment.seq.raw();
            let session = authentication.sessions.get(tuple);
            if !self.is_open(tuple) && session.is_none_or(|session| session.remote_isn != Some(seq)) {
                self.sweep(authentication);
                authentication.sessions.insert(*tuple, Session::passive(seq, found.index));
            }
        } else if let Some(session) = authentication.sessions.get_mut(tuple) {
            session.take(segment, found.wanted);
            if session.noted.received != Some(found.key_id)
                && self.note_key(tuple, Extension::KeyReceived, found.key_id)
            {
                session.noted.received = Some(found.key_id);
            }
        }
    }

    fn refuse_unauthentic(&mut self, tuple: &FourTuple, refusal: Refusal) {
        let counters = self.rare_counters();
        counters.dropped_unauthenticated.count();
        let (counter, what, key_id) = match refusal {
            Refusal::Unsigned => (&mut counters.dropped_unsigned, Extension::RefusedUnsigned, 0),
            Refusal::UnknownKey(id) => (&mut counters.dropped_unknown_key, Extension::RefusedKey, id),
            Refusal::WrongMac(id) => (&mut counters.dropped_wrong_mac, Extension::RefusedMac, id),
        };
        counter.count();
        self.note_key(tuple, what, key_id);
    }

    /// Records it in the trace of the connection with this four-tuple. Returns whether the connection exists.
    fn note_key(&mut self, tuple: &FourTuple, what: Extension, key_id: u8) -> bool {
        let Some(Target::Connection(index)) = self.find(tuple) else { return false };
        let Some(slot) = self.connections.at_mut(index) else { return false };
        slot.connection.trace_extension(self.clock.now(), what, key_id.into());
        true
    }

    /// Signs what a connection sends, if its peer has keys.
    pub(super) fn signed(&mut self, index: u32, outgoing: Outgoing) -> Outgoing {
        let Some(authentication) = &mut self.authentication else { return outgoing };
        let Some(slot) = self.connections.at_mut(index) else { return outgoing };
        let (signed, before, after) =
            authentication.sign_outgoing(&mut self.header, &slot.connection, outgoing);
        for (what, id) in changed(before, after) {
            slot.connection.trace_extension(self.clock.now(), what, id.into());
        }
        signed
    }

    /// The number of sessions.
    #[cfg(test)]
    pub(super) fn sessions(&self) -> usize {
        self.authentication.as_ref().map_or(0, |authentication| authentication.sessions.len())
    }

    fn is_open(&self, tuple: &FourTuple) -> bool {
        let Some(Target::Connection(index)) = self.find(tuple) else { return false };
        let state = self.connections.at(index).map(|slot| slot.connection.state());
        state.is_some_and(|state| state != State::TimeWait)
    }

    /// Makes room for another session.
    fn sweep(&self, authentication: &mut Authentication) {
        if authentication.sessions.len() > self.tuples.len().saturating_mul(2).saturating_add(SESSIONS_MIN) {
            authentication.sessions.retain(|tuple, _| self.find(tuple).is_some());
        }
    }
}

impl Authentication {
    /// Signs what a connection sends. Also returns the keys that its trace knew, and those it knows now.
    fn sign_outgoing(
        &mut self,
        header: &mut [u8; HEADER_MAX],
        connection: &crate::Connection,
        outgoing: Outgoing,
    ) -> (Outgoing, KeyIds, KeyIds) {
        let place = (usize::from(outgoing.transport_offset), outgoing.header_len);
        let tuple = connection.tuple();
        let Some(signed) = self.sign(header, place, &tuple, connection.payload(&outgoing)) else {
            return (outgoing, None, None);
        };
        let before = signed.session.noted.sent.replace(signed.ids);
        let leaving = Outgoing { header_len: signed.end, checksum: ChecksumState::Complete, ..outgoing };
        (leaving, before, Some(signed.ids))
    }

    /// Signs the segment in `header`, which ends at `len`. `None`: it leaves unchanged.
    fn sign(
        &mut self,
        header: &mut [u8; HEADER_MAX],
        (offset, len): (usize, usize),
        tuple: &FourTuple,
        payload: [&[u8]; 2],
    ) -> Option<Signed<'_>> {
        let chain = self.chains.get(&tuple.remote_addr)?;
        let signed = prepare(&mut self.sessions, chain, header, (offset, len), tuple, payload);
        self.unsigned.grow(u64::from(signed.is_none()));
        signed
    }
}

/// The changes of a connection's keys.
fn changed(before: KeyIds, after: KeyIds) -> impl Iterator<Item = (Extension, u8)> {
    let differs = |part: fn((u8, u8)) -> u8| after.map(part).filter(|&id| before.map(part) != Some(id));
    let sent = differs(|(sent, _)| sent).map(|id| (Extension::KeySent, id));
    let wanted = differs(|(_, wanted)| wanted).map(|id| (Extension::KeyWanted, id));
    sent.into_iter().chain(wanted)
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
            sending: TrafficKeys::default(),
            receiving: TrafficKeys::default(),
            noted: Noted::default(),
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
            sending: TrafficKeys::default(),
            receiving: TrafficKeys::default(),
            noted: Noted::default(),
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

/// The key with which a segment is signed, if it is authentic.
fn verify(
    chain: &KeyChain,
    session: Option<&mut Session>,
    tuple: &FourTuple,
    bytes: &[u8],
    segment: &Segment<'_>,
) -> Result<Verified, Refusal> {
    let header_len = bytes.len().saturating_sub(segment.payload.len());
    let header = bytes.get(..header_len).unwrap_or_default();
    let found = find_option(header).ok_or(Refusal::Unsigned)?;
    let index = chain.by_receive_id(found.key_id).ok_or(Refusal::UnknownKey(found.key_id))?;
    let key = chain.get(index).ok_or(Refusal::UnknownKey(found.key_id))?;
    let seq = segment.seq.raw();
    let (syn, ack) = (segment.flags.contains(Flags::SYN), segment.flags.contains(Flags::ACK));
    let remote = SocketAddr::new(tuple.remote_addr, tuple.remote_port);
    let local = SocketAddr::new(tuple.local_addr, tuple.local_port);
    let covered = |sne| Covered {
        src: remote.ip(),
        dst: local.ip(),
        sne,
        header,
        option_at: found.at,
        payload: [segment.payload, &[]],
    };
    let derive = |isns| TrafficKey::derive(key, remote, local, isns);
    let wrong = Refusal::WrongMac(found.key_id);
    let mac = if syn && !ack {
        // There is no connection yet that this key could belong to.
        derive((seq, 0)).mac(&covered(0), key.covers_options)
    } else {
        let session = session.ok_or(wrong)?;
        let remote_isn = session.remote_isn.or_else(|| syn.then_some(seq)).ok_or(wrong)?;
        let sne = if session.remote_isn.is_some() { session.received.sne(seq) } else { 0 };
        let isns = (remote_isn, session.local_isn.ok_or(wrong)?);
        session.receiving.get(index, isns, || derive(isns)).mac(&covered(sne), key.covers_options)
    };
    let verified = Verified { index, key_id: found.key_id, wanted: chain.by_send_id(found.next_key_id) };
    same(&mac, &found.mac).then_some(verified).ok_or(wrong)
}

/// Adds the option to a header, with lengths, MAC and checksums.
fn prepare<'a>(
    sessions: &'a mut HashMap<FourTuple, Session, KeyedState>,
    chain: &KeyChain,
    header: &mut [u8; HEADER_MAX],
    (offset, len): (usize, usize),
    tuple: &FourTuple,
    payload: [&[u8]; 2],
) -> Option<Signed<'a>> {
    let tcp = header.get(offset..len)?;
    let seq = u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?);
    let flags = Flags::from_bits((*tcp.get(13)?).into());
    let option_at = tcp.len();
    let (syn, ack) = (flags.contains(Flags::SYN), flags.contains(Flags::ACK));
    if syn && !ack && sessions.get(tuple).is_none_or(|session| session.local_isn != Some(seq)) {
        sessions.insert(*tuple, Session::active(seq));
    }
    let session = sessions.get_mut(tuple)?;
    if syn && ack && session.local_isn.is_none() {
        session.local_isn = Some(seq);
        session.sent = Extended::new(seq);
    }
    let index = session.current;
    let (key, next) = (chain.get(index)?, chain.get(session.next)?);
    let isns = (session.local_isn?, if syn && !ack { 0 } else { session.remote_isn? });
    let sne = session.sent.sne(seq);
    session.sent.note(seq);

    let end = len.checked_add(OPTION_LEN)?;
    let option = header.get_mut(len..end)?;
    option.fill(0);
    option.iter_mut().zip([KIND, 16, key.send_id, next.receive_id]).for_each(|(to, from)| *to = from);
    // Four words more, in the upper half of the byte: a header of more than 44 bytes has no room for them.
    let data_offset = header.get_mut(offset..)?.get_mut(12)?;
    *data_offset = data_offset.checked_add(0x40)?;
    let local = SocketAddr::new(tuple.local_addr, tuple.local_port);
    let remote = SocketAddr::new(tuple.remote_addr, tuple.remote_port);
    let traffic_key = session.sending.get(index, isns, || TrafficKey::derive(key, local, remote, isns));
    let covered = Covered {
        src: local.ip(),
        dst: remote.ip(),
        sne,
        header: header.get(offset..end)?,
        option_at,
        payload,
    };
    let mac = traffic_key.mac(&covered, key.covers_options);
    header.get_mut(len..end)?.get_mut(4..)?.copy_from_slice(&mac);
    write_lengths(header, (offset, end), tuple, payload)?;
    Some(Signed { session, end, ids: (key.send_id, next.receive_id) })
}

/// The IP header's length and checksum, and TCP's checksum.
fn write_lengths(
    header: &mut [u8; HEADER_MAX],
    (offset, end): (usize, usize),
    tuple: &FourTuple,
    payload: [&[u8]; 2],
) -> Option<()> {
    let payload_len = payload.iter().map(|part| part.len()).sum();
    let tcp_len = header.get(offset..end)?.len().checked_add(payload_len)?;
    let length = if tuple.local_addr.is_ipv4() { tcp_len.checked_add(offset)? } else { tcp_len };
    let length_at = if tuple.local_addr.is_ipv4() { 2 } else { 4 };
    *header.get_mut(length_at..)?.first_chunk_mut()? = u16::try_from(length).ok()?.to_be_bytes();
    if tuple.local_addr.is_ipv4() {
        header.get_mut(10..12)?.fill(0);
        *header.get_mut(10..)?.first_chunk_mut()? = sum(header.get(..offset)?).checksum().to_be_bytes();
    }
    let tcp = header.get_mut(offset..end)?;
    tcp.get_mut(16..18)?.fill(0);
    let pseudo = pseudo_header(tuple.local_addr, tuple.remote_addr, 6, tcp_len);
    let checksum = pseudo.plus_bytes(tcp).plus_parts(payload).checksum();
    *tcp.get_mut(16..)?.first_chunk_mut()? = checksum.to_be_bytes();
    Some(())
}

/// The option in a TCP header whose options are well-formed.
fn find_option(header: &[u8]) -> Option<Found> {
    let mut at = 20;
    loop {
        let option = header.get(at..)?;
        match option {
            [1, ..] => at = at.checked_add(1)?,
            [KIND, 16, key_id, next_key_id, rest @ ..] => {
                let mac = *rest.first_chunk()?;
                return Some(Found { at, key_id: *key_id, next_key_id: *next_key_id, mac });
            }
            [0 | KIND, ..] => return None,
            [_, len, ..] => at = at.checked_add(usize::from(*len).max(2))?,
            _ => return None,
        }
    }
}

/// This many sessions are kept without checking whether their four-tuples are in use.
const SESSIONS_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::keys::{Key, Purpose};
    use crate::{Algorithm, MasterKey};

    #[test]
    fn a_header_without_room_for_the_option_stays_unsigned() {
        let tuple = FourTuple::new("192.0.2.1:1".parse().unwrap(), "192.0.2.2:2".parse().unwrap());
        let (algorithm, secret) = (Algorithm::HmacSha1, vec![7; 10]);
        let key = MasterKey { send_id: 1, receive_id: 2, algorithm, covers_options: true, secret };
        let chain = KeyChain::new(vec![key]).unwrap();
        for (len, signed) in [(20, true), (44, true), (48, false), (60, false)] {
            let mut header = [0; HEADER_MAX];
            // The data offset, and SYN.
            (header[32], header[33]) = ((len as u8 / 4) << 4, 2);
            let mut sessions = HashMap::with_hasher(KeyedState(Key::derive(&[1; 32], Purpose::Tables)));
            let end = prepare(&mut sessions, &chain, &mut header, (20, 20 + len), &tuple, [&[], &[]]);
            assert_eq!(end.map(|signed| signed.end), signed.then_some(20 + len + OPTION_LEN), "{len} bytes");
        }
    }

    #[test]
    fn the_option_is_found_behind_others_and_not_behind_the_end_of_options() {
        let option: Vec<u8> = [&[KIND, 16, 1, 2][..], &[7; MAC_LEN]].concat();
        let mss: &[u8] = &[2, 4, 5, 180];
        let cases: [(&[&[u8]], Option<usize>); 9] = [
            (&[&option], Some(20)),
            (&[&[1, 1], mss, &option], Some(26)),
            // The end of options (RFC 9293 §3.2): the rest is padding.
            (&[&[0], &option], None),
            (&[mss, &[0], &option], None),
            // Another length.
            (&[&[KIND, 4, 1, 2], &option], None),
            (&[&option[..15]], None),
            (&[mss], None),
            // A length that counts less than its own two bytes.
            (&[&[3, 0], &option], Some(22)),
            (&[&[3, 1], &option], Some(22)),
        ];
        for (options, expected) in cases {
            let header = [&[0; 20][..], &options.concat()].concat();
            let found = find_option(&header);
            assert_eq!(found.as_ref().map(|found| found.at), expected, "{options:?}");
            assert!(
                found
                    .is_none_or(|found| (found.key_id, found.next_key_id, found.mac) == (1, 2, [7; MAC_LEN]))
            );
        }
    }
}
