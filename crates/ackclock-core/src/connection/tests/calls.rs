//! The user's calls in the states where they mean something else.

use ackclock_wire::{Codepoint, Fields, Flags, IcmpKind};

use super::lone::{Lone, SECOND};
use super::*;
use crate::trace::{TraceConfig, TraceKeep};
use crate::{ConnectionError, IcmpError, ReadError, WriteError};

/// RFC 9293 §3.10.4, §3.10.5: CLOSED. A connection that ended normally has nothing left to close.
#[test]
fn calls_after_a_normal_end_change_nothing() {
    let mut lone = Lone::new(TcpConfig::default());
    lone.give(&lone.ack(lone.end.snd.flight().una().seq(), 65_535), Codepoint::NotEct, b"unread");
    lone.finish();
    lone.end.shutdown(lone.now).unwrap();
    lone.sent();
    lone.acknowledge_all(65_535);
    assert_eq!((lone.end.state(), lone.end.error()), (State::Closed, None));
    let before = format!("{:?}", lone.end);
    assert_eq!(lone.end.shutdown(lone.now), Ok(()));
    assert_eq!(format!("{:?}", lone.end), before);
    lone.end.set_orphaned(lone.now);
    assert_eq!(lone.end.readable(), 6, "what had arrived can still be read");
    lone.end.abort(lone.now);
    assert!(lone.sent().is_empty() && lone.end.error().is_none());
}

/// RFC 9293 §3.10.4: in SYN-SENT, CLOSE deletes the connection at once.
#[test]
fn released_in_syn_sent_it_is_gone() {
    let mut lone = Lone::opening(TcpConfig::default());
    assert_eq!(lone.end.shutdown(lone.now), Err(WriteError::NotConnected));
    lone.end.set_orphaned(lone.now);
    assert_eq!((lone.end.state(), lone.end.is_gone(), lone.end.error()), (State::Closed, true, None));
    assert_eq!((lone.end.read(lone.now, &mut [0]), lone.end.is_write_closed()), (Ok(0), true));
    let before = format!("{:?}", lone.end);
    assert_eq!(lone.end.shutdown(lone.now), Ok(()));
    assert_eq!(format!("{:?}", lone.end), before);
}

/// A peer that does not close has as long as the setting says, from the release on.
#[test]
fn released_in_fin_wait_2_it_waits_for_the_peer_a_bounded_time() {
    for released_first in [true, false] {
        let mut lone = Lone::new(TcpConfig { fin_wait_2_max: 7 * SECOND, ..TcpConfig::default() });
        lone.end.shutdown(lone.now).unwrap();
        lone.sent();
        if released_first {
            lone.end.set_orphaned(lone.now);
        }
        lone.now += SECOND;
        lone.acknowledge_all(65_535);
        assert_eq!(lone.end.state(), State::FinWait2);
        if !released_first {
            lone.now += 100 * SECOND;
            lone.end.handle_timeout(lone.now);
            lone.end.set_orphaned(lone.now);
        }
        let until = lone.now + 7 * SECOND;
        while lone.end.state() != State::Closed {
            lone.expire();
        }
        assert_eq!((lone.now, lone.end.error()), (until, None));
        assert_eq!(lone.end.read(lone.now, &mut [0]), Ok(0));
    }
}

/// RFC 9293 §3.10.5: ABORT in LAST-ACK sends nothing, unless the peer lacks data and would wait for it.
#[test]
fn abort_in_last_ack_resets_only_a_peer_that_lacks_data() {
    for (acked, reset) in [(10, false), (9, true)] {
        let mut lone = Lone::new(TcpConfig::default());
        lone.finish();
        let una = lone.end.snd.flight().una().seq();
        lone.end.write(lone.now, &[1; 10]).unwrap();
        lone.end.shutdown(lone.now).unwrap();
        assert_eq!(lone.sizes(), [10]);
        lone.give(&lone.ack(una + acked, 65_535), Codepoint::NotEct, &[]);
        assert_eq!(lone.end.state(), State::LastAck);
        lone.sent();
        lone.end.abort(lone.now);
        assert_eq!(!lone.sent().is_empty(), reset, "{acked} of 10 bytes acknowledged");
    }
}

/// RFC 9293 MUST-12: a reader can tell data that this end discards from the normal end of the stream.
#[test]
fn reader_learns_of_its_own_abort_even_behind_the_peers_fin() {
    let mut lone = Lone::new(TcpConfig::default());
    lone.give(&lone.ack(lone.end.snd.flight().una().seq(), 65_535), Codepoint::NotEct, b"unread");
    lone.finish();
    lone.end.abort(lone.now);
    let aborted = Err(ReadError::Connection(ConnectionError::Aborted));
    assert_eq!(lone.end.read(lone.now, &mut [0]), aborted);
    // A reset by the peer takes nothing back.
    let mut lone = Lone::new(TcpConfig::default());
    lone.finish();
    let fields = lone.ack(lone.end.snd.flight().nxt().seq(), 0);
    lone.give(&Fields { flags: Flags::RST, ..fields }, Codepoint::NotEct, &[]);
    assert_eq!(lone.end.error(), Some(ConnectionError::Reset));
    assert_eq!(lone.end.read(lone.now, &mut [0]), Ok(0));
}

