//! One connection in virtual time, and the segments that a test gives to it.

use ackclock_wire::{Codepoint, ControlSegment, Fields, Flags, FlowLabel, write_control};

use super::*;
use crate::RxPacket;
use crate::connection::{Handshake, Outgoing};

pub(super) const SMSS: usize = 1460;
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A connection that a peer has opened, and what is given to it.
pub(super) struct Lone {
    pub end: Connection,
    pub now: Instant,
    pub limits: Limits,
}

pub(super) fn tuple() -> FourTuple {
    let addr = |last, port| SocketAddr::new(IpAddr::from([10, 0, 0, last]), port);
    FourTuple::new(addr(1, 80), addr(2, 1000))
}

pub(super) fn handshake() -> Handshake {
    Handshake {
        irs: SeqNum::new(1000),
        peer_mss: 1460,
        window_scale: None,
        sack: true,
        timestamps: None,
        rtt: Some(Duration::from_millis(20)),
        repetitions: 0,
        peer_window: 65_535,
        ecn: None,
        experiment: None,
    }
}

impl Lone {
    pub(super) fn new(tcp: TcpConfig) -> Self {
        Self::agreed(tcp, handshake())
    }

    pub(super) fn agreed(tcp: TcpConfig, handshake: Handshake) -> Self {
        let now = Instant::from_millis(100_000);
        let end = Connection::passive(now, tuple(), tcp.into(), &environment(5000), handshake);
        Self { end, now, limits: software(1500) }
    }

    /// All that leaves now.
    pub(super) fn sent(&mut self) -> Vec<Outgoing> {
        self.sent_by(true)
    }

    /// Sends, with or without the fast path.
    fn sent_by(&mut self, short: bool) -> Vec<Outgoing> {
        let mut header = [0; HEADER_MAX];
        std::iter::from_fn(|| self.end.poll_transmit(self.now, self.limits, short, &mut header)).collect()
    }

    pub(super) fn sizes_of(&mut self, short: bool) -> Vec<usize> {
        self.sent_by(short).iter().map(|sent| sent.payload_len).collect()
    }

    /// The flags of all that leaves now.
    pub(super) fn flags(&mut self) -> Vec<Flags> {
        let mut header = [0; HEADER_MAX];
        let next = || {
            let out = self.end.poll_transmit(self.now, self.limits, true, &mut header)?;
            let at = usize::from(out.transport_offset) + 12;
            Some(Flags::from_bits(u16::from_be_bytes([header[at], header[at + 1]])))
        };
        std::iter::from_fn(next).collect()
    }

    pub(super) fn sizes(&mut self) -> Vec<usize> {
        self.sizes_of(true)
    }

    /// The peer's next acknowledgement, without text.
    pub(super) fn ack(&self, ack: SeqNum, window: u16) -> Fields {
        Fields { seq: self.end.rcv.nxt().seq(), ack, flags: Flags::ACK, window, ..Fields::default() }
    }

    pub(super) fn give(&mut self, fields: &Fields, codepoint: Codepoint, payload: &[u8]) {
        self.give_as(fields, codepoint, payload, RxMeta::default());
    }

    /// Gives a segment without text, as a packet that may take the way of a prediction. Returns whether it
    /// did.
    pub(super) fn give_packet(&mut self, fields: &Fields) -> bool {
        let (src, dst) = (tuple().remote(), tuple().local());
        let mut packet = [0; HEADER_MAX];
        let flow_label = FlowLabel::NONE;
        let segment = ControlSegment { src, dst, ttl: 64, traffic_class: 0, flow_label, fields: *fields };
        let len = write_control(&mut packet, &segment);
        let is_predicted =
            self.end.take_predicted(self.now, &RxPacket::new(&packet[..len], RxMeta::default()));
        if !is_predicted {
            self.give(fields, Codepoint::NotEct, &[]);
        }
        is_predicted
    }

    /// A segment that receive offload made of several, or not.
    pub(super) fn give_as(&mut self, fields: &Fields, codepoint: Codepoint, payload: &[u8], meta: RxMeta) {
        let segment = Segment {
            src_port: 1000,
            dst_port: 80,
            seq: fields.seq,
            ack: fields.ack,
            flags: fields.flags,
            window: fields.window,
            urgent: 0,
            options: fields.options,
            payload,
        };
        self.end.handle_segment(self.now, &segment, meta, codepoint, None);
    }

    pub(super) fn acknowledge_all(&mut self, window: u16) {
        let fields = self.ack(self.end.snd.flight().nxt().seq(), window);
        self.give(&fields, Codepoint::NotEct, &[]);
    }

    /// An active open whose SYN has left.
    pub(super) fn opening(tcp: TcpConfig) -> Self {
        let now = Instant::from_millis(100_000);
        let end = Connection::active(now, tuple(), tcp.into(), &environment(5000));
        let mut lone = Self { end, now, limits: software(1500) };
        assert_eq!(lone.sizes(), [0]);
        lone
    }

    /// The peer's FIN, which acknowledges all.
    pub(super) fn finish(&mut self) {
        let fields = self.ack(self.end.snd.flight().nxt().seq(), 65_535);
        self.give(&Fields { flags: Flags::ACK | Flags::FIN, ..fields }, Codepoint::NotEct, &[]);
    }

    /// The time of the next deadline comes.
    pub(super) fn expire(&mut self) {
        self.now = self.end.poll_timeout().expect("a timer runs");
        self.end.handle_timeout(self.now);
    }
}
