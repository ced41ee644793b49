//! Goal: the records of a traced connection leave in time, each once, whatever happens to the connection; and
//! a program that does not fetch them cannot make them grow without bound.

use super::*;
use crate::trace::{Batch, BatchCause, Entry, Failure, Record, Timer, TraceConfig, TraceKeep};

const ALL: TraceConfig = TraceConfig { records: 64, keep: TraceKeep::All };
const NEWEST: TraceConfig = TraceConfig { records: 64, keep: TraceKeep::Newest };

fn traced(trace: TraceConfig) -> (Host, ListenerId) {
    let tcp = TcpConfig { trace: Some(trace), ..TcpConfig::default() };
    Host::listening(ListenOptions { tcp: Some(tcp), ..on_port(PORT) })
}

fn batches(host: &mut Host) -> Vec<Batch> {
    std::iter::from_fn(|| host.endpoint.poll_trace()).collect()
}

fn causes(batches: &[Batch]) -> Vec<BatchCause> {
    batches.iter().map(|batch| batch.cause).collect()
}

fn entries(batches: &[Batch]) -> Vec<Entry> {
    let records = batches.iter().flat_map(|batch| &batch.records);
    records.map(|&record| Entry::decode(record).expect("a record that this version wrote")).collect()
}

/// Bytes arrive one after the other, and are read.
fn receive(host: &mut Host, id: ConnectionId, port: u16, iss: SeqNum, bytes: std::ops::Range<u32>) {
    for n in bytes {
        host.give(client(port), server(), ack(1001 + n, iss + 1), b"x");
        host.endpoint.update(host.now, id, |connection, now| connection.read(now, &mut [0; 8]).unwrap());
    }
}

fn bytes_received(entries: &[Entry]) -> u32 {
    let len = |entry: &Entry| if let Entry::Received { len, .. } = entry { *len } else { 0 };
    entries.iter().map(len).sum()
}

#[test]
fn a_whole_trace_leaves_in_full_batches_and_its_rest_at_the_end() {
    let (mut host, listener) = traced(ALL);
    let (id, iss) = host.accepted(listener, 4000);
    receive(&mut host, id, 4000, iss, 0..200);
    let full = batches(&mut host);
    assert!(full.len() > 2 && causes(&full).iter().all(|&cause| cause == BatchCause::Full));
    assert!(full.iter().all(|batch| batch.records.len() >= 64 && batch.missed == 0));

    // The peer closes, so does the application: the last acknowledgement ends it.
    host.from(4000, fields(Flags::FIN | Flags::ACK, 1201, iss + 1));
    host.endpoint.release(host.now, id);
    host.sent();
    host.from(4000, ack(1202, iss + 2));
    assert_eq!(host.endpoint.connections().count(), 0);
    let rest = batches(&mut host);
    assert_eq!(rest.last().map(|batch| batch.cause), Some(BatchCause::Ended));
    let all = entries(&[full, rest].concat());
    assert_eq!(bytes_received(&all), 200);
    assert_eq!(all.last(), Some(&Entry::State(State::LastAck, State::Closed)));
    let ends = all.iter().filter(|entry| matches!(entry, Entry::State(_, State::Closed)));
    assert_eq!(ends.count(), 1, "a connection ends once");
    assert!(!host.endpoint.has_traces());
}

#[test]
fn a_batch_says_whose_it_is() {
    let (mut host, listener) = traced(ALL);
    host.accepted(listener, 4000);
    host.accepted(listener, 4001);
    host.endpoint.request_traces();
    let found: Vec<_> = batches(&mut host)
        .iter()
        .map(|batch| {
            assert_eq!((batch.profile, batch.congestion, batch.cause), {
                let tcp = TcpConfig::default();
                (tcp.profile, tcp.congestion.name(), BatchCause::Requested)
            });
            (batch.connection, batch.tuple.local(), batch.tuple.remote())
        })
        .collect();
    assert_eq!(found, [(0, server(), client(4000)), (1, server(), client(4001))]);
}

#[test]
fn the_trace_of_an_orphan_ends_where_time_wait_becomes_a_record() {
    let (mut host, listener) = traced(ALL);
    let (id, iss) = host.accepted(listener, 4000);
    host.endpoint.release(host.now, id);
    host.sent();
    assert_eq!(batches(&mut host), []);
    host.from(4000, fields(Flags::FIN | Flags::ACK, 1001, iss + 2));
    assert_eq!(host.endpoint.connections().count(), 0);
    let batches = batches(&mut host);
    assert_eq!(causes(&batches), [BatchCause::Ended]);
    let states: Vec<Entry> =
        entries(&batches).into_iter().filter(|entry| matches!(entry, Entry::State(..))).collect();
    assert_eq!(states.last(), Some(&Entry::State(State::FinWait2, State::TimeWait)));
}

#[test]
fn closing_a_listener_gives_out_what_its_unaccepted_wrote_down() {
    let (mut host, listener) = traced(ALL);
    host.handshake(4000);
    host.endpoint.close_listener(host.now, listener);
    host.sent();
    let batches = batches(&mut host);
    assert_eq!(batches.first().map(|batch| batch.cause), Some(BatchCause::Failed));
    assert!(entries(&batches).contains(&Entry::Failed(Failure::Aborted)));
}

