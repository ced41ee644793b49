//! Names, resolved through the stack itself (feature `dns`).
//!
//! [`Resolver`] is hickory's, over this stack's own sockets ([`Runtime`]). It asks the builder's name servers
//! over UDP, and over TCP where an answer does not fit, and caches answers for their lifetime. It reads none
//! of the host's files: not `/etc/hosts`, and `/etc/resolv.conf` only if the builder is given its path.
//! [`race`] connects to the addresses found.

mod config;
mod race;
mod runtime;

use std::future::ready;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ServerOrderingStrategy,
};
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::{Name, RecordType};

pub use self::config::HappyEyeballs;
pub(crate) use self::config::Names;
use self::race::{Lookup, race};
use self::runtime::Runtime;
use crate::shards::Shards;
use crate::{Stack, TcpStream};

/// Asks name servers through a stack. Cloning is cheap; it does not keep the stack up.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    asks: hickory_resolver::Resolver<Runtime>,
    names: Arc<Names>,
}

impl Resolver {
    pub(crate) fn new(names: Arc<Names>, stack: Weak<Shards>) -> io::Result<Self> {
        let config =
            ResolverConfig::from_name_servers(names.servers.iter().copied().map(name_server).collect());
        let mut builder = hickory_resolver::Resolver::builder_with_config(config, Runtime::new(stack));
        let options = builder.options_mut();
        options.use_hosts_file = ResolveHosts::Never;
        options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        options.cache_size = CACHED_MAX;
        let asks = builder.build().map_err(io::Error::other)?;
        Ok(Self { asks, names })
    }

    /// A connection to the first address of this name that answers.
    pub(crate) async fn connect(&self, stack: &Stack, host: &str, port: u16) -> io::Result<TcpStream> {
        let (v6, v4) = self.lookups(host)?;
        let has = Families::of(stack);
        let [v6, v4] = [(v6, has.v6), (v4, has.v4)].map(|(lookup, asks)| -> Lookup {
            if asks { sorted(stack, lookup) } else { Box::pin(ready(Ok(Vec::new()))) }
        });
        let attempt = |addr| {
            let stack = stack.clone();
            async move { stack.connect(SocketAddr::new(addr, port)).await }
        };
        race(self.names.eyeballs, v6, v4, attempt).await?.ok_or_else(|| self.not_found(host))
    }

    /// All addresses of a name, IPv6 first.
    pub(crate) async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let (v6, v4) = self.lookups(host)?;
        match tokio::join!(v6, v4) {
            (Err(error), Err(_)) => Err(error),
            (v6, v4) => {
                let found: Vec<IpAddr> = v6.into_iter().chain(v4).flatten().collect();
                if found.is_empty() { Err(self.not_found(host)) } else { Ok(found) }
            }
        }
    }

    /// The answer for IPv6 and the one for IPv4.
    fn lookups(&self, host: &str) -> io::Result<(Lookup, Lookup)> {
        let mut name = Name::from_utf8(host).map_err(|error| {
            io::Error::new(ErrorKind::InvalidInput, format!("`{host}` cannot be a host's name: {error}"))
        })?;
        // Fully qualified: no search domain applies.
        name.set_fqdn(true);
        Ok((self.lookup(name.clone(), RecordType::AAAA), self.lookup(name, RecordType::A)))
    }

    fn lookup(&self, name: Name, kind: RecordType) -> Lookup {
        let this = self.clone();
        Box::pin(async move {
            match this.asks.lookup(name.clone(), kind).await {
                Ok(found) => Ok(found.answers().iter().filter_map(|record| record.data.ip_addr()).collect()),
                Err(error) if error.is_no_records_found() || error.is_nx_domain() => Ok(Vec::new()),
                Err(error) => Err(this.failed(&name, kind, &error)),
            }
        })
    }

    fn failed(&self, name: &Name, kind: RecordType, error: &NetError) -> io::Error {
        let (outcome, what) = match error {
            NetError::Timeout => (ErrorKind::TimedOut, "did not answer".to_owned()),
            NetError::Io(error) => (error.kind(), format!("cannot be asked: {error}")),
            error => (ErrorKind::Other, format!("failed: {error}")),
        };
        let servers = &self.names.servers;
        io::Error::new(
            outcome,
            format!("looking up the {kind} records of `{name}`: name servers {servers:?}: {what}"),
        )
    }

    fn not_found(&self, host: &str) -> io::Error {
        let text = format!("`{host}` has no address by the name servers {:?}", self.names.servers);
        io::Error::new(ErrorKind::NotFound, text)
    }
}

/// The address families in which a stack can connect.
#[derive(Clone, Copy, Debug)]
struct Families {
    v6: bool,
    v4: bool,
}

impl Families {
    /// RFC 8305 §3: a client that has both asks for both. A stack without addresses may stand for any host.
    fn of(stack: &Stack) -> Self {
        let addresses = stack.info().addresses;
        let has = |of_family: fn(IpAddr) -> bool| addresses.iter().any(|own| of_family(own.addr()));
        let v6 = has(|own| matches!(own, IpAddr::V6(own) if !own.is_unicast_link_local()));
        let v4 = has(|own| own.is_ipv4());
        if v6 || v4 { Self { v6, v4 } } else { Self { v6: true, v4: true } }
    }
}

/// RFC 8305 §4: the addresses of a family in the order of RFC 6724 §6, with unreachable ones last.
fn sorted(stack: &Stack, lookup: Lookup) -> Lookup {
    let stack = stack.shared.uncounted();
    Box::pin(async move {
        let mut found = lookup.await?;
        stack.look(|state| {
            state.endpoint.sort_destinations(&mut found);
            found.sort_by_key(|&addr| state.network.check_route(addr).is_err());
        });
        Ok(found)
    })
}

/// A server that is asked over UDP, and over TCP where the answer does not fit.
fn name_server(addr: SocketAddr) -> NameServerConfig {
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = addr.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(at_port);
    NameServerConfig::new(addr.ip(), true, connections.into())
}

/// The number of cached answers.
const CACHED_MAX: u64 = 1024;
