//! The addresses and ports of this process's raw devices. Each device receives a copy of every packet for its
//! addresses, and its stack resets connections that it does not know: two devices on one port would end each
//! other's.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Ports, RawConfig, RawError};

/// A device's place among them, which ends with this value.
#[derive(Debug)]
pub(super) struct Claim(u64);

#[derive(Debug)]
struct Taken {
    number: u64,
    /// The network namespace.
    network: u64,
    interface: Option<String>,
    addresses: Vec<IpAddr>,
    ports: Ports,
}

impl Claim {
    /// Takes what `config` names, unless another device has a part of it.
    pub fn new(config: &RawConfig) -> Result<Self, RawError> {
        let network = fs::metadata("/proc/thread-self/ns/net").map_or(0, |metadata| metadata.ino());
        let mut taken = lock();
        let clash = taken.iter().find_map(|other| other.clash(network, config));
        if let Some(addr) = clash {
            return Err(RawError::Taken { addr });
        }
        let number = taken.last().map_or(0, |last| last.number + 1);
        let RawConfig { interface, addresses, ports, .. } = config.clone();
        taken.push(Taken { number, network, interface, addresses, ports });
        Ok(Self(number))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock().retain(|taken| taken.number != self.0);
    }
}

impl Taken {
    /// An address for which both would receive the same packets.
    fn clash(&self, network: u64, config: &RawConfig) -> Option<IpAddr> {
        let apart = matches!((&self.interface, &config.interface), (Some(one), Some(other)) if one != other);
        let overlap = match (&self.ports, &config.ports) {
            (Ports::Range(one), Ports::Range(other)) => {
                one.start() <= other.end() && other.start() <= one.end()
            }
            _ => true,
        };
        let shared = self.addresses.iter().find(|addr| config.addresses.contains(addr)).copied();
        shared.filter(|_| network == self.network && overlap && !apart)
    }
}

fn lock() -> MutexGuard<'static, Vec<Taken>> {
    static TAKEN: Mutex<Vec<Taken>> = Mutex::new(Vec::new());
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}
