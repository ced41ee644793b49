use std::num::NonZeroU16;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use ackclock_wire::{ChecksumAt, ChecksumState};

use super::*;

/// Counts its wake-ups.
#[derive(Default)]
struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn packet(header: &[u8]) -> TxPacket<'_> {
    TxPacket::complete(header)
}

type Received = Vec<(Vec<u8>, RxMeta)>;

fn receive(device: &mut MemoryDevice) -> Poll<io::Result<Received>> {
    let mut batch = ReceiveBatch::new(100, 0);
    let poll = device.poll_receive(&mut Context::from_waker(Waker::noop()), &mut batch);
    poll.map_ok(|_| batch.iter().map(|(bytes, meta)| (bytes.to_vec(), meta)).collect())
}

#[test]
fn what_one_end_sends_the_other_receives_in_order() {
    let (mut a, mut b) = pair(Config::default());
    for number in 0..3u8 {
        let payload: [&[u8]; 2] = [&[number], &[number, number]];
        a.send(&TxPacket { payload, ..packet(&[0x45; 20]) }).unwrap();
    }
    let Poll::Ready(Ok(received)) = receive(&mut b) else { panic!("nothing received") };
    let tails: Vec<_> = received.iter().map(|(bytes, _)| bytes[20..].to_vec()).collect();
    assert_eq!(tails, [vec![0; 3], vec![1; 3], vec![2; 3]]);
    assert_eq!((a.counters().sent, b.counters().received), (3, 3));
    assert!(receive(&mut a).is_pending());
}

#[test]
fn a_full_queue_drops_and_says_so_until_the_receiver_makes_room() {
    let (mut a, mut b) = pair(Config { queue_packets: 2, ..Config::default() });
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    let mut cx = Context::from_waker(&waker);
    for _ in 0..2 {
        assert!(a.poll_send_ready(&mut cx).is_ready());
        a.send(&packet(&[0x45; 20])).unwrap();
    }
    assert!(a.poll_send_ready(&mut cx).is_pending());
    a.send(&packet(&[0x45; 20])).unwrap();
    assert_eq!((a.counters().sent, a.counters().send_no_room), (2, 1));
    assert!(receive(&mut b).is_ready());
    assert_eq!(alarm.0.load(Ordering::SeqCst), 1);
    assert!(a.poll_send_ready(&mut cx).is_ready());
}

#[test]
fn a_packet_that_found_room_is_cut_without_a_loss() {
    let (mut a, mut b) = pair(Config { queue_packets: 2, ..Config::default() });
    let mut cx = Context::from_waker(Waker::noop());
    a.send(&packet(&[0x45; 20])).unwrap();
    assert!(a.poll_send_ready(&mut cx).is_ready());
    let payload = vec![7; 14_480];
    // IPv4 and TCP without options, as far as segmentation reads them.
    let mut header = [0; 40];
    (header[0], header[9], header[32]) = (0x45, 6, 0x50);
    let large = TxPacket {
        payload: [&payload, &[]],
        segment_size: NonZeroU16::new(1448),
        checksum: ChecksumState::Partial(ChecksumAt::tcp(20)),
        ..packet(&header)
    };
    a.send(&large).unwrap();
    assert_eq!((a.counters().sent, a.counters().send_no_room), (11, 0));
    assert!(a.poll_send_ready(&mut cx).is_pending());
    a.send(&large).unwrap();
    assert_eq!((a.counters().sent, a.counters().send_no_room), (11, 1));
    let Poll::Ready(Ok(received)) = receive(&mut b) else { panic!("nothing received") };
    assert_eq!(received.len(), 11);
}

#[test]
fn a_waiting_receiver_is_woken() {
    let (mut a, mut b) = pair(Config::default());
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    let mut batch = ReceiveBatch::new(1, 0);
    assert!(b.poll_receive(&mut Context::from_waker(&waker), &mut batch).is_pending());
    a.send(&packet(&[0x45; 20])).unwrap();
    assert_eq!(alarm.0.load(Ordering::SeqCst), 1);
}

#[test]
fn a_full_batch_leaves_the_rest_for_the_next() {
    let (mut a, mut b) = pair(Config::default());
    a.send(&packet(&[0x45; 20])).unwrap();
    a.send(&packet(&[0x45; 21])).unwrap();
    let mut batch = ReceiveBatch::new(1, 0);
    let mut cx = Context::from_waker(Waker::noop());
    for len in [20, 21] {
        batch.clear();
        assert!(matches!(b.poll_receive(&mut cx, &mut batch), Poll::Ready(Ok(1))));
        assert_eq!(batch.iter().next().unwrap().0.len(), len);
    }
}

#[test]
fn with_gso_a_large_packet_crosses_whole() {
    let (mut a, mut b) = pair(Config { gso: true, ..Config::default() });
    assert_eq!(a.capabilities().gso_max_v4, GSO_MAX);
    let payload = vec![7; 60_000];
    let large = TxPacket {
        payload: [&payload, &[]],
        segment_size: NonZeroU16::new(1448),
        checksum: ChecksumState::Partial(ChecksumAt::tcp(20)),
        ..packet(&[0x45; 40])
    };
    a.send(&large).unwrap();
    let Poll::Ready(Ok(received)) = receive(&mut b) else { panic!("nothing received") };
    assert_eq!(received[0].0.len(), 60_040);
    let meta =
        RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: NonZeroU16::new(1448) };
    assert_eq!(received[0].1, meta);
}

#[test]
fn unfinished_checksum_of_a_datagram_crosses_as_such_or_is_finished() {
    let checksum = ChecksumState::Partial(ChecksumAt::udp(20));
    let datagram = TxPacket { checksum, transport_offset: 20, ..packet(&[0x45; 40]) };
    for gso in [true, false] {
        let (mut a, mut b) = pair(Config { gso, ..Config::default() });
        a.send(&datagram).unwrap();
        let Poll::Ready(Ok(received)) = receive(&mut b) else { panic!("nothing received") };
        assert_eq!(received[0].1.checksum, if gso { checksum } else { ChecksumState::Complete });
        assert_eq!(received[0].0[26..28] == [0x45; 2], gso);
    }
}

#[test]
fn a_packet_over_the_mtu_is_refused_and_counted() {
    let (mut a, b) = pair(Config::default());
    b.cable().set_mtu(1000);
    assert_eq!(a.capabilities().mtu, 1000);
    a.send(&packet(&[0x45; 1001])).unwrap();
    a.send(&packet(&[0x45; 1000])).unwrap();
    assert_eq!((a.counters().send_refused, a.counters().sent), (1, 1));
}

#[test]
fn dropping_one_end_ends_the_other_after_what_was_under_way() {
    let (mut a, mut b) = pair(Config::default());
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    a.send(&packet(&[0x45; 20])).unwrap();
    assert!(receive(&mut b).is_ready());
    assert!(b.poll_receive(&mut Context::from_waker(&waker), &mut ReceiveBatch::new(1, 0)).is_pending());
    a.send(&packet(&[0x45; 20])).unwrap();
    drop(a);
    assert!(matches!(receive(&mut b), Poll::Ready(Ok(packets)) if packets.len() == 1));
    let Poll::Ready(Err(error)) = receive(&mut b) else { panic!("no error") };
    assert_eq!(error.kind(), io::ErrorKind::NetworkDown);
    assert_eq!(b.send(&packet(&[0x45; 20])).unwrap_err().kind(), io::ErrorKind::NetworkDown);
}
