//! The client's side of SOCKS5 (RFC 1928), with user name and password (RFC 1929).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::proxy::{Credentials, Destination, Proxy, ProxyError, Refusal, unspecified};

/// Has the proxy connect this stream to `destination`. Returns the address from which it does.
pub(crate) async fn connect(
    proxy: &Proxy,
    stream: &mut TcpStream,
    destination: &Destination,
) -> Result<SocketAddr, ProxyError> {
    ask(proxy, stream, CONNECT, destination).await
}

/// Has the proxy open a relay of datagrams. Returns its address.
pub(crate) async fn associate(proxy: &Proxy, stream: &mut TcpStream) -> Result<SocketAddr, ProxyError> {
    // RFC 1928 §7: zeros if the client does not know yet from where it will send.
    let any = Destination::Addr(SocketAddr::new(unspecified(proxy.addr), 0));
    ask(proxy, stream, ASSOCIATE, &any).await
}

async fn ask(
    proxy: &Proxy,
    stream: &mut TcpStream,
    command: u8,
    destination: &Destination,
) -> Result<SocketAddr, ProxyError> {
    greet(proxy, stream).await?;
    let mut request = vec![VERSION, command, 0];
    put_destination(&mut request, destination);
    stream.write_all(&request).await.map_err(|error| proxy.unreachable(error))?;
    let [version, code, _, kind] = read(stream, proxy).await?;
    if version != VERSION {
        return Err(ProxyError::NotSocks(proxy.addr));
    }
    if let Some(refusal) = refusal(code) {
        return Err(refusal.into());
    }
    read_addr(proxy, stream, kind).await
}

/// Negotiates a method (RFC 1928 §3), and authenticates if asked to.
async fn greet(proxy: &Proxy, stream: &mut TcpStream) -> Result<(), ProxyError> {
    let unreachable = |error| proxy.unreachable(error);
    let methods: &[u8] = if proxy.credentials.is_some() { &[NO_PROOF, PASSWORD] } else { &[NO_PROOF] };
    let greeting = [&[VERSION, methods.len() as u8], methods].concat(); // one or two
    stream.write_all(&greeting).await.map_err(unreachable)?;
    match (read(stream, proxy).await?, &proxy.credentials) {
        ([VERSION, NO_PROOF], _) => Ok(()),
        ([VERSION, PASSWORD], Some(credentials)) => {
            stream.write_all(&message(credentials)).await.map_err(unreachable)?;
            match read(stream, proxy).await? {
                [_, 0] => Ok(()),
                [_, _] => Err(ProxyError::CredentialsRefused),
            }
        }
        ([VERSION, _], _) => Err(ProxyError::CredentialsWanted),
        _ => Err(ProxyError::NotSocks(proxy.addr)),
    }
}

/// RFC 1929 §2.
fn message(credentials: &Credentials) -> Vec<u8> {
    let mut message = vec![1];
    for text in [&credentials.user, &credentials.password] {
        message.push(text.len() as u8); // at most 255, by `from_str`
        message.extend_from_slice(text.as_bytes());
    }
    message
}

async fn read_addr(proxy: &Proxy, stream: &mut TcpStream, kind: u8) -> Result<SocketAddr, ProxyError> {
    let ip = match kind {
        V4 => IpAddr::from(read::<4>(stream, proxy).await?),
        V6 => IpAddr::from(read::<16>(stream, proxy).await?),
        NAME => {
            // A name instead of an address: the proxy's own address stands for it.
            let [len] = read(stream, proxy).await?;
            for _ in 0..len {
                read::<1>(stream, proxy).await?;
            }
            proxy.addr.ip()
        }
        _ => return Err(ProxyError::NotSocks(proxy.addr)),
    };
    Ok(SocketAddr::new(ip, u16::from_be_bytes(read(stream, proxy).await?)))
}

async fn read<const N: usize>(stream: &mut TcpStream, proxy: &Proxy) -> Result<[u8; N], ProxyError> {
    let mut bytes = [0; N];
    match stream.read_exact(&mut bytes).await {
        Ok(_) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(ProxyError::NotSocks(proxy.addr)),
        Err(error) => Err(proxy.unreachable(error)),
    }
}

