//! Every state × every segment around every edge, against the oracle (RFC 9293 §3.10.7).
//!
//! Flags 2^6 × 7 sequence numbers × 8 acknowledgement numbers × 4 lengths × 3 receive windows × 12 states × 3
//! placements of the sequence numbers (around 0, 2^31 and 2^32) are 1,548,288 cells; each builds a new
//! connection. The sequence numbers of both sides are placed so that the numbers compared lie on both sides
//! of the wrap.
//!
//! `STATE_TABLE_STRIDE=n` runs every n-th cell; the default is every cell.

use std::collections::HashMap;

use ackclock_core::{Instant, State};
use ackclock_tests::oracle::{Ending, Phase, Reply, View, outcomes};
use ackclock_tests::script::Script;
use ackclock_tests::segment::{ACK, FIN, Frame, PSH, RST, SYN, Seg, URG, seg};
use ackclock_tests::states::{IN_FLIGHT, PEER_WINDOW, Scene, WindowLeft, bring, start_for_iss};

const PLACES: [u32; 3] = [0, (1 << 31) - 1, u32::MAX];
const WINDOWS: [WindowLeft; 3] = [WindowLeft::Open, WindowLeft::One, WindowLeft::Zero];
const FLAGS: [u8; 6] = [FIN, SYN, RST, PSH, ACK, URG];
const REPORTED_MAX: usize = 12;

macro_rules! table {
    ($($name:ident: $phase:ident),* $(,)?) => {
        $(
            // Tests: RFC 9293 MUST-5
            #[test]
            fn $name() {
                check_phase(Phase::$phase);
            }
        )*
    };
}

table! {
    closed_answers_as_the_oracle_says: Closed,
    listen_answers_as_the_oracle_says: Listen,
    syn_sent_answers_as_the_oracle_says: SynSent,
    syn_received_by_a_listener_answers_as_the_oracle_says: SynReceivedPassive,
    syn_received_in_simultaneous_open_answers_as_the_oracle_says: SynReceivedActive,
    established_answers_as_the_oracle_says: Established,
    fin_wait_1_answers_as_the_oracle_says: FinWait1,
    fin_wait_2_answers_as_the_oracle_says: FinWait2,
    close_wait_answers_as_the_oracle_says: CloseWait,
    closing_answers_as_the_oracle_says: Closing,
    last_ack_answers_as_the_oracle_says: LastAck,
    time_wait_answers_as_the_oracle_says: TimeWait,
}

/// The observed effect of a segment.
#[derive(Debug)]
struct Seen {
    sent: Vec<Seg>,
    phase: Phase,
    /// Payload bytes newly acknowledged by the peer.
    acked: u64,
    /// Payload bytes newly readable.
    delivered: usize,
}

/// Names the cell when the code under test panics in it.
struct Cell<'a>(Phase, &'a Scene, Seg);

impl Drop for Cell<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("panic in {:?}, {:?}, segment {:?}", self.0, self.1, self.2);
        }
    }
}

fn check_phase(phase: Phase) {
    let stride = std::env::var("STATE_TABLE_STRIDE").map_or(1, |s| s.parse().expect("a number"));
    let (mut cells, mut wrong) = (0_usize, 0_usize);
    let mut kinds: HashMap<String, usize> = HashMap::new();
    for (place, window) in PLACES.iter().flat_map(|place| WINDOWS.map(|window| (*place, window))) {
        let scene = scene(phase, place, window);
        let (_, view) = bring(phase, &scene);
        for (number, segment) in segments(&view).enumerate() {
            if number % stride != 0 {
                continue;
            }
            cells += 1;
            let _cell = Cell(phase, &scene, segment.clone());
            let allowed = outcomes(&view, &segment);
            let (again, seen) = observe(phase, &scene, &segment);
            assert_eq!(again, view, "the same calls bring the same state");
            if allowed.iter().any(|outcome| agrees(&view, outcome, &seen)) {
                continue;
            }
            wrong += 1;
            let kind = format!("{} {:?}", flag_names(segment.flags), relative(&view, &segment));
            let count = kinds.entry(format!("{:?} {:?}", flag_names(segment.flags), seen.phase)).or_default();
            *count += 1;
            if *count == 1 && kinds.len() <= REPORTED_MAX {
                eprintln!(
                    "{phase:?} window {window:?} {kind}\n  allowed {allowed:?}\n  seen {seen:?}\n  {view:?}"
                );
            }
        }
    }
    println!("{kinds:?}");
    assert_eq!(wrong, 0, "{phase:?}: {wrong} of {cells} cells disagree with the oracle");
    println!("{phase:?}: {cells} cells");
}

