//! One UDP socket: its names, the datagrams to read, and how much waits to be sent.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use ackclock_control::tally::Tally;
use ackclock_wire::Codepoint;

use super::UdpSocketError;
use crate::ListenAddr;
use crate::budget::Lease;
use ackclock_form::byte_string;

/// Settings of one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// The address and port to bind to.
    pub addr: ListenAddr,
    /// The most bytes that wait to be read, including [`DATAGRAM_OVERHEAD`](Self::DATAGRAM_OVERHEAD) for each
    /// datagram.
    pub receive_buffer_max: usize,
    /// When this many bytes wait to be sent, overhead included, no more are accepted. One call may exceed it.
    pub send_buffer_max: usize,
    /// Time to live, or hop limit; `None`: the endpoint's.
    pub ttl: Option<u8>,
    /// The traffic class, or type of service (RFC 2474). Its two lowest bits, the ECN field, come from each
    /// [`UdpTransmit`], unless they are zero there.
    pub traffic_class: u8,
    /// Whether datagrams that are longer than the path's packets leave in fragments; `false` (the default):
    /// they are refused. With fragments a datagram has up to 65,507 bytes over IPv4 and 65,527 over IPv6.
    /// IPv6 fragments are no longer than 1,280 bytes, which every link carries, and routers may cut those of
    /// IPv4, so neither depends on what ICMP reports of the path.
    pub fragments: bool,
}

impl UdpOptions {
    /// Bytes that count for each datagram besides its payload.
    pub const DATAGRAM_OVERHEAD: usize = 128;

    /// Bytes that a datagram with this payload counts.
    pub(crate) const fn held_by(payload_len: usize) -> usize {
        payload_len.saturating_add(Self::DATAGRAM_OVERHEAD)
    }

    /// The defaults, 256 KiB each way, for this address.
    #[must_use]
    pub fn new(addr: ListenAddr) -> Self {
        Self {
            addr,
            receive_buffer_max: 256 << 10,
            send_buffer_max: 256 << 10,
            ttl: None,
            traffic_class: 0,
            fragments: false,
        }
    }
}

/// A datagram, or several, to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpTransmit<'a> {
    /// The data of one datagram, or of several of `segment_size` bytes.
    pub contents: &'a [u8],
    /// The destination; `None`: the peer that the socket is connected to.
    pub to: Option<SocketAddr>,
    /// The source; `None`: the bound address, or one that leads to the destination. A socket for any address
    /// may send from any, for example from the address that a client has dialled.
    pub from: Option<SocketAddr>,
    /// `Some`: the contents are datagrams of this many bytes each; the last may be shorter.
    pub segment_size: Option<usize>,
    /// The ECN field.
    pub ecn: Codepoint,
}

impl<'a> UdpTransmit<'a> {
    /// The most datagrams in one call.
    pub const SEGMENTS_MAX: usize = 64;

    /// One datagram.
    #[must_use]
    pub fn new(contents: &'a [u8], to: Option<SocketAddr>) -> Self {
        Self { contents, to, from: None, segment_size: None, ecn: Codepoint::NotEct }
    }
}

/// The addresses of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpNames {
    /// The address and port it is bound to; for port 0, the port that was found.
    pub bound: ListenAddr,
    /// Time to live, or hop limit, of what it sends.
    pub ttl: u8,
    /// Traffic class, or type of service, of what it sends.
    pub traffic_class: u8,
    /// The peer that it is connected to, and the address from which that is reached.
    pub peer: Option<(SocketAddr, IpAddr)>,
    /// Whether datagrams that are longer than the path's packets leave in fragments.
    pub fragments: bool,
}

/// The addresses and marks of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpMeta {
    /// Bytes copied to the buffer.
    pub len: usize,
    /// The size of each datagram among them; the last may be shorter. Equal to `len` for one datagram.
    pub stride: usize,
    /// The sender.
    pub from: SocketAddr,
    /// The destination address and port: for a wildcard socket, what the client has dialled.
    pub to: SocketAddr,
    /// The ECN field.
    pub ecn: Codepoint,
    /// Whether the datagram was longer than the buffer; the rest is lost.
    pub truncated: bool,
}

/// The possibilities and events that a socket has for its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct UdpReadiness {
    /// There is a datagram or an error.
    pub readable: bool,
    /// There is room to send, after there was none, or an error.
    pub writable: bool,
}

impl UdpReadiness {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    options: UdpOptions,
    remote: Option<SocketAddr>,
    /// The address chosen when the socket was connected.
    source: Option<IpAddr>,
    received: VecDeque<Datagram>,
    received_bytes: usize,
    sending_bytes: usize,
    /// Whether sending was refused for lack of room.
    refused: bool,
    /// An error that has not been reported yet.
    error: Option<UdpSocketError>,
    readiness: UdpReadiness,
}

/// A datagram that waits to be read.
#[derive(Debug)]
pub(crate) struct Datagram {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub ecn: Codepoint,
    pub payload: Vec<u8>,
    /// Gives its bytes back to the budget when it is dropped.
    pub lease: Lease,
}

impl Socket {
    /// The bytes of the datagrams that wait to be read.
    fn held(&self) -> usize {
        self.received.iter().map(|datagram| UdpOptions::held_by(datagram.payload.len())).sum()
    }

    pub fn new(options: UdpOptions) -> Self {
        Self {
            options,
            remote: None,
            source: None,
            received: VecDeque::new(),
            received_bytes: 0,
            sending_bytes: 0,
            refused: false,
            error: None,
            readiness: UdpReadiness::default(),
        }
    }

    pub fn addr(&self) -> ListenAddr {
        self.options.addr
    }

    pub fn options(&self) -> &UdpOptions {
        &self.options
    }

