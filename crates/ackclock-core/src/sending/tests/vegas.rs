//! Vegas' fine-grained clock: what it finds, and when the window answers for it.

use ackclock_control::profile::{Choices, Recovery};

use super::*;

/// Ten segments left at once, and the first was acknowledged after 20 ms: a fine timeout of 20 + 4 * 10 ms.
fn measured() -> Sender {
    let mut sender =
        Sender::new(TcpConfig { choices: Choices { recovery: Recovery::Vegas, ..reno().choices }, ..reno() });
    sender.send(10).wait(20).ack(1, &[]);
    sender
}

/// A mistake that is taken back leaves the clock as it was: what it has measured, no acknowledgement to
/// check, and a window that no loss has decreased.
#[test]
fn clock_goes_on_after_a_mistake() {
    let mut tcp = TcpConfig { choices: Choices { recovery: Recovery::Vegas, ..reno().choices }, ..reno() };
    tcp.choices.undo.min_rtt_quarters = Some(2);
    let mut sender = Sender::new(tcp);
    sender.send(10).wait(20).ack(1, &[]);
    assert_eq!(sender.wait(41).ack(1, &[]).resend(10), again(1));
    assert_eq!(sender.wait(5).ack(2, &[]).resend(10), [], "nothing to check");
    assert_eq!(sender.info().undone.min_rtt, 1, "sooner than half of 20 ms");
    assert_eq!(sender.ack(2, &[]).resend(10), again(2), "66 ms old");
    assert_eq!(sender.info().loss_episodes, 2);
}

fn again(segment: u64) -> [(u64, SendReason); 1] {
    [(segment, SendReason::Retransmission)]
}

#[test]
fn a_young_segment_waits_for_the_third_duplicate() {
    let mut sender = measured();
    sender.wait(40);
    assert_eq!(sender.ack(1, &[]).resend(10), [], "60 ms old: not overdue yet");
    assert_eq!(sender.ack(1, &[]).resend(10), []);
    assert_eq!(sender.ack(1, &[]).resend(10), again(1));
    assert_eq!(sender.info().loss_episodes, 1);
}

#[test]
fn an_overdue_segment_goes_again_at_the_first_duplicate() {
    let mut sender = measured();
    assert_eq!(sender.wait(41).ack(1, &[]).resend(10), again(1), "61 ms old");
    assert_eq!(sender.info().loss_episodes, 1);
}

/// The first two new acknowledgements after a retransmission look at the clock, too. The loss of data sent
/// before the window was reduced does not reduce it once more.
#[test]
fn losses_of_one_window_reduce_it_once() {
    let mut sender = measured();
    assert_eq!(sender.wait(41).ack(1, &[]).resend(10), again(1));
    let ssthresh = sender.ssthresh();
    assert_eq!(sender.wait(20).ack(2, &[]).resend(10), again(2));
    assert_eq!(sender.wait(20).ack(3, &[]).resend(10), again(3));
    assert_eq!((sender.ssthresh(), sender.info().loss_episodes), (ssthresh, 1));
}
