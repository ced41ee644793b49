//! TUN and TAP devices from descriptors that someone else opened and attached: Android's `VpnService`, a
//! service manager, a parent process, or a privileged helper that sends them over a Unix socket
//! (`SCM_RIGHTS`).
//!
//! The kernel says what a descriptor carries. It says the MTU only of an interface in this process's network
//! namespace, and Android tells no application, so the caller can give it.
//!
//! Source: Linux `drivers/net/tun.c` (`TUNGETIFF`).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use ackclock_link::HEADER_LEN;

use crate::busy::when_free;
use crate::configure::TunTap;
use crate::error::{TUN_PATH, check_name};
use crate::fd::{Attachment, TunFd};
use crate::framing::Framing;
use crate::{Device, Medium, OffloadDevice, OpenError, TapDevice, TunDevice, offload, sys};

/// A descriptor of the TUN driver that is attached to an interface.
///
/// ```no_run
/// use ackclock_device::{EthernetOptions, Medium, PassedFd};
/// # async fn open(fd: std::os::fd::OwnedFd) -> Result<(), Box<dyn std::error::Error>> {
/// let fd = PassedFd::new(fd)?;
/// if fd.medium() == Medium::Ip {
///     let device = fd.open(Some(1400))?;
///     println!("{:?}", device.capabilities());
/// } else {
///     let device = EthernetOptions::new().address("10.9.0.2/24".parse()?).open_fd(fd)?;
///     println!("{}", device.handle().mac());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PassedFd {
    file: File,
    name: String,
    /// `IFF_TAP` and others.
    flags: libc::c_int,
}

