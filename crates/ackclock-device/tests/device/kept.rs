//! A packet that waited equals one that left at once: its bytes, its offload state and its place among the
//! others stay the same.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock_device::impair::{Impaired, Settings};
use ackclock_device::link::{Detection, HEADER_LEN, LinkConfig, MacAddr};
use ackclock_device::several::Several;
use ackclock_device::{
    Capabilities, Device, EthernetDevice, FrameDevice, Medium, OffloadMode, PacketDevice, PacketOptions,
    RawConfig, RawDevice, ReceiveBatch,
};
use ackclock_wire::{ChecksumAt, ChecksumState, Cidr, RxMeta, TxPacket};

use super::common::{in_namespace, ip};

/// A packet as a device got it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    header: Vec<u8>,
    payload: Vec<u8>,
    transport_offset: u16,
    segment_size: Option<NonZeroU16>,
    checksum: ChecksumState,
}

/// A device whose room a test decides on, in packets.
#[derive(Clone, Debug, Default)]
struct Gate(Arc<Mutex<Inside>>);

#[derive(Debug, Default)]
struct Inside {
    room: usize,
    sent: Vec<Sent>,
    arriving: VecDeque<Vec<u8>>,
    waker: Option<Waker>,
}

impl Gate {
    fn open(&self, room: usize) {
        self.0.lock().unwrap().room = room;
    }

    fn sent(&self) -> Vec<Sent> {
        std::mem::take(&mut self.0.lock().unwrap().sent)
    }

    fn poll_room(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut inside = self.0.lock().unwrap();
        inside.waker = Some(cx.waker().clone());
        if inside.room > 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn take(&self, packet: &TxPacket<'_>) {
        let mut inside = self.0.lock().unwrap();
        inside.room = inside.room.checked_sub(1).expect("it was ready");
        inside.sent.push(Sent {
            header: packet.header.to_vec(),
            payload: packet.payload.concat(),
            transport_offset: packet.transport_offset,
            segment_size: packet.segment_size,
            checksum: packet.checksum,
        });
    }

    fn arrive(&self, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let arriving = self.0.lock().unwrap().arriving.pop_front();
        let Some(bytes) = arriving else { return Poll::Pending };
        assert!(batch.push(&bytes, RxMeta::default()));
        Poll::Ready(Ok(1))
    }
}

impl Device for Gate {
    fn capabilities(&self) -> Capabilities {
        let plain = Capabilities::ip(1500);
        Capabilities { gso_max_v4: 65_535, gso_max_v6: 65_535, tx_checksum: true, ..plain }
    }

    fn poll_receive(&mut self, _: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.arrive(batch)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_room(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        self.take(packet);
        Ok(())
    }
}

/// A gate for frames. It leaves out the link's own questions.
#[derive(Debug)]
struct FrameGate(Gate);

impl FrameDevice for FrameGate {
    fn capabilities(&self) -> Capabilities {
        let of_packets = self.0.capabilities();
        Capabilities { medium: Medium::Link { header_len: HEADER_LEN }, ..of_packets }
    }

    fn poll_receive(&mut self, _: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.0.arrive(batch)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_room(cx)
    }