/// The meaning of a reply's code; `None`: success.
fn refusal(code: u8) -> Option<Refusal> {
    Some(match code {
        0 => return None,
        1 => Refusal::General,
        2 => Refusal::Forbidden,
        // Linux's proxies give 8, "address type not supported", for a family that they have no route for.
        3 | 8 => Refusal::Network,
        // The time to live ran out on the way there.
        4 | 6 => Refusal::Host,
        5 => Refusal::Connection,
        _ => Refusal::Unknown(code.into()),
    })
}

/// The header of a datagram to `destination` through a relay (RFC 1928 §7), and the datagram.
pub(crate) fn wrap(out: &mut Vec<u8>, destination: &Destination, payload: &[u8]) {
    out.clear();
    out.extend_from_slice(&[0, 0, 0]);
    put_destination(out, destination);
    out.extend_from_slice(payload);
}

/// The sender and the payload of what a relay passes on; `None` for a part of a datagram.
pub(crate) fn unwrap(datagram: &[u8]) -> Option<(Destination, &[u8])> {
    // RFC 1928 §7: an implementation that does not reassemble fragments MUST drop them.
    let rest = datagram.strip_prefix(&[0, 0, 0])?;
    let (&kind, rest) = rest.split_first()?;
    let port = |rest: &[u8]| rest.first_chunk().map(|port| u16::from_be_bytes(*port));
    let (from, rest) = match kind {
        V4 => {
            let (octets, rest) = rest.split_first_chunk::<4>()?;
            (Destination::Addr(SocketAddr::new(IpAddr::from(*octets), port(rest)?)), rest)
        }
        V6 => {
            let (octets, rest) = rest.split_first_chunk::<16>()?;
            (Destination::Addr(SocketAddr::new(IpAddr::from(*octets), port(rest)?)), rest)
        }
        NAME => {
            let (&len, rest) = rest.split_first()?;
            let (name, rest) = rest.split_at_checked(len.into())?;
            (Destination::Name(Arc::from(str::from_utf8(name).ok()?), port(rest)?), rest)
        }
        _ => return None,
    };
    Some((from, rest.get(2..)?))
}

fn put_destination(out: &mut Vec<u8>, destination: &Destination) {
    match destination {
        Destination::Addr(SocketAddr::V4(addr)) => {
            out.push(V4);
            out.extend_from_slice(&addr.ip().octets());
        }
        Destination::Addr(SocketAddr::V6(addr)) => {
            out.push(V6);
            out.extend_from_slice(&addr.ip().octets());
        }
        Destination::Name(name, _) => {
            let name = &name.as_bytes()[..name.len().min(255)]; // a name of DNS has at most 253
            out.extend_from_slice(&[NAME, name.len() as u8]);
            out.extend_from_slice(name);
        }
    }
    out.extend_from_slice(&destination.port().to_be_bytes());
}

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
        let addr = |text: &str| Destination::Addr(text.parse().unwrap());
        for to in [
            addr("192.0.2.7:53"),
            addr("[2001:db8::7]:53"),
            Destination::Name("example.org".into(), 53),
            Destination::Name("".into(), 1),
        ] {
            wrap(&mut wrapped, &to, b"data");
            assert_eq!(unwrap(&wrapped), Some((to.clone(), &b"data"[..])));
            for len in 0..wrapped.len() - 4 {
                assert_eq!(unwrap(&wrapped[..len]), None, "{len} bytes of {to}");
            }
        }
    }

    #[test]
    fn a_fragment_and_what_is_no_address_are_dropped() {
        assert_eq!(unwrap(&[0, 0, 1, V4, 192, 0, 2, 7, 0, 53, 1]), None);
        assert_eq!(unwrap(&[0, 0, 0, NAME, 1, 0xff, 0, 53, 1]), None);
        assert_eq!(unwrap(&[0, 0, 0, 9, 192, 0, 2, 7, 0, 53, 1]), None);
    }

    #[test]
    fn credentials_are_sent_with_their_lengths() {
        let credentials: Credentials = "user:pass:word\n".parse().unwrap();
        assert_eq!(message(&credentials), b"\x01\x04user\x09pass:word");
    }
}
