//! What a connection reports of its settings.

use super::*;

#[test]
fn settings_are_reported_as_they_were_set() {
    let mut pair = Pair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    let end = &mut pair.ends[0];
    assert_eq!((end.quickack(), end.dscp()), (false, 0));
    end.set_quickack(true);
    end.set_dscp(46).unwrap();
    assert_eq!((end.quickack(), end.dscp()), (true, 46));
    assert!(end.set_dscp(64).is_err());
    assert_eq!(end.dscp(), 46);
}

#[test]
fn connection_is_closed_for_writing_once_it_is_shut_down() {
    let mut pair = Pair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    assert!(!pair.ends[0].is_write_closed());
    pair.ends[0].shutdown(pair.now).unwrap();
    pair.run_for(Duration::from_millis(100));
    assert_eq!([pair.ends[0].is_write_closed(), pair.ends[1].is_write_closed()], [true, false]);
}
