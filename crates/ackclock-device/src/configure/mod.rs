//! The kernel's end of a TUN device: address, MTU, routes, up and down. It needs no external program.
//!
//! Everything here takes `CAP_NET_ADMIN` in the network namespace of the calling thread. Something that
//! exists already is not an error, so a command can be repeated.

mod kernel_end;
mod kind;
mod netlink;

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use crate::sys;
use netlink::Request;

pub use self::kernel_end::{Configure, configure, kernel_address};
pub(crate) use self::kind::{LinkKind, TunTap, link_kind};
pub use crate::addresses::kernel_has;
pub use ackclock_wire::{Cidr, CidrError};

/// Gives the kernel's end of the interface `name` an address.
///
/// The kernel takes a few milliseconds before it receives packets for a new IPv6 address.
///
/// # Errors
/// See [`ConfigureError`].
pub fn add_address(name: &str, local: Cidr, peer: Option<IpAddr>) -> Result<(), ConfigureError> {
    let peer_text = peer.map_or(String::new(), |peer| format!(" peer {peer}/{}", local.prefix_len()));
    let local_text = if peer.is_some() { local.addr().to_string() } else { local.to_string() };
    let command = format!("ip addr add {local_text}{peer_text} dev {name}");
    if peer.is_some_and(|peer| peer.is_ipv4() != local.addr().is_ipv4()) {
        return Err(ConfigureError::Families { command });
    }
    let index = link_index(name)?;
    let mut fixed =
        [family(local.addr()), local.prefix_len(), ADDRESS_FLAGS, libc::RT_SCOPE_UNIVERSE, 0, 0, 0, 0];
    fixed[4..].copy_from_slice(&index.to_ne_bytes());
    let request = Request::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &fixed)
        .attribute(libc::IFA_LOCAL, &octets(local.addr()))
        .attribute(libc::IFA_ADDRESS, &octets(peer.unwrap_or(local.addr())));
    finish(request, name, command)
}

/// Sets the MTU of the interface `name`. Below 1,280 bytes, IPv6 stops on it.
///
/// # Errors
/// See [`ConfigureError`].
pub fn set_mtu(name: &str, mtu: u32) -> Result<(), ConfigureError> {
    let request = Request::new(libc::RTM_NEWLINK, 0, &link_header(link_index(name)?, 0, 0))
        .attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
    finish(request, name, format!("ip link set {name} mtu {mtu}"))
}

/// Lets at least `packets` wait for the stack on the interface `name`.
///
/// TUN's own 500 are five milliseconds of a flood of 100,000 packets a second. When the stack's thread does
/// not run for that long, the kernel drops what comes next, from any sender: a lost SYN costs its sender a
/// second.
///
/// # Errors
/// See [`ConfigureError`].
pub fn set_queue_len_min(name: &str, packets: u32) -> Result<(), ConfigureError> {
    let command = format!("ip link set {name} txqueuelen {packets}");
    let len = sys::control_socket()
        .and_then(|socket| sys::interface_queue_len(socket.as_fd(), name))
        .map_err(|error| ConfigureError::from_io(name, command.clone(), error))?;
    if u32::try_from(len).is_ok_and(|len| len >= packets) {
        return Ok(());
    }
    let request = Request::new(libc::RTM_NEWLINK, 0, &link_header(link_index(name)?, 0, 0))
        .attribute(libc::IFLA_TXQLEN, &packets.to_ne_bytes());
    finish(request, name, command)
}

/// Brings the interface `name` up or takes it down.
///
/// # Errors
/// See [`ConfigureError`].
pub fn set_up(name: &str, up: bool) -> Result<(), ConfigureError> {
    let flag = libc::IFF_UP as u32; // 1
    let header = link_header(link_index(name)?, if up { flag } else { 0 }, flag);
    let state = if up { "up" } else { "down" };
    finish(Request::new(libc::RTM_NEWLINK, 0, &header), name, format!("ip link set {name} {state}"))
}

/// Routes `destination` through the interface `name`.
///
/// # Errors
/// See [`ConfigureError`].
pub fn add_route(name: &str, destination: Cidr) -> Result<(), ConfigureError> {
    let command = format!("ip route add {} dev {name}", destination.network());
    finish(route(name, destination)?, name, command)
}

/// Routes `destination` through the interface `name`. The kernel's TCP uses the congestion controller
/// `controller` on connections that it opens or accepts over this route, except on sockets that choose one
/// themselves.
///
/// # Errors
/// See [`ConfigureError`]; also if the kernel lacks the controller.
pub fn add_controlled_route(name: &str, destination: Cidr, controller: &str) -> Result<(), ConfigureError> {
    let command = format!("ip route add {} dev {name} congctl {controller}", destination.network());
    let text = controller_text(controller, &command)?;
    finish(route(name, destination)?.nested(libc::RTA_METRICS, &[(RTAX_CC_ALGO, &text)]), name, command)
}

