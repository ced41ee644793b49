//! A descriptor attached to an interface (TUN, TAP or packet socket) under tokio: readiness, hang-up, link
//! state and counters, shared by all backends.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use ackclock_wire::TxPacket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

use crate::error::is_fatal;
use crate::{Counters, OpenError, sys};

/// A non-blocking descriptor registered with the runtime.
pub(crate) struct TunFd {
    fd: Arc<AsyncFd<File>>,
    hangup: Pin<Box<dyn Future<Output = ()> + Send>>,
    gone: bool,
    attachment: Attachment,
    /// Opened with the device, and so in the device's network namespace.
    control: Arc<OwnedFd>,
    link: Cell<Link>,
    /// Whether the interface is asked for its state. One in another network namespace cannot be.
    asks: bool,
    /// Whether the last read found nothing, the runtime will report readiness, and nothing has been sent
    /// since.
    awaited: bool,
    /// Whether the runtime reported the descriptor as writable and the last packet found room.
    writable: bool,
    pub(crate) counters: Counters,
    /// The buffer for headers, and for whole short packets, so that one `write` suffices.
    gathered: Vec<u8>,
    /// A frame that a packet socket had no room for; it is sent next.
    held: Vec<u8>,
}

/// How to find the interface, whatever its present name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// By a descriptor of the TUN driver.
    Tun,
    /// By the interface number to which a packet socket is bound.
    Socket(libc::c_int),
}

/// The longest payload that is copied behind its header. A longer one is written from where it lies.
const COPIED_MAX: usize = 4096;

/// The last known state of the interface.
#[derive(Clone, Copy, Debug)]
struct Link {
    mtu: usize,
    up: bool,
    asked_at: Option<Instant>,
}

/// The result of reading one packet.
pub(crate) enum ReadStep {
    /// A packet was added to the batch.
    Added,
    /// A packet was read and discarded.
    Dropped,
    /// The batch is full; nothing was read.
    Full,
}

impl TunFd {
    /// Registers the attached, non-blocking `file` with the calling task's runtime.
    pub fn register(file: File, name: &str, attachment: Attachment) -> Result<Self, OpenError> {
        Handle::try_current().map_err(|_| OpenError::NoRuntime)?;
        let other = |source| OpenError::other(name, source);
        let control = Arc::new(sys::control_socket().map_err(other)?);
        #[expect(unsafe_code, reason = "tokio asks for a promise")]
        // SAFETY: `File` owns its descriptor, always returns the same one, and only the `AsyncFd` drops it.
        let fd = unsafe { AsyncFd::register(file) }.map_err(|error| other(error.into()))?;
        let fd = Arc::new(fd);
        let hangup = Box::pin(hangup(Arc::clone(&fd), attachment, Arc::clone(&control)));
        let link = Cell::new(Link { mtu: MTU_DEFAULT, up: true, asked_at: None });
        Ok(Self {
            fd,
            hangup,
            gone: false,
            attachment,
            control,
            link,
            asks: true,
            awaited: false,
            writable: false,
            counters: Counters::default(),
            gathered: Vec::new(),
            held: Vec::new(),
        })
    }

    /// Takes the MTU as given and the link as up, for an interface that cannot be asked. Without one, fails
    /// if the interface cannot be asked.
    pub fn with_mtu(mut self, mtu: Option<usize>) -> io::Result<Self> {
        match mtu {
            Some(mtu) => {
                self.asks = false;
                self.link.set(Link { mtu, up: true, asked_at: None });
            }
            None => self.link.set(Link { asked_at: Some(Instant::now()), ..self.ask_link()? }),
        }
        Ok(self)
    }

