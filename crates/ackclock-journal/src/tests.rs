//! The format, and replays of endpoints that lose packets in virtual time.

mod changes;
mod every_call;
mod records;
mod thawed;
mod values;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ackclock_form::{FormError, Reader, Writer};
use ackclock_wire::pipe::Pipe;
use ackclock_wire::random::Rng;
use ackclock_wire::{ChecksumAt, ChecksumState, RxMeta};
use bytes::Bytes;
use proptest::prelude::*;

use super::block::{CONTENT_MAX, HEAD, MAGIC};
use super::calls::{Call, ConnectionCall, Received};
use super::value::Value;
use crate::{
    Changes, DamageKind, Departure, Difference, Journal, JournalEnd, JournalHeader, RecordedEndpoint, Replay,
};
use ackclock_core::congestion::Registry;
use ackclock_core::profile::Profile;
use ackclock_core::trace::TraceConfig;
use ackclock_core::{
    ConnectionId, Endpoint, EndpointConfig, Instant, Keepalive, Limits, ListenAddr, ListenOptions, RxPacket,
    TcpConfig, UdpOptions,
};

const LIMITS: Limits = Limits { gso_max_v4: 65_535, gso_max_v6: 65_535, tx_checksum: true };

/// A file in memory, of at most this many bytes.
#[derive(Clone, Debug)]
struct File {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl File {
    fn new() -> Self {
        Self { bytes: Arc::default(), room: usize::MAX }
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        let fits = buf.len().min(self.room - bytes.len());
        if fits == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.extend_from_slice(&buf[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn header(addr: &str) -> JournalHeader {
    let mut config = EndpointConfig::new(vec![addr.parse().unwrap()], [addr.len() as u8; 32]);
    config.tcp = TcpConfig { trace: Some(TraceConfig::FULL), ..TcpConfig::default() }.into();
    JournalHeader {
        program: "a test".to_owned(),
        epoch_unix_nanos: None,
        start: Instant::from_millis(5),
        config,
    }
}

fn recorded(header: &JournalHeader, file: &File, limit: u64) -> RecordedEndpoint {
    let journal = Journal::begin(Box::new(file.clone()), header, limit).unwrap();
    RecordedEndpoint::new(Endpoint::new(header.config.clone(), header.start), Some(journal))
}

/// A transfer over a path that loses and delays, and of its sender the recording and the trace.
struct Transfer {
    file: Vec<u8>,
    /// The receiver's recording.
    server_file: Vec<u8>,
    trace: Vec<u8>,
    left: u64,
}

impl Transfer {
    /// Moves `bytes`; one packet in `lose` gets lost.
    fn run(bytes: usize, lose: u64, limit: u64) -> Self {
        let file = File::new();
        let mut client = recorded(&header("10.0.0.1"), &file, limit);
        let server_file = File::new();
        let mut server = recorded(&header("10.0.0.22"), &server_file, limit);
        let mut now = Instant::from_millis(5);
        let port = ListenAddr { addr: None, port: Some(7) };
        let listener = server.listen(now, ListenOptions::new(port)).unwrap();
        let to = SocketAddr::new("10.0.0.22".parse().unwrap(), 7);
        let id = client.connect(now, to, (None, 0), None).unwrap();
        let (mut wire, mut rng) = (Pipe::<Instant, (bool, Vec<u8>)>::new(), Rng::new(1));
        let (mut written, mut read, mut left, mut accepted) = (0, 0, 0, None);
        let mut trace = Vec::new();
        while read < bytes && now < Instant::from_millis(600_000) {
            now = now.plus_nanos(1_000_000);
            while let Some((_, (to_server, packet))) = wire.take_due(now) {
                let meta =
                    RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
                let end = if to_server { &mut server } else { &mut client };
                match packet.len() % 2 {
                    0 => end.handle_packet(now, &packet, meta),
                    _ => end.handle_packets(now, [in_block(&packet.into(), meta)]),
                }
            }
            for end in [&mut client, &mut server] {
                if end.poll_timeout().is_some_and(|at| at <= now) {
                    end.handle_timeout(now);
                }
                while end.poll_event().is_some() {}
            }
            written += write(&mut client, now, id, bytes - written);
            accepted = accepted.or_else(|| server.accept_decided(now, listener).map(|(id, _)| id));
            read += accepted.map_or(0, |id| drain(&mut server, now, id));
            for to_server in [true, false] {
                let end = if to_server { &mut client } else { &mut server };
                while let Some(packet) = end.poll_transmit(now, LIMITS) {
                    let bytes = packet.to_vec();
                    left += u64::from(to_server);
                    if !rng.one_in(lose) {
                        wire.carry(now + Duration::from_millis(20), (to_server, bytes));
                    }
                }
            }
            while let Some(batch) = client.poll_trace() {
                trace.extend(batch.records.iter().flat_map(|record| record.to_bytes()));
            }
        }
        assert_eq!(read, bytes, "the transfer reached its end");
        client.update(now, id, |connection, now| connection.shutdown(now).unwrap()).unwrap();
        client.release(now, id);
        client.end_traces();
        while let Some(batch) = client.poll_trace() {
            trace.extend(batch.records.iter().flat_map(|record| record.to_bytes()));
        }
        drop((client, server));
        Self { file: file.bytes(), server_file: server_file.bytes(), trace, left }
    }
}

fn write(client: &mut RecordedEndpoint, now: Instant, id: ConnectionId, left: usize) -> usize {
    if left == 0 {
        return 0;
    }
    let bytes = vec![0x5a; left.min(100_000)];
    client.update(now, id, |connection, now| connection.write(now, &bytes).unwrap_or(0)).unwrap()
}

fn drain(server: &mut RecordedEndpoint, now: Instant, id: ConnectionId) -> usize {
    let mut read = 0;
    server.update(now, id, |connection, now| {
        while let Ok(bytes) = connection.read_bytes(now, usize::MAX)
            && !bytes.is_empty()
        {
            read += bytes.len();
        }
    });
    read
}

/// The findings of a replay.
struct Replayed {
    departures: Vec<Departure>,
    trace: Vec<u8>,
    left: u64,
    end: Option<JournalEnd>,
    damage: Option<DamageKind>,
    calls: u64,
    /// [`Replay::has_stopped_timers`].
    stopped: bool,
    /// [`Replay::departures`].
    count: u64,
}

fn replay(file: &[u8], changes: Changes) -> Replayed {
    let mut replay = Replay::open(file, &Registry::builtin(), changes).unwrap();
    let (mut departures, mut trace, mut left, mut damage) = (Vec::new(), Vec::new(), 0, None);
    loop {
        let step = replay.step(|_, seen| left += u64::from(matches!(seen, super::Seen::Left(_))));
        while let Some(batch) = replay.endpoint_mut().poll_trace() {
            trace.extend(batch.records.iter().flat_map(|record| record.to_bytes()));
        }
        match step {
            Ok(Some(step)) => departures.extend(step.departure),
            Ok(None) => break,
            Err(found) => {
                damage = Some(found.kind);
                break;
            }
        }
    }
    let (stopped, count) = (replay.has_stopped_timers(), replay.departures());
    Replayed { departures, trace, left, end: replay.end(), damage, calls: replay.calls(), stopped, count }
}

/// A packet that a connection may keep.
fn in_block(bytes: &Bytes, meta: RxMeta) -> RxPacket<'_> {
    RxPacket { bytes, meta, block: Some(bytes.clone()) }
}

#[test]
fn lossy_transfer_is_replayed_to_the_same_packets_and_trace() {
    let recorded = Transfer::run(3_000_000, 40, u64::MAX);
    let replayed = replay(&recorded.file, Changes::default());
    assert_eq!(replayed.departures, []);
    assert_eq!(replayed.left, recorded.left);
    assert!(recorded.trace.len() > 16_000, "{} bytes of trace", recorded.trace.len());
    assert_eq!(replayed.trace, recorded.trace);
    assert_eq!(replayed.end, Some(JournalEnd::Closed));
    let receiver = replay(&recorded.server_file, Changes::default());
    assert_eq!((receiver.departures, receiver.end), (vec![], Some(JournalEnd::Closed)));
    // The payload is not in it.
    assert!(recorded.file.len() < 1_500_000, "{} bytes", recorded.file.len());
}

#[test]
fn another_profile_departs_and_says_where() {
    let recorded = Transfer::run(500_000, 40, u64::MAX);
    let profile = Some(Profile::find("tahoe-1988").unwrap());
    let replayed = replay(&recorded.file, Changes { profile, ..Changes::default() });
    let first = &replayed.departures[0];
    let text = first.to_string();
    assert!(matches!(first.difference, Difference::Packet { .. }), "{text}");
    // Both packets are shown, and one of them offers SACK.
    assert!(text.matches("[SYN]").count() == 2 && text.matches("sackOK").count() == 1, "{text}");
    assert!(text.contains("10.0.0.1:") && text.contains("> 10.0.0.22:7"), "{text}");
    assert!(!replayed.stopped);
}

/// A recording that jumps over millions of deadlines, ten times.
#[test]
fn replay_that_departs_meets_as_many_deadlines_as_the_recording_accounts_for() {
    let file = File::new();
    let mut header = header("10.0.0.1");
    let keepalive =
        Keepalive { idle: Duration::from_millis(1), interval: Duration::from_millis(1), probes: u32::MAX };
    header.config.tcp = TcpConfig { keepalive: Some(keepalive), ..TcpConfig::default() }.into();
    let mut client = recorded(&header, &file, u64::MAX);
    let mut server = recorded(&self::header("10.0.0.22"), &File::new(), u64::MAX);
    let mut now = header.start;
    server.listen(now, ListenOptions::new(ListenAddr { addr: None, port: Some(7) })).unwrap();
    client.connect(now, SocketAddr::new("10.0.0.22".parse().unwrap(), 7), (None, 0), None).unwrap();
    let meta = RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
    let next = |end: &mut RecordedEndpoint| {
        let packet = end.poll_transmit(now, LIMITS)?;
        Some(packet.to_vec())
    };
    server.handle_packet(now, &next(&mut client).unwrap(), meta);
    client.handle_packet(now, &next(&mut server).unwrap(), meta);
    next(&mut client).unwrap();
    for _ in 0..10 {
        now += Duration::from_secs(2000);
        client.handle_timeout(now);
        assert!(client.poll_transmit(now, LIMITS).is_some());
    }
    drop(client);
    let profile = Some(Profile::find("tahoe-1988").unwrap());
    let (bytes, changes) = (file.bytes(), Changes { profile, trace: None });
    let mut replay = Replay::open(&bytes[..], &Registry::builtin(), changes).unwrap();
    let mut left = 0;
    while replay.step(|_, seen| left += u64::from(matches!(seen, super::Seen::Left(_)))).unwrap().is_some() {}
    assert!(replay.has_stopped_timers());
    assert_eq!((replay.now(), replay.calls()), (now, 24));
    // A deadline and its probe count one each. The calls of the jumps are made nevertheless.
    assert!((5_000..5_500).contains(&left), "{left} packets");
}

#[test]
fn trace_can_be_asked_for_afterwards() {
    let file = File::new();
    let mut header = header("10.0.0.1");
    header.config.tcp = Arc::default();
    let mut endpoint = recorded(&header, &file, u64::MAX);
    let to = SocketAddr::new("10.0.0.22".parse().unwrap(), 7);
    endpoint.connect(header.start, to, (None, 0), None).unwrap();
    assert!(endpoint.poll_transmit(header.start, LIMITS).is_some());
    endpoint.end_traces();
    drop(endpoint);
    assert!(replay(&file.bytes(), Changes::default()).trace.is_empty());
    let traced = replay(&file.bytes(), Changes { trace: Some(TraceConfig::FULL), ..Changes::default() });
    assert!(!traced.trace.is_empty());
    assert_eq!(traced.departures, []);
}

#[test]
fn every_truncation_is_replayed_up_to_where_it_goes() {
    let file = Transfer::run(4_000, 1_000, u64::MAX).file;
    let whole = replay(&file, Changes::default());
    let (mut last, mut undamaged) = (0, 0);
    for len in 0..file.len() {
        match Replay::open(&file[..len], &Registry::builtin(), Changes::default()) {
            Err(_) => assert!(last == 0, "{len}: no header after a shorter file had one"),
            Ok(_) => {
                let cut = replay(&file[..len], Changes::default());
                assert_eq!(cut.departures, [], "{len}");
                assert_eq!(cut.end, None, "{len}");
                assert!(cut.calls >= last && cut.calls <= whole.calls, "{len}: {} calls", cut.calls);
                assert!(matches!(cut.damage, None | Some(DamageKind::Torn)), "{len}");
                undamaged += u64::from(cut.damage.is_none());
                last = cut.calls;
            }
        }
    }
    assert!(last > 0 && whole.damage.is_none());
    assert!(undamaged > 0, "a file that ends between two blocks is whole");
}

#[test]
fn sec_f2_flipped_bits_are_noticed() {
    let file = Transfer::run(5_000, 1_000, u64::MAX).file;
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        let Ok(_) = Replay::open(&damaged[..], &Registry::builtin(), Changes::default()) else { continue };
        let replayed = replay(&damaged, Changes::default());
        assert!(matches!(replayed.damage, Some(DamageKind::Checksum | DamageKind::Torn)), "byte {at}");
        assert_eq!(replayed.departures, [], "byte {at}");
    }
}

#[test]
fn limit_ends_the_recording_and_never_the_endpoint() {
    let limit = 100_000;
    let recorded = Transfer::run(3_000_000, 40, limit);
    assert!(recorded.file.len() as u64 <= limit, "{} bytes", recorded.file.len());
    assert!(
        recorded.file.len() as u64 > limit - Journal::BLOCK as u64 - 200,
        "{} bytes",
        recorded.file.len()
    );
    let replayed = replay(&recorded.file, Changes::default());
    assert_eq!((replayed.end, replayed.departures), (Some(JournalEnd::Limit), vec![]));
    assert!(recorded.trace.starts_with(&replayed.trace), "the same, as far as it goes");
}

#[test]
fn limit_within_a_call_is_an_end_and_no_damage() {
    // A block is full between a write and the end of its update, and nothing fits behind it.
    let record = |limit| {
        let (file, header) = (File::new(), header("10.0.0.1"));
        let (mut endpoint, now) = (recorded(&header, &file, limit), header.start);
        let to = SocketAddr::new("10.0.0.22".parse().unwrap(), 7);
        let id = endpoint.connect(now, to, (None, 0), None).unwrap();
        let begun = file.bytes().len();
        while file.bytes().len() == begun {
            endpoint.update(now, id, |connection, now| connection.write(now, &[7; 100]).is_ok());
        }
        let full = file.bytes().len() as u64;
        drop(endpoint);
        (full, file.bytes())
    };
    let (full, _) = record(u64::MAX);
    let (_, file) = record(full + 64);
    let replayed = replay(&file, Changes::default());
    assert!(replayed.damage.is_none(), "{:?}", replayed.damage);
    assert_eq!(replayed.end, Some(JournalEnd::Limit));
    assert_eq!(replayed.departures, []);
}

#[test]
fn full_disk_ends_the_recording_and_never_the_endpoint() {
    let file = File { room: 5_000, ..File::new() };
    let header = header("10.0.0.1");
    let mut endpoint = recorded(&header, &file, u64::MAX);
    let mut now = header.start;
    for _ in 0..20_000 {
        now = now.plus_nanos(1);
        endpoint.handle_timeout(now);
    }
    let journal = endpoint.journal().unwrap();
    assert!(matches!(journal.ended(), Some(JournalEnd::Failed(_))), "{journal:?}");
    assert_eq!(file.bytes().len(), 5_000);
    endpoint.handle_timeout(now);
    drop(endpoint);
    let replayed = replay(&file.bytes(), Changes::default());
    assert!(matches!(replayed.damage, Some(DamageKind::Torn)) && replayed.end.is_none());
}

#[cfg(feature = "tcp-ao")]
#[test]
fn keys_end_the_recording_and_work_all_the_same() {
    use ackclock_core::{Algorithm, KeyChain, MasterKey};
    let (file, header) = (File::new(), header("10.0.0.1"));
    let mut client = recorded(&header, &file, u64::MAX);
    let to: SocketAddr = "10.0.0.22:7".parse().unwrap();
    let algorithm = Algorithm::HmacSha1;
    let key = MasterKey { send_id: 1, receive_id: 2, algorithm, covers_options: true, secret: vec![3; 10] };
    client.set_keys(to.ip(), Some(KeyChain::new(vec![key]).unwrap()));
    assert!(matches!(client.journal().unwrap().ended(), Some(JournalEnd::Keys)));
    let id = client.connect(header.start, to, (None, 0), None).unwrap();
    assert!(client.poll_transmit(header.start, LIMITS).is_some());
    assert!(client.request_key(id, 2) && !client.request_key(id, 3));
}

#[test]
fn what_is_flushed_survives_a_program_that_is_killed() {
    let file = File::new();
    let header = header("10.0.0.1");
    let mut endpoint = recorded(&header, &file, u64::MAX);
    endpoint.handle_timeout(header.start);
    endpoint.handle_timeout(header.start.plus_nanos(9));
    endpoint.flush_journal();
    let killed = file.bytes();
    endpoint.handle_timeout(header.start.plus_nanos(10));
    assert_eq!(file.bytes(), killed, "it is held back");
    assert_eq!(replay(&killed, Changes::default()).calls, 2);
    drop(endpoint);
    let closed = replay(&file.bytes(), Changes::default());
    assert_eq!((closed.calls, closed.end), (3, Some(JournalEnd::Closed)));
}

#[test]
fn call_that_panics_is_the_last_of_the_file() {
    let file = File::new();
    let header = header("10.0.0.1");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut endpoint = recorded(&header, &file, u64::MAX);
        endpoint.handle_timeout(header.start);
        let to = SocketAddr::new("10.0.0.22".parse().unwrap(), 7);
        let id = endpoint.connect(header.start, to, (None, 0), None).unwrap();
        endpoint.update(header.start, id, |connection, now| {
            connection.set_nodelay(now, true);
            panic!("a bug");
        });
    }));
    assert!(panicked.is_err());
    let replayed = replay(&file.bytes(), Changes::default());
    assert_eq!((replayed.calls, replayed.end, replayed.departures), (3, None, vec![]));
}