/// RFC 9293 SHLD-26, MUST-56: hard errors end an opening, each with its reason. Soft ones do not, and
/// neither does one about what is not in flight (RFC 5927 §4.1).
#[test]
fn hard_error_of_icmp_ends_an_opening_with_its_reason() {
    for (kind, ahead, error) in [
        (IcmpKind::PortUnreachable, 0, Some(ConnectionError::Refused)),
        (IcmpKind::ProtocolUnreachable, 0, Some(ConnectionError::Unreachable(IcmpError::Protocol))),
        (IcmpKind::HostUnreachable, 0, None),
        (IcmpKind::PortUnreachable, 1, None),
        (IcmpKind::PortUnreachable, u32::MAX, None),
    ] {
        let mut lone = Lone::opening(TcpConfig::default());
        let seq = lone.end.snd.flight().una().seq() + ahead;
        lone.end.handle_icmp(lone.now, kind, seq);
        assert_eq!(lone.end.error(), error, "{kind:?}, {ahead} beyond SND.UNA");
        assert_eq!(lone.end.take_soft_error().is_some(), ahead == 0);
    }
}

/// RFC 9293 §3.10.7.4, second: when both FINs are exchanged, a reset takes nothing; while data is missing,
/// it does.
#[test]
fn reset_in_last_ack_is_an_error_while_data_is_missing() {
    for (acked, error) in [(10, None), (9, Some(ConnectionError::Reset))] {
        for closing in [false, true] {
            let mut lone = Lone::new(TcpConfig::default());
            if !closing {
                lone.finish();
            }
            let una = lone.end.snd.flight().una().seq();
            lone.end.write(lone.now, &[1; 10]).unwrap();
            lone.end.shutdown(lone.now).unwrap();
            lone.sent();
            let fin = Fields { flags: Flags::ACK | Flags::FIN, ..lone.ack(una + acked, 65_535) };
            let fields = if closing { fin } else { lone.ack(una + acked, 65_535) };
            lone.give(&fields, Codepoint::NotEct, &[]);
            assert_eq!(lone.end.state(), if closing { State::Closing } else { State::LastAck });
            let fields = lone.ack(una, 0);
            lone.give(&Fields { flags: Flags::RST, ..fields }, Codepoint::NotEct, &[]);
            assert_eq!((lone.end.state(), lone.end.error()), (State::Closed, error), "{acked}, {closing}");
        }
    }
}

/// RFC 9293 §3.10.7.4: in TIME-WAIT a repeated FIN, and only that, restarts the 2 MSL timer.
#[test]
fn repeated_fin_restarts_time_wait_and_repeated_data_does_not() {
    for (flags, seq, payload, restarts) in [
        (Flags::ACK | Flags::FIN, 5, &b""[..], true),
        (Flags::ACK | Flags::FIN, 4, b"t", true),
        (Flags::ACK | Flags::FIN, 4, b"", false),
        (Flags::ACK, 1, b"text", false),
    ] {
        let mut lone = Lone::new(TcpConfig::default());
        let first = lone.end.rcv.irs().seq();
        lone.give(&lone.ack(lone.end.snd.flight().una().seq(), 65_535), Codepoint::NotEct, b"text");
        lone.end.shutdown(lone.now).unwrap();
        lone.sent();
        lone.finish();
        lone.sent();
        assert_eq!(lone.end.state(), State::TimeWait);
        let time_wait = lone.end.time_wait_lasts();
        let began = lone.now;
        lone.now += SECOND;
        let fields = lone.ack(lone.end.snd.flight().nxt().seq(), 65_535);
        lone.give(&Fields { flags, seq: first + seq, ..fields }, Codepoint::NotEct, payload);
        let ends = if restarts { lone.now } else { began } + time_wait;
        assert_eq!(lone.end.poll_timeout(), Some(ends), "{flags:?} at {seq}");
    }
}

/// RFC 9293 §3.10.7.3: after the SYN, its text and its FIN are processed.
#[test]
fn text_and_fin_of_a_syn_ack_are_taken() {
    let mut lone = Lone::opening(TcpConfig::default());
    let ack = lone.end.snd.flight().nxt().seq();
    let flags = Flags::SYN | Flags::ACK | Flags::FIN;
    let fields = Fields { seq: SeqNum::new(1000), ack, flags, window: 1000, ..Fields::default() };
    lone.give(&fields, Codepoint::NotEct, b"text");
    assert_eq!((lone.end.state(), lone.end.readable()), (State::CloseWait, 4));
}

/// Memory is held since the first text that waits for a gap, whatever follows it.
#[test]
fn text_beyond_a_gap_waits_since_the_first_of_it() {
    let mut lone = Lone::new(TcpConfig::default());
    let mut fields = lone.ack(lone.end.snd.flight().una().seq(), 65_535);
    fields.seq += 10;
    let first = lone.now;
    lone.give(&fields, Codepoint::NotEct, b"text");
    lone.now += 3 * SECOND;
    fields.seq += 10;
    lone.give(&fields, Codepoint::NotEct, b"text");
    lone.now += 2 * SECOND;
    assert_eq!(lone.end.stalled_since(lone.now), Some(first));
}

#[test]
fn options_are_read_as_they_were_set() {
    let mut lone = Lone::new(TcpConfig::default());
    assert!(!lone.end.nodelay() && lone.end.trace_config().is_none());
    let newest = TraceConfig { records: 50, keep: TraceKeep::Newest };
    lone.end.set_nodelay(lone.now, true);
    lone.end.set_trace(lone.now, Some(newest));
    assert_eq!((lone.end.nodelay(), lone.end.trace_config()), (true, Some(newest)));
    lone.end.set_nodelay(lone.now, false);
    lone.end.set_trace(lone.now, None);
    assert_eq!((lone.end.nodelay(), lone.end.trace_config()), (false, None));
}
