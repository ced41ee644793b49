//! Writing and receiving while the memory budget is spent.

use ackclock_wire::Codepoint;
use bytes::Bytes;

use super::lone::{Lone, SECOND};
use super::*;
use crate::WriteError;
use crate::budget::Lease;
use crate::trace::Limit;

/// Leaves `bytes` of the connection's budget to it.
fn leave(lone: &Lone, bytes: usize) -> Lease {
    let budget = lone.end.snd.budget();
    budget.try_lease(budget.limit() - budget.used() - bytes).expect("the budget is not spent")
}

/// A connection with a block for what arrives, and no memory for what it writes.
fn refused() -> (Lone, Lease) {
    let mut lone = Lone::new(TcpConfig::default());
    lone.give(&lone.ack(lone.end.snd.flight().una().seq(), 65_535), Codepoint::NotEct, b"first");
    assert_eq!(lone.end.read(lone.now, &mut [0; 8]), Ok(5));
    lone.sent();
    lone.end.take_readiness();
    let hog = leave(&lone, 0);
    (lone, hog)
}

/// Lets the connection's deadlines pass until it reports room or `time` is over. Returns how many passed.
fn wait_for_room(lone: &mut Lone, time: Duration) -> Option<u32> {
    let until = lone.now + time;
    let mut deadlines = 0;
    while !lone.end.take_readiness().writable {
        if lone.end.poll_timeout().is_none_or(|at| at > until) {
            lone.now = until;
            return None;
        }
        deadlines += 1;
        lone.expire();
        lone.sent();
    }
    Some(deadlines)
}

/// The budget announces nothing, so a refused writer has a deadline of its own, whatever arrives and is read
/// meanwhile: 100 ms at most.
#[test]
fn a_writer_that_the_budget_refused_learns_of_room_whatever_arrives_meanwhile() {
    for tries in [true, false] {
        for reads in [true, false] {
            let (mut lone, hog) = refused();
            if tries {
                assert_eq!(lone.end.write(lone.now, &[1; 100]), Err(WriteError::WouldBlock));
            } else {
                lone.end.await_room(lone.now);
            }
            lone.give(&lone.ack(lone.end.snd.flight().una().seq(), 65_535), Codepoint::NotEct, b"second");
            assert_eq!(lone.end.readable(), 6);
            if reads {
                assert_eq!(lone.end.read(lone.now, &mut [0; 8]), Ok(6));
            }
            drop(hog);
            lone.end.take_readiness();
            assert!(wait_for_room(&mut lone, Duration::from_millis(100)).is_some(), "{tries} {reads}");
            assert_eq!(lone.end.write(lone.now, &[1; 100]), Ok(100));
        }
    }
}

/// While the budget is spent there is no room, and a waiting writer hears nothing; the connection looks at
/// the budget ten times in a second at least, and a hundred times at most.
#[test]
fn there_is_no_room_to_write_while_the_budget_is_spent() {
    let mut lone = Lone::new(TcpConfig::default());
    lone.end.take_readiness();
    let hog = leave(&lone, 0);
    assert!(!lone.end.is_writable() && lone.end.write_room() == 0);
    lone.end.await_room(lone.now);
    let start = lone.now;
    for _ in 0..100 {
        let before = lone.now;
        lone.expire();
        assert!(lone.now <= before + Duration::from_millis(100));
        let readiness = lone.end.take_readiness();
        assert!(!readiness.writable && !lone.end.is_writable(), "{readiness:?} at {:?}", lone.now);
    }
    assert!(lone.now.saturating_since(start) >= SECOND / 2);
    drop(hog);
    assert!(lone.end.is_writable());
    assert!(wait_for_room(&mut lone, Duration::from_millis(100)).is_some());
}

