//! A packet socket: a separate station on an Ethernet that the kernel uses too.
//!
//! Source: packet(7), Linux `include/uapi/linux/if_packet.h`, `net/packet/af_packet.c`.
//!
//! **The address.** The stack's IP address must be one that the kernel does not have. The kernel also sees
//! the frames on its interface. If the address were its own, it would reset every connection that it does not
//! know. A packet for another address it drops silently, unless it forwards (`net.ipv4.ip_forward`).
//!
//! **The Ethernet address.** By default the stack has a separate, locally administered address, made from the
//! interface's and the stack's addresses. The kernel then does not take the stack's frames for its own, even
//! if it forwards. The interface only needs to receive frames for one more address (`PACKET_MR_UNICAST`),
//! without promiscuous mode. Networks that allow one address per port (Wi-Fi, most clouds) need the
//! interface's address. Both then share it, the stack's frames also reach the kernel, and a kernel that
//! forwards would send them back.
//!
//! **This host** and the stack do not reach each other over the same interface: what either sends leaves by
//! the wire. Use a veth pair or a TAP device for that.
//!
//! **Several queues** are sockets of one fan-out group: the kernel gives each frame to one of them, by a hash
//! of its flow that is the same in both directions.

use std::hash::Hash;
use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use ackclock_link::{HEADER_LEN, MacAddr};
use ackclock_wire::TxPacket;

use crate::error::check_name;
use crate::fd::{Attachment, ReadStep, TunFd};
use crate::frame::made_mac;
use crate::framing::{self, Framing};
use crate::{
    Capabilities, Counters, FrameDevice, OffloadMode, OpenError, QUEUES_MAX, ReceiveBatch, status, sys,
};

/// A packet socket on an Ethernet interface.
#[derive(Debug)]
pub struct PacketDevice {
    fd: TunFd,
    framing: Framing,
    index: libc::c_int,
    mac: MacAddr,
    queues: usize,
}

/// How a packet device shares its interface with the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketOptions {
    /// The stack's Ethernet address; `None`: the interface's.
    pub mac: Option<MacAddr>,
    /// Whether to exchange 64 KB packets and unfinished checksums with the kernel.
    pub offload: OffloadMode,
    /// Whether the interface receives and passes on frames for all stations.
    pub promiscuous: bool,
}

impl PacketDevice {
    /// Opens a packet socket on the interface `name`. Its settings there end with it.
    ///
    /// With [`OffloadMode::Auto`], a kernel that cannot offload gets a plain socket, and the second value
    /// says why.
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    pub fn open(name: &str, options: PacketOptions) -> Result<(Self, Option<String>), OpenError> {
        check_name(name)?;
        Self::open_one(name, options, Self::interface(name)?)
    }

    /// Opens this many queues, 1 to [`QUEUES_MAX`]: sockets of one fan-out group, each a device with its
    /// share of the flows. Frames that belong to no flow, such as answers to ARP, may come by any; so the
    /// link layer on top must be one ([`EthernetDevice::queues`](crate::EthernetDevice::queues)).
    ///
    /// # Errors
    /// See [`OpenError`]. No queue stays open then.
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    pub fn open_queues(
        name: &str,
        options: PacketOptions,
        queues: usize,
    ) -> Result<(Vec<Self>, Option<String>), OpenError> {
        check_name(name)?;
        if !(1..=QUEUES_MAX).contains(&queues) {
            return Err(OpenError::QueueCount { name: name.to_owned(), queues });
        }
        let interface = Self::interface(name)?;
        let (mut devices, mut fell_back, mut group) = (Vec::new(), None, None);
        for _ in 0..queues {
            let (mut device, why) = Self::open_one(name, options, interface)?;
            device.queues = queues;
            fell_back = why;
            if queues > 1 {
                let joined = sys::packet::fan_out(device.fd.descriptor(), group);
                let failed = |source| OpenError::FanOut { name: name.to_owned(), source };
                group = Some(joined.map_err(failed)?);
            }
            devices.push(device);
        }
        Ok((devices, fell_back))
    }

    fn open_one(
        name: &str,
        options: PacketOptions,
        (index, interface_mac): (libc::c_int, MacAddr),
    ) -> Result<(Self, Option<String>), OpenError> {
        let failed = |error| OpenError::from_packet(name, error);
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
        // Kernels before 4.20 lack this option; such frames are then recognised on arrival.
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
        // Last, so that nothing arrives before the socket is fully configured.
        sys::packet::bind(socket.as_fd(), index).map_err(failed)?;
        let fd = TunFd::register(socket, name, Attachment::Socket(index))?;
        Ok((Self { fd, framing, index, mac, queues: 1 }, fell_back))
    }

    /// The number and the Ethernet address of the interface `name`.
    pub(crate) fn interface(name: &str) -> Result<(libc::c_int, MacAddr), OpenError> {
        let failed = |error| OpenError::from_packet(name, error);
        let control = sys::control_socket().map_err(failed)?;
        let index = sys::interface_index(control.as_fd(), name).map_err(failed)?;
        let (hardware, mac) = sys::interface_hardware(control.as_fd(), name).map_err(failed)?;
        if hardware != libc::ARPHRD_ETHER {
            return Err(OpenError::NotEthernet { name: name.to_owned(), hardware });
        }
        Ok((index, MacAddr::new(mac)))
    }

    /// An Ethernet address for a stack on the interface `name`: locally administered, not the interface's,
    /// and always the same for the same interface and the same `purpose` (the stack's addresses, for
    /// example).
    ///
    /// # Errors
    /// The Ethernet interface does not exist.
    pub fn own_mac(name: &str, purpose: impl Hash) -> Result<MacAddr, OpenError> {
        let (_, interface) = Self::interface(name)?;
        Ok(made_mac(&(interface, purpose)))
    }

    /// The Ethernet address whose frames are received.
    #[must_use]
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// The last known MTU, without reading the clock.
    #[cfg(feature = "xdp")]
    pub(crate) fn mtu_known(&self) -> usize {
        self.fd.mtu_known()
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
        Capabilities { queues: self.queues, ..self.framing.capabilities(self.fd.mtu()) }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let framing = self.framing;
        self.fd.poll_receive(cx, |file, counters| {
            let Some(slot) = batch.slot(framing::ROOM) else { return Ok(ReadStep::Full) };
            let arrived = match sys::packet::receive(file.as_fd(), slot) {
                // af_packet.c: a packet that a virtio-net header cannot describe is discarded with this
                // error.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    counters.receive_malformed += 1;
                    return Ok(ReadStep::Dropped);
                }
                arrived => arrived?,
            };
            if arrived.outgoing {
                return Ok(ReadStep::Dropped);
            }
            // The kernel removes VLAN tags. A tagged frame belongs to another network. Number 0 is only a
            // priority.
            let tagged = arrived.status & libc::TP_STATUS_VLAN_VALID != 0 && arrived.vlan & VLAN_NUMBER != 0;
            if arrived.truncated || tagged {
                counters.receive_malformed += 1;
                return Ok(ReadStep::Dropped);
            }
            // A virtio-net header says the same, and where an unfinished checksum is.
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

    fn leads_to_kernel(&self) -> bool {
        true
    }
}

/// Packets of 64 KB take more room than their bytes; the default of 208 KiB holds two or three.
const BUFFER_BYTES: libc::c_int = 8 << 20;

/// The bits of a VLAN tag with the VLAN's number.
const VLAN_NUMBER: u16 = 0x0fff;
