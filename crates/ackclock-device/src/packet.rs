//! A packet socket: a station of its own on an Ethernet that the kernel uses too.
//!
//! Source: packet(7), Linux `include/uapi/linux/if_packet.h`, `net/packet/af_packet.c`.
//!
//! **The address.** The stack's IP address is one that the kernel does not have. The kernel sees the frames on its
//! interface as well; for an address of its own it would answer each segment of a connection that it does not know with a
//! reset. A packet for another address it drops in silence, unless it forwards (`net.ipv4.ip_forward`).
//!
//! **The Ethernet address.** By default the stack has one of its own, locally administered, made from the interface's
//! and the stack's addresses. Then the kernel does not take the stack's frames for its own, also where it forwards, and
//! the interface is asked to receive frames for one more address (`PACKET_MR_UNICAST`), not to be promiscuous. Networks
//! that allow one address on a port (Wi-Fi, most clouds) need the interface's own; both then share it, the stack's frames
//! reach the kernel as well, and a kernel that forwards would send them back.
//!
//! **This host** and the stack do not reach each other over the same interface: what the one sends leaves by the wire.
//! A veth pair or a TAP device is for that.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use ackclock_link::{HEADER_LEN, MacAddr};
use ackclock_wire::TxPacket;

use crate::error::check_name;
use crate::fd::{Attachment, ReadStep, TunFd};
use crate::framing::{self, Framing};
use crate::{Capabilities, Counters, FrameDevice, OffloadMode, OpenError, ReceiveBatch, status, sys};

/// A packet socket on an Ethernet interface.
#[derive(Debug)]
pub struct PacketDevice {
    fd: TunFd,
    framing: Framing,
    index: libc::c_int,
    mac: MacAddr,
}

/// How a packet device shares its interface with the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketOptions {
    /// The stack's Ethernet address; `None`: the interface's own.
    pub mac: Option<MacAddr>,
    /// Whether 64 KB packets and unfinished checksums are exchanged with the kernel.
    pub offload: OffloadMode,
    /// Whether the interface is to receive frames for all stations, and hand them on.
    pub promiscuous: bool,
}

impl PacketDevice {
    /// Opens a packet socket on the interface `name`. What it sets there ends with it.
    ///
    /// With [`OffloadMode::Auto`], a kernel that cannot offload gets a plain socket, and the second value says why.
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// # Panics
    /// When the tokio runtime of the caller has no I/O driver.
    pub fn open(name: &str, options: PacketOptions) -> Result<(Self, Option<String>), OpenError> {
        check_name(name)?;
        let failed = |error| OpenError::from_packet(name, error);
        let (index, interface_mac) = Self::interface(name)?;
        let mac = options.mac.unwrap_or(interface_mac);
        let socket = sys::packet::open().map_err(failed)?;
        let mut fell_back = None;
        let mut framing = Framing::Plain;
        if options.offload != OffloadMode::Off {
            match sys::packet::set_option(socket.as_fd(), libc::PACKET_VNET_HDR, 1) {
                Ok(()) => framing = Framing::Vnet,
                Err(error) if options.offload == OffloadMode::Auto => {
                    fell_back = Some(format!("PACKET_VNET_HDR: {error}"));
                }
                Err(error) => {
                    let reason = format!("PACKET_VNET_HDR: {error}");
                    return Err(OpenError::OffloadUnsupported { name: name.to_owned(), reason });
                }
            }
        }
        sys::packet::set_option(socket.as_fd(), libc::PACKET_AUXDATA, 1).map_err(failed)?;
        // A kernel before 4.20 does not know it; such frames are told apart when they come.
        let _ = sys::packet::set_option(socket.as_fd(), libc::PACKET_IGNORE_OUTGOING, 1);
        sys::packet::set_buffers(socket.as_fd(), BUFFER_BYTES).map_err(failed)?;
        let (kind, filtered) = if options.promiscuous {
            (libc::PACKET_MR_PROMISC, false)
        } else {
            (libc::PACKET_MR_UNICAST, true)
        };
        if filtered {
            sys::packet::filter_station(socket.as_fd(), mac.octets()).map_err(failed)?;
        }
        if !filtered || mac != interface_mac {
            sys::packet::add_membership(socket.as_fd(), index, kind, mac.octets()).map_err(failed)?;
        }
        // Last, so that nothing arrives before the socket is what it is to be.
        sys::packet::bind(socket.as_fd(), index).map_err(failed)?;
        let fd = TunFd::register(socket, name, Attachment::Socket(index))?;
        Ok((Self { fd, framing, index, mac }, fell_back))
    }

