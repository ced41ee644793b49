//! Nothing waits without a timer (RFC 9293 §3.8.1, §3.8.6.1; MUST-36, MUST-60).

use ackclock_wire::{Codepoint, Fields, Flags};

use super::lone::{Lone, SMSS, handshake};
use super::walks::{call, settings};
use super::*;
use crate::connection::Handshake;
use crate::walks::Walk;

/// Longer than the longest wait between two transmissions: a timeout of 120 s, and a late pacing timer.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Whether the application, or the peer, waits for something that this end has to send.
fn has_something_to_send(end: &Connection) -> bool {
    let is_over = matches!(end.state(), State::Closed | State::Listen | State::TimeWait);
    let fin_waits = end.snd.is_closed() && !end.snd.fin_acked();
    !is_over && (end.snd.unsent() > 0 || end.snd.flight().is_outstanding() || fin_waits)
}

/// Everything that may be sent has left. The rest waits for a timer of the sending side.
fn check_timer(lone: &Lone, said: &dyn Fn() -> String) {
    let end = &lone.end;
    let next = end.snd.next_transmission();
    assert!(!has_something_to_send(end) || next != Instant::FAR_FUTURE, "no timer runs: {}", said());
}

/// The peer is silent from now on: something leaves before long, or the connection ends.
fn check_progress(mut lone: Lone, said: &dyn Fn() -> String) {
    let begun = lone.now;
    while has_something_to_send(&lone.end) {
        lone.expire();
        if !lone.sent().is_empty() {
            break;
        }
        assert!(lone.now.saturating_since(begun) < LONGEST_WAIT, "nothing leaves: {}", said());
    }
}

/// Any acknowledgement that the peer may send, with any window.
fn acknowledge(lone: &mut Lone, walk: &mut Walk) -> String {
    let out = u32::try_from(lone.end.snd.flight().flight_size()).unwrap();
    let acked = walk.pick(&[0, 1.min(out), out / 2, out, out]);
    let window = walk.pick(&[0, 0, 1, 100, 700, 1459, 1460, 3000, 65_535]);
    let fields = lone.ack(lone.end.snd.flight().una().seq() + acked, window);
    lone.give(&fields, Codepoint::NotEct, &[]);
    format!("{acked} of {out} acknowledged, window {window}")
}

fn step(lone: &mut Lone, walk: &mut Walk) -> String {
    let now = lone.now;
    match walk.below(16) {
        0..=2 => {
            let len = walk.pick(&[1, 100, 700, 1459, SMSS, 5000, 50_000]);
            format!("write {len}: {:?}", lone.end.write(now, &vec![7; len]))
        }
        3 | 4 => {
            let cork = walk.one_in(2);
            lone.end.set_cork(now, cork);
            format!("cork {cork}")
        }
        5 => {
            let nodelay = walk.one_in(2);
            lone.end.set_nodelay(now, nodelay);
            format!("nodelay {nodelay}")
        }
        6 => {
            call(&mut lone.end, now, walk);
            "a call".into()
        }
        7 if walk.one_in(8) => format!("shutdown: {:?}", lone.end.shutdown(now)),
        7 => {
            let mtu = walk.pick(&[1500, 1280, 9000]);
            lone.end.set_mtu(now, mtu);
            format!("mtu {mtu}")
        }
        8 => {
            let text = vec![1; walk.pick(&[1, 1460])];
            let fields = lone.ack(lone.end.snd.flight().una().seq(), walk.pick(&[0, 500, 65_535]));
            lone.give(&fields, Codepoint::NotEct, &text);
            let _ = lone.end.read(now, &mut [0; 2000]);
            format!("{} bytes, window {}", text.len(), fields.window)
        }
        9 if walk.one_in(8) => {
            let fields = Fields {
                flags: Flags::ACK | Flags::FIN,
                ..lone.ack(lone.end.snd.flight().una().seq(), 3000)
            };
            lone.give(&fields, Codepoint::NotEct, &[]);
            "FIN".into()
        }
        9 => {
            let told = walk.pick(&[1400, 600]);
            let seq = lone.end.snd.flight().una().seq();
            lone.end.handle_icmp(now, ackclock_wire::IcmpKind::PacketTooBig { mtu: told }, seq);
            format!("too big for {told}")
        }
        10..=12 => acknowledge(lone, walk),
        13 => {
            lone.now += Duration::from_millis(walk.pick(&[1, 20, 150, 1000]));
            lone.end.handle_timeout(lone.now);
            "time passes".into()
        }
        _ if lone.end.poll_timeout().is_some() => {
            lone.expire();
            "a timer".into()
        }
        _ => "nothing".into(),
    }
}

