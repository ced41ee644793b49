//! Goal: the account finds what is known to have happened to a connection.

use std::net::SocketAddr;
use std::time::Duration;

use ackclock_core::trace::{Batch, BatchCause, Entry, Limit, LossRule, SendReason, Timer, WindowCause};
use ackclock_core::{FourTuple, Instant, State};
use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Direction, Scenario, TcpSettings, TrafficConfig};

mod acks;
mod allowed;
mod causes;
mod samples;
mod verdicts;
mod waits;

use super::*;
use crate::file::{Origin, Source, Trace, TracedSource, Writer};

const MS: Duration = Duration::from_millis(1);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// A connection that waits 10 ms for its handshake, 20 for its application, 30 with a full window, of
/// which the 20 beyond the handshake's round trip are a queue's, is silent for 200 until a timer expires,
/// 2 of them because the timer was late, recovers for 40, and ends.
fn scripted() -> TracedSource {
    let window = |cause, cwnd| Entry::Window { cause, cwnd, ssthresh: u32::MAX };
    let sent = |reason, seq| sent(reason, seq, 1000);
    let entries = [
        (at(0), Entry::Sent { reason: SendReason::Handshake, flags: 2, seq: 0, len: 0 }),
        (at(10), Entry::State(State::SynSent, State::Established)),
        (at(30), sent(SendReason::NewData, 1)),
        (at(30), sent(SendReason::NewData, 1001)),
        (at(30), limited(Limit::Cwnd)),
        (at(60), Entry::Acked { duplicate: false, ack: 1001, window: 9999 }),
        (at(60), Entry::RoundTrip { sample_us: 30_000, rto_us: 200_000 }),
        (at(260), Entry::TimerFired { timer: Timer::Retransmission, late_us: 2000, count: 1 }),
        (at(260), Entry::Lost { rule: LossRule::Timeout, start: 1001, end: 2001 }),
        (at(260), window(WindowCause::Timeout, 1000)),
        (at(260), sent(SendReason::Retransmission, 1001)),
        (at(260), limited(Limit::Recovery)),
        (at(300), Entry::Acked { duplicate: false, ack: 2001, window: 9999 }),
        (at(300), limited(Limit::Finished)),
    ];
    traced("cubic", &[], &entries)
}

/// The records of a connection with this controller and these names of its numbers.
fn traced(congestion: &'static str, names: &[&'static str], entries: &[(Instant, Entry)]) -> TracedSource {
    let addr = |last: u8| SocketAddr::from(([10, 0, 0, last], 1000));
    let batch = Batch {
        connection: 0,
        tuple: FourTuple::new(addr(1), addr(2)),
        profile: "modern",
        congestion,
        names: names.to_vec(),
        records: entries.iter().map(|&(at, entry)| entry.encode(at)).collect(),
        missed: 0,
        cause: BatchCause::Ended,
    };
    let mut bytes = Vec::new();
    Writer::new(&mut bytes, &Origin::default()).unwrap().batch("", &batch).unwrap();
    Trace::read(&bytes).unwrap().sources.remove(0)
}

fn sent(reason: SendReason, seq: u32, len: u32) -> Entry {
    Entry::Sent { reason, flags: 0x10, seq, len }
}

fn acked(ack: u32) -> Entry {
    Entry::Acked { duplicate: false, ack, window: 99_999 }
}

fn fired(timer: Timer) -> Entry {
    Entry::TimerFired { timer, late_us: 0, count: 1 }
}

fn limited(by: Limit) -> Entry {
    Entry::Limited { by, in_flight: 0, unsent: 0 }
}

/// The sentence that contains `part`.
fn sentence(source: &TracedSource, part: &str) -> String {
    let said = sentences(source);
    said.iter().find(|said| said.contains(part)).unwrap_or_else(|| panic!("no {part} in {said:#?}")).clone()
}

fn is_silent_on(source: &TracedSource, part: &str) -> bool {
    !sentences(source).iter().any(|said| said.contains(part))
}