    /// The number and the Ethernet address of the interface `name`.
    fn interface(name: &str) -> Result<(libc::c_int, MacAddr), OpenError> {
        let failed = |error| OpenError::from_packet(name, error);
        let control = sys::control_socket().map_err(failed)?;
        let index = sys::interface_index(control.as_fd(), name).map_err(failed)?;
        let (hardware, mac) = sys::interface_hardware(control.as_fd(), name).map_err(failed)?;
        if hardware != libc::ARPHRD_ETHER {
            return Err(OpenError::NotEthernet { name: name.to_owned(), hardware });
        }
        Ok((index, MacAddr::new(mac)))
    }

    /// An Ethernet address for a stack on the interface `name`: locally administered, not the interface's, and the same
    /// each time for the same interface and the same `purpose` (the stack's addresses, say).
    ///
    /// # Errors
    /// There is no such Ethernet interface.
    pub fn own_mac(name: &str, purpose: impl Hash) -> Result<MacAddr, OpenError> {
        let (_, interface) = Self::interface(name)?;
        let mut hasher = DefaultHasher::new();
        interface.hash(&mut hasher);
        purpose.hash(&mut hasher);
        Ok(MacAddr::local(hasher.finish()))
    }

    /// The Ethernet address that frames are received for.
    #[must_use]
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// The interface's name.
    ///
    /// # Errors
    /// The interface was deleted.
    pub fn name(&self) -> io::Result<String> {
        self.fd.name()
    }
}

impl FrameDevice for PacketDevice {
    fn capabilities(&self) -> Capabilities {
        self.framing.capabilities(self.fd.mtu())
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let framing = self.framing;
        self.fd.poll_receive(cx, |file, counters| {
            let Some(slot) = batch.slot(framing::ROOM) else { return Ok(ReadStep::Full) };
            let arrived = match sys::packet::receive(file.as_fd(), slot) {
                // af_packet.c: a packet of a kind that a virtio-net header cannot describe is thrown away with this error.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    counters.receive_malformed += 1;
                    return Ok(ReadStep::Dropped);
                }
                arrived => arrived?,
            };
            if arrived.outgoing {
                return Ok(ReadStep::Dropped);
            }
            // The kernel takes tags off: what carries one is of another network. Number 0 is only a priority.
            let tagged = arrived.status & libc::TP_STATUS_VLAN_VALID != 0 && arrived.vlan & VLAN_NUMBER != 0;
            if arrived.truncated || tagged {
                counters.receive_malformed += 1;
                return Ok(ReadStep::Dropped);
            }
            // A virtio-net header says the same, and where an unfinished checksum stands.
            let packet = slot.get(HEADER_LEN..arrived.len).filter(|_| framing == Framing::Plain);
            let known = packet.map(|packet| status::checksum(packet, arrived.status));
            Ok(framing.take(arrived.len, framing::ROOM, known, batch, counters))
        })
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fd.poll_send_ready(cx)
    }

    fn send(&mut self, header: &[u8; HEADER_LEN], packet: &TxPacket<'_>) -> io::Result<()> {
        self.framing.send(&mut self.fd, header, packet)
    }

    fn listen(&mut self, group: MacAddr, on: bool) -> io::Result<()> {
        let change = if on { sys::packet::add_membership } else { sys::packet::drop_membership };
        change(self.fd.descriptor(), self.index, libc::PACKET_MR_MULTICAST, group.octets())
    }

    fn counters(&self) -> Counters {
        self.fd.counters
    }

    fn link_up(&self) -> bool {
        self.fd.link_up()
    }
}

/// Packets of 64 KB take more room than their bytes; the default of 208 KiB holds two or three.
const BUFFER_BYTES: libc::c_int = 8 << 20;

/// The bits of a VLAN tag that say which network.
const VLAN_NUMBER: u16 = 0x0fff;
