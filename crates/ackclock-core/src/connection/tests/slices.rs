//! Slices in and out: written data is sent and retransmitted without a copy, and received data is read where
//! it arrived.

use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::connection::send::SLICE_MIN;
use crate::profile::Choices;
use crate::{ConnectionError, ReadError, WriteError};

const OFFLOAD: Limits = Limits { gso_max_v4: 65_535, gso_max_v6: 65_535, tx_checksum: true };

/// Every `n`th data packet from side 0 is lost.
fn losing(n: u64) -> PathRule {
    Box::new(move |side, number| match side == 0 && number % n == n - 1 {
        true => Fate::Drop,
        false => Fate::Deliver(DELAY),
    })
}

fn text(len: usize) -> Bytes {
    (0..len).map(pattern).collect()
}

/// Moves `data` from side 0 to side 1, written in slices of these lengths, in turn, and read in slices of
/// `max`.
fn move_slices(pair: &mut ConnectionPair, data: &Bytes, lens: &[usize], max: usize) {
    let (mut rest, mut read) = (data.clone(), 0);
    let mut lens = lens.iter().cycle();
    let mut slice = Bytes::new();
    while read < data.len() {
        loop {
            if slice.is_empty() {
                slice = rest.split_to(rest.len().min(*lens.next().unwrap()));
            }
            match pair.ends[0].write_bytes(pair.now, &slice) {
                Ok(0) | Err(_) => break,
                Ok(taken) => drop(slice.split_to(taken)),
            }
        }
        while let Ok(part) = pair.ends[1].read_bytes(pair.now, max) {
            assert!(!part.is_empty() && part.len() <= max, "the stream ended early");
            assert!(part == data[read..read + part.len()], "wrong byte");
            read += part.len();
        }
        let limit = pair.now + Duration::from_secs(1000);
        assert!(pair.step(limit) || read == data.len(), "stalled at {read}");
    }
}

#[test]
fn slices_of_any_length_arrive_whole_with_loss_and_without() {
    let data = text(3 << 20);
    for (lens, max) in [
        (&[1 << 20][..], usize::MAX),
        (&[65_536], 1 << 16),
        (&[32_768, 100, 40_000, 1, 16_384], 10_000),
        (&[200, 70_000], usize::MAX),
        (&[999], 777),
    ] {
        for limits in [software(1500), OFFLOAD] {
            for path in [perfect(), losing(37), losing(5)] {
                let mut pair =
                    ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], path);
                pair.limits = limits;
                move_slices(&mut pair, &data, lens, max);
            }
        }
    }
}

#[test]
fn what_is_sent_and_sent_again_lies_where_the_application_has_it() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    pair.limits = OFFLOAD;
    let data = text(100_000);
    let (now, within) = (pair.now, data.as_ptr_range());
    assert_eq!(pair.ends[0].write_bytes(now, &data), Ok(65_536), "as much as there is room for");
    let mut sent = [0; 2];
    for round in &mut sent {
        let mut header = [0; HEADER_MAX];
        while let Some(out) = pair.ends[0].poll_transmit(pair.now, OFFLOAD, true, &mut header) {
            for slice in pair.ends[0].payload(&out) {
                assert!(slice.is_empty() || within.contains(&slice.as_ptr()), "a copy");
                *round += slice.len();
            }
        }
        // None of it arrives: the timer expires.
        let expires = pair.ends[0].poll_timeout().expect("a timer runs");
        pair.now = expires;
        pair.ends[0].handle_timeout(expires);
    }
    assert!(sent[0] >= 10 * 1448 && sent[1] > 0, "{sent:?}");
}

#[test]
fn a_slice_is_let_go_when_it_is_acknowledged() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    let data = text(60_000);
    let now = pair.now;
    assert_eq!(pair.ends[0].write_bytes(now, &data), Ok(60_000));
    assert!(!data.is_unique());
    assert_eq!(pair.ends[0].buffer_capacity(), 60_000, "it counts as what it pins");
    pair.run_for(Duration::from_secs(1));
    assert!(data.is_unique(), "all of it is acknowledged");
    assert_eq!(pair.ends[0].buffer_capacity(), 0);
}

