//! The client's side of CONNECT (RFC 9110 §9.3.6), with user name and password (RFC 7617).

use std::io;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::proxy::{Destination, Proxy, ProxyError, Refusal};

/// Has the proxy connect this stream to `destination`.
pub(crate) async fn connect(
    proxy: &Proxy,
    stream: &mut TcpStream,
    destination: &Destination,
) -> Result<(), ProxyError> {
    stream
        .write_all(request(proxy, destination).as_bytes())
        .await
        .map_err(|error| proxy.unreachable(error))?;
    let head = read_head(stream).await.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => ProxyError::NotHttp(proxy.addr),
        _ => proxy.unreachable(error),
    })?;
    match status(&head).ok_or(ProxyError::NotHttp(proxy.addr))? {
        200..=299 => Ok(()),
        401 | 407 if proxy.credentials.is_some() => Err(ProxyError::CredentialsRefused),
        401 | 407 => Err(ProxyError::CredentialsWanted),
        403 | 405 => Err(Refusal::Forbidden.into()),
        502 => Err(Refusal::Connection.into()),
        503 => Err(Refusal::Network.into()),
        504 => Err(Refusal::Host.into()),
        other => Err(Refusal::Unknown(other).into()),
    }
}

fn request(proxy: &Proxy, destination: &Destination) -> String {
    let mut request = format!("CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n");
    if let Some(credentials) = &proxy.credentials {
        let said = BASE64_STANDARD.encode(format!("{}:{}", credentials.user, credentials.password));
        request += &format!("Proxy-Authorization: Basic {said}\r\n");
    }
    request + "\r\n"
}

/// Reads the head of the answer and nothing behind it: a server may speak first, and what it says belongs to
/// the client.
async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut head, mut buf) = (Vec::new(), [0; 1024]);
    while head.len() < HEAD_MAX {
        let len = stream.peek(&mut buf).await?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let seen = head.len();
        head.extend_from_slice(&buf[..len]);
        // The end may have begun in what was taken before.
        let from = seen.saturating_sub(END.len() - 1);
        let end = head[from..].windows(END.len()).position(|bytes| bytes == END);
        head.truncate(end.map_or(head.len(), |at| from + at + END.len()));
        stream.read_exact(&mut buf[..head.len() - seen]).await?;
        if end.is_some() {
            return Ok(head);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// The number in `HTTP/1.1 200 Connection established`.
fn status(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.")?;
    str::from_utf8(rest.get(2..5)?).ok()?.parse().ok()
}

const END: &[u8] = b"\r\n\r\n";
/// The longest head.
const HEAD_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_status_is_three_digits_of_http_1() {
        assert_eq!(status(b"HTTP/1.1 200 Connection established\r\n\r\n"), Some(200));
        assert_eq!(status(b"HTTP/1.0 407\r\n\r\n"), Some(407));
        for wrong in [&b"HTTP/2 200"[..], b"HTTP/1.1 2", b"", b"SSH-2.0-x", b"HTTP/1.1 abc"] {
            assert_eq!(status(wrong), None);
        }
    }

    #[tokio::test]
    async fn a_head_is_read_whatever_its_parts_and_nothing_behind_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let all = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nSSH-2.0";
        for cut in 1..all.len() {
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut far, _) = listener.accept().await.unwrap();
            far.set_nodelay(true).unwrap();
            let parts = async {
                far.write_all(&all[..cut]).await.unwrap();
                tokio::task::yield_now().await;
                far.write_all(&all[cut..]).await.unwrap();
                drop(far);
            };
            let (head, ()) = tokio::join!(read_head(&mut near), parts);
            assert_eq!(head.unwrap(), all[..all.len() - 7], "cut at {cut}");
            let mut rest = Vec::new();
            near.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, b"SSH-2.0", "cut at {cut}");
        }
    }
}
