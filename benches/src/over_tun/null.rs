//! The ceiling: a responder that looks like a TCP, and does nothing that a TCP has to do.
//!
//! It has no reassembly, no timer but one that restarts after silence, and no congestion control, and never
//! reads a byte of payload. It always sends the same bytes, so that their checksum is known. It suits one
//! device, a kernel that loses nothing, and measurements.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ackclock_wire::checksum::{Sum, pseudo_header, sum};

use super::{DEVICE, KERNEL, OWN, Service};
use crate::sys;

/// The responder.
#[derive(Debug)]
pub struct Null {
    device: File,
    offload: bool,
    received: Box<[u8]>,
    /// A virtio-net header, room for the headers of IP and TCP, and payload.
    packet: Box<[u8]>,
    connections: Vec<Connection>,
    last_progress: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    port: u16,
    peer_port: u16,
    rcv_nxt: u32,
    snd_una: u32,
    snd_nxt: u32,
    snd_wnd: u32,
    shift: u8,
    mss: u16,
    established: bool,
    /// Segments received and not acknowledged yet.
    unanswered: u32,
    /// The sum of `mss` bytes of payload.
    payload: Sum,
    over: bool,
}

/// The relevant fields of a segment that arrived.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    ports: (u16, u16),
    seq: u32,
    ack: u32,
    flags: u8,
    wnd: u16,
    mss: u16,
    shift: u8,
    payload_len: u32,
}

impl Null {
    /// Opens the device.
    ///
    /// # Errors
    /// The kernel refuses, or has no TUN.
    pub fn open(offload: bool) -> io::Result<Self> {
        Ok(Self {
            device: sys::open_tun(DEVICE, offload)?,
            offload,
            received: vec![0; VNET + PACKET_MAX].into(),
            packet: vec![0x5a; VNET + PACKET_MAX].into(),
            connections: Vec::new(),
            last_progress: Instant::now(),
        })
    }

    /// Serves until the device is gone.
    ///
    /// # Errors
    /// The device is gone.
    pub fn serve(mut self) -> io::Result<()> {
        loop {
            let has_received = self.receive()?;
            let has_sent = self.supply()?;
            if !has_received && !has_sent {
                sys::wait_readable([self.device.as_fd()], SILENCE)?;
            }
        }
    }

    /// Takes what has arrived, and answers.
    fn receive(&mut self) -> io::Result<bool> {
        for count in 0..BATCH {
            let len = match (&self.device).read(&mut self.received) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(count > 0),
                Err(error) => return Err(error),
            };
            let from = if self.offload { VNET } else { 0 };
            let Some(arrived) = self.received.get(from..len).and_then(Arrived::parse) else { continue };
            self.take(arrived)?;
        }
        Ok(true)
    }

    fn take(&mut self, arrived: Arrived) -> io::Result<()> {
        let is_same = |connection: &Connection| (connection.peer_port, connection.port) == arrived.ports;
        if arrived.flags & SYN != 0 {
            self.connections.retain(|connection| !is_same(connection));
            let connection = Connection::new(arrived, &self.packet);
            self.send_syn_ack(&connection)?;
            self.connections.push(connection);
            return Ok(());
        }
        let Some(at) = self.connections.iter().position(is_same) else { return Ok(()) };
        let mut connection = self.connections.swap_remove(at);
        if arrived.flags & RST != 0 {
            return Ok(());
        }
        if connection.acknowledge(arrived) {
            self.last_progress = Instant::now();
        }
        let echoes = arrived.payload_len > 0 && connection.port == Service::Echo.port();
        connection.receive(arrived);
        if arrived.flags & FIN != 0 {
            connection.rcv_nxt = connection.rcv_nxt.wrapping_add(1);
            connection.over = true;
            self.send(&connection, ACK | FIN, 0)?;
        } else if echoes {
            self.send(&connection, ACK | PSH, 1)?;
            connection.snd_nxt = connection.snd_nxt.wrapping_add(1);
            connection.unanswered = 0;
        } else if connection.unanswered >= if self.offload { 1 } else { ACK_EVERY } {
            connection.unanswered = 0;
            self.send(&connection, ACK, 0)?;
        }
        if !connection.over {
            self.connections.push(connection);
        }
        Ok(())
    }

    /// Sends the acknowledgements that are due, and fills the window of each client of the source.
    fn supply(&mut self) -> io::Result<bool> {
        let mut has_sent = false;
        let silent = || self.last_progress.elapsed() > SILENCE;
        let begins_again = self.connections.iter().any(|one| one.snd_nxt != one.snd_una) && silent();
        for at in 0..self.connections.len() {
            if std::mem::take(&mut self.connections[at].unanswered) > 0 {
                let connection = self.connections[at];
                self.send(&connection, ACK, 0)?;
            }
            let connection = &mut self.connections[at];
            if connection.port != Service::Source.port() || !connection.established {
                continue;
            }
            if begins_again {
                connection.snd_nxt = connection.snd_una;
                self.last_progress = Instant::now();
            }
            let (whole, packets) =
                if self.offload { (connection.whole(), 4) } else { (connection.mss(), 64) };
            for _ in 0..packets {
                let connection = self.connections[at];
                let len = connection.room().min(whole);
                if len == 0 {
                    break;
                }
                self.send(&connection, ACK, len)?;
                let len = u32::try_from(len).map_err(io::Error::other)?;
                self.connections[at].snd_nxt = connection.snd_nxt.wrapping_add(len);
                has_sent = true;
            }
        }
        Ok(has_sent)
    }

    /// Sends a segment with `len` bytes of payload; the device cuts it if it is longer than one.
    fn send(&mut self, connection: &Connection, flags: u8, len: usize) -> io::Result<()> {
        let packet = &mut self.packet;
        let headers: &mut [u8; HEADERS] = packet[VNET..].first_chunk_mut().expect("room for headers");
        connection.write(headers, flags, &[], len);
        let whole = VNET + HEADERS + len;
        let from = if self.offload {
            let cut = (len > connection.mss()).then_some(connection.mss);
            packet[..VNET].copy_from_slice(&virtio_header(cut));
            0
        } else {
            let payload = if len <= 4 { sum(&packet[VNET + HEADERS..whole]) } else { connection.payload };
            finish(&mut packet[VNET + 20..VNET + HEADERS], payload);
            VNET
        };
        write(&self.device, &packet[from..whole])
    }

    fn send_syn_ack(&self, connection: &Connection) -> io::Result<()> {
        let [high, low] = connection.mss.to_be_bytes();
        let options = [2, 4, high, low, 1, 3, 3, SHIFT];
        let mut packet = [0; VNET + HEADERS + 8];
        let headers: &mut [u8; HEADERS] = packet[VNET..].first_chunk_mut().expect("room for headers");
        let first = Connection { snd_nxt: connection.snd_nxt.wrapping_sub(1), ..*connection };
        first.write(headers, ACK | SYN, &options, 0);
        packet[VNET + HEADERS..].copy_from_slice(&options);
        finish(&mut packet[VNET + 20..], Sum::ZERO);
        write(&self.device, &packet[if self.offload { 0 } else { VNET }..])
    }
}

