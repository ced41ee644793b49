//! How the values of a recording are written and read. A value that has a [`Form`] is written in it; only
//! what a recording writes otherwise, and what holds such a value, is here and in `settings.rs`.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use ackclock_core::congestion::IdlePolicy;
use ackclock_core::profile::{AckPolicy, UndoChoice};
use ackclock_core::rtt::{Arithmetic, Backoff, DeviationFloor, Formula, Sampling};
use ackclock_core::trace::{TraceConfig, TraceKeep};
use ackclock_core::{
    BindOptions, BoundId, ConnectionId, IncomingId, Instant, Keepalive, ListenAddr, ListenerId, LocalAddress,
    MtuProbing, PathCacheConfig, PingPolicy, ReassemblyConfig, UdpId, UdpOptions, UserTimeoutOption,
};
use ackclock_form::{Form, FormError, Reader, Writer};
use ackclock_wire::{ChecksumState, Cidr, Codepoint, Experiment, RxMeta};

/// Something that a recording holds.
pub(super) trait Value: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Writer);

    /// Reads the value back.
    fn take(input: &mut Reader<'_>) -> Result<Self, FormError>;
}

/// Values that a recording holds in their form.
macro_rules! forms {
    ($($type:ty)*) => {
        $(impl Value for $type {
            #[inline]
            fn put(&self, out: &mut Writer) {
                self.write(out);
            }

            #[inline]
            fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
                Self::read(input)
            }
        })*
    };
}

forms! {
    u8 u16 u32 u64 usize bool NonZeroU16 String Duration Instant IpAddr SocketAddr
    AckPolicy Arithmetic Backoff BindOptions BoundId ChecksumState Cidr Codepoint ConnectionId
    DeviationFloor Experiment Formula IdlePolicy IncomingId Keepalive ListenAddr ListenerId LocalAddress
    MtuProbing PathCacheConfig PingPolicy ReassemblyConfig RxMeta Sampling TraceConfig TraceKeep UdpId
    UdpOptions UndoChoice UserTimeoutOption
}

impl<const N: usize> Value for [u8; N] {
    fn put(&self, out: &mut Writer) {
        self.write(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Self::read(input)
    }
}

impl<T: Value> Value for Option<T> {
    fn put(&self, out: &mut Writer) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok(if bool::take(input)? { Some(T::take(input)?) } else { None })
    }
}

impl<T: Value> Value for Vec<T> {
    fn put(&self, out: &mut Writer) {
        self.len().put(out);
        for value in self {
            value.put(out);
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let len = usize::take(input)?;
        // Each takes a byte at least, so that a length cannot make room for more than the file has.
        if len > input.len() {
            return Err(FormError::Short);
        }
        (0..len).map(|_| T::take(input)).collect()
    }
}

impl<T: Value> Value for Box<T> {
    fn put(&self, out: &mut Writer) {
        T::put(self, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        T::take(input).map(Self::new)
    }
}

impl<T: Value> Value for Arc<T> {
    fn put(&self, out: &mut Writer) {
        T::put(self, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        T::take(input).map(Self::new)
    }
}

impl<A: Value, B: Value> Value for (A, B) {
    fn put(&self, out: &mut Writer) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok((A::take(input)?, B::take(input)?))
    }
}
