//! How an Ethernet device is opened.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;

use ackclock_link::{Detection, LinkConfig, MacAddr, Prefix};

use super::EthernetDevice;
use crate::configure::Cidr;
use crate::packet::{PacketDevice, PacketOptions};
use crate::tap::TapDevice;
use crate::{FrameDevice, OffloadMode, OpenError};

/// What an Ethernet device is to be: addresses, gateway, MTU and the rest, then [`open_tap`](Self::open_tap) or
/// [`open_packet`](Self::open_packet).
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ackclock_device::EthernetOptions;
/// let (mut device, fell_back) = EthernetOptions::new()
///     .address("192.0.2.10/24".parse()?)
///     .gateway("192.0.2.1".parse()?)
///     .open_packet("eth0")?;
/// if let Some(why) = fell_back {
///     eprintln!("no offload: {why}");
/// }
/// device.ready().await?; // probes for other hosts with the address
/// let link = device.handle();
/// // ... give the device to a stack ...
/// println!("{:?}", link.neighbours());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct EthernetOptions {
    addresses: Vec<Cidr>,
    gateways: Vec<IpAddr>,
    mac: MacChoice,
    mtu: Option<usize>,
    promiscuous: bool,
    autoconfigure: bool,
    detection: Option<Detection>,
    offload: OffloadMode,
}

/// Whose Ethernet address it has.
#[derive(Clone, Copy, Debug, Default)]
enum MacChoice {
    /// One made for it.
    #[default]
    Own,
    Interface,
    Given(MacAddr),
}

impl EthernetOptions {
    /// No address yet, everything else at its default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One more IP address, and the network that is reached without a router. The stack needs to be told it too.
    #[must_use]
    pub fn address(mut self, address: Cidr) -> Self {
        self.addresses.push(address);
        self
    }

    /// The router of its family for everything else (default: none for IPv4, for IPv6 those that advertise themselves
    /// if [`autoconfigure`](Self::autoconfigure) is on). One of each family.
    #[must_use]
    pub fn gateway(mut self, gateway: IpAddr) -> Self {
        self.gateways.push(gateway);
        self
    }

    /// The Ethernet address (default: a locally administered one, made from the interface's and the IP addresses).
    #[must_use]
    pub fn mac(mut self, mac: MacAddr) -> Self {
        self.mac = MacChoice::Given(mac);
        self
    }

    /// The interface's own Ethernet address, for networks that allow one on a port (Wi-Fi, most clouds). Not for a TAP
    /// device, whose kernel end has that address; there it is as if nothing had been said.
    #[must_use]
    pub fn interface_mac(mut self) -> Self {
        self.mac = MacChoice::Interface;
        self
    }

    /// Largest IP packet in bytes, if the interface's MTU is larger (default: the interface's).
    #[must_use]
    pub fn mtu(mut self, mtu: usize) -> Self {
        self.mtu = Some(mtu);
        self
    }

    /// Whether the interface is to receive the frames of all stations, and the stack their packets (default: no).
    #[must_use]
    pub fn promiscuous(mut self, on: bool) -> Self {
        self.promiscuous = on;
        self
    }

    /// Whether IPv6 routers are asked for prefixes and a default route, and addresses are made from them (default: no).
    #[must_use]
    pub fn autoconfigure(mut self, on: bool) -> Self {
        self.autoconfigure = on;
        self
    }

    /// Whether addresses are probed before they are used (default: on a packet device yes, which takes up to 7 s; on a
    /// TAP device no).
    #[must_use]
    pub fn detection(mut self, detection: Detection) -> Self {
        self.detection = Some(detection);
        self
    }

    /// Whether 64 KB packets and unfinished checksums are exchanged with the kernel (default: where it can).
    #[must_use]
    pub fn offload(mut self, mode: OffloadMode) -> Self {
        self.offload = mode;
        self
    }

    /// Opens the TAP interface `name`, which is made if it does not exist (that takes `CAP_NET_ADMIN`) and then lives as
    /// long as the device. The second value says why there is no offload, if there is none.
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// # Panics
    /// When the tokio runtime of the caller has no I/O driver.
    pub fn open_tap(self, name: &str) -> Result<(EthernetDevice<TapDevice>, Option<String>), OpenError> {
        self.check_mac()?;
        let (device, fell_back) = TapDevice::open(name, self.offload)?;
        let mac = if let MacChoice::Given(mac) = self.mac { mac } else { device.own_mac() };
        Ok((self.finish(device, mac, Detection::Announce), fell_back))
    }

    /// Opens a packet socket on the Ethernet interface `name` (that takes `CAP_NET_RAW`). The second value says why there
    /// is no offload, if there is none.
    ///
    /// The addresses must be ones that the kernel does not have, or it resets the stack's connections; [`crate::packet`]
    /// says more.
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// # Panics
    /// When the tokio runtime of the caller has no I/O driver.
    pub fn open_packet(
        self,
        name: &str,
    ) -> Result<(EthernetDevice<PacketDevice>, Option<String>), OpenError> {
        self.check_mac()?;
        let mac = match self.mac {
            MacChoice::Own => Some(PacketDevice::own_mac(name, &self.addresses)?),
            MacChoice::Interface => None,
            MacChoice::Given(mac) => Some(mac),
        };
        let options = PacketOptions { mac, offload: self.offload, promiscuous: self.promiscuous };
        let (device, fell_back) = PacketDevice::open(name, options)?;
        let mac = device.mac();
        Ok((self.finish(device, mac, Detection::Probe), fell_back))
    }

    fn check_mac(&self) -> Result<(), OpenError> {
        match self.mac {
            MacChoice::Given(mac) if !mac.is_unicast() => Err(OpenError::MacNotUnicast { mac }),
            _ => Ok(()),
        }
    }

    fn finish<F: FrameDevice>(self, device: F, mac: MacAddr, detection: Detection) -> EthernetDevice<F> {
        let mut config = LinkConfig::new(mac);
        if matches!(self.mac, MacChoice::Interface) {
            // The kernel has the addresses that would be made from its own.
            config.interface_id = MacAddr::local(stable_hash(&(mac, &self.addresses))).interface_id();
        }
        config.addresses =
            self.addresses.iter().map(|own| Prefix::new(own.addr(), own.prefix_len())).collect();
        config.gateways = self.gateways;
        config.autoconfigure = self.autoconfigure;
        config.detection = self.detection.unwrap_or(detection);
        config.any_station = self.promiscuous;
        config.seed = RandomState::new().hash_one(mac);
        let mut device = EthernetDevice::new(device, config);
        device.mtu_max = self.mtu;
        device
    }
}

fn stable_hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
