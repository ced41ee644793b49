//! The client's side of SOCKS5 (RFC 1928), with user name and password (RFC 1929), over the kernel's sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// The proxy's address, and the credentials for it.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    pub(crate) credentials: Option<Credentials>,
}

/// A user name and a password, of up to 255 bytes each.
#[derive(Clone)]
pub(crate) struct Credentials {
    user: String,
    password: String,
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
pub(crate) enum SocksError {
    #[error("the proxy {0} cannot be reached: {1}")]
    Proxy(SocketAddr, io::Error),
    #[error("what answers at {0} is no SOCKS5 proxy")]
    NotSocks(SocketAddr),
    #[error("the proxy asks for a user name and a password: give --credentials-file")]
    CredentialsWanted,
    #[error("the proxy refuses the user name or the password")]
    CredentialsRefused,
    #[error("the proxy says: {0}")]
    Refused(#[from] Refusal),
}

/// RFC 1928 §6: the proxy's reason for a failure.
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
    Unknown(u8),
}

impl Proxy {
    /// A connection to `destination`, made by the proxy.
    pub(crate) async fn connect(&self, destination: SocketAddr) -> Result<TcpStream, SocksError> {
        self.ask(CONNECT, destination).await.map(|(stream, _)| stream)
    }

    /// A relay of datagrams.
    pub(crate) async fn associate(&self) -> Result<Association, SocksError> {
        // RFC 1928 §7: zeros if the client does not know yet from where it will send.
        let any = SocketAddr::new(unspecified(self.addr), 0);
        let (control, mut relay_addr) = self.ask(ASSOCIATE, any).await?;
        if relay_addr.ip().is_unspecified() {
            relay_addr.set_ip(self.addr.ip());
        }
        let relay = async {
            let relay = UdpSocket::bind(SocketAddr::new(unspecified(relay_addr), 0)).await?;
            relay.connect(relay_addr).await?;
            Ok(relay)
        };
        let relay = relay.await.map_err(|error| SocksError::Proxy(relay_addr, error))?;
        Ok(Association { control, relay })
    }

    /// Sends a request to the proxy and returns the address in its reply.
    async fn ask(&self, command: u8, addr: SocketAddr) -> Result<(TcpStream, SocketAddr), SocksError> {
        let asked = timeout(ASK_TIME_MAX, self.converse(command, addr)).await;
        asked.unwrap_or_else(|_| Err(SocksError::Proxy(self.addr, io::ErrorKind::TimedOut.into())))
    }

    async fn converse(&self, command: u8, addr: SocketAddr) -> Result<(TcpStream, SocketAddr), SocksError> {
        let unreachable = |error| SocksError::Proxy(self.addr, error);
        let mut stream = TcpStream::connect(self.addr).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        self.greet(&mut stream).await?;
        let mut request = vec![VERSION, command, 0];
        put_addr(&mut request, addr);
        stream.write_all(&request).await.map_err(unreachable)?;
        let [version, code, _, kind] = read(&mut stream, self.addr).await?;
        if version != VERSION {
            return Err(SocksError::NotSocks(self.addr));
        }
        if let Some(refusal) = Refusal::of(code) {
            return Err(refusal.into());
        }
        let bound = self.read_addr(&mut stream, kind).await?;
        Ok((stream, bound))
    }

    /// Negotiates a method (RFC 1928 §3), and authenticates if asked to.
    async fn greet(&self, stream: &mut TcpStream) -> Result<(), SocksError> {
        let unreachable = |error| SocksError::Proxy(self.addr, error);
        let methods: &[u8] = if self.credentials.is_some() { &[NO_PROOF, PASSWORD] } else { &[NO_PROOF] };
        let greeting = [&[VERSION, methods.len() as u8], methods].concat(); // one or two
        stream.write_all(&greeting).await.map_err(unreachable)?;
        match (read(stream, self.addr).await?, &self.credentials) {
            ([VERSION, NO_PROOF], _) => Ok(()),
            ([VERSION, PASSWORD], Some(credentials)) => {
                stream.write_all(&credentials.message()).await.map_err(unreachable)?;
                match read(stream, self.addr).await? {
                    [_, 0] => Ok(()),
                    [_, _] => Err(SocksError::CredentialsRefused),
                }
            }
            ([VERSION, _], _) => Err(SocksError::CredentialsWanted),
            _ => Err(SocksError::NotSocks(self.addr)),
        }
    }

