use std::num::NonZeroU16;
use std::time::Duration;

use ackclock_wire::{ChecksumAt, ChecksumState};

use super::*;
use crate::memory::{self, MemoryDevice};

async fn receive(device: &mut impl Device) -> Vec<Vec<u8>> {
    let mut batch = ReceiveBatch::new(100, 1 << 20);
    std::future::poll_fn(|cx| device.poll_receive(cx, &mut batch)).await.unwrap();
    batch.iter().map(|(bytes, _)| bytes.to_vec()).collect()
}

fn impaired(sent: Settings, received: Settings) -> (Impaired<MemoryDevice>, MemoryDevice) {
    let (near, far) = memory::pair(memory::Config { gso: true, ..memory::Config::default() });
    (Impaired::new(near, 1, sent, received).unwrap(), far)
}

#[tokio::test(start_paused = true)]
async fn a_packet_sent_arrives_after_the_delay() {
    let delay = Duration::from_millis(50);
    let (mut near, mut far) = impaired(Settings { delay, ..Settings::default() }, Settings::default());
    let start = Instant::now();
    near.send(&TxPacket::complete(&[0x45; 100])).unwrap();
    let both = async {
        tokio::select! {
            packets = receive(&mut far) => packets,
            _ = receive(&mut near) => panic!("nothing was sent this way"),
        }
    };
    assert_eq!(both.await, [[0x45; 100]]);
    assert_eq!(start.elapsed(), delay);
}

