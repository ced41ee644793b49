//! A peer that acknowledges each segment in many pieces (S. Savage, N. Cardwell, D. Wetherall and T.
//! Anderson, "TCP Congestion Control with a Misbehaving Receiver", ACM CCR 29(5), 1999, §2.1: ACK division).

use super::*;
use crate::congestion::Registry;

/// The window in segments after each of `rounds` round trips of 20 ms. The peer acknowledges `segments` at a
/// time, in `pieces`. After `loss`, one segment of the first window is lost.
fn windows(name: &str, loss: bool, rounds: usize, (segments, pieces): (u64, u64)) -> Vec<u64> {
    let mut tcp = reno();
    tcp.congestion = Registry::builtin().find(name).unwrap();
    let mut sender = Sender::new(tcp);
    let mut una = at(0);
    if loss {
        sender.send(20).wait(20).ack(0, &[(1, 20)]);
        sender.resend(1);
        sender.wait(20).ack(20, &[]);
        una = at(20);
    }
    let mut windows = Vec::new();
    for _ in 0..rounds {
        let room = sender.flight.room() / SMSS;
        sender.send(room);
        sender.flight.note_cwnd_limited();
        sender.wait(20);
        let nxt = sender.flight.nxt();
        while una < nxt {
            let end = nxt.min(una + segments * SMSS);
            let (from, size) = (una, end.since(una));
            for piece in 1..=pieces {
                una = from + size * piece / pieces;
                sender.acknowledge_before(una, &[]);
            }
        }
        windows.push(sender.flight.cwnd() / SMSS);
    }
    windows
}

const EACH: (u64, u64) = (1, 1);
const EVERY_SECOND: (u64, u64) = (2, 1);
const IN_TWENTY_PIECES: (u64, u64) = (2, 20);

/// RFC 3465 §2 and RFC 5681 §3.1 ("ACK Division"): the window grows by what is acknowledged, not by the
/// number of acknowledgements. No controller gains more by pieces than by an acknowledgement of each segment.
#[test]
fn pieces_gain_no_more_than_acknowledgements_of_each_segment() {
    for name in Registry::builtin().names() {
        for (loss, rounds) in
            [(false, 6), (true, 12)].into_iter().filter(|(loss, _)| !loss || !name.starts_with("bbr"))
        {
            let each = windows(name, loss, rounds, EACH);
            let pieces = windows(name, loss, rounds, IN_TWENTY_PIECES);
            for (each, pieces) in each.iter().zip(&pieces) {
                assert!(*pieces <= each + 1, "{name}, loss {loss}: {pieces} by pieces, {each} by segments");
            }
        }
    }
}

/// Of the algorithms that count bytes none gains anything over a peer that acknowledges every second segment
/// honestly. CARD's description does not say how it starts, so it counts bytes too.
///
/// The others count acknowledgements: V. Jacobson and M. Karels, 1988, §1 and §3 ("On each ack for new data,
/// increase cwnd by one packet"), and Reno as L. Brakmo and L. Peterson tell of it, 1995, §III-C ("an extra
/// segment for each ACK received"), on which Vegas and BFA build. The papers on DUAL and Tri-S do not mention
/// it: these start as 4.3BSD did.
#[test]
fn pieces_gain_nothing_where_bytes_count() {
    for name in Registry::builtin().names().filter(|name| !COUNT_ACKNOWLEDGEMENTS.contains(name)) {
        let honest = windows(name, false, 8, EVERY_SECOND);
        let pieces = windows(name, false, 8, IN_TWENTY_PIECES);
        for (honest, pieces) in honest.iter().zip(&pieces) {
            assert!(*pieces <= honest + 1, "{name}: {pieces} by pieces, {honest} honestly");
        }
    }
}

const COUNT_ACKNOWLEDGEMENTS: [&str; 13] = [
    "bfa",
    "bfa-decreasing",
    "bfa-gentle",
    "bfa-path",
    "dual",
    "net2-reno",
    "newreno",
    "tahoe",
    "tri-s",
    "vegas",
    "vegas-2-4",
    "vegas-star",
    "vegas-usc",
];
