//! TUN interfaces of systems for which this crate has no device, by the crate `tun-rs`: utun of macOS, Wintun
//! of Windows.
//!
//! `tun-rs` puts utun's four bytes of address family before each packet and takes them off, keeps Wintun's
//! rings, and sets addresses and MTU. Here is what a stack needs beyond that: a packet that finds no room is
//! kept, and errors are told apart.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::task::{Context, Poll};

use ackclock_wire::Cidr;
use tun_rs::{AsyncDevice, DeviceBuilder};

use super::{IpOver, PacketIo, Waiting, closed};

/// A TUN interface of the operating system, by the crate `tun-rs`.
///
/// It has not run on macOS or Windows: there it is only type-checked. On Linux, where the tests run it,
/// [`open`](crate::open) is faster and finds more errors.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ackclock_device::over::TunRs;
/// // The kernel's end has the address given, and the stack another one of its network.
/// let device = TunRs::open(None, &["10.9.0.1/24".parse()?], 1500)?;
/// println!("{}", device.carrier().name()?);
/// # Ok(())
/// # }
/// ```
pub struct TunRs(Kept<AsyncDevice>);

/// Why there is no interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunRsError {
    /// The right is missing.
    #[error("making a TUN interface takes root, or an administrator on Windows: start the program as one")]
    Forbidden(#[source] io::Error),
    /// The library of Wintun cannot be loaded.
    #[error(
        "wintun.dll cannot be loaded ({0}): put the file for this processor from https://www.wintun.net \
         beside the program"
    )]
    NoWintun(#[source] io::Error),
    /// The name is none of the system's.
    #[error("{name:?} cannot be the name of a TUN interface: on macOS use utun and a number, or give none")]
    Name {
        /// The name given.
        name: String,
        /// The answer of the crate.
        source: io::Error,
    },
    /// Two addresses of IPv4.
    #[error("a TUN interface gets one IPv4 address, and {second} would be the second: leave it out")]
    SecondIpv4 {
        /// The address.
        second: Cidr,
    },
    /// Anything else.
    #[error("no TUN interface can be made: {0}")]
    Other(#[source] io::Error),
}

impl TunRs {
    /// Makes an interface with these addresses of the kernel's, of IPv4 at most one, and packets of at most
    /// `mtu` bytes, and brings it up. It ends with the device. Without a name, the system chooses one.
    ///
    /// It takes root, on Windows an administrator and `wintun.dll` beside the program.
    ///
    /// # Errors
    /// See [`TunRsError`].
    ///
    /// # Panics
    /// Outside a tokio runtime, on Unix.
    pub fn open(name: Option<&str>, kernel: &[Cidr], mtu: u16) -> Result<IpOver<Self>, TunRsError> {
        let plan = Plan::new(kernel)?;
        let mut builder = DeviceBuilder::new().mtu(mtu).enable(true);
        if let Some(name) = name {
            builder = builder.name(name);
        }
        if let Some((addr, prefix)) = plan.v4 {
            builder = builder.ipv4(addr, prefix, None);
        }
        let device = builder.ipv6_tuple(&plan.v6).build_async().map_err(|error| explain(error, name))?;
        Ok(IpOver::new(Self::new(device), mtu.into()))
    }

    /// Takes an interface that the program has made with more choices.
    #[must_use]
    pub fn new(device: AsyncDevice) -> Self {
        Self(Kept::new(device))
    }

    /// The interface's name.
    ///
    /// # Errors
    /// The interface was deleted.
    pub fn name(&self) -> io::Result<String> {
        self.0.calls.name()
    }
}

impl fmt::Debug for TunRs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunRs").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl PacketIo for TunRs {
    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_receive(cx, buffer)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        self.0.send(packet)
    }
}

