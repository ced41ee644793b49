//! Options of the device under the stack.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ackclock::Cidr;
use ackclock_cli::manual::Suggested;
use ackclock_device::OffloadMode;
use ackclock_device::link::MacAddr;
use clap::{Args, ValueEnum};

use crate::device::DeviceChoice;

/// The device under the stack.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// The device under the stack: tun; raw (addresses of this host, by raw and packet sockets); packet (one
    /// more station on an Ethernet interface of this host); xdp (the same by AF_XDP, or as packet where the
    /// kernel refuses that); tap (an Ethernet whose other end is the kernel's); fd:3, a TUN or TAP device
    /// that the parent opened as that descriptor (fd:3,4 for queues, fd for those of LISTEN_FDS); unix:PATH,
    /// Ethernet frames behind their lengths over a Unix socket (QEMU, passt, another tcpcat); unixgram:PATH,
    /// the same in datagrams (vfkit, libkrun); or a capture, which is played with the stack as the other side
    #[arg(long, value_name = DeviceChoice::forms(), default_value = "tun", hide_possible_values = true, value_parser = Suggested::new(DeviceChoice::words(), DeviceChoice::parse))]
    pub(crate) device: DeviceChoice,
    /// The TUN device, created if it is missing and this user may [default: tun0]
    #[arg(long, value_name = "NAME")]
    tun: Option<String>,
    /// With --device tun, packet or xdp: open the device with this many queues, each with its own task, so
    /// that the stack uses as many processors; an existing TUN device must have been made with multi_queue
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=QUEUES_MAX))]
    queues: Option<u16>,
    /// With --device packet or xdp: the Ethernet interface. With tap: the TAP device, created if it is
    /// missing and this user may [default: tap0]. With raw: the only interface to send and receive on
    /// [default: by the host's routes]
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// The stack's address with its prefix; repeat it for IPv4 and IPv6
    #[arg(long, value_name = "CIDR", value_parser = host)]
    pub(crate) addr: Vec<Cidr>,
    /// With --device packet, xdp or tap: take IPv6 addresses and a default route from the link's routers;
    /// --addr is then optional
    #[arg(long)]
    pub(crate) autoconf: bool,
    /// With --device packet, xdp or tap: the router for destinations outside the networks of --addr, one for
    /// IPv4 and one for IPv6 [default: none; with tap and --configure the kernel's end]
    #[arg(long, value_name = "ADDR")]
    pub(crate) gateway: Vec<IpAddr>,
    /// With --device packet, xdp or tap: the stack's Ethernet address, such as 02:00:5e:10:00:01, or
    /// `interface` to share the interface's, which Wi-Fi and most clouds need [default: one made for it]
    #[arg(long, value_name = "MAC|interface", value_parser = mac)]
    pub(crate) mac: Option<MacChoice>,
    /// The kernel's address on the device [default: the first other host of the network]
    #[arg(long, value_name = "ADDR")]
    pub(crate) peer: Option<IpAddr>,
    /// Largest IP packet in bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(68..=65_535))]
    pub(crate) mtu: Option<u32>,
    /// Exchange packets of 64 KB with the kernel
    #[arg(long, value_enum, default_value_t = Offload::Auto)]
    pub(crate) offload: Offload,
    /// Give the kernel's end of the device its address and MTU, and bring it up
    #[arg(long)]
    pub(crate) configure: bool,
    /// With --device packet: receive the frames of all stations
    #[arg(long)]
    pub(crate) promiscuous: bool,
    /// With --device packet or xdp: use the addresses at once, without asking for up to 7 s whether another
    /// station has them
    #[arg(long)]
    pub(crate) no_probe: bool,
    /// With --device raw: the TCP ports that belong to the stack; all others stay the host's [default: all
    /// belong to the stack]
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub(crate) ports: Option<RangeInclusive<u16>>,
    /// With a capture: play it as fast as the stack answers, not at the recorded times
    #[arg(long)]
    pub(crate) at_once: bool,
}

/// Whose Ethernet address the stack has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MacChoice {
    Interface,
    Given(MacAddr),
}