fn scene(phase: Phase, place: u32, window: WindowLeft) -> Scene {
    let passive = !matches!(phase, Phase::SynSent | Phase::SynReceivedActive);
    // Half of what is in flight lies before the wrap; the window's start or the SYN does, too.
    let before = match phase {
        Phase::Closed
        | Phase::Listen
        | Phase::SynSent
        | Phase::SynReceivedPassive
        | Phase::SynReceivedActive => 0,
        _ => 1201 + IN_FLIGHT as u32 / 2,
    };
    let start = match phase {
        Phase::Closed | Phase::Listen => Instant::from_millis(1),
        _ => start_for_iss(place.wrapping_sub(before), passive),
    };
    let filled = if window == WindowLeft::Open { 0 } else { 4096 };
    Scene { start, irs: place.wrapping_sub(filled + 1), window, acked: true }
}

/// Every segment of the table, for a connection in this situation.
fn segments(view: &View) -> impl Iterator<Item = Seg> + use<> {
    let (wnd, rcv_nxt, una, nxt) = (view.rcv_wnd, view.rcv_nxt, view.una, view.nxt);
    let max_wnd = u32::from(PEER_WINDOW);
    let seqs = [0_u32.wrapping_sub(wnd + 1), u32::MAX, 0, 1, wnd.wrapping_sub(1), wnd, 1 << 31]
        .map(|offset| rcv_nxt.wrapping_add(offset));
    let acks = [
        una.wrapping_sub(max_wnd + 1),
        una.wrapping_sub(max_wnd),
        una.wrapping_sub(1),
        una,
        una.wrapping_add(1),
        nxt,
        nxt.wrapping_add(1),
        nxt.wrapping_add(1 << 31),
    ];
    let lens = [0, 1, wnd as usize, wnd as usize + 1];
    (0_u8..64).flat_map(move |bits| {
        let flags = FLAGS.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, flag)| flag).sum();
        seqs.into_iter().flat_map(move |seq| {
            acks.into_iter().flat_map(move |ack| {
                lens.into_iter().map(move |len| Seg {
                    seq,
                    ack,
                    payload: vec![0x5a; len],
                    ..seg(flags).window(PEER_WINDOW)
                })
            })
        })
    })
}

fn observe(phase: Phase, scene: &Scene, segment: &Seg) -> (View, Seen) {
    let (mut script, view) = bring(phase, scene);
    let before = measure(&script);
    let edge = script.edge;
    script.raw(&Frame::new(script.remote, script.local, segment.clone()).to_bytes());
    let (iss, irs) = (script.iss.unwrap_or(0), script.irs);
    let mut sent = script.take_sent();
    for reply in &mut sent {
        reply.seq = reply.seq.wrapping_add(iss);
        reply.ack = reply.ack.wrapping_add(if reply.has(ACK) { irs } else { 0 });
    }
    let reopened = sent.iter().any(|reply| reply.has(SYN));
    if phase as usize > Phase::SynReceivedActive as usize && !reopened {
        assert!(script.edge.wrapping_sub(edge) < 1 << 31, "the window's right edge went back (SHLD-14)");
    }
    let after_phase = phase_after(phase, &mut script, &view, &sent);
    let after = measure(&script);
    let seen = Seen {
        sent,
        phase: after_phase,
        acked: after.0.saturating_sub(before.0),
        delivered: after.1.saturating_sub(before.1),
    };
    (view, seen)
}

/// Payload bytes acknowledged by the peer, and readable.
fn measure(script: &Script) -> (u64, usize) {
    let Some(connection) = script.conn.and_then(|conn| script.host.endpoint.connection(conn)) else {
        return (0, 0);
    };
    let info = connection.info(script.now());
    (info.bytes_acked, info.receive_queue)
}

