//! Goal: with the feature `tracing` each connection is a span, and what changes it or costs it data is an
//! event within it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ackclock::device::impair::{Impaired, Network, Settings};
use ackclock::device::memory;
use ackclock::trace::{Entry, Failure, TraceConfig};
use ackclock::{Stack, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

/// One span, open or closed, with its fields and events.
#[derive(Clone, Debug, Default)]
struct Told {
    fields: BTreeMap<String, String>,
    events: Vec<BTreeMap<String, String>>,
    handles: usize,
}

/// Collects the spans and events of ackclock.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Collected>>);

#[derive(Default)]
struct Collected {
    spans: Vec<Told>,
    entered: Vec<u64>,
    without_span: usize,
    /// The subscriber looks at it with every event, like one that writes its log through the stack.
    stack: Option<Stack>,
}

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "ackclock"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        assert!(attributes.is_root(), "a span of its own, whatever the caller's");
        let mut told = Told { handles: 1, ..Told::default() };
        attributes.record(&mut Fields(&mut told.fields));
        let mut collected = self.0.lock().unwrap();
        collected.spans.push(told);
        Id::from_u64(collected.spans.len() as u64)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let stack = {
            let mut collected = self.0.lock().unwrap();
            match collected.entered.last().copied() {
                Some(id) => collected.spans[id as usize - 1].events.push(fields),
                None => collected.without_span += 1,
            }
            collected.stack.clone()
        };
        // No lock of the stack is held here.
        drop(stack.map(|stack| stack.info()));
    }

    fn enter(&self, id: &Id) {
        self.0.lock().unwrap().entered.push(id.into_u64());
    }

    fn exit(&self, id: &Id) {
        assert_eq!(self.0.lock().unwrap().entered.pop(), Some(id.into_u64()));
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.0.lock().unwrap().spans[id.into_u64() as usize - 1].handles += 1;
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut collected = self.0.lock().unwrap();
        let told = &mut collected.spans[id.into_u64() as usize - 1];
        told.handles -= 1;
        told.handles == 0
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
}

impl Collector {
    fn new() -> (Self, DefaultGuard) {
        let collector = Self::default();
        let guard = tracing::subscriber::set_default(collector.clone());
        (collector, guard)
    }

    /// The span whose local end this is.
    fn of(&self, local: &str) -> Told {
        let collected = self.0.lock().unwrap();
        let mut found = collected.spans.iter().filter(|told| told.fields["local"] == local);
        let told =
            found.next().unwrap_or_else(|| panic!("no span of {local}: {:?}", collected.spans)).clone();
        assert!(found.next().is_none(), "one span for {local}");
        told
    }

    fn without_span(&self) -> usize {
        self.0.lock().unwrap().without_span
    }
}

impl Told {
    fn messages(&self) -> Vec<&str> {
        self.events.iter().map(|event| event["message"].as_str()).collect()
    }

    /// The states it came to.
    fn states(&self) -> Vec<&str> {
        self.events.iter().filter_map(|event| event.get("to")).map(String::as_str).collect()
    }
}

/// A client behind a network that can lose everything, and a server.
fn hosts() -> (Stack, Stack, Network) {
    let (left, right) = memory::pair(memory::Config::default());
    let left = Impaired::new(left, 1, Settings::default(), Settings::default()).unwrap();
    let network = left.handle();
    let host = |address: &str| Stack::builder().address(address.parse().unwrap()).seed(7);
    let client = host("10.0.0.1/24").device(left).spawn().unwrap();
    (client, host("10.0.0.2/24").device(right).spawn().unwrap(), network)
}

