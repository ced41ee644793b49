//! Inspecting a link while its device is in use.

use std::io;
use std::sync::{Arc, Mutex};

use ackclock_link::{AddressInfo, AddressState, LinkCounters, MacAddr, NeighbourInfo};

use super::{Shared, lock};

/// A handle on the link of an [`EthernetDevice`](super::EthernetDevice).
#[derive(Clone, Debug)]
pub struct LinkHandle(Arc<Mutex<Shared>>);

impl LinkHandle {
    pub(super) fn new(shared: Arc<Mutex<Shared>>) -> Self {
        Self(shared)
    }

    /// Its Ethernet address.
    #[must_use]
    pub fn mac(&self) -> MacAddr {
        lock(&self.0).link.mac()
    }

    /// Its IP addresses, including those made from routers' prefixes, and whether they are usable.
    #[must_use]
    pub fn addresses(&self) -> Vec<AddressInfo> {
        let shared = lock(&self.0);
        shared.link.addresses(shared.now()).collect()
    }

    /// Its neighbours.
    #[must_use]
    pub fn neighbours(&self) -> Vec<NeighbourInfo> {
        lock(&self.0).link.neighbours().collect()
    }

    /// Counts of what it has done and dropped.
    #[must_use]
    pub fn counters(&self) -> LinkCounters {
        lock(&self.0).link.counters()
    }

    /// Reports a configured address that another station has.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], with both addresses and what to do.
    pub fn check_addresses(&self) -> io::Result<()> {
        for own in self.addresses() {
            if let AddressState::Duplicate(by) = own.state {
                let addr = own.prefix.addr();
                let text = format!(
                    "{addr} is in use by the station {by} on this link; give the stack another address, or \
                     take it from that host"
                );
                return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
            }
        }
        Ok(())
    }
}