#[test]
fn datagrams_are_replayed() {
    let file = File::new();
    let header = header("10.0.0.1");
    let now = header.start;
    let mut endpoint = recorded(&header, &file, u64::MAX);
    let peer: SocketAddr = "10.0.0.2:53".parse().unwrap();
    let addr = ListenAddr { addr: None, port: Some(0) };
    let id = endpoint.udp_bind(now, UdpOptions::new(addr)).unwrap();
    endpoint.udp_connect(id, Some(peer)).unwrap();
    endpoint.udp_send(now, id, &ackclock_core::UdpTransmit::new(b"hello", None)).unwrap();
    assert!(endpoint.udp_is_writable(id).unwrap());
    assert!(endpoint.poll_transmit(now, LIMITS).is_some());
    assert!(endpoint.udp_receive(id, &mut [0; 100], false).is_err());
    endpoint.udp_close(id);
    drop(endpoint);
    let replayed = replay(&file.bytes(), Changes::default());
    assert_eq!((replayed.departures, replayed.left, replayed.calls), (vec![], 1, 7));
}

#[test]
fn something_else_is_refused_by_name() {
    let open =
        |bytes: &[u8]| Replay::open(bytes, &Registry::builtin(), Changes::default()).unwrap_err().to_string();
    assert!(open(b"").contains("not a recording"));
    assert!(open(b"ackclock trace\x01\nand so on").contains("not a recording"));
    assert!(open(b"ackclock calls\x02\nand so on").contains("another version"));
    assert!(open(MAGIC).contains("ends within a block"));
    let huge = [&MAGIC[..], &u32::MAX.to_le_bytes(), &[0; 12]].concat();
    assert!(open(&huge).starts_with("at byte 16: the block's checksum"));
}