    /// Calls `read` until it reports a full batch or nothing is left.
    ///
    /// It reads without waiting for the runtime to report readiness, because packets mostly draw an answer at
    /// once, long before the runtime polls its descriptors again. Only a read that found nothing is not
    /// repeated before something was sent, or before the second call after it.
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut read: impl FnMut(&File, &mut Counters) -> io::Result<ReadStep>,
    ) -> Poll<io::Result<usize>> {
        if self.gone {
            return Poll::Ready(Err(gone()));
        }
        let mut found_nothing = std::mem::take(&mut self.awaited);
        let mut received = 0;
        loop {
            let mut guard = match self.fd.poll_read_ready(cx) {
                Poll::Ready(guard) => Some(guard?),
                Poll::Pending if found_nothing => return self.await_more(cx, received),
                Poll::Pending => None,
            };
            loop {
                match read(self.fd.get_ref(), &mut self.counters) {
                    Ok(ReadStep::Added) => received += 1,
                    Ok(ReadStep::Dropped) => {}
                    Ok(ReadStep::Full) => return Poll::Ready(Ok(received)),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => match &mut guard {
                        Some(guard) => {
                            guard.clear_ready();
                            found_nothing = true;
                            break;
                        }
                        // Packets that arrived after the runtime was asked have woken the caller already.
                        None => return self.await_more(cx, received),
                    },
                    Err(error) if self.is_link_down(&error) => {}
                    // Packets received before the error count. The error recurs on the next call.
                    Err(_) if received > 0 => return Poll::Ready(Ok(received)),
                    // On a packet socket this now means that the interface was deleted.
                    Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => {
                        self.gone = true;
                        return Poll::Ready(Err(gone()));
                    }
                    Err(error) => {
                        self.gone = is_fatal(&error);
                        return Poll::Ready(Err(error));
                    }
                }
            }
        }
    }

    /// Nothing is left, and the caller will be woken. Returns the result for `received` packets.
    fn await_more(&mut self, cx: &mut Context<'_>, received: usize) -> Poll<io::Result<usize>> {
        if received > 0 {
            self.awaited = true;
            return Poll::Ready(Ok(received));
        }
        ready!(self.hangup.as_mut().poll(cx));
        self.gone = true;
        Poll::Ready(Err(gone()))
    }

    /// Ready when the kernel takes a packet. A TUN link that starts down takes none until it is up.
    pub fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.gone {
            return Poll::Ready(Err(gone()));
        }
        if self.writable && self.held.is_empty() {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut guard = ready!(self.fd.poll_write_ready(cx))?;
            if self.held.is_empty() {
                self.writable = true;
                return Poll::Ready(Ok(()));
            }
            let mut file: &File = self.fd.get_ref();
            let written = file.write(&self.held);
            if matches!(&written, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                guard.clear_ready();
                continue;
            }
            drop(guard);
            let len = self.held.len();
            self.held.clear();
            self.account(written, len)?;
        }
    }

    /// Writes one packet, with `prefix` in front, in one call. A packet that the kernel does not take is
    /// dropped and counted.
    pub fn send(&mut self, prefix: &[u8], packet: &TxPacket<'_>) -> io::Result<()> {
        let len = prefix.len() + packet.len();
        self.awaited = false;
        self.gathered.clear();
        self.gathered.extend_from_slice(prefix);
        self.gathered.extend_from_slice(packet.header);
        let [first, second] = packet.payload;
        let whole = packet.payload_len() <= COPIED_MAX;
        if whole {
            // The kernel takes a short packet faster from one place than from three.
            self.gathered.extend_from_slice(first);
            self.gathered.extend_from_slice(second);
        }
        let gathered = &self.gathered;
        let written = loop {
            let write = |mut file: &File| match (whole, second.is_empty()) {
                (true, _) => file.write(gathered),
                (false, true) => file.write_vectored(&[IoSlice::new(gathered), IoSlice::new(first)]),
                (false, false) => {
                    file.write_vectored(&[IoSlice::new(gathered), IoSlice::new(first), IoSlice::new(second)])
                }
            };
            // Without the runtime's readiness, which it does not report before its first poll of the
            // descriptor.
            match write(self.fd.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.writable = false;
                    break self.fd.try_io(Interest::WRITABLE, |_| Err(error));
                }
                other => break other,
            }
        };
        // A queue that is full for a moment does not lose a frame that has been announced as ready.
        if matches!(&written, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
            && self.attachment != Attachment::Tun
            && self.held.is_empty()
        {
            std::mem::swap(&mut self.held, &mut self.gathered);
            if !whole {
                self.held.extend_from_slice(first);
                self.held.extend_from_slice(second);
            }
            return Ok(());
        }
        self.account(written, len)
    }

    /// Counts the result of writing `len` bytes.
    fn account(&mut self, written: io::Result<usize>, len: usize) -> io::Result<()> {
        match written {
            Ok(n) if n == len => self.counters.sent += 1,
            Ok(_) => self.counters.send_refused += 1,
            Err(error) if is_fatal(&error) => {
                self.gone = true;
                return Err(error);
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EIO | libc::ENETDOWN)) => {
                self.counters.send_link_down += 1;
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EMSGSIZE)) => {
                self.counters.send_refused += 1;
            }
            Err(_) => self.counters.send_no_room += 1,
        }
        Ok(())
    }

    /// The interface's MTU, queried at most once a second.
    pub fn mtu(&self) -> usize {
        self.refreshed_link().mtu
    }

    /// The last known MTU, without reading the clock.
    pub fn mtu_known(&self) -> usize {
        self.link.get().mtu
    }

    /// Whether the interface is up, queried at most once a second.
    pub fn link_up(&self) -> bool {
        self.refreshed_link().up
    }

    /// Queries the link's state again at the next opportunity.
    pub fn forget_link(&self) {
        self.link.set(Link { asked_at: None, ..self.link.get() });
    }

    /// The interface's name, which may have changed since opening.
    pub fn name(&self) -> io::Result<String> {
        match self.attachment {
            Attachment::Tun => sys::attachment(self.fd.get_ref().as_fd()).map(|(name, _)| name),
            Attachment::Socket(index) => sys::interface_name(self.control.as_fd(), index),
        }
    }

    /// The descriptor, for settings of one kind of device.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.get_ref().as_fd()
    }

    /// Whether `error` means that a packet socket's interface is down, rather than gone.
    fn is_link_down(&self, error: &io::Error) -> bool {
        let is_socket = self.attachment != Attachment::Tun;
        is_socket && error.raw_os_error() == Some(libc::ENETDOWN) && self.name().is_ok()
    }

    fn refreshed_link(&self) -> Link {
        let known = self.link.get();
        if !self.asks {
            return known;
        }
        let now = Instant::now();
        if known.asked_at.is_some_and(|at| now.saturating_duration_since(at) < LINK_REFRESH) {
            return known;
        }
        let link = Link { asked_at: Some(now), ..self.ask_link().unwrap_or(known) };
        self.link.set(link);
        link
    }

    /// Fails if the device is deleted or has moved to another network namespace. The last known state then
    /// stays.
    fn ask_link(&self) -> io::Result<Link> {
        let name = self.name()?;
        let mtu = sys::interface_mtu(self.control.as_fd(), &name)?;
        let flags = sys::interface_flags(self.control.as_fd(), &name)?;
        let mtu = usize::try_from(mtu).map_err(io::Error::other)?;
        // A TUN link has a carrier as long as it is up. Any other may lack a cable.
        let wanted = match self.attachment {
            Attachment::Tun => libc::IFF_UP,
            Attachment::Socket(_) => libc::IFF_UP | libc::IFF_RUNNING,
        };
        Ok(Link { mtu, up: flags & wanted == wanted, asked_at: None })
    }
}

