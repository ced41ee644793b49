//! Changes that a replay makes, and the fields of a packet that it needs for them.

use ackclock_wire::{ControlSegment, Fields, Flags, FlowLabel, HEADER_MAX, SeqNum, write_control};

use super::*;
use ackclock_core::{BindOptions, Sharing};

/// The settings of a connection come with it, with its listener, or later; each of them is changed.
#[test]
fn another_profile_is_that_of_every_call_with_settings() {
    let (client, server) = (header("10.0.0.1"), header("10.0.0.22"));
    let now = client.start;
    let to = SocketAddr::new("10.0.0.22".parse().unwrap(), 7);
    let left = |end: &mut RecordedEndpoint| {
        let packet = end.poll_transmit(now, LIMITS)?;
        Some(packet.to_vec())
    };
    let mut syn = recorded(&client, &File::new(), u64::MAX);
    syn.connect(now, to, (None, 0), None).unwrap();
    let syn = left(&mut syn).unwrap();
    type Way = fn(&mut RecordedEndpoint, Instant, SocketAddr);
    let ways: [Way; 5] = [
        |end, now, to| {
            end.connect(now, to, (None, 0), Some(TcpConfig::default())).unwrap();
        },
        |end, now, to| {
            end.connect_with_data(now, to, (None, 0), Some(TcpConfig::default()), b"data").unwrap();
        },
        |end, now, _| {
            end.listen(now, with_settings()).unwrap();
        },
        |end, now, _| {
            let bound =
                end.bind(now, BindOptions { addr: None, port: 7, sharing: Sharing::default() }).unwrap();
            end.listen_bound(now, bound, with_settings()).unwrap();
        },
        |end, now, _| {
            let listener = end.listen(now, ListenOptions { tcp: None, ..with_settings() }).unwrap();
            assert!(end.set_listener_tcp(listener, TcpConfig::default()));
        },
    ];
    for (number, way) in ways.iter().enumerate() {
        let file = File::new();
        let is_client = number < 2;
        let mut end = recorded(if is_client { &client } else { &server }, &file, u64::MAX);
        way(&mut end, now, to);
        if !is_client {
            let meta = RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
            end.handle_packet(now, &syn, meta);
        }
        left(&mut end).unwrap();
        drop(end);
        assert_eq!(replay(&file.bytes(), Changes::default()).departures, [], "way {number}");
        let profile = Some(Profile::find("tahoe-1988").unwrap());
        let replayed = replay(&file.bytes(), Changes { profile, trace: None });
        let [departure] = &replayed.departures[..] else { panic!("way {number}: {:?}", replayed.departures) };
        assert_eq!(replayed.count, 1);
        assert_eq!(departure.connection.map(|tuple| tuple.remote().port() == 7), Some(is_client));
    }
}

fn with_settings() -> ListenOptions {
    let options = ListenOptions::new(ListenAddr { addr: None, port: Some(7) });
    ListenOptions { tcp: Some(TcpConfig::default()), ..options }
}

/// A packet without its payload has no checksum to verify. It was verified before it was recorded.
#[test]
fn payload_of_a_whole_packet_is_left_out_and_its_checksum_taken_as_verified() {
    let addr = |last| SocketAddr::new([10, 0, 0, last].into(), 7);
    let fields = Fields { seq: SeqNum::new(1), flags: Flags::ACK, ..Fields::default() };
    let (src, dst, flow_label) = (addr(1), addr(2), FlowLabel::NONE);
    let mut header = [0; HEADER_MAX];
    let segment = ControlSegment { src, dst, ttl: 64, traffic_class: 0, flow_label, fields };
    let len = write_control(&mut header, &segment);
    let mut packet = [&header[..len], b"text"].concat();
    // Four bytes more, in the header of IP and in its checksum.
    packet[3] += 4;
    let sum = u16::from_be_bytes([packet[10], packet[11]]) - 4;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let meta = |checksum| RxMeta { checksum, segment_size: None };
    let verified = meta(ChecksumState::Verified);
    let kept = Received::new(&packet, verified, false);
    assert_eq!((kept.head.len(), kept.payload_len, kept.packet().1), (len, 4, verified));
    let complete = Received { meta: meta(ChecksumState::Complete), ..kept };
    assert_eq!(complete.packet().1, verified);
    let padded = [&packet[..], &[0; 2]].concat();
    assert_eq!(Received::new(&padded, verified, false).packet(), (padded, verified), "it is kept whole");
    let bare = Received::new(&header[..len], meta(ChecksumState::Complete), false);
    assert_eq!(bare.packet(), (header[..len].to_vec(), meta(ChecksumState::Complete)));
}

#[cfg(feature = "tcp-ao")]
#[test]
fn key_that_is_not_there_cannot_be_asked_for() {
    let header = header("10.0.0.1");
    let mut end = recorded(&header, &File::new(), u64::MAX);
    let to = SocketAddr::new("10.0.0.22".parse().unwrap(), 7);
    let id = end.connect(header.start, to, (None, 0), None).unwrap();
    assert!(!end.request_key(id, 1));
}
