//! State that all connections and datagrams share.

use std::net::SocketAddr;
use std::sync::{Arc, Once};

use crate::names::{Meaning, Names};
use crate::nat::Filtering;
use crate::proxy::{Destination, Proxy};
use crate::report::Counters;
use crate::timeouts::Timeouts;

/// The gateway's settings and counters.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) proxy: Proxy,
    /// The pool of addresses that stand for names.
    pub(crate) names: Option<Names>,
    pub(crate) tcp_timeouts: Timeouts,
    pub(crate) udp_timeouts: Timeouts,
    pub(crate) filtering: Filtering,
    pub(crate) counters: Arc<Counters>,
    pub(crate) verbose: bool,
    /// Whether the warning has been given that the way to the proxy leads into the device.
    pub(crate) warned: Once,
}

impl Gateway {
    /// The destination behind an address that a client dials; `None` for an unused address of the pool.
    pub(crate) fn destination(&self, dialled: SocketAddr) -> Option<Destination> {
        match self.names.as_ref().map_or(Meaning::Itself, |names| names.meaning(dialled.ip())) {
            Meaning::Itself => Some(Destination::Addr(dialled)),
            Meaning::Name(name) => Some(Destination::Name(name, dialled.port())),
            Meaning::Nothing => None,
        }
    }

    /// Whether this is the proxy itself: a connection to it through the device is this program's own, and
    /// would loop for ever.
    pub(crate) fn is_proxy(&self, dialled: SocketAddr) -> bool {
        let looped = dialled == self.proxy.addr;
        if looped {
            let addr = self.proxy.addr;
            self.warned.call_once(|| {
                eprintln!(
                    "the route to the proxy {addr} leads into the device: give --configure, or run \
                     `ip route add {} via GATEWAY`",
                    addr.ip()
                );
            });
        }
        looped
    }

    /// Prints what became of something, if the user asked for it.
    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{}", what());
        }
    }
}
