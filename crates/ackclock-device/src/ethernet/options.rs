//! Options for opening an Ethernet device.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use ackclock_link::{Detection, LinkConfig, MacAddr};

use super::EthernetDevice;
use crate::configure::Cidr;
use crate::frame::made_mac;
#[cfg(feature = "os")]
use crate::{FdError, OffloadMode, PacketDevice, PacketOptions, PassedFd, TapDevice};
use crate::{FrameDevice, OpenError};
#[cfg(feature = "xdp")]
use crate::{XdpDevice, XdpMode};

/// The options of an Ethernet device: addresses, gateway, MTU and the rest. Then open one of the operating
/// system (feature `os`), or call [`on`](Self::on) with any device for frames.
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
    #[cfg(feature = "os")]
    offload: OffloadMode,
}

/// The device's Ethernet address.
#[derive(Clone, Copy, Debug, Default)]
enum MacChoice {
    /// A generated one.
    #[default]
    Own,
    Interface,
    Given(MacAddr),
}

impl EthernetOptions {
    /// No address yet; everything else at its default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an IP address and its network, which needs no router. Give the address to the stack as well.
    #[must_use]
    pub fn address(mut self, address: Cidr) -> Self {
        self.addresses.push(address);
        self
    }

    /// Sets the router for all other networks, one per address family. Default: none for IPv4. For IPv6, the
    /// routers that advertise themselves, if [`autoconfigure`](Self::autoconfigure) is on.
    #[must_use]
    pub fn gateway(mut self, gateway: IpAddr) -> Self {
        self.gateways.push(gateway);
        self
    }

    /// The Ethernet address (default: a locally administered one, made from the interface and the IP
    /// addresses).
    #[must_use]
    pub fn mac(mut self, mac: MacAddr) -> Self {
        self.mac = MacChoice::Given(mac);
        self
    }

    /// Uses the interface's Ethernet address, for networks that allow one per port (Wi-Fi, most clouds). It
    /// has no effect on a TAP device, whose kernel end has that address.
    #[must_use]
    pub fn interface_mac(mut self) -> Self {
        self.mac = MacChoice::Interface;
        self
    }

    /// The largest IP packet in bytes, if the interface's MTU is larger (default: the interface's).
    #[must_use]
    pub fn mtu(mut self, mtu: usize) -> Self {
        self.mtu = Some(mtu);
        self
    }

    /// Whether the interface receives the frames of all stations, and passes their packets to the stack
    /// (default: no).
    #[must_use]
    pub fn promiscuous(mut self, on: bool) -> Self {
        self.promiscuous = on;
        self
    }

    /// Whether to ask IPv6 routers for prefixes and a default route, and make addresses from them (default:
    /// no).
    #[must_use]
    pub fn autoconfigure(mut self, on: bool) -> Self {
        self.autoconfigure = on;
        self
    }

    /// Whether to probe addresses before use (default: yes on a packet device, which takes up to 7 s; no on a
    /// TAP device).
    #[must_use]
    pub fn detection(mut self, detection: Detection) -> Self {
        self.detection = Some(detection);
        self
    }

    /// Whether to exchange 64 KB packets and unfinished checksums with the kernel (default: where it can).
    #[cfg(feature = "os")]
    #[must_use]
    pub fn offload(mut self, mode: OffloadMode) -> Self {
        self.offload = mode;
        self
    }

    /// Opens the TAP interface `name`. Creates it if it does not exist, which takes `CAP_NET_ADMIN`; it then
    /// lives as long as the device. If there is no offload, the second value says why.
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    #[cfg(feature = "os")]
    pub fn open_tap(self, name: &str) -> Result<(EthernetDevice<TapDevice>, Option<String>), OpenError> {
        self.check_mac()?;
        let (device, fell_back) = TapDevice::open(name, self.offload)?;
        let mac = if let MacChoice::Given(mac) = self.mac { mac } else { device.own_mac() };
        Ok((self.finish(device, mac, Detection::Announce), fell_back))
    }

    /// Opens a TAP interface by the descriptor that another program attached to it. Give [`mtu`](Self::mtu)
    /// if the interface is in another network namespace, because this process cannot ask it there. The
    /// descriptor says whether there is offload; [`offload`](Self::offload) has no effect.
    ///
    /// # Errors
    /// See [`FdError`].
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    #[cfg(feature = "os")]
    pub fn open_fd(self, fd: PassedFd) -> Result<EthernetDevice<TapDevice>, FdError> {
        self.check_mac()?;
        let device = fd.open_tap(self.mtu)?;
        let mac = if let MacChoice::Given(mac) = self.mac { mac } else { device.own_mac() };
        Ok(self.finish(device, mac, Detection::Announce))
    }

