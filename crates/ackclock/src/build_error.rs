//! [`BuildError`]: why a stack could not be started.

use std::io;
use std::net::IpAddr;

use crate::Cidr;
use crate::choices::SimulatedOnly;
use crate::recording::RecordingError;

/// Why a stack could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No device was given.
    #[error("a stack needs a device: call `device`, or `detached` to drive it yourself")]
    NoDevice,
    /// The device carries frames with a link-layer header.
    #[error(
        "the device carries link-layer frames; a stack needs one that carries IP packets, as a TUN device \
         does"
    )]
    LinkLayer,
    /// More queues than a stack may have.
    #[error("{queues} queues were given; a stack has at most {max}")]
    TooManyQueues {
        /// The number of queues given.
        queues: usize,
        /// The most that a stack may have.
        max: usize,
    },
    /// Not called within a tokio runtime.
    #[error(
        "no tokio runtime here: call `spawn` from a task, with the runtime's time and io drivers enabled"
    )]
    NoRuntime,
    /// An address that no host can have.
    #[error("{0} cannot be a host's address: it is unspecified, multicast or broadcast")]
    BadAddress(IpAddr),
    /// The connections would have no congestion control.
    #[error(transparent)]
    SimulatedOnly(#[from] SimulatedOnly),
    /// The control socket could not be opened.
    #[cfg(all(feature = "control", unix))]
    #[error(transparent)]
    Control(#[from] crate::ControlError),
    /// The stack cannot be recorded.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The operating system gave no random numbers.
    #[error("the operating system gave no random numbers for the stack's secret: {0}")]
    NoRandomness(io::Error),
}

impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}

/// Whether a host can have this address.
pub(crate) fn check_address(address: &Cidr) -> Result<IpAddr, BuildError> {
    let addr = address.addr();
    let broadcast = address.broadcast() == Some(addr);
    if addr.is_unspecified() || addr.is_multicast() || broadcast {
        return Err(BuildError::BadAddress(addr));
    }
    Ok(addr)
}
