//! Every value that a recording holds: the bytes that stand for it, and what is refused.

use std::fmt::{Debug, Write as _};
use std::io::Read;
use std::num::NonZeroU16;

use ackclock_wire::{Cidr, Codepoint, Egress, Experiment, Route};
use bytes::Bytes;

use super::*;
use crate::block::seal;
use crate::outcome::ResultCode;
use ackclock_core::bandwidth::SenderEstimatorKind;
use ackclock_core::congestion::IdlePolicy;
use ackclock_core::profile::{AckPolicy, Choices, Ecn, Recovery, UndoChoice};
use ackclock_core::rtt::{Arithmetic, Backoff, DeviationFloor, Formula, Gain, RtoConfig, Sampling};
use ackclock_core::trace::TraceKeep;
use ackclock_core::{
    BindOptions, BoundId, ConnectionError, Decision, Event, IcmpError, IncomingId, Keepalive, ListenerId,
    LocalAddress, MtuProbing, OtherPacket, PathCacheConfig, PingPolicy, ReassemblyConfig, Shaping, Sharing,
    UdpId, Unreachable, UserTimeoutOption,
};

/// Lines of values and their bytes.
struct Page(String, Registry);

impl Page {
    /// The value's bytes are read back as the value, and none of their beginnings is.
    fn value<T: Value + Debug>(&mut self, value: T) {
        let mut out = Writer::default();
        value.put(&mut out);
        let bytes = out.into_bytes();
        let read: T = read_back(&value, &self.1).unwrap();
        assert_eq!(format!("{read:?}"), format!("{value:?}"));
        for len in 0..bytes.len() {
            let cut = T::take(&mut reader(&bytes[..len], &self.1));
            assert!(matches!(cut, Err(FormError::Short)), "{len} bytes of {value:?}: {cut:?}");
        }
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let words: String = format!("{value:?}").chars().take(70).collect();
        writeln!(self.0, "{words} = {hex}").unwrap();
    }

    fn all<T: Value + Debug>(&mut self, values: impl IntoIterator<Item = T>) {
        values.into_iter().for_each(|value| self.value(value));
    }

    fn refused<T: Value + Debug>(&mut self, bytes: &[u8]) {
        let refused = T::take(&mut reader(bytes, &self.1)).unwrap_err();
        let name = std::any::type_name::<T>().rsplit("::").next().unwrap();
        writeln!(self.0, "{name} {bytes:02x?}: {refused}").unwrap();
    }
}

fn plain(page: &mut Page) {
    for number in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), 1 << 63, u64::MAX] {
        page.value(number);
    }
    page.value(u16::MAX);
    page.value(u32::MAX);
    page.value(usize::MAX);
    page.value(0xfe_u8);
    page.value((true, false));
    page.value(vec![Some(1_u16), None]);
    page.value("grün".to_owned());
    page.value(Duration::new(u64::MAX, 999_999_999));
    page.value(Instant::from_nanos(77));
    page.value(NonZeroU16::MAX);
    page.value(Box::new([1_u8, 2, 3]));
    for addr in ["10.0.0.1:7", "[2001:db8::1]:8", "[fe80::1%9]:65535"] {
        page.value(addr.parse::<SocketAddr>().unwrap());
    }
    let v6 = std::net::SocketAddrV6::new("::1".parse().unwrap(), 5, 0x12345, 6);
    page.value(SocketAddr::from(v6));
    page.refused::<u64>(&[0xff; 11]);
    page.refused::<u64>(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]);
    page.refused::<u64>(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]);
    page.refused::<u16>(&[0x80, 0x80, 4]);
    page.refused::<u32>(&[0x80, 0x80, 0x80, 0x80, 0x10]);
    page.refused::<bool>(&[2]);
    page.refused::<Option<u8>>(&[2, 1]);
    page.refused::<Vec<u8>>(&[3, 1, 1]);
    page.refused::<String>(&[1, 0xff]);
    page.refused::<NonZeroU16>(&[0]);
    page.refused::<Duration>(&[1, 0x80, 0x94, 0xeb, 0xdc, 3]);
    page.refused::<IpAddr>(&[5, 1, 1, 1, 1]);
    page.refused::<IpAddr>(&[4, 1, 1, 1]);
}