#[test]
fn settings_of_every_profile_and_controller_are_read_back() {
    let registry = Registry::with_experiments();
    for profile in Profile::all() {
        let mut tcp = TcpConfig::default();
        tcp.apply(&profile, &registry).unwrap();
        tcp.keepalive = Some(ackclock_core::Keepalive::default());
        tcp.mtu_probing = Some(Box::default());
        tcp.user_timeout_option = Some(Box::default());
        let read: TcpConfig = read_back(&tcp, &registry).unwrap();
        assert_eq!(format!("{read:?}"), format!("{tcp:?}"), "{}", profile.name);
    }
    let config =
        TcpConfig { congestion: registry.find("vegas:alpha=2,beta=4").unwrap(), ..TcpConfig::default() };
    let read: TcpConfig = read_back(&config, &registry).unwrap();
    assert_eq!(format!("{:?}", read.congestion), format!("{:?}", config.congestion));
    let unknown = TcpConfig { congestion: registry.find("none-1987").unwrap(), ..TcpConfig::default() };
    let refused = read_back(&unknown, &Registry::builtin()).unwrap_err();
    assert!(matches!(&refused, FormError::Controller(_)), "{refused}");
}

#[test]
fn payload_is_left_out_of_a_correct_packet_alone() {
    let recorded = Transfer::run(100_000, 1_000, u64::MAX);
    assert!(!recorded.file.windows(8).any(|bytes| bytes == [0x5a; 8]), "payload is in the file");
    let meta = RxMeta::default();
    for packet in [&[0x45; 60][..], &[0; 20], &[]] {
        let received = Received::new(packet, meta, false);
        assert_eq!(received.packet(), (packet.to_vec(), meta), "it is kept whole");
    }
}

