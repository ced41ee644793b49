//! Explicit congestion notification: RFC 3168 and RFC 9768 against a scripted peer, and both ends over links
//! that mark.

mod accurate;
mod classic;
mod links;
mod negotiation;

use ackclock_core::TcpConfig;
use ackclock_core::profile::{Choices, Ecn};
use ackclock_tests::script::{Script, Setup, peer_syn};
use ackclock_tests::segment::{ACK, Opt, SYN, seg};

const NOT_ECT: u8 = 0;
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// An endpoint with this setting, and a peer that takes SACK but no timestamps.
fn setup(ecn: Ecn) -> Setup {
    let tcp = TcpConfig {
        nodelay: true,
        choices: Choices { ecn, pacing: false, ..Choices::default() },
        ..TcpConfig::default()
    };
    Setup { tcp, peer_options: vec![Opt::Mss(1460), Opt::SackPermitted], ..Setup::default() }
}

/// An accepted connection whose peer put `offer` into the ECN flags of its SYN and `third` into those of the
/// acknowledgement that ends the handshake.
fn accepted(ecn: Ecn, offer: u8, third: u8) -> Script {
    let setup = setup(ecn);
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup).ace(offer));
    assert!(s.sent().has(SYN | ACK));
    s.peer(seg(ACK).seq(1).ack(1).ace(third));
    s.accept();
    s.nothing();
    s
}

/// An accepted connection that agreed on the classic form, or the accurate one.
fn agreed(ecn: Ecn) -> Script {
    match ecn {
        Ecn::Accurate => accepted(ecn, 0b111, 0b010),
        _ => accepted(ecn, 0b011, 0),
    }
}

/// A connection that was opened with this setting and answered by a SYN-ACK with these ECN flags; its
/// acknowledgement is still in the queue of sent segments.
fn connected(ecn: Ecn, answer: u8) -> Script {
    let setup = setup(ecn);
    let mut s = Script::connecting(&setup);
    s.sent();
    s.peer(peer_syn(&setup).ack(1).ace(answer));
    s
}

/// The codepoint of the next data that the endpoint sends after it has written `len` bytes from `seq` on.
fn codepoint_of_data(s: &mut Script, seq: u32, len: usize) -> u8 {
    s.write(seq, len);
    let frame = s.next_frame();
    assert_eq!(frame.seg.payload.len(), len);
    frame.traffic_class & 3
}
