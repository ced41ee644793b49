//! The UDP sockets' side of a stack's state.

use std::io;
use std::net::SocketAddr;
use std::task::{Poll, Waker};

use ackclock_core::{
    Instant, UdpId, UdpMeta, UdpNames, UdpOptions, UdpReadiness, UdpSocketError, UdpTransmit,
};

use super::StackState;
use crate::error;
use crate::readiness::{Interest, Ready};
use crate::waiters::WaitList;

/// The tasks that wait at a socket.
#[derive(Debug, Default)]
pub(crate) struct UdpSlot {
    pub read: WaitList,
    pub write: WaitList,
}

impl UdpSlot {
    pub fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        self.read.wake(woken);
        self.write.wake(woken);
    }
}

impl StackState {
    pub(crate) fn udp_bind(&mut self, now: Instant, options: UdpOptions) -> io::Result<UdpId> {
        self.check_up()?;
        let id = self.endpoint.udp_bind(now, options).map_err(error::udp)?;
        self.udp.insert(id, UdpSlot::default());
        Ok(id)
    }

    pub(crate) fn udp_close(&mut self, id: UdpId) {
        if let Some(mut slot) = self.udp.remove(&id) {
            slot.wake_all(&mut self.woken);
        }
        self.endpoint.udp_close(id);
    }

    pub(crate) fn udp_connect(&mut self, id: UdpId, remote: SocketAddr) -> io::Result<()> {
        self.check_alive()?;
        self.check_route(remote.ip())?;
        self.endpoint.udp_connect(id, Some(remote)).map_err(error::udp)
    }

    pub(crate) fn udp_names(&self, id: UdpId) -> io::Result<UdpNames> {
        self.check_alive()?;
        self.endpoint.udp_names(id).map_err(error::udp)
    }

    pub(crate) fn udp_send(
        &mut self,
        now: Instant,
        id: UdpId,
        transmit: &UdpTransmit<'_>,
    ) -> Poll<io::Result<usize>> {
        let route = transmit.to.map_or(Ok(()), |to| self.check_route(to.ip()));
        if let Err(error) = self.check_alive().and(route.map_err(io::Error::from)) {
            return Poll::Ready(Err(error));
        }
        polled(self.endpoint.udp_send(now, id, transmit))
    }

    pub(crate) fn udp_receive(&mut self, id: UdpId, buf: &mut [u8], many: bool) -> Poll<io::Result<UdpMeta>> {
        match self.check_alive() {
            Ok(()) => polled(self.endpoint.udp_receive(id, buf, many)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    pub(crate) fn udp_peek(&mut self, id: UdpId, buf: &mut [u8]) -> Poll<io::Result<UdpMeta>> {
        match self.check_alive() {
            Ok(()) => polled(self.endpoint.udp_peek(id, buf)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    pub(crate) fn poll_udp_readable(&mut self, id: UdpId) -> Poll<io::Result<()>> {
        match self.check_alive() {
            Ok(()) => ready_if(self.endpoint.udp_is_readable(id)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    pub(crate) fn poll_udp_writable(&mut self, id: UdpId) -> Poll<io::Result<()>> {
        match self.check_alive() {
            Ok(()) => ready_if(self.endpoint.udp_is_writable(id)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    pub(crate) fn udp_set_ttl(&mut self, id: UdpId, ttl: u32) -> io::Result<()> {
        self.check_alive()?;
        let ttl = u8::try_from(ttl).ok().filter(|&ttl| ttl > 0);
        let ttl = ttl.ok_or_else(|| error::out_of_range("ttl", "1 to 255"))?;
        self.endpoint.udp_set_ttl(id, Some(ttl)).map_err(error::udp)
    }

    pub(crate) fn udp_set_traffic_class(&mut self, id: UdpId, traffic_class: u32) -> io::Result<()> {
        self.check_alive()?;
        let value = u8::try_from(traffic_class);
        let value = value.map_err(|_| error::out_of_range("traffic class", "0 to 255"))?;
        self.endpoint.udp_set_traffic_class(id, value).map_err(error::udp)
    }

    /// The part of `interest` that is ready.
    pub(crate) fn poll_udp_ready(&mut self, id: UdpId, interest: Interest) -> Poll<io::Result<Ready>> {
        self.check_alive()?;
        let mut ready = Ready::EMPTY;
        if interest.is_error() && self.endpoint.udp_has_error(id).map_err(error::udp)? {
            ready |= Ready::ERROR;
        }
        if interest.is_readable() && self.endpoint.udp_is_readable(id).map_err(error::udp)? {
            ready |= Ready::READABLE;
        }
        if interest.is_writable() && self.endpoint.udp_is_writable(id).map_err(error::udp)? {
            ready |= Ready::WRITABLE;
        }
        if ready == Ready::EMPTY { Poll::Pending } else { Poll::Ready(Ok(ready)) }
    }

    pub(crate) fn udp_take_error(&mut self, id: UdpId) -> io::Result<Option<io::Error>> {
        self.check_alive()?;
        Ok(self.endpoint.udp_take_error(id).err().map(error::udp))
    }

    /// A socket became readable or writable.
    pub(crate) fn on_udp(&mut self, id: UdpId, readiness: UdpReadiness) {
        let Some(slot) = self.udp.get_mut(&id) else { return };
        if readiness.readable {
            slot.read.wake(&mut self.woken);
        }
        if readiness.writable {
            slot.write.wake(&mut self.woken);
        }
    }
}

fn polled<T>(result: Result<T, UdpSocketError>) -> Poll<io::Result<T>> {
    match result {
        Err(UdpSocketError::WouldBlock) => Poll::Pending,
        result => Poll::Ready(result.map_err(error::udp)),
    }
}

fn ready_if(result: Result<bool, UdpSocketError>) -> Poll<io::Result<()>> {
    match result {
        Ok(true) => Poll::Ready(Ok(())),
        Ok(false) => Poll::Pending,
        Err(error) => Poll::Ready(Err(error::udp(error))),
    }
}
