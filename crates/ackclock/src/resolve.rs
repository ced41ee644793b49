//! [`ToSocketAddrs`]: types that stand for addresses.

use std::future::Future;
#[cfg(not(all(feature = "resolve", not(target_family = "wasm"))))]
use std::future::ready;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::Stack;
#[cfg(feature = "dns")]
use crate::dns;

/// Arguments of [`TcpStream::connect`](crate::TcpStream::connect) and
/// [`TcpListener::bind`](crate::TcpListener::bind): addresses, addresses in words (`"10.0.0.2:80"`), and
/// names (`"example.com:80"` or `("example.com", 80)`).
///
/// Names that the stack was given ([`StackBuilder::hosts`](crate::StackBuilder::hosts)) need no lookup.
/// With the feature `dns`, a stack with name servers (`StackBuilder::name_servers`) resolves names itself,
/// and connects as in RFC 8305: the families race. Without name servers, and with the feature `resolve`,
/// `tokio::net::lookup_host` asks the host's own resolver, over the kernel's network, and the addresses are
/// tried one after the other, as tokio does.
///
/// The types that implement tokio's trait of this name implement this one. The trait is sealed, so no others
/// can.
///
/// ```
/// # use ackclock::{Stack, TcpListener, TcpStream};
/// # use ackclock_device::memory;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (left, right) = memory::pair(memory::Config::default());
/// # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
/// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
/// let _listener = TcpListener::bind(&server, "10.0.0.2:80").await?;
/// let stream = TcpStream::connect(&client, ("10.0.0.2", 80)).await?;
/// assert_eq!(stream.peer_addr()?, "10.0.0.2:80".parse()?);
/// # Ok(()) }
/// ```
pub trait ToSocketAddrs: sealed::Resolve {}

impl<T: sealed::Resolve + ?Sized> ToSocketAddrs for T {}

/// Connects to an address or a name by `attempt`: to the first address that answers.
pub(crate) async fn connect<T, F>(
    stack: &Stack,
    addr: impl ToSocketAddrs,
    attempt: impl Fn(SocketAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let addrs = match addr.resolve()? {
        Resolved::Addresses(addrs) => addrs,
        Resolved::Name(host, port) => {
            #[cfg(feature = "dns")]
            if stack.shared.hosts().get(&host).is_empty()
                && let Some((names, lookup)) = stack.shared.name_lookup()?
            {
                let attempt = |ip| attempt(SocketAddr::new(ip, port));
                return dns::connect(stack, &names, lookup, &host, attempt).await;
            }
            addresses(stack, &host, port).await?
        }
    };
    first(addrs, attempt).await
}

/// All addresses that `addr` stands for.
pub(crate) async fn all(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Vec<SocketAddr>> {
    match addr.resolve()? {
        Resolved::Addresses(addrs) => Ok(addrs),
        Resolved::Name(host, port) => addresses(stack, &host, port).await,
    }
}

/// All addresses of a name.
pub(crate) async fn addresses(stack: &Stack, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let hosts = stack.shared.hosts();
    let at_port = |ip: &IpAddr| SocketAddr::new(*ip, port);
    if let known @ [_, ..] = hosts.get(host) {
        return Ok(known.iter().map(at_port).collect());
    }
    #[cfg(feature = "dns")]
    if let Some((names, lookup)) = stack.shared.name_lookup()? {
        let found = dns::addresses(&names, lookup, host).await?;
        return Ok(found.iter().map(at_port).collect());
    }
    if !hosts.is_empty() {
        let text = format!("`{host}` is none of the names that the stack was given");
        return Err(io::Error::new(ErrorKind::NotFound, text));
    }
    lookup(host, port).await
}

/// Tries the addresses one after the other. If all fail, the last error is returned.
pub(crate) async fn first<T, F>(
    addrs: Vec<SocketAddr>,
    mut attempt: impl FnMut(SocketAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let mut last = None;
    for addr in addrs {
        match attempt(addr).await {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it resolves to no address")))
}

mod sealed {
    use super::{SocketAddr, io};

    /// Addresses, or a name and a port.
    pub enum Resolved {
        Addresses(Vec<SocketAddr>),
        Name(String, u16),
    }

    pub trait Resolve {
        fn resolve(&self) -> io::Result<Resolved>;
    }
}

use sealed::{Resolve, Resolved};

impl<T: Resolve + ?Sized> Resolve for &T {
    fn resolve(&self) -> io::Result<Resolved> {
        (**self).resolve()
    }
}

macro_rules! addresses {
    ($($kind:ty),*) => {$(
        impl Resolve for $kind {
            fn resolve(&self) -> io::Result<Resolved> {
                Ok(Resolved::Addresses(vec![SocketAddr::from(*self)]))
            }
        }
    )*};
}

addresses!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl Resolve for [SocketAddr] {
    fn resolve(&self) -> io::Result<Resolved> {
        Ok(Resolved::Addresses(self.to_vec()))
    }
}

impl Resolve for str {
    fn resolve(&self) -> io::Result<Resolved> {
        if let Ok(addr) = self.parse() {
            return Ok(Resolved::Addresses(vec![addr]));
        }
        let named = self.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        let (host, port) = named.ok_or_else(|| {
            let text = format!("{self:?} is not an address and a port, as in host:80");
            io::Error::new(ErrorKind::InvalidInput, text)
        })?;
        Ok(Resolved::Name(host.to_owned(), port))
    }
}

impl Resolve for String {
    fn resolve(&self) -> io::Result<Resolved> {
        self.as_str().resolve()
    }
}

impl Resolve for (&str, u16) {
    fn resolve(&self) -> io::Result<Resolved> {
        let (host, port) = *self;
        Ok(match host.parse::<IpAddr>() {
            Ok(ip) => Resolved::Addresses(vec![SocketAddr::new(ip, port)]),
            Err(_) => Resolved::Name(host.to_owned(), port),
        })
    }
}

impl Resolve for (String, u16) {
    fn resolve(&self) -> io::Result<Resolved> {
        (self.0.as_str(), self.1).resolve()
    }
}

/// The addresses of a name, from the host's resolver.
#[cfg(all(feature = "resolve", not(target_family = "wasm")))]
async fn lookup(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

#[cfg(not(all(feature = "resolve", not(target_family = "wasm"))))]
fn lookup(host: &str, _: u16) -> std::future::Ready<io::Result<Vec<SocketAddr>>> {
    let how = if cfg!(feature = "dns") {
        "give the stack name servers when it is built (`name_servers`)"
    } else if cfg!(feature = "resolve") {
        "tokio has no host's resolver on WebAssembly: give an address"
    } else {
        "enable ackclock's feature `dns`, or `resolve` for the host's resolver"
    };
    let text = format!("`{host}` is a name, and nothing resolves it: {how}");
    ready(Err(io::Error::new(ErrorKind::Unsupported, text)))
}
