//! One TUN interface with several queues, each a separate device.
//!
//! Each of the kernel's packets goes to one queue, chosen by a hash of its flow. A queue takes packets of any
//! flow. A flow's packets arrive on the queue by which it was last sent, as long as something was sent within
//! three seconds. Before and after that, only the hash decides (Linux `drivers/net/tun.c`, "tx follows rx").
//! So the owner of a queue also receives packets of flows that it did not begin.
//!
//! Source: Linux `Documentation/networking/tuntap.rst` §3.3.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::configure::TunTap;
use crate::error::{QUEUES_MAX, TUN_PATH, check_name};
use crate::fd::{Attachment, TunFd};
use crate::{Device, OffloadDevice, OffloadMode, OpenError, TunDevice, offload, sys};

/// Opens the TUN device `name` with this many queues, 1 to [`QUEUES_MAX`]. If the interface does not exist,
/// it is created, which takes `CAP_NET_ADMIN`, and lives as long as the last of the devices returned. An
/// existing one must have been made with `multi_queue`. Queues that another process has open there stay, and
/// share the flows with these.
///
/// With [`OffloadMode::Auto`], a kernel that cannot offload gets plain queues, and the second value says why.
///
/// # Errors
/// See [`OpenError`]. No queue stays open then.
///
/// # Panics
/// If the caller's tokio runtime has no I/O driver.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ackclock_device::OpenError> {
/// use ackclock_device::{OffloadMode, open_queues};
/// let (queues, _fell_back) = open_queues("tun0", OffloadMode::Auto, 2)?;
/// assert_eq!(queues[0].capabilities().queues, 2);
/// # Ok(())
/// # }
/// ```
pub fn open_queues(name: &str, mode: OffloadMode, queues: usize) -> Result<Queues, OpenError> {
    check_name(name)?;
    if !(1..=QUEUES_MAX).contains(&queues) {
        return Err(OpenError::QueueCount { name: name.to_owned(), queues });
    }
    if mode == OffloadMode::Off {
        return Ok((all(queues, || plain(name, queues))?, None));
    }
    match all(queues, || whole(name, queues)) {
        Ok(devices) => Ok((devices, None)),
        Err(OpenError::OffloadUnsupported { reason, .. }) if mode == OffloadMode::Auto => {
            Ok((all(queues, || plain(name, queues))?, Some(reason)))
        }
        Err(error) => Err(error),
    }
}

/// The queues, and why they are plain if offload was wanted.
pub type Queues = (Vec<Box<dyn Device>>, Option<String>);

fn all(
    queues: usize,
    mut open: impl FnMut() -> Result<Box<dyn Device>, OpenError>,
) -> Result<Vec<Box<dyn Device>>, OpenError> {
    (0..queues).map(|_| open()).collect()
}

fn whole(name: &str, queues: usize) -> Result<Box<dyn Device>, OpenError> {
    let file = offload::attach(name, TunTap::TUN_QUEUE)?;
    Ok(Box::new(OffloadDevice::queue(TunFd::register(file, name, Attachment::Tun)?, queues)))
}

fn plain(name: &str, queues: usize) -> Result<Box<dyn Device>, OpenError> {
    let attach = || -> io::Result<File> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(TUN_PATH)?;
        // All fit the 16 bits of `ifr_flags`.
        let flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_MULTI_QUEUE) as libc::c_short;
        sys::attach_interface(file.as_fd(), name, flags)?;
        // A persistent interface keeps the offload that an earlier process set.
        sys::set_offload(file.as_fd(), 0)?;
        Ok(file)
    };
    let file = attach().map_err(|error| OpenError::from_io(name, TunTap::TUN_QUEUE, error))?;
    Ok(Box::new(TunDevice::queue(TunFd::register(file, name, Attachment::Tun)?, queues)))
}
