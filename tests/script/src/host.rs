//! An endpoint in virtual time. The independent decoder parses and checks every frame that it emits.

use std::net::IpAddr;

use ackclock_core::{Endpoint, EndpointConfig, Event, Instant, Limits};
use ackclock_wire::{ChecksumState, RxMeta, gso};

use crate::segment::{ACK, FIN, Frame, Opt, RST, SYN};

/// An endpoint, its clock and the properties of its device.
#[derive(Debug)]
pub struct Host {
    /// The endpoint under test.
    pub endpoint: Endpoint,
    /// The host's clock; it only moves forwards.
    pub now: Instant,
    /// Largest packet that the device cuts itself; 0: it cuts none.
    pub gso_max: usize,
    mtu: usize,
}

impl Host {
    /// A host that starts at `now`.
    #[must_use]
    pub fn new(config: EndpointConfig, now: Instant) -> Self {
        Self { mtu: config.mtu, gso_max: 0, endpoint: Endpoint::new(config, now), now }
    }

    /// A packet arrives from the device, its checksum still to be verified.
    pub fn receive(&mut self, packet: &[u8]) {
        self.receive_as(packet, RxMeta { checksum: ChecksumState::Complete, segment_size: None });
    }

    /// A packet arrives from a device with this metadata.
    pub fn receive_as(&mut self, packet: &[u8], meta: RxMeta) {
        self.endpoint.handle_packet(self.now, packet, meta);
    }

    /// All frames that the endpoint wants to send now.
    ///
    /// # Panics
    /// If a frame breaks one of the rules of [`check_frame`], or the endpoint never stops sending.
    pub fn transmit(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(packet) = self.transmit_one() {
            let frame = check_frame(&packet, self.mtu).unwrap_or_else(|why| panic!("{why}: {packet:02x?}"));
            frames.push(frame);
            assert!(
                frames.len() < BURST_MAX,
                "{BURST_MAX} frames at one instant: the endpoint does not stop"
            );
        }
        frames
    }

    /// The next packet that the endpoint wants to send now, as it would be on the wire.
    pub fn transmit_one(&mut self) -> Option<Vec<u8>> {
        let limits = Limits { gso_max_v4: self.gso_max, gso_max_v6: self.gso_max, tx_checksum: false };
        let packet = self.endpoint.poll_transmit(self.now, limits)?;
        assert_eq!(packet.segment_size, None, "a large packet for a device that cuts none");
        assert_eq!(
            packet.checksum,
            ChecksumState::Complete,
            "an unfinished checksum for a device that finishes none"
        );
        Some(packet.to_vec())
    }

    /// The next packet that the endpoint wants to send now, cut by the device into what is on the wire.
    pub fn transmit_cut(&mut self) -> Option<Vec<Vec<u8>>> {
        if self.gso_max == 0 {
            return self.transmit_one().map(|packet| vec![packet]);
        }
        let limits = Limits { gso_max_v4: self.gso_max, gso_max_v6: self.gso_max, tx_checksum: true };
        let packet = self.endpoint.poll_transmit(self.now, limits)?;
        assert!(
            packet.len() <= self.gso_max.max(self.mtu),
            "{} bytes for a device that takes {}",
            packet.len(),
            self.gso_max
        );
        let mut cut = Vec::new();
        gso::cut(&packet, |part| cut.push(part.to_vec()));
        Some(cut)
    }

    /// When the endpoint wants to be woken, never before the present.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout().map(|at| at.max(self.now))
    }

    /// Moves the clock forwards and lets timers expire.
    ///
    /// # Panics
    /// If `to` lies in the past.
    pub fn wake(&mut self, to: Instant) {
        assert!(to >= self.now, "time runs forwards");
        self.now = to;
        self.endpoint.handle_timeout(to);
    }

    /// Events since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.endpoint.poll_event()).collect()
    }

    /// The device's MTU changes.
    pub fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
        self.endpoint.set_mtu(self.now, mtu);
    }

    /// The device's MTU in bytes.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.mtu
    }
}

/// Parses a packet and checks what holds for every packet of a correct stack.
///
/// # Errors
/// The rule that is broken.
pub fn check_frame(packet: &[u8], mtu: usize) -> Result<Frame, String> {
    let frame = Frame::parse(packet)?;
    let seg = &frame.seg;
    if packet.len() > mtu {
        return Err(format!("{} bytes over an MTU of {mtu}", packet.len()));
    }
    // RFC 9293 §3.7.1 MUST-65; RFC 7323 §2.2; RFC 2018 §2.
    if !seg.has(SYN) && (seg.mss().is_some() || seg.window_scale().is_some() || seg.sack_permitted()) {
        return Err("an option that belongs on SYN segments only".to_owned());
    }
    // RFC 9768 §3.2.3: up to three counters of three bytes.
    let counters = |kind: u8, data: &[u8]| matches!(kind, 172 | 174) && matches!(data.len(), 3 | 6 | 9);
    // RFC 6994: an experiment's identifier and, in this stack, eight bytes; in the handshake only.
    let experiment = |kind: u8, data: &[u8]| kind == 254 && data.len() == 12 && seg.has(SYN);
    // RFC 7413 §4.1.1: a request, or a cookie of 4 to 16 bytes, an even number; in the handshake only.
    let fast_open = |kind: u8, data: &[u8]| {
        kind == 34 && seg.has(SYN) && matches!(data.len(), 0 | 4..=16) && data.len().is_multiple_of(2)
    };
    // RFC 5482 §3.
    let user_timeout = |kind: u8, data: &[u8]| kind == 28 && data.len() == 2;
    let known = |kind: u8, data: &[u8]| {
        counters(kind, data) || experiment(kind, data) || fast_open(kind, data) || user_timeout(kind, data)
    };
    if let Some(kind) = seg.options.iter().find_map(|option| match option {
        Opt::Other(kind, data) if !known(*kind, data) => Some(kind),
        _ => None,
    }) {
        return Err(format!("unknown option kind {kind}"));
    }
    if !seg.has(ACK) && !seg.has(SYN) && !seg.has(RST) {
        return Err("neither SYN, RST nor ACK".to_owned());
    }
    if seg.has(SYN | FIN) || seg.has(SYN | RST) || seg.has(FIN | RST) {
        return Err("flags that exclude each other".to_owned());
    }
    if !seg.has(ACK) && seg.ack != 0 {
        return Err("an acknowledgement number without the ACK bit leaks state".to_owned());
    }
    Ok(frame)
}

/// The address of host number `number`: 10.0.0.n or fd00::n.
#[must_use]
pub fn host_addr(v6: bool, number: u8) -> IpAddr {
    if v6 {
        IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(number)])
    } else {
        IpAddr::from([10, 0, 0, number])
    }
}

const BURST_MAX: usize = 100_000;
