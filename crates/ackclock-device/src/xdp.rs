//! AF_XDP: a packet device whose frames to the stack's own Ethernet address cross in shared rings.
//!
//! Source: Linux `Documentation/networking/af_xdp.rst`, `net/xdp/xsk.c`, `drivers/net/veth.c`.
//!
//! **What goes where.** A program on the interface sends frames to the stack's Ethernet address to the socket
//! of their queue, before the kernel makes packets of them. Everything else takes its usual way: the
//! kernel's own traffic, and frames for groups, which the kernel and the stack both need. A packet socket
//! receives those ([`PacketDevice`]), and what comes by a queue without a socket. The stack therefore needs
//! an Ethernet address of its own.
//!
//! **What it costs.** A packet has one segment, since rings hold frames of 4 KiB, and the stack computes its
//! checksum. Every queue takes 12 MiB that cannot be swapped out. While the device is open, a veth pair cuts
//! what its other end sends into single segments.
//!
//! **Debug builds** of a program panic after 2^32 frames of a queue, because the crate `xdp` counts them
//! with a sum that must not overflow there. This in its `Cargo.toml` prevents it, as here:
//! `[profile.dev.package.xdp]`, `overflow-checks = false`.
//!
//! **Unfinished checksums.** On a veth pair the sender is a kernel of this machine and leaves checksums
//! unfinished. The mark that says so is lost on the way to the ring. But the field then holds exactly the sum
//! of the pseudo-header, by which the device recognises such packets. On any other interface a checksum must
//! be right.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ackclock_link::{HEADER_LEN, MacAddr};
use ackclock_wire::checksum::sum;
use ackclock_wire::{ChecksumState, RxMeta, TxPacket, gso};
use tokio::runtime::Handle;

use crate::busy::when_free;
use crate::error::check_name;
use crate::framing::Framing;
use crate::sys::xdp::{FRAME_MAX, Redirect, Refused, Rings, SENT_MAX};
use crate::{
    Capabilities, Counters, FrameDevice, OffloadMode, OpenError, PacketDevice, PacketOptions, QUEUES_MAX,
    ReceiveBatch, status, sys,
};

/// Whether AF_XDP is used, and where its program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum XdpMode {
    /// In the driver if it can, else before the kernel's own handling of a frame; a plain packet device if
    /// neither can be, with the reason.
    #[default]
    Auto,
    /// In the driver, or not at all. Packets are not copied between driver and ring if the driver can avoid
    /// it.
    Native,
    /// Before the kernel's own handling of a frame, with every driver. On a veth pair the other end must send
    /// single segments (`ip link set peer gso_max_segs 1`), since its packets of 64 KB do not fit.
    Generic,
}

/// A station on an Ethernet interface, by AF_XDP or, where the kernel refuses that, by a packet socket alone.
#[derive(Debug)]
pub struct XdpDevice {
    packet: PacketDevice,
    fast: Option<Fast>,
}

/// The rings, and how they are.
#[derive(Debug)]
struct Fast {
    rings: Rings,
    _redirect: Arc<Redirect>,
    mode: XdpMode,
    /// Whether checksums may be unfinished.
    veth: bool,
    /// Whether frames wait in the transmit ring for the kernel to send them.
    held: bool,
    /// Whether the kernel takes none now, but will.
    stalled: bool,
    down: bool,
    counters: Counters,
}

impl XdpDevice {
    /// Opens the queues 0 to `queues - 1` of the interface `name`, each a device with its share of the flows.
    /// Frames for groups may come by any; so the link layer on top must be one
    /// ([`EthernetDevice::queues`](crate::EthernetDevice::queues)).
    ///
    /// It takes Linux 5.9, `CAP_NET_RAW`, `CAP_NET_ADMIN` and `CAP_BPF`. With [`XdpMode::Auto`], a kernel
    /// that refuses gets packet devices, and the second value says why.
    ///
    /// # Errors
    /// See [`OpenError`]. No queue stays open then.
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    pub fn open_queues(
        name: &str,
        options: PacketOptions,
        mode: XdpMode,
        queues: usize,
    ) -> Result<(Vec<Self>, Option<String>), OpenError> {
        check_name(name)?;
        if !(1..=QUEUES_MAX).contains(&queues) {
            return Err(OpenError::QueueCount { name: name.to_owned(), queues });
        }
        Handle::try_current().map_err(|_| OpenError::NoRuntime)?;
        match open_fast(name, options, mode, queues)? {
            Ok(fast) => {
                let options = PacketOptions { offload: OffloadMode::Off, ..options };
                let (packets, _) = PacketDevice::open_queues(name, options, queues)?;
                let join = |(packet, fast)| Self { packet, fast: Some(fast) };
                Ok((packets.into_iter().zip(fast).map(join).collect(), None))
            }
            Err(reason) if mode == XdpMode::Auto => {
                let (packets, _) = PacketDevice::open_queues(name, options, queues)?;
                let alone = |packet| Self { packet, fast: None };
                Ok((packets.into_iter().map(alone).collect(), Some(reason)))
            }
            Err(reason) => Err(OpenError::XdpUnavailable { name: name.to_owned(), reason }),
        }
    }