/// Makes `addr` an address of this host without giving it to an interface: packets to it end here. If
/// `controller` is given, the kernel's TCP uses that congestion controller on connections to it.
///
/// # Errors
/// See [`ConfigureError`]; also if the kernel lacks the controller.
pub fn add_local_route(addr: IpAddr, controller: Option<&str>) -> Result<(), ConfigureError> {
    let named = controller.map_or(String::new(), |name| format!(" congctl {name}"));
    let command = format!("ip route add local {addr} dev {LOOPBACK}{named}");
    let len = if addr.is_ipv4() { 32 } else { 128 };
    let kind = [0, libc::RT_TABLE_LOCAL, libc::RTPROT_STATIC, libc::RT_SCOPE_HOST, libc::RTN_LOCAL];
    let mut fixed = [family(addr), len, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    fixed[3..8].copy_from_slice(&kind);
    let mut request = Request::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &fixed)
        .attribute(libc::RTA_DST, &octets(addr))
        .attribute(libc::RTA_OIF, &link_index(LOOPBACK)?.to_ne_bytes());
    if let Some(name) = controller {
        request = request.nested(libc::RTA_METRICS, &[(RTAX_CC_ALGO, &controller_text(name, &command)?)]);
    }
    finish(request, LOOPBACK, command)
}

/// Makes a veth pair: two Ethernet interfaces joined by a cable, both down.
///
/// # Errors
/// See [`ConfigureError`]; also if the kernel lacks the driver (`modprobe veth`).
pub fn add_veth(name: &str, peer: &str) -> Result<(), ConfigureError> {
    let command = format!("ip link add {name} type veth peer name {peer}");
    let text = |name: &str| -> Vec<u8> { name.bytes().chain([0]).collect() };
    let mut other = link_header(0, 0, 0).to_vec();
    netlink::append(&mut other, libc::IFLA_IFNAME, &text(peer));
    let mut data = Vec::new();
    netlink::append(&mut data, VETH_INFO_PEER, &other);
    let request =
        Request::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &link_header(0, 0, 0))
            .attribute(libc::IFLA_IFNAME, &text(name))
            .nested(libc::IFLA_LINKINFO, &[(libc::IFLA_INFO_KIND, b"veth"), (libc::IFLA_INFO_DATA, &data)]);
    finish(request, name, command)
}

/// The name of a congestion controller in the kernel's form, with a trailing zero.
fn controller_text(controller: &str, command: &str) -> Result<Vec<u8>, ConfigureError> {
    if controller.len() > CONTROLLER_NAME_MAX {
        let command = command.to_owned();
        return Err(ConfigureError::Refused { command, source: io::ErrorKind::InvalidInput.into() });
    }
    Ok(controller.bytes().chain([0]).collect())
}

fn route(name: &str, destination: Cidr) -> Result<Request, ConfigureError> {
    let network = destination.network();
    let fixed = [
        family(network.addr()),
        network.prefix_len(),
        0, // no source prefix
        0, // no type of service
        libc::RT_TABLE_MAIN,
        libc::RTPROT_STATIC,
        libc::RT_SCOPE_LINK,
        libc::RTN_UNICAST,
        0,
        0,
        0,
        0,
    ];
    Ok(Request::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &fixed)
        .attribute(libc::RTA_DST, &octets(network.addr()))
        .attribute(libc::RTA_OIF, &link_index(name)?.to_ne_bytes()))
}

