use std::future::poll_fn;

use ackclock_wire::pcapng::{self, Direction, LinkType, Record};
use ackclock_wire::{Fields, HEADER_MAX, HeaderTemplate, SeqNum, TcpOptions, TxChecksum};

use super::*;

const STACK: &str = "10.0.0.1:7";
const PEER: &str = "10.0.0.2:4000";

/// A packet of either side, as on the wire.
#[derive(Clone, Copy)]
struct Tcp {
    from_stack: bool,
    at_ms: u64,
    seq: u32,
    ack: u32,
    flags: ackclock_wire::Flags,
    payload: &'static [u8],
    timestamps: (u32, u32),
    window: u16,
}

const SYN: ackclock_wire::Flags = ackclock_wire::Flags::SYN;
const FLAG_ACK: ackclock_wire::Flags = ackclock_wire::Flags::ACK;

/// The peer opens, sends three bytes, and acknowledges two of the stack's.
fn recorded() -> Vec<Tcp> {
    let tcp = |from_stack, at_ms, seq, ack, flags, payload, timestamps| Tcp {
        from_stack,
        at_ms,
        seq,
        ack,
        flags,
        payload,
        timestamps,
        window: 1000,
    };
    vec![
        tcp(false, 0, 100, 0, SYN, &[][..], (1, 0)),
        tcp(true, 1, 500, 101, SYN | FLAG_ACK, &[], (70, 1)),
        tcp(false, 20, 101, 501, FLAG_ACK, b"abc", (2, 70)),
        tcp(true, 21, 501, 104, FLAG_ACK, b"de", (71, 2)),
        tcp(false, 50, 104, 503, FLAG_ACK, &[], (3, 71)),
    ]
}

impl Tcp {
    fn bytes(&self) -> Vec<u8> {
        let (stack, peer) = (STACK.parse().unwrap(), PEER.parse().unwrap());
        let (src, dst) = if self.from_stack { (stack, peer) } else { (peer, stack) };
        let fields = Fields {
            seq: SeqNum::new(self.seq),
            ack: SeqNum::new(self.ack),
            flags: self.flags,
            window: self.window,
            urgent: 0,
            ecn: ackclock_wire::Codepoint::NotEct,
            options: TcpOptions { timestamps: Some(self.timestamps), ..TcpOptions::default() },
        };
        let mut header = [0; HEADER_MAX];
        let template = HeaderTemplate::new(src, dst, 64, 0);
        let len = template.write(&mut header, &fields, [self.payload, &[]], TxChecksum::Full);
        [&header[..len], self.payload].concat()
    }
}

fn file(packets: &[Tcp]) -> Vec<u8> {
    file_at(packets, |_, at_ms| 1_000_000 * at_ms)
}

/// A recording of these packets, each at a time in nanoseconds computed from its index and its milliseconds.
fn file_at(packets: &[Tcp], time_ns: impl Fn(usize, u64) -> u64) -> Vec<u8> {
    let mut file = Vec::new();
    pcapng::section_header(&mut file);
    pcapng::interface(&mut file, "any", LinkType::Raw, 65_535);
    for (number, packet) in packets.iter().enumerate() {
        let bytes = packet.bytes();
        let record = Record {
            interface: 0,
            time_ns: time_ns(number, packet.at_ms),
            direction: Direction::Received,
            parts: &[&bytes],
            len: bytes.len(),
            comment: "",
        };
        pcapng::packet(&mut file, &record, 65_535);
    }
    file
}

/// A file with a unique name, deleted at the end.
struct Saved(std::path::PathBuf);