#[tokio::test(start_paused = true)]
async fn a_send_wakes_the_task_that_already_waits_to_receive() {
    let delay = Duration::from_millis(50);
    let (mut near, mut far) = impaired(Settings { delay, ..Settings::default() }, Settings::default());
    // The driver's order: first it finds nothing to receive, then it sends, then it waits.
    let driver = async {
        let mut batch = ReceiveBatch::new(1, 0);
        let mut sent = false;
        std::future::poll_fn(|cx| {
            let poll = near.poll_receive(cx, &mut batch);
            if !std::mem::replace(&mut sent, true) {
                near.send(&TxPacket::complete(&[0x45; 100])).unwrap();
            }
            poll
        })
        .await
    };
    tokio::select! {
        packets = receive(&mut far) => assert_eq!(packets.len(), 1),
        received = driver => panic!("received {received:?}"),
        () = tokio::time::sleep(Duration::from_secs(1)) => panic!("the packet was never released"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_packet_received_arrives_after_the_delay() {
    let delay = Duration::from_millis(20);
    let (mut near, mut far) = impaired(Settings::default(), Settings { delay, ..Settings::default() });
    let start = Instant::now();
    far.send(&TxPacket::complete(&[0x45; 100])).unwrap();
    assert_eq!(receive(&mut near).await, [[0x45; 100]]);
    assert_eq!(start.elapsed(), delay);
}

#[test]
fn an_impaired_device_shows_no_offload() {
    let (near, far) = impaired(Settings::default(), Settings::default());
    assert_eq!(near.capabilities(), Capabilities::ip(1500));
    assert!(far.capabilities().tx_checksum);
}

#[tokio::test(start_paused = true)]
async fn large_packets_are_cut_before_they_are_impaired() {
    let (mut near, mut far) = impaired(Settings::default(), Settings::default());
    let packet = TxPacket {
        header: &TCP_HEADER,
        transport_offset: 20,
        payload: [&[1; 2000], &[2; 1500]],
        segment_size: NonZeroU16::new(1000),
        checksum: ChecksumState::Partial(ChecksumAt::tcp(20)),
    };
    far.send(&packet).unwrap();
    let received: Vec<usize> = receive(&mut near).await.iter().map(Vec::len).collect();
    assert_eq!(received, [1040, 1040, 1040, 540]);
    assert_eq!(near.handle().statistics_received().offered, 4);

    near.send(&packet).unwrap();
    let sent: Vec<usize> = receive(&mut far).await.iter().map(Vec::len).collect();
    assert_eq!(sent, [1040, 1040, 1040, 540]);
    assert_eq!(near.handle().statistics_sent().delivered, 4);
}

/// Behind a network every checksum is complete, also for transports other than TCP.
#[tokio::test(start_paused = true)]
async fn unfinished_checksum_of_a_datagram_is_finished_on_either_way() {
    let (mut near, mut far) = impaired(Settings::default(), Settings::default());
    let packet = TxPacket {
        header: &UDP_HEADER,
        transport_offset: 20,
        payload: [b"odd", b"!?"],
        segment_size: None,
        checksum: ChecksumState::Partial(ChecksumAt::udp(20)),
    };
    far.send(&packet).unwrap();
    near.send(&packet).unwrap();
    for received in [receive(&mut near).await, receive(&mut far).await] {
        // The field is read as the sum of the pseudo-header: 0x0607.
        let sum = 0x0607u32 + 1 + 2 + 13 + 0x6f64 + 0x6421 + 0x3f00;
        let expected = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
        assert_eq!(received[0][26..28], expected.to_be_bytes());
        assert_eq!(&received[0][28..], b"odd!?");
    }
}

#[tokio::test(start_paused = true)]
async fn settings_change_at_run_time() {
    let (mut near, mut far) = impaired(Settings::default(), Settings::default());
    let network = near.handle();
    let mut offer = || near.send(&TxPacket::complete(&[0x45; 100])).unwrap();
    offer();
    network.set_blackout(true);
    offer();
    network.set_blackout(false);
    network.set_sent(Settings { loss: Share::ONE, ..Settings::default() }).unwrap();
    offer();
    network.set_sent(Settings { duplicate: Share::ONE, ..Settings::default() }).unwrap();
    offer();
    let expected = Statistics {
        offered: 4,
        blacked_out: 1,
        lost: 1,
        duplicated: 1,
        delivered: 3,
        ..Statistics::default()
    };
    assert_eq!(network.statistics_sent(), expected);
    assert_eq!(receive(&mut far).await.len(), 3);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |settings| {
        let (device, _) = memory::pair(memory::Config::default());
        Impaired::new(device, 1, Settings::default(), settings).is_err()
    };
    assert!(refused(Settings { rate_bps: Some(0), ..Settings::default() }));
    assert!(!refused(Settings { loss: Share::ONE, rate_bps: Some(1), ..Settings::default() }));
}

/// IPv4 and TCP headers, of 3,540 bytes in all, with an unfinished checksum.
const TCP_HEADER: [u8; 40] = [
    0x45, 0, 0x0d, 0xd4, 0, 1, 0x40, 0, 64, 6, 0x19, 0x21, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
    0, 80, 4, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0, // TCP
];

/// The median lateness of returning packets beyond `delay` each way, in real time.
async fn lateness(delay: Duration) -> Duration {
    let each_way = Settings { delay, ..Settings::default() };
    let (mut near, mut far) = impaired(each_way, each_way);
    let echo = tokio::spawn(async move {
        loop {
            for packet in receive(&mut far).await {
                far.send(&TxPacket::complete(&packet)).unwrap();
            }
        }
    });
    let mut late = Vec::new();
    for _ in 0..SERIES {
        let began = std::time::Instant::now();
        near.send(&TxPacket::complete(&[0x45; 100])).unwrap();
        assert_eq!(receive(&mut near).await, [[0x45; 100]]);
        let took = began.elapsed();
        assert!(took >= 2 * delay, "{took:?} is too early");
        late.push(took - 2 * delay);
    }
    echo.abort();
    median(late)
}

/// The median lateness with which a sleeping thread wakes.
fn lateness_of_sleep(delay: Duration) -> Duration {
    let late = |_| {
        let began = std::time::Instant::now();
        std::thread::sleep(delay);
        began.elapsed() - delay
    };
    median((0..SERIES).map(late).collect())
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort();
    values[values.len() / 2]
}

#[tokio::test]
async fn a_delay_is_kept_to_a_tenth_of_a_millisecond() {
    // Half milliseconds, which tokio's timers do not count.
    for delay in [Duration::from_micros(1500), Duration::from_micros(50), Duration::from_micros(10_250)] {
        let mut measured = Vec::new();
        loop {
            // On a busy machine every sleep ends late. That is not the device's lateness.
            let machine = lateness_of_sleep(delay).saturating_sub(LATE_MAX);
            let late = lateness(delay).await;
            measured.push((late, machine));
            if late <= 2 * (LATE_MAX + machine) {
                break;
            }
            assert!(measured.len() < ATTEMPTS, "{delay:?} each way, late and by the machine: {measured:?}");
        }
    }
}

/// In each direction.
const LATE_MAX: Duration = Duration::from_micros(100);
const SERIES: usize = 31;
const ATTEMPTS: usize = 10;

/// IPv4 without addresses, and ports 1 and 2.
const UDP_HEADER: [u8; 28] = {
    let mut header = [0; 28];
    (header[0], header[3], header[9]) = (0x45, 33, 17);
    (header[21], header[23], header[25]) = (1, 2, 13);
    (header[26], header[27]) = (6, 7);
    header
};

#[tokio::test(start_paused = true)]
async fn the_longest_delay_is_a_delay() {
    for delay in [Duration::MAX, Duration::from_secs(i64::MAX as u64), Duration::from_secs(1 << 40)] {
        let settings = Settings {
            delay,
            jitter: Duration::MAX,
            reorder: Share::percent(50),
            reorder_depth: 1,
            ..Settings::default()
        };
        let (mut near, mut far) = impaired(settings, settings);
        for _ in 0..10 {
            near.send(&TxPacket::complete(&[0x45; 100])).unwrap();
            far.send(&TxPacket::complete(&[0x45; 100])).unwrap();
        }
        let ten_years = tokio::time::sleep(Duration::from_secs(10 * 365 * 24 * 3600));
        tokio::select! {
            _ = receive(&mut near) => panic!("a packet arrived"),
            _ = receive(&mut far) => panic!("a packet arrived"),
            () = ten_years => {}
        }
    }
}
