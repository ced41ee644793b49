//! Which ports are taken, and by which listeners and bound sockets.
//!
//! Two sockets may have one port if their addresses differ, or as the kernels' sockets allow it (Linux,
//! `inet_csk_bind_conflict`, by observation): both share the port (`SO_REUSEPORT`), or both reuse addresses
//! (`SO_REUSEADDR`) and neither listens. A wildcard equals every address that it covers. A socket that does
//! not reuse addresses also conflicts with connections; [`Endpoint::bind`](super::Endpoint::bind) searches
//! for those.
//!
//! Listeners on every port (`ListenAddr::port` is `None`) take none of them.

use std::net::IpAddr;

use crate::ListenError;

/// The claims of an endpoint, in order of their ports. Most endpoints have at most one, so they are in a
/// vector whose first capacity is one.
#[derive(Debug)]
pub(super) struct Claims {
    claims: Vec<Claim>,
    made: u64,
    max: usize,
}

/// A port to which a socket is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BoundId {
    pub(crate) port: u16,
    pub(crate) number: u64,
}

/// How a socket shares its port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sharing {
    /// With connections on it, and with sockets that also set this and do not listen.
    pub reuse_address: bool,
    /// With all sockets that also set this.
    pub reuse_port: bool,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    id: BoundId,
    /// As in [`ListenAddr`](crate::ListenAddr).
    addr: Option<IpAddr>,
    sharing: Sharing,
    listens: bool,
}

impl Claims {
    /// Room for `max` claims.
    pub fn new(max: usize) -> Self {
        Self { claims: Vec::new(), made: 0, max }
    }

    /// Takes a port.
    pub fn claim(
        &mut self,
        addr: Option<IpAddr>,
        port: u16,
        sharing: Sharing,
    ) -> Result<BoundId, ListenError> {
        let id = BoundId { port, number: self.made.saturating_add(1) };
        self.claim_as(id, addr, sharing)?;
        Ok(id)
    }

    /// Claims under a given id. Those of one port increase.
    pub fn claim_as(
        &mut self,
        id: BoundId,
        addr: Option<IpAddr>,
        sharing: Sharing,
    ) -> Result<(), ListenError> {
        if !self.is_free(addr, id.port, sharing) {
            return Err(ListenError::AddressInUse);
        }
        if self.claims.len() >= self.max {
            return Err(ListenError::TooManyListeners(self.max));
        }
        self.made = self.made.max(id.number);
        if self.claims.capacity() == 0 {
            self.claims.reserve_exact(1);
        }
        // After those of its port, all of which have lower numbers.
        let place = self.claims.partition_point(|claim| claim.id < id);
        self.claims.insert(place, Claim { id, addr, sharing, listens: false });
        Ok(())
    }

    /// Whether [`claim`](Self::claim) would find no conflict.
    pub fn is_free(&self, addr: Option<IpAddr>, port: u16, sharing: Sharing) -> bool {
        let new = Claim { id: BoundId { port, number: 0 }, addr, sharing, listens: false };
        !self.of_port(port).iter().any(|claim| claim.conflicts(&new))
    }

    /// A bound socket begins to listen. Of all sockets that share the address, only those that share the port
    /// may listen.
    pub fn listen(&mut self, id: BoundId) -> Result<(), ListenError> {
        let Some(own) = self.find(id).copied() else { return Err(ListenError::AddressInUse) };
        if self.of_port(id.port).iter().any(|claim| claim.id != id && claim.conflicts(&own)) {
            return Err(ListenError::AddressInUse);
        }
        if let Some(claim) = self.place(id).and_then(|place| self.claims.get_mut(place)) {
            claim.listens = true;
        }
        Ok(())
    }

    /// The address and sharing of a bound socket.
    pub fn get(&self, id: BoundId) -> Option<(Option<IpAddr>, u16, Sharing)> {
        self.find(id).map(|claim| (claim.addr, id.port, claim.sharing))
    }

    /// Releases a port.
    pub fn release(&mut self, id: BoundId) {
        if let Some(place) = self.place(id) {
            self.claims.remove(place);
        }
    }

    /// Whether this port of this address is taken.
    pub fn has(&self, addr: IpAddr, port: u16) -> bool {
        self.of_port(port).iter().any(|claim| overlap(claim.addr, Some(addr)))
    }

    fn of_port(&self, port: u16) -> &[Claim] {
        let start = self.claims.partition_point(|claim| claim.id.port < port);
        let behind = self.claims.get(start..).unwrap_or_default();
        behind.split(|claim| claim.id.port != port).next().unwrap_or_default()
    }

    fn place(&self, id: BoundId) -> Option<usize> {
        self.claims.binary_search_by_key(&id, |claim| claim.id).ok()
    }

    fn find(&self, id: BoundId) -> Option<&Claim> {
        self.place(id).and_then(|place| self.claims.get(place))
    }
}

