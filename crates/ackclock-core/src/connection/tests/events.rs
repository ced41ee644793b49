//! The inputs of a congestion controller.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ackclock_control::congestion::{Ack, Controller, IdleRestart, LossEpisode, Lost, Timeout, factory};

use super::transfer::losing;
use super::{ConnectionPair, perfect};
use crate::TcpConfig;

const SMSS: u64 = 1448;
const WINDOW: u64 = 20 * SMSS;

#[derive(Debug, Default)]
struct Told {
    acks: Vec<Ack>,
    losses: Vec<Lost>,
    /// How long the connection idled, and the timeout.
    restarts: Vec<(Duration, Duration)>,
}

/// A window that never changes, and a record of its inputs.
#[derive(Debug)]
struct Fixed(Arc<Mutex<Told>>);

impl Controller for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.0.lock().unwrap().acks.push(*ack);
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.0.lock().unwrap().losses.push(*lost);
    }

    fn on_loss_episode(&mut self, _: &LossEpisode) {}

    fn on_timeout(&mut self, _: &Timeout) {}

    fn on_idle_restart(&mut self, restart: &IdleRestart) {
        self.0.lock().unwrap().restarts.push((restart.idle, restart.rto));
    }

    fn on_mss_change(&mut self, _: u32) {}

    fn cwnd(&self) -> u64 {
        WINDOW
    }

    fn ssthresh(&self) -> u64 {
        u64::MAX
    }
}

/// The controller's inputs during a transfer that loses packet 60, always with a full window.
fn told() -> Told {
    let told = Arc::new(Mutex::new(Told::default()));
    let record = Arc::clone(&told);
    let congestion = factory("fixed", move |_| Box::new(Fixed(Arc::clone(&record))));
    let sender = TcpConfig { congestion, ..TcpConfig::default() };
    let mut pair = ConnectionPair::established([sender, TcpConfig::default()], losing(&[60]));
    pair.transfer(200 * SMSS as usize);
    drop(pair);
    std::mem::take(&mut *told.lock().unwrap())
}

#[test]
fn loss_is_told_with_what_was_in_flight_when_the_segment_left() {
    let told = told();
    let [lost] = told.losses[..] else { panic!("{:?}", told.losses) };
    assert_eq!((lost.bytes, lost.lost, lost.tx_in_flight), (SMSS, SMSS, WINDOW));
}

#[test]
fn acknowledgements_tell_what_was_lost_since_their_newest_segment_left() {
    let told = told();
    let found = told.losses[0].now;
    for ack in &told.acks {
        let spans_loss = ack.sent_at < found && found <= ack.now;
        assert_eq!(ack.lost, if spans_loss { SMSS } else { 0 }, "{ack:?}");
        assert!((SMSS..=WINDOW).contains(&ack.tx_in_flight), "{ack:?}");
    }
    assert!(told.acks.iter().filter(|ack| ack.lost > 0).count() >= 5);
}

#[test]
fn window_that_is_full_is_said_to_be_so_by_selective_acknowledgements_too() {
    let told = told();
    let selective = || told.acks.iter().filter(|ack| ack.bytes_cumulative == 0 && ack.bytes_acked > 0);
    assert!(selective().count() >= 5);
    assert!(selective().all(|ack| ack.cwnd_limited), "{:?}", selective().collect::<Vec<_>>());
}

#[test]
fn restart_is_told_after_a_timeout_without_sending_and_not_before() {
    let told = Arc::new(Mutex::new(Told::default()));
    let record = Arc::clone(&told);
    let congestion = factory("fixed", move |_| Box::new(Fixed(Arc::clone(&record))));
    let sender = TcpConfig { congestion, ..TcpConfig::default() };
    let mut pair = ConnectionPair::established([sender, TcpConfig::default()], perfect());
    pair.transfer(10 * SMSS as usize);
    for (idle, count) in [(Duration::from_millis(150), 0), (Duration::from_secs(10), 1)] {
        pair.run_for(idle);
        pair.transfer(SMSS as usize);
        assert_eq!(told.lock().unwrap().restarts.len(), count, "{idle:?}");
    }
    let (idle, rto) = told.lock().unwrap().restarts[0];
    assert!(idle > Duration::from_secs(10) && rto < Duration::from_secs(1), "{idle:?} {rto:?}");
}

/// A writer that waits for room is woken when a third of the buffer is free, or when a third of the window
/// fits and less than that is left to send; not by each segment.
#[test]
fn writer_is_woken_by_a_third_of_the_buffer_or_of_the_window_and_not_by_each_segment() {
    const BUFFER: usize = 20_000;
    let mut lone = super::lone::Lone::new(TcpConfig { send_buffer_max: BUFFER, ..TcpConfig::default() });
    while lone.end.write(lone.now, &[1; 10_000]).is_ok() {}
    assert_eq!(lone.end.info(lone.now).send_queue, BUFFER);
    lone.sizes();
    lone.end.take_readiness();
    let una = lone.end.snd.flight().una().seq();
    for segments in 1.. {
        lone.now += Duration::from_millis(1);
        let fields = lone.ack(una + segments * super::lone::SMSS as u32, 65_535);
        lone.give(&fields, ackclock_wire::Codepoint::NotEct, &[]);
        let (free, delivery) = (BUFFER - lone.end.info(lone.now).send_queue, lone.end.delivery());
        let third = delivery.cwnd / 3;
        let is_due = free >= BUFFER / 3 || free as u64 >= third && delivery.not_sent <= third;
        assert_eq!(lone.end.take_readiness().writable, is_due, "{segments} acknowledged, {delivery:?}");
        lone.sizes();
        if is_due {
            assert!((3..=5).contains(&segments), "{segments}");
            break;
        }
    }
}