    pub fn set_ttl(&mut self, ttl: Option<u8>) {
        self.options.ttl = ttl;
    }

    pub fn set_fragments(&mut self, wanted: bool) {
        self.options.fragments = wanted;
    }

    pub fn set_traffic_class(&mut self, traffic_class: u8) {
        self.options.traffic_class = traffic_class;
    }

    pub fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    pub fn source(&self) -> Option<IpAddr> {
        self.source
    }

    /// Only accepts the peer's datagrams from now on. Waiting ones of others are kept, as the kernel's
    /// sockets do.
    pub fn connect(&mut self, peer: Option<(SocketAddr, IpAddr)>) {
        (self.remote, self.source) = peer.unzip();
        self.error = None;
    }

    /// Whether a datagram from `remote` to `local` is for this socket.
    pub fn takes(&self, local: IpAddr, remote: SocketAddr) -> bool {
        self.remote.is_none_or(|peer| peer == remote) && self.source.is_none_or(|source| source == local)
    }

    /// Adds a datagram. Returns `false` if there is no room.
    pub fn receive(&mut self, datagram: Datagram) -> bool {
        let bytes = UdpOptions::held_by(datagram.payload.len());
        if self.received_bytes.saturating_add(bytes) > self.options.receive_buffer_max {
            return false;
        }
        self.received_bytes.grow(bytes);
        self.received.push_back(datagram);
        self.readiness.readable = true;
        true
    }

    /// Copies received data into `buf`: one datagram or, with `many`, as many of one size and kind as fit,
    /// one after the other.
    pub fn read(&mut self, buf: &mut [u8], many: bool) -> Result<UdpMeta, UdpSocketError> {
        self.take_error()?;
        let first = self.pop().ok_or(UdpSocketError::WouldBlock)?;
        let mut meta = copied(&first, buf);
        if meta.truncated {
            return Ok(meta);
        }
        while many
            && let Some(next) = self.received.front()
            && (next.from, next.to, next.ecn) == (first.from, first.to, first.ecn)
            && meta.len.is_multiple_of(meta.stride.max(1))
            && (1..=meta.stride).contains(&next.payload.len())
            && let Some(room) = buf.get_mut(meta.len..).and_then(|rest| rest.get_mut(..next.payload.len()))
            && let Some(next) = self.pop()
        {
            room.copy_from_slice(&next.payload);
            meta.len.grow(next.payload.len());
        }
        Ok(meta)
    }

    /// Reads one datagram without removing it.
    pub fn peek(&mut self, buf: &mut [u8]) -> Result<UdpMeta, UdpSocketError> {
        self.take_error()?;
        self.received.front().map(|first| copied(first, buf)).ok_or(UdpSocketError::WouldBlock)
    }

    /// Whether there is a datagram or an error to read.
    pub fn is_readable(&self) -> bool {
        !self.received.is_empty() || self.error.is_some()
    }

    pub fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// Whether there is room to send, or an error to report. If not, readiness reports when there is.
    pub fn is_writable(&mut self) -> bool {
        let room = self.has_room();
        self.refused |= !room;
        room || self.error.is_some()
    }

    /// Whether readiness will report room to a caller that waits for it: it has asked, and there is none.
    pub fn awaits_room(&self) -> bool {
        self.refused && !self.has_room() && self.error.is_none()
    }

    fn has_room(&self) -> bool {
        self.sending_bytes < self.options.send_buffer_max.max(1)
    }

    /// A packet of this many bytes waits to be sent.
    pub fn on_queued(&mut self, bytes: usize) {
        self.sending_bytes.grow(UdpOptions::held_by(bytes));
    }

    /// It has left.
    pub fn on_left(&mut self, bytes: usize) {
        self.sending_bytes = self.sending_bytes.saturating_sub(UdpOptions::held_by(bytes));
        if self.refused && self.has_room() {
            self.refused = false;
            self.readiness.writable = true;
        }
    }

    /// Stores an error about the peer, or the path, for the next call.
    pub fn fail_once(&mut self, error: UdpSocketError) {
        self.error = Some(error);
        self.readiness = UdpReadiness { readable: true, writable: true };
    }

    /// The unreported error, once.
    pub fn take_error(&mut self) -> Result<(), UdpSocketError> {
        self.error.take().map_or(Ok(()), Err)
    }

    pub fn readiness(&self) -> UdpReadiness {
        self.readiness
    }

    pub fn take_readiness(&mut self) -> UdpReadiness {
        std::mem::take(&mut self.readiness)
    }

    fn pop(&mut self) -> Option<Datagram> {
        let datagram = self.received.pop_front()?;
        self.received_bytes.shrink(UdpOptions::held_by(datagram.payload.len()));
        Some(datagram)
    }
}

/// Copies what fits of a datagram.
fn copied(datagram: &Datagram, buf: &mut [u8]) -> UdpMeta {
    let len = datagram.payload.len().min(buf.len());
    if let (Some(to), Some(from)) = (buf.get_mut(..len), datagram.payload.get(..len)) {
        to.copy_from_slice(from);
    }
    UdpMeta {
        len,
        stride: len,
        from: datagram.from,
        to: datagram.to,
        ecn: datagram.ecn,
        truncated: len < datagram.payload.len(),
    }
}

ackclock_form::form! {
    struct UdpOptions { addr, receive_buffer_max, send_buffer_max, ttl, traffic_class, fragments }
    struct UdpReadiness { readable, writable }
    struct Socket {
        options, remote, source, received, received_bytes, sending_bytes, refused, error, readiness
    } => |socket| socket.received_bytes == socket.held();
    struct Datagram { from, to, ecn, payload as byte_string, lease }
}