/// After the end of the stream no write follows, so nothing looks at the budget for one; a writer that waited
/// learns at once that it waits for nothing.
#[test]
fn a_writer_that_the_budget_refused_waits_no_longer_than_the_stream_is_open() {
    for released in [false, true] {
        let (mut lone, hog) = refused();
        assert_eq!(lone.end.write(lone.now, &[1; 100]), Err(WriteError::WouldBlock));
        lone.end.take_readiness();
        if released {
            lone.end.set_orphaned(lone.now);
        } else {
            lone.end.shutdown(lone.now).expect("the connection is open");
        }
        assert!(lone.end.take_readiness().writable, "{released}");
        assert_eq!(lone.end.write(lone.now, &[1; 100]), Err(WriteError::Shutdown));
        lone.sent();
        // The FIN's timer remains: 200 ms doubled up to 60 s expire 24 times in R2, which is 924.6 s. A look
        // at the budget every 100 ms would add 9,246.
        let mut deadlines = 0;
        while lone.end.poll_timeout().is_some() {
            deadlines += 1;
            assert!(deadlines <= 40, "{released}: {:?}", lone.end.poll_timeout());
            lone.expire();
            lone.sent();
        }
        assert!(deadlines >= 24, "{released}: {deadlines}");
        drop(hog);
    }
}

/// A refused writer waits for room in its send buffer, not for its own turn to run.
#[test]
fn a_writer_that_the_budget_refused_is_limited_by_the_send_buffer() {
    let (mut lone, hog) = refused();
    assert_eq!(lone.end.write(lone.now, &[1; 100]), Err(WriteError::WouldBlock));
    assert_eq!(lone.end.limited_by(), Limit::SendBuffer);
    drop(hog);
    assert!(wait_for_room(&mut lone, Duration::from_millis(100)).is_some());
    assert_eq!(lone.end.limited_by(), Limit::Host, "it has heard of room, and has not run");
}

/// Of a large piece as much is taken as the budget allows: of 38 KiB a block of 32 KiB, or a slice of all.
#[test]
fn a_large_write_gets_what_a_small_one_would_get() {
    let data = Bytes::from_iter((0..65_536).map(pattern));
    for slices in [false, true] {
        for left in [4 << 10, 38 << 10, 63 << 10] {
            let mut lone = Lone::new(TcpConfig::default());
            let hog = leave(&lone, left);
            let write = |lone: &mut Lone, from: usize| match slices {
                true => lone.end.write_bytes(lone.now, &data.slice(from..)),
                false => lone.end.write(lone.now, &data[from..]),
            };
            let first = write(&mut lone, 0).expect("part of it is taken");
            assert!(first <= left && first > left / 2, "{slices}: {first} of {left}");
            let mut taken = first;
            while lone.end.is_writable() {
                taken += write(&mut lone, taken).expect("it said that it has room");
            }
            assert_eq!(write(&mut lone, taken), Err(WriteError::WouldBlock));
            assert!(
                taken <= left && left - taken < 4 << 10 || !slices && taken == first,
                "{taken} of {left}"
            );
            let sent = lone.end.snd.slices(lone.end.snd.flight().una(), taken).concat();
            assert_eq!(sent[..], data[..sent.len()], "{slices} {left}");
            drop(hog);
            assert!(lone.end.is_writable());
            while taken < data.len() {
                taken += write(&mut lone, taken).expect("there is room for all");
            }
        }
    }
}

/// A coalesced segment is taken as far as the budget allows, like the segments that it stands for: with
/// 38 KiB left the first 32 KiB are taken and acknowledged, and the rest comes again (RFC 9293 §3.10.7.4,
/// seventh: "RCV.NXT over the data accepted").
#[test]
fn of_a_large_segment_as_much_is_taken_as_the_budget_allows() {
    let text: Vec<u8> = (0..65_000).map(pattern).collect();
    let mut lone = Lone::new(TcpConfig::default());
    let start = lone.end.rcv.nxt();
    let hog = leave(&lone, 38 << 10);
    lone.give(&lone.ack(lone.end.snd.flight().una().seq(), 65_535), Codepoint::NotEct, &text);
    assert_eq!(lone.end.rcv.nxt().since(start), 32 << 10);
    assert!(lone.end.take_readiness().readable);
    assert_eq!(lone.sizes(), [0], "acknowledged at once");
    drop(hog);
    let rest = &text[32 << 10..];
    lone.give(&lone.ack(lone.end.snd.flight().una().seq(), 65_535), Codepoint::NotEct, rest);
    let mut read = vec![0; text.len()];
    assert_eq!(lone.end.read(lone.now, &mut read), Ok(text.len()));
    assert_eq!(read, text);
}