/// Why a descriptor cannot become a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FdError {
    /// The process has no such descriptor.
    #[error(
        "descriptor {number} is not open ({source}): the program that starts this one must leave it open, \
         as a shell does with {number}<>FILE"
    )]
    NotOpen {
        /// Its number.
        number: RawFd,
        /// The system's answer.
        source: io::Error,
    },
    /// The descriptor is something else.
    #[error("the descriptor is not of the TUN driver ({source}): pass one that was opened at {TUN_PATH}")]
    NotTun {
        /// The system's answer.
        source: io::Error,
    },
    /// The descriptor was never attached, or its interface was deleted.
    #[error(
        "the descriptor is attached to no interface: attach it (TUNSETIFF) before it is passed, and keep the \
         interface"
    )]
    NotAttached,
    /// A TUN device is needed.
    #[error("{name} is a TAP device, which carries Ethernet frames: open it with EthernetOptions::open_fd")]
    Tap {
        /// The interface.
        name: String,
    },
    /// A TAP device is needed.
    #[error("{name} is a TUN device, which carries IP packets: open it with PassedFd::open")]
    Tun {
        /// The interface.
        name: String,
    },
    /// Queues belong to one interface and are alike.
    #[error("{first} and {other} belong to different interfaces: open each as its own device")]
    NotQueues {
        /// The first interface.
        first: String,
        /// The one that differs.
        other: String,
    },
    /// The interface does not say its MTU.
    #[error(
        "the MTU of {name} is unknown, because this process cannot ask the interface ({source}): give the \
         MTU along with the descriptor"
    )]
    MtuUnknown {
        /// The interface.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
    /// As for a device that is opened by name.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl PassedFd {
    /// Makes the TUN interface `name`, or attaches to it, without a virtio-net header and without tokio: for
    /// a program that passes the descriptor on, from another network namespace for instance.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn make(name: &str) -> Result<Self, OpenError> {
        check_name(name)?;
        let make = || -> io::Result<File> {
            let file = File::options().read(true).write(true).open(TUN_PATH)?;
            // Both fit the 16 bits of `ifr_flags`.
            let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
            when_free(|| sys::attach_interface(file.as_fd(), name, flags), io::Error::raw_os_error)?;
            Ok(file)
        };
        let file = make().map_err(|error| OpenError::from_io(name, TunTap::TUN, error))?;
        Ok(Self { file, name: name.to_owned(), flags: libc::IFF_TUN | libc::IFF_NO_PI })
    }

    /// Takes over a descriptor.
    ///
    /// It must have been attached with `IFF_NO_PI`. No check is possible: the answer of `TUNGETIFF` has the
    /// same bit for `IFF_NOFILTER`.
    ///
    /// # Errors
    /// It is not attached to an interface: see [`FdError`].
    pub fn new(fd: OwnedFd) -> Result<Self, FdError> {
        let (name, flags) = sys::attachment(fd.as_fd()).map_err(|source| match source.raw_os_error() {
            Some(libc::EBADFD) => FdError::NotAttached,
            _ => FdError::NotTun { source },
        })?;
        Ok(Self { file: File::from(fd), name, flags })
    }

    /// Takes over the descriptor `number`, with which the process was started. It works on a duplicate, so
    /// the interface stays attached until the process ends.
    ///
    /// # Errors
    /// It is not open, or as for [`new`](Self::new).
    pub fn inherited(number: RawFd) -> Result<Self, FdError> {
        Self::new(sys::duplicate(number).map_err(|source| FdError::NotOpen { number, source })?)
    }

    /// The interface's name, in its own network namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it carries IP packets (TUN) or Ethernet frames (TAP).
    #[must_use]
    pub fn medium(&self) -> Medium {
        if self.flags & libc::IFF_TAP == 0 { Medium::Ip } else { Medium::Link { header_len: HEADER_LEN } }
    }

    /// A device for the IP packets of a TUN interface, with offload if the descriptor was attached with a
    /// virtio-net header (`IFF_VNET_HDR`).
    ///
    /// Without `mtu` (in bytes), the device asks the interface, by name in this process's network namespace.
    /// With it, the device asks nothing and assumes that the link is up.
    ///
    /// # Errors
    /// See [`FdError`].
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    pub fn open(self, mtu: Option<usize>) -> Result<Box<dyn Device>, FdError> {
        self.queue(mtu, 1)
    }

    /// Opens all queues of one TUN interface, each from its own descriptor; see
    /// [`open_queues`](crate::open_queues).
    ///
    /// # Errors
    /// As for [`open`](Self::open). No queue stays open then.
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    pub fn open_queues(self, others: Vec<Self>, mtu: Option<usize>) -> Result<Vec<Box<dyn Device>>, FdError> {
        let queues = 1 + others.len();
        if let Some(other) =
            others.iter().find(|other| (&other.name, other.flags) != (&self.name, self.flags))
        {
            return Err(FdError::NotQueues { first: self.name, other: other.name.clone() });
        }
        std::iter::once(self).chain(others).map(|fd| fd.queue(mtu, queues)).collect()
    }

    /// A device for the frames of a TAP interface.
    pub(crate) fn open_tap(self, mtu: Option<usize>) -> Result<TapDevice, FdError> {
        if self.medium() == Medium::Ip {
            return Err(FdError::Tun { name: self.name });
        }
        let framing = if self.has_header() { Framing::Vnet } else { Framing::Plain };
        let (fd, name) = self.register(mtu)?;
        Ok(TapDevice::on(fd, &name, framing)?)
    }

    fn queue(self, mtu: Option<usize>, queues: usize) -> Result<Box<dyn Device>, FdError> {
        if self.medium() != Medium::Ip {
            return Err(FdError::Tap { name: self.name });
        }
        let has_header = self.has_header();
        let (fd, _) = self.register(mtu)?;
        Ok(if has_header {
            Box::new(OffloadDevice::queue(fd, queues))
        } else {
            Box::new(TunDevice::queue(fd, queues))
        })
    }

    fn has_header(&self) -> bool {
        self.flags & libc::IFF_VNET_HDR != 0
    }

    /// Sets what this crate's devices rely on, whatever was set before.
    fn register(self, mtu: Option<usize>) -> Result<(TunFd, String), FdError> {
        let has_header = self.has_header();
        let Self { file, name, .. } = self;
        if has_header {
            offload::agree(file.as_fd(), &name)?;
        } else {
            // An earlier holder may have set offloads. Android forbids the call, and sets none.
            let _ = sys::set_offload(file.as_fd(), 0);
        }
        sys::set_nonblocking(file.as_fd()).map_err(|source| OpenError::other(&name, source))?;
        match TunFd::register(file, &name, Attachment::Tun)?.with_mtu(mtu) {
            Ok(fd) => Ok((fd, name)),
            Err(source) => Err(FdError::MtuUnknown { name, source }),
        }
    }
}

impl AsFd for PassedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