    /// Where the program runs, [`XdpMode::Native`] or [`XdpMode::Generic`]; `None` if this is a plain packet
    /// device.
    #[must_use]
    pub fn mode(&self) -> Option<XdpMode> {
        self.fast.as_ref().map(|fast| fast.mode)
    }

    /// The Ethernet address whose frames are received.
    #[must_use]
    pub fn mac(&self) -> MacAddr {
        self.packet.mac()
    }
}

impl FrameDevice for XdpDevice {
    fn capabilities(&self) -> Capabilities {
        let known = self.packet.capabilities();
        match self.fast {
            Some(_) => {
                let mtu = known.mtu.min(MTU_MAX);
                Capabilities { queues: known.queues, ..Framing::Plain.capabilities(mtu) }
            }
            None => known,
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let received = match &mut self.fast {
            Some(fast) => fast.poll_receive(cx, batch)?,
            None => 0,
        };
        if batch.is_full() {
            return Poll::Ready(Ok(received));
        }
        match self.packet.poll_receive(cx, batch) {
            Poll::Ready(Ok(more)) => Poll::Ready(Ok(received + more)),
            // Packets that have arrived count. The error recurs on the next call.
            Poll::Pending | Poll::Ready(Err(_)) if received > 0 => Poll::Ready(Ok(received)),
            other => other,
        }
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.fast {
            Some(fast) => fast.poll_send_ready(cx),
            None => self.packet.poll_send_ready(cx),
        }
    }

    fn send(&mut self, header: &[u8; HEADER_LEN], packet: &TxPacket<'_>) -> io::Result<()> {
        let Some(fast) = &mut self.fast else { return self.packet.send(header, packet) };
        let mtu = self.packet.mtu_known().min(MTU_MAX);
        let mut result = Ok(());
        gso::cut(packet, |segment| {
            if result.is_ok() {
                result = fast.send(header, segment, mtu);
            }
        });
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.fast {
            Some(fast) => fast.flush(),
            None => self.packet.flush(),
        }
    }

    fn listen(&mut self, group: MacAddr, on: bool) -> io::Result<()> {
        self.packet.listen(group, on)
    }

    fn counters(&self) -> Counters {
        let slow = self.packet.counters();
        let Some(fast) = &self.fast else { return slow };
        Counters {
            sent: slow.sent + fast.counters.sent,
            send_link_down: slow.send_link_down + fast.counters.send_link_down,
            send_no_room: slow.send_no_room + fast.counters.send_no_room,
            send_refused: slow.send_refused + fast.counters.send_refused,
            received: slow.received + fast.counters.received,
            receive_no_room: slow.receive_no_room + fast.rings.dropped(),
            receive_malformed: slow.receive_malformed + fast.counters.receive_malformed,
        }
    }

    fn link_up(&self) -> bool {
        self.packet.link_up()
    }

    fn leads_to_kernel(&self) -> bool {
        self.packet.leads_to_kernel()
    }
}

impl Fast {
    /// Takes what has arrived. If nothing is left, the task will be woken.
    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> io::Result<usize> {
        if self.stalled {
            self.flush()?;
            if self.stalled {
                cx.waker().wake_by_ref();
            }
        }
        let mut received = 0;
        loop {
            while self.rings.has_frame() {
                let Some(slot) = batch.slot(FRAME_MAX) else { return Ok(received) };
                let (mut len, mut meta) = (0, RxMeta::default());
                let veth = self.veth;
                self.rings.take(|frame| {
                    len = frame.len().min(slot.len());
                    slot[..len].copy_from_slice(&frame[..len]);
                    if let (true, Some(packet)) = (veth, frame.get(HEADER_LEN..)) {
                        meta.checksum = known_by_its_sum(packet);
                    }
                });
                if len <= HEADER_LEN {
                    self.counters.receive_malformed += 1;
                    continue;
                }
                batch.commit(0, len, meta);
                received += 1;
                self.counters.received += 1;
            }
            // A frame that comes after the readiness is cleared sets it again.
            let Poll::Ready(guard) = self.rings.socket().poll_read_ready(cx) else { return Ok(received) };
            guard?.clear_ready();
        }
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.stalled || self.held && !self.rings.has_room() {
            self.flush()?;
        }
        if self.stalled {
            // The interface is full for a moment, and nothing reports when it no longer is.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        while !self.down && !self.rings.has_room() {
            ready!(self.rings.socket().poll_write_ready(cx))?.clear_ready();
        }
        Poll::Ready(Ok(()))
    }

