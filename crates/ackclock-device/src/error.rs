//! Device errors, in messages that name the cause and the command that fixes it.

use std::io;

#[cfg(feature = "os")]
use crate::configure::{LinkKind, TunTap, link_kind};
#[cfg(feature = "os")]
use crate::holder;

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The name is empty.
    #[error("the device name is empty; give one such as tun0")]
    NameEmpty,
    /// The name exceeds the limit for interface names.
    #[error("the device name {name:?} has {} bytes; an interface name has at most {NAME_MAX}", name.len())]
    NameTooLong {
        /// The name given.
        name: String,
    },
    /// The name has a character that interface names must not have, or is `.` or `..`.
    #[error(
        "the device name {name:?} is not an interface name: no spaces, no '/', ':' or '%', not '.' or '..'"
    )]
    NameInvalid {
        /// The name given.
        name: String,
    },
    /// `/dev/net/tun` does not exist.
    #[error(
        "there is no {TUN_PATH}: load the driver (modprobe tun) or, in a container, pass the device in \
         (docker run --device {TUN_PATH} --cap-add NET_ADMIN)"
    )]
    NoTun(#[source] io::Error),
    /// This user may not open `/dev/net/tun`.
    #[error(
        "{TUN_PATH} may not be opened by this user: sudo chmod 0666 {TUN_PATH} (its usual mode; making a \
         device stays privileged)"
    )]
    TunForbidden(#[source] io::Error),
    /// The interface belongs to another user, or creating one needs a privilege.
    #[error(
        "attaching to {name} is not permitted: it takes CAP_NET_ADMIN, or a device of your own: sudo ip \
         tuntap add dev {name} {arguments} user $USER (if {name} exists already: sudo ip link del {name} first)"
    )]
    NotPermitted {
        /// The interface.
        name: String,
        /// The arguments of `ip tuntap add` that make such a device.
        arguments: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// Another process is attached, and was for 100 ms.
    #[error("{name} is in use by {holder}: end it or use another device")]
    Busy {
        /// The interface.
        name: String,
        /// The process that holds it, if visible.
        holder: String,
        /// The system's answer.
        source: io::Error,
    },
    /// An interface with this name exists and is something else.
    #[error("{name} is {found}, not {wanted}: {advice}")]
    WrongKind {
        /// The interface.
        name: String,
        /// The kind that was to be opened.
        wanted: String,
        /// Its kind.
        found: String,
        /// The remedy. Only a TUN or TAP device is ever to be deleted.
        advice: String,
        /// The system's answer.
        source: io::Error,
    },
    /// An interface cannot have this many queues.
    #[error("{name} cannot be opened with {queues} queues: 1 to {QUEUES_MAX} are possible")]
    QueueCount {
        /// The interface.
        name: String,
        /// The number requested.
        queues: usize,
    },
    /// Packet sockets on the interface cannot share its flows.
    #[error(
        "{name} cannot be opened with several queues ({source}): bring it up first (sudo ip link set {name} \
         up), or open it with one"
    )]
    FanOut {
        /// The interface.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no interface with this name.
    #[error("there is no interface {name} in this network namespace: ip link lists the interfaces")]
    NoInterface {
        /// The name given.
        name: String,
    },
    /// The interface does not carry Ethernet frames.
    #[error(
        "{name} carries no Ethernet frames (hardware type {hardware} of <linux/if_arp.h>); a packet device \
         needs an Ethernet interface such as eth0, or one end of a veth pair"
    )]
    NotEthernet {
        /// The interface.
        name: String,
        /// Its hardware type.
        hardware: u16,
    },
    /// The Ethernet address is not that of a single station.
    #[error(
        "{mac} is the address of a group or of no station; give one station's, such as 02:00:5e:10:00:01"
    )]
    MacNotUnicast {
        /// The address given.
        mac: ackclock_link::MacAddr,
    },
    /// This user may not open packet sockets.
    #[error(
        "a packet socket on {name} takes CAP_NET_RAW: run as root, or once: sudo setcap cap_net_raw+ep \
         PROGRAM"
    )]
    PacketForbidden {
        /// The interface.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Offload is required and not available.
    #[error("{name} cannot do segmentation offload: {reason}; use --offload auto or off")]
    OffloadUnsupported {
        /// The interface.
        name: String,
        /// The missing part.
        reason: String,
    },
    /// AF_XDP is required and refused.
    #[cfg(feature = "xdp")]
    #[error("{name} cannot be used by AF_XDP: {reason}; or use a packet device")]
    XdpUnavailable {
        /// The interface.
        name: String,
        /// The kernel's refusal, and the remedy.
        reason: String,
    },
    /// The limit of open files is reached, for the process or the system.
    #[error(
        "{name} cannot be opened: {source}; raise the limit before the program starts (ulimit -n 4096, or \
         LimitNOFILE= of its systemd unit)"
    )]
    NoDescriptor {
        /// The interface.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no tokio runtime for waiting on the device.
    #[error("a TUN device must be opened inside a tokio runtime whose I/O driver is enabled")]
    NoRuntime,
    /// Anything else.
    #[error("{name} cannot be opened: {source}")]
    Other {
        /// The interface.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
}

#[cfg(feature = "os")]
impl OpenError {
    /// The error for opening `/dev/net/tun` or attaching it to the interface `name`, which was `wanted` to be
    /// of this kind.
    pub(crate) fn from_io(name: &str, wanted: TunTap, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Self::NoTun(source),
            Some(libc::EACCES) => Self::TunForbidden(source),
            Some(libc::EPERM) => {
                Self::NotPermitted { name: name.to_owned(), arguments: wanted.arguments(), source }
            }
            Some(libc::EBUSY) => Self::Busy { holder: holder::describe(name), name: name.to_owned(), source },
            Some(libc::EINVAL) => match link_kind(name) {
                Ok(found) if found != LinkKind::TunTap(wanted) => {
                    Self::wrong_kind(name, wanted, &found, source)
                }
                _ => Self::other(name, source),
            },
            _ => Self::other(name, source),
        }
    }

    fn wrong_kind(name: &str, wanted: TunTap, found: &LinkKind, source: io::Error) -> Self {
        let advice = match found {
            LinkKind::TunTap(_) => format!(
                "use another name, or sudo ip link del {name} && sudo ip tuntap add dev {name} {} user $USER",
                wanted.arguments()
            ),
            _ => "use a name that no interface has (see ip link), or open it as a packet device".to_owned(),
        };
        let (wanted, found) = (wanted.to_string(), found.to_string());
        Self::WrongKind { name: name.to_owned(), wanted, found, advice, source }
    }

    /// An error that does not depend on the interface.
    pub(crate) fn other(name: &str, source: io::Error) -> Self {
        let name = name.to_owned();
        match source.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => Self::NoDescriptor { name, source },
            _ => Self::Other { name, source },
        }
    }

    /// The error for opening a packet socket on the interface `name`.
    pub(crate) fn from_packet(name: &str, source: io::Error) -> Self {
        let name = name.to_owned();
        match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => Self::NoInterface { name },
            Some(libc::EPERM | libc::EACCES) => Self::PacketForbidden { name, source },
            _ => Self::other(&name, source),
        }
    }
}

