//! Turns the core's errors into `std::io::Error`s of the kind that the kernel's sockets would give.
//!
//! An `io::Error` holds either an operating system's error number or a custom error, never both. Where the
//! number carries all the information of the core's error, and programs look for it
//! ([`io::Error::raw_os_error`]), it is the number: a reset, a refused connection, a broken pipe, an address
//! in use, a socket that is not connected. [`connection_error`] recovers the core's error. Everything with
//! more information (which address, which limit, which timeout, what to do) is the core's error, which
//! `get_ref` and `downcast` find; its `raw_os_error` is `None`.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use ackclock_core::{
    ConnectError, ConnectionError, IcmpError, ListenError, OptionError, OtherError, ReadError,
    UdpSocketError, WriteError,
};

/// Why a stack no longer serves calls. Every pending and later call fails with it, inside an [`io::Error`] of
/// kind [`ErrorKind::NetworkDown`].
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
    /// [`Stack::drain`](crate::Stack::drain) was called: new connections and listeners are refused. Existing
    /// connections are not affected.
    #[error("the stack drains: it takes no new connections and listeners")]
    Draining,
    /// [`Stack::hand_over`](crate::Stack) gave everything to another process.
    #[error("the stack was handed over: another process goes on with its connections")]
    HandedOver,
    /// The stack's driver has ended: its tokio runtime, or its [`Port`](crate::Port).
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
    match error {
        ConnectionError::Refused => os(Number::Refused, error),
        ConnectionError::Reset => os(Number::Reset, error),
        _ => io::Error::new(connection_kind(error), error),
    }
}

/// How the connection ended, if a stream's error says so.
///
/// ```
/// use ackclock::{ConnectionError, connection_error};
/// # use ackclock::Stack;
/// # use ackclock_device::memory;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (left, right) = memory::pair(memory::Config::default());
/// # let stack = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
/// # let _other = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
/// let error = stack.connect("10.0.0.2:80".parse()?).await.unwrap_err();
/// assert_eq!(connection_error(&error), Some(ConnectionError::Refused));
/// # Ok(()) }
/// ```
#[must_use]
pub fn connection_error(error: &io::Error) -> Option<ConnectionError> {
    match error.get_ref() {
        Some(inner) => inner.downcast_ref().copied(),
        None if error.kind() == ErrorKind::ConnectionRefused => Some(ConnectionError::Refused),
        None if error.kind() == ErrorKind::ConnectionReset => Some(ConnectionError::Reset),
        None => None,
    }
}

/// Whether an option is read or set.
#[derive(Clone, Copy)]
pub(crate) enum Access {
    Get,
    Set,
}

/// A socket for IPv4 has no options of IPv6.
pub(crate) fn no_such_option(access: Access) -> io::Error {
    #[cfg(unix)]
    return io::Error::from_raw_os_error(match access {
        Access::Get => libc::EOPNOTSUPP,
        Access::Set => libc::ENOPROTOOPT,
    });
    #[cfg(not(unix))]
    {
        let call = match access {
            Access::Get => "tos_v4",
            Access::Set => "set_tos_v4",
        };
        io::Error::new(
            ErrorKind::Unsupported,
            format!("a socket for IPv4 has no traffic class: call `{call}`"),
        )
    }
}

/// Errors for which the operating system's number carries all the information.
#[derive(Clone, Copy, Debug)]
enum Number {
    Refused,
    Reset,
    BrokenPipe,
    AddressInUse,
    NotConnected,
}

/// The error of this number on systems with Unix's numbers, and the core's own elsewhere.
fn os(number: Number, own: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    #[cfg(unix)]
    {
        drop(own.into());
        io::Error::from_raw_os_error(match number {
            Number::Refused => libc::ECONNREFUSED,
            Number::Reset => libc::ECONNRESET,
            Number::BrokenPipe => libc::EPIPE,
            Number::AddressInUse => libc::EADDRINUSE,
            Number::NotConnected => libc::ENOTCONN,
        })
    }
    #[cfg(not(unix))]
    io::Error::new(
        match number {
            Number::Refused => ErrorKind::ConnectionRefused,
            Number::Reset => ErrorKind::ConnectionReset,
            Number::BrokenPipe => ErrorKind::BrokenPipe,
            Number::AddressInUse => ErrorKind::AddrInUse,
            Number::NotConnected => ErrorKind::NotConnected,
        },
        own,
    )
}