#[test]
fn time_goes_where_the_script_let_it_go() {
    let account = account(&scripted());
    let expected = [
        (Waiting::Handshake, 10 * MS),
        (Waiting::Application, 20 * MS),
        (Waiting::Host, 2 * MS),
        (Waiting::Cwnd, 10 * MS),
        (Waiting::Path, 20 * MS),
        (Waiting::Recovery, 40 * MS),
        (Waiting::Timeout, 198 * MS),
    ];
    assert_eq!(account.waits.time.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(account.duration, 300 * MS);
    assert_eq!((account.bytes_sent, account.again.bytes), (2000, 1000));
    assert_eq!(account.waits.timeouts, [Silence { at: at(260), lasted: 200 * MS, count: 1 }]);
    assert_eq!(account.waits.late, (1, 2 * MS));
}

#[test]
fn sentences_name_the_greatest_wait_first() {
    let said = sentences(&scripted());
    assert!(said[0].contains("sent 2000 bytes, and 1000 bytes again"), "{}", said[0]);
    assert!(said[1].starts_with("66.0 % of the time (198.0 ms) it waited in silence"), "{}", said[1]);
    let timeout = said.iter().find(|said| said.contains("timer ran out after")).unwrap();
    assert!(timeout.starts_with("1 retransmission timer ran out after 200.0 ms"), "{timeout}");
}

#[test]
fn a_byte_that_was_sent_twice_says_why() {
    let source = scripted();
    let events: Vec<_> = history(&source, 1500).into_iter().map(|(_, event)| event).collect();
    assert_eq!(
        events,
        [
            Event::Sent(SendReason::NewData),
            Event::Lost(LossRule::Timeout),
            Event::Sent(SendReason::Retransmission),
            Event::Acked
        ]
    );
    let said = byte_sentences(&source, 1500);
    assert!(
        said[1].ends_with("declared lost: the retransmission timer ran out (RFC 6298 §5)."),
        "{}",
        said[1]
    );
    assert!(byte_sentences(&source, 5000).is_empty());
}

/// The sender's end of a simulated transfer of 200 KB.
fn simulated(tcp: TcpSettings, peer: TcpSettings, buffers: u64, bytes_per_second: u64) -> TracedSource {
    let link = Direction::new(Rate::bytes_per_second(bytes_per_second), Span::millis(20)).buffers(buffers);
    let mut sources = transfer(200_000, tcp.traced(), peer, [link.clone(), link]);
    assert_eq!(sources.len(), 1);
    let source = sources.remove(0);
    assert!(matches!(&source.source, Source::Connection { host, .. } if host == "a"));
    source
}

/// The traced ends of a transfer from `a` to `b`, and back over the second link.
fn transfer(
    bytes: u64,
    tcp: TcpSettings,
    peer: TcpSettings,
    [there, back]: [Direction; 2],
) -> Vec<TracedSource> {
    let mut traffic = TrafficConfig::bulk("transfer", "a", "b", Some(Bytes(bytes)));
    traffic.tcp = tcp;
    traffic.peer_tcp = peer;
    let scenario = Scenario::new(Span::seconds(600)).host("a").host("b");
    let scenario = scenario.asymmetric("a", "b", there, back).traffic(traffic);
    let (_, trace) = crate::testing::traced(&scenario, None);
    trace.sources
}

/// 10 Mbit/s and a round trip of 40 ms.
fn path() -> Direction {
    Direction::new(Rate::mbit(10), Span::millis(20))
}

/// The sender's end of a transfer of a megabyte over this link.
fn megabyte(there: Direction) -> TracedSource {
    transfer(1_000_000, TcpSettings::default().traced(), TcpSettings::default(), [there, path()]).remove(0)
}

fn share(source: &TracedSource, what: Waiting) -> f64 {
    let account = account(source);
    account.waits.time.get(&what).map_or(0.0, Duration::as_secs_f64) / account.duration.as_secs_f64()
}

#[test]
fn a_small_window_of_the_peer_takes_most_of_the_time() {
    let peer = TcpSettings::default().fixed_window(4000);
    let source = simulated(TcpSettings::default(), peer, 100, 1_000_000);
    assert!(share(&source, Waiting::PeerWindow) > 0.8, "{:?}", account(&source));
}

#[test]
fn a_full_window_before_a_slow_link_is_the_path() {
    // 200 KB at 100 KB/s: the link works for two seconds, whatever the window.
    let source = simulated(TcpSettings::profile("reno-1990"), TcpSettings::default(), 20, 100_000);
    let account = account(&source);
    let most = account.waits.time.iter().max_by_key(|(_, time)| **time);
    assert_eq!(most.map(|(what, _)| *what), Some(Waiting::Path), "{account:?}");
}

#[test]
fn timers_alone_leave_long_silences() {
    let source = simulated(TcpSettings::profile("none-1987"), TcpSettings::default(), 3, 50_000);
    assert!(share(&source, Waiting::Timeout) > 0.2, "{:?}", account(&source));
    assert!(account(&source).waits.timeouts.len() > 1);
}