fn enums(page: &mut Page) {
    page.all([TraceKeep::All, TraceKeep::Newest, TraceKeep::Changes]);
    page.all([Codepoint::NotEct, Codepoint::Ect1, Codepoint::Ect0, Codepoint::Ce]);
    let unreachable = [Unreachable::Network, Unreachable::Host, Unreachable::Prohibited];
    page.all(unreachable.map(Decision::Unreachable));
    page.all([Decision::Accept, Decision::Reset, Decision::Drop]);
    page.all(IdlePolicy::ALL.map(|(_, policy)| policy));
    page.all([Arithmetic::Fine, Arithmetic::Ticks, Arithmetic::BsdTicks, Arithmetic::Bsd43]);
    page.all([Backoff::None, Backoff::Doubling, Backoff::Bsd43]);
    page.all([DeviationFloor::Term, DeviationFloor::Deviation]);
    page.all([Sampling::EverySegment, Sampling::OncePerFlight]);
    let partial = ChecksumState::Partial(ChecksumAt { start: 300, offset: 16 });
    page.all([ChecksumState::Complete, partial, ChecksumState::Verified]);
    page.all(Recovery::ALL.map(|(_, policy)| policy));
    page.all(Ecn::ALL.map(|(_, form)| form));
    page.all(SenderEstimatorKind::ALL.map(|(_, kind)| kind));
    page.all([Gain::ZERO, Gain::ONE, Gain::one_in(300)]);
    let tick = Duration::from_millis(200);
    page.value(AckPolicy::EVERY_SECOND);
    page.value(AckPolicy::BSD_4_3);
    page.value(AckPolicy::EverySecondByTick { tick });
    for formula in [
        Formula::MeanDeviation { k: 5, adapt: true },
        Formula::SignedDeviation { k: 6, k_falling: 7 },
        Formula::Multiple { beta: 8 },
        Formula::Static,
    ] {
        page.value(formula);
    }
    for end in [JournalEnd::Closed, JournalEnd::Limit, JournalEnd::TooLong, JournalEnd::Keys] {
        page.value(end);
        writeln!(page.0, "{end}").unwrap();
    }
    writeln!(page.0, "{}", JournalEnd::Failed(io::ErrorKind::StorageFull)).unwrap();
    page.refused::<TraceKeep>(&[3]);
    page.refused::<Codepoint>(&[4]);
    page.refused::<Decision>(&[6]);
    page.refused::<ChecksumState>(&[3]);
    page.refused::<Formula>(&[4]);
    page.refused::<AckPolicy>(&[3]);
    page.refused::<JournalEnd>(&[4]);
    page.refused::<Recovery>(b"\x04tack");
    page.refused::<Ecn>(b"\x02on");
    page.refused::<SenderEstimatorKind>(b"\x03abc");
}

