//! `--configure`: the rules and routes that lead a host's traffic into the device, and the gateway's own past
//! it.
//!
//! The routes into the device are in a table of their own, which rules of the kernel ask, in this order:
//!
//! 1. Sockets with the gateway's mark ask the main table (`--bypass mark`).
//! 2. Queries of DNS go into the device, even those for a name server of the local network (`--names`).
//! 3. The main table, but not its default route: the local networks stay reachable.
//! 4. The gateway's table: everything else. Networks of `--exclude` go on to the main table's default route.

use std::net::IpAddr;
use std::process::Command;

use ackclock::Cidr;

use crate::undo::{ChangeError, Changes};

/// The configuration to make.
#[derive(Debug)]
pub(crate) struct Routing<'a> {
    pub(crate) device: &'a str,
    /// Where the gateway's own sockets go.
    pub(crate) proxy: IpAddr,
    /// Their mark; `None` if something else keeps them out of the device.
    pub(crate) mark: Option<u32>,
    /// Whether the proxy gets a route of its own, past the device.
    pub(crate) route_to_proxy: bool,
    /// Networks that go into the device.
    pub(crate) into: &'a [Cidr],
    /// Networks that do not.
    pub(crate) excluded: &'a [Cidr],
    /// Whether queries of DNS go into the device, wherever they are sent to.
    pub(crate) captures_dns: bool,
}

impl Routing<'_> {
    /// Configures the host. The device is up.
    pub(crate) fn set(&self, changes: &mut Changes) -> Result<(), ChangeError> {
        if self.route_to_proxy {
            self.route_proxy(changes)?;
        }
        for family in [4, 6] {
            if self.into.iter().any(|network| family_of(network.addr()) == family) {
                self.set_family(family, changes)?;
            }
        }
        Ok(())
    }

    fn set_family(&self, family: u8, changes: &mut Changes) -> Result<(), ChangeError> {
        let of_family = |networks: &[Cidr]| -> Vec<Cidr> {
            networks.iter().copied().filter(|network| family_of(network.addr()) == family).collect()
        };
        // The routes go with the device; those that lead past it do not.
        for network in of_family(self.into) {
            let route = format!("{} table {TABLE}", network.network());
            changes.ip(
                &format!("-{family} route add {route} dev {}", self.device),
                &format!("-{family} route del {route}"),
            )?;
        }
        for network in of_family(self.excluded) {
            let route = format!("throw {} table {TABLE}", network.network());
            changes.ip(&format!("-{family} route add {route}"), &format!("-{family} route del {route}"))?;
        }
        if let Some(mark) = self.mark {
            if family == 4 {
                // A host that checks where packets come from (rp_filter) is to ask as the gateway's sockets
                // do.
                changes.setting("net/ipv4/conf/all/src_valid_mark", "1")?;
            }
            rule(changes, family, 0, &format!("fwmark {mark} lookup main"))?;
        }
        if self.captures_dns {
            rule(changes, family, 1, &format!("dport 53 lookup {TABLE}"))?;
        }
        rule(changes, family, 2, "lookup main suppress_prefixlength 0")?;
        rule(changes, family, 3, &format!("lookup {TABLE}"))
    }

    /// Gives the proxy the route that it has now.
    fn route_proxy(&self, changes: &mut Changes) -> Result<(), ChangeError> {
        let shown = Command::new("ip").args(["route", "get", &self.proxy.to_string()]).output();
        let shown = shown.map_err(ChangeError::NoIp)?;
        let said = String::from_utf8_lossy(&shown.stdout).into_owned();
        // Its own address or one of this host needs no way out.
        let Some(way) = way(&said) else { return Ok(()) };
        let (family, proxy) = (family_of(self.proxy), self.proxy);
        let route = format!("{proxy} {way}");
        changes.ip(&format!("-{family} route add {route}"), &format!("-{family} route del {route}"))
    }
}

fn rule(changes: &mut Changes, family: u8, place: u32, what: &str) -> Result<(), ChangeError> {
    let rule = format!("pref {} {what}", PREFERENCE + place);
    changes.ip(&format!("-{family} rule add {rule}"), &format!("-{family} rule del {rule}"))
}

/// The `via` and `dev` of what `ip route get` says; `None` for an address of this host.
fn way(said: &str) -> Option<String> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let after = |word: &str| {
        let at = words.iter().position(|&other| other == word)?;
        words.get(at + 1).copied()
    };
    let device = after("dev").filter(|_| words.first() != Some(&"local"))?;
    Some(after("via").map_or(format!("dev {device}"), |via| format!("via {via} dev {device}")))
}

fn family_of(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 4 } else { 6 }
}

/// The gateway's table of routes, and the first of its rules.
const TABLE: u32 = 7426;
const PREFERENCE: u32 = 7426;
/// The mark of the gateway's sockets.
pub(crate) const MARK: u32 = 7426;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_proxy_is_what_the_kernel_says() {
        let cases = [
            ("192.0.2.1 via 10.0.0.1 dev eth0 src 10.0.0.2 uid 0 \n    cache", Some("via 10.0.0.1 dev eth0")),
            ("10.1.0.1 dev eth0 src 10.1.0.2 uid 0", Some("dev eth0")),
            ("local 127.0.0.1 dev lo src 127.0.0.1 uid 0", None),
            ("", None),
        ];
        for (said, expected) in cases {
            assert_eq!(way(said).as_deref(), expected, "{said}");
        }
    }
}
