//! A UDP socket's calls, under the lock, common to their `poll_*`, `try_*` and async forms.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;

use ackclock_core::{Instant, UdpId, UdpMeta, UdpNames, UdpOptions, UdpSocketError, UdpTransmit};

use crate::error;
use crate::readiness::{Interest, Ready};
use crate::state::StackState;

pub(super) fn bind(state: &mut StackState, now: Instant, options: UdpOptions) -> io::Result<UdpId> {
    state.check_up()?;
    let id = state.endpoint.udp_bind(now, options).map_err(error::udp)?;
    state.datagrams.add(id);
    Ok(id)
}

pub(super) fn close(state: &mut StackState, id: UdpId) {
    state.datagrams.remove(id, &mut state.woken);
    state.endpoint.udp_close(id);
}

pub(super) fn connect(state: &mut StackState, id: UdpId, remote: SocketAddr) -> io::Result<()> {
    state.check_alive()?;
    state.check_route(remote.ip())?;
    state.endpoint.udp_connect(id, Some(remote)).map_err(error::udp)
}

pub(super) fn names(state: &StackState, id: UdpId) -> io::Result<UdpNames> {
    state.check_alive()?;
    state.endpoint.udp_names(id).map_err(error::udp)
}

pub(super) fn send(
    state: &mut StackState,
    now: Instant,
    id: UdpId,
    transmit: &UdpTransmit<'_>,
) -> Poll<io::Result<usize>> {
    let route = transmit.to.map_or(Ok(()), |to| state.check_route(to.ip()));
    if let Err(error) = state.check_alive().and(route.map_err(io::Error::from)) {
        return Poll::Ready(Err(error));
    }
    polled(state.endpoint.udp_send(now, id, transmit))
}

pub(super) fn receive(
    state: &mut StackState,
    id: UdpId,
    buf: &mut [u8],
    many: bool,
) -> Poll<io::Result<UdpMeta>> {
    match state.check_alive() {
        Ok(()) => polled(state.endpoint.udp_receive(id, buf, many)),
        Err(error) => Poll::Ready(Err(error)),
    }
}

/// Fills as many of `bufs` as there are datagrams. Errors that the network reported of a peer are not
/// returned.
#[cfg(feature = "quinn")]
pub(super) fn receive_many(
    state: &mut StackState,
    id: UdpId,
    bufs: &mut [io::IoSliceMut<'_>],
    mut took: impl FnMut(UdpMeta),
) -> Poll<io::Result<usize>> {
    if let Err(error) = state.check_alive() {
        return Poll::Ready(Err(error));
    }
    let mut filled = 0;
    while let Some(buf) = bufs.get_mut(filled) {
        match state.endpoint.udp_receive(id, buf, true) {
            Ok(meta) => {
                took(meta);
                filled += 1;
            }
            Err(UdpSocketError::WouldBlock) => break,
            Err(UdpSocketError::Closed) => return Poll::Ready(Err(error::udp(UdpSocketError::Closed))),
            // Each is reported once, and then there may be something behind it.
            Err(_) => {}
        }
    }
    if filled == 0 && !bufs.is_empty() { Poll::Pending } else { Poll::Ready(Ok(filled)) }
}

pub(super) fn peek(state: &mut StackState, id: UdpId, buf: &mut [u8]) -> Poll<io::Result<UdpMeta>> {
    match state.check_alive() {
        Ok(()) => polled(state.endpoint.udp_peek(id, buf)),
        Err(error) => Poll::Ready(Err(error)),
    }
}

pub(super) fn poll_readable(state: &mut StackState, id: UdpId) -> Poll<io::Result<()>> {
    match state.check_alive() {
        Ok(()) => ready_if(state.endpoint.udp_is_readable(id)),
        Err(error) => Poll::Ready(Err(error)),
    }
}

pub(super) fn poll_writable(state: &mut StackState, id: UdpId) -> Poll<io::Result<()>> {
    match state.check_alive() {
        Ok(()) => ready_if(state.endpoint.udp_is_writable(id)),
        Err(error) => Poll::Ready(Err(error)),
    }
}

pub(super) fn set_ttl(state: &mut StackState, id: UdpId, ttl: u32) -> io::Result<()> {
    state.check_alive()?;
    let ttl = u8::try_from(ttl).ok().filter(|&ttl| ttl > 0);
    let ttl = ttl.ok_or_else(|| error::out_of_range("ttl", "1 to 255"))?;
    state.endpoint.udp_set_ttl(id, Some(ttl)).map_err(error::udp)
}

pub(super) fn set_fragments(state: &mut StackState, id: UdpId, wanted: bool) -> io::Result<()> {
    state.check_alive()?;
    state.endpoint.udp_set_fragments(id, wanted).map_err(error::udp)
}

/// `interface`: an address of it, or the unspecified one.
pub(super) fn join(state: &mut StackState, id: UdpId, group: IpAddr, interface: IpAddr) -> io::Result<()> {
    check_interface(state, interface)?;
    state.endpoint.udp_join(id, group).map_err(error::udp)
}

pub(super) fn leave(state: &mut StackState, id: UdpId, group: IpAddr, interface: IpAddr) -> io::Result<()> {
    check_interface(state, interface)?;
    state.endpoint.udp_leave(id, group).map_err(error::udp)
}

/// A stack is one interface, which any of its addresses stands for.
fn check_interface(state: &StackState, addr: IpAddr) -> io::Result<()> {
    state.check_alive()?;
    let is_own = addr.is_unspecified() || state.network.addresses().iter().any(|own| own.addr() == addr);
    if is_own { Ok(()) } else { Err(error::udp(UdpSocketError::NotLocal(addr))) }
}

pub(super) fn set_traffic_class(state: &mut StackState, id: UdpId, traffic_class: u32) -> io::Result<()> {
    state.check_alive()?;
    let value = u8::try_from(traffic_class);
    let value = value.map_err(|_| error::out_of_range("traffic class", "0 to 255"))?;
    state.endpoint.udp_set_traffic_class(id, value).map_err(error::udp)
}

/// The part of `interest` that is ready.
pub(super) fn poll_ready(state: &mut StackState, id: UdpId, interest: Interest) -> Poll<io::Result<Ready>> {
    state.check_alive()?;
    let mut ready = Ready::EMPTY;
    if interest.is_error() && state.endpoint.udp_has_error(id).map_err(error::udp)? {
        ready |= Ready::ERROR;
    }
    if interest.is_readable() && state.endpoint.udp_is_readable(id).map_err(error::udp)? {
        ready |= Ready::READABLE;
    }
    if interest.is_writable() && state.endpoint.udp_is_writable(id).map_err(error::udp)? {
        ready |= Ready::WRITABLE;
    }
    if ready == Ready::EMPTY { Poll::Pending } else { Poll::Ready(Ok(ready)) }
}

pub(super) fn take_error(state: &mut StackState, id: UdpId) -> io::Result<Option<io::Error>> {
    state.check_alive()?;
    Ok(state.endpoint.udp_take_error(id).err().map(error::udp))
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