/// Calls to `tun-rs`, so that tests can answer in its place.
trait Calls {
    fn poll_recv(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;
    fn poll_send(&self, cx: &mut Context<'_>, packet: &[u8]) -> Poll<io::Result<usize>>;
    fn try_send(&self, packet: &[u8]) -> io::Result<usize>;
}

impl Calls for AsyncDevice {
    fn poll_recv(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Self::poll_recv(self, cx, buffer)
    }

    fn poll_send(&self, cx: &mut Context<'_>, packet: &[u8]) -> Poll<io::Result<usize>> {
        Self::poll_send(self, cx, packet)
    }

    fn try_send(&self, packet: &[u8]) -> io::Result<usize> {
        Self::try_send(self, packet)
    }
}

/// An interface, and a packet that found no room: its sending can only be waited for with the packet in hand.
struct Kept<C> {
    calls: C,
    packet: Vec<u8>,
    waiting: Waiting,
}

impl<C: Calls> Kept<C> {
    fn new(calls: C) -> Self {
        Self { calls, packet: Vec::new(), waiting: Waiting::new() }
    }

    /// Sends the packet that is kept, on behalf of the receiving task, which never stops asking.
    fn go_on(&mut self) -> io::Result<()> {
        if self.packet.is_empty() {
            return Ok(());
        }
        let receiver = self.waiting.receiver.clone();
        let sent = self.calls.poll_send(&mut Context::from_waker(&receiver), &self.packet);
        let Poll::Ready(sent) = sent else { return Ok(()) };
        self.packet.clear();
        self.waiting.room();
        match sent.map_err(judge) {
            // It was counted as sent. Any network may lose it now.
            Err(error) if is_loss(&error) => Ok(()),
            sent => sent.map(drop),
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.waiting.receiver.clone_from(cx.waker());
        self.go_on()?;
        match self.calls.poll_recv(cx, buffer) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(closed())),
            polled => polled,
        }
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.go_on()?;
        if self.packet.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.waiting.sender = Some(cx.waker().clone());
        Poll::Pending
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        if !self.packet.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match self.calls.try_send(packet) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.packet.extend_from_slice(packet);
                self.go_on()
            }
            sent => sent.map(drop).map_err(judge),
        }
    }
}

/// An error of the system as one of those that [`PacketIo::send`] has, if it is of one packet.
fn judge(error: io::Error) -> io::Error {
    let kind = match error.kind() {
        // utun has no memory for the packet; Wintun's ring is full.
        _ if is_no_memory(&error) => io::ErrorKind::WouldBlock,
        // The interface is down, which an administrator may change.
        io::ErrorKind::NetworkDown | io::ErrorKind::HostUnreachable => io::ErrorKind::NetworkUnreachable,
        _ if is_too_long(&error) => io::ErrorKind::InvalidInput,
        _ => return error,
    };
    io::Error::new(kind, error)
}

fn is_loss(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, NetworkUnreachable, WouldBlock};
    matches!(error.kind(), InvalidInput | NetworkUnreachable | WouldBlock)
}

#[cfg(unix)]
fn is_no_memory(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

#[cfg(unix)]
fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// `tun-rs` reports a full ring as [`io::ErrorKind::WouldBlock`].
#[cfg(not(unix))]
fn is_no_memory(_: &io::Error) -> bool {
    false
}

/// The ring takes packets of 65,535 bytes, and a device sends none that is longer.
#[cfg(not(unix))]
fn is_too_long(_: &io::Error) -> bool {
    false
}

/// Addresses in the form of `tun-rs`.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    v4: Option<(Ipv4Addr, u8)>,
    v6: Vec<(Ipv6Addr, u8)>,
}

impl Plan {
    fn new(kernel: &[Cidr]) -> Result<Self, TunRsError> {
        let mut plan = Self { v4: None, v6: Vec::new() };
        for &address in kernel {
            match address.addr() {
                IpAddr::V6(addr) => plan.v6.push((addr, address.prefix_len())),
                IpAddr::V4(_) if plan.v4.is_some() => return Err(TunRsError::SecondIpv4 { second: address }),
                IpAddr::V4(addr) => plan.v4 = Some((addr, address.prefix_len())),
            }
        }
        Ok(plan)
    }
}

