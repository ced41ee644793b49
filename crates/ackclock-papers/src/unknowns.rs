//! The points that the papers leave open: settings by experiment, and the values to try.

use crate::{Experiment, Unknown};

/// The points that the paper of `experiment` leaves open, with the values to try. Empty if none of them
/// decides, or if the experiment's own tables show it.
///
/// The keys are those of [`Changes`](crate::Changes).
#[must_use]
pub fn unknowns(experiment: &Experiment) -> Vec<Unknown> {
    let unknown = |(key, values): &(&str, &str)| Unknown {
        key: (*key).to_owned(),
        values: values.split_whitespace().map(str::to_owned).collect(),
    };
    let of = OPEN.iter().find(|(id, _)| *id == experiment.id);
    of.map_or_else(Vec::new, |(_, open)| open.iter().map(unknown).collect())
}

/// Queues hold a packet less than a router has buffers: the one that is being sent holds one.
const OPEN: &[(&str, &[(&str, &str)])] = &[
    // The path's delay (the paper counts six hops), and what others take of the link.
    ("JE3/4", &[("open.delay-ms", "10 50 80 110 150"), ("open.others-percent", "0 10 20 30")]),
    // A path of the Arpanet, and how long its hosts take for a packet.
    (
        "JE5/6",
        &[("link.bottleneck.there.delay", "50ms 100ms 200ms 400ms"), ("host.*.tcp.mss", "256 512 1024")],
    ),
    // The link's delay, and the room before it to within a few packets.
    (
        "JE7-12",
        &[
            ("open.delay-ms", "3 10 30 50 70"),
            ("link.bottleneck.there.queue.drop-tail.limit", "45packets 50packets 55packets"),
        ],
    ),
    // Who acknowledges when, the delay to within a few ms, and which packets hold a buffer.
    ("VE5/7", &[RECEIVERS, ("link.bottleneck.there.delay", "48ms 50ms 52ms"), BUFFERS_OF_10]),
    ("VE9/10", &[("open.every-ms", "100 125 160"), ("link.bottleneck.there.queue.drop-tail.limit", BUFFERS)]),
    ("VE11", &[RECEIVERS, ("link.bottleneck.there.delay", "40ms 45ms 50ms 55ms 60ms")]),
    ("VT3", &[RECEIVERS, ("link.bottleneck.there.delay", "48ms 50ms 52ms")]),
    ("VT4", &[("open.every-ms", "100 115 125 140 160"), RECEIVERS]),
    (
        "VF",
        &[
            ("link.bottleneck.there.queue.drop-tail.limit", "9packets 19packets 39packets"),
            ("open.host-ms", "1 3 7 14"),
        ],
    ),
    ("VQ", &[("link.bottleneck.there.queue.drop-tail.limit", BUFFERS), RECEIVERS]),
    ("BE4-6", &[DELAYS, PEERS]),
    ("BE7-10", &[DELAYS, PEERS]),
    ("BE11/12", &[("link.bottleneck.there.delay", "50ms 100ms 150ms"), PEERS]),
    // Whether losses come in bursts, whether waits last, how long the shortest path is, how busy the lines
    // are.
    (
        "AT1-4",
        &[
            FEWER_PATHS,
            ("open.burst-ms", "0 45 150"),
            ("open.wait-lasts-ms", "0 300"),
            ("open.routers-ms", "3 30"),
            ("open.load-percent", "30 120"),
        ],
    ),
    // How long waits last and how large they are, beside the path's own delay.
    (
        "AF1",
        &[
            FEWER_PATHS,
            ("open.wait-lasts-ms", "0 300 1000"),
            ("open.wait-shape", "0 1500"),
            ("open.detour-percent", "150 200"),
        ],
    ),
    // Whether a haul loses whatever the window is, or a line when its queue is full.
    (
        "AT5/6",
        &[
            FEWER_PATHS,
            ("open.busy-percent", "30 73"),
            ("open.burst-ms", "0 45 150"),
            ("open.buffers", "5 12 20"),
        ],
    ),
    // Here they decide how far the smallest round trip is above the path's.
    (
        "AU",
        &[
            FEWER_PATHS,
            ("open.burst-ms", "0 45"),
            ("open.wait-shape", "0 1500"),
            ("open.routers-ms", "3 30"),
            ("open.load-percent", "30 120"),
        ],
    ),
];

/// Of the trace set, so that all settings take minutes.
const FEWER_PATHS: (&str, &str) = ("open.paths", "400");
const RECEIVERS: (&str, &str) = ("tcp.acks", "every-second:0s every-second:200ms");
/// Of experiments whose connections say themselves how they acknowledge.
const PEERS: (&str, &str) = ("traffic.*.peer-tcp.acks", "every-second:0s every-second:200ms");
const BUFFERS: &str = "9packets 14packets 19packets";
const BUFFERS_OF_10: (&str, &str) =
    ("link.bottleneck.there.queue.drop-tail.limit", "8packets 9packets 10packets");
const DELAYS: (&str, &str) = ("link.bottleneck.there.delay", "20ms 50ms 100ms 300ms");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{COMBINATIONS_MAX, combinations, experiments};

    #[test]
    fn each_belongs_to_an_experiment_and_is_small_enough_to_try() {
        for (id, _) in OPEN {
            let experiment = experiments().into_iter().find(|experiment| experiment.id == *id);
            let open = unknowns(experiment.unwrap_or_else(|| panic!("{id}")));
            assert!((2..=COMBINATIONS_MAX).contains(&combinations(&open)), "{id}");
        }
    }
}
