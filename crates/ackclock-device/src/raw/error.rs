//! Why a raw device cannot be opened, in messages that name the command that fixes it.

use std::io;
use std::net::IpAddr;

use super::filter::ADDRESSES_MAX;

/// Why a raw device could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// No address, or too many.
    #[error("a raw device takes 1 to {ADDRESSES_MAX} addresses of this host; {count} were given")]
    Addresses {
        /// The number of addresses.
        count: usize,
    },
    /// The range of ports is empty or contains port 0.
    #[error("a raw device takes ports from 1 to 65535, the lowest first, as in 40000-40999")]
    Ports,
    /// The host does not have the address, so packets to it would not arrive.
    #[error(
        "{addr} is not an address of this host: sudo ip route add local {addr} dev lo \
         (and the network has to route it here), or give one that the host has"
    )]
    NotLocal {
        /// The address.
        addr: IpAddr,
    },
    /// The kernel's sockets use what the device would take over.
    #[error(
        "a socket of this host uses {addr} port {port}, which the device would cut off: \
         give it an address of its own, or other ports (ss -tuan shows who uses them)"
    )]
    InUse {
        /// The address; unspecified for a socket that listens on all.
        addr: IpAddr,
        /// The port.
        port: u16,
    },
    /// Another raw device of this program takes what this one would.
    #[error(
        "another raw device of this program has {addr} with some of these ports: give each device other \
         ports, or an address of its own"
    )]
    Taken {
        /// The address.
        addr: IpAddr,
    },
    /// The interface does not exist.
    #[error("there is no interface {name} in this network namespace: ip link lists the interfaces")]
    NoInterface {
        /// Its name.
        name: String,
    },
    /// The process may not open raw and packet sockets.
    #[error(
        "raw and packet sockets take CAP_NET_RAW: sudo setcap cap_net_raw,cap_net_admin+ep PROGRAM, or run \
         as root"
    )]
    Forbidden(#[source] io::Error),
    /// The kernel cannot be kept from resetting the stack's connections.
    #[error(
        "the kernel would reset every connection, and the rule against that is refused ({source}): {command}"
    )]
    Resets {
        /// The command that sets the rule.
        command: String,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no tokio runtime for waiting on packets.
    #[error("a raw device must be opened inside a tokio runtime whose I/O driver is enabled")]
    NoRuntime,
    /// Anything else.
    #[error("a raw device cannot be opened: {doing}: {source}")]
    Other {
        /// The step that failed.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl RawError {
    pub(super) fn from_io(doing: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Forbidden(source),
            _ => Self::Other { doing, source },
        }
    }
}