/// Whether packets to `addr` end at this host, because it has the address or a route of type `local`.
pub(crate) fn is_local(addr: IpAddr) -> io::Result<bool> {
    let len = if addr.is_ipv4() { 32 } else { 128 };
    let fixed = [family(addr), len, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let answer = Request::new(libc::RTM_GETROUTE, 0, &fixed).attribute(libc::RTA_DST, &octets(addr)).ask();
    match answer {
        // `struct rtmsg`: the type is after seven bytes.
        Ok(route) => Ok(route.get(7) == Some(&libc::RTN_LOCAL)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => {
            Ok(false)
        }
        // A route of type `unreachable`, `blackhole` or `prohibit`.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Deletes the interface `name`.
///
/// # Errors
/// See [`ConfigureError`].
pub fn delete(name: &str) -> Result<(), ConfigureError> {
    let header = link_header(link_index(name)?, 0, 0);
    finish(Request::new(libc::RTM_DELLINK, 0, &header), name, format!("ip link del {name}"))
}

/// The kernel's view of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
}

/// Queries the interface `name`.
///
/// # Errors
/// It does not exist, or the system has no socket left.
pub fn link_state(name: &str) -> Result<LinkState, ConfigureError> {
    let command = format!("ip link show {name}");
    let asked = || {
        let socket = sys::control_socket()?;
        let mtu = sys::interface_mtu(socket.as_fd(), name)?;
        let flags = sys::interface_flags(socket.as_fd(), name)?;
        let mtu = u32::try_from(mtu).map_err(io::Error::other)?;
        Ok(LinkState { mtu, up: flags & libc::IFF_UP != 0 })
    };
    asked().map_err(|error| ConfigureError::from_io(name, command, error))
}

/// Why the kernel's end of a device could not be configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigureError {
    /// The interface does not exist.
    #[error("there is no interface {name} in this network namespace: sudo ip tuntap add dev {name} mode tun")]
    NoInterface {
        /// Its name.
        name: String,
    },
    /// This process lacks the privilege.
    #[error("configuring {name} takes CAP_NET_ADMIN; run this instead: sudo {command}")]
    NotPermitted {
        /// The interface.
        name: String,
        /// The command that does the same.
        command: String,
    },
    /// The two addresses are not both IPv4 or both IPv6.
    #[error("an address and its peer must both be IPv4 or both be IPv6: {command}")]
    Families {
        /// The equivalent command.
        command: String,
    },
    /// The kernel was to get an address of the stack.
    #[error(
        "{addr} is the stack's own address, and the kernel would answer in its place: give the kernel's end \
         another address of that network (`Configure::address`)"
    )]
    StackAddress {
        /// The address.
        addr: IpAddr,
    },
    /// The kernel has an address of the stack already.
    #[error(
        "{addr} is an address of this machine's kernel, which would answer in the stack's place: choose \
         another address for the stack, or take it from the kernel (sudo ip addr del {addr} dev NAME)"
    )]
    KernelHas {
        /// The address.
        addr: IpAddr,
    },
    /// The stack's network has no second address.
    #[error(
        "the network {network} has no other address for the kernel: choose one with `Configure::address`"
    )]
    NoRoom {
        /// The stack's network.
        network: Cidr,
    },
    /// The limit of open files is reached, for the process or the system.
    #[error(
        "`{command}` cannot be asked of the kernel: {source}; raise the limit before the program starts \
         (ulimit -n 4096, or LimitNOFILE= of its systemd unit)"
    )]
    NoDescriptor {
        /// The command that does the same.
        command: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Anything else.
    #[error("the kernel refuses `{command}`: {source}")]
    Refused {
        /// The command that does the same.
        command: String,
        /// Its answer.
        source: io::Error,
    },
}

impl ConfigureError {
    fn from_io(name: &str, command: String, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => Self::NoInterface { name: name.to_owned() },
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { name: name.to_owned(), command },
            Some(libc::EMFILE | libc::ENFILE) => Self::NoDescriptor { command, source },
            _ => Self::Refused { command, source },
        }
    }
}

fn link_index(name: &str) -> Result<i32, ConfigureError> {
    sys::control_socket()
        .and_then(|socket| sys::interface_index(socket.as_fd(), name))
        .map_err(|error| ConfigureError::from_io(name, format!("ip link show {name}"), error))
}

fn finish(request: Request, name: &str, command: String) -> Result<(), ConfigureError> {
    match request.send() {
        Err(error) if error.raw_os_error() != Some(libc::EEXIST) => {
            Err(ConfigureError::from_io(name, command, error))
        }
        _ => Ok(()),
    }
}

/// `struct ifinfomsg`: family and type unspecified, the interface, the flags, and which of them to change.
fn link_header(index: i32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&change.to_ne_bytes());
    header
}

fn family(addr: IpAddr) -> u8 {
    let family = if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    family as u8 // 2 or 10
}

fn octets(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    }
}

/// The congestion controller among a route's metrics: `include/uapi/linux/rtnetlink.h`.
const RTAX_CC_ALGO: libc::c_ushort = 16;

/// The other end among a veth interface's data: `include/uapi/linux/veth.h`.
const VETH_INFO_PEER: libc::c_ushort = 1;

const LOOPBACK: &str = "lo";

/// The longest name of a controller without its trailing zero: `TCP_CA_NAME_MAX` of `include/net/tcp.h`.
const CONTROLLER_NAME_MAX: usize = 15;

/// A link to a single peer has no duplicate addresses. Without this flag an IPv6 address is unusable for the
/// first second or two.
const ADDRESS_FLAGS: u8 = libc::IFA_F_NODAD as u8;