/// Settings that differ from the defaults in every field.
fn tcp() -> TcpConfig {
    let seconds = Duration::from_secs;
    TcpConfig {
        profile: "tahoe-1988",
        congestion: Registry::builtin().find("vegas:alpha=2,beta=5,gamma=2").unwrap(),
        choices: Choices {
            recovery: Recovery::Tahoe,
            rto: RtoConfig {
                srtt_gain: Gain::one_in(3),
                rttvar_gain: Gain::one_in(5),
                formula: Formula::SignedDeviation { k: 3, k_falling: 2 },
                arithmetic: Arithmetic::Ticks,
                initial: seconds(3),
                rto_min: seconds(2),
                rto_max: seconds(63),
                granularity: Duration::from_millis(500),
                deviation_floor: DeviationFloor::Deviation,
                heartbeat: true,
                sampling: Sampling::OncePerFlight,
                backoff: Backoff::None,
            },
            start_up: Some(SenderEstimatorKind::PacketPair),
            undo: UndoChoice { timestamps: false, dsack: false, frto: true, min_rtt_quarters: Some(3) },
            idle: IdlePolicy::OneSegment,
            pacing: false,
            initial_window_segments: 4,
            acks: AckPolicy::BSD_4_3,
            ecn: Ecn::Accurate,
            sack: false,
            timestamps: false,
            window_scaling: false,
            receiver_bandwidth: Some(12),
        },
        pacing_rate_max: Some(1_000_001),
        experiment: Some(Experiment { id: 0xf989_0001, value: [1, 2, 3, 4, 5, 6, 7, 8] }),
        trace: Some(TraceConfig { records: 777, keep: TraceKeep::Newest }),
        nodelay: true,
        keepalive: Some(Keepalive { idle: seconds(11), interval: seconds(12), probes: 13 }),
        user_timeout: Some(seconds(14)),
        idle_timeout: Some(seconds(20)),
        mtu_probing: Some(Box::new(MtuProbing { least: 600, raise_after: seconds(15) })),
        user_timeout_option: Some(Box::new(UserTimeoutOption {
            least: seconds(16),
            most: seconds(17),
            changeable: false,
        })),
        send_buffer_max: 18_000,
        receive_buffer_max: 19_000,
        receive_buffer_initial: 20_000,
        mss_max: Some(1200),
        ttl: 21,
        dscp: 22,
        time_wait: seconds(23),
        fin_wait_2_max: seconds(24),
    }
}

fn endpoint() -> EndpointConfig {
    let addr = |text: &str| text.parse::<IpAddr>().unwrap();
    EndpointConfig {
        addresses: vec![addr("10.0.0.1"), addr("2001:db8::1")],
        transparent: true,
        mtu: 9000,
        broadcast: vec![addr("10.0.0.255")],
        secret: [9; 32],
        connections_max: 1001,
        listeners_max: 1002,
        orphans_max: 1003,
        time_wait_max: 1004,
        memory_budget: 1005,
        keep_bytes: true,
        histograms: true,
        ephemeral_ports: (1006, 1007),
        timer_granularity: Duration::from_micros(1008),
        flow_labels: false,
        header_prediction: false,
        other_packets: 1009,
        echo_replies_per_second: 1010,
        pings: PingPolicy::Deferred,
        pings_max: 1015,
        port_unreachable: false,
        reassembly: Some(Box::new(ReassemblyConfig {
            bytes_max: 1011,
            packets_max: 1012,
            fragments_max: 1013,
            timeout: Duration::from_secs(1014),
        })),
        shaping: Some(Shaping::new(1018).burst(1019)),
        path_cache: Some(Box::new(PathCacheConfig { paths_max: 1016, age_max: Duration::from_secs(1017) })),
        tell_changes: true,
        tcp: tcp().into(),
        shard: None,
    }
}