#[test]
fn a_flight_recorder_speaks_when_the_peer_resets() {
    let (mut host, listener) = traced(NEWEST);
    let (id, iss) = host.accepted(listener, 4000);
    receive(&mut host, id, 4000, iss, 0..100);
    assert!(!host.endpoint.has_traces(), "nothing has happened to it");
    host.from(4000, fields(Flags::RST, 1101, iss + 1));
    host.endpoint.release(host.now, id);
    let batches = batches(&mut host);
    assert_eq!(causes(&batches), [BatchCause::Failed], "once, not again when it is released");
    assert_eq!(batches[0].records.len(), 64);
    assert!(batches[0].missed > 100, "{}", batches[0].missed);
    let entries = entries(&batches);
    assert_eq!(entries.last(), Some(&Entry::Failed(Failure::Reset)));
    assert!(bytes_received(&entries) > 5, "what came before is there: {entries:?}");
}

#[test]
fn a_flight_recorder_of_a_connection_that_ends_well_says_nothing() {
    let (mut host, listener) = traced(NEWEST);
    let (id, iss) = host.accepted(listener, 4000);
    host.endpoint.release(host.now, id);
    host.sent();
    host.from(4000, fields(Flags::FIN | Flags::ACK, 1001, iss + 2));
    assert_eq!((host.endpoint.connections().count(), batches(&mut host)), (0, vec![]));
}

/// The changes that a host reports.
fn changes(host: &mut Host) -> Vec<Entry> {
    let batches: Vec<Batch> = std::iter::from_fn(|| host.endpoint.poll_changes()).collect();
    assert!(batches.iter().all(|batch| batch.cause == BatchCause::Changed && !batch.records.is_empty()));
    entries(&batches)
}

/// A host that reports changes, with a listener whose connections have this trace.
fn telling(trace: Option<TraceConfig>) -> (Host, ListenerId) {
    let mut host = Host::with(EndpointConfig { tell_changes: true, ..config(SERVER) });
    let tcp = TcpConfig { trace, ..TcpConfig::default() };
    let listener = host.endpoint.listen(host.now, ListenOptions { tcp: Some(tcp), ..on_port(PORT) }).unwrap();
    (host, listener)
}

#[test]
fn who_traces_a_connection_and_who_hears_of_changes_each_get_all_of_theirs() {
    for trace in [ALL, NEWEST, TraceConfig::CHANGES] {
        let (mut host, listener) = telling(Some(trace));
        let (id, iss) = host.accepted(listener, 4000);
        receive(&mut host, id, 4000, iss, 0..100);
        // A second trace of it with other settings takes nothing from the first.
        host.endpoint.update(host.now, id, |connection, now| connection.set_trace(now, Some(trace)));
        host.from(4000, fields(Flags::RST, 1101, iss + 1));
        host.endpoint.release(host.now, id);
        let told = changes(&mut host);
        assert_eq!(
            told[1..],
            [Entry::State(State::Established, State::Closed), Entry::Failed(Failure::Reset)],
            "{told:?}"
        );
        let traced = entries(&batches(&mut host));
        assert!(traced.contains(&Entry::Failed(Failure::Reset)), "{trace:?}: {traced:?}");
        let received = traced.iter().any(|entry| matches!(entry, Entry::Received { .. }));
        assert_eq!(received, trace != TraceConfig::CHANGES);
    }
}

#[test]
fn a_trace_of_changes_leaves_as_traces_do() {
    let (mut host, listener) = traced(TraceConfig::CHANGES);
    let (id, iss) = host.accepted(listener, 4000);
    host.from(4000, fields(Flags::RST, 1001, iss + 1));
    host.endpoint.release(host.now, id);
    let batches = batches(&mut host);
    assert_eq!(entries(&batches).last(), Some(&Entry::Failed(Failure::Reset)));
    assert_eq!(changes(&mut host), [], "the endpoint does not tell of them");
}

#[test]
fn changes_are_told_at_once_and_apart_from_traces() {
    let (mut host, listener) = telling(None);
    let (id, iss) = host.accepted(listener, 4000);
    assert!(host.endpoint.has_changes());
    let told = changes(&mut host);
    assert!(matches!(told[..], [Entry::State(_, State::Established)]), "{told:?}");
    receive(&mut host, id, 4000, iss, 0..100);
    host.endpoint.request_traces();
    assert_eq!(
        (host.endpoint.has_changes(), changes(&mut host)),
        (false, vec![]),
        "nothing has happened to it"
    );
    host.from(4000, fields(Flags::RST, 1101, iss + 1));
    assert_eq!(
        changes(&mut host),
        [Entry::State(State::Established, State::Closed), Entry::Failed(Failure::Reset)]
    );
    host.endpoint.release(host.now, id);
    assert_eq!((changes(&mut host), batches(&mut host)), (vec![], vec![]), "no trace beside them");
}

