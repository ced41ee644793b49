//! A stack in numbers: each has one name, which stands in the documentation, and says what happened.

use std::collections::BTreeSet;

use ackclock::{Histogram, Measure, MetricKind, Metrics};
use ackclock_test_support::snapshot;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{SERVER, accepted, addr, hosts};

/// The page that the documentation of `Metrics` shows.
fn page(metrics: &Metrics) -> String {
    let mut page = "| name | in the text | kind | what it is |\n|---|---|---|---|\n".to_owned();
    for metric in metrics.iter() {
        let suffix = if metric.kind == MetricKind::Counter { "_total" } else { "" };
        let (name, help) = (metric.name, metric.help);
        page += &format!("| `{name}` | `ackclock_{name}{suffix}` | {} | {help} |\n", metric.kind.name());
    }
    for Measure { name, help, .. } in metrics.histograms().map(Histogram::measure) {
        page += &format!("| `{name}` | `ackclock_{name}` | histogram | {help} |\n");
    }
    page
}

#[tokio::test]
async fn every_name_is_unique_well_formed_and_documented() {
    let metrics = hosts().client.metrics();
    let names: BTreeSet<&str> = metrics.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), metrics.iter().count(), "each name once");
    for metric in metrics.iter() {
        let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        assert!(metric.name.chars().all(is_plain) && !metric.name.ends_with("_total"), "{metric:?}");
        assert!(metric.unit.is_empty() || metric.name.ends_with(metric.unit), "{metric:?}");
        assert!(metric.help.ends_with('.') && !metric.help.contains(['\\', '\n', '"', '|']), "{metric:?}");
    }
    let (page, path) = (page(&metrics), concat!(env!("CARGO_MANIFEST_DIR"), "/src/metrics.md"));
    snapshot::compare(path, &page);
}

#[tokio::test]
async fn the_numbers_are_those_of_the_run() {
    let hosts = hosts();
    let before = hosts.server.metrics();
    assert_eq!(
        (before.get("up"), before.get("connections"), before.get("opened_passively")),
        (Some(1), Some(0), Some(0))
    );
    let listener = hosts.server.listen(addr(SERVER)).unwrap();
    let (mut one, mut peer) = accepted(&hosts.client, &listener).await;
    let (other, other_peer) = accepted(&hosts.client, &listener).await;
    one.write_all(&[7; 1000]).await.unwrap();
    peer.readable().await.unwrap();

    let metrics = hosts.server.metrics();
    let get = |name| metrics.get(name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!((get("connections"), get("connections_established"), get("connections_opening")), (2, 2, 0));
    assert_eq!((get("listeners"), get("udp_sockets"), get("opened_passively")), (1, 0, 2));
    assert_eq!((get("receive_queue_bytes"), get("mtu_bytes")), (1000, hosts.server.info().mtu as u64));
    assert!(get("memory_used_bytes") >= 1000 && get("memory_used_bytes") < get("memory_max_bytes"));
    let counters = hosts.server.counters();
    assert_eq!(get("packets_received"), counters.packets_received);
    assert_eq!(metrics.get("no_such_name"), None);

    peer.read_exact(&mut [0; 1000]).await.unwrap();
    drop((one, peer, other, other_peer, listener));
    hosts.server.shutdown().await;
    let after = hosts.server.metrics();
    assert_eq!(
        (after.get("up"), after.get("listeners"), after.get("receive_queue_bytes")),
        (Some(0), Some(0), Some(0))
    );
    assert_eq!(after.get("opened_passively"), Some(2), "counters stay");
}

#[tokio::test]
async fn the_text_is_openmetrics() {
    let hosts = hosts();
    let _connection = crate::support::connection(&hosts).await;
    let metrics = hosts.client.metrics();
    let text = metrics.to_string();
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let mut samples = 0;
    let (mut family, mut is_histogram) = (String::new(), false);
    for line in text.lines().filter(|line| *line != "# EOF") {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["#", "TYPE", name, kind] => {
                let kinds = ["counter", "gauge", "histogram"];
                assert!(name.starts_with("ackclock_") && kinds.contains(&kind), "{line}");
                is_histogram = kind == "histogram";
                family = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            }
            ["#", "UNIT", name, unit] => assert!(name.ends_with(unit) && family == name, "{line}"),
            ["#", "HELP", name, _, ..] => assert!(family.starts_with(name), "{line}"),
            [name, value] if is_histogram => {
                let part = name.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("{line}"));
                let bound = part.strip_prefix("_bucket{le=\"").and_then(|part| part.strip_suffix("\"}"));
                let is_bound = bound.is_some_and(|bound| bound == "+Inf" || bound.parse::<f64>().is_ok());
                assert!(is_bound || part == "_count" || part == "_sum", "{line}");
                value.parse::<f64>().unwrap();
            }
            [name, value] => {
                assert_eq!(name, family);
                value.parse::<u64>().unwrap();
                samples += 1;
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(samples, metrics.iter().count());
    assert!(text.contains("\nackclock_opened_actively_total 1\n"), "{text}");
    assert!(text.contains("\n# UNIT ackclock_memory_used_bytes bytes\n"), "{text}");
    assert!(text.contains("\nackclock_handshake_seconds_bucket{le=\"+Inf\"} 1\n"), "{text}");
    assert!(text.contains("\nackclock_rtt_seconds_count 0\n"), "the connection is open: {text}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_in_the_histograms_from_its_end_on() {
    let hosts = hosts();
    let (mut one, mut other) = crate::support::connection(&hosts).await;
    one.write_all(&[7; 100_000]).await.unwrap();
    one.shutdown().await.unwrap();
    let mut received = Vec::new();
    other.read_to_end(&mut received).await.unwrap();
    let counts = |metrics: &Metrics| metrics.histograms().map(Histogram::count).collect::<Vec<_>>();
    assert_eq!(counts(&hosts.client.metrics())[1..], [0, 0, 0]);
    drop((one, other));
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let both = [hosts.client.metrics(), hosts.server.metrics()];
    // One end has sent all of the data.
    assert_eq!(both.each_ref().map(|metrics| counts(metrics)[3]).iter().sum::<u64>(), 1);
    assert_eq!(both.each_ref().map(|metrics| counts(metrics)[0]), [1, 1]);
    let text = both[0].to_string() + &both[1].to_string();
    assert!(text.contains("\nackclock_retransmitted_ratio_bucket{le=\"0.0\"} 1\n"), "{text}");
}
