//! Which receive windows open in a turn of the driver.

use super::*;

const SHARE: u64 = 100_000;
const WINDOW: u64 = 64 << 10;

/// A server that reads what many clients send, in turns of its driver.
struct Turns {
    pair: Pair,
    ids: Vec<[ConnectionId; 2]>,
    /// What was read of each, and in the last turn of all.
    read: Vec<u64>,
    arrived: u64,
}

impl Turns {
    fn new(flows: usize) -> Self {
        let tcp = TcpConfig { receive_buffer_max: 64 << 10, send_buffer_max: 1 << 20, ..tcp_config() };
        let end = |addr| EndpointConfig { tcp: tcp.clone().into(), ..config(addr) };
        let mut pair = Pair::at(Instant::from_millis(1), end(CLIENT), end(SERVER));
        pair.limits = Limits { gso_max_v4: 65_535, gso_max_v6: 0, tx_checksum: true };
        let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
        let ids = (0..flows).map(|_| pair.open(server(), listener)).collect();
        Self { pair, ids, read: vec![0; flows], arrived: 0 }
    }

    /// Everyone writes and reads as much as possible, and all packets travel once each way.
    fn turn(&mut self, share: Option<u64>) {
        let Self { pair, ids, .. } = self;
        pair.now += Duration::from_micros(100);
        for [client, _] in &*ids {
            pair.client.update(pair.now, *client, |connection, now| {
                while connection.write(now, &[7; 8192]).is_ok_and(|written| written == 8192) {}
            });
        }
        pair.collect(0, u64::MAX);
        pair.deliver(1);
        if let Some(share) = share {
            pair.server.open_windows(pair.now, share);
        }
        self.arrived = 0;
        for ([_, id], total) in ids.iter().zip(&mut self.read) {
            let read = pair.server.update(pair.now, *id, |connection, now| {
                let mut into = vec![0; 1 << 20];
                connection.read(now, &mut into).unwrap_or(0) as u64
            });
            *total += read.unwrap();
            self.arrived += read.unwrap();
        }
        pair.collect(1, u64::MAX);
        pair.deliver(0);
    }
}

#[test]
fn a_turn_lets_in_its_share_and_one_window_more_and_all_have_their_turns() {
    let mut turns = Turns::new(40);
    // What was offered before the first turn arrives.
    for _ in 0..100 {
        turns.turn(Some(SHARE));
    }
    let before = turns.read.clone();
    let mut let_in = 0;
    for _ in 0..400 {
        turns.turn(Some(SHARE));
        assert!(turns.arrived <= SHARE + WINDOW, "{} bytes at once", turns.arrived);
        let_in += turns.arrived;
    }
    assert!(let_in >= 400 * SHARE / 2, "{let_in} bytes: windows stay closed that could open");
    let each: Vec<u64> = turns.read.iter().zip(before).map(|(now, before)| now - before).collect();
    let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
    assert!(*least * 10 >= *most * 9, "from {least} to {most} bytes each");
}

#[test]
fn without_turns_nothing_waits_and_a_lone_connection_never_does() {
    for (flows, share) in [(40, None), (1, Some(0)), (1, Some(SHARE))] {
        let mut turns = Turns::new(flows);
        for _ in 0..100 {
            turns.turn(share);
            assert!(!turns.pair.server.has_windows_to_open(), "{flows} flows, {share:?}");
        }
        let least = 90 * WINDOW * flows as u64;
        let read: u64 = turns.read.iter().sum();
        assert!(read >= least, "{flows} flows, {share:?}: {read} of {least}");
    }
}

#[test]
fn a_window_that_waits_opens_although_no_one_reads_again() {
    let mut turns = Turns::new(8);
    (0..50).for_each(|_| turns.turn(Some(0)));
    assert!(turns.pair.server.has_windows_to_open());
    let mut calls = 0;
    while turns.pair.server.has_windows_to_open() {
        turns.pair.server.open_windows(turns.pair.now, 0);
        calls += 1;
        assert!(calls <= 8, "each call opens one");
    }
    turns.pair.collect(1, u64::MAX);
    turns.pair.deliver(0);
    let before = turns.pair.collect(0, u64::MAX);
    assert!(before >= 7, "{before} packets of the seven that had waited");
}

#[test]
fn one_that_ends_while_its_window_waits_leaves_the_others_their_turns() {
    let mut turns = Turns::new(8);
    (0..50).for_each(|_| turns.turn(Some(0)));
    let now = turns.pair.now;
    for [_, id] in turns.ids.drain(..7) {
        turns.pair.server.release(now, id);
    }
    turns.read = vec![0];
    (0..30).for_each(|_| turns.turn(Some(0)));
    assert!(!turns.pair.server.has_windows_to_open());
    assert!(turns.read[0] >= 15 * WINDOW, "{} bytes", turns.read[0]);
}
