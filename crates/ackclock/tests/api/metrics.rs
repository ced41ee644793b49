//! A stack in numbers: each has one name, which stands in the documentation, and says what happened.

use std::collections::BTreeSet;

use ackclock::{MetricKind, Metrics};
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
    let mut family = String::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["#", "TYPE", name, kind] => {
                assert!(name.starts_with("ackclock_") && ["counter", "gauge"].contains(&kind), "{line}");
                family = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            }
            ["#", "UNIT", name, unit] => assert!(name.ends_with(unit) && family == name, "{line}"),
            ["#", "HELP", name, _, ..] => assert!(family.starts_with(name), "{line}"),
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
}
