//! Goal: a silence ended by a tail probe is distinguished from one ended by a timeout, and no share is shown
//! as 0.0 %.

use ackclock_sim::scenario::Scripted;

use super::*;

/// 10 ms of handshake, 20 of application; two segments, one answered after 30, 20 more than a round trip;
/// a probe after 80 more, a timeout after another 150; the rest is recovery.
fn probed() -> TracedSource {
    traced(
        "cubic",
        &[],
        &[
            (at(0), sent(SendReason::Handshake, 0, 0)),
            (at(10), Entry::State(State::SynSent, State::Established)),
            (at(30), sent(SendReason::NewData, 1, 1000)),
            (at(30), sent(SendReason::NewData, 1001, 1000)),
            (at(30), limited(Limit::Cwnd)),
            (at(60), acked(1001)),
            (at(140), fired(Timer::TailProbe)),
            (at(140), sent(SendReason::TailProbe, 1001, 1000)),
            (at(290), fired(Timer::Retransmission)),
            (at(290), sent(SendReason::Retransmission, 1001, 1000)),
            (at(290), limited(Limit::Recovery)),
            (at(300), acked(2001)),
        ],
    )
}

#[test]
fn silence_before_a_probe_is_apart_from_that_before_a_timeout() {
    let account = account(&probed());
    let expected = [
        (Waiting::Handshake, 10 * MS),
        (Waiting::Application, 20 * MS),
        (Waiting::Cwnd, 10 * MS),
        (Waiting::Path, 20 * MS),
        (Waiting::Recovery, 10 * MS),
        (Waiting::Timeout, 150 * MS),
        (Waiting::TailProbe, 80 * MS),
    ];
    assert_eq!(account.waits.time.iter().map(|(what, time)| (*what, *time)).collect::<Vec<_>>(), expected);
    assert_eq!(account.waits.probes, [Silence { at: at(140), lasted: 80 * MS, count: 1 }]);
    assert_eq!(account.to_json()["waiting"]["tail-probe"], 0.08);
    assert_eq!(account.to_json()["tail_probes"]["silences"][0]["silence"], 0.08);
    let said = sentence(&probed(), "tail probe was sent");
    assert!(said.starts_with("1 tail probe was sent after 80.0 ms of silence altogether"), "{said}");
    let said = sentence(&probed(), "until a tail probe was due");
    assert!(said.starts_with("26.7 % of the time (80.0 ms)"), "{said}");
}

#[test]
fn data_that_leaves_before_a_probe_shortens_the_silence() {
    let source = traced(
        "cubic",
        &[],
        &[
            (at(0), acked(1)),
            (at(0), sent(SendReason::NewData, 1, 1000)),
            (at(0), limited(Limit::Cwnd)),
            (at(50), sent(SendReason::NewData, 1001, 1000)),
            (at(150), fired(Timer::TailProbe)),
        ],
    );
    assert_eq!(account(&source).waits.time[&Waiting::TailProbe], 100 * MS);
}

#[test]
fn lost_tail_costs_the_time_of_a_probe_and_no_timeout() {
    // 1,000,000 bytes are 691 segments. The last is lost once.
    let last = Scripted { packets: vec![691], data: true, of: None };
    let account = account(&megabyte(Direction { drop: vec![last], ..path() }));
    assert_eq!((account.waits.timeouts.len(), account.waits.probes.len()), (0, 1), "{account:?}");
    let waited = account.waits.time[&Waiting::TailProbe];
    // Two smoothed round trips, queueing included, after the last acknowledgement.
    assert!((40 * MS..=300 * MS).contains(&waited), "{waited:?}");
    let whole = super::account(&megabyte(path()));
    assert!(
        whole.waits.probes.is_empty() && !whole.waits.time.contains_key(&Waiting::TailProbe),
        "{whole:?}"
    );
}

/// 100 seconds of waiting for the application, interrupted by other waits, given in microseconds.
fn patient(others: &[(Limit, u64)]) -> TracedSource {
    let mut entries = vec![(at(0), acked(1)), (at(0), limited(Limit::Application))];
    let mut micros = 1_000_000;
    for &(by, lasted) in others {
        entries.push((Instant::from_nanos(micros * 1000), limited(by)));
        micros += lasted;
        entries.push((Instant::from_nanos(micros * 1000), limited(Limit::Application)));
        micros += 1_000_000;
    }
    entries.push((at(100_000), acked(1)));
    traced("cubic", &[], &entries)
}

#[test]
fn waits_too_short_for_a_digit_are_one_line_or_none() {
    let short = [(Limit::Cwnd, 30_000), (Limit::Recovery, 20_000), (Limit::Nagle, 10_000)];
    let said = sentences(&patient(&short));
    let other = said.iter().find(|said| said.contains("other waits")).expect("60 ms of 100 s");
    assert_eq!(other, "0.1 % of the time (60.0 ms) went to other waits: cwnd, recovery, nagle.");
    let is_nothing = |said: &String| said.starts_with("0.0 %") || said.contains(" 0.0 %");
    assert!(!said.iter().any(is_nothing), "{said:#?}");
    let said = sentences(&patient(&short[1..]));
    assert!(!said.iter().any(|said| is_nothing(said) || said.contains("other waits")), "{said:#?}");
    let said = sentences(&patient(&[(Limit::Cwnd, 50_000)]));
    assert!(
        said.iter().any(|said| said.starts_with("0.1 % of the time (50.0 ms) the congestion")),
        "{said:#?}"
    );
    // The account itself loses nothing.
    assert_eq!(account(&patient(&short)).waits.time[&Waiting::Cwnd], 30 * MS);
}