async fn connection(client: &Stack, server: &Stack) -> (TcpStream, TcpStream) {
    let listener = server.listen("10.0.0.2:80".parse().unwrap()).unwrap();
    let socket = client.socket();
    socket.bind("10.0.0.1:4000".parse().unwrap()).unwrap();
    let (stream, accepted) = tokio::join!(socket.connect("10.0.0.2:80".parse().unwrap()), listener.accept());
    (stream.unwrap(), accepted.unwrap().0)
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_a_span_from_its_syn_to_time_wait() {
    let (collector, _guard) = Collector::new();
    let (client, server, _network) = hosts();
    collector.0.lock().unwrap().stack = Some(client.clone());
    let (mut stream, mut peer) = connection(&client, &server).await;
    stream.shutdown().await.unwrap();
    peer.read_to_end(&mut Vec::new()).await.unwrap();
    drop(peer);
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    sleep(Duration::from_secs(1)).await;

    let told = collector.of("10.0.0.1:4000");
    assert_eq!(told.fields["remote"], "10.0.0.2:80");
    assert_eq!((told.fields["congestion"].as_str(), told.fields["profile"].as_str()), ("cubic", "modern"));
    assert_eq!(told.states(), ["SynSent", "Established", "FinWait1", "FinWait2", "TimeWait"]);
    assert_eq!(told.handles, 0, "the span is closed");
    let told = collector.of("10.0.0.2:80");
    assert_eq!((told.states().last(), told.handles), (Some(&"Closed"), 0));
    assert_eq!(collector.without_span(), 0);
    collector.0.lock().unwrap().stack = None;
}

#[tokio::test(start_paused = true)]
async fn a_reset_and_its_reason_are_told_at_both_ends() {
    let (collector, _guard) = Collector::new();
    let (client, server, _network) = hosts();
    let (stream, peer) = connection(&client, &server).await;
    peer.abort();
    sleep(Duration::from_secs(1)).await;
    drop(stream);
    let reason = |local: &str| {
        let told = collector.of(local);
        let failed = told.events.iter().find(|event| event["message"] == "failed").expect("a reason");
        (failed["reason"].clone(), told.handles)
    };
    assert_eq!(reason("10.0.0.1:4000"), ("reset".to_owned(), 0));
    assert_eq!(reason("10.0.0.2:80"), ("aborted".to_owned(), 0));

    // No listener is there.
    let refused = client.connect("10.0.0.2:81".parse().unwrap()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let spans = collector.0.lock().unwrap().spans.clone();
    let told = spans.iter().find(|told| told.fields["remote"] == "10.0.0.2:81").expect("a span");
    assert_eq!((told.messages(), told.handles), (vec!["state changed", "state changed", "failed"], 0));
    assert_eq!(told.events[2]["reason"], "refused");
}

#[tokio::test(start_paused = true)]
async fn losses_and_timeouts_are_told_with_their_rules() {
    let (collector, _guard) = Collector::new();
    let (client, server, network) = hosts();
    let (mut stream, mut peer) = connection(&client, &server).await;
    network.set_blackout(true);
    stream.write_all(&[7; 10_000]).await.unwrap();
    sleep(Duration::from_secs(3)).await;
    network.set_blackout(false);
    peer.read_exact(&mut [0; 10_000]).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let told = collector.of("10.0.0.1:4000");
    let timeouts: Vec<_> = told.events.iter().filter_map(|event| event.get("in_a_row")).collect();
    assert!(timeouts.len() >= 2 && timeouts[0] == "1" && timeouts[1] == "2", "{timeouts:?}");
    let lost: Vec<_> = told.events.iter().filter(|event| event["message"] == "lost").collect();
    assert!(!lost.is_empty() && lost.iter().all(|event| event.contains_key("rule")), "{told:?}");
    let bytes: u32 = lost.iter().map(|event| event["bytes"].parse::<u32>().unwrap()).sum();
    assert!(bytes >= 10_000, "{lost:?}");
    assert_eq!(told.states(), ["SynSent", "Established"]);
    assert!(told.handles > 0, "it is open");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_has_a_trace_of_its_own_is_told_of_all_the_same() {
    for trace in [TraceConfig::FULL, TraceConfig::FLIGHT_RECORDER, TraceConfig::CHANGES] {
        let (collector, _guard) = Collector::new();
        let (client, server, _network) = hosts();
        let socket = client.socket();
        socket.set_trace(Some(trace)).unwrap();
        assert!(socket.connect("10.0.0.2:81".parse().unwrap()).await.is_err());
        let mut records = Vec::new();
        while !records.contains(&Entry::Failed(Failure::Refused)) {
            let batch = client.next_trace().await.expect("the stack is up");
            records.extend(batch.records.into_iter().filter_map(Entry::decode));
        }
        let sent = records.iter().filter(|entry| matches!(entry, Entry::Sent { .. })).count();
        assert_eq!(sent, usize::from(trace != TraceConfig::CHANGES), "its trace is whole: {records:?}");
        let spans = collector.0.lock().unwrap().spans.clone();
        let told = spans.iter().find(|told| told.fields["remote"] == "10.0.0.2:81").expect("a span");
        assert_eq!(told.messages(), ["state changed", "state changed", "failed"]);
        drop(server);
    }
}

#[tokio::test(start_paused = true)]
async fn a_trace_that_begins_in_the_middle_takes_nothing_from_the_span() {
    let (collector, _guard) = Collector::new();
    let (client, server, _network) = hosts();
    let (mut stream, mut peer) = connection(&client, &server).await;
    stream.set_trace(Some(TraceConfig::FULL)).unwrap();
    stream.shutdown().await.unwrap();
    stream.set_trace(None).unwrap();
    peer.read_to_end(&mut Vec::new()).await.unwrap();
    drop(peer);
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let told = collector.of("10.0.0.1:4000");
    assert_eq!(told.states(), ["SynSent", "Established", "FinWait1", "FinWait2", "TimeWait"]);
}