#[test]
fn a_stall_speaks_at_the_third_timeout_and_failure_at_the_last() {
    let (mut host, listener) = traced(NEWEST);
    let (id, _) = host.accepted(listener, 4000);
    host.endpoint.update(host.now, id, |connection, now| connection.write(now, b"anybody?").unwrap());
    host.sent();
    let mut stalled = Vec::new();
    while stalled.is_empty() {
        host.wait(Duration::from_millis(100));
        stalled = batches(&mut host);
    }
    assert_eq!(causes(&stalled), [BatchCause::Stalled]);
    let fired = |entry: &Entry| match entry {
        Entry::TimerFired { timer: Timer::Retransmission, count, .. } => Some(*count),
        _ => None,
    };
    assert_eq!(entries(&stalled).iter().filter_map(fired).collect::<Vec<_>>(), [1, 2, 3]);
    host.wait(Duration::from_secs(3600));
    let failed = batches(&mut host);
    assert_eq!(causes(&failed), [BatchCause::Failed]);
    assert_eq!(entries(&failed).last(), Some(&Entry::Failed(Failure::TimedOut)));
}

#[test]
fn the_end_of_the_driver_is_the_end_of_whole_traces_only() {
    for (trace, expected) in [(ALL, vec![BatchCause::Ended]), (NEWEST, vec![])] {
        let (mut host, listener) = traced(trace);
        host.accepted(listener, 4000);
        host.endpoint.end_traces();
        assert_eq!(causes(&batches(&mut host)), expected);
        host.endpoint.end_traces();
        assert_eq!(batches(&mut host), [], "there is no more");
    }
}

#[test]
fn who_does_not_fetch_loses_the_newest_records_and_is_told_how_many() {
    let (mut host, listener) = traced(ALL);
    let (id, iss) = host.accepted(listener, 4000);
    let mut sent = 0;
    // Batches of a few records, so that the overhead of a batch counts, too.
    let mut receive_one = |host: &mut Host| {
        receive(host, id, 4000, iss, sent..sent + 1);
        sent += 1;
        host.endpoint.request_traces();
    };
    while host.endpoint.counters().trace_records_dropped == 0 {
        receive_one(&mut host);
    }
    let held = batches(&mut host);
    let bytes = |batch: &Batch| size_of::<Batch>() + batch.records.capacity() * size_of::<Record>();
    let bytes: usize = held.iter().map(bytes).sum();
    assert!((16 << 20..=64 << 20).contains(&bytes), "{bytes}");
    assert!(held.iter().all(|batch| batch.missed == 0));
    receive_one(&mut host);
    let next = batches(&mut host);
    assert_eq!(next[0].missed, host.endpoint.counters().trace_records_dropped);
    assert_eq!(
        bytes_received(&entries(&[held, next].concat())),
        sent - 1,
        "the records cover all but one byte"
    );
}

#[test]
fn what_a_connection_has_recorded_is_copied_and_stays() {
    let (mut host, listener) = traced(ALL);
    let (id, iss) = host.accepted(listener, 4000);
    receive(&mut host, id, 4000, iss, 0..2);
    let copy = host.endpoint.recorded(id).unwrap();
    assert_eq!((copy.connection, copy.missed, copy.cause), (0, 0, BatchCause::Requested));
    assert_eq!(copy.tuple.remote(), client(4000));
    assert_eq!(bytes_received(&entries(std::slice::from_ref(&copy))), 2);
    host.endpoint.request_traces();
    let given = batches(&mut host);
    assert!(given[0].records.starts_with(&copy.records));
    assert_eq!(given[0].names, copy.names);

    let (mut untraced, listener) = Host::listening(on_port(PORT));
    let (id, _) = untraced.accepted(listener, 4000);
    assert_eq!(untraced.endpoint.recorded(id), None);
}

#[test]
fn what_is_fetched_in_whatever_way_no_longer_counts_as_waiting() {
    let fetches: [fn(&mut Endpoint) -> Option<Batch>; 3] =
        [Endpoint::poll_trace, |endpoint| endpoint.poll_trace_if(|_| true), Endpoint::poll_changes];
    for (fetch, tells) in fetches.into_iter().zip([false, false, true]) {
        let mut host = Host::with(EndpointConfig { tell_changes: tells, ..config(SERVER) });
        let tcp = TcpConfig { trace: (!tells).then_some(ALL), ..TcpConfig::default() };
        let options = ListenOptions { tcp: Some(tcp), ..on_port(PORT) };
        let listener = host.endpoint.listen(host.now, options).unwrap();
        let (id, iss) = host.accepted(listener, 4000);
        receive(&mut host, id, 4000, iss, 0..200);
        host.endpoint.update(host.now, id, |connection, now| connection.abort(now));
        let holds_none = |host: &Host| format!("{:?}", host.endpoint.traces).contains("held: 0,");
        assert!(!holds_none(&host));
        while fetch(&mut host.endpoint).is_some() {}
        assert!(holds_none(&host), "{:?}", host.endpoint.traces);
    }
}
