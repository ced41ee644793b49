//! A connection in each of the states of RFC 9293 §3.3.2, brought there by segments and calls alone.

use ackclock_core::profile::Choices;
use ackclock_core::{EndpointConfig, Instant, TcpConfig};
use std::time::Duration;

use crate::oracle::{Phase, View};
use crate::script::{Script, Setup, pattern, peer_syn};
use crate::segment::{ACK, FIN, Opt, SYN, seg};

/// The situation of a connection when the segment arrives.
#[derive(Clone, Debug)]
pub struct Scene {
    /// When the endpoint starts; places its initial sequence number.
    pub start: Instant,
    /// The peer's initial sequence number.
    pub irs: u32,
    /// How much of the receive window is left.
    pub window: WindowLeft,
    /// Whether the peer has acknowledged more than its own largest window before.
    pub acked: bool,
}

/// How much of the receive window is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowLeft {
    /// All.
    Open,
    /// One byte.
    One,
    /// Nothing.
    Zero,
}

/// The largest window that the scene's peer advertises.
pub const PEER_WINDOW: u16 = 1_000;

/// Payload bytes that are in flight in every state that can have some.
pub const IN_FLIGHT: usize = 100;

/// Brings a connection into `phase`, and returns its view.
#[must_use]
pub fn bring(phase: Phase, scene: &Scene) -> (Script, View) {
    let setup = setup(scene);
    let mut script = match phase {
        Phase::Closed => Script::closed(&setup),
        Phase::Listen => Script::listening(&setup),
        Phase::SynSent => Script::connecting(&setup),
        Phase::SynReceivedPassive => half_open(&setup),
        Phase::SynReceivedActive => simultaneous(&setup),
        _ => Script::accepted(&setup),
    };
    let mut at = Progress { peer: 1, una: 1, nxt: 1, acked: 0 };
    if !matches!(
        phase,
        Phase::Closed | Phase::Listen | Phase::SynSent | Phase::SynReceivedPassive | Phase::SynReceivedActive
    ) {
        at.open(&mut script, scene, phase);
        at.close(&mut script, phase);
    }
    script.take_sent();
    let view = at.view(&script, phase);
    (script, view)
}

fn setup(scene: &Scene) -> Setup {
    Setup {
        // Small, so that a few segments fill a window.
        tcp: TcpConfig {
            receive_buffer_max: 4096,
            choices: Choices { window_scaling: false, ..Choices::default() },
            ..TcpConfig::default()
        },
        peer_options: vec![Opt::Mss(1460)],
        peer_window: PEER_WINDOW,
        irs: scene.irs,
        start: scene.start,
        config: |config: &mut EndpointConfig| config.connections_max = 16,
        ..Setup::default()
    }
}

fn half_open(setup: &Setup) -> Script {
    let mut script = Script::listening(setup);
    script.peer(peer_syn(setup));
    assert!(script.sent().has(SYN | ACK));
    script
}

fn simultaneous(setup: &Setup) -> Script {
    let mut script = Script::connecting(setup);
    assert!(script.sent().has(SYN));
    script.peer(peer_syn(setup));
    assert!(script.sent().has(SYN | ACK));
    script
}

/// Relative sequence numbers of both sides.
struct Progress {
    /// The peer's next.
    peer: u32,
    /// The endpoint's SND.UNA.
    una: u32,
    /// The endpoint's SND.NXT.
    nxt: u32,
    acked: u32,
}

impl Progress {
    /// The events in ESTABLISHED before anything closes.
    fn open(&mut self, script: &mut Script, scene: &Scene, phase: Phase) {
        if scene.acked {
            for _ in 0..2 {
                self.write(script, 600);
                self.acknowledge(script);
            }
            self.acked = 1200;
        }
        let leave = match scene.window {
            WindowLeft::Open => return,
            WindowLeft::One => 1,
            WindowLeft::Zero => 0,
        };
        // The peer's FIN takes a sequence number, which must lie in the window.
        let fin_follows =
            matches!(phase, Phase::CloseWait | Phase::Closing | Phase::LastAck | Phase::TimeWait);
        let leave = leave + u32::from(fin_follows);
        while script.edge.wrapping_sub(self.peer) > leave {
            let len = (script.edge - self.peer - leave).min(1460);
            script.peer(
                seg(ACK)
                    .seq(self.peer)
                    .ack(self.una)
                    .window(PEER_WINDOW)
                    .data(&pattern(self.peer, len as usize)),
            );
            self.peer += len;
            script.advance(Duration::from_millis(50));
        }
    }

    /// From ESTABLISHED, with data in flight, into the wanted state.
    fn close(&mut self, script: &mut Script, phase: Phase) {
        self.write(script, IN_FLIGHT);
        match phase {
            Phase::Established => {}
            Phase::FinWait1 => self.shutdown(script),
            Phase::FinWait2 => {
                self.shutdown(script);
                self.acknowledge(script);
            }
            Phase::CloseWait => self.peer_fin(script),
            Phase::Closing => {
                self.shutdown(script);
                self.peer_fin(script);
            }
            Phase::LastAck => {
                self.peer_fin(script);
                self.shutdown(script);
            }
            Phase::TimeWait => {
                self.shutdown(script);
                self.acknowledge(script);
                self.peer_fin(script);
            }
            _ => unreachable!("handled by `bring`"),
        }
    }

    fn write(&mut self, script: &mut Script, len: usize) {
        script.write(self.nxt, len);
        self.nxt += len as u32;
    }

    fn shutdown(&mut self, script: &mut Script) {
        script.shutdown();
        self.nxt += 1;
    }

    fn acknowledge(&mut self, script: &mut Script) {
        self.una = self.nxt;
        script.peer(seg(ACK).seq(self.peer).ack(self.una).window(PEER_WINDOW));
    }

    fn peer_fin(&mut self, script: &mut Script) {
        script.peer(seg(FIN).seq(self.peer).ack(self.una).window(PEER_WINDOW));
        self.peer += 1;
    }

    fn view(&self, script: &Script, phase: Phase) -> View {
        let iss = script.iss.unwrap_or(0);
        let (una, nxt) = match phase {
            Phase::SynSent | Phase::SynReceivedPassive | Phase::SynReceivedActive => {
                (iss, iss.wrapping_add(1))
            }
            _ => (iss.wrapping_add(self.una), iss.wrapping_add(self.nxt)),
        };
        View {
            phase,
            una,
            nxt,
            iss,
            max_wnd: u32::from(PEER_WINDOW),
            acked: self.acked,
            rcv_nxt: script.irs.wrapping_add(self.peer),
            rcv_wnd: match phase {
                // No window yet; an arbitrary number for the segments.
                Phase::Closed | Phase::Listen => 1_000,
                Phase::SynSent => u32::from(script.syn_window),
                _ => script.edge.wrapping_sub(self.peer),
            },
        }
    }
}

/// A start time at which a connection of the scripts' tuple gets the initial sequence number `wanted`.
///
/// RFC 9293 MUST-8: the number grows by one every 4 µs, so one probe at a known time tells the rest.
/// `passive`: the peer opens.
#[must_use]
pub fn start_for_iss(wanted: u32, passive: bool) -> Instant {
    let probe_ticks = 1_000_000_u64;
    let at = |ticks: u64| Instant::from_micros(4 * ticks);
    let setup = Setup { start: at(probe_ticks), ..Setup::default() };
    let script = if passive { half_open(&setup) } else { Script::connecting(&setup) };
    let iss = script.iss.expect("a SYN was sent");
    at(probe_ticks + u64::from(wanted.wrapping_sub(iss)))
}
