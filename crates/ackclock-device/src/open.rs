//! Opening a TUN device by name with the best backend that works.

use crate::{Device, OffloadDevice, OpenError, TunDevice};

/// Whether to exchange packets of 64 KB and unfinished checksums with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OffloadMode {
    /// If the kernel can.
    #[default]
    Auto,
    /// Always; opening fails if the kernel cannot.
    On,
    /// Never.
    Off,
}

/// Opens the TUN device `name`. Creates it if it does not exist, which takes `CAP_NET_ADMIN`; it then lives
/// as long as the returned device. A name that is taken is asked for again for 100 ms, since its last holder
/// may be just ending; the thread waits meanwhile.
///
/// With [`OffloadMode::Auto`], a kernel that cannot offload gets a plain device, and the second value says
/// why.
///
/// # Errors
/// See [`OpenError`]; each message names the command that fixes it.
///
/// # Panics
/// If the caller's tokio runtime has no I/O driver.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ackclock_device::OpenError> {
/// use ackclock_device::{OffloadMode, open};
/// let (device, fell_back) = open("tun0", OffloadMode::Auto)?;
/// if let Some(why) = fell_back {
///     eprintln!("no offload: {why}");
/// }
/// println!("{:?}", device.capabilities());
/// # Ok(())
/// # }
/// ```
pub fn open(name: &str, mode: OffloadMode) -> Result<(Box<dyn Device>, Option<String>), OpenError> {
    if mode == OffloadMode::Off {
        return Ok((Box::new(TunDevice::open(name)?), None));
    }
    match OffloadDevice::open(name) {
        Ok(device) => Ok((Box::new(device), None)),
        Err(OpenError::OffloadUnsupported { reason, .. }) if mode == OffloadMode::Auto => {
            Ok((Box::new(TunDevice::open(name)?), Some(reason)))
        }
        Err(error) => Err(error),
    }
}