/// Explains an error of the open device `name`, and how to fix it.
///
/// ```
/// let error = std::io::Error::from_raw_os_error(5);
/// assert!(ackclock_device::explain(&error, "tun0").contains("ip link set tun0 up"));
/// ```
#[cfg(feature = "os")]
#[must_use]
pub fn explain(error: &io::Error, name: &str) -> String {
    match error.raw_os_error() {
        Some(libc::EIO) => format!("{name} is down: sudo ip link set {name} up"),
        Some(libc::EBADFD | libc::ENODEV | libc::ENXIO) => {
            format!("{name} was deleted while it was in use: make it again and restart the program")
        }
        Some(libc::EBADF) => format!("the descriptor of {name} was closed by someone else in this process"),
        Some(libc::ENOBUFS | libc::ENOMEM | libc::EAGAIN) => {
            format!("the kernel has no memory for more packets of {name}: send less at once")
        }
        Some(libc::EINVAL) => format!("{name} refused a packet that is neither IPv4 nor IPv6"),
        _ => format!("{name} failed: {error}"),
    }
}

/// Whether this error ends the device, instead of affecting one packet.
#[cfg(feature = "os")]
pub(crate) fn is_fatal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADFD | libc::EBADF | libc::ENODEV | libc::ENXIO))
}