fn phase_after(before: Phase, script: &mut Script, view: &View, sent: &[Seg]) -> Phase {
    match before {
        Phase::Closed => return Phase::Closed,
        Phase::Listen if sent.iter().any(|s| s.has(SYN | ACK)) => return Phase::SynReceivedPassive,
        Phase::Listen => return Phase::Listen,
        Phase::TimeWait if sent.iter().any(|s| s.has(SYN | ACK)) => return Phase::SynReceivedPassive,
        Phase::SynReceivedPassive if script.try_accept().is_none() => return half_open_or_gone(script, view),
        _ => {}
    }
    match script.state() {
        State::Closed => Phase::Closed,
        State::Listen => Phase::Listen,
        State::SynSent => Phase::SynSent,
        State::SynReceived => Phase::SynReceivedActive,
        State::Established => Phase::Established,
        State::FinWait1 => Phase::FinWait1,
        State::FinWait2 => Phase::FinWait2,
        State::CloseWait => Phase::CloseWait,
        State::Closing => Phase::Closing,
        State::LastAck => Phase::LastAck,
        State::TimeWait => Phase::TimeWait,
    }
}

/// A half-open connection is not visible; the last ACK of the handshake shows whether it lives.
fn half_open_or_gone(script: &mut Script, view: &View) -> Phase {
    let last = Seg { seq: view.rcv_nxt, ack: view.nxt, ..seg(ACK).window(PEER_WINDOW) };
    script.raw(&Frame::new(script.remote, script.local, last).to_bytes());
    script.take_sent();
    let alive = script.try_accept().is_some();
    script.conn = None;
    if alive { Phase::SynReceivedPassive } else { Phase::Listen }
}

fn agrees(view: &View, outcome: &Ending, seen: &Seen) -> bool {
    let syn_phase =
        matches!(view.phase, Phase::SynSent | Phase::SynReceivedActive | Phase::SynReceivedPassive);
    let payload_acked = if syn_phase { 0 } else { outcome.acked.min(IN_FLIGHT as u32) };
    // The figures of a connection after its end are not compared.
    let over = matches!(seen.phase, Phase::Closed) && view.phase != Phase::Closed;
    answered(view, outcome.reply, &seen.sent)
        && outcome.phase == seen.phase
        && (over || u64::from(payload_acked) == seen.acked)
        && (over || outcome.delivered as usize == seen.delivered)
}

fn answered(view: &View, reply: Reply, sent: &[Seg]) -> bool {
    let pure_ack = |s: &Seg, ack| s.flags == ACK && s.payload.is_empty() && s.seq == view.nxt && s.ack == ack;
    match (reply, sent) {
        (Reply::Nothing | Reply::AckSoon(_), []) => true,
        (Reply::Ack(ack) | Reply::AckSoon(ack), [s]) => pure_ack(s, ack),
        (Reply::Rst(seq), [s]) => s.flags == RST && s.seq == seq && s.payload.is_empty(),
        (Reply::RstAck(ack), [s]) => {
            s.flags == RST | ACK && s.seq == 0 && s.ack == ack && s.payload.is_empty()
        }
        (Reply::SynAck(ack), [s]) => {
            let fresh = matches!(view.phase, Phase::Listen | Phase::TimeWait);
            s.flags == SYN | ACK && s.ack == ack && (fresh || s.seq == view.iss) && s.payload.is_empty()
        }
        _ => false,
    }
}

fn flag_names(flags: u8) -> String {
    FLAGS.iter().zip("FSRPAU".chars()).filter(|(flag, _)| flags & **flag != 0).map(|(_, name)| name).collect()
}

/// A segment's numbers as distances from RCV.NXT and SND.UNA.
fn relative(view: &View, segment: &Seg) -> String {
    format!(
        "SEQ=NXT{:+} LEN={} ACK=UNA{:+}",
        segment.seq.wrapping_sub(view.rcv_nxt) as i32,
        segment.payload.len(),
        segment.ack.wrapping_sub(view.una) as i32
    )
}