impl Connection {
    fn new(syn: Arrived, payload: &[u8]) -> Self {
        let mss = syn.mss.min(MSS_MAX);
        Self {
            port: syn.ports.1,
            peer_port: syn.ports.0,
            rcv_nxt: syn.seq.wrapping_add(1),
            snd_una: 1,
            snd_nxt: 1,
            snd_wnd: 0,
            shift: syn.shift,
            mss,
            established: false,
            unanswered: 0,
            payload: sum(&payload[VNET + HEADERS..][..usize::from(mss)]),
            over: false,
        }
    }

    /// Processes the acknowledgement. Returns whether it acknowledges anything new.
    fn acknowledge(&mut self, arrived: Arrived) -> bool {
        self.established = true;
        self.snd_wnd = u32::from(arrived.wnd) << self.shift;
        let new = arrived.ack.wrapping_sub(self.snd_una);
        if new == 0 || new > HALF {
            return false;
        }
        self.snd_una = arrived.ack;
        if self.snd_nxt.wrapping_sub(self.snd_una) > HALF {
            self.snd_nxt = self.snd_una;
        }
        true
    }

    fn receive(&mut self, arrived: Arrived) {
        match arrived.payload_len {
            0 => {}
            len if arrived.seq == self.rcv_nxt => {
                self.rcv_nxt = self.rcv_nxt.wrapping_add(len);
                self.unanswered += 1;
            }
            _ => self.unanswered += ACK_EVERY,
        }
    }

    fn mss(&self) -> usize {
        usize::from(self.mss)
    }

    /// As many segments as fit into a packet.
    fn whole(&self) -> usize {
        (PACKET_MAX - HEADERS) / self.mss() * self.mss()
    }

    /// Whole segments for which the window has room.
    fn room(&self) -> usize {
        let room = self.snd_wnd.saturating_sub(self.snd_nxt.wrapping_sub(self.snd_una));
        room as usize / self.mss() * self.mss()
    }

