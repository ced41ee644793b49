//! Several queues of one TUN interface against the kernel: flows are spread, and follow the queue that
//! answers them.

use std::net::UdpSocket;
use std::time::Duration;

use ackclock_device::{Device, OffloadMode, OpenError, QUEUES_MAX, ReceiveBatch, configure, open_queues};
use ackclock_wire::{ChecksumState, IpPacket, IpPayload, UdpDatagram, gso};
use tokio::time::timeout;

use super::common::{NAME, in_namespace, ip, packets, send};

/// `tun0` with two queues, and the kernel's end at 10.9.0.1/24.
fn two_queues(mode: OffloadMode) -> [Box<dyn Device>; 2] {
    let (queues, fell_back) = open_queues(NAME, mode, 2).expect("the queues open");
    assert_eq!(fell_back, None);
    configure::configure(NAME).address("10.9.0.1/24".parse().unwrap()).apply().expect("it is configured");
    queues.try_into().expect("two queues")
}

/// The source ports of the datagrams to port 7000 that arrive on a queue within a moment, in order. Each is
/// checked to be complete.
async fn ports(device: &mut dyn Device) -> Vec<u16> {
    let mut batch = ReceiveBatch::new(64, 1 << 20);
    let mut ports = Vec::new();
    let receive = async |device: &mut dyn Device, batch: &mut ReceiveBatch| {
        std::future::poll_fn(|cx| device.poll_receive(cx, batch)).await.unwrap();
    };
    while timeout(Duration::from_millis(200), receive(device, &mut batch)).await.is_ok() {
        for (bytes, meta) in batch.iter() {
            gso::cut_contiguous(bytes, meta, |packet| {
                let Ok(IpPacket { src, dst, payload: IpPayload::Udp(bytes), .. }) = IpPacket::parse(packet)
                else {
                    return;
                };
                let datagram = UdpDatagram::parse(src, dst, bytes, ChecksumState::Complete).expect("whole");
                if datagram.dst_port == 7000 {
                    ports.push(datagram.src_port);
                }
            });
        }
        batch.clear();
    }
    ports
}

/// The kernel's sockets, each a flow to 10.9.0.2:7000.
fn flows(count: usize) -> Vec<UdpSocket> {
    let flow = || {
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        socket.connect("10.9.0.2:7000").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    };
    (0..count).map(|_| flow()).collect()
}

fn port_of(flow: &UdpSocket) -> u16 {
    flow.local_addr().unwrap().port()
}

async fn spread(mode: OffloadMode) {
    let [mut first, mut second] = two_queues(mode);
    assert_eq!((first.capabilities().queues, second.capabilities().queues), (2, 2));
    let flows = flows(64);
    for flow in &flows {
        flow.send(b"forth").unwrap();
    }
    let (by_first, by_second) = (ports(&mut *first).await, ports(&mut *second).await);
    assert!(by_first.len() > 8 && by_second.len() > 8, "{} and {}", by_first.len(), by_second.len());
    let mut all = [by_first.clone(), by_second.clone()].concat();
    let mut expected: Vec<u16> = flows.iter().map(port_of).collect();
    all.sort_unstable();
    expected.sort_unstable();
    assert_eq!(all, expected, "each datagram comes once, by one queue");

    // Each flow is answered on the other queue than the one on which it arrived, and the kernel accepts it.
    for flow in &flows {
        let other = if by_first.contains(&port_of(flow)) { &mut second } else { &mut first };
        send(&mut **other, &packets::udp_between("10.9.0.2", "10.9.0.1", (7000, port_of(flow)), b"back"))
            .await;
        assert_eq!(flow.recv(&mut [0; 9]).unwrap(), 4);
    }
    // From then on it arrives on that one.
    for flow in &flows {
        flow.send(b"again").unwrap();
    }
    let followed = ports(&mut *second).await.iter().filter(|port| by_first.contains(port)).count();
    assert_eq!(followed, by_first.len(), "a flow follows the queue that sends it");
}

#[test]
fn both_queues_receive_and_send_and_a_flow_follows_its_answers() {
    in_namespace(|| spread(OffloadMode::Off));
}

#[test]
fn both_queues_receive_and_send_with_offload() {
    in_namespace(|| spread(OffloadMode::On));
}

#[test]
fn a_queue_that_is_closed_leaves_its_flows_to_the_others() {
    in_namespace(|| async {
        let [first, mut second] = two_queues(OffloadMode::Off);
        drop(first);
        let flows = flows(16);
        for flow in &flows {
            flow.send(b"forth").unwrap();
        }
        assert_eq!(ports(&mut *second).await.len(), 16);
    });
}

#[test]
fn queues_of_an_interface_that_has_one_are_refused_with_the_command() {
    in_namespace(|| async {
        ip("tuntap add dev tun0 mode tun");
        for mode in [OffloadMode::Off, OffloadMode::Auto, OffloadMode::On] {
            let error = open_queues(NAME, mode, 2).map(drop).unwrap_err();
            assert!(matches!(error, OpenError::WrongKind { .. }), "{error:?}");
            assert!(error.to_string().contains("mode tun multi_queue"), "{error}");
        }
        ip("link del tun0");
        ip("tuntap add dev tun0 mode tun multi_queue");
        assert_eq!(open_queues(NAME, OffloadMode::Auto, 3).unwrap().0.len(), 3);
    });
}

#[test]
fn a_count_that_no_interface_can_have_is_refused() {
    for queues in [0, QUEUES_MAX + 1] {
        let error = open_queues(NAME, OffloadMode::Off, queues).map(drop).unwrap_err();
        assert!(matches!(error, OpenError::QueueCount { .. }), "{error:?}");
    }
}
