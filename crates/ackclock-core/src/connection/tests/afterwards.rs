//! After something that was refused, all goes on as at a twin that was not asked.

use super::*;
use crate::congestion::Registry;
use crate::{ReadError, WriteError};

/// All that can be seen of an end.
fn seen(pair: &ConnectionPair) -> impl PartialEq + std::fmt::Debug + use<> {
    [0, 1].map(|side| {
        let end = &pair.ends[side];
        let info = end.info(pair.now);
        let sent = (info.bytes_sent, info.segments_sent, info.bytes_retransmitted, pair.packets[side]);
        let acked = (info.unacked, info.cwnd, info.ssthresh, info.srtt, info.rto, info.delivery_rate);
        (pair.now, sent, acked, info.rcv_wnd, end.poll_timeout(), end.limited_by())
    })
}

/// A transfer whose writer fills the buffer at each report of room. Writer and reader may also ask in
/// between, and are refused.
fn transfer(name: &str, asks_again: bool) -> Vec<impl PartialEq + std::fmt::Debug> {
    let congestion = Registry::with_experiments().find(name).unwrap();
    let tcp = TcpConfig { congestion, send_buffer_max: 60_000, ..TcpConfig::default() };
    // Some are lost, and the last of a flight among them.
    let path = Box::new(
        |side, number| {
            if side == 0 && number % 97 == 40 { Fate::Drop } else { Fate::Deliver(DELAY) }
        },
    );
    let mut pair = ConnectionPair::established([tcp.clone(), tcp], path);
    let mut seen_so_far = Vec::new();
    let mut refused = 0;
    let mut may_write = true;
    for _ in 0..600 {
        may_write |= pair.ends[0].take_readiness().writable;
        if may_write {
            while pair.ends[0].write(pair.now, &[7; 20_000]).is_ok() {}
            may_write = false;
        }
        while pair.ends[1].read(pair.now, &mut [0; 50_000]).is_ok() {}
        if asks_again && pair.ends[0].write_room() == 0 {
            assert_eq!(pair.ends[0].write(pair.now, &[7; 20_000]), Err(WriteError::WouldBlock));
            assert_eq!(pair.ends[1].read(pair.now, &mut [0; 10]), Err(ReadError::WouldBlock));
            refused += 1;
        }
        let limit = pair.now + Duration::from_secs(10);
        pair.step(limit);
        seen_so_far.push(seen(&pair));
    }
    assert!(!asks_again || refused > 50, "{refused} writes refused");
    seen_so_far
}

#[test]
fn refused_calls_change_nothing_for_any_controller() {
    for name in Registry::with_experiments().names() {
        let [alone, asking] = [false, true].map(|asks_again| transfer(name, asks_again));
        for (step, (alone, asking)) in alone.iter().zip(&asking).enumerate() {
            assert_eq!(alone, asking, "{name}, step {step}");
        }
    }
}
