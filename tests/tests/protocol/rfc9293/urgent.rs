//! Urgent data: RFC 9293 §3.8.5.

use ackclock_tests::script::{Script, Setup, pattern};
use ackclock_tests::segment::{ACK, URG, seg};

use super::nodelay;

// Tests: RFC 9293 MUST-30
// Tests: RFC 9293 MUST-32
// Tests: RFC 9293 MUST-33
// Tests: RFC 9293 MUST-62
#[test]
fn urgent_pointer_is_told_and_counts_down_as_data_is_read() {
    let mut s = Script::accepted(&Setup::default());
    s.readiness();
    // The pointer names the octet after the last urgent one (MUST-62): "abc" is urgent.
    s.peer(seg(ACK).seq(1).ack(1).urgent(3).data(b"abcdef"));
    assert!(s.readiness().urgent);
    assert_eq!(s.connection().urgent_remaining(), 3);
    assert_eq!(s.read(1), b"a");
    assert_eq!(s.connection().urgent_remaining(), 2);
    assert_eq!(s.read(10), b"bcdef", "the stream is whole");
    assert_eq!(s.connection().urgent_remaining(), 0);
    // It advances: told again. It stays: not told again.
    s.peer(seg(ACK).seq(7).ack(1).urgent(5).data(b"gh"));
    assert!(s.readiness().urgent);
    assert_eq!(s.connection().urgent_remaining(), 5);
    s.peer(seg(ACK).seq(9).ack(1).urgent(3).data(b"i"));
    assert!(!s.readiness().urgent);
    assert_eq!(s.read(10), b"ghi");
    assert_eq!(s.connection().urgent_remaining(), 2);
}

// Tests: RFC 9293 MUST-31
#[test]
fn urgent_run_may_be_longer_than_the_pointer_reaches() {
    let mut s = Script::accepted(&Setup::default());
    let end = 200_001_u32;
    let mut seq = 1;
    while seq < end {
        let len = (end - seq).min(1_000);
        let pointer = (end - seq).min(65_535) as u16;
        s.peer(seg(ACK).seq(seq).ack(1).urgent(pointer).data(&pattern(seq, len as usize)));
        let remaining = s.connection().urgent_remaining();
        assert_eq!(remaining, u32::from(pointer), "at {seq}");
        assert_eq!(s.read(1_000), pattern(seq, len as usize));
        s.take_sent();
        seq += len;
    }
    assert_eq!(s.connection().urgent_remaining(), 0);
}

// Tests: RFC 9293 MUST-62
#[test]
fn urgent_pointer_counts_from_the_segments_number_however_much_of_it_is_old() {
    let mut s = Script::accepted(&Setup::default());
    s.peer(seg(ACK).seq(1).ack(1).data(&pattern(1, 100)));
    s.read(100);
    s.readiness();
    // All of what is urgent has been read.
    s.peer(seg(ACK).seq(51).ack(1).urgent(50).data(&pattern(51, 50)));
    assert!(!s.readiness().urgent);
    assert_eq!(s.connection().urgent_remaining(), 0);
    // Half of the segment is old; the pointer is to 131.
    s.peer(seg(ACK).seq(51).ack(1).urgent(80).data(&pattern(51, 100)));
    assert!(s.readiness().urgent);
    assert_eq!(s.connection().urgent_remaining(), 30);
    assert_eq!(s.read(100), pattern(101, 50));
    assert_eq!(s.connection().urgent_remaining(), 0);
}

// Tests: RFC 9293 MUST-30
// Tests: RFC 9293 MUST-62
#[test]
fn urgent_write_points_after_its_last_byte() {
    let mut s = Script::accepted(&nodelay());
    let taken = s.update(|c, now| c.write_urgent(now, &pattern(1, 5)));
    assert_eq!(taken, Ok(5));
    let segment = s.expect_data(1, 5);
    assert!(segment.has(URG), "{segment:?}");
    assert_eq!(segment.seq + u32::from(segment.urgent), 6);
    s.peer_ack(1, 6);
    s.write(6, 5);
    let segment = s.expect_data(6, 5);
    assert!(!segment.has(URG) || segment.urgent == 0, "nothing is urgent any more: {segment:?}");
}

// Tests: RFC 9293 MUST-31
#[test]
fn urgent_mode_is_told_ahead_of_the_data() {
    let mut s = Script::accepted(&Setup { peer_window: 1_000, ..nodelay() });
    s.update(|c, now| c.write_urgent(now, &pattern(1, 100_000))).expect("room");
    let segment = s.sent();
    assert!(segment.has(URG), "{segment:?}");
    // Farther than 16 bits reach: as far as they do.
    assert_eq!(segment.urgent, 65_535);
}
