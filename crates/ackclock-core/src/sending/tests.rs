//! A flight alone: its inputs and outputs in virtual time, without packets or a connection.

mod afterwards;
mod board;
mod corrections;
mod division;
mod mtu_probes;
mod probes;
mod vegas;
mod walks;

use std::time::Duration;

use ackclock_wire::SeqNum;

use self::board::Board;
use super::{AckNews, Acknowledgement, Call, Departure, Flight, Offer};
use crate::info::FlightInfo;
use crate::position::Position;
use crate::profile::Choices;
use crate::trace::{SendReason, Trace};
use crate::{Instant, TcpConfig};

const SMSS: u64 = 1000;

/// A flight, and the state that a connection lends it.
struct Sender {
    flight: Flight,
    tcp: TcpConfig,
    trace: Trace,
    now: Instant,
    /// Bytes of new data that may leave, as acknowledgements find them.
    sendable: u64,
    /// The flight byte by byte; `None` once it is too large for that.
    board: Option<Board>,
}

/// Where segment `segment` begins, counted from 0.
fn at(segment: u64) -> Position {
    Position::initial(SeqNum::new(u32::MAX - 5000)) + 1 + segment * SMSS
}

impl Sender {
    /// A connection whose peer supports SACK is established.
    fn new(tcp: TcpConfig) -> Self {
        let now = Instant::from_millis(1000);
        let iss = Position::initial(SeqNum::new(u32::MAX - 5000));
        let flight = Flight::new(now, iss, SMSS as u32, 1_000_000, &tcp);
        let trace = Trace::default();
        let mut sender = Self { flight, tcp, trace, now, sendable: 1 << 30, board: None };
        sender.call(|flight, call| {
            flight.on_syn_sent(call, iss);
            flight.on_syn_acked(iss + 1);
            flight.on_handshake_sample(now - Duration::from_millis(20), now);
            flight.establish(call, true, SMSS as u32, true);
        });
        sender.board = Some(Board::new(&sender.flight));
        sender
    }

