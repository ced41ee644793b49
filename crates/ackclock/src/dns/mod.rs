//! Names, resolved through the stack itself (feature `dns`).
//!
//! [`Resolver`] is hickory's, over this stack's own sockets ([`Runtime`]): it asks the name servers that the builder was given,
//! by UDP and where an answer does not fit by TCP, remembers answers for as long as they are good, and reads nothing of the
//! host's, neither `/etc/resolv.conf` nor `/etc/hosts`. [`race`] connects to what it finds.

mod race;
mod runtime;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ServerOrderingStrategy,
};
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::{Name, RecordType};

use self::race::{Lookup, race};
use self::runtime::Runtime;
use crate::shards::Shards;
use crate::{Stack, TcpStream};

/// Asks name servers through a stack. Cloning is cheap; it does not keep the stack up.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    asks: hickory_resolver::Resolver<Runtime>,
    servers: Arc<[SocketAddr]>,
}

impl Resolver {
    pub(crate) fn new(servers: Arc<[SocketAddr]>, stack: Weak<Shards>) -> io::Result<Self> {
        let config = ResolverConfig::from_name_servers(servers.iter().copied().map(name_server).collect());
        let mut builder = hickory_resolver::Resolver::builder_with_config(config, Runtime::new(stack));
        let options = builder.options_mut();
        options.use_hosts_file = ResolveHosts::Never;
        options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        options.cache_size = CACHED_MAX;
        let asks = builder.build().map_err(io::Error::other)?;
        Ok(Self { asks, servers })
    }

    /// A connection to the first address of this name that answers.
    pub(crate) async fn connect(&self, stack: &Stack, host: &str, port: u16) -> io::Result<TcpStream> {
        let (v6, v4) = self.lookups(host)?;
        let attempt = |addr| {
            let stack = stack.clone();
            async move { stack.connect(SocketAddr::new(addr, port)).await }
        };
        race(v6, v4, attempt).await?.ok_or_else(|| self.not_found(host))
    }

    /// All addresses of a name, those of IPv6 first.
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

    /// For IPv6 and for IPv4, each with an answer of its own.
    fn lookups(&self, host: &str) -> io::Result<(Lookup, Lookup)> {
        let mut name = Name::from_utf8(host).map_err(|error| {
            io::Error::new(ErrorKind::InvalidInput, format!("`{host}` cannot be a host's name: {error}"))
        })?;
        // As it stands: there is no domain to be searched.
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
        let servers = &self.servers;
        io::Error::new(
            outcome,
            format!("looking up the {kind} records of `{name}`: name servers {servers:?}: {what}"),
        )
    }

    fn not_found(&self, host: &str) -> io::Error {
        let text = format!("`{host}` has no address by the name servers {:?}", self.servers);
        io::Error::new(ErrorKind::NotFound, text)
    }
}

/// A server that is asked by UDP, and by TCP where the answer does not fit.
fn name_server(addr: SocketAddr) -> NameServerConfig {
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = addr.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(at_port);
    NameServerConfig::new(addr.ip(), true, connections.into())
}

/// How many answers are remembered.
const CACHED_MAX: u64 = 1024;
