//! A descriptor that is attached to an interface, TUN, TAP or packet socket, under tokio: readiness, hang-up, link state
//! and counters, shared by all backends.

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
    /// Opened with the device, so that it stays in the device's network namespace.
    control: Arc<OwnedFd>,
    link: Cell<Link>,
    /// The last read has found nothing and the runtime will say when there is more; nothing was sent since.
    awaited: bool,
    /// The runtime has said that the descriptor takes packets, and the last one found room.
    writable: bool,
    pub(crate) counters: Counters,
    /// Where headers, and short packets whole, are put together for one `write`.
    gathered: Vec<u8>,
    /// A frame that a packet socket had no room for; the next to be sent.
    held: Vec<u8>,
}

/// How the interface is found, whatever its name is by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// A descriptor of the TUN driver knows it.
    Tun,
    /// A packet socket is bound to the interface of this number.
    Socket(libc::c_int),
}

/// The longest payload that is copied behind its header; a longer one is written from where it lies.
const COPIED_MAX: usize = 4096;

/// What was last known of the interface.
#[derive(Clone, Copy, Debug)]
struct Link {
    mtu: usize,
    up: bool,
    asked_at: Option<Instant>,
}

/// What came of reading one packet.
pub(crate) enum ReadStep {
    /// A packet was added to the batch.
    Added,
    /// A packet was read and thrown away.
    Dropped,
    /// The batch has no room for another packet; nothing was read.
    Full,
}

impl TunFd {
    /// Registers the attached, non-blocking `file` with the runtime of the calling task.
    pub(crate) fn register(file: File, name: &str, attachment: Attachment) -> Result<Self, OpenError> {
        Handle::try_current().map_err(|_| OpenError::NoRuntime)?;
        let other = |source| OpenError::other(name, source);
        let control = Arc::new(sys::control_socket().map_err(other)?);
        // SAFETY: `File` owns its descriptor, returns the same one always and is dropped by the `AsyncFd` only.
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
            awaited: false,
            writable: false,
            counters: Counters::default(),
            gathered: Vec::new(),
            held: Vec::new(),
        })
    }

    /// Calls `read` until it says that the batch is full or nothing is left.
    ///
    /// It reads without waiting for the runtime's word that there is something: what was sent mostly has an answer at once,
    /// long before the runtime looks at its descriptors again. Only a read that found nothing is not tried again before
    /// something was sent, or the second call after it.
    pub(crate) fn poll_receive(
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
                        // What arrived after the runtime was asked has woken the caller already.
                        None => return self.await_more(cx, received),
                    },
                    Err(error) if self.is_link_down(&error) => {}
                    // What was received before the error counts; the error comes again with the next call.
                    Err(_) if received > 0 => return Poll::Ready(Ok(received)),
                    // Of a packet socket this means by now that the interface was deleted.
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

    /// Nothing is left, and the caller will be woken when there is: what `received` packets come to.
    fn await_more(&mut self, cx: &mut Context<'_>, received: usize) -> Poll<io::Result<usize>> {
        if received > 0 {
            self.awaited = true;
            return Poll::Ready(Ok(received));
        }
        ready!(self.hangup.as_mut().poll(cx));
        self.gone = true;
        Poll::Ready(Err(gone()))
    }

    /// Ready when the kernel takes a packet; a TUN link that is down at first takes none until it is up.
    pub(crate) fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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

    /// Writes one packet, `prefix` in front of it, in one call; one that the kernel does not take is dropped and counted.
    pub(crate) fn send(&mut self, prefix: &[u8], packet: &TxPacket<'_>) -> io::Result<()> {
        let len = prefix.len() + packet.len();
        self.awaited = false;
        self.gathered.clear();
        self.gathered.extend_from_slice(prefix);
        self.gathered.extend_from_slice(packet.header);
        let [first, second] = packet.payload;
        let whole = packet.payload_len() <= COPIED_MAX;
        if whole {
            // The kernel takes a short packet from one place faster than from three.
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
            // Not by the runtime's word, which it has not given before it first looked at the descriptor.
            match write(self.fd.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.writable = false;
                    break self.fd.try_io(Interest::WRITABLE, |_| Err(error));
                }
                other => break other,
            }
        };
        // A queue that is full for a moment is no reason to lose a frame that has been announced as ready.
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

    /// Counts what came of writing `len` bytes.
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

    /// The interface's MTU, asked for at most once a second.
    pub(crate) fn mtu(&self) -> usize {
        self.refreshed_link().mtu
    }

    /// The MTU as last asked for, without a look at the clock.
    pub(crate) fn mtu_known(&self) -> usize {
        self.link.get().mtu
    }

    /// Whether the interface is up, asked for at most once a second.
    pub(crate) fn link_up(&self) -> bool {
        self.refreshed_link().up
    }

    /// Asks for the link's state anew at the next opportunity.
    pub(crate) fn forget_link(&self) {
        self.link.set(Link { asked_at: None, ..self.link.get() });
    }

    /// The interface's name, which may have changed since it was opened.
    pub(crate) fn name(&self) -> io::Result<String> {
        match self.attachment {
            Attachment::Tun => sys::attached_name(self.fd.get_ref().as_fd()),
            Attachment::Socket(index) => sys::interface_name(self.control.as_fd(), index),
        }
    }

    /// The descriptor, to set what concerns one kind of device.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.get_ref().as_fd()
    }

    /// Whether `error` says that the interface of a packet socket is down, rather than gone.
    fn is_link_down(&self, error: &io::Error) -> bool {
        let is_socket = self.attachment != Attachment::Tun;
        is_socket && error.raw_os_error() == Some(libc::ENETDOWN) && self.name().is_ok()
    }

    fn refreshed_link(&self) -> Link {
        let known = self.link.get();
        let now = Instant::now();
        if known.asked_at.is_some_and(|at| now.saturating_duration_since(at) < LINK_REFRESH) {
            return known;
        }
        let link = Link { asked_at: Some(now), ..self.ask_link().unwrap_or(known) };
        self.link.set(link);
        link
    }

    /// Fails when the device is deleted or has been moved to another network namespace: then what was known stays.
    fn ask_link(&self) -> io::Result<Link> {
        let name = self.name()?;
        let mtu = sys::interface_mtu(self.control.as_fd(), &name)?;
        let flags = sys::interface_flags(self.control.as_fd(), &name)?;
        let mtu = usize::try_from(mtu).map_err(io::Error::other)?;
        // A TUN link carries as long as it is up; any other may have no cable.
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
/// A deleted TUN interface shows as EPOLLERR alone, which wakes neither a task that waits to read nor one that
/// waits to write; only a task that asks for errors.
///
/// A packet socket shows an interface that is taken down the same way, and goes on once it is up again.
async fn hangup(fd: Arc<AsyncFd<File>>, attachment: Attachment, control: Arc<OwnedFd>) {
    // An error here means that the runtime is shutting down: the device is of no use any more either.
    while let Ok(mut guard) = fd.ready(Interest::ERROR).await {
        let Attachment::Socket(index) = attachment else { return };
        if sys::interface_name(control.as_fd(), index).is_err() {
            return;
        }
        // The error is fetched, or it would show again at once.
        if sys::packet::take_error(fd.get_ref().as_fd()).is_err() {
            return;
        }
        guard.clear_ready();
    }
}

/// What every call on a detached descriptor gives.
fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADFD)
}

/// How long an answer about the link is good for.
const LINK_REFRESH: Duration = Duration::from_secs(1);

/// The kernel's own default, until it was asked.
const MTU_DEFAULT: usize = 1500;

#[cfg(test)]
mod tests;
