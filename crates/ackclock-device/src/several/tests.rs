use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;
use crate::memory::{self, Config, MemoryDevice};

#[derive(Default)]
struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// An IP header with only this destination.
fn header(to: [u8; 4]) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[16..].copy_from_slice(&to);
    header
}

fn send(device: &mut impl Device, to: [u8; 4]) {
    device.send(&TxPacket::complete(&header(to))).unwrap();
}

/// How many packets have arrived at the other end.
fn arrived(device: &mut MemoryDevice) -> usize {
    let mut batch = ReceiveBatch::new(1000, 1 << 20);
    match device.poll_receive(&mut Context::from_waker(Waker::noop()), &mut batch) {
        Poll::Ready(received) => received.unwrap(),
        Poll::Pending => 0,
    }
}

fn pairs(queue_packets: usize) -> [(MemoryDevice, MemoryDevice); 2] {
    [(); 2].map(|()| memory::pair(Config { queue_packets, ..Config::default() }))
}

/// Accepts packets, sends them when flushed, and records which addresses were reached.
#[derive(Debug)]
struct Holding(Arc<Mutex<(usize, usize, Vec<IpAddr>)>>);

impl Device for Holding {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ip(1500)
    }

    fn poll_receive(&mut self, _: &mut Context<'_>, _: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_send_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn send(&mut self, _: &TxPacket<'_>) -> io::Result<()> {
        self.0.lock().unwrap().0 += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.1 += std::mem::take(&mut state.0);
        Ok(())
    }

    fn reached(&mut self, addr: IpAddr) {
        self.0.lock().unwrap().2.push(addr);
    }
}

#[test]
fn devices_that_hold_packets_back_are_flushed_and_hear_of_their_own_peers() {
    let states = [(); 2].map(|()| Arc::new(Mutex::new((0, 0, Vec::new()))));
    let [a, b] = [0, 1].map(|index| Holding(Arc::clone(&states[index])));
    let mut devices = Several::new().device("a", a).device("b", b);
    devices = devices.route("a", cidr("10.0.0.0/8")).route("b", cidr("10.7.0.0/16"));
    assert!(devices.poll_send_ready(&mut Context::from_waker(Waker::noop())).is_ready());
    send(&mut devices, [10, 1, 1, 1]);
    send(&mut devices, [10, 7, 1, 1]);
    Device::flush(&mut devices).unwrap();
    let reached: IpAddr = [10, 7, 1, 1].into();
    devices.reached(reached);
    devices.reached([192, 0, 2, 1].into());
    assert_eq!(*states[0].lock().unwrap(), (0, 1, vec![]));
    assert_eq!(*states[1].lock().unwrap(), (0, 1, vec![reached]));
}

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

#[test]
fn the_longest_route_decides_and_what_none_fits_is_counted() {
    let [(a, mut from_a), (b, mut from_b)] = pairs(100);
    let mut devices = Several::new().device("a", a).device("b", b);
    devices = devices.route("a", cidr("10.0.0.0/8")).route("b", cidr("10.7.0.0/16"));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(devices.poll_send_ready(&mut cx).is_ready());
    for (to, expected) in [([10, 1, 1, 1], (1, 0)), ([10, 7, 1, 1], (0, 1)), ([192, 0, 2, 1], (0, 0))] {
        send(&mut devices, to);
        assert_eq!((arrived(&mut from_a), arrived(&mut from_b)), expected, "{to:?}");
    }
    let counters = devices.counters();
    assert_eq!((counters.sent, counters.send_link_down), (2, 1));
}

#[test]
fn a_single_device_needs_no_route() {
    let [(a, mut from_a), _] = pairs(100);
    let mut devices = Several::new().device("a", a);
    send(&mut devices, [192, 0, 2, 1]);
    assert_eq!(arrived(&mut from_a), 1);
}

#[test]
fn what_a_full_device_cannot_take_waits_is_bounded_and_leaves_in_order_when_there_is_room() {
    let [(a, mut from_a), _] = pairs(4);
    let mut devices = Several::new().device("a", a);
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    let mut cx = Context::from_waker(&waker);
    assert!(devices.poll_send_ready(&mut cx).is_ready());
    for _ in 0..4 + WAITING_MAX + 10 {
        send(&mut devices, [192, 0, 2, 1]);
    }
    assert_eq!(devices.counters().send_no_room, 10);
    assert!(devices.poll_send_ready(&mut cx).is_pending(), "its queue is full");
    let mut received = arrived(&mut from_a);
    assert!(alarm.0.load(Ordering::SeqCst) > 0, "who waits is woken");
    while received < 4 + WAITING_MAX {
        let _ = devices.poll_send_ready(&mut cx);
        let more = arrived(&mut from_a);
        assert!(more > 0);
        received += more;
    }
    assert!(devices.poll_send_ready(&mut cx).is_ready());
}

#[test]
fn packets_of_all_devices_are_received_and_a_lost_one_is_taken_out() {
    let [(a, mut to_a), (b, to_b)] = pairs(100);
    let mut devices = Several::new().device("a", a).device("b", b);
    let handle = devices.handle();
    drop(to_b);
    send(&mut to_a, [10, 0, 0, 1]);
    let mut cx = Context::from_waker(Waker::noop());
    let mut batch = ReceiveBatch::new(100, 1 << 20);
    let mut received = 0;
    for _ in 0..3 {
        if let Poll::Ready(count) = devices.poll_receive(&mut cx, &mut batch) {
            received += count.unwrap();
        }
    }
    assert_eq!(received, 1);
    assert_eq!(handle.devices(), ["a"]);
    drop(to_a);
    let gone = (0..3).any(|_| matches!(devices.poll_receive(&mut cx, &mut batch), Poll::Ready(Err(_))));
    assert!(gone, "the last one's failure is that of all");
}

#[test]
fn capabilities_are_what_all_devices_have() {
    let (small, _end) = memory::pair(Config { mtu: 1280, gso: true, ..Config::default() });
    let (plain, _other) = memory::pair(Config::default());
    let devices = Several::new().device("small", small).device("plain", plain);
    let capabilities = devices.capabilities();
    assert_eq!((capabilities.mtu, capabilities.tx_checksum), (1280, false));
    assert_eq!(capabilities.gso_max_v4, 1280, "the plain one cuts nothing");
}

/// A device that holds packets back until it is flushed.
#[derive(Debug)]
struct HoldsBack {
    inner: MemoryDevice,
    held: Vec<Vec<u8>>,
}

impl Device for HoldsBack {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.inner.poll_receive(cx, batch)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        self.held.push(packet.header.to_vec());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        for header in std::mem::take(&mut self.held) {
            self.inner.send(&TxPacket::complete(&header))?;
        }
        Ok(())
    }
}

#[test]
fn what_a_device_holds_back_leaves_when_the_whole_is_flushed() {
    let [(a, mut from_a), (b, mut from_b)] = pairs(100);
    let mut devices = Several::new().device("a", HoldsBack { inner: a, held: Vec::new() }).device("b", b);
    devices = devices.route("a", cidr("10.0.0.0/8")).route("b", cidr("192.0.2.0/24"));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(devices.poll_send_ready(&mut cx).is_ready());
    for to in [[10, 0, 0, 1], [192, 0, 2, 1], [10, 0, 0, 2]] {
        send(&mut devices, to);
    }
    assert_eq!((arrived(&mut from_a), arrived(&mut from_b)), (0, 1));
    devices.flush().unwrap();
    assert_eq!(arrived(&mut from_a), 2);
}
