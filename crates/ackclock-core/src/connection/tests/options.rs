//! A connection reports its settings.

use super::*;
use crate::Keepalive;
use crate::profile::UndoChoice;

#[test]
fn settings_are_reported_as_they_were_set() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    let end = &mut pair.ends[0];
    assert_eq!((end.quickack(), end.dscp()), (false, 0));
    end.set_quickack(true);
    end.set_dscp(46).unwrap();
    assert_eq!((end.quickack(), end.dscp()), (true, 46));
    assert!(end.set_dscp(64).is_err());
    assert_eq!(end.dscp(), 46);
    end.set_dscp(63).unwrap();
    assert_eq!(end.dscp(), 63);
    assert!(end.set_ttl(0).is_err());
    end.set_ttl(7).unwrap();
    end.set_undo(UndoChoice::OFF);
    assert_eq!((end.ttl(), end.tcp.choices.undo), (7, UndoChoice::OFF));
    end.set_undo(UndoChoice::ALL);
    assert_eq!(end.tcp.choices.undo, UndoChoice::ALL);
}

#[test]
fn connection_is_closed_for_writing_once_it_is_shut_down() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    assert!(!pair.ends[0].is_write_closed());
    pair.ends[0].shutdown(pair.now).unwrap();
    pair.run_for(Duration::from_millis(100));
    assert_eq!([pair.ends[0].is_write_closed(), pair.ends[1].is_write_closed()], [true, false]);
}

/// RFC 9293 MUST-27: the interval is configurable; one of zero would never end.
#[test]
fn keepalive_needs_an_idle_time_an_interval_and_a_probe() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    let second = Duration::from_secs(1);
    for (idle, interval, probes, good) in [
        (second, second, 1, true),
        (Duration::ZERO, second, 1, false),
        (second, Duration::ZERO, 1, false),
        (second, second, 0, false),
    ] {
        let keepalive = Keepalive { idle, interval, probes };
        assert_eq!(pair.ends[0].set_keepalive(pair.now, Some(keepalive)).is_ok(), good, "{keepalive:?}");
    }
}