/// A reader with the controllers lent to it.
fn reader<'a>(bytes: &'a [u8], registry: &Registry) -> Reader<'a> {
    let mut reader = Reader::new(bytes);
    reader.lend(Arc::new(registry.clone()));
    reader
}

fn read_back<T: Value>(value: &T, registry: &Registry) -> Result<T, FormError> {
    let mut out = Writer::default();
    value.put(&mut out);
    let mut input = reader(out.bytes(), registry);
    let read = T::take(&mut input)?;
    assert_eq!(input.len(), 0, "all of it was read");
    Ok(read)
}

proptest! {
    #[test]
    fn plain_values_are_read_back(
        number: u64, seconds: Duration, addr: IpAddr, socket: SocketAddr, text: String, list: Vec<(u16, bool)>,
        maybe: Option<u32>
    ) {
        let registry = Registry::builtin();
        prop_assert_eq!(read_back(&number, &registry).unwrap(), number);
        prop_assert_eq!(read_back(&seconds, &registry).unwrap(), seconds);
        prop_assert_eq!(read_back(&addr, &registry).unwrap(), addr);
        let with_zero_flow = read_back(&socket, &registry).unwrap();
        prop_assert_eq!(with_zero_flow, socket);
        prop_assert_eq!(read_back(&text, &registry).unwrap(), text);
        prop_assert_eq!(read_back(&list, &registry).unwrap(), list);
        prop_assert_eq!(read_back(&maybe, &registry).unwrap(), maybe);
    }

    /// Any bytes that are read as a call are written as a call that reads the same.
    #[test]
    fn calls_are_read_back(bytes in prop::collection::vec(0_u8..8, 0..80), which: prop::sample::Index) {
        let registry = Registry::builtin();
        let code = Call::CODES[which.index(Call::CODES.len())];
        if let Ok(Some(call)) = Call::take(code, &mut reader(&bytes, &registry)) {
            let mut again = Writer::default();
            call.put(&mut again);
            let read = Call::take(again.bytes()[0], &mut reader(&again.bytes()[1..], &registry)).unwrap().unwrap();
            prop_assert_eq!(format!("{:?}", read), format!("{:?}", call));
        }
        let code = ConnectionCall::CODES[which.index(ConnectionCall::CODES.len())];
        if let Ok(Some(call)) = ConnectionCall::take(code, &mut reader(&bytes, &registry)) {
            let mut again = Writer::default();
            call.put(&mut again);
            let read = ConnectionCall::take(again.bytes()[0], &mut reader(&again.bytes()[1..], &registry)).unwrap().unwrap();
            prop_assert_eq!(format!("{:?}", read), format!("{:?}", call));
        }
    }

    /// After a header that a stack wrote, any calls with any arguments.
    #[test]
    fn sec_f2_any_calls_end_without_a_panic(
        calls in prop::collection::vec((0_usize..80, prop::collection::vec(0_u8..10, 0..30)), 0..60)
    ) {
        let file = File::new();
        let header = header("10.0.0.1");
        drop(recorded(&header, &file, u64::MAX));
        let mut records = records::records(&file.bytes());
        records.truncate(1);
        let codes = [&[1, 2, 3, 5, 60, 96, 3][..], Call::CODES, ConnectionCall::CODES].concat();
        let calls = calls.iter().map(|(which, arguments)| [&[codes[which % codes.len()]][..], arguments].concat());
        records.extend(calls);
        let file = records::recording(&records);
        let mut replay = Replay::open(&file[..], &Registry::builtin(), Changes::default()).unwrap();
        while let Ok(Some(_)) = replay.step(|_, _| ()) {}
    }

    #[test]
    fn sec_f2_any_blocks_end_without_a_panic(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..8)) {
        let file = records::file_of(&contents);
        prop_assert!(file.len() < CONTENT_MAX);
        if let Ok(mut replay) = Replay::open(&file[..], &Registry::builtin(), Changes::default()) {
            while let Ok(Some(_)) = replay.step(|_, _| ()) {}
        }
    }
}