    fn send(&mut self, header: &[u8; HEADER_LEN], packet: &TxPacket<'_>) -> io::Result<()> {
        if header[12..] == [0x08, 0x06] {
            return Ok(());
        }
        assert_eq!(header[..6], NEIGHBOUR.octets());
        self.0.take(packet);
        Ok(())
    }
}

/// Packets of each kind, in an order: plain and cut, checksums finished and not, traffic class, hop limit.
fn packets() -> Vec<Sent> {
    let unfinished = ChecksumState::Partial(ChecksumAt::tcp(20));
    let said = [
        (64, 0, None, ChecksumState::Complete),
        (64, 0, NonZeroU16::new(500), unfinished),
        (1, 0xb8, None, unfinished),
        (255, 0x02, NonZeroU16::new(1000), unfinished),
        (64, 0x03, None, ChecksumState::Complete),
    ];
    let packet = |(number, (ttl, tos, segment_size, checksum))| {
        let [len, segments] = [1200_u16, 1240].map(u16::to_be_bytes);
        let mut header =
            vec![0x45, tos, segments[0], segments[1], 0, number, 0x40, 0, ttl, 6, len[0], len[1]];
        header.extend([10, 9, 0, 1, 10, 9, 0, 2]);
        // A TCP header of 20 bytes.
        header.extend([0x12, 0x34, 0, 80, 0, 0, 0, number, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        Sent { header, payload: vec![number; 1200], transport_offset: 20, segment_size, checksum }
    };
    (1..).zip(said).map(packet).collect()
}

/// Sends a packet whose payload lies in two places.
fn send(device: &mut impl Device, packet: &Sent) {
    let (first, second) = packet.payload.split_at(700);
    device
        .send(&TxPacket {
            header: &packet.header,
            transport_offset: packet.transport_offset,
            payload: [first, second],
            segment_size: packet.segment_size,
            checksum: packet.checksum,
        })
        .unwrap();
}

fn poll_room(device: &mut impl Device) -> bool {
    match device.poll_send_ready(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ready) => ready.is_ok(),
        Poll::Pending => false,
    }
}

fn receive(device: &mut impl Device) {
    let mut batch = ReceiveBatch::new(64, 0);
    assert!(device.poll_receive(&mut Context::from_waker(Waker::noop()), &mut batch).is_pending());
}

/// Opens the gate for one packet at a time, and sends the last packets meanwhile, as soon as there is room.
fn trickle(device: &mut impl Device, gate: &Gate, mut late: &[Sent]) -> Vec<Sent> {
    let mut sent = Vec::new();
    for turn in 0..4 * packets().len() {
        // Room comes before the device is asked, or between that and the packet.
        let early = turn % 2 == 0;
        gate.open(usize::from(early));
        let ready = poll_room(device);
        if !early {
            gate.open(1);
        }
        if ready && let Some((next, rest)) = late.split_first() {
            send(device, next);
            late = rest;
        }
        sent.extend(gate.sent());
    }
    sent
}

#[test]
fn what_waited_for_a_full_device_of_several() {
    let (gate, other) = (Gate::default(), Gate::default());
    let route: Cidr = "10.9.0.0/24".parse().unwrap();
    let mut device =
        Several::new().device("gate", gate.clone()).device("other", other.clone()).route("gate", route);
    // There is room in the queue of the full device.
    other.open(1);
    let all = packets();
    let (early, late) = all.split_at(3);
    for packet in early {
        assert!(poll_room(&mut device));
        send(&mut device, packet);
    }
    assert_eq!((gate.sent(), other.sent()), (vec![], vec![]));
    assert_eq!(trickle(&mut device, &gate, late), all);
    assert_eq!(other.sent(), []);
}

const NEIGHBOUR: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 9]);

/// A link at 10.9.0.1 that has begun, and the answer of its neighbour 10.9.0.2.
fn ethernet(gate: &Gate) -> (EthernetDevice<FrameGate>, Vec<u8>) {
    let own = MacAddr::new([2, 0, 0, 0, 0, 1]);
    let mut config = LinkConfig::new(own);
    config.addresses = vec![Cidr::up_to(IpAddr::from([10, 9, 0, 1]), 24)];
    config.detection = Detection::Announce;
    let mut device = EthernetDevice::new(FrameGate(gate.clone()), config);
    gate.open(1);
    receive(&mut device);
    let mut answer = [own.octets(), NEIGHBOUR.octets()].concat();
    answer.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 2]);
    answer.extend(NEIGHBOUR.octets());
    answer.extend([10, 9, 0, 2]);
    answer.extend(own.octets());
    answer.extend([10, 9, 0, 1]);
    (device, answer)
}

#[tokio::test(start_paused = true)]
async fn what_waited_for_a_neighbour_and_then_for_the_device() {
    let gate = Gate::default();
    let (mut device, answer) = ethernet(&gate);
    let all = packets();
    let (early, late) = all.split_at(3);
    early.iter().for_each(|packet| send(&mut device, packet));
    receive(&mut device);
    assert_eq!(gate.sent(), []);
    // The answer comes while the device is full.
    gate.open(0);
    gate.0.lock().unwrap().arriving.push_back(answer);
    receive(&mut device);
    assert_eq!(trickle(&mut device, &gate, late), all);
}

#[tokio::test(start_paused = true)]
async fn what_went_behind_a_known_neighbour_s_header_at_once() {
    let gate = Gate::default();
    let (mut device, answer) = ethernet(&gate);
    let all = packets();
    // One packet asks for it.
    send(&mut device, &all[0]);
    receive(&mut device);
    gate.0.lock().unwrap().arriving.push_back(answer);
    receive(&mut device);
    assert_eq!(gate.sent(), all[..1]);
    gate.open(all.len());
    for packet in &all {
        assert!(poll_room(&mut device));
        send(&mut device, packet);
    }
    assert_eq!(gate.sent(), all);
}

/// An impaired device cuts and finishes every packet, as a wire would carry it. A delay changes nothing but
/// the time, and neither does a full device behind it.
#[tokio::test(start_paused = true)]
async fn what_was_delayed_on_an_impaired_device() {
    let delayed = |delay: Duration| Settings { delay, ..Settings::default() };
    let gates = [Gate::default(), Gate::default()];
    let mut went = Vec::new();
    for (gate, delay) in gates.iter().zip([0, 10].map(Duration::from_millis)) {
        let mut device = Impaired::new(gate.clone(), 1, delayed(delay), Settings::default()).unwrap();
        gate.open(100);
        packets().iter().for_each(|packet| send(&mut device, packet));
        let at_once = gate.sent();
        assert_eq!(at_once.is_empty(), !delay.is_zero());
        gate.open(0);
        tokio::time::sleep(delay).await;
        receive(&mut device);
        let mut sent = at_once;
        for _ in 0..100 {
            gate.open(1);
            receive(&mut device);
            sent.extend(gate.sent());
        }
        went.push(sent);
    }
    // 1,200 bytes: one packet, three of 500, one, two of 1,000, one.
    assert_eq!(went[0].len(), 8);
    assert_eq!(went[0], went[1]);
}

