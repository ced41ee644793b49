//! Checks whether a device can work here at all, by asking the kernel without the device's own code.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use socket2::{Domain, Protocol, Socket, Type};

use crate::netns::{Namespace, in_namespaces};

/// A device that a kernel or a container may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// `/dev/net/tun`, as a TUN device.
    Tun,
    /// `/dev/net/tun`, as a TAP device.
    Tap,
    /// Packet sockets.
    Packet,
    /// Raw sockets, packet sockets and netfilter.
    Raw,
    /// Sockets of AF_XDP, and the right to a program on an interface.
    Xdp,
}

impl Needs {
    /// The device's name on tcpcat's command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tun => "tun",
            Self::Tap => "tap",
            Self::Packet => "packet",
            Self::Raw => "raw",
            Self::Xdp => "xdp",
        }
    }

    /// Whether the device can work here. If not, one line per device and test program says
    /// `skipped: which: why`; `.ci/run` accepts that line only where its own check finds the same.
    ///
    /// # Panics
    /// Standard error is closed.
    #[must_use]
    pub fn met(self) -> bool {
        static TOLD: Mutex<BTreeSet<Needs>> = Mutex::new(BTreeSet::new());
        let Err(why) = self.probe() else { return true };
        if TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(self) {
            // Not `eprintln!`: the test harness hides its output when a test passes.
            writeln!(io::stderr(), "skipped: {}: {why}", self.word()).expect("standard error is open");
        }
        false
    }

    fn probe(self) -> Result<(), String> {
        let open = |domain, kind, protocol: libc::c_int, what: &str| match Socket::new(
            Domain::from(domain),
            kind,
            Some(Protocol::from(protocol)),
        ) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{what}: {error}")),
        };
        let packet = || open(libc::AF_PACKET, Type::RAW, 0, "a packet socket");
        match self {
            Self::Tun | Self::Tap => {
                let opened = File::options().read(true).write(true).open(TUN);
                opened.map(drop).map_err(|error| format!("{TUN}: {error}"))
            }
            Self::Packet => packet(),
            Self::Xdp => open(libc::AF_XDP, Type::RAW, 0, "a socket of AF_XDP").and_then(|()| may_load()),
            Self::Raw => packet()
                .and_then(|()| open(libc::AF_INET, Type::RAW, libc::IPPROTO_TCP, "a raw socket"))
                .and_then(|()| open(libc::AF_NETLINK, Type::RAW, libc::NETLINK_NETFILTER, "netfilter")),
        }
    }
}

/// Whether this process may load a program: the kernel asks for rights outside every user namespace.
fn may_load() -> Result<(), String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    if read("/proc/self/uid_map")?.split_whitespace().ne(["0", "0", "4294967295"]) {
        return Err("programs for AF_XDP cannot be loaded in a user namespace".to_owned());
    }
    let status = read("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or_default();
    let has = |right: u32| rights >> right & 1 == 1;
    if has(CAP_NET_ADMIN) && (has(CAP_BPF) || has(CAP_SYS_ADMIN)) {
        return Ok(());
    }
    Err("loading a program for AF_XDP takes CAP_NET_ADMIN and CAP_BPF".to_owned())
}

// include/uapi/linux/capability.h
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

/// Runs a test in `N` namespaces that are not joined yet, unless a device that it needs cannot work in them.
pub fn in_namespaces_with<const N: usize>(needs: Needs, test: impl FnOnce([Namespace; N])) {
    in_namespaces(|namespaces: [Namespace; N]| {
        // A user who may not open such a socket outside may be able to in their own namespace.
        if namespaces.first().is_none_or(|first| first.run(async move { needs.met() })) {
            test(namespaces);
        }
    });
}

const TUN: &str = "/dev/net/tun";
