//! How the values of a recording are written and read: the plain ones. Numbers take as many bytes as they
//! need.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use crate::Malformed;
use ackclock_core::Instant;
use ackclock_core::congestion::Registry;

/// Something that a recording holds.
pub(super) trait Value: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads the value back.
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed>;
}

/// The bytes of a record that are not read yet.
#[derive(Debug)]
pub(super) struct Input<'a> {
    rest: &'a [u8],
    /// Where controllers are found by name.
    pub(super) registry: &'a Registry,
}

impl<'a> Input<'a> {
    pub fn new(rest: &'a [u8], registry: &'a Registry) -> Self {
        Self { rest, registry }
    }

    pub fn len(&self) -> usize {
        self.rest.len()
    }

    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.rest.split_first().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(first)
    }

    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(*taken)
    }
}

impl Value for u64 {
    /// Seven bits a byte, the lowest first; the highest bit says that more follow.
    fn put(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        out.push(rest.to_le_bytes()[0]);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let mut value = 0;
        for shift in (0..Self::BITS).step_by(7) {
            let byte = input.byte()?;
            let bits = Self::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed::Number);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Number)
    }
}

/// Numbers that are written as a `u64`.
macro_rules! as_u64 {
    ($($type:ty)*) => {
        $(impl Value for $type {
            fn put(&self, out: &mut Vec<u8>) {
                u64::try_from(*self).unwrap_or(u64::MAX).put(out);
            }

            fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
                Self::try_from(u64::take(input)?).map_err(|_| Malformed::Number)
            }
        })*
    };
}

as_u64!(u16 u32 usize);

impl Value for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        input.byte()
    }
}

impl Value for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            code => Err(Malformed::Code(code)),
        }
    }
}

impl<const N: usize> Value for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        input.array()
    }
}

impl<T: Value> Value for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(if bool::take(input)? { Some(T::take(input)?) } else { None })
    }
}

impl<T: Value> Value for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        for value in self {
            value.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let len = usize::take(input)?;
        // Each takes a byte at least, so that a length cannot make room for more than the file has.
        if len > input.len() {
            return Err(Malformed::Short);
        }
        (0..len).map(|_| T::take(input)).collect()
    }
}

impl<T: Value> Value for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        T::take(input).map(Self::new)
    }
}

impl<T: Value> Value for Arc<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        T::take(input).map(Self::new)
    }
}

impl<A: Value, B: Value> Value for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok((A::take(input)?, B::take(input)?))
    }
}

impl Value for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(self, out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        take_text(input).map(str::to_owned)
    }
}

impl Value for NonZeroU16 {
    fn put(&self, out: &mut Vec<u8>) {
        self.get().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Self::new(u16::take(input)?).ok_or(Malformed::Number)
    }
}

impl Value for Duration {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_secs().put(out);
        self.subsec_nanos().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let (seconds, nanos) = (u64::take(input)?, u32::take(input)?);
        if nanos < 1_000_000_000 { Ok(Self::new(seconds, nanos)) } else { Err(Malformed::Number) }
    }
}

impl Value for Instant {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_nanos().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        u64::take(input).map(Self::from_nanos)
    }
}

impl Value for IpAddr {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::V4(addr) => {
                out.push(4);
                addr.octets().put(out);
            }
            Self::V6(addr) => {
                out.push(6);
                addr.octets().put(out);
            }
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        match input.byte()? {
            4 => input.array().map(|octets: [u8; 4]| Ipv4Addr::from(octets).into()),
            6 => input.array().map(|octets: [u8; 16]| Ipv6Addr::from(octets).into()),
            code => Err(Malformed::Code(code)),
        }
    }
}

impl Value for SocketAddr {
    fn put(&self, out: &mut Vec<u8>) {
        self.ip().put(out);
        self.port().put(out);
        if let Self::V6(addr) = self {
            addr.flowinfo().put(out);
            addr.scope_id().put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let (addr, port) = (IpAddr::take(input)?, u16::take(input)?);
        Ok(match addr {
            IpAddr::V4(_) => Self::new(addr, port),
            IpAddr::V6(addr) => SocketAddrV6::new(addr, port, u32::take(input)?, u32::take(input)?).into(),
        })
    }
}

pub(super) fn put_text(text: &str, out: &mut Vec<u8>) {
    text.len().put(out);
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn take_text<'a>(input: &mut Input<'a>) -> Result<&'a str, Malformed> {
    let len = usize::take(input)?;
    std::str::from_utf8(input.bytes(len)?).map_err(|_| Malformed::Text)
}
