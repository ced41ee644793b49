use ackclock_wire::TcpOptions;

use super::*;

const MSL_2: Duration = Duration::from_secs(60);

fn tuple(port: u16) -> FourTuple {
    FourTuple::new("10.0.0.1:80".parse().unwrap(), ([10, 0, 0, 2], port).into())
}

const PLAIN: TimeWaitParams = TimeWaitParams {
    snd_nxt: SeqNum::new(7000),
    rcv_nxt: SeqNum::new(5),
    window: 1000,
    timestamps: None,
    label_changes: 0,
};

fn with_timestamps(recent: u32) -> TimeWaitParams {
    TimeWaitParams { timestamps: Some((recent, 0)), ..PLAIN }
}

fn insert(table: &mut TimeWaitTable, now: Instant, duration: Duration, port: u16) -> u32 {
    table.insert(now, duration, tuple(port), PLAIN)
}

fn segment(flags: Flags, seq: u32, payload: &[u8]) -> Segment<'_> {
    Segment {
        src_port: 1,
        dst_port: 80,
        seq: SeqNum::new(seq),
        ack: SeqNum::new(7000),
        flags,
        window: 1000,
        urgent: 0,
        options: TcpOptions::default(),
        payload,
    }
}

fn syn(seq: u32, timestamp: Option<u32>) -> Segment<'static> {
    let mut syn = segment(Flags::SYN, seq, &[]);
    syn.options.timestamps = timestamp.map(|value| (value, 0));
    syn
}

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

fn judge(last: TimeWaitParams, segment: &Segment<'_>) -> TimeWaitAction {
    let mut table = TimeWaitTable::new(8);
    let index = table.insert(at(0), MSL_2, tuple(1), last);
    table.judge(at(1), index, segment)
}

const REOPEN: TimeWaitAction = TimeWaitAction::Reopen { snd_nxt: SeqNum::new(7000) };

// Tests: RFC 9293 MUST-13
#[test]
fn a_record_lasts_for_its_duration() {
    let mut table = TimeWaitTable::new(8);
    let index = insert(&mut table, at(10), MSL_2, 1);
    assert_eq!(table.next_timeout(), Some(at(70)));
    assert_eq!(table.expired(Instant::from_nanos(at(70).as_nanos() - 1)), None);
    assert_eq!(table.expired(at(70)), Some(index));
}

#[test]
fn records_of_different_durations_expire_in_their_order() {
    let mut table = TimeWaitTable::new(99);
    for (n, seconds) in (0..).zip([60, 5, 30, 60, 5]) {
        insert(&mut table, at(u64::from(n)), Duration::from_secs(seconds), n);
    }
    let mut order = Vec::new();
    while let Some(now) = table.next_timeout() {
        let index = table.expired(now).unwrap();
        order.push((now.as_millis() / 1000, table.remove(index).unwrap().remote_port));
    }
    assert_eq!(order, [(6, 1), (9, 4), (32, 2), (60, 0), (63, 3)]);
    assert_eq!(table.len(), 0);
}

#[test]
fn a_ninth_duration_is_taken_for_the_next_longer() {
    let mut table = TimeWaitTable::new(99);
    for seconds in 1..=8 {
        insert(&mut table, at(0), Duration::from_secs(seconds * 10), 1);
    }
    let expires = |table: &mut TimeWaitTable, seconds| {
        let index = insert(table, at(0), Duration::from_secs(seconds), 2);
        table.records.at(index).unwrap().expires
    };
    assert_eq!(expires(&mut table, 15), at(20));
    assert_eq!(expires(&mut table, 100), at(80));
}

#[test]
fn sec_b11_a_full_table_recycles_the_record_that_would_expire_first() {
    let mut table = TimeWaitTable::new(3);
    for n in 0..10_000_u16 {
        if let Some(oldest) = table.surplus() {
            assert_eq!(table.remove(oldest).unwrap().remote_port, n - 3);
        }
        insert(&mut table, at(u64::from(n)), MSL_2, n);
        assert!(table.len() <= 3);
    }
}