pub(crate) fn connect(error: ConnectError) -> io::Error {
    let kind = match error {
        // Nothing can listen on port 0: a SYN to it would only find that out.
        ConnectError::InvalidRemote(remote) if remote.port() == 0 => return os(Number::Refused, error),
        ConnectError::InvalidRemote(_) => ErrorKind::NetworkUnreachable,
        ConnectError::NoLocalAddress(_) | ConnectError::NotLocal(_) | ConnectError::AddressInUse(_) => {
            ErrorKind::AddrNotAvailable
        }
        ConnectError::TooManyConnections(_) => ErrorKind::QuotaExceeded,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

pub(crate) fn listen(error: ListenError) -> io::Error {
    let kind = match error {
        ListenError::AddressInUse => return os(Number::AddressInUse, error),
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
        ReadError::NotConnected => os(Number::NotConnected, error),
        _ => io::Error::other(error),
    }
}

pub(crate) fn write(error: WriteError) -> io::Error {
    match error {
        WriteError::WouldBlock => ErrorKind::WouldBlock.into(),
        WriteError::Connection(error) => connection(error),
        WriteError::NotConnected => os(Number::NotConnected, error),
        WriteError::Shutdown => os(Number::BrokenPipe, error),
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
        Udp::AddressInUse | Udp::AlreadyJoined(_) => ErrorKind::AddrInUse,
        Udp::TooManySockets(_) | Udp::TooManyGroups(_) => ErrorKind::QuotaExceeded,
        Udp::NotLocal(_) | Udp::NoLocalAddress(_) | Udp::NotJoined(_) => ErrorKind::AddrNotAvailable,
        Udp::NoMemory => ErrorKind::OutOfMemory,
        _ => ErrorKind::InvalidInput,
    };
    io::Error::new(kind, error)
}

pub(crate) fn option(error: OptionError) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, error)
}

/// Time to live, or hop limit.
pub(crate) fn ttl(ttl: u32) -> io::Result<u8> {
    let ttl = u8::try_from(ttl).ok().filter(|ttl| *ttl > 0);
    ttl.ok_or_else(|| out_of_range("ttl", "1 to 255"))
}

/// The smallest buffers of a socket. Smaller sizes are raised to these, as on Linux (by what `getsockopt`
/// reports for a buffer of one byte on x86-64).
pub(crate) const SEND_BUFFER_LEAST: usize = 4608;
pub(crate) const RECEIVE_BUFFER_LEAST: usize = 2304;

pub(crate) fn send_buffer(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX).max(SEND_BUFFER_LEAST)
}

pub(crate) fn receive_buffer(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX).max(RECEIVE_BUFFER_LEAST)
}

/// A value that an option does not accept.
pub(crate) fn out_of_range(option: &'static str, range: &'static str) -> io::Error {
    self::option(OptionError::OutOfRange { option, range })
}

/// The endpoint no longer knows the connection of this handle.
pub(crate) fn not_connected() -> io::Error {
    os(Number::NotConnected, ReadError::NotConnected)
}

fn connection_kind(error: ConnectionError) -> ErrorKind {
    match error {
        ConnectionError::TimedOut | ConnectionError::KeepaliveTimedOut | ConnectionError::IdleTimedOut => {
            ErrorKind::TimedOut
        }
        // As the kernel does: an unserved port or protocol refuses, and every other error on the path means
        // unreachable.
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
        let error = connection(ConnectionError::TimedOut);
        assert_eq!((error.kind(), error.raw_os_error()), (ErrorKind::TimedOut, None));
        assert_eq!(error.downcast::<ConnectionError>().unwrap(), ConnectionError::TimedOut);
    }

    #[test]
    fn each_end_of_a_connection_is_found_again() {
        for error in [
            ConnectionError::Refused,
            ConnectionError::Reset,
            ConnectionError::TimedOut,
            ConnectionError::KeepaliveTimedOut,
            ConnectionError::IdleTimedOut,
            ConnectionError::Unreachable(IcmpError::Host),
            ConnectionError::Aborted,
            ConnectionError::OutOfMemory,
        ] {
            assert_eq!(connection_error(&connection(error)), Some(error));
        }
        assert_eq!(connection_error(&write(WriteError::Shutdown)), None);
    }

    #[cfg(unix)]
    #[test]
    fn what_the_systems_number_says_is_that_number() {
        assert_eq!(connection(ConnectionError::Reset).raw_os_error(), Some(libc::ECONNRESET));
        assert_eq!(write(WriteError::Shutdown).raw_os_error(), Some(libc::EPIPE));
        assert_eq!(listen(ListenError::AddressInUse).kind(), ErrorKind::AddrInUse);
        assert_eq!(not_connected().kind(), ErrorKind::NotConnected);
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