fn settings(page: &mut Page) {
    let addr = |text: &str| text.parse::<IpAddr>().unwrap();
    page.value(tcp());
    page.value(endpoint());
    let listen = ListenAddr { addr: Some(addr("::1")), port: Some(80) };
    page.value(ListenOptions {
        addr: listen,
        backlog: 1,
        syn_backlog: 2,
        decisions_max: 3,
        deferred: true,
        reuse_address: false,
        reuse_port: true,
        fast_open_max: 4,
        tcp: Some(TcpConfig::default()),
    });
    let sharing = Sharing { reuse_address: true, reuse_port: false };
    page.value(BindOptions { addr: Some(addr("10.0.0.1")), port: 5, sharing });
    let network: Cidr = "10.0.0.0/8".parse().unwrap();
    page.value(Route::new(network, Egress { link: 2, mtu: 1300 }));
    page.value(LocalAddress { address: network, deprecated: true });
    page.value(Route::new(network, addr("10.0.0.2")));
    let (receive_buffer_max, send_buffer_max) = (1, 2);
    page.value(UdpOptions {
        addr: listen,
        receive_buffer_max,
        send_buffer_max,
        ttl: Some(3),
        traffic_class: 4,
        fragments: true,
    });
    page.value(Limits { gso_max_v4: 1, gso_max_v6: 2, tx_checksum: true });
    page.value(RxMeta { checksum: ChecksumState::Verified, segment_size: NonZeroU16::new(1400) });
    page.value(ConnectionId::from_number(2 << 32 | 1));
    page.value(ListenerId::from_number(4 << 32 | 3));
    page.value(IncomingId::from_number(6 << 32 | 5));
    page.value(BoundId::from_number(8 << 16 | 7));
    page.value(UdpId::from_number(9));
    page.value(JournalHeader {
        program: "p".to_owned(),
        epoch_unix_nanos: Some(10),
        start: Instant::from_nanos(11),
        config: EndpointConfig::new(Vec::new(), [1; 32]),
    });
    let meta = RxMeta { checksum: ChecksumState::Complete, segment_size: None };
    page.value(Received { head: vec![1, 2, 3], payload_len: 65_535, meta, in_block: true });
    page.refused::<Received>(&[1, 7, 0x80, 0x80, 4, 0, 0, 0]);
    for (least, most) in [(0, 5), (6, 5)] {
        let ports = EndpointConfig { ephemeral_ports: (least, most), ..endpoint() };
        assert!(matches!(read_back(&ports, &page.1), Err(FormError::Number)));
    }
    let same = EndpointConfig { ephemeral_ports: (5, 5), ..endpoint() };
    assert_eq!(read_back(&same, &page.1).unwrap().ephemeral_ports, (5, 5));
    for (mtu, fits) in [(67, false), (68, true), (65_535, true), (65_536, false)] {
        let read = read_back(&EndpointConfig { mtu, ..endpoint() }, &page.1);
        assert_eq!(read.is_ok(), fits, "{mtu}");
    }
    let read = read_back(&EndpointConfig { keep_bytes: false, ..endpoint() }, &page.1).unwrap();
    assert!(read.keep_bytes && read.shard.is_none());
    // Whatever its form, every field of it is written.
    let (mut bytes, mut again) = (Writer::default(), Writer::default());
    endpoint().put(&mut bytes);
    read_back(&endpoint(), &page.1).unwrap().put(&mut again);
    assert_eq!(bytes.bytes(), again.bytes());
}

