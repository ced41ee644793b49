//! After an idle time a window that is kept goes on as if that time had not passed.

use super::*;
use crate::congestion::{IdlePolicy, Registry};
use crate::profile::{Recovery, UndoChoice};

/// The windows, round by round, of a sender that has always something to send except once, for `idle`. One
/// loss gives it a threshold before.
fn windows(name: &str, idle: Duration) -> Vec<u64> {
    let congestion = Registry::with_experiments().find(name).unwrap();
    let choices =
        Choices { recovery: Recovery::Sack, undo: UndoChoice::OFF, idle: IdlePolicy::Keep, ..reno().choices };
    let mut sender = Sender::new(TcpConfig { congestion, choices, ..reno() });
    sender.board = None;
    let mut windows = Vec::new();
    let mut una = 0;
    for round in 0..60 {
        if round == 30 {
            sender.now += idle;
        }
        sender.call(|flight, call| flight.restart_after_idleness(call, SMSS));
        let count = (sender.flight.room() / SMSS).clamp(1, 100);
        sender.send(count);
        sender.flight.note_cwnd_limited();
        sender.wait(20);
        if round == 8 && count > 4 {
            for held in 2..=count {
                sender.ack(una, &[(una + 1, una + held)]);
            }
            sender.resend(200);
            sender.wait(20);
        }
        for acked in 1..=count {
            sender.ack(una + acked, &[]);
        }
        una += count;
        windows.push(sender.flight.cwnd());
    }
    windows
}

#[test]
fn a_window_that_is_kept_goes_on_as_if_no_time_had_passed() {
    for name in Registry::with_experiments().names() {
        let [busy, idle] = [Duration::ZERO, Duration::from_secs(3)].map(|idle| windows(name, idle));
        match name {
            // It probes for bandwidth every few seconds by the clock, and comes back.
            "bbr" | "bbr1" => assert_eq!(busy[50..], idle[50..]),
            // Its curve stands still from the last data on, so one round trip before the idle time begins.
            "cubic" | "cubic-plain" => {
                let pairs = busy.windows(2).zip(&idle[1..]);
                let mut behind = pairs.map(|(two, idle)| (two[0].min(two[1])..=two[1]).contains(idle));
                assert!(behind.all(|is_behind| is_behind), "{name}: {busy:?} {idle:?}");
            }
            _ => assert_eq!(busy, idle, "{name}"),
        }
    }
}
