//! From a name to a connection: which of its addresses are tried, and in which order.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ackclock_cli::Failure;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::args::{PeerArgs, scoped};
use crate::host;
use crate::net::{Net, Stream};

/// The addresses of a name that are of the requested family, the one to try first in front. There is at least
/// one.
pub(crate) async fn addresses(
    host: &str,
    port: u16,
    peer: &PeerArgs,
    net: &Net,
) -> Result<Vec<SocketAddr>, Failure> {
    if peer.numeric && host.parse::<IpAddr>().is_err() && scoped(host).is_none() {
        return Err(Failure::usage(format!("{host:?} is not an address, and -n forbids a name lookup")));
    }
    let found = lookup(host, port, net.link()).await?;
    let wanted = |addr: &SocketAddr| !(peer.ipv4 && addr.is_ipv6() || peer.ipv6 && addr.is_ipv4());
    let family = if peer.ipv4 { "IPv4 address" } else { "IPv6 address" };
    let found: Vec<SocketAddr> = found.into_iter().filter(wanted).collect();
    if found.is_empty() {
        return Err(Failure::usage(format!("{host} has no {family}")));
    }
    Ok(in_order(found, |addr| {
        let is_of_source = peer.source.is_none_or(|source| source.is_ipv4() == addr.is_ipv4());
        is_of_source && net.reaches(addr.ip())
    }))
}

/// Those that are within reach come first. Among them the resolver's order stays, which is RFC 6724's for the
/// kernel's addresses.
fn in_order(mut found: Vec<SocketAddr>, reaches: impl Fn(&SocketAddr) -> bool) -> Vec<SocketAddr> {
    found.dedup();
    found.sort_by_key(|addr| !reaches(addr));
    found
}

/// Connects to the first of `remotes` that answers. An address gets a quarter of a second before the next
/// one is tried beside it (RFC 8305 §5), and none if it fails at once. Returns the failure of the first one
/// if all fail.
pub(crate) async fn race(
    net: &Net,
    source: Option<IpAddr>,
    local_port: u16,
    remotes: &[SocketAddr],
) -> Result<(Stream, SocketAddr), (SocketAddr, io::Error)> {
    let mut waiting = remotes.iter().copied();
    let mut attempts = JoinSet::new();
    let mut failures = Vec::new();
    let mut due = Instant::now();
    loop {
        tokio::select! {
            biased;
            Some(ended) = attempts.join_next() => match ended {
                Ok((remote, Ok(stream))) => return Ok((stream, remote)),
                Ok((remote, Err(error))) => {
                    failures.push((remote, error));
                    due = Instant::now();
                }
                // It was neither cancelled nor does it panic.
                Err(_) => {}
            },
            () = sleep_until(due), if waiting.len() > 0 => {
                let Some(remote) = waiting.next() else { continue };
                due += ATTEMPT_DELAY;
                let local = SocketAddr::new(source.unwrap_or_else(|| any(remote.is_ipv6())), local_port);
                let net = net.clone();
                attempts.spawn(async move { (remote, net.connect(local, remote).await) });
            }
            else => break,
        }
    }
    failures.sort_by_key(|(remote, _)| remotes.iter().position(|known| known == remote));
    let no_address = (SocketAddr::new(any(false), 0), io::ErrorKind::AddrNotAvailable.into());
    Err(failures.into_iter().next().unwrap_or(no_address))
}

/// All addresses of a name. The kernel needs the scope of an address that is valid on one link only; a stack
/// has one link.
async fn lookup(host: &str, port: u16, link: Option<&str>) -> Result<Vec<SocketAddr>, Failure> {
    match (scoped(host), link) {
        (Some((addr, scope)), Some(link)) if scope == link => return Ok(vec![(addr, port).into()]),
        (Some((addr, scope)), Some(link)) => {
            return Err(Failure::usage(format!("the stack is on {link}, not on {scope}"))
                .remedy(format!("write {addr}%{link}, or name {scope} as the device")));
        }
        (None, None) if host.parse::<Ipv6Addr>().is_ok_and(|addr| addr.is_unicast_link_local()) => {
            return Err(Failure::usage(format!(
                "{host} is valid on one link only, and it does not say which"
            ))
            .remedy(format!("name the interface: {host}%eth0")));
        }
        _ => {}
    }
    let found = tokio::net::lookup_host((host, port)).await;
    Ok(found.map_err(|error| host::unresolved(host, &error))?.collect())
}

/// The unspecified address of a family.
pub(crate) fn any(ipv6: bool) -> IpAddr {
    if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// RFC 8305 §8: the recommended value of the Connection Attempt Delay.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_within_reach_come_first_and_the_resolvers_order_stays() {
        let addr = |text: &str| SocketAddr::new(text.parse().unwrap(), 80);
        let found = || vec![addr("fd00::1"), addr("10.0.0.1"), addr("fd00::2"), addr("10.0.0.2")];
        assert_eq!(in_order(found(), |_| true), found());
        let ipv4 = [addr("10.0.0.1"), addr("10.0.0.2"), addr("fd00::1"), addr("fd00::2")];
        assert_eq!(in_order(found(), SocketAddr::is_ipv4), ipv4);
        let ipv6 = [addr("fd00::1"), addr("fd00::2"), addr("10.0.0.1"), addr("10.0.0.2")];
        assert_eq!(in_order(found(), SocketAddr::is_ipv6), ipv6);
    }

    #[tokio::test]
    async fn a_dead_address_does_not_hold_up_the_next() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let lives = listener.local_addr().unwrap();
        let refuses = SocketAddr::new("127.0.0.1".parse().unwrap(), 1);
        let net = Net::kernel();
        let (_, remote) = race(&net, None, 0, &[refuses, lives]).await.unwrap();
        assert_eq!(remote, lives);
        let (remote, error) = race(&net, None, 0, &[refuses]).await.unwrap_err();
        assert_eq!((remote, error.kind()), (refuses, io::ErrorKind::ConnectionRefused));
    }
}
