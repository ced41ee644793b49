//! axum: [`TcpListener`] serves a router as tokio's does.

use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use ::axum::extract::connect_info::Connected;
use ::axum::serve::{IncomingStream, Listener};

use super::Addresses;
use crate::{TcpListener, TcpStream};

/// Never fails and never spins: an error of `accept` means that the stack takes no more connections, and from
/// then on the call does not return. Use [`Stack::closing`](crate::Stack::closing) to end the server.
impl Listener for TcpListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        match Self::accept(self).await {
            Ok(accepted) => accepted,
            Err(_) => pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }
}

impl Connected<IncomingStream<'_, TcpListener>> for Addresses {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        // Without a stack no request can arrive that would show it.
        Self::of(stream.io()).unwrap_or(Self { local: UNKNOWN, peer: *stream.remote_addr() })
    }
}

const UNKNOWN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