#[test]
fn sec_c17_a_reset_does_not_end_time_wait() {
    for seq in [5, 6, 1004, 1005, 4, 1 << 31] {
        for flags in [Flags::RST, Flags::RST | Flags::ACK, Flags::RST | Flags::SYN] {
            assert_eq!(judge(PLAIN, &segment(flags, seq, &[])), TimeWaitAction::Drop, "{flags:?} {seq}");
        }
    }
}

#[test]
fn sec_c17_old_data_is_acknowledged_again_and_the_timer_kept() {
    let mut table = TimeWaitTable::new(8);
    let index = insert(&mut table, at(0), MSL_2, 1);
    let old = segment(Flags::ACK, u32::MAX - 100, &[0; 50]);
    let answers =
        (0..10).filter(|&n| table.judge(Instant::from_millis(n), index, &old) == TimeWaitAction::Acknowledge);
    assert_eq!(answers.count(), 1);
    assert_eq!(table.next_timeout(), Some(at(60)));
}

#[test]
fn the_peers_fin_is_acknowledged_each_time_and_starts_the_wait_anew() {
    let mut table = TimeWaitTable::new(8);
    let index = insert(&mut table, at(0), MSL_2, 1);
    let fin = segment(Flags::FIN | Flags::ACK, 4, &[]);
    for second in [1, 2, 3] {
        assert_eq!(table.judge(at(second), index, &fin), TimeWaitAction::Acknowledge);
    }
    assert_eq!(table.next_timeout(), Some(at(63)));
    let with_data = segment(Flags::FIN | Flags::ACK, 2, &[1, 2]);
    assert_eq!(table.judge(at(4), index, &with_data), TimeWaitAction::Acknowledge);
}

// RFC 7323 §5.3 R1: a segment with an older timestamp is acknowledged, and means nothing else.
#[test]
fn a_fin_with_an_older_timestamp_does_not_restart_the_wait() {
    for (value, until) in [(99, 60), (100, 61), (101, 61)] {
        let mut table = TimeWaitTable::new(8);
        let index = table.insert(at(0), MSL_2, tuple(1), with_timestamps(100));
        let mut fin = segment(Flags::FIN | Flags::ACK, 4, &[]);
        fin.options.timestamps = Some((value, 0));
        assert_eq!(table.judge(at(1), index, &fin), TimeWaitAction::Acknowledge, "{value}");
        assert_eq!(table.next_timeout(), Some(at(until)), "{value}");
    }
}

#[test]
fn an_acceptable_acknowledgement_has_no_answer() {
    assert_eq!(judge(PLAIN, &segment(Flags::ACK, 5, &[])), TimeWaitAction::Drop);
}

// Tests: RFC 9293 MAY-2
#[test]
fn a_syn_above_the_last_sequence_number_reopens() {
    assert_eq!(judge(PLAIN, &syn(6, None)), REOPEN);
    assert_eq!(judge(PLAIN, &syn(5, None)), TimeWaitAction::Acknowledge);
    assert_eq!(judge(PLAIN, &syn(u32::MAX, None)), TimeWaitAction::Acknowledge);
}

// Tests: RFC 9293 SHLD-4
#[test]
fn a_syn_with_a_newer_timestamp_reopens_at_any_sequence_number() {
    for seq in [6, 5, u32::MAX, 1 << 31] {
        assert_eq!(judge(with_timestamps(100), &syn(seq, Some(101))), REOPEN, "{seq}");
        assert_eq!(judge(with_timestamps(100), &syn(seq, Some(99))), TimeWaitAction::Acknowledge, "{seq}");
        assert_eq!(judge(PLAIN, &syn(seq, Some(1))), REOPEN, "{seq}: only the new one has timestamps");
    }
    assert_eq!(judge(with_timestamps(100), &syn(6, Some(100))), REOPEN);
    assert_eq!(judge(with_timestamps(100), &syn(4, Some(100))), TimeWaitAction::Acknowledge);
    assert_eq!(judge(with_timestamps(100), &syn(6, None)), REOPEN);
    assert_eq!(judge(with_timestamps(100), &syn(4, None)), TimeWaitAction::Acknowledge);
}

#[test]
fn sec_c15_a_syn_with_other_control_bits_never_reopens() {
    for other in [Flags::ACK, Flags::FIN, Flags::RST] {
        assert_ne!(judge(PLAIN, &segment(Flags::SYN | other, 6, &[])), REOPEN, "{other:?}");
    }
}
