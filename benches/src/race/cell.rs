//! The cells of the comparison: a path, a controller, a receiver.

use std::time::Duration;

use ackclock_control::quantity::Share;
use serde::Serializer;

use super::lane::LaneSpec;

/// Whose TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Party {
    /// The kernel's.
    Linux,
    /// This one.
    Ackclock,
}

/// A cell of the table: path, controller and receiver.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Cell {
    /// The round trip of the path in microseconds, half of it each way.
    pub rtt_us: u64,
    /// Probability that a data packet is lost.
    #[serde(serialize_with = "fraction")]
    pub loss: Share,
    /// Probability that a pure acknowledgement is lost.
    #[serde(serialize_with = "fraction")]
    pub loss_back: Share,
    /// Bits a second, each way; `None`: as fast as the machine can.
    pub rate_bps: Option<u64>,
    /// The controller of the kernel's sender.
    pub controller: String,
    /// The controller of this stack's sender.
    pub our_controller: String,
    /// The receiver of both.
    pub receiver: Party,
}

impl Cell {
    /// The controller of a sender.
    pub fn controller_of(&self, party: Party) -> &str {
        match party {
            Party::Linux => &self.controller,
            Party::Ackclock => &self.our_controller,
        }
    }

    /// Bytes in front of the bottleneck: one bandwidth-delay product, and at least a hundred packets, so that
    /// the 64 KB that a sender with segmentation offload sends at once find room.
    #[must_use]
    pub fn queue_bytes(&self) -> u64 {
        let product = u128::from(self.rate_bps.unwrap_or(0)) * u128::from(self.rtt_us) / 8_000_000;
        u64::try_from(product).unwrap_or(u64::MAX).max(QUEUE_MIN)
    }

    /// The path there and back.
    #[must_use]
    pub fn lanes(&self, seed: u64) -> [LaneSpec; 2] {
        let lane = |loss, seed| LaneSpec {
            delay: Duration::from_micros(self.rtt_us) / 2,
            rate_bps: self.rate_bps,
            queue_bytes: self.queue_bytes(),
            loss,
            seed,
        };
        [lane(self.loss, seed), lane(self.loss_back, !seed)]
    }
}

/// The table's script reads a number from 0 to 1.
fn fraction<S: Serializer>(share: &Share, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(share.fraction())
}

/// A hundred packets of 1,500 bytes.
const QUEUE_MIN: u64 = 150_000;
