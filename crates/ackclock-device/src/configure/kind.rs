//! The kind of an interface, for messages: whether its name can be a TUN device's.

use std::fmt;
use std::io;

use super::netlink::{Request, attribute};
use super::{link_header, link_index};

/// The kind of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkKind {
    /// Made by the TUN driver.
    TunTap(TunTap),
    /// Another virtual interface, by the word of `ip link add type`: `veth`, `bridge`, `wireguard`.
    Virtual(String),
    /// A network card, or loopback: an interface without such a word.
    Host,
}

/// A kind of device that the TUN driver makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TunTap {
    tap: bool,
    multi_queue: bool,
}

impl TunTap {
    pub const TUN: Self = Self { tap: false, multi_queue: false };
    /// One of the queues of a TUN device.
    pub const TUN_QUEUE: Self = Self { tap: false, multi_queue: true };
    pub const TAP: Self = Self { tap: true, multi_queue: false };

    /// Its bits of `ifr_flags`.
    pub fn flags(self) -> libc::c_int {
        let queues = if self.multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
        queues | if self.tap { libc::IFF_TAP } else { libc::IFF_TUN }
    }

    /// The arguments of `ip tuntap add` that make one.
    pub fn arguments(self) -> &'static str {
        match (self.tap, self.multi_queue) {
            (false, false) => "mode tun",
            (false, true) => "mode tun multi_queue",
            (true, false) => "mode tap",
            (true, true) => "mode tap multi_queue",
        }
    }
}

impl LinkKind {
    /// Reads the attribute `IFLA_LINKINFO` of an interface; cards have none.
    fn read(info: Option<&[u8]>) -> Self {
        let Some(word) = info.and_then(|info| attribute(info, libc::IFLA_INFO_KIND)) else {
            return Self::Host;
        };
        let word = String::from_utf8_lossy(word).trim_end_matches('\0').to_owned();
        let data = info.and_then(|info| attribute(info, libc::IFLA_INFO_DATA)).unwrap_or_default();
        let number = |kind| attribute(data, kind).and_then(|value| value.first().copied());
        if word == "tun" {
            let tap = number(IFLA_TUN_TYPE) == Some(TYPE_TAP);
            Self::TunTap(TunTap { tap, multi_queue: number(IFLA_TUN_MULTI_QUEUE) == Some(1) })
        } else {
            Self::Virtual(word)
        }
    }
}

impl fmt::Display for TunTap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = if self.multi_queue { "several queues" } else { "one queue" };
        write!(f, "a {} device with {queues}", if self.tap { "TAP" } else { "TUN" })
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TunTap(made) => made.fmt(f),
            Self::Virtual(word) => write!(f, "an interface of type {word}"),
            Self::Host => f.write_str("a network interface of this machine"),
        }
    }
}

/// Asks the kernel what the interface `name` is.
pub(crate) fn link_kind(name: &str) -> io::Result<LinkKind> {
    let index = link_index(name).map_err(io::Error::other)?;
    let link = Request::new(libc::RTM_GETLINK, 0, &link_header(index, 0, 0)).ask()?;
    // `struct ifinfomsg` has 16 bytes.
    let attributes = link.get(16..).unwrap_or_default();
    Ok(LinkKind::read(attribute(attributes, libc::IFLA_LINKINFO)))
}

// Linux `include/uapi/linux/if_link.h` and `if_tun.h`.
const IFLA_TUN_TYPE: u16 = 3;
const IFLA_TUN_MULTI_QUEUE: u16 = 7;
const TYPE_TAP: u8 = 2;

#[cfg(test)]
mod tests {
    use super::super::netlink::append;
    use super::*;

    fn info(word: &str, data: &[(u16, u8)]) -> Vec<u8> {
        let mut inner = Vec::new();
        data.iter().for_each(|(kind, value)| append(&mut inner, *kind, &[*value]));
        let mut info = Vec::new();
        append(&mut info, libc::IFLA_INFO_KIND, format!("{word}\0").as_bytes());
        append(&mut info, libc::IFLA_INFO_DATA, &inner);
        info
    }

    #[test]
    fn the_type_and_the_queues_of_a_tun_device_are_read() {
        let of = |kind, queues| {
            LinkKind::read(Some(&info("tun", &[(IFLA_TUN_TYPE, kind), (IFLA_TUN_MULTI_QUEUE, queues)])))
        };
        assert_eq!(of(1, 0), LinkKind::TunTap(TunTap::TUN));
        assert_eq!(of(1, 1), LinkKind::TunTap(TunTap::TUN_QUEUE));
        assert_eq!(of(TYPE_TAP, 0), LinkKind::TunTap(TunTap::TAP));
    }

    #[test]
    fn all_else_is_what_it_says() {
        assert_eq!(LinkKind::read(None), LinkKind::Host);
        assert_eq!(LinkKind::read(Some(&info("veth", &[]))), LinkKind::Virtual("veth".into()));
        // A length beyond the end.
        assert_eq!(LinkKind::read(Some(&[255, 0, 1, 0, b't'])), LinkKind::Host);
    }
}