    /// Opens a packet socket on the Ethernet interface `name`, which takes `CAP_NET_RAW`. If there is no
    /// offload, the second value says why.
    ///
    /// Use addresses that the kernel does not have, or it resets the stack's connections; see
    /// [`crate::packet`].
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    #[cfg(feature = "os")]
    pub fn open_packet(
        self,
        name: &str,
    ) -> Result<(EthernetDevice<PacketDevice>, Option<String>), OpenError> {
        let (mut queues, fell_back) = self.open_packet_queues(name, 1)?;
        Ok((queues.remove(0), fell_back))
    }

    /// Opens a packet device with this many queues for `StackBuilder::queues`. Each queue is a device with
    /// its share of the flows.
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    #[cfg(feature = "os")]
    pub fn open_packet_queues(self, name: &str, queues: usize) -> Result<PacketQueues, OpenError> {
        let options = self.of_packet(name)?;
        let (devices, fell_back) = PacketDevice::open_queues(name, options, queues)?;
        // All have the same, and there is at least one.
        let mac = devices.first().map_or(MacAddr::BROADCAST, PacketDevice::mac);
        Ok((self.finish_queues(devices, mac, Detection::Probe), fell_back))
    }

    /// Opens this many queues of the Ethernet interface `name` by AF_XDP. If the kernel refuses,
    /// [`XdpMode::Auto`] opens a packet device instead, and the second value says why.
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    #[cfg(feature = "xdp")]
    pub fn open_xdp(self, name: &str, mode: XdpMode, queues: usize) -> Result<XdpQueues, OpenError> {
        let options = self.of_packet(name)?;
        let (devices, fell_back) = XdpDevice::open_queues(name, options, mode, queues)?;
        let mac = devices.first().map_or(MacAddr::BROADCAST, XdpDevice::mac);
        Ok((self.finish_queues(devices, mac, Detection::Probe), fell_back))
    }

    /// Puts the link layer on any device for frames, such as [`EthernetOver`](crate::over::EthernetOver).
    /// Without [`mac`](Self::mac) it makes its Ethernet address from the IP addresses. It announces these
    /// without probing them, unless [`detection`](Self::detection) asks for probes.
    ///
    /// # Errors
    /// [`OpenError::MacNotUnicast`].
    pub fn on<F: FrameDevice>(self, device: F) -> Result<EthernetDevice<F>, OpenError> {
        self.check_mac()?;
        let mac = if let MacChoice::Given(mac) = self.mac { mac } else { made_mac(&("on", &self.addresses)) };
        Ok(self.finish(device, mac, Detection::Announce))
    }

    /// The options of a packet socket on the interface `name`.
    #[cfg(feature = "os")]
    fn of_packet(&self, name: &str) -> Result<PacketOptions, OpenError> {
        self.check_mac()?;
        let mac = match self.mac {
            MacChoice::Own => Some(PacketDevice::own_mac(name, &self.addresses)?),
            MacChoice::Interface => None,
            MacChoice::Given(mac) => Some(mac),
        };
        Ok(PacketOptions { mac, offload: self.offload, promiscuous: self.promiscuous })
    }

    fn check_mac(&self) -> Result<(), OpenError> {
        match self.mac {
            MacChoice::Given(mac) if !mac.is_unicast() => Err(OpenError::MacNotUnicast { mac }),
            _ => Ok(()),
        }
    }

    fn finish<F: FrameDevice>(self, device: F, mac: MacAddr, detection: Detection) -> EthernetDevice<F> {
        self.finish_queues(vec![device], mac, detection).remove(0)
    }

    fn finish_queues<F: FrameDevice>(
        self,
        devices: Vec<F>,
        mac: MacAddr,
        detection: Detection,
    ) -> Vec<EthernetDevice<F>> {
        let mut config = LinkConfig::new(mac);
        if matches!(self.mac, MacChoice::Interface) {
            // The kernel has the addresses made from its own identifier.
            config.interface_id = made_mac(&(mac, &self.addresses)).interface_id();
        }
        config.addresses = self.addresses;
        config.gateways = self.gateways;
        config.autoconfigure = self.autoconfigure;
        config.detection = self.detection.unwrap_or(detection);
        config.any_station = self.promiscuous;
        config.seed = RandomState::new().hash_one(mac);
        let mut queues = EthernetDevice::queues(devices, config);
        for queue in &mut queues {
            queue.mtu_max = self.mtu;
        }
        queues
    }
}

/// The queues, and why they have no offload if it was wanted.
#[cfg(feature = "os")]
pub type PacketQueues = (Vec<EthernetDevice<PacketDevice>>, Option<String>);

/// The queues, and why they are those of a packet device if AF_XDP was refused.
#[cfg(feature = "xdp")]
pub type XdpQueues = (Vec<EthernetDevice<XdpDevice>>, Option<String>);
