//! Series over time as CSV.

use ackclock_sim::Scenario;
use ackclock_sim::observe::Series;

/// A line for each sample: the time, then four values for each direction of each link, then four for each
/// traffic.
pub(super) fn csv(scenario: &Scenario, series: &Series) -> String {
    let mut head = vec!["seconds".to_owned()];
    for link in &scenario.links {
        for way in ["there", "back"] {
            let name = format!("{}:{way}", link.label());
            let columns = ["queue_packets", "queue_bytes", "sent_bytes", "dropped"];
            head.extend(columns.map(|column| quoted(&format!("{name} {column}"))));
        }
    }
    for traffic in &scenario.traffic {
        let columns = ["bytes", "bytes_back", "cwnd", "in_flight"];
        head.extend(columns.map(|column| quoted(&format!("{} {column}", traffic.name))));
    }
    let mut text = head.join(",") + "\n";
    for ((at, links), flows) in series.at_ns.iter().zip(&series.links).zip(&series.flows) {
        let mut line = vec![format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000)];
        for link in links {
            let values = [u64::from(link.queue_packets), link.queue_bytes, link.sent_bytes, link.dropped];
            line.extend(values.map(|value| value.to_string()));
        }
        for flow in flows {
            line.extend(
                [flow.bytes, flow.bytes_back, flow.cwnd, flow.in_flight].map(|value| value.to_string()),
            );
        }
        text += &line.join(",");
        text.push('\n');
    }
    text
}

/// A name as a field of CSV.
fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}
