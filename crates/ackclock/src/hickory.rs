//! [`Resolver`] is hickory's, over this stack's own sockets ([`Runtime`]) and tokio's tasks and time. It asks
//! the builder's name servers over UDP, and over TCP where an answer does not fit, and caches answers for
//! their lifetime. It reads none of the host's files: not `/etc/hosts`, and `/etc/resolv.conf` only if the
//! builder is given its path.

use std::fmt;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ServerOrderingStrategy,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::iocompat::AsyncIoTokioAsStd;
use hickory_resolver::net::runtime::{DnsUdpSocket, RuntimeProvider, TokioHandle, TokioTime};
use hickory_resolver::proto::rr::{Name, RecordType};
use tokio::io::ReadBuf;
use tokio::time::timeout;

use crate::name_servers::{Lookup, NameLookup, Names};
use crate::shards::{Handle, Shards};
use crate::{Stack, StackError, TcpStream, UdpSocket};

/// Asks name servers through a stack. Cloning is cheap; it does not keep the stack up.
#[derive(Clone, Debug)]
struct Resolver {
    asks: hickory_resolver::Resolver<Runtime>,
    names: Arc<Names>,
}

/// A stack that provides sockets while it is up.
#[derive(Clone)]
struct Runtime {
    stack: Weak<Shards>,
    tasks: TokioHandle,
}

/// One of the stack's sockets, in the shape that hickory expects.
struct Socket(UdpSocket);

type Opening<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// A resolver that asks these name servers through sockets of `stack`.
pub(crate) fn name_lookup(names: Arc<Names>, stack: Weak<Shards>) -> io::Result<Arc<dyn NameLookup>> {
    Ok(Arc::new(Resolver::new(names, stack)?))
}

impl Resolver {
    fn new(names: Arc<Names>, stack: Weak<Shards>) -> io::Result<Self> {
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
}

impl NameLookup for Resolver {
    fn lookups(&self, host: &str) -> io::Result<(Lookup, Lookup)> {
        let mut name = Name::from_utf8(host).map_err(|error| {
            io::Error::new(ErrorKind::InvalidInput, format!("`{host}` cannot be a host's name: {error}"))
        })?;
        // Fully qualified: no search domain applies.
        name.set_fqdn(true);
        Ok((self.lookup(name.clone(), RecordType::AAAA), self.lookup(name, RecordType::A)))
    }
}

impl Runtime {
    fn new(stack: Weak<Shards>) -> Self {
        Self { stack, tasks: TokioHandle::default() }
    }

    /// Sockets made through it do not keep the stack up, nor delay its end.
    fn stack(&self) -> io::Result<Stack> {
        let shards = self.stack.upgrade().ok_or(StackError::Shutdown)?;
        let first = shards.refs().next().ok_or(StackError::Shutdown)?;
        Ok(Stack::new(Handle::new(first.for_stack())))
    }
}

impl RuntimeProvider for Runtime {
    type Handle = TokioHandle;
    type Timer = TokioTime;
    type Udp = Socket;
    type Tcp = AsyncIoTokioAsStd<TcpStream>;

    fn create_handle(&self) -> TokioHandle {
        self.tasks.clone()
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        bind: Option<SocketAddr>,
        within: Option<Duration>,
    ) -> Opening<Self::Tcp> {
        let stack = self.stack();
        Box::pin(async move {
            let socket = stack?.socket();
            if let Some(addr) = bind {
                socket.bind(addr)?;
            }
            socket.set_nodelay(true)?;
            let connected = timeout(within.unwrap_or(CONNECT_TIMEOUT), socket.connect(server)).await;
            Ok(AsyncIoTokioAsStd(connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??))
        })
    }

    fn bind_udp(&self, local: SocketAddr, _server: SocketAddr) -> Opening<Socket> {
        let stack = self.stack();
        Box::pin(async move { Ok(Socket(stack?.udp(local)?)) })
    }
}

impl DnsUdpSocket for Socket {
    type Time = TokioTime;

    fn poll_recv_from(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<(usize, SocketAddr)>> {
        let mut buf = ReadBuf::new(buf);
        let from = ready!(self.0.poll_recv_from(cx, &mut buf))?;
        Poll::Ready(Ok((buf.filled().len(), from)))
    }

    fn poll_send_to(&self, cx: &mut Context<'_>, buf: &[u8], target: SocketAddr) -> Poll<io::Result<usize>> {
        self.0.poll_send_to(cx, buf, target)
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}

/// A server to query over UDP, and over TCP if the answer does not fit.
fn name_server(addr: SocketAddr) -> NameServerConfig {
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = addr.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(at_port);
    NameServerConfig::new(addr.ip(), true, connections.into())
}

/// How long a connection to a name server may take if hickory sets no time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of cached answers.
const CACHED_MAX: u64 = 1024;