/// A change of these bytes needs a new version in the file's first bytes.
#[test]
fn values_are_written_as_version_1_says() {
    let mut page = Page(String::new(), Registry::builtin());
    for part in [plain, enums, settings] {
        part(&mut page);
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/values.txt");
    ackclock_test_support::snapshot::compare(path, &page.0);
}

#[test]
fn settings_are_shown_without_their_secret() {
    let shown = format!("{:?}", endpoint());
    for word in
        ["10.0.0.1", "mtu: 9000", "connections_max: 1001", "memory_budget: 1005", "(1006, 1007)", "tahoe"]
    {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    assert!(shown.starts_with("EndpointConfig {") && !shown.contains("9, 9, 9"), "{shown}");
}

#[test]
fn outcomes_are_told_apart() {
    let id = ConnectionId::from_number(3 << 32 | 5);
    let of_id = Some(3 << 32 | 5);
    assert_eq!(().code(), None);
    assert_eq!((true.code(), false.code()), (Some(1), Some(0)));
    assert_eq!(
        (7_usize.code(), 8_u64.code(), Bytes::from_static(b"abc").code()),
        (Some(7), Some(8), Some(3))
    );
    assert_eq!(
        (id.code(), <&ConnectionId as ResultCode>::code(&&id), (id, 4_usize).code()),
        (of_id, of_id, of_id)
    );
    assert_eq!((id, Some(IncomingId::from_number(9 << 32 | 9))).code(), of_id);
    assert_eq!(ListenerId::from_number(3 << 32 | 5).code(), of_id);
    assert_eq!(IncomingId::from_number(3 << 32 | 5).code(), of_id);
    assert_eq!(BoundId::from_number(2 << 16 | 80).code(), Some(2 << 16 | 80));
    assert_eq!(UdpId::from_number(6).code(), Some(6));
    assert_eq!(OtherPacket::new(vec![1, 2]).code(), Some(2));
    assert_eq!(Event::Pings.code(), Some(0));
    assert_eq!((9_u64, Instant::ZERO).code(), Some(9));
    assert_eq!((ConnectionError::Reset.code(), IcmpError::Host.code()), (Some(1), Some(1)));
    assert_eq!((Some(7_u64).code(), None::<u64>.code(), Some(()).code()), (Some(8), Some(0), Some(1)));
    let (good, bad): (Result<u64, ()>, Result<u64, ()>) = (Ok(7), Err(()));
    assert_eq!((good.code(), bad.code()), (Some(8), Some(0)));
    let (listener, incoming) = (ListenerId::from_number(8 << 32 | 8), IncomingId::from_number(3 << 32 | 5));
    for event in [
        Event::Acceptable(ListenerId::from_number(3 << 32 | 5)),
        Event::Incoming(listener, incoming),
        Event::IncomingGone(listener, incoming),
    ] {
        assert_eq!(event.code(), of_id, "{event:?}");
    }
    assert_eq!((Event::OtherPackets.code(), Event::OtherRoom.code()), (Some(0), Some(0)));
}

/// Gives a byte at a time, is interrupted before each, and fails at a byte.
struct Choppy<'a> {
    rest: &'a [u8],
    interrupted: bool,
    fails_after: usize,
}

impl Read for Choppy<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.interrupted = !self.interrupted;
        if self.interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let Some((&first, rest)) = self.rest.split_first() else { return Ok(0) };
        if self.fails_after == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        (self.fails_after, self.rest, buf[0]) = (self.fails_after - 1, rest, first);
        Ok(1)
    }
}

#[test]
fn a_reader_may_be_slow_and_interrupted_but_not_fail() {
    let file = Transfer::run(4_000, 1_000, u64::MAX).file;
    let whole = replay(&file, Changes::default());
    let mut blocks = vec![16];
    while let Some(&at) = blocks.last()
        && at < file.len()
    {
        blocks.push(at + HEAD + u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize);
    }
    for fails_after in [0, 15, 16, 20, 31, 32, 100, blocks[1] - 1, blocks[1], file.len() - 1, file.len()] {
        let reader = Choppy { rest: &file, interrupted: false, fails_after };
        let damage = match Replay::open(reader, &Registry::builtin(), Changes::default()) {
            Err(crate::ReplayError::Damage(damage)) => Some(damage),
            Err(other) => panic!("{other}"),
            Ok(mut replay) => loop {
                match replay.step(|_, _| ()) {
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        assert_eq!((replay.calls(), replay.end()), (whole.calls, whole.end));
                        break None;
                    }
                    Err(damage) => break Some(damage),
                }
            },
        };
        let block = blocks.iter().rev().find(|&&block| block <= fails_after).copied().unwrap_or(0);
        match damage {
            None => assert_eq!(fails_after, file.len()),
            Some(damage) => {
                assert!(matches!(damage.kind, DamageKind::Read(_)), "{damage}");
                assert_eq!(damage.offset, block as u64, "{fails_after}: {damage}");
            }
        }
    }
}

/// A record that sends another program's packet, of this many bytes in all.
fn long_call(len: usize) -> Call {
    let meta = RxMeta { checksum: ChecksumState::Verified, segment_size: None };
    let size = |bytes: usize| {
        let mut record = Writer::default();
        Call::SendOther { bytes: vec![0; bytes], meta }.put(&mut record);
        record.len()
    };
    let over = size(len) - len;
    let bytes = (len - over..=len).find(|&bytes| size(bytes) == len).unwrap();
    Call::SendOther { bytes: vec![0; bytes], meta }
}

