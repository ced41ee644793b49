//! Where the simulated network ends: what arrives there goes on by sockets of this system, and is answered as
//! its destination answers.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ackclock::{Incoming, Stack, Unreachable};
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::real_time::datagrams::{Relay, Route, any};
use crate::real_time::leave::leave;
use crate::real_time::outcome::Tally;

/// Translates the addresses in the namespace. They stand for themselves, but the gateway's for this system's
/// loopback, and its port 53 for this system's name server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outside {
    gateway: IpAddr,
    name_server: SocketAddr,
}

impl Outside {
    pub(super) fn new(gateway: IpAddr) -> Self {
        let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        // resolv.conf(5): without any, the name server on this machine.
        let ip = first_server(&text).unwrap_or_else(|| loopback(gateway));
        Self { gateway, name_server: SocketAddr::new(ip, DNS) }
    }

    fn real(&self, dialled: SocketAddr) -> SocketAddr {
        match dialled.port() {
            _ if dialled.ip() != self.gateway => dialled,
            DNS => self.name_server,
            port => SocketAddr::new(loopback(self.gateway), port),
        }
    }
}

impl Route for Outside {
    fn to(&self, dialled: Option<SocketAddr>) -> SocketAddr {
        // A socket for any address always tells.
        self.real(dialled.unwrap_or(self.name_server))
    }

    fn shown(&self, answers: SocketAddr) -> Option<SocketAddr> {
        let is_ours = answers == self.name_server || answers.ip() == loopback(self.gateway);
        Some(if is_ours { SocketAddr::new(self.gateway, answers.port()) } else { answers })
    }
}

/// Takes connections to any address.
pub(super) async fn connections(stack: Stack, outside: Outside, tally: Arc<Tally>) -> anyhow::Result<()> {
    let listener = stack.listener().syn_backlog(CONNECTIONS_MAX).decisions_max(CONNECTIONS_MAX).deferred()?;
    let (room, mut carried) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), JoinSet::new());
    loop {
        let incoming = tokio::select! {
            // It fails when the stack ends.
            incoming = listener.incoming() => match incoming {
                Ok(incoming) => incoming,
                Err(_) => return Ok(()),
            },
            Some(_) = carried.join_next() => continue,
        };
        // It is never closed.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return Ok(()) };
        tally.connected();
        let tally = Arc::clone(&tally);
        carried.spawn(async move {
            let to = outside.real(incoming.local_addr());
            match leave(incoming, to, Some(tally.carried())).await {
                Ok(end) => tally.ended(&end),
                Err((incoming, error)) => {
                    tally.refused();
                    refuse(incoming, &error);
                }
            }
            drop(permit);
        });
    }
}

/// Answers as the system was answered.
fn refuse(incoming: Incoming, error: &io::Error) {
    match error.kind() {
        ErrorKind::NetworkUnreachable => incoming.unreachable(Unreachable::Network),
        ErrorKind::HostUnreachable | ErrorKind::TimedOut => incoming.unreachable(Unreachable::Host),
        ErrorKind::PermissionDenied => incoming.unreachable(Unreachable::Prohibited),
        _ => incoming.reset(),
    }
}

/// Takes datagrams to any address. Each sender has one port on this system, whatever it sends to.
pub(super) async fn datagrams(stack: Stack, outside: Outside, tally: Arc<Tally>) -> anyhow::Result<()> {
    let near = stack.udp_any()?;
    near.set_fragments(true)?;
    let open = |dialled| async move {
        let to = outside.to(dialled);
        Ok((UdpSocket::bind(any(to)).await?, outside))
    };
    Relay { near, idle: IDLE }.run(open, tally.leaving()).await
}

fn first_server(resolv_conf: &str) -> Option<IpAddr> {
    let mut lines = resolv_conf.lines().map(str::split_whitespace);
    lines.find_map(|mut words| {
        words.next().filter(|word| *word == "nameserver").and(words.next()?.parse().ok())
    })
}

/// The loopback address of the same family.
fn loopback(ip: IpAddr) -> IpAddr {
    if ip.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

const DNS: u16 = 53;
/// The most connections at one time; more wait.
const CONNECTIONS_MAX: usize = 4096;
/// A sender of datagrams that is silent for so long loses its port. RFC 4787 §4.3: two minutes at least.
const IDLE: Duration = Duration::from_secs(120);
