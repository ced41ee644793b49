//! Goal: the segments that an acknowledgement covers are counted in both directions.

use super::*;

/// Trains of these numbers of segments, each acknowledged as a whole.
fn trains(segment: Option<u32>, trains: &[u32]) -> TracedSource {
    let mut entries = vec![(at(0), acked(1))];
    entries.extend(segment.map(|bytes| (at(0), Entry::SegmentSize { bytes })));
    let mut next = 1;
    for (now, segments) in (1..).zip(trains) {
        entries.push((at(now), sent(SendReason::NewData, next, 1000 * segments)));
        next += 1000 * segments;
        entries.push((at(now), acked(next)));
    }
    traced("cubic", &[], &entries)
}

#[test]
fn acknowledgements_cover_segments_also_where_trains_left() {
    let covered = [2; 18].into_iter().chain([3, 7]).collect::<Vec<_>>();
    let acks = account(&trains(Some(1000), &covered)).acks;
    assert_eq!(acks.peer, PeerAcks { acks: 20, segments: 46, most: 7, stretched: 2 });
    assert_eq!(acks.covered(), Some(2.3));
    let said = sentence(&trains(Some(1000), &covered), "segments on average");
    assert!(
        said.contains("covered 2.3 segments on average, 7 at most; 10.0 % covered more than 2."),
        "{said}"
    );
    // Old traces lack its entry: the most common size counts.
    assert_eq!(account(&trains(None, &[1; 30])).acks.covered(), Some(1.0));
    assert_eq!(account(&trains(Some(1000), &[1; 19])).acks.covered(), None, "too few");
}

#[test]
fn few_among_many_are_counted_where_a_share_would_be_nothing() {
    let mut covered = vec![1; 4000];
    covered[7] = 3;
    let said = sentence(&trains(Some(1000), &covered), "segments on average");
    assert!(said.contains("1 of 4000 covered more than 2"), "{said}");
}

#[test]
fn acknowledgement_that_fills_a_gap_is_left_out() {
    let mut entries = vec![(at(0), acked(1)), (at(0), Entry::SegmentSize { bytes: 1000 })];
    entries.extend((0..10).map(|place| (at(1), sent(SendReason::NewData, 1 + 1000 * place, 1000))));
    entries.push((at(2), Entry::Acked { duplicate: true, ack: 1, window: 9 }));
    entries.push((at(2), Entry::Sacked { left: 1001, right: 10_001 }));
    entries.push((at(3), acked(10_001)));
    entries.push((at(4), sent(SendReason::NewData, 10_001, 1000)));
    entries.push((at(5), acked(11_001)));
    let peer = account(&traced("cubic", &[], &entries)).acks.peer;
    assert_eq!(peer, PeerAcks { acks: 1, segments: 1, most: 1, stretched: 0 });
}

#[test]
fn receivers_policy_shows_at_both_ends() {
    let means = |acks: &str| {
        let peer = TcpSettings::default().choose("acks", acks).traced();
        let sources = transfer(1_000_000, TcpSettings::default().traced(), peer, [path(), path()]);
        let accounts: Vec<Account> = sources.iter().map(account).collect();
        let [sender, receiver] = accounts.as_slice() else { panic!("{} ends", accounts.len()) };
        (sender.acks.covered().expect("many"), receiver.acks.answered().expect("many"), sender.acks)
    };
    let (covered, answered, acks) = means("every-second");
    assert!((1.8..=2.0).contains(&covered) && (1.8..=2.1).contains(&answered), "{covered} {answered}");
    assert_eq!((acks.peer.stretched, acks.segment_bytes), (0, 1448));
    let (covered, answered, acks) = means("window-share:10,20ms");
    assert!((3.0..=60.0).contains(&covered) && (3.0..=60.0).contains(&answered), "{covered} {answered}");
    assert!(acks.peer.stretched * 2 > acks.peer.acks, "{acks:?}");
}