impl fmt::Debug for TunFd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunFd")
            .field("name", &self.name())
            .field("gone", &self.gone)
            .field("link", &self.link.get())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// Completes when the kernel has detached the descriptor.
///
/// A deleted TUN interface only shows as EPOLLERR, which wakes only tasks that wait for errors, not those
/// that wait to read or write.
///
/// A packet socket reports an interface that is taken down the same way, and works again once it is up.
async fn hangup(fd: Arc<AsyncFd<File>>, attachment: Attachment, control: Arc<OwnedFd>) {
    // An error here means that the runtime is shutting down, so the device is useless too.
    while let Ok(mut guard) = fd.ready(Interest::ERROR).await {
        let Attachment::Socket(index) = attachment else { return };
        // An interface is taken down before it is deleted, and of that the socket says nothing more.
        while !is_up(&control, index).unwrap_or(true) {
            tokio::time::sleep(DOWN_ASKED_EVERY).await;
        }
        if sys::interface_name(control.as_fd(), index).is_err() {
            return;
        }
        // Fetch the error, or it would show again at once.
        if sys::packet::take_error(fd.get_ref().as_fd()).is_err() {
            return;
        }
        guard.clear_ready();
    }
}

/// Whether the interface of this number is up.
fn is_up(control: &OwnedFd, index: libc::c_int) -> io::Result<bool> {
    let name = sys::interface_name(control.as_fd(), index)?;
    let flags = sys::interface_flags(control.as_fd(), &name)?;
    Ok(flags & libc::IFF_UP != 0)
}

/// How often an interface that is down is looked at, until it is up or gone.
const DOWN_ASKED_EVERY: Duration = Duration::from_millis(100);

/// The error of every call on a detached descriptor.
fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADFD)
}

/// How long the link's state is cached.
const LINK_REFRESH: Duration = Duration::from_secs(1);

/// The kernel's default, until it is queried.
const MTU_DEFAULT: usize = 1500;

#[cfg(test)]
mod tests;