    fn send(&mut self, header: &[u8; HEADER_LEN], packet: &TxPacket<'_>, mtu: usize) -> io::Result<()> {
        if packet.len() > mtu {
            self.counters.send_refused += 1;
            return Ok(());
        }
        // If the interface was down, the next `flush` learns whether it still is.
        self.held = true;
        if self.down {
            self.counters.send_link_down += 1;
            return Ok(());
        }
        if !self.rings.put(header, packet) {
            self.flush()?;
            self.held = true;
            if !self.rings.put(header, packet) {
                self.counters.send_no_room += 1;
                return Ok(());
            }
        }
        self.counters.sent += 1;
        Ok(())
    }

    /// Makes the kernel send what is held.
    fn flush(&mut self) -> io::Result<()> {
        if !self.held {
            return Ok(());
        }
        for _ in 0..KICKS_MAX {
            let Err(error) = self.rings.kick() else {
                (self.held, self.stalled, self.down) = (false, false, false);
                return Ok(());
            };
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS) => {}
                // The interface dropped one.
                Some(libc::EBUSY) => self.counters.send_no_room += 1,
                // Down, or deleted: the packet socket knows which.
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                    (self.held, self.stalled, self.down) = (false, false, true);
                    return Ok(());
                }
                _ => return Err(error),
            }
        }
        self.stalled = true;
        Ok(())
    }
}

/// The rings of each queue, or why there are none.
fn open_fast(
    name: &str,
    options: PacketOptions,
    mode: XdpMode,
    queues: usize,
) -> Result<Result<Vec<Fast>, String>, OpenError> {
    let (index, interface_mac) = PacketDevice::interface(name)?;
    let Some(mac) = options.mac.filter(|&mac| mac != interface_mac && !options.promiscuous) else {
        return Ok(Err(format!("the stack needs an Ethernet address of its own, beside {interface_mac}")));
    };
    let other = |source| OpenError::other(name, source);
    let control = sys::control_socket().map_err(other)?;
    let veth = sys::interface_driver(control.as_fd(), name).is_ok_and(|driver| driver == "veth");
    let mtu = sys::interface_mtu(control.as_fd(), name).map_err(other)?;
    if usize::try_from(mtu).is_ok_and(|mtu| mtu > MTU_MAX) {
        return Ok(Err(format!("{name} has an MTU of {mtu} bytes, and frames for AF_XDP hold {MTU_MAX}")));
    }
    let open = |native| -> Result<Vec<Fast>, Refused> {
        let rings: Result<Vec<Rings>, Refused> = (0u32..)
            .take(queues)
            .map(|queue| when_free(|| Rings::open(index, queue), |refused| refused.source.raw_os_error()))
            .collect();
        let rings = rings?;
        let redirect = Arc::new(Redirect::attach(index, mac.octets(), &rings, native)?);
        let fast = |rings| Fast {
            rings,
            _redirect: Arc::clone(&redirect),
            mode: if native { XdpMode::Native } else { XdpMode::Generic },
            veth,
            held: false,
            stalled: false,
            down: false,
            counters: Counters::default(),
        };
        Ok(rings.into_iter().map(fast).collect())
    };
    let opened = match mode {
        XdpMode::Native => open(true),
        XdpMode::Generic => open(false),
        // Without the driver's help, the large packets of a veth pair's other end do not fit.
        XdpMode::Auto if veth => open(true),
        XdpMode::Auto => open(true).or_else(|_| open(false)),
    };
    Ok(opened.map_err(|refused| reason(&refused, queues)))
}

/// Why the kernel refused, and what to do.
fn reason(refused: &Refused, queues: usize) -> String {
    let advice = match refused.source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "; it takes CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF".to_owned(),
        Some(libc::ENOBUFS) => "; raise the limit of locked memory (ulimit -l)".to_owned(),
        Some(libc::EINVAL) if queues > 1 => {
            format!("; does the interface have {queues} receive queues? (ethtool -l, ip -d link)")
        }
        Some(libc::EAFNOSUPPORT) => "; the kernel lacks CONFIG_XDP_SOCKETS".to_owned(),
        _ => String::new(),
    };
    format!("{refused}{advice}")
}

