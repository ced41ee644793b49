//! The proxy: where it is, what it speaks, and what it is asked for.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::outlet::Outlet;
use crate::{http_connect, socks5};

/// The proxy, the credentials for it, and the sockets by which it is reached.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    pub(crate) kind: ProxyKind,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) outlet: Outlet,
}

/// The protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyKind {
    /// SOCKS5: connections and datagrams.
    Socks5,
    /// HTTP's CONNECT: connections.
    Http,
}

/// A proxy as a user writes it: `socks5://HOST:PORT`, `http://HOST:PORT`, or `HOST:PORT` for SOCKS5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyUrl {
    pub(crate) kind: ProxyKind,
    /// A name or an address, and a port.
    pub(crate) host: String,
}

/// A user name and a password, of up to 255 bytes each.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// Where a client wants to go: an address, or a name that the proxy is to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Addr(SocketAddr),
    Name(Arc<str>, u16),
}

/// A relay of datagrams: it lives as long as the connection to the proxy.
#[derive(Debug)]
pub(crate) struct Association {
    pub(crate) control: TcpStream,
    /// Connected to the relay.
    pub(crate) relay: UdpSocket,
}

/// Why the proxy did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ProxyError {
    #[error("the proxy {0} cannot be reached: {1}")]
    Unreachable(SocketAddr, io::Error),
    #[error("what answers at {0} speaks no SOCKS5: check --proxy, or give it as http://ADDRESS:PORT")]
    NotSocks(SocketAddr),
    #[error("what answers at {0} speaks no HTTP: check --proxy, or give it as socks5://ADDRESS:PORT")]
    NotHttp(SocketAddr),
    #[error("the proxy asks for a user name and a password: give --credentials-file")]
    CredentialsWanted,
    #[error("the proxy refuses the user name or the password")]
    CredentialsRefused,
    #[error("an HTTP proxy carries no datagrams")]
    NoDatagrams,
    #[error("the proxy says: {0}")]
    Refused(#[from] Refusal),
}

/// The proxy's reason for a failure, in the words of RFC 1928 §6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it failed")]
    General,
    #[error("its rules forbid it")]
    Forbidden,
    #[error("the network is unreachable")]
    Network,
    #[error("the host is unreachable")]
    Host,
    #[error("the connection was refused")]
    Connection,
    #[error("it does not know how to (code {0})")]
    Unknown(u16),
}

impl Proxy {
    /// A connection to `destination`, made by the proxy.
    pub(crate) async fn connect(&self, destination: &Destination) -> Result<TcpStream, ProxyError> {
        self.in_time(async {
            let mut stream = self.dial().await?;
            match self.kind {
                ProxyKind::Socks5 => drop(socks5::connect(self, &mut stream, destination).await?),
                ProxyKind::Http => http_connect::connect(self, &mut stream, destination).await?,
            }
            Ok(stream)
        })
        .await
    }

    /// A relay of datagrams.
    pub(crate) async fn associate(&self) -> Result<Association, ProxyError> {
        if self.kind == ProxyKind::Http {
            return Err(ProxyError::NoDatagrams);
        }
        self.in_time(async {
            let mut control = self.dial().await?;
            let mut addr = socks5::associate(self, &mut control).await?;
            if addr.ip().is_unspecified() {
                addr.set_ip(self.addr.ip());
            }
            let relay = self.outlet.datagrams(addr).map_err(|error| ProxyError::Unreachable(addr, error))?;
            Ok(Association { control, relay })
        })
        .await
    }

    /// The error of a failed socket to the proxy.
    pub(crate) fn unreachable(&self, error: io::Error) -> ProxyError {
        ProxyError::Unreachable(self.addr, error)
    }

    async fn dial(&self) -> Result<TcpStream, ProxyError> {
        self.outlet.connect(self.addr).await.map_err(|error| self.unreachable(error))
    }

    async fn in_time<T>(&self, asked: impl Future<Output = Result<T, ProxyError>>) -> Result<T, ProxyError> {
        let done = timeout(ASK_TIME_MAX, asked).await;
        done.unwrap_or_else(|_| Err(self.unreachable(io::ErrorKind::TimedOut.into())))
    }
}

impl FromStr for ProxyUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (kind, host) = match text.split_once("://") {
            None => (ProxyKind::Socks5, text),
            Some(("socks5" | "socks5h", host)) => (ProxyKind::Socks5, host),
            Some(("http", host)) => (ProxyKind::Http, host),
            Some(_) => {
                return Err("a proxy is socks5://HOST:PORT, http://HOST:PORT, or HOST:PORT for SOCKS5");
            }
        };
        let host = host.trim_end_matches('/');
        if host.contains('@') {
            return Err("a password on the command line is seen by everyone here: give --credentials-file");
        }
        match host.rsplit_once(':') {
            Some((name, port)) if !name.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => {
                Ok(Self { kind, host: host.to_owned() })
            }
            _ => Err("a proxy's port is missing: HOST:PORT"),
        }
    }
}

impl FromStr for Credentials {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (user, password) = text.trim_end().split_once(':').ok_or("write them as USER:PASSWORD")?;
        if [user, password].iter().any(|text| text.is_empty() || text.len() > 255) {
            return Err("1 to 255 bytes each");
        }
        Ok(Self { user: user.to_owned(), password: password.to_owned() })
    }
}

impl fmt::Debug for Credentials {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Destination {
    pub(crate) fn port(&self) -> u16 {
        match self {
            Self::Addr(addr) => addr.port(),
            Self::Name(_, port) => *port,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addr(addr) => addr.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

impl fmt::Display for ProxyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Socks5 => "SOCKS5",
            Self::Http => "HTTP",
        })
    }
}

/// The unspecified address of the same family.
pub(crate) fn unspecified(addr: SocketAddr) -> IpAddr {
    if addr.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// How long the proxy may take: less than the minute for which a client's SYN waits.
const ASK_TIME_MAX: Duration = Duration::from_secs(45);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_scheme_a_host_and_a_port() {
        let url = |kind, host: &str| Ok(ProxyUrl { kind, host: host.to_owned() });
        assert_eq!("10.1.0.1:1080".parse(), url(ProxyKind::Socks5, "10.1.0.1:1080"));
        assert_eq!("socks5://[2001:db8::1]:1080".parse(), url(ProxyKind::Socks5, "[2001:db8::1]:1080"));
        assert_eq!("http://proxy.example:3128/".parse(), url(ProxyKind::Http, "proxy.example:3128"));
        for wrong in ["", "proxy.example", "https://a:1", "a:0", "a:70000", ":1", "socks5://u:p@a:1"] {
            assert!(wrong.parse::<ProxyUrl>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn credentials_are_a_name_and_a_password_that_is_not_shown() {
        let credentials: Credentials = "user:pass:word\n".parse().unwrap();
        assert_eq!((&*credentials.user, &*credentials.password), ("user", "pass:word"));
        assert!(!format!("{credentials:?}").contains("pass"));
        for wrong in ["", "user", ":password", "user:", &format!("u:{}", "p".repeat(256))] {
            assert!(wrong.parse::<Credentials>().is_err(), "{wrong}");
        }
    }
}