impl Saved {
    fn new(test: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("ackclock-{}-{test}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn config() -> ReplayConfig {
    ReplayConfig { lead: Duration::ZERO, ..ReplayConfig::new(["10.0.0.1".parse().unwrap()]) }
}

async fn receive(device: &mut Replay) -> io::Result<Vec<(Vec<u8>, RxMeta)>> {
    let mut batch = ReceiveBatch::new(64, 0);
    poll_fn(|cx| device.poll_receive(cx, &mut batch)).await?;
    Ok(batch.iter().map(|(bytes, meta)| (bytes.to_vec(), meta)).collect())
}

fn send(device: &mut Replay, tcp: &Tcp) {
    let bytes = tcp.bytes();
    let packet = TxPacket::complete(&bytes);
    device.send(&packet).unwrap();
}

/// Acknowledgement number and echoed timestamp.
fn answers(packet: &[u8]) -> (u32, u32) {
    let tcp = &packet[20..];
    let segment = ackclock_wire::Segment::parse(
        "10.0.0.2".parse().unwrap(),
        "10.0.0.1".parse().unwrap(),
        tcp,
        ChecksumState::Verified,
    );
    let segment = segment.unwrap();
    (segment.ack.raw(), segment.options.timestamps.unwrap().1)
}

#[tokio::test(start_paused = true)]
async fn answers_fit_the_numbers_that_the_stack_has_now() {
    let saved = Saved::new("answers", &file(&recorded()));
    let mut device = Replay::open(&saved.0, config()).unwrap();
    assert_eq!((device.packets(), device.remarks()), (3, vec![]));
    let began = Instant::now();
    let syn = receive(&mut device).await.unwrap();
    assert_eq!((syn.len(), began.elapsed()), (1, Duration::ZERO));
    // The recorded stack took 500; this one begins just before the numbers wrap, at another time.
    let iss = u32::MAX;
    let [_, answer, _, data, _] = recorded().try_into().ok().unwrap();
    send(&mut device, &Tcp { seq: iss, timestamps: (9000, 1), ..answer });
    let text = receive(&mut device).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_millis(20));
    assert_eq!((text[0].1.checksum, &text[0].0[52..]), (ChecksumState::Verified, &b"abc"[..]));
    assert_eq!(answers(&text[0].0), (iss.wrapping_add(1), 9000));
    // The last packet waits for what it acknowledges, however long that takes.
    tokio::time::advance(Duration::from_secs(1)).await;
    send(&mut device, &Tcp { seq: iss.wrapping_add(1), timestamps: (9500, 2), ..data });
    let acknowledged = receive(&mut device).await.unwrap();
    assert_eq!(answers(&acknowledged[0].0), (iss.wrapping_add(3), 9500));
}

#[tokio::test(start_paused = true)]
async fn recording_ends_with_an_error_that_says_so() {
    let saved = Saved::new("ends", &file(&recorded()[..1]));
    let mut device = Replay::open(&saved.0, config()).unwrap();
    assert_eq!(receive(&mut device).await.unwrap().len(), 1);
    let began = Instant::now();
    let error = receive(&mut device).await.unwrap_err();
    assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::NetworkDown, config().patience));
    assert!(error.to_string().contains("all 1 packets were played"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn failure_names_the_frame_that_waits_for_more_than_the_stack_sent() {
    let saved = Saved::new("less", &file(&recorded()));
    let mut device = Replay::open(&saved.0, config()).unwrap();
    receive(&mut device).await.unwrap();
    let error = receive(&mut device).await.unwrap_err().to_string();
    assert!(error.contains("frame 3 ") && error.contains("handshake with 10.0.0.2:4000"), "{error}");

    let mut device = Replay::open(&saved.0, config()).unwrap();
    receive(&mut device).await.unwrap();
    send(&mut device, &recorded()[1]);
    receive(&mut device).await.unwrap();
    let error = receive(&mut device).await.unwrap_err().to_string();
    assert!(error.contains("frame 5 ") && error.contains("2 bytes"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn at_once_nothing_waits_but_for_the_stack() {
    let saved = Saved::new("at-once", &file(&recorded()));
    let config = ReplayConfig { pace: Pace::AtOnce, ..config() };
    let mut device = Replay::open(&saved.0, config).unwrap();
    let began = Instant::now();
    receive(&mut device).await.unwrap();
    send(&mut device, &recorded()[1]);
    send(&mut device, &recorded()[3]);
    assert_eq!(receive(&mut device).await.unwrap().len(), 2);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// The peer opens and sends "abc", "def", then "abc" once more, 10 ms apart.
fn six_bytes() -> Vec<Tcp> {
    let [syn, answer, text, ..] = <[Tcp; 5]>::try_from(recorded()).ok().unwrap();
    let more = Tcp { at_ms: 30, seq: 104, payload: b"def", ..text };
    let again = Tcp { at_ms: 40, timestamps: (9, 70), ..text };
    vec![syn, answer, text, more, again]
}

fn payloads(packets: &[(Vec<u8>, RxMeta)]) -> Vec<&[u8]> {
    packets.iter().map(|(bytes, _)| &bytes[52..]).collect()
}

#[tokio::test(start_paused = true)]
async fn no_packet_goes_beyond_the_window_that_the_stack_offers() {
    let saved = Saved::new("window", &file(&six_bytes()));
    let mut device = Replay::open(&saved.0, config()).unwrap();
    let began = Instant::now();
    receive(&mut device).await.unwrap();
    // The recorded stack offered 1,000 bytes. This one offers five, and two more once it has three.
    let answer = Tcp { window: 5, ..recorded()[1] };
    send(&mut device, &answer);
    assert_eq!(payloads(&receive(&mut device).await.unwrap()), [b"abc"]);
    // The repeated packet fits, and does not wait for one that does not.
    assert_eq!(payloads(&receive(&mut device).await.unwrap()), [b"abc"]);
    assert_eq!(began.elapsed(), Duration::from_millis(40));
    send(&mut device, &Tcp { window: 2, ack: 104, seq: 501, flags: FLAG_ACK, ..answer });
    let early = tokio::time::timeout(Duration::from_secs(1), receive(&mut device)).await;
    assert!(early.is_err(), "one byte is beyond the window still");
    send(&mut device, &Tcp { window: 3, ack: 104, seq: 501, flags: FLAG_ACK, ..answer });
    let late = receive(&mut device).await.unwrap();
    assert_eq!(payloads(&late), [b"def"]);
    // The next packet has a present timestamp, or the stack would drop it as a stray.
    assert_eq!(late[0].0[44..48], 9_u32.to_be_bytes());
}

#[tokio::test(start_paused = true)]
async fn many_small_waits_take_no_longer_than_recorded() {
    let [syn, answer, text, ..] = <[Tcp; 5]>::try_from(recorded()).ok().unwrap();
    let mut packets = vec![syn, answer];
    packets.extend([text; 500]);
    // 40 us apart, from the twentieth millisecond on.
    let at = |n: usize, at_ms| if n < 2 { at_ms * 1_000_000 } else { 20_000_000 + (n as u64 - 2) * 40_000 };
    let saved = Saved::new("small-waits", &file_at(&packets, at));
    let mut device = Replay::open(&saved.0, config()).unwrap();
    let began = Instant::now();
    receive(&mut device).await.unwrap();
    send(&mut device, &answer);
    let mut received = 0;
    while received < 500 {
        received += receive(&mut device).await.unwrap().len();
    }
    let took = began.elapsed();
    assert!((Duration::from_millis(39)..Duration::from_millis(43)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_packet_of_many_segments_comes_in_by_segments_where_the_window_is_smaller() {
    let [syn, answer, text, ..] = <[Tcp; 5]>::try_from(recorded()).ok().unwrap();
    let large = Tcp { payload: b"abcdefgh", ..text };
    let saved = Saved::new("large", &file(&[syn, answer, large]));
    // A segment has three bytes, and headers of 52.
    let mut device = Replay::open(&saved.0, ReplayConfig { mtu: 55, ..config() }).unwrap();
    receive(&mut device).await.unwrap();
    let answer = Tcp { window: 5, ..answer };
    let acknowledge = |ack, window| Tcp { window, ack, seq: 501, flags: FLAG_ACK, ..answer };
    send(&mut device, &answer);
    assert_eq!(payloads(&receive(&mut device).await.unwrap()), [b"abc"]);
    send(&mut device, &acknowledge(104, 4));
    let second = receive(&mut device).await.unwrap();
    assert_eq!(payloads(&second), [b"def"]);
    assert_eq!(second[0].1, RxMeta { checksum: ChecksumState::Verified, segment_size: None });
    let early = tokio::time::timeout(Duration::from_secs(1), receive(&mut device)).await;
    assert!(early.is_err(), "one byte is beyond the window still");
    send(&mut device, &acknowledge(107, 2));
    assert_eq!(payloads(&receive(&mut device).await.unwrap()), [b"gh"]);
    let end = receive(&mut device).await.unwrap_err().to_string();
    assert!(end.contains("all 2 packets were played"), "{end}");
}

#[tokio::test(start_paused = true)]
async fn window_that_never_opens_is_named_with_the_frame_that_waits() {
    let saved = Saved::new("shut", &file(&six_bytes()));
    let mut device = Replay::open(&saved.0, config()).unwrap();
    receive(&mut device).await.unwrap();
    send(&mut device, &Tcp { window: 5, ..recorded()[1] });
    receive(&mut device).await.unwrap();
    receive(&mut device).await.unwrap();
    let error = receive(&mut device).await.unwrap_err().to_string();
    assert!(
        error.contains("frame 4 ") && error.contains("1 bytes beyond the stack's receive window"),
        "{error}"
    );
    assert!(error.contains("3 of 4 packets were played"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn damage_that_was_recorded_stays_damage() {
    let mut bytes = file(&recorded());
    let at = bytes.windows(3).position(|window| window == b"abc").unwrap();
    bytes[at] ^= 1;
    let saved = Saved::new("damage", &bytes);
    let mut device = Replay::open(&saved.0, config()).unwrap();
    receive(&mut device).await.unwrap();
    send(&mut device, &recorded()[1]);
    assert_eq!(receive(&mut device).await.unwrap()[0].1.checksum, ChecksumState::Complete);
}

#[test]
fn truncated_file_is_read_as_far_as_it_goes_and_says_where_it_ends() {
    let whole = file(&recorded());
    let last = file(&recorded()[..4]).len();
    let saved = Saved::new("truncated", &whole[..whole.len() - 5]);
    let device = Replay::open(&saved.0, config()).unwrap();
    assert_eq!(device.packets(), 2);
    assert_eq!(device.remarks(), [format!("the file ends within a block that begins at byte {last}")]);
    let mut broken = whole;
    broken[last..last + 8].fill(0xee);
    let saved = Saved::new("broken", &broken);
    let remarks = Replay::open(&saved.0, config()).unwrap().remarks();
    assert!(remarks[0].contains(&format!("byte {last}")), "{remarks:?}");
}

#[test]
fn what_is_no_recording_is_refused_in_words() {
    let error = |test: &str, bytes: &[u8]| {
        let saved = Saved::new(test, bytes);
        Replay::open(&saved.0, config()).unwrap_err().to_string()
    };
    assert!(error("empty", &[]).contains("is empty"));
    assert!(error("noise", b"no capture at all, but long enough").contains("neither pcap nor pcapng"));
    assert!(error("no-packet", &file(&[])).contains("no frame at all"));
    let missing = Replay::open("/no/such/file", config()).unwrap_err().to_string();
    assert!(missing.contains("/no/such/file cannot be opened"), "{missing}");
}

#[test]
fn recording_of_others_says_that_nothing_is_played() {
    let saved = Saved::new("others", &file(&recorded()));
    let device = Replay::open(&saved.0, ReplayConfig::new(["10.0.0.9".parse().unwrap()])).unwrap();
    assert_eq!(device.packets(), 0);
    assert!(device.remarks()[0].contains("no packet is to the stack's addresses"));
}

#[tokio::test(start_paused = true)]
async fn lead_and_patience_may_be_the_longest() {
    let saved = Saved::new("patient", &file(&recorded()));
    let patient = ReplayConfig { patience: Duration::MAX, ..config() };
    let mut device = Replay::open(&saved.0, patient).unwrap();
    assert_eq!(receive(&mut device).await.unwrap().len(), 1);
    let year = Duration::from_secs(365 * 24 * 3600);
    assert!(tokio::time::timeout(year, receive(&mut device)).await.is_err(), "it waits for the SYN-ACK");

    let mut late = Replay::open(&saved.0, ReplayConfig { lead: Duration::MAX, ..config() }).unwrap();
    assert!(tokio::time::timeout(year, receive(&mut late)).await.is_err(), "it has not begun");
}
