//! Several queues of a packet device, against the kernel across a veth pair: flows are spread over them, and
//! what belongs to no flow reaches the one link layer on top.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use ackclock_device::link::Detection;
use ackclock_device::{
    Device, EthernetDevice, OpenError, PacketDevice, PacketOptions, QUEUES_MAX, ReceiveBatch,
};
use ackclock_tests::devices::Needs;
use ackclock_tests::kernel::scene::Family;
use ackclock_tests::kernel::wire::{LIMIT, addressed, many_connections, on_a_wire};
use ackclock_wire::{ChecksumState, IpPacket, IpPayload, UdpDatagram, gso};
use tokio::net::UdpSocket;

#[test]
fn flows_are_spread_over_the_queues_and_each_datagram_comes_once() {
    on_a_wire(Needs::Packet, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            let mut queues = open(4);
            EthernetDevice::ready_queues(&mut queues).await.unwrap();
            assert!(queues.iter().all(|queue| queue.capabilities().queues == 4));
            let sent = far.spawn(async {
                // All stay open, so that no port comes twice.
                let mut sockets = Vec::new();
                for round in 0..FLOWS {
                    let socket = UdpSocket::bind("10.9.0.1:0").await.unwrap();
                    socket.send_to(b"datagram", Family::V4.stack(7000)).await.unwrap();
                    sockets.push(socket);
                    // The kernel holds three packets for a neighbour whose address it is asking for.
                    if round == 0 {
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                }
                sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect::<Vec<_>>()
            });
            let arrived = tokio::time::timeout(LIMIT, arrivals(&mut queues)).await.expect("all arrive");
            let mut ports = sent.await.unwrap();
            ports.sort_unstable();
            assert_eq!(arrived.keys().copied().collect::<Vec<_>>(), ports);
            for queue in 0..queues.len() {
                let here = arrived.values().filter(|(at, _)| *at == queue).count();
                assert!((1..FLOWS / 2).contains(&here), "queue {queue} has {here} of {FLOWS} flows");
            }
            assert!(arrived.values().all(|(_, times)| *times == 1), "{arrived:?}");
        });
    });
}

#[test]
fn a_stack_on_several_queues_moves_data_both_ways() {
    on_a_wire(Needs::Packet, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            many_connections(open(3), &far).await;
        });
    });
}

#[test]
fn a_count_of_queues_that_no_interface_can_have_is_refused() {
    for queues in [0, QUEUES_MAX + 1] {
        let error =
            PacketDevice::open_queues("eth0", PacketOptions::default(), queues).map(drop).unwrap_err();
        assert!(matches!(error, OpenError::QueueCount { .. }), "{error:?}");
    }
}

fn open(queues: usize) -> Vec<EthernetDevice<PacketDevice>> {
    let (queues, fell_back) =
        addressed().detection(Detection::Announce).open_packet_queues("wire", queues).unwrap();
    assert_eq!(fell_back, None);
    queues
}

/// Receives until as many flows as there are have arrived: by source port the queue, and how often.
async fn arrivals(queues: &mut [EthernetDevice<PacketDevice>]) -> BTreeMap<u16, (usize, usize)> {
    let mut arrived = BTreeMap::new();
    let mut batch = ReceiveBatch::new(64, 1 << 20);
    poll_fn(|cx| {
        loop {
            let mut received = false;
            for (at, queue) in queues.iter_mut().enumerate() {
                batch.clear();
                received |= queue.poll_receive(cx, &mut batch).map(Result::unwrap).is_ready();
                for (bytes, meta) in batch.iter() {
                    gso::cut_contiguous(bytes, meta, |packet| {
                        if let Some(port) = source_port(packet) {
                            arrived.entry(port).or_insert((at, 0)).1 += 1;
                        }
                    });
                }
            }
            match received {
                _ if arrived.len() == FLOWS => return Poll::Ready(()),
                true => {}
                false => return Poll::Pending,
            }
        }
    })
    .await;
    arrived
}

/// Of a datagram to the stack.
fn source_port(packet: &[u8]) -> Option<u16> {
    let Ok(IpPacket { src, dst, payload: IpPayload::Udp(bytes), .. }) = IpPacket::parse(packet) else {
        return None;
    };
    let datagram = UdpDatagram::parse(src, dst, bytes, ChecksumState::Complete).ok()?;
    (SocketAddr::new(dst, datagram.dst_port) == Family::V4.stack(7000)).then_some(datagram.src_port)
}

const FLOWS: usize = 64;