#[test]
fn a_large_segment_stays_where_it_arrived_and_small_ones_are_put_together() {
    let bursts =
        TcpConfig { choices: Choices { pacing: false, ..Choices::default() }, ..TcpConfig::default() };
    let mut pair = ConnectionPair::established([bursts, TcpConfig::default()], perfect());
    pair.limits = OFFLOAD;
    // The windows grow first.
    move_slices(&mut pair, &text(2 << 20), &[1 << 20], usize::MAX);
    let data = text(60_000);
    let now = pair.now;
    assert_eq!(pair.ends[0].write_bytes(now, &data), Ok(60_000));
    let mut header = [0; HEADER_MAX];
    let out = pair.ends[0].poll_transmit(now, OFFLOAD, true, &mut header).expect("all in one packet");
    let payload = pair.ends[0].payload(&out).concat();
    let packet = Bytes::from([&header[..out.header_len], &payload].concat());
    assert!(payload.len() > 32_768, "{}", payload.len());
    let meta = RxMeta { checksum: out.checksum, segment_size: out.segment_size };
    deliver(&mut pair.ends[1], now, &packet, meta);
    let receiver = &mut pair.ends[1];
    assert!(receiver.buffer_capacity() >= 1 << 16, "the block is counted, not what is in it");
    let taken = receiver.read_bytes(now, usize::MAX).unwrap();
    assert_eq!(taken, payload);
    assert!(packet.as_ptr_range().contains(&taken.as_ptr()), "it was not copied");
    drop(packet);

    // Half a second of small segments.
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    for _ in 0..20 {
        let now = pair.now;
        assert_eq!(pair.ends[0].write(now, &[7; 100]), Ok(100));
        pair.run_for(Duration::from_millis(25));
    }
    assert_eq!(pair.ends[1].buffer_capacity(), 4096);
    assert_eq!(pair.ends[1].read_bytes(pair.now, usize::MAX).unwrap(), [7; 2000][..]);
}

#[test]
fn what_came_before_a_reset_is_read_in_slices_and_then_the_error() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    pair.limits = OFFLOAD;
    let data = text(14_480);
    let now = pair.now;
    assert_eq!(pair.ends[0].write_bytes(now, &data), Ok(14_480));
    pair.run_for(Duration::from_millis(15));
    pair.ends[0].abort(pair.now);
    pair.run_for(Duration::from_millis(15));
    assert!(data.is_unique(), "the sender keeps nothing of what it threw away");
    let now = pair.now;
    assert_eq!(pair.ends[0].write_bytes(now, &data), Err(WriteError::Connection(ConnectionError::Aborted)));
    let mut seen = Vec::new();
    let error = loop {
        match pair.ends[1].read_bytes(pair.now, 3000) {
            Ok(part) if part.is_empty() => panic!("an end that the peer did not send"),
            Ok(part) => seen.extend(part),
            Err(error) => break error,
        }
    };
    assert!(seen == data[..seen.len()] && seen.len() == 14_480, "{}", seen.len());
    assert_eq!(error, ReadError::Connection(ConnectionError::Reset));
    assert_eq!(pair.ends[1].buffer_capacity(), 0);
}

#[test]
fn the_end_of_the_stream_is_an_empty_slice() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    let now = pair.now;
    assert_eq!(pair.ends[1].read_bytes(now, 10), Err(ReadError::WouldBlock));
    assert_eq!(pair.ends[0].write_bytes(now, &Bytes::new()), Ok(0));
    assert_eq!(pair.ends[0].write_bytes(now, &text(50_000)), Ok(50_000));
    assert_eq!(pair.ends[0].shutdown(now), Ok(()));
    let mut seen = 0;
    loop {
        pair.run_for(Duration::from_millis(100));
        let part = pair.ends[1].read_bytes(pair.now, usize::MAX).unwrap();
        if part.is_empty() {
            break;
        }
        seen += part.len();
    }
    assert_eq!(seen, 50_000);
    let now = pair.now;
    assert_eq!(pair.ends[0].write_bytes(now, &text(1)), Err(WriteError::Shutdown));
}

/// A copy costs less than a packet that is cut at the end of a short slice.
#[test]
fn slice_is_kept_from_half_a_block_on() {
    for (len, kept) in [(SLICE_MIN - 1, false), (SLICE_MIN, true), (SLICE_MIN + 1, true)] {
        let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
        let data = text(len);
        assert_eq!(pair.ends[0].write_bytes(pair.now, &data), Ok(len));
        assert_eq!(data.is_unique(), !kept, "{len} bytes");
    }
}

/// The bytes missing to a block's quarter behind copied bytes are copied, and the rest is kept.
#[test]
fn slice_behind_copied_bytes_is_taken_whole() {
    let mut pair = ConnectionPair::established([TcpConfig::default(), TcpConfig::default()], perfect());
    for len in [SLICE_MIN, 100, SLICE_MIN] {
        let data = text(len);
        assert_eq!(pair.ends[0].snd.append_bytes(&data, 1 << 20), len);
        assert_eq!(data.is_unique(), len == 100);
    }
}
