//! What stands for addresses: [`ToSocketAddrs`].

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::pin::Pin;

/// What [`TcpStream::connect`](crate::TcpStream::connect) and [`TcpListener::bind`](crate::TcpListener::bind) take: addresses,
/// addresses in words (`"10.0.0.2:80"`), and with the feature `resolve` names (`"localhost:80"`, `("localhost", 80)`), which
/// `tokio::net::lookup_host` resolves by the host's own resolver, over the kernel's network.
///
/// The same types implement it as tokio's trait of this name. No others can: it is sealed.
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

/// Tries the addresses one after the other; the last error stands.
pub(crate) async fn first<T, F>(
    addr: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let addrs = match addr.resolve() {
        sealed::Resolved::Now(addrs) => addrs,
        sealed::Resolved::Later(lookup) => lookup.await?,
    };
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
    use super::{Future, Pin, SocketAddr, io};

    /// Addresses, or what finds them.
    pub enum Resolved {
        Now(Vec<SocketAddr>),
        Later(Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>),
    }

    pub trait Resolve {
        fn resolve(&self) -> Resolved;
    }
}

use sealed::{Resolve, Resolved};

impl<T: Resolve + ?Sized> Resolve for &T {
    fn resolve(&self) -> Resolved {
        (**self).resolve()
    }
}

macro_rules! addresses {
    ($($kind:ty),*) => {$(
        impl Resolve for $kind {
            fn resolve(&self) -> Resolved {
                Resolved::Now(vec![SocketAddr::from(*self)])
            }
        }
    )*};
}

addresses!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl Resolve for [SocketAddr] {
    fn resolve(&self) -> Resolved {
        Resolved::Now(self.to_vec())
    }
}

impl Resolve for str {
    fn resolve(&self) -> Resolved {
        if let Ok(addr) = self.parse() {
            return Resolved::Now(vec![addr]);
        }
        let named = self.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        match named {
            Some((host, port)) => lookup((host.to_owned(), port)),
            None => {
                let text = format!("{self:?} is not an address and a port, as in host:80");
                Resolved::Later(Box::pin(std::future::ready(Err(io::Error::new(
                    ErrorKind::InvalidInput,
                    text,
                )))))
            }
        }
    }
}

impl Resolve for String {
    fn resolve(&self) -> Resolved {
        self.as_str().resolve()
    }
}

impl Resolve for (&str, u16) {
    fn resolve(&self) -> Resolved {
        let (host, port) = *self;
        let literal = host.parse().map(|ip: IpAddr| Resolved::Now(vec![SocketAddr::new(ip, port)]));
        literal.unwrap_or_else(|_| lookup((host.to_owned(), port)))
    }
}

impl Resolve for (String, u16) {
    fn resolve(&self) -> Resolved {
        (self.0.as_str(), self.1).resolve()
    }
}

#[cfg(feature = "resolve")]
fn lookup(name: impl tokio::net::ToSocketAddrs + Send + 'static) -> Resolved {
    Resolved::Later(Box::pin(async move { Ok(tokio::net::lookup_host(name).await?.collect()) }))
}

#[cfg(not(feature = "resolve"))]
fn lookup(name: impl std::fmt::Debug) -> Resolved {
    let text = format!("{name:?} is a name: resolve it first, or enable ackclock's feature `resolve`");
    Resolved::Later(Box::pin(std::future::ready(Err(io::Error::new(ErrorKind::Unsupported, text)))))
}