    async fn read_addr(&self, stream: &mut TcpStream, kind: u8) -> Result<SocketAddr, SocksError> {
        let ip = match kind {
            V4 => IpAddr::from(read::<4>(stream, self.addr).await?),
            V6 => IpAddr::from(read::<16>(stream, self.addr).await?),
            NAME => {
                // A name instead of an address: the proxy's own address stands for it.
                let [len] = read(stream, self.addr).await?;
                for _ in 0..len {
                    read::<1>(stream, self.addr).await?;
                }
                self.addr.ip()
            }
            _ => return Err(SocksError::NotSocks(self.addr)),
        };
        Ok(SocketAddr::new(ip, u16::from_be_bytes(read(stream, self.addr).await?)))
    }
}

impl Credentials {
    /// RFC 1929 §2.
    fn message(&self) -> Vec<u8> {
        let mut message = vec![1];
        for text in [&self.user, &self.password] {
            message.push(text.len() as u8); // at most 255, by `from_str`
            message.extend_from_slice(text.as_bytes());
        }
        message
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

impl std::fmt::Debug for Credentials {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Refusal {
    /// The meaning of a reply's code; `None`: success.
    fn of(code: u8) -> Option<Self> {
        Some(match code {
            0 => return None,
            1 => Self::General,
            2 => Self::Forbidden,
            3 => Self::Network,
            // The time to live ran out on the way there.
            4 | 6 => Self::Host,
            5 => Self::Connection,
            _ => Self::Unknown(code),
        })
    }
}

/// The header of a datagram to `destination` through a relay (RFC 1928 §7), and the datagram.
pub(crate) fn wrap(out: &mut Vec<u8>, destination: SocketAddr, payload: &[u8]) {
    out.clear();
    out.extend_from_slice(&[0, 0, 0]);
    put_addr(out, destination);
    out.extend_from_slice(payload);
}

/// The sender and the payload of what a relay passes on; `None` for a part of a datagram, or for a sender
/// given only by name.
pub(crate) fn unwrap(datagram: &[u8]) -> Option<(SocketAddr, &[u8])> {
    // RFC 1928 §7: an implementation that does not reassemble fragments MUST drop them.
    let rest = datagram.strip_prefix(&[0, 0, 0])?;
    let (&kind, rest) = rest.split_first()?;
    let (ip, rest) = match kind {
        V4 => rest.split_first_chunk::<4>().map(|(octets, rest)| (IpAddr::from(*octets), rest))?,
        V6 => rest.split_first_chunk::<16>().map(|(octets, rest)| (IpAddr::from(*octets), rest))?,
        _ => return None,
    };
    let (port, payload) = rest.split_first_chunk()?;
    Some((SocketAddr::new(ip, u16::from_be_bytes(*port)), payload))
}

fn put_addr(out: &mut Vec<u8>, addr: SocketAddr) {
    match addr.ip() {
        IpAddr::V4(ip) => {
            out.push(V4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(V6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&addr.port().to_be_bytes());
}

async fn read<const N: usize>(stream: &mut TcpStream, proxy: SocketAddr) -> Result<[u8; N], SocksError> {
    let mut bytes = [0; N];
    match stream.read_exact(&mut bytes).await {
        Ok(_) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(SocksError::NotSocks(proxy)),
        Err(error) => Err(SocksError::Proxy(proxy, error)),
    }
}

/// The unspecified address of the same family.
fn unspecified(addr: SocketAddr) -> IpAddr {
    if addr.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// How long the proxy may take: less than the minute for which a client's SYN waits.
const ASK_TIME_MAX: Duration = Duration::from_secs(45);
const VERSION: u8 = 5;
const NO_PROOF: u8 = 0;
const PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;
const V4: u8 = 1;
const NAME: u8 = 3;
const V6: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_comes_out_of_its_header_as_it_went_in() {
        let mut wrapped = Vec::new();
        for addr in ["192.0.2.7:53", "[2001:db8::7]:53"] {
            let addr: SocketAddr = addr.parse().unwrap();
            wrap(&mut wrapped, addr, b"data");
            assert_eq!(unwrap(&wrapped), Some((addr, &b"data"[..])));
            for len in 0..wrapped.len() - 4 {
                assert_eq!(unwrap(&wrapped[..len]), None, "{len} bytes");
            }
        }
    }

    #[test]
    fn a_fragment_and_the_datagram_of_a_name_are_dropped() {
        assert_eq!(unwrap(&[0, 0, 1, V4, 192, 0, 2, 7, 0, 53, 1]), None);
        assert_eq!(unwrap(&[0, 0, 0, NAME, 1, b'x', 0, 53, 1]), None);
    }

    #[test]
    fn credentials_are_a_name_and_a_password_that_is_not_shown() {
        let credentials: Credentials = "user:pass:word\n".parse().unwrap();
        assert_eq!(credentials.message(), b"\x01\x04user\x09pass:word");
        assert!(!format!("{credentials:?}").contains("pass"));
        for wrong in ["", "user", ":password", "user:", &format!("u:{}", "p".repeat(256))] {
            assert!(wrong.parse::<Credentials>().is_err(), "{wrong}");
        }
    }
}
