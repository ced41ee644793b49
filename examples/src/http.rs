//! An HTTP client on a connection of any kind.

use anyhow::ensure;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// A client that sends its requests one after the other on one connection.
#[derive(Debug)]
pub struct Client {
    sender: SendRequest<Empty<Bytes>>,
}

impl Client {
    /// A client on this connection; a task does its work.
    ///
    /// # Errors
    /// As hyper's.
    pub async fn new(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> anyhow::Result<Self> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Fetches `path`.
    ///
    /// # Errors
    /// The connection fails, or the answer is not 200.
    pub async fn get(&mut self, path: &str) -> anyhow::Result<Bytes> {
        self.sender.ready().await?;
        let request = Request::get(path).header(HOST, "server").body(Empty::new())?;
        let answer = self.sender.send_request(request).await?;
        ensure!(answer.status() == StatusCode::OK, "{path}: {}", answer.status());
        Ok(answer.into_body().collect().await?.to_bytes())
    }
}