#[test]
fn longest_block_is_read_and_a_longer_one_is_not() {
    let file = File::new();
    drop(recorded(&header("10.0.0.1"), &file, u64::MAX));
    let mut begun = file.bytes();
    begun.truncate(32 + u32::from_le_bytes(begun[16..20].try_into().unwrap()) as usize);
    for (content, damaged) in [(CONTENT_MAX, false), (CONTENT_MAX + 1, true)] {
        let mut block = Writer::default();
        block.extend_from_slice(&[0; HEAD]);
        let record = content - 4;
        record.put(&mut block);
        long_call(record).put(&mut block);
        assert_eq!(block.len(), HEAD + content);
        let mut block = block.into_bytes();
        seal(&mut block, 1);
        let replayed = replay(&[&begun[..], &block].concat(), Changes::default());
        assert_eq!(matches!(replayed.damage, Some(DamageKind::Checksum)), damaged);
        assert_eq!(replayed.calls, u64::from(!damaged));
        let replayed = replay(&[&begun[..], &block[..HEAD + 1]].concat(), Changes::default());
        assert!(matches!(replayed.damage, Some(DamageKind::Torn | DamageKind::Checksum)));
    }
}

#[test]
fn a_call_of_half_a_block_is_recorded_and_a_longer_one_ends_the_recording() {
    for (extra, ended) in [(0, None), (1, Some(JournalEnd::TooLong))] {
        let (file, header) = (File::new(), header("10.0.0.1"));
        let mut journal = Journal::begin(Box::new(file.clone()), &header, u64::MAX).unwrap();
        journal.call(header.start, &Call::Timeout);
        journal.call(header.start, &long_call(CONTENT_MAX / 2 + extra));
        assert_eq!(journal.ended(), ended);
        assert_eq!((journal.bytes(), journal.calls()), (file.bytes().len() as u64, 2));
        journal.call(header.start, &Call::Timeout);
        assert_eq!(journal.calls(), 2 + u64::from(ended.is_none()));
        journal.flush();
        journal.end(JournalEnd::Keys);
        journal.end(JournalEnd::Limit);
        let end = ended.unwrap_or(JournalEnd::Keys);
        assert_eq!(journal.ended(), Some(end));
        let shown = format!("{journal:?}");
        assert!(
            shown.contains(&format!("bytes: {}", file.bytes().len())) && shown.contains("end: Some("),
            "{shown}"
        );
        drop(journal);
        let replayed = replay(&file.bytes(), Changes::default());
        assert_eq!(replayed.end, Some(end));
        assert_eq!(replayed.calls, if extra == 0 { 3 } else { 1 });
    }
}

#[test]
fn a_block_is_written_when_it_is_full_and_not_before() {
    for (short, written) in [(0, true), (1, false)] {
        let (file, header) = (File::new(), header("10.0.0.1"));
        let mut journal = Journal::begin(Box::new(file.clone()), &header, u64::MAX).unwrap();
        let begun = file.bytes().len();
        assert_eq!(journal.bytes(), begun as u64);
        journal.flush();
        assert_eq!(file.bytes().len(), begun, "there is nothing to write");
        journal.call(header.start, &long_call(Journal::BLOCK - HEAD - 3 - short));
        assert_eq!(file.bytes().len(), if written { begun + Journal::BLOCK } else { begun });
        assert_eq!(journal.last(), header.start);
    }
}

#[test]
fn the_limit_leaves_room_for_the_end() {
    let (file, header) = (File::new(), header("10.0.0.1"));
    drop(Journal::begin(Box::new(file.clone()), &header, u64::MAX).unwrap());
    let begun = 32 + u64::from(u32::from_le_bytes(file.bytes()[16..20].try_into().unwrap()));
    for (limit, fits) in [(begun + 64, true), (begun + 63, false)] {
        let file = File::new();
        match Journal::begin(Box::new(file.clone()), &header, limit) {
            Ok(journal) => assert!(fits && journal.bytes() == begun),
            Err(error) => assert!(!fits && error.kind() == io::ErrorKind::FileTooLarge, "{error}"),
        }
        assert!(file.bytes().len() as u64 <= limit);
    }
}