/// Checks an interface name first, because the kernel would truncate a long one silently.
#[cfg(feature = "os")]
pub(crate) fn check_name(name: &str) -> Result<(), OpenError> {
    let forbidden = |c: char| matches!(c, '/' | ':' | '%') || c.is_whitespace() || c.is_control();
    if name.is_empty() {
        Err(OpenError::NameEmpty)
    } else if name.len() > NAME_MAX {
        Err(OpenError::NameTooLong { name: name.to_owned() })
    } else if name == "." || name == ".." || name.contains(forbidden) {
        Err(OpenError::NameInvalid { name: name.to_owned() })
    } else {
        Ok(())
    }
}

/// The longest interface name in bytes: `IFNAMSIZ` minus the trailing zero.
pub const NAME_MAX: usize = 15;

/// The path of the kernel's TUN driver.
pub(crate) const TUN_PATH: &str = "/dev/net/tun";

/// The most queues of one interface: Linux's limit (`MAX_TAP_QUEUES`).
pub const QUEUES_MAX: usize = 256;

#[cfg(all(test, feature = "os"))]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_interface_names_are_refused() {
        assert!(matches!(check_name(""), Err(OpenError::NameEmpty)));
        assert!(matches!(check_name("a-name-of-16-byt"), Err(OpenError::NameTooLong { .. })));
        for name in [".", "..", "a/b", "a b", "a:1", "tun%d", "a\n", "a\0"] {
            assert!(matches!(check_name(name), Err(OpenError::NameInvalid { .. })), "{name:?}");
        }
    }

    #[test]
    fn names_up_to_fifteen_bytes_are_accepted() {
        for name in ["t", "tun0", "fifteen-bytes-x", "tun.7", "tün0"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn each_system_error_has_its_own_advice() {
        let opened = |name, wanted, code| {
            OpenError::from_io(name, wanted, io::Error::from_raw_os_error(code)).to_string()
        };
        let message = |code| opened("tun7", TunTap::TUN, code);
        assert!(message(libc::ENOENT).contains("modprobe tun"));
        assert!(message(libc::EACCES).contains("chmod"));
        assert!(message(libc::EPERM).contains("ip tuntap add dev tun7 mode tun user"));
        assert!(message(libc::EBUSY).contains("in use by"));
        assert!(message(libc::EINVAL).contains("nvalid argument"));
        for code in [libc::EMFILE, libc::ENFILE] {
            assert!(message(code).contains("oo many open files") && message(code).contains("ulimit -n"));
        }
        let tap = opened("tap7", TunTap::TAP, libc::EPERM);
        assert!(tap.contains("ip tuntap add dev tap7 mode tap user"), "{tap}");
        let loopback = opened("lo", TunTap::TUN, libc::EINVAL);
        assert!(
            loopback.starts_with("lo is a network interface of this machine, not a TUN device"),
            "{loopback}"
        );
        assert!(!loopback.contains("ip link del"), "{loopback}");
        let packet = |code| OpenError::from_packet("eth7", io::Error::from_raw_os_error(code)).to_string();
        assert!(packet(libc::EPERM).contains("CAP_NET_RAW"));
        assert!(packet(libc::ENODEV).contains("no interface eth7"));
    }

    #[test]
    fn only_a_lost_device_is_fatal() {
        let fatal = |code| is_fatal(&io::Error::from_raw_os_error(code));
        assert!(fatal(libc::EBADFD) && fatal(libc::ENODEV));
        assert!(!fatal(libc::EIO) && !fatal(libc::ENOBUFS) && !fatal(libc::EINVAL) && !fatal(libc::EAGAIN));
    }
}
