//! [`Runtime`]: runs hickory's resolver on the stack's own sockets and tokio's tasks and time.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hickory_resolver::net::runtime::iocompat::AsyncIoTokioAsStd;
use hickory_resolver::net::runtime::{DnsUdpSocket, RuntimeProvider, TokioHandle, TokioTime};
use tokio::io::ReadBuf;
use tokio::time::timeout;

use crate::shards::{Handle, Shards};
use crate::{Stack, StackError, TcpStream, UdpSocket};

/// A stack that provides sockets while it is up.
#[derive(Clone)]
pub(super) struct Runtime {
    stack: Weak<Shards>,
    tasks: TokioHandle,
}

/// One of the stack's sockets, in the shape that hickory expects.
pub(super) struct Socket(UdpSocket);

type Opening<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

impl Runtime {
    pub(super) fn new(stack: Weak<Shards>) -> Self {
        Self { stack, tasks: TokioHandle::default() }
    }

    fn stack(&self) -> io::Result<Stack> {
        let shards = self.stack.upgrade().ok_or(StackError::Shutdown)?;
        let first = shards.refs().next().ok_or(StackError::Shutdown)?;
        Ok(Stack::new(Handle::new(first)))
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

/// How long a connection to a name server may take if hickory sets no time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
