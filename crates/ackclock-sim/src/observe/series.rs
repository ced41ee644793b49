//! Series over time, for graphs: lengths of queues, progress of flows.

use serde::Serialize;

use super::{Observer, PacketEvent, Sample};

/// All samples of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// When each sample was taken, in nanoseconds.
    pub at_ns: Vec<u64>,
    /// For each sample, a point for each direction of each link.
    pub links: Vec<Vec<LinkPoint>>,
    /// For each sample, a point for each traffic.
    pub flows: Vec<Vec<FlowPoint>>,
}

/// One direction of a link at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkPoint {
    /// Packets in the queue.
    pub queue_packets: u32,
    /// Bytes in the queue.
    pub queue_bytes: u64,
    /// Bytes sent since the beginning.
    pub sent_bytes: u64,
    /// Packets dropped there since the beginning.
    pub dropped: u64,
}

/// One traffic at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowPoint {
    /// Payload bytes that `to` has received in order since the beginning.
    pub bytes: u64,
    /// The bytes that `from` has received.
    pub bytes_back: u64,
    /// The sum of the congestion windows of the open connections at `from`, in bytes.
    pub cwnd: u64,
    /// The sum of their bytes in flight.
    pub in_flight: u64,
    /// The longest of their smoothed round-trip times, in nanoseconds; 0 before the first sample.
    pub srtt_ns: u64,
}

impl Observer for Series {
    fn packet(&mut self, _: &PacketEvent<'_>) {}

    fn sample(&mut self, sample: &Sample<'_>) {
        self.at_ns.push(sample.at.as_nanos());
        self.links.push(sample.links.to_vec());
        self.flows.push(sample.flows.to_vec());
    }
}
