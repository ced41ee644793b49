//! Two links on a cable of memory, on a clock that only timers advance.

use std::future::poll_fn;
use std::net::IpAddr;
use std::num::NonZeroU16;

use ackclock_link::{Detection, NeighbourState};
use ackclock_wire::Cidr;
use ackclock_wire::{ChecksumAt, ChecksumState, RxMeta};

use super::*;
use crate::memory::{self, Cable, MemoryDevice};

/// A cable of memory for frames: the shortest possible custom device.
#[derive(Debug)]
struct FrameCable(MemoryDevice);

impl FrameDevice for FrameCable {
    fn capabilities(&self) -> Capabilities {
        let packets = self.0.capabilities();
        Capabilities {
            medium: Medium::Link { header_len: HEADER_LEN },
            mtu: packets.mtu - HEADER_LEN,
            ..packets
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.0.poll_receive(cx, batch)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_send_ready(cx)
    }

    fn send(&mut self, header: &[u8; HEADER_LEN], packet: &TxPacket<'_>) -> io::Result<()> {
        let bytes = [header, packet.header].concat();
        self.0.send(&TxPacket { header: &bytes, ..*packet })
    }
}

type Ethernet = EthernetDevice<FrameCable>;

/// Two ends with the addresses 10.9.0.1 and 10.9.0.2, and the cable between them.
fn pair(detection: Detection, second: &str) -> (Ethernet, Ethernet, Cable) {
    pair_on(memory::Config::default(), detection, second)
}

/// Two devices on a cable of this kind.
fn pair_on(config: memory::Config, detection: Detection, second: &str) -> (Ethernet, Ethernet, Cable) {
    let config = memory::Config { mtu: 1514, gso: true, ..config };
    let (first_end, second_end) = memory::pair(config);
    let cable = first_end.cable();
    let end = |end: MemoryDevice, number: u64, addr: &str| {
        let mut config = LinkConfig::new(MacAddr::local(number));
        config.addresses = vec![Cidr::up_to(addr.parse().unwrap(), 24)];
        config.detection = detection;
        config.seed = number;
        EthernetDevice::new(FrameCable(end), config)
    };
    (end(first_end, 1, "10.9.0.1"), end(second_end, 2, second), cable)
}

/// An IPv4 packet from 10.9.0.1 to 10.9.0.2.
fn header() -> [u8; 20] {
    [0x45, 0, 0, 120, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]
}

fn packet<'a>(header: &'a [u8], payload: &'a [u8]) -> TxPacket<'a> {
    TxPacket {
        header,
        transport_offset: 20,
        payload: [payload, &[]],
        segment_size: NonZeroU16::new(40),
        checksum: ChecksumState::Partial(ChecksumAt::tcp(20)),
    }
}

/// Runs the first link in the background and waits for a packet on the second.
async fn cross(first: Ethernet, second: &mut Ethernet) -> (Vec<u8>, RxMeta) {
    let background = tokio::spawn(listen(first));
    let mut batch = ReceiveBatch::new(8, 0);
    let received = poll_fn(|cx| second.poll_receive(cx, &mut batch)).await.unwrap();
    background.abort();
    assert_eq!(received, 1);
    batch.iter().next().map(|(bytes, meta)| (bytes.to_vec(), meta)).unwrap()
}

/// Receives for ever, as a stack's driver does.
async fn listen(mut device: Ethernet) {
    let mut batch = ReceiveBatch::new(8, 0);
    loop {
        batch.clear();
        poll_fn(|cx| device.poll_receive(cx, &mut batch)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_packet_crosses_two_links_with_what_was_said_of_it() {
    let (mut first, mut second, _cable) = pair(Detection::Announce, "10.9.0.2");
    let (header, payload) = (header(), [7; 100]);
    first.ready().await.unwrap();
    second.ready().await.unwrap();
    first.send(&packet(&header, &payload)).unwrap();
    let (bytes, meta) = cross(first, &mut second).await;
    assert_eq!(bytes, [&header[..], &payload].concat());
    let expected =
        RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: NonZeroU16::new(40) };
    assert_eq!(meta, expected);
    let known = second.handle().neighbours();
    assert_eq!((known.len(), known[0].addr), (1, IpAddr::from([10, 9, 0, 1])));
    assert_eq!((known[0].mac, known[0].state), (Some(MacAddr::local(1)), NeighbourState::Stale));
}

#[tokio::test(start_paused = true)]
async fn a_packet_waits_for_a_neighbour_that_comes_later_and_the_receiver_s_timer_asks_again() {
    let (mut first, mut second, _cable) = pair(Detection::Announce, "10.9.0.2");
    first.ready().await.unwrap();
    let link = first.handle();
    let (header, payload) = (header(), [7; 100]);
    // The receiving task sleeps without a timer; the packet starts one.
    let (sender, mut packets) = tokio::sync::mpsc::channel::<()>(1);
    let background = tokio::spawn(async move {
        let mut batch = ReceiveBatch::new(8, 0);
        loop {
            tokio::select! {
                received = poll_fn(|cx| first.poll_receive(cx, &mut batch)) => drop(received.unwrap()),
                Some(()) = packets.recv() => first.send(&packet(&header, &payload)).unwrap(),
            }
        }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    sender.send(()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let questions = |cable: &mut Ethernet| {
        let mut batch = ReceiveBatch::new(64, 0);
        let mut cx = Context::from_waker(Waker::noop());
        match cable.device.0.poll_receive(&mut cx, &mut batch) {
            Poll::Ready(received) => received.unwrap(),
            Poll::Pending => 0,
        }
    };
    // Two announcements, then the question, repeated after a second.
    assert_eq!(questions(&mut second), 4);
    assert_eq!(link.neighbours()[0].waiting, 1);
    let mut batch = ReceiveBatch::new(8, 0);
    let received = poll_fn(|cx| second.poll_receive(cx, &mut batch)).await.unwrap();
    assert_eq!((received, link.counters().unresolved), (1, 0));
    background.abort();
}

/// The neighbour is found while the device is full, and new packets come before the old ones have left.
#[tokio::test(start_paused = true)]
async fn what_waited_leaves_first_and_before_the_device_takes_more() {
    let config = memory::Config { queue_packets: 2, ..memory::Config::default() };
    let (mut first, mut second, _cable) = pair_on(config, Detection::Announce, "10.9.0.2");
    first.ready().await.unwrap();
    second.ready().await.unwrap();
    let cx = &mut Context::from_waker(Waker::noop());
    // The frames on the cable, by their last bytes.
    let on_cable = |second: &mut Ethernet, cx: &mut Context<'_>| -> Vec<u8> {
        let mut batch = ReceiveBatch::new(8, 0);
        while second.device.0.poll_receive(cx, &mut batch).is_ready() {}
        batch.iter().map(|(frame, _)| *frame.last().unwrap()).collect()
    };
    let header = header();
    let mut batch = ReceiveBatch::new(8, 0);
    on_cable(&mut second, cx);
    assert!(first.poll_receive(cx, &mut batch).is_pending(), "the announcements");
    for number in 1..=3 {
        first.send(&packet(&header, &[number; 100])).unwrap();
    }
    assert!(first.poll_receive(cx, &mut batch).is_pending(), "it asks");
    assert!(second.poll_receive(cx, &mut batch).is_pending(), "it answers");
    for _ in 0..2 {
        first.device.0.send(&packet(&[0x45; 20], &[0; 100])).unwrap();
    }
    assert!(first.poll_receive(cx, &mut batch).is_pending(), "the answer, and no room");
    assert_eq!(on_cable(&mut second, cx), [0, 0]);
    let mut arrived = Vec::new();
    for number in 4..=6 {
        while first.poll_send_ready(cx).is_pending() {
            arrived.extend(on_cable(&mut second, cx));
        }
        first.send(&packet(&header, &[number; 100])).unwrap();
    }
    arrived.extend(on_cable(&mut second, cx));
    assert_eq!(arrived, [1, 2, 3, 4, 5, 6]);
    assert_eq!(first.handle().counters().waiting_dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_to_be_sent_before_the_addresses_are_probed() {
    let (mut first, second, _cable) = pair(Detection::Probe, "10.9.0.2");
    let background = tokio::spawn(listen(second));
    let began = tokio::time::Instant::now();
    let polled = poll_fn(|cx| Poll::Ready(first.poll_send_ready(cx))).await;
    assert!(polled.is_pending());
    first.ready().await.unwrap();
    let took = began.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(7)).contains(&took), "{took:?}");
    poll_fn(|cx| first.poll_send_ready(cx)).await.unwrap();
    background.abort();
}

#[tokio::test(start_paused = true)]
async fn of_two_that_probe_for_one_address_one_gets_it_and_the_other_hears_whose_it_is() {
    let (mut first, mut second, _cable) = pair(Detection::Probe, "10.9.0.1");
    let (one, other) = tokio::join!(first.ready(), second.ready());
    let refused: Vec<_> = [(one, 2), (other, 1)].into_iter().filter(|(result, _)| result.is_err()).collect();
    let [(Err(error), by)] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&MacAddr::local(*by).to_string()), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_mtu_is_the_smallest_that_anyone_names() {
    let (mut first, _second, cable) = pair(Detection::Announce, "10.9.0.2");
    let capabilities = first.capabilities();
    assert_eq!((capabilities.medium, capabilities.mtu, capabilities.gso_max_v4), (Medium::Ip, 1500, 65_535));
    first.mtu_max = Some(1400);
    assert_eq!(first.capabilities().mtu, 1400);
    cable.set_mtu(1314);
    assert_eq!(first.capabilities().mtu, 1300);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_is_gone_says_so() {
    let (mut first, _second, cable) = pair(Detection::Announce, "10.9.0.2");
    first.ready().await.unwrap();
    cable.unplug();
    let mut batch = ReceiveBatch::new(8, 0);
    assert!(poll_fn(|cx| first.poll_receive(cx, &mut batch)).await.is_err());
}