/// Whether packets of 64 KB are exchanged with the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Offload {
    /// If the kernel can
    #[default]
    Auto,
    /// Fail if the kernel cannot
    On,
    /// Never
    Off,
}

/// A flag that means something to some devices only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceFlag {
    Tun,
    Queues,
    Interface,
    Autoconf,
    Gateway,
    Mac,
    Peer,
    Mtu,
    OffloadOn,
    Configure,
    Promiscuous,
    NoProbe,
    Ports,
    AtOnce,
}

impl DeviceArgs {
    /// The name of the TUN device.
    pub fn tun(&self) -> &str {
        self.tun.as_deref().unwrap_or("tun0")
    }

    /// How many queues the device is to be opened with, if it is to have several.
    pub fn queues(&self) -> Option<usize> {
        self.queues.filter(|&queues| queues > 1).map(usize::from)
    }

    /// The flags that were given, as they are written.
    pub fn given(&self) -> impl Iterator<Item = (DeviceFlag, &'static str)> {
        let all = [
            (self.tun.is_some(), DeviceFlag::Tun, "--tun"),
            (self.queues.is_some(), DeviceFlag::Queues, "--queues"),
            (self.interface.is_some(), DeviceFlag::Interface, "--interface"),
            (self.autoconf, DeviceFlag::Autoconf, "--autoconf"),
            (!self.gateway.is_empty(), DeviceFlag::Gateway, "--gateway"),
            (self.mac.is_some(), DeviceFlag::Mac, "--mac"),
            (self.peer.is_some(), DeviceFlag::Peer, "--peer"),
            (self.mtu.is_some(), DeviceFlag::Mtu, "--mtu"),
            (self.offload == Offload::On, DeviceFlag::OffloadOn, "--offload on"),
            (self.configure, DeviceFlag::Configure, "--configure"),
            (self.promiscuous, DeviceFlag::Promiscuous, "--promiscuous"),
            (self.no_probe, DeviceFlag::NoProbe, "--no-probe"),
            (self.ports.is_some(), DeviceFlag::Ports, "--ports"),
            (self.at_once, DeviceFlag::AtOnce, "--at-once"),
        ];
        all.into_iter().filter(|(given, ..)| *given).map(|(_, flag, word)| (flag, word))
    }
}

impl From<Offload> for OffloadMode {
    fn from(offload: Offload) -> Self {
        match offload {
            Offload::Auto => Self::Auto,
            Offload::On => Self::On,
            Offload::Off => Self::Off,
        }
    }
}

/// The address of a host with its network's prefix, which says where the kernel is.
fn host(word: &str) -> Result<Cidr, String> {
    let cidr: Cidr = word.parse().map_err(|error| format!("{error}"))?;
    let network = cidr.network();
    if cidr.addr().is_multicast() {
        return Err(format!("{} is a group of hosts (multicast); name one host's address", cidr.addr()));
    }
    if cidr.addr().is_unspecified() {
        return Err(format!("{} means any address; name one host's", cidr.addr()));
    }
    if cidr.network_address() == Some(cidr.addr()) {
        return Err(format!("{} is the network {network} itself; name a host in it", cidr.addr()));
    }
    if cidr.broadcast() == Some(cidr.addr()) {
        return Err(format!("{} reaches all hosts of {network}; name one host in it", cidr.addr()));
    }
    Ok(cidr)
}

fn mac(word: &str) -> Result<MacChoice, String> {
    if word == "interface" {
        return Ok(MacChoice::Interface);
    }
    let mac: MacAddr = word.parse().map_err(|error| format!("{error}, or as `interface`"))?;
    if mac.is_unicast() {
        Ok(MacChoice::Given(mac))
    } else {
        Err(format!(
            "{mac} is not the address of one station; use an even first byte, as in 02:00:5e:10:00:01"
        ))
    }
}

fn ports(word: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let range = first.parse().ok().zip(last.parse().ok()).filter(|(first, last)| 0 < *first && first <= last);
    range
        .map(|(first, last)| first..=last)
        .ok_or_else(|| "write two port numbers, the lower first: 40000-40999".to_owned())
}

/// The kernel's bound for an interface.
const QUEUES_MAX: i64 = ackclock_device::QUEUES_MAX as i64;
