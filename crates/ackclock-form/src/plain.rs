//! The forms of numbers, texts, addresses and times. Numbers take as many bytes as they need.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};
use std::time::Duration;

use crate::{Form, FormError, Reader, Writer};

impl Form for u64 {
    /// Seven bits a byte, the lowest first; the highest bit says that more follow.
    fn write(&self, out: &mut Writer) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        out.push(rest.to_le_bytes()[0]);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let mut value = 0;
        for shift in (0..Self::BITS).step_by(7) {
            let byte = input.byte()?;
            let bits = Self::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(FormError::Number);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(FormError::Number)
    }
}

/// Numbers that are written as a `u64`.
macro_rules! as_u64 {
    ($($type:ty)*) => {
        $(impl Form for $type {
            #[inline]
            fn write(&self, out: &mut Writer) {
                u64::try_from(*self).unwrap_or(u64::MAX).write(out);
            }

            #[inline]
            fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
                Self::try_from(u64::read(input)?).map_err(|_| FormError::Number)
            }
        })*
    };
}

as_u64!(u16 u32 usize);

impl Form for i64 {
    /// As a `u64`, the sign in the lowest bit.
    fn write(&self, out: &mut Writer) {
        ((self << 1) ^ (self >> 63)).cast_unsigned().write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let value = u64::read(input)?;
        let sign = if value & 1 == 1 { u64::MAX } else { 0 };
        Ok(((value >> 1) ^ sign).cast_signed())
    }
}

impl Form for u8 {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.push(*self);
    }

    #[inline]
    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        input.byte()
    }
}

impl Form for bool {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.push(u8::from(*self));
    }

    #[inline]
    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            code => Err(FormError::Code(code)),
        }
    }
}

impl Form for () {
    fn write(&self, _: &mut Writer) {}

    fn read(_: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok(())
    }
}

/// Numbers that are never zero.
macro_rules! non_zero {
    ($($type:ident of $number:ty)*) => {
        $(impl Form for $type {
            fn write(&self, out: &mut Writer) {
                self.get().write(out);
            }

            fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
                Self::new(<$number>::read(input)?).ok_or(FormError::Number)
            }
        })*
    };
}

non_zero!(NonZeroU16 of u16 NonZeroU32 of u32 NonZeroU64 of u64);

impl Form for String {
    fn write(&self, out: &mut Writer) {
        out.text(self);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        input.text().map(str::to_owned)
    }
}

impl Writer {
    /// Appends a text: its length in bytes, and the bytes.
    pub fn text(&mut self, text: &str) {
        text.len().write(self);
        self.extend_from_slice(text.as_bytes());
    }
}

impl<'a> Reader<'a> {
    /// Takes a text.
    ///
    /// # Errors
    /// The text is not whole, or not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, FormError> {
        let len = usize::read(self)?;
        std::str::from_utf8(self.bytes(len)?).map_err(|_| FormError::Text)
    }
}

impl Form for Duration {
    fn write(&self, out: &mut Writer) {
        self.as_secs().write(out);
        self.subsec_nanos().write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let (seconds, nanos) = (u64::read(input)?, u32::read(input)?);
        if nanos < 1_000_000_000 { Ok(Self::new(seconds, nanos)) } else { Err(FormError::Number) }
    }
}

impl Form for IpAddr {
    fn write(&self, out: &mut Writer) {
        match self {
            Self::V4(addr) => {
                out.push(4);
                out.extend_from_slice(&addr.octets());
            }
            Self::V6(addr) => {
                out.push(6);
                out.extend_from_slice(&addr.octets());
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        match input.byte()? {
            4 => <[u8; 4]>::read(input).map(|octets| Ipv4Addr::from(octets).into()),
            6 => <[u8; 16]>::read(input).map(|octets| Ipv6Addr::from(octets).into()),
            code => Err(FormError::Code(code)),
        }
    }
}

impl Form for SocketAddr {
    fn write(&self, out: &mut Writer) {
        self.ip().write(out);
        self.port().write(out);
        if let Self::V6(addr) = self {
            addr.flowinfo().write(out);
            addr.scope_id().write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let (addr, port) = (IpAddr::read(input)?, u16::read(input)?);
        Ok(match addr {
            IpAddr::V4(_) => Self::new(addr, port),
            IpAddr::V6(addr) => SocketAddrV6::new(addr, port, u32::read(input)?, u32::read(input)?).into(),
        })
    }
}
