//! The result of a call as one number, enough to compare a replay's with the recorded one.

use std::net::IpAddr;

use bytes::Bytes;

use crate::Journal;
use ackclock_core::{BoundId, UdpId, UdpMeta};
use ackclock_core::{
    ConnectionError, ConnectionId, Event, IcmpError, IncomingId, Instant, ListenerId, OtherPacket, Ping,
};

/// The result of a call.
pub(super) trait ResultCode {
    /// The number; `None`: the caller learnt nothing.
    fn code(&self) -> Option<u64>;
}

/// Makes a call: first `note` writes it into the journal, if there is one, and its result follows.
#[inline]
pub(super) fn noted<R: ResultCode>(
    mut journal: Option<&mut Journal>,
    note: impl FnOnce(&mut Journal),
    make: impl FnOnce() -> R,
) -> R {
    if let Some(journal) = journal.as_deref_mut() {
        note(journal);
    }
    let result = make();
    if let Some(journal) = journal {
        journal.outcome(result.code());
    }
    result
}

/// Results from which the caller learns nothing that matters here.
macro_rules! nothing {
    ($($type:ty)*) => {
        $(impl ResultCode for $type {
            fn code(&self) -> Option<u64> {
                None
            }
        })*
    };
}

/// Results that are a number already.
macro_rules! numbers {
    ($($type:ty: |$value:ident| $number:expr;)*) => {
        $(impl ResultCode for $type {
            fn code(&self) -> Option<u64> {
                let $value = self;
                Some($number)
            }
        })*
    };
}

nothing! { () }

numbers! {
    bool: |is| u64::from(*is);
    usize: |count| *count as u64;
    u64: |count| *count;
    Bytes: |bytes| bytes.len() as u64;
    ConnectionId: |id| id.to_number();
    ListenerId: |id| id.to_number();
    IncomingId: |id| id.to_number();
    BoundId: |id| id.to_number();
    UdpId: |id| id.to_number();
    UdpMeta: |meta| meta.len as u64;
    OtherPacket: |packet| packet.bytes.len() as u64;
    Ping: |ping| ping.packet().len() as u64;
    (u64, Instant): |delivered| delivered.0;
    Vec<IpAddr>: |groups| groups.len() as u64;
    ConnectionError: |_error| 1;
    IcmpError: |_error| 1;
}

impl ResultCode for Event {
    fn code(&self) -> Option<u64> {
        match self {
            Self::Connection(id, _) => id.code(),
            Self::Acceptable(id) => id.code(),
            Self::Incoming(_, id) | Self::IncomingGone(_, id) => id.code(),
            Self::Udp(id, _) => id.code(),
            // It is about no id.
            _ => Some(0),
        }
    }
}

impl<A: ResultCode, B: ResultCode> ResultCode for (A, Option<B>) {
    fn code(&self) -> Option<u64> {
        self.0.code()
    }
}

impl ResultCode for (ConnectionId, usize) {
    fn code(&self) -> Option<u64> {
        self.0.code()
    }
}

impl<T: ResultCode> ResultCode for Option<T> {
    fn code(&self) -> Option<u64> {
        Some(self.as_ref().map_or(0, |value| value.code().unwrap_or(0).saturating_add(1)))
    }
}

impl<T: ResultCode, E> ResultCode for Result<T, E> {
    fn code(&self) -> Option<u64> {
        self.as_ref().ok().code()
    }
}

impl<T: ResultCode> ResultCode for &T {
    fn code(&self) -> Option<u64> {
        (*self).code()
    }
}
