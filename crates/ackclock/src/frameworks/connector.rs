//! [`Connector`]: opens connections for clients that expect a tower service.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tower_service::Service;

use crate::{Stack, TcpStream};

/// Opens connections from a stack: the transport of clients built on tower's `Service`. Dropping a call's
/// future gives up the attempt.
///
/// With the feature `hyper` it takes a `Uri`, for hyper-util's pooled client and for tonic's
/// `connect_with_connector`. The scheme supplies the port where the URI has none, and has no other effect:
/// TLS is a layer around this. Names are resolved as by [`TcpStream::connect`]. With the feature `tower` it
/// takes a `SocketAddr`.
///
/// reqwest does not accept a custom transport (its connector's type is sealed); use hyper-util's pooled
/// client on this connector instead.
#[cfg_attr(
    feature = "hyper",
    doc = r#"
```
# use ackclock::{Connector, Stack};
# use ackclock::device::memory;
# use tokio::io::{AsyncReadExt, AsyncWriteExt};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

# #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
# let (left, right) = memory::pair(memory::Config::default());
# let stack = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
# let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
# let listener = server.listen("10.0.0.2:80".parse()?)?;
# tokio::spawn(async move {
#     let (mut stream, _) = listener.accept().await.unwrap();
#     let mut request = [0; 1000];
#     stream.read(&mut request).await.unwrap();
#     stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
# });
let client: Client<_, String> = Client::builder(TokioExecutor::new()).build(Connector::new(stack));
let answer = client.get("http://10.0.0.2/".parse()?).await?;
assert_eq!(answer.status(), 204);
# Ok(()) }
```
"#
)]
#[derive(Clone, Debug)]
pub struct Connector {
    stack: Stack,
}

/// A connection attempt.
type Connecting<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

impl Connector {
    /// Opens connections from this stack, which stays up as long as the connector.
    #[must_use]
    pub fn new(stack: Stack) -> Self {
        Self { stack }
    }
}

#[cfg(feature = "tower")]
impl Service<std::net::SocketAddr> for Connector {
    type Response = TcpStream;
    type Error = io::Error;
    type Future = Connecting<TcpStream>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, addr: std::net::SocketAddr) -> Self::Future {
        let stack = self.stack.clone();
        Box::pin(async move { stack.connect(addr).await })
    }
}

#[cfg(feature = "hyper")]
mod hyper {
    use hyper_util::client::legacy::connect::{Connected, Connection};
    use hyper_util::rt::TokioIo;

    use super::*;
    use crate::frameworks::Addresses;

    impl Service<http::Uri> for Connector {
        type Response = TokioIo<TcpStream>;
        type Error = io::Error;
        type Future = Connecting<TokioIo<TcpStream>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, uri: http::Uri) -> Self::Future {
            let stack = self.stack.clone();
            Box::pin(async move {
                let stream = TcpStream::connect(&stack, host_and_port(&uri)?).await?;
                // As hyper's own connector does for HTTP: requests are written whole.
                stream.set_nodelay(true)?;
                Ok(TokioIo::new(stream))
            })
        }
    }

    impl Connection for TcpStream {
        fn connected(&self) -> Connected {
            let connected = Connected::new();
            match Addresses::of(self) {
                Some(addresses) => connected.extra(addresses),
                None => connected,
            }
        }
    }

    /// The destination of a URI. RFC 3986 §3.2.2 puts IPv6 addresses in brackets.
    fn host_and_port(uri: &http::Uri) -> io::Result<(String, u16)> {
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| no_host(uri))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = match (uri.port_u16(), uri.scheme_str()) {
            (Some(port), _) => port,
            (None, Some("https" | "wss")) => 443,
            (None, _) => 80,
        };
        Ok((host.to_owned(), port))
    }

    fn no_host(uri: &http::Uri) -> io::Error {
        let text = format!("`{uri}` names no host to connect to: write it as in http://10.0.0.2/");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn scheme_and_brackets_become_a_port_and_an_address() {
            for (uri, host, port) in [
                ("http://10.0.0.2/path", "10.0.0.2", 80),
                ("https://example.com", "example.com", 443),
                ("http://[fd00::2]:8080/", "fd00::2", 8080),
            ] {
                assert_eq!(host_and_port(&uri.parse().unwrap()).unwrap(), (host.to_owned(), port), "{uri}");
            }
            let error = host_and_port(&"/path".parse().unwrap()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("`/path` names no host"), "{error}");
        }
    }
}
