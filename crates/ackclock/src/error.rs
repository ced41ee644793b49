//! How errors of the core become `std::io::Error`s: the kind that the kernel's sockets would give, with the core's
//! error inside, where `get_ref` and `downcast` find it.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use ackclock_core::{
    ConnectError, ConnectionError, IcmpError, ListenError, OptionError, OtherError, ReadError,
    UdpSocketError, WriteError,
};

/// Why a stack serves no call any more. Every pending and later call fails with it, inside an [`io::Error`] of kind
/// [`ErrorKind::NetworkDown`].
///
/// ```
/// use std::io::ErrorKind;
/// # use ackclock::{Stack, StackError};
/// # use ackclock_device::memory;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (device, _other) = memory::pair(memory::Config::default());
/// # let stack = Stack::builder().device(device).address("10.0.0.1/24".parse()?).spawn()?;
/// stack.shutdown().await;
/// let error = stack.connect("10.0.0.2:80".parse()?).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NetworkDown);
/// assert!(matches!(error.downcast::<StackError>()?, StackError::Shutdown));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// The device failed or was removed.
    #[error("the network device is gone: {0}")]
    Device(Arc<io::Error>),
    /// [`Stack::shutdown`](crate::Stack::shutdown) was called.
    #[error("the stack has been shut down")]
    Shutdown,
    /// What drove the stack has ended: its tokio runtime, or its [`Port`](crate::Port).
    #[error("the stack's driver has ended: its runtime was shut down, or its port dropped")]
    DriverGone,
}

/// No route leads to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no route to {0}: add one that contains it when the stack is built")]
pub struct NoRoute(pub std::net::IpAddr);

impl From<StackError> for io::Error {
    fn from(error: StackError) -> Self {
        Self::new(ErrorKind::NetworkDown, error)
    }
}

impl From<NoRoute> for io::Error {
    fn from(error: NoRoute) -> Self {
        Self::new(ErrorKind::NetworkUnreachable, error)
    }
}

pub(crate) fn connection(error: ConnectionError) -> io::Error {
    io::Error::new(connection_kind(error), error)
}

pub(crate) fn connect(error: ConnectError) -> io::Error {
    let kind = match error {
        ConnectError::InvalidRemote(_) => ErrorKind::InvalidInput,
        ConnectError::NoLocalAddress(_) | ConnectError::NotLocal(_) => ErrorKind::AddrNotAvailable,
        ConnectError::AddressInUse(_) => ErrorKind::AddrInUse,
        ConnectError::TooManyConnections(_) => ErrorKind::QuotaExceeded,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

pub(crate) fn listen(error: ListenError) -> io::Error {
    let kind = match error {
        ListenError::AddressInUse => ErrorKind::AddrInUse,
        ListenError::NotLocal(_) => ErrorKind::AddrNotAvailable,
        ListenError::TooManyListeners(_) | ListenError::TooManyOnAddress(_) => ErrorKind::QuotaExceeded,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

pub(crate) fn read(error: ReadError) -> io::Error {
    match error {
        ReadError::WouldBlock => ErrorKind::WouldBlock.into(),
        ReadError::Connection(error) => connection(error),
        ReadError::NotConnected => io::Error::new(ErrorKind::NotConnected, error),
        _ => io::Error::other(error),
    }
}

pub(crate) fn write(error: WriteError) -> io::Error {
    match error {
        WriteError::WouldBlock => ErrorKind::WouldBlock.into(),
        WriteError::Connection(error) => connection(error),
        WriteError::NotConnected => io::Error::new(ErrorKind::NotConnected, error),
        WriteError::Shutdown => io::Error::new(ErrorKind::BrokenPipe, error),
        _ => io::Error::other(error),
    }
}

pub(crate) fn other(error: OtherError) -> io::Error {
    let kind = match error {
        OtherError::Full => ErrorKind::WouldBlock,
        OtherError::Off => ErrorKind::NotConnected,
        OtherError::Malformed | OtherError::TooLong { .. } => ErrorKind::InvalidInput,
        OtherError::NoMemory => ErrorKind::OutOfMemory,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

pub(crate) fn udp(error: UdpSocketError) -> io::Error {
    use UdpSocketError as Udp;
    let kind = match error {
        Udp::WouldBlock => return ErrorKind::WouldBlock.into(),
        Udp::Refused => ErrorKind::ConnectionRefused,
        Udp::NotConnected | Udp::Closed => ErrorKind::NotConnected,
        Udp::AddressInUse => ErrorKind::AddrInUse,
        Udp::TooManySockets(_) => ErrorKind::QuotaExceeded,
        Udp::NotLocal(_) | Udp::NoLocalAddress(_) => ErrorKind::AddrNotAvailable,
        Udp::NoMemory => ErrorKind::OutOfMemory,
        _ => ErrorKind::InvalidInput,
    };
    io::Error::new(kind, error)
}

pub(crate) fn option(error: OptionError) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, error)
}

/// A value that an option does not take.
pub(crate) fn out_of_range(option: &'static str, range: &'static str) -> io::Error {
    self::option(OptionError::OutOfRange { option, range })
}

/// The connection behind a handle is no longer known to the endpoint.
pub(crate) fn not_connected() -> io::Error {
    ErrorKind::NotConnected.into()
}

fn connection_kind(error: ConnectionError) -> ErrorKind {
    match error {
        ConnectionError::Refused => ErrorKind::ConnectionRefused,
        ConnectionError::Reset => ErrorKind::ConnectionReset,
        ConnectionError::TimedOut | ConnectionError::KeepaliveTimedOut => ErrorKind::TimedOut,
        // As the kernel does: a port or protocol that nobody serves refuses, all else on the way is unreachable.
        ConnectionError::Unreachable(IcmpError::Port | IcmpError::Protocol) => ErrorKind::ConnectionRefused,
        ConnectionError::Unreachable(IcmpError::Network) => ErrorKind::NetworkUnreachable,
        ConnectionError::Unreachable(_) => ErrorKind::HostUnreachable,
        ConnectionError::Aborted => ErrorKind::ConnectionAborted,
        ConnectionError::OutOfMemory => ErrorKind::OutOfMemory,
        _ => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cores_error_is_found_inside_the_io_error() {
        let error = connection(ConnectionError::Refused);
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(error.downcast::<ConnectionError>().unwrap(), ConnectionError::Refused);
    }

    #[test]
    fn would_block_is_a_plain_kind() {
        assert!(read(ReadError::WouldBlock).get_ref().is_none());
        assert_eq!(write(WriteError::WouldBlock).kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn unreachable_errors_keep_what_was_unreachable() {
        let kind = |icmp| connection(ConnectionError::Unreachable(icmp)).kind();
        assert_eq!(kind(IcmpError::Network), ErrorKind::NetworkUnreachable);
        assert_eq!(kind(IcmpError::Host), ErrorKind::HostUnreachable);
        assert_eq!(kind(IcmpError::Port), ErrorKind::ConnectionRefused);
    }
}