fn explain(error: io::Error, name: Option<&str>) -> TunRsError {
    match (error.kind(), name) {
        (io::ErrorKind::PermissionDenied, _) => TunRsError::Forbidden(error),
        (io::ErrorKind::InvalidInput, Some(name)) => {
            TunRsError::Name { name: name.to_owned(), source: error }
        }
        _ if cfg!(windows) && error.to_string().contains("LoadLibrary") => TunRsError::NoWintun(error),
        _ => TunRsError::Other(error),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::*;

    /// The system: it has room for some packets, keeps the waker of the last call that waits, and fails on
    /// demand.
    #[derive(Default)]
    struct Fake {
        room: RefCell<usize>,
        sent: RefCell<Vec<Vec<u8>>>,
        error: RefCell<Option<io::Error>>,
        arriving: RefCell<VecDeque<Vec<u8>>>,
        waiting: RefCell<Option<Waker>>,
    }

    impl Calls for Fake {
        fn poll_recv(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
            let Some(packet) = self.arriving.borrow_mut().pop_front() else {
                *self.waiting.borrow_mut() = Some(cx.waker().clone());
                return Poll::Pending;
            };
            buffer[..packet.len()].copy_from_slice(&packet);
            Poll::Ready(Ok(packet.len()))
        }

        fn poll_send(&self, cx: &mut Context<'_>, packet: &[u8]) -> Poll<io::Result<usize>> {
            match self.try_send(packet) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    *self.waiting.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                }
                sent => Poll::Ready(sent),
            }
        }

        fn try_send(&self, packet: &[u8]) -> io::Result<usize> {
            if let Some(error) = self.error.borrow_mut().take() {
                return Err(error);
            }
            let mut room = self.room.borrow_mut();
            *room = room.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
            self.sent.borrow_mut().push(packet.to_vec());
            Ok(packet.len())
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A device that the system refused a packet for lack of room.
    fn full() -> Kept<Fake> {
        let mut kept = Kept::new(Fake::default());
        kept.send(b"first").unwrap();
        kept
    }

    #[test]
    fn a_packet_without_room_is_kept_and_sent_first() {
        let mut kept = full();
        let (receiver, sender) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let (receiving, sending) = (Waker::from(Arc::clone(&receiver)), Waker::from(Arc::clone(&sender)));
        let (mut receiving, mut sending) = (Context::from_waker(&receiving), Context::from_waker(&sending));
        assert!(kept.poll_receive(&mut receiving, &mut [0; 9]).is_pending());
        assert!(kept.poll_send_ready(&mut sending).is_pending());
        assert_eq!(kept.send(b"second").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        *kept.calls.room.borrow_mut() = 2;
        // The waker of the last call is the receiving task's, which goes on with the packet.
        kept.calls.waiting.take().unwrap().wake();
        assert_eq!((receiver.0.load(Ordering::Relaxed), sender.0.load(Ordering::Relaxed)), (1, 0));
        assert!(kept.poll_receive(&mut receiving, &mut [0; 9]).is_pending());
        assert_eq!(sender.0.load(Ordering::Relaxed), 1);
        assert!(matches!(kept.poll_send_ready(&mut sending), Poll::Ready(Ok(()))));
        kept.send(b"second").unwrap();
        assert_eq!(*kept.calls.sent.borrow(), [b"first".to_vec(), b"second".to_vec()]);
    }

    #[test]
    fn a_packet_arrives_and_the_end_of_the_interface_is_an_error() {
        let mut kept = Kept::new(Fake::default());
        kept.calls.arriving.borrow_mut().extend([b"packet".to_vec(), Vec::new()]);
        let (mut cx, mut buffer) = (Context::from_waker(Waker::noop()), [0; 9]);
        assert!(matches!(kept.poll_receive(&mut cx, &mut buffer), Poll::Ready(Ok(6))));
        assert_eq!(&buffer[..6], b"packet");
        let Poll::Ready(Err(error)) = kept.poll_receive(&mut cx, &mut buffer) else { panic!("an error") };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[cfg(unix)]
    #[test]
    fn errors_of_one_packet_do_not_end_the_device() {
        use io::ErrorKind::{InvalidInput, NetworkUnreachable, WouldBlock};
        for (number, kind) in [
            (libc::ENOBUFS, WouldBlock),
            (libc::EMSGSIZE, InvalidInput),
            (libc::ENETDOWN, NetworkUnreachable),
        ] {
            let error = || Some(io::Error::from_raw_os_error(number));
            let mut kept = Kept::new(Fake::default());
            *kept.calls.error.borrow_mut() = error();
            assert_eq!(kept.send(b"packet").unwrap_err().kind(), kind);
            let mut kept = full();
            *kept.calls.error.borrow_mut() = error();
            let mut cx = Context::from_waker(Waker::noop());
            assert!(matches!(kept.poll_send_ready(&mut cx), Poll::Ready(Ok(()))), "it is lost");
        }
        let mut kept = Kept::new(Fake::default());
        *kept.calls.error.borrow_mut() = Some(io::Error::from_raw_os_error(libc::ENXIO));
        assert_eq!(kept.send(b"packet").unwrap_err().raw_os_error(), Some(libc::ENXIO));
    }

    #[test]
    fn an_interface_has_one_ipv4_address_and_any_number_of_ipv6() {
        let plan = |words: &[&str]| {
            let kernel: Vec<Cidr> = words.iter().map(|word| word.parse().unwrap()).collect();
            Plan::new(&kernel).map_err(|error| error.to_string())
        };
        let made = plan(&["10.9.0.1/24", "fd09::1/64", "fd0a::1/48"]).unwrap();
        assert_eq!(made.v4, Some(("10.9.0.1".parse().unwrap(), 24)));
        assert_eq!(made.v6, [("fd09::1".parse().unwrap(), 64), ("fd0a::1".parse().unwrap(), 48)]);
        assert!(
            plan(&["10.9.0.1/24", "10.8.0.1/24"]).unwrap_err().contains("10.8.0.1/24 would be the second")
        );
    }

    #[test]
    fn each_refusal_has_its_own_advice() {
        let told = |kind: io::ErrorKind, name| explain(kind.into(), name).to_string();
        assert!(told(io::ErrorKind::PermissionDenied, None).contains("takes root"));
        assert!(told(io::ErrorKind::InvalidInput, Some("tun0")).contains("\"tun0\" cannot be the name"));
        assert!(told(io::ErrorKind::Other, None).contains("no TUN interface can be made"));
    }
}