impl Claim {
    /// Whether a new claim conflicts with this one.
    fn conflicts(&self, new: &Self) -> bool {
        let share_port = self.sharing.reuse_port && new.sharing.reuse_port;
        let reuse = self.sharing.reuse_address && new.sharing.reuse_address && !self.listens;
        overlap(self.addr, new.addr) && !share_port && !reuse
    }
}

/// Whether both cover a common address.
fn overlap(a: Option<IpAddr>, b: Option<IpAddr>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return true };
    a == b || a.is_ipv4() == b.is_ipv4() && (a.is_unspecified() || b.is_unspecified())
}

ackclock_form::form! {
    struct Claims { claims, made, max }
    struct BoundId { port, number }
    struct Sharing { reuse_address, reuse_port }
    struct Claim { id, addr, sharing, listens }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REUSE: Sharing = Sharing { reuse_address: true, reuse_port: false };
    const SHARE: Sharing = Sharing { reuse_address: false, reuse_port: true };
    const ALONE: Sharing = Sharing { reuse_address: false, reuse_port: false };

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    fn beside(first: (Option<IpAddr>, Sharing, bool), second: (Option<IpAddr>, Sharing)) -> bool {
        let mut claims = Claims::new(8);
        let id = claims.claim(first.0, 80, first.1).unwrap();
        assert!(!first.2 || claims.listen(id).is_ok());
        claims.claim(second.0, 80, second.1).is_ok()
    }

    #[test]
    fn a_wildcard_is_each_address_that_it_stands_for() {
        for (first, second, free) in [
            (ip("10.0.0.1"), ip("10.0.0.1"), false),
            (ip("10.0.0.1"), ip("10.0.0.2"), true),
            (ip("0.0.0.0"), ip("10.0.0.1"), false),
            (ip("0.0.0.0"), ip("fd00::1"), true),
            (ip("::"), ip("0.0.0.0"), true),
            (ip("::"), ip("fd00::1"), false),
            (None, ip("10.0.0.1"), false),
            (None, ip("0.0.0.0"), false),
            (None, None, false),
        ] {
            for listens in [false, true] {
                assert_eq!(beside((first, ALONE, listens), (second, ALONE)), free, "{first:?} {second:?}");
                assert_eq!(beside((second, ALONE, listens), (first, ALONE)), free, "{second:?} {first:?}");
            }
        }
    }

    #[test]
    fn one_address_is_shared_by_agreement() {
        let addr = ip("10.0.0.1");
        assert!(beside((addr, SHARE, true), (addr, SHARE)));
        assert!(!beside((addr, SHARE, true), (addr, ALONE)));
        assert!(beside((addr, REUSE, false), (addr, REUSE)));
        assert!(!beside((addr, REUSE, true), (addr, REUSE)));
        assert!(!beside((addr, REUSE, false), (addr, ALONE)));
    }

    #[test]
    fn of_those_who_reuse_an_address_one_listens() {
        let mut claims = Claims::new(8);
        let first = claims.claim(None, 80, REUSE).unwrap();
        let second = claims.claim(None, 80, REUSE).unwrap();
        assert_eq!(claims.listen(first), Ok(()));
        assert_eq!(claims.listen(second), Err(ListenError::AddressInUse));
        claims.release(first);
        assert_eq!(claims.listen(second), Ok(()));
        assert_eq!(claims.listen(first), Err(ListenError::AddressInUse), "it is released");
    }

    #[test]
    fn a_claim_is_found_among_those_of_other_ports() {
        let mut claims = Claims::new(8);
        let ids: Vec<BoundId> =
            [443, 80, 8080, 81].into_iter().map(|port| claims.claim(None, port, REUSE).unwrap()).collect();
        let addr = "10.0.0.1".parse().unwrap();
        for (port, taken) in [(79, false), (80, true), (81, true), (443, true), (8080, true), (8081, false)] {
            assert_eq!(claims.has(addr, port), taken, "{port}");
            assert_eq!(claims.is_free(Some(addr), port, ALONE), !taken, "{port}");
            assert!(claims.is_free(Some(addr), port, REUSE), "{port}");
        }
        claims.release(ids[1]);
        assert!(!claims.has(addr, 80) && claims.has(addr, 81) && claims.has(addr, 8080));
    }

    #[test]
    fn claims_are_bounded_and_come_back() {
        let mut claims = Claims::new(1);
        let id = claims.claim(None, 80, ALONE).unwrap();
        assert_eq!(claims.claim(None, 81, ALONE), Err(ListenError::TooManyListeners(1)));
        assert!(claims.has("fd00::1".parse().unwrap(), 80));
        claims.release(id);
        claims.release(id);
        assert!(claims.claim(None, 81, ALONE).is_ok());
        assert!(claims.claims.len() == 1 && claims.get(id).is_none());
    }
}
