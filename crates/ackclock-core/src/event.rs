//! The events that an endpoint reports to its driver.

use crate::{BoundId, IncomingId, ListenerId, UdpId, UdpReadiness};

/// A connection of an endpoint. The index may be reused; the generation distinguishes the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnectionId {
    /// A small number for tables parallel to the endpoint's, reused once the connection is gone.
    #[must_use]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// Ids as numbers.
macro_rules! numbered {
    ($($id:ident { $low:ident: $bits:literal bits, $high:ident })*) => {
        $(impl $id {
            /// A number that stands for this id of its endpoint alone, to be written down.
            #[must_use]
            pub fn to_number(self) -> u64 {
                u64::from(self.$high) << $bits | u64::from(self.$low)
            }

            /// The id that the number stands for. It need not exist.
            #[must_use]
            pub fn from_number(number: u64) -> Self {
                // Each part fits.
                let (low, high) = (number & ((1 << $bits) - 1), number >> $bits);
                Self { $low: low.try_into().unwrap_or_default(), $high: high.try_into().unwrap_or_default() }
            }
        })*
    };
}

numbered! {
    ConnectionId { index: 32 bits, generation }
    ListenerId { index: 32 bits, generation }
    IncomingId { index: 32 bits, generation }
    BoundId { port: 16 bits, number }
}

impl UdpId {
    /// A number that stands for this id of its endpoint alone, to be written down.
    #[must_use]
    pub fn to_number(self) -> u64 {
        self.number
    }

    /// The id that the number stands for. It need not exist.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        Self { number }
    }
}

/// Something happened that the application may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A connection's readiness changed; each connection is in the queue at most once, its changes merged.
    Connection(ConnectionId, Readiness),
    /// [`Endpoint::accept`](crate::Endpoint::accept) has a connection for this listener.
    Acceptable(ListenerId),
    /// A SYN waits for a decision at a listener with deferred accept.
    Incoming(ListenerId, IncomingId),
    /// A SYN reported by [`Event::Incoming`] will not become a connection: its client took it back or started
    /// afresh, the network refused the answer, or its time is over. Reported once, whether or not the SYN had
    /// been decided on; never for a SYN that the application itself refused or dropped.
    IncomingGone(ListenerId, IncomingId),
    /// [`Endpoint::poll_other`](crate::Endpoint::poll_other) has packets.
    OtherPackets,
    /// [`Endpoint::send_other`](crate::Endpoint::send_other) has room again, after it had none.
    OtherRoom,
    /// [`Endpoint::poll_ping`](crate::Endpoint::poll_ping) has echo requests that wait for an answer.
    Pings,
    /// A UDP socket's readiness changed; each socket is in the queue at most once.
    Udp(UdpId, UdpReadiness),
}

/// The possibilities and events that a connection has for its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Readiness {
    /// The handshake is complete.
    pub connected: bool,
    /// There is data, an end of stream or an error to read.
    pub readable: bool,
    /// There is room to write, or an error.
    pub writable: bool,
    /// The connection is over: no segment will be sent or accepted any more.
    pub closed: bool,
    /// The peer's urgent pointer advanced (RFC 9293 MUST-32).
    pub urgent: bool,
    /// A soft error was noted (RFC 9293 MUST-47, RFC 9293 SHLD-9, RFC 9293 SHLD-25).
    pub soft_error: bool,
    /// The data of [`Connection::await_delivered`](crate::Connection::await_delivered) is acknowledged, or
    /// the figures of [`Connection::delivery`](crate::Connection::delivery) changed.
    pub delivered: bool,
}

/// A [`Readiness`] as bits. The endpoint checks it after each segment, and the fields would take a test each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct ReadinessBits(u8);

impl ReadinessBits {
    pub const CONNECTED: Self = Self(1);
    pub const READABLE: Self = Self(1 << 1);
    pub const WRITABLE: Self = Self(1 << 2);
    pub const CLOSED: Self = Self(1 << 3);
    pub const URGENT: Self = Self(1 << 4);
    pub const SOFT_ERROR: Self = Self(1 << 5);
    pub const DELIVERED: Self = Self(1 << 6);

    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    #[inline]
    pub fn add_if(&mut self, other: Self, condition: bool) {
        if condition {
            self.add(other);
        }
    }

    /// Clears the bits and returns them as a [`Readiness`].
    pub fn take(&mut self) -> Readiness {
        let Self(bits) = std::mem::take(self);
        let has = |change: Self| bits & change.0 != 0;
        Readiness {
            connected: has(Self::CONNECTED),
            readable: has(Self::READABLE),
            writable: has(Self::WRITABLE),
            closed: has(Self::CLOSED),
            urgent: has(Self::URGENT),
            soft_error: has(Self::SOFT_ERROR),
            delivered: has(Self::DELIVERED),
        }
    }
}

impl Readiness {
    /// Whether nothing at all changed.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        let Self { connected, readable, writable, closed, urgent, soft_error, delivered } = self;
        !(connected | readable | writable | closed | urgent | soft_error | delivered)
    }

    /// Both changes in one.
    #[must_use]
    #[inline]
    pub fn merged(self, other: Self) -> Self {
        Self {
            connected: self.connected | other.connected,
            readable: self.readable | other.readable,
            writable: self.writable | other.writable,
            closed: self.closed | other.closed,
            urgent: self.urgent | other.urgent,
            soft_error: self.soft_error | other.soft_error,
            delivered: self.delivered | other.delivered,
        }
    }
}

ackclock_form::form! {
    struct ConnectionId { index, generation }
    struct ReadinessBits(bits)
}

#[cfg(test)]
mod tests {
    use super::{BoundId, ConnectionId, Readiness, ReadinessBits};

    #[test]
    fn an_id_comes_back_from_its_number() {
        let id = ConnectionId { index: 7, generation: u32::MAX };
        assert_eq!((id.to_number(), ConnectionId::from_number(id.to_number())), (0xffff_ffff_0000_0007, id));
        let id = BoundId { port: u16::MAX, number: 3 };
        assert_eq!((id.to_number(), BoundId::from_number(id.to_number())), (0x3_ffff, id));
    }

    #[test]
    fn merged_has_what_either_has() {
        let none = Readiness::default();
        let all = Readiness {
            connected: true,
            readable: true,
            writable: true,
            closed: true,
            urgent: true,
            soft_error: true,
            delivered: true,
        };
        assert_eq!([all.merged(none), none.merged(all), all.merged(all)], [all; 3]);
        assert_eq!(none.merged(none), none);
        assert!(none.is_empty() && !all.is_empty());
    }

    #[test]
    fn each_change_is_reported_once_and_as_what_it_is() {
        let none = Readiness::default();
        for (change, readiness) in [
            (ReadinessBits::CONNECTED, Readiness { connected: true, ..none }),
            (ReadinessBits::READABLE, Readiness { readable: true, ..none }),
            (ReadinessBits::WRITABLE, Readiness { writable: true, ..none }),
            (ReadinessBits::CLOSED, Readiness { closed: true, ..none }),
            (ReadinessBits::URGENT, Readiness { urgent: true, ..none }),
            (ReadinessBits::SOFT_ERROR, Readiness { soft_error: true, ..none }),
            (ReadinessBits::DELIVERED, Readiness { delivered: true, ..none }),
        ] {
            let mut changes = ReadinessBits::default();
            changes.add_if(change, false);
            assert!(changes.is_empty());
            changes.add(change);
            assert!(!changes.is_empty() && !readiness.is_empty());
            assert_eq!([changes.take(), changes.take()], [readiness, none]);
        }
    }
}