/// The state of the checksum of a packet from a kernel of this machine: unfinished if its field holds the sum
/// of the pseudo-header.
fn known_by_its_sum(packet: &[u8]) -> ChecksumState {
    let unfinished = || {
        let (at, _) = status::transport(packet)?;
        let number = |place: usize| packet.get(place..place + 2)?.try_into().ok().map(u16::from_be_bytes);
        let (addresses, len) = match packet.first()? >> 4 {
            4 => (packet.get(12..20)?, number(2)?.checked_sub(at.start)?),
            _ => (packet.get(8..40)?, number(4)?),
        };
        let protocol = if at.is_tcp() { TCP } else { UDP };
        let pseudo_header = sum(addresses).plus_u16(protocol).plus_u16(len);
        (number(at.field())? == pseudo_header.fold()).then_some(ChecksumState::Partial(at))
    };
    unfinished().unwrap_or_default()
}

const TCP: u16 = 6;
const UDP: u16 = 17;

/// Largest IP packet in bytes that fits a frame.
const MTU_MAX: usize = FRAME_MAX - HEADER_LEN;

/// A call sends 32 frames.
const KICKS_MAX: u32 = SENT_MAX / 32 + 2;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use ackclock_wire::ChecksumAt;
    use ackclock_wire::checksum::pseudo_header;

    use super::*;
    use crate::status::testing::packet;

    /// A packet of 100 bytes whose checksum field has the sum of its pseudo-header.
    fn unfinished(v6: bool, protocol: u16) -> (Vec<u8>, ChecksumAt) {
        let (start, addresses): (u16, [IpAddr; 2]) = if v6 {
            (40, ["fd09::1", "fd09::2"].map(|text| text.parse().unwrap()))
        } else {
            (20, ["10.9.0.1", "10.9.0.2"].map(|text| text.parse().unwrap()))
        };
        let mut bytes = packet(v6, protocol as u8, 100);
        let len = 100 - start;
        match addresses {
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                bytes[2..4].copy_from_slice(&100u16.to_be_bytes());
                bytes[12..16].copy_from_slice(&from.octets());
                bytes[16..20].copy_from_slice(&to.octets());
            }
            [IpAddr::V6(from), IpAddr::V6(to)] => {
                bytes[4..6].copy_from_slice(&len.to_be_bytes());
                bytes[8..24].copy_from_slice(&from.octets());
                bytes[24..40].copy_from_slice(&to.octets());
            }
            _ => unreachable!("both are of one family"),
        }
        let at = if protocol == TCP { ChecksumAt::tcp(start) } else { ChecksumAt::udp(start) };
        let sum = pseudo_header(addresses[0], addresses[1], protocol as u8, len.into()).fold();
        bytes[at.field()..at.field() + 2].copy_from_slice(&sum.to_be_bytes());
        (bytes, at)
    }

    #[test]
    fn an_unfinished_checksum_is_known_by_its_value_also_before_padding() {
        for v6 in [false, true] {
            for protocol in [TCP, UDP] {
                let (mut bytes, at) = unfinished(v6, protocol);
                assert_eq!(known_by_its_sum(&bytes), ChecksumState::Partial(at), "{v6} {protocol}");
                bytes.extend([0; 6]);
                assert_eq!(known_by_its_sum(&bytes), ChecksumState::Partial(at), "{v6} {protocol}");
                bytes[at.field()] ^= 1;
                assert_eq!(known_by_its_sum(&bytes), ChecksumState::Complete, "{v6} {protocol}");
            }
        }
    }

    #[test]
    fn what_is_no_packet_or_cut_short_is_to_be_verified() {
        let (bytes, _) = unfinished(false, TCP);
        for len in 0..bytes.len() {
            let state = known_by_its_sum(&bytes[..len]);
            assert!(len >= 38 || state == ChecksumState::Complete, "{len}");
        }
        assert_eq!(known_by_its_sum(&[0xff; 60]), ChecksumState::Complete);
    }

    #[test]
    fn each_refusal_has_its_own_advice() {
        let told = |code, queues| {
            let refused = Refused { what: "a call", source: io::Error::from_raw_os_error(code) };
            reason(&refused, queues)
        };
        assert!(told(libc::EPERM, 1).contains("CAP_BPF"));
        assert!(told(libc::ENOBUFS, 1).contains("ulimit -l"));
        assert!(told(libc::EINVAL, 4).contains("4 receive queues"));
        assert!(told(libc::EAFNOSUPPORT, 1).contains("CONFIG_XDP_SOCKETS"));
        assert!(told(libc::EBUSY, 1).starts_with("a call: "));
    }
}