    fn call<T>(&mut self, act: impl FnOnce(&mut Flight, &mut Call<'_>) -> T) -> T {
        let mut call = Call { now: self.now, tcp: &self.tcp, trace: &mut self.trace };
        let result = act(&mut self.flight, &mut call);
        self.flight.check_invariants();
        self.board = self.board.take().filter(|_| self.flight.flight_size() <= Board::BYTES_MAX);
        if let Some(board) = &mut self.board {
            board.follow(&self.flight, &self.tcp, self.now);
        }
        result
    }

    /// Data leaves, new or again.
    fn departs(&mut self, departure: &Departure) {
        if let Some(board) = &mut self.board {
            board.depart(self.now, departure);
        }
        self.call(|flight, call| {
            flight.on_sent(call, departure);
            flight.run_timer(call, true);
            flight.arm_tail_probe(call.now);
        });
    }

    /// An acknowledgement arrives, which also reports marks on `marked` bytes.
    fn hears(&mut self, seen: &Acknowledgement<'_>, marked: u64) {
        let before = self.flight.una();
        let fresh = self.board.as_mut().map(|board| board.hear(&self.flight, seen));
        let mut news = AckNews::default();
        let has_news = self.call(|flight, call| {
            let has_news = flight.on_ack(call, seen, &mut news);
            if has_news {
                if marked > 0 {
                    flight.on_marked(call, &news);
                }
                flight.tell_ack(call, &news, marked);
            }
            has_news
        });
        if let Some(board) = &self.board {
            assert_eq!(Some(news.newly_acked()), fresh, "bytes delivered for the first time");
            assert_eq!(news.advanced, if has_news { seen.ack.since(before) } else { 0 });
            board.check_restart(&self.flight, seen, news.advanced, self.now);
        }
    }

    fn wait(&mut self, millis: u64) -> &mut Self {
        self.now += Duration::from_millis(millis);
        self
    }

    fn leaves(&mut self, start: Position, end: Position, reason: SendReason) {
        self.departs(&Departure { start, end, reason, segment: SMSS as u32, drained: false });
    }

    /// Sends `segments` new ones, one by one.
    fn send(&mut self, segments: u64) -> &mut Self {
        for _ in 0..segments {
            let start = self.flight.nxt();
            self.leaves(start, start + SMSS, SendReason::NewData);
        }
        self
    }

    /// Sends what must be retransmitted, at most `segments` of it; returns the number and the reason of each.
    fn resend(&mut self, segments: usize) -> Vec<(u64, SendReason)> {
        let offer =
            Offer { burst_max: SMSS, right_edge: at(1_000_000), data_end: self.flight.nxt() + 1_000_000 };
        let mut left = Vec::new();
        while left.len() < segments
            && let Some(chosen) = self.call(|flight, call| flight.next_resend(call, &offer))
        {
            self.leaves(chosen.start, chosen.end, chosen.reason);
            left.push((chosen.start.since(at(0)) / SMSS, chosen.reason));
        }
        left
    }

    /// Everything before segment `una` is acknowledged, and these ranges of segments are reported, a
    /// duplicate first.
    fn ack(&mut self, una: u64, sack: &[(u64, u64)]) -> &mut Self {
        let sack: Vec<_> = sack.iter().map(|&(start, end)| (at(start), at(end))).collect();
        self.acknowledge(una, &sack)
    }

    /// Acknowledges with reports that begin and end anywhere.
    fn acknowledge(&mut self, una: u64, sack: &[(Position, Position)]) -> &mut Self {
        self.acknowledge_before(at(una), sack)
    }

    /// Everything before `una` is acknowledged.
    fn acknowledge_before(&mut self, una: Position, sack: &[(Position, Position)]) -> &mut Self {
        let sack: Vec<_> = sack.iter().map(|(start, end)| (start.seq(), end.seq())).collect();
        let sendable = self.sendable;
        let acknowledgement = Acknowledgement {
            ack: una,
            sack: &sack,
            echo: None,
            bare: true,
            window: u32::MAX,
            same_window: true,
            reopened: false,
            sendable,
        };
        self.hears(&acknowledgement, 0);
        self
    }

    /// The next timer expires.
    fn expire(&mut self) -> &mut Self {
        self.now = self.flight.next_timeout();
        assert!(self.now != Instant::FAR_FUTURE, "a timer runs");
        self.call(|flight, call| flight.on_timer(call, u32::MAX, true));
        self
    }

    /// Another controller takes over.
    fn replace_controller(&mut self, name: &str) -> &mut Self {
        self.tcp.congestion = crate::congestion::Registry::builtin().find(name).unwrap();
        self.call(|flight, call| flight.replace_controller(call));
        self
    }

    fn info(&self) -> FlightInfo {
        self.flight.info(&self.tcp)
    }

    fn ssthresh(&self) -> u64 {
        self.flight.controller().ssthresh()
    }
}

fn reno() -> TcpConfig {
    let congestion = crate::congestion::Registry::builtin().find("reno").unwrap();
    TcpConfig {
        congestion,
        choices: Choices { pacing: false, initial_window_segments: 20, ..Choices::default() },
        ..TcpConfig::default()
    }
}

/// An acknowledgement that only advances takes the short way, until something is lost.
#[test]
fn acknowledgement_of_a_flight_without_losses_takes_the_short_way() {
    let mut sender = Sender::new(reno());
    sender.send(6).wait(20);
    assert!(sender.call(|flight, call| flight.on_advance(call, at(2), true)));
    assert_eq!(sender.flight.una(), at(2));
    sender.ack(2, &[(3, 4)]);
    assert!(!sender.call(|flight, call| flight.on_advance(call, at(3), true)));
    assert_eq!(sender.flight.una(), at(2), "nothing has changed");
}

/// Invariants are checked after each call; for a window of n segments that must not cost n².
#[test]
#[cfg(debug_assertions)]
fn check_of_a_long_flight_costs_each_call_the_same() {
    use super::scoreboard::CHECKED_EACH_CALL;

    let mut sender = Sender::new(TcpConfig::default());
    let (mut calls, mut looked_at) = (0, 0_u64);
    for outstanding in 1..=20_000 {
        sender.wait(1).send(1);
        let flight = &sender.flight;
        if flight.scoreboard.is_checked_at(flight.una, flight.nxt) {
            (calls, looked_at) = (calls + 1, looked_at + outstanding);
        }
    }
    assert!(calls > 200, "checked after {calls} of 20,000 calls");
    assert!(looked_at < 2 * 20_000 * CHECKED_EACH_CALL, "{looked_at} records for 20,000 calls");
}
