//! The header fields of a socket's packets.

use std::io;

use super::UdpSocket;

impl UdpSocket {
    /// Time to live, or hop limit, of outgoing packets.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn ttl(&self) -> io::Result<u32> {
        self.shared.look(|state| state.udp_names(self.id)).map(|names| names.ttl.into())
    }

    /// Sets the time to live, 1 to 255.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) outside that range; or the stack is gone.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.shared.call(|state, _| state.udp_set_ttl(self.id, ttl))
    }

    /// The type of service of outgoing packets: the traffic class.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn tos_v4(&self) -> io::Result<u32> {
        self.shared.look(|state| state.udp_names(self.id)).map(|names| names.traffic_class.into())
    }

    /// Sets the type of service, 0 to 255: six bits of DSCP (RFC 2474) and two of ECN. A nonzero
    /// [`UdpTransmit::ecn`](crate::UdpTransmit::ecn) replaces the ECN bits. IPv4 and IPv6 share one value.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) outside that range; or the stack is gone.
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        self.shared.call(|state, _| state.udp_set_traffic_class(self.id, tos))
    }

    /// The traffic class of outgoing packets: the type of service.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn tclass_v6(&self) -> io::Result<u32> {
        self.tos_v4()
    }

    /// Sets the traffic class, as [`set_tos_v4`](Self::set_tos_v4) does.
    ///
    /// # Errors
    /// As there.
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        self.set_tos_v4(tclass)
    }
}