fn begin(walk: &mut Walk) -> Lone {
    let tcp = TcpConfig { keepalive: None, send_buffer_max: 1 << 20, ..settings(walk) };
    let peer_mss = walk.pick(&[1460, 536]);
    let mut lone = Lone::agreed(tcp, Handshake { sack: walk.one_in(2), peer_mss, ..handshake() });
    lone.limits = walk.pick(&[software(1500), software(65_535)]);
    lone.end.set_cork(lone.now, walk.one_in(2));
    lone
}

/// RFC 9293 §3.8.1, §3.8.6.1: what is outstanding is sent again, and a window too small for what waits is
/// probed, or the connection hangs for ever. MUST-60: what the sender holds back by itself leaves in time.
#[test]
fn whatever_waits_to_be_sent_has_a_timer_and_leaves() {
    // Tests: RFC 9293 MUST-36
    for seed in 0..3000 {
        let mut walk = Walk::new(seed);
        let steps = walk.below(30);
        let mut lone = begin(&mut walk);
        let mut story = Vec::new();
        for _ in 0..steps {
            story.push(step(&mut lone, &mut walk));
            if !walk.one_in(4) {
                story.push(format!("sent {:?}", lone.sizes()));
                check_timer(&lone, &|| format!("seed {seed}: {story:#?}"));
            }
        }
        lone.sent();
        check_timer(&lone, &|| format!("seed {seed}: {story:#?}"));
        check_progress(lone, &|| format!("seed {seed}: {story:#?}"));
    }
}

/// RFC 9293 §3.8.6.2.1: a window of less than a segment is used after the override timeout, also if segments
/// have become longer while data waited for its rate.
#[test]
fn window_too_small_for_longer_segments_is_used_in_time() {
    let mut lone = Lone::new(TcpConfig::default());
    lone.end.set_mtu(lone.now, 1280);
    lone.end.set_max_pacing_rate(lone.now, Some(10_000)).unwrap();
    lone.end.write(lone.now, &[1; 10_000]).unwrap();
    assert!(!lone.sizes().is_empty());
    lone.acknowledge_all(1300);
    assert_eq!(lone.sizes(), []);
    lone.end.set_mtu(lone.now, 1500);
    check_timer(&lone, &|| "segments of 1460 bytes".into());
    check_progress(lone, &|| "segments of 1460 bytes".into());
}

/// MUST-60: 200 ms, however often the application corks what is corked.
#[test]
fn cork_set_again_holds_no_longer() {
    for period in [1, 50, 199] {
        let mut lone = Lone::new(TcpConfig::default());
        let begun = lone.now;
        lone.end.set_cork(lone.now, true);
        lone.end.write(lone.now, &[1; 100]).unwrap();
        while lone.sizes().is_empty() {
            assert!(lone.now.saturating_since(begun) < Duration::from_millis(200), "every {period} ms");
            let again = lone.now + Duration::from_millis(period);
            lone.now = again.min(lone.end.poll_timeout().unwrap());
            lone.end.handle_timeout(lone.now);
            lone.end.set_cork(lone.now, true);
        }
        assert_eq!(lone.now.saturating_since(begun), Duration::from_millis(200), "every {period} ms");
    }
}