/// This packet over IPv6.
fn over_v6(packet: &Sent) -> Sent {
    let (tos, len) = (packet.header[1], (20 + packet.payload.len() as u16).to_be_bytes());
    let mut header = vec![0x60 | tos >> 4, tos << 4, 0, 0, len[0], len[1], 6, packet.header[8]];
    for end in [1, 2] {
        header.extend([0xfd, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
    }
    header.extend(&packet.header[20..]);
    let checksum = match packet.checksum {
        ChecksumState::Partial(_) => ChecksumState::Partial(ChecksumAt::tcp(40)),
        complete => complete,
    };
    Sent { header, transport_offset: 40, checksum, ..packet.clone() }
}

/// The frames with TCP that have arrived at the far end of the cable.
fn take_tcp(far: &mut PacketDevice) -> Vec<Vec<u8>> {
    let (mut frames, mut batch) = (Vec::new(), ReceiveBatch::new(64, 0));
    while far.poll_receive(&mut Context::from_waker(Waker::noop()), &mut batch).is_ready() {
        let is_tcp = |frame: &&[u8]| match frame[12..14] {
            [0x08, 0x00] => frame[14 + 9] == 6,
            [0x86, 0xdd] => frame[14 + 6] == 6,
            _ => false,
        };
        frames.extend(batch.iter().map(|(frame, _)| frame).filter(is_tcp).map(<[u8]>::to_vec));
        batch.clear();
    }
    frames
}

/// Lets the socket take what it can, until this many frames have arrived.
async fn arrived(raw: &mut RawDevice, far: &mut PacketDevice, frames: usize) -> Vec<Vec<u8>> {
    let mut arrived = Vec::new();
    while arrived.len() < frames {
        receive(raw);
        arrived.extend(take_tcp(far));
        tokio::task::yield_now().await;
    }
    arrived
}

/// Packets to a neighbour that does not answer stay in the kernel, which charges the socket for them.
async fn waits_for_a_raw_socket(raw: &mut RawDevice, far: &mut PacketDevice, v6: bool) {
    let kinds: Vec<Sent> = match v6 {
        false => packets(),
        true => packets().iter().map(over_v6).collect(),
    };
    let mut filler = kinds[0].clone();
    // A protocol for experiments.
    filler.header[if v6 { 6 } else { 9 }] = 253;
    let before = raw.counters().sent;
    send(raw, &filler);
    while raw.counters().sent == before {
        receive(raw);
        tokio::task::yield_now().await;
    }
    let mut sent = before + 1;
    while raw.counters().sent == sent {
        send(raw, &filler);
        raw.flush().unwrap();
        sent += 1;
    }
    kinds.iter().for_each(|packet| send(raw, packet));
    raw.flush().unwrap();
    assert_eq!(raw.counters().sent, sent - 1, "the socket is full");
    assert_eq!(take_tcp(far).len(), 0);

    let neighbour = if v6 { "fd09::2" } else { "10.9.0.2" };
    ip(&format!("neigh replace {neighbour} lladdr {NEIGHBOUR} dev near"));
    take_tcp(far);
    // 1,200 bytes: one packet, three of 500, one, two of 1,000, one.
    let waited = arrived(raw, far, 8).await;
    let mut at_once = Vec::new();
    for (packet, frames) in kinds.iter().zip([1, 3, 1, 2, 1]) {
        let before = raw.counters().sent;
        send(raw, packet);
        raw.flush().unwrap();
        assert_eq!(raw.counters().sent, before + frames);
        at_once.extend(arrived(raw, far, frames as usize).await);
    }
    assert_eq!(waited, at_once);
    let counters = raw.counters();
    assert_eq!((counters.send_no_room, counters.send_refused, counters.send_link_down), (0, 0, 0));
}

#[test]
fn what_waited_for_a_raw_socket() {
    in_namespace(|| async {
        ip("link add near type veth peer name far");
        ip("link set near up");
        ip("link set far up");
        ip("addr add 10.9.0.1/24 dev near");
        ip("addr add fd09::1/64 dev near nodad");
        for family in ["ipv4", "ipv6"] {
            // The kernel neither gives up a neighbour nor drops what waits for it.
            for (name, value) in [("mcast_solicit", "1000000"), ("unres_qlen_bytes", "100000000")] {
                std::fs::write(format!("/proc/sys/net/{family}/neigh/near/{name}"), value).unwrap();
            }
        }
        let promiscuous = PacketOptions { offload: OffloadMode::Off, promiscuous: true, mac: None };
        let far = PacketDevice::open("far", promiscuous);
        let mut config = RawConfig::new(["10.9.0.1", "fd09::1"].map(|addr| addr.parse().unwrap()));
        // Nothing is received here, so the kernel has nothing to answer.
        config.guard = false;
        let (mut far, mut raw) = (far.unwrap().0, RawDevice::open(&config).unwrap());
        for v6 in [false, true] {
            waits_for_a_raw_socket(&mut raw, &mut far, v6).await;
        }
    });
}