    /// Writes the headers; the checksum field gets the sum of the pseudo-header.
    fn write(&self, headers: &mut [u8; HEADERS], flags: u8, options: &[u8], len: usize) {
        let tcp_len = 20 + options.len() + len;
        let (IpAddr::V4(own), IpAddr::V4(kernel)) = (OWN, KERNEL) else { return };
        let words = |number: usize| (number as u16).to_be_bytes();
        headers[..2].copy_from_slice(&[0x45, 0]);
        headers[2..4].copy_from_slice(&words(20 + tcp_len));
        headers[4..12].copy_from_slice(&[0, 0, 0x40, 0, 64, TCP, 0, 0]);
        headers[12..16].copy_from_slice(&own.octets());
        headers[16..20].copy_from_slice(&kernel.octets());
        let checksum = sum(&headers[..20]).checksum();
        headers[10..12].copy_from_slice(&checksum.to_be_bytes());
        headers[20..22].copy_from_slice(&self.port.to_be_bytes());
        headers[22..24].copy_from_slice(&self.peer_port.to_be_bytes());
        headers[24..28].copy_from_slice(&self.snd_nxt.to_be_bytes());
        headers[28..32].copy_from_slice(&self.rcv_nxt.to_be_bytes());
        headers[32] = ((20 + options.len()) << 2) as u8;
        headers[33] = flags;
        let window = if flags & SYN != 0 { u16::MAX } else { WINDOW };
        headers[34..36].copy_from_slice(&window.to_be_bytes());
        headers[36..38].copy_from_slice(&pseudo_header(OWN, KERNEL, TCP, tcp_len).fold().to_be_bytes());
        headers[38..40].fill(0);
    }
}

impl Arrived {
    /// Parses a TCP segment in an IPv4 packet without options; `None` for any other.
    fn parse(packet: &[u8]) -> Option<Self> {
        let (ip, tcp) = packet.split_first_chunk::<20>()?;
        let fixed = tcp.first_chunk::<20>()?;
        if ip[0] != 0x45 || ip[9] != TCP {
            return None;
        }
        let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let long = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let header_len = usize::from(fixed[12] >> 4) * 4;
        let options = tcp.get(20..header_len)?;
        let (mss, shift) = if fixed[13] & SYN != 0 { syn_options(options) } else { (0, 0) };
        Some(Self {
            ports: (word(0), word(2)),
            seq: long(4),
            ack: long(8),
            flags: fixed[13],
            wnd: word(14),
            mss,
            shift,
            payload_len: u32::try_from(tcp.len() - header_len).ok()?,
        })
    }
}

/// The maximum segment size and the window scale, or the defaults where they are missing.
fn syn_options(mut options: &[u8]) -> (u16, u8) {
    let (mut mss, mut shift) = (536, 0);
    while let [kind, rest @ ..] = options {
        options = match (kind, rest) {
            (0, _) => break,
            (1, rest) => rest,
            (kind, [len, ..]) if usize::from(*len) >= 2 && usize::from(*len) <= options.len() => {
                match (kind, &options[2..usize::from(*len)]) {
                    (2, &[high, low]) => mss = u16::from_be_bytes([high, low]),
                    (3, &[count]) => shift = count,
                    _ => {}
                }
                &options[usize::from(*len)..]
            }
            _ => break,
        };
    }
    (mss, shift)
}

/// The virtio-net header of a packet whose checksum the kernel completes, and which it treats as segments of
/// `cut` bytes: OASIS Virtual I/O Device Version 1.2 §5.1.6.
fn virtio_header(cut: Option<u16>) -> [u8; VNET] {
    let mut header = [0; VNET];
    header[0] = NEEDS_CSUM;
    header[6..8].copy_from_slice(&20u16.to_ne_bytes());
    header[8..10].copy_from_slice(&16u16.to_ne_bytes());
    if let Some(size) = cut {
        header[1] = GSO_TCPV4;
        header[2..4].copy_from_slice(&(HEADERS as u16).to_ne_bytes());
        header[4..6].copy_from_slice(&size.to_ne_bytes());
    }
    header
}

/// Turns the sum of the pseudo-header in the TCP header `tcp` into a complete checksum.
fn finish(tcp: &mut [u8], payload: Sum) {
    let checksum = sum(tcp).plus(payload).checksum();
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
}

/// Hands a packet to the kernel; one that the kernel refuses is lost.
fn write(mut device: &File, packet: &[u8]) -> io::Result<()> {
    match device.write(packet) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result.map(drop),
    }
}

/// Packets read before anything is sent.
const BATCH: usize = 64;
/// Segments per acknowledgement, where the kernel does not coalesce them.
const ACK_EVERY: u32 = 8;
/// After this, everything outstanding is sent again.
const SILENCE: Duration = Duration::from_millis(100);
const MSS_MAX: u16 = 1460;
/// The window never changes: 64 MiB, as the header carries it, with its scale.
const WINDOW: u16 = 4096;
const SHIFT: u8 = 14;
const HALF: u32 = 1 << 31;

const VNET: usize = 10;
/// Headers of IP and TCP, without options.
const HEADERS: usize = 40;
const PACKET_MAX: usize = 65_535;
const TCP: u8 = 6;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
