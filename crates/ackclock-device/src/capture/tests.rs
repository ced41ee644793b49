use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use std::task::Waker;

use ackclock_wire::ChecksumState;

use super::*;
use crate::memory::{self, MemoryDevice};

/// A file that is deleted with its guard.
struct Temporary(PathBuf);

impl Temporary {
    fn new(what: &str) -> Self {
        Self(std::env::temp_dir().join(format!("ackclock-{what}-{}.pcapng", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // It may not exist.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn udp_packet(payload: &'static [u8]) -> TxPacket<'static> {
    // 10.0.0.1:1000 > 10.0.0.2:2000, UDP without a checksum, 5 bytes of payload.
    const HEADER: [u8; 28] = [
        0x45, 0, 0, 33, 0, 0, 0x40, 0, 64, 17, 0x26, 0xca, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
        3, 232, 7, 208, 0, 13, 0, 0, // UDP
    ];
    let (first, second) = payload.split_at(2);
    TxPacket {
        header: &HEADER,
        transport_offset: 20,
        payload: [first, second],
        segment_size: None,
        checksum: ChecksumState::Complete,
    }
}

fn send_and_receive(device: &mut Captured<MemoryDevice>, far: &mut MemoryDevice) {
    device.send(&udp_packet(b"hello")).unwrap();
    far.send(&udp_packet(b"there")).unwrap();
    let mut batch = ReceiveBatch::new(8, 0);
    assert!(device.poll_receive(&mut Context::from_waker(Waker::noop()), &mut batch).is_ready());
}

/// A device that cuts packets of up to 16 KB.
#[derive(Debug)]
struct Cutting(MemoryDevice);

impl Device for Cutting {
    fn capabilities(&self) -> Capabilities {
        Capabilities { gso_max_v4: 16_384, gso_max_v6: 16_384, ..self.0.capabilities() }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.0.poll_receive(cx, batch)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        self.0.send(packet)
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

/// A stack above makes the packets that a file shows: of any size only where the kernel cuts them.
#[test]
fn packets_are_captured_as_they_cross_the_device() {
    let file = Temporary::new("cutting");
    let plain = Capabilities::ip(1500);
    let cutting =
        Captured::create(Cutting(memory::pair(memory::Config::default()).0), "cutting", &file.0).unwrap();
    assert_eq!(cutting.capabilities(), plain);
    let whole = Captured::create(
        memory::pair(memory::Config { gso: true, ..memory::Config::default() }).0,
        "whole",
        &file.0,
    )
    .unwrap();
    assert_eq!((whole.capabilities().gso_max_v4, whole.capabilities().gso_max_v6), (65_535, 65_535));
}

/// The blocks of a file: type and body.
fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let len = word(bytes, 4) as usize;
        assert_eq!(len % 4, 0);
        assert_eq!(word(bytes, len - 4) as usize, len, "the length at both ends");
        blocks.push((word(bytes, 0), bytes[8..len - 4].to_vec()));
        bytes = &bytes[len..];
    }
    blocks
}

#[test]
fn the_file_holds_each_packet_with_time_direction_and_bytes() {
    let file = Temporary::new("blocks");
    let (near, mut far) = memory::pair(memory::Config::default());
    let before = Clock::new().time_ns();
    let mut device = Captured::create(near, "memory0", &file.0).unwrap();
    send_and_receive(&mut device, &mut far);
    let report = device.handle().report();
    drop(device);

    let bytes = std::fs::read(&file.0).unwrap();
    assert_eq!(report, CaptureReport { packets: 2, lost: 0, bytes: bytes.len() as u64, stopped: None });
    let blocks = blocks(&bytes);
    let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 6]);
    assert_eq!(blocks[1].1[..2], [101, 0], "LINKTYPE_RAW");
    for (block, (payload, flags)) in blocks[2..].iter().zip([(b"hello", 2), (b"there", 1)]) {
        let word = |at: usize| u32::from_le_bytes(block.1[at..at + 4].try_into().unwrap());
        let time = u64::from(word(4)) << 32 | u64::from(word(8));
        assert!(time >= before && time - before < 60_000_000_000);
        assert_eq!((word(12), word(16)), (33, 33));
        assert_eq!(&block.1[20 + 28..20 + 33], payload);
        assert_eq!(word(20 + 36 + 4), flags, "epb_flags");
    }
}

#[tokio::test(start_paused = true)]
async fn times_are_those_of_a_paused_clock() {
    let clock = Clock::new();
    let before = clock.time_ns();
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(clock.time_ns() - before, 5_000_000_000);
}

#[test]
fn tcpdump_reads_the_file() {
    let file = Temporary::new("tcpdump");
    let (near, mut far) = memory::pair(memory::Config::default());
    let mut device = Captured::create(near, "memory0", &file.0).unwrap();
    send_and_receive(&mut device, &mut far);
    drop(device);
    let output = match Command::new("tcpdump").args(["-n", "-tt", "--nano", "-r"]).arg(&file.0).output() {
        Ok(output) => output,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "no test may be skipped here: {error}");
            // Not `eprintln!`: the test harness hides that when a test passes.
            writeln!(std::io::stderr(), "skipped: tcpdump cannot be run: {error}").unwrap();
            return;
        }
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = "IP 10.0.0.1.1000 > 10.0.0.2.2000: UDP, length 5";
    assert_eq!(text.lines().filter(|line| line.contains(expected)).count(), 2, "{text}");
}

#[test]
fn a_capture_that_cannot_be_written_ends_and_the_transfer_goes_on() {
    let file = Temporary::new("full");
    let (near, mut far) = memory::pair(memory::Config::default());
    let mut device = Captured::create(near, "memory0", &file.0).unwrap();
    let capture = device.handle();
    let header_bytes = std::fs::metadata(&file.0).unwrap().len();
    let full = File::options().write(true).open("/dev/full").unwrap();
    capture.writer().file = Outlet::new(full).unwrap();
    send_and_receive(&mut device, &mut far);
    capture.flush();
    let stopped = capture.report().stopped.expect("the disk is full");
    assert!(stopped.contains("No space left") && stopped.contains(&format!("after {header_bytes} bytes")));
    send_and_receive(&mut device, &mut far);
    assert_eq!(capture.report().packets, 2, "nothing is captured any more");
    assert_eq!(device.counters().sent, 2, "but everything is sent");
}

#[test]
fn a_reader_that_stops_delays_no_packet_and_finds_whole_blocks_later() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let (near, mut far) = memory::pair(memory::Config::default());
    let mut device =
        Captured::to_file(near, "memory0", File::from(std::os::fd::OwnedFd::from(writer))).unwrap();
    let capture = device.handle();
    let mut sent = 0;
    let mut send = |device: &mut Captured<MemoryDevice>, far: &mut MemoryDevice| {
        device.send(&udp_packet(&[7; 1400])).unwrap();
        let mut batch = ReceiveBatch::new(8, 0);
        assert!(far.poll_receive(&mut Context::from_waker(Waker::noop()), &mut batch).is_ready());
        sent += 1;
    };
    // More than the queue and the pipe hold.
    while capture.report().lost == 0 {
        send(&mut device, &mut far);
    }
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    });
    capture.writer().file.backlog().settle(Duration::from_secs(60)).unwrap();
    for _ in 0..1000 {
        send(&mut device, &mut far);
    }
    capture.flush();
    let report = capture.report();
    drop((device, capture));
    let packets = blocks(&reading.join().unwrap()).iter().filter(|(kind, _)| *kind == 6).count() as u64;
    assert_eq!(report.stopped, None);
    assert!(report.lost > 0 && report.lost <= 200, "one buffer of 256 KiB: {}", report.lost);
    assert_eq!((report.packets, report.packets + report.lost), (packets, sent));
}

#[test]
fn a_capture_whose_reader_stops_for_good_says_so_at_the_end() {
    let (_reader, writer) = std::io::pipe().unwrap();
    let (near, mut far) = memory::pair(memory::Config::default());
    let mut device =
        Captured::to_file(near, "memory0", File::from(std::os::fd::OwnedFd::from(writer))).unwrap();
    let capture = device.handle();
    for _ in 0..2000 {
        device.send(&udp_packet(&[7; 1400])).unwrap();
        let mut batch = ReceiveBatch::new(8, 0);
        let _ = far.poll_receive(&mut Context::from_waker(Waker::noop()), &mut batch);
    }
    capture.flush();
    let stopped = capture.report().stopped.expect("the reader takes nothing");
    assert!(stopped.contains("its reader is too slow"), "{stopped}");
}
