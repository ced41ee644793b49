//! Queue disciplines by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::QueueConfig;
use crate::units::{Limit, Share};

/// A queue discipline with its usual parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueKind {
    /// Packets that arrive at a full queue are dropped; marking starts at a sixth of the limit.
    DropTail,
    /// Random early detection between a sixth and a half of its limit, gentle.
    Red,
    /// RFC 8289.
    Codel,
    /// RFC 8290.
    FqCodel,
    /// RFC 8033.
    Pie,
    /// RFC 9332.
    #[serde(rename = "dualpi2")]
    DualPi2,
    /// Equal shares for hosts over FQ-CoDel, as in CAKE.
    Cake,
}

impl QueueKind {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 7] = [
        ("drop-tail", Self::DropTail),
        ("red", Self::Red),
        ("codel", Self::Codel),
        ("fq-codel", Self::FqCodel),
        ("pie", Self::Pie),
        ("dualpi2", Self::DualPi2),
        ("cake", Self::Cake),
    ];

    /// The discipline with this limit. With `mark`, ECN-capable packets are marked instead of dropped early.
    #[must_use]
    pub fn config(self, limit: Limit, mark: bool) -> QueueConfig {
        let packets = match limit {
            Limit::Packets(packets) => packets,
            Limit::Bytes(bytes) => bytes / PACKET_BYTES,
        };
        let (sixth, half) = ((packets / 6).max(1), packets / 2);
        let narrow = |packets: u64| u32::try_from(packets).unwrap_or(u32::MAX);
        match self {
            Self::DropTail => {
                QueueConfig::DropTail { limit, mark_above: mark.then_some(Limit::Packets(sixth)) }
            }
            Self::Red => QueueConfig::Red {
                limit: Limit::Packets(packets.max(sixth + 1)),
                min: narrow(sixth),
                max: narrow(half.max(sixth + 1)),
                max_p: Share::percent(10),
                weight_shift: 9,
                gentle: true,
                mark,
            },
            Self::Codel => QueueConfig::codel(limit, mark),
            Self::FqCodel => QueueConfig::fq_codel(limit, mark),
            Self::Pie => QueueConfig::pie(limit, mark),
            Self::DualPi2 => QueueConfig::dual_pi2(limit),
            Self::Cake => QueueConfig::cake(limit, mark),
        }
    }
}

impl FromStr for QueueKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(|(name, _)| name).join(", ");
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found
            .map(|(_, kind)| kind)
            .ok_or_else(|| format!("no queue is called `{text}`; choose one of: {}", names()))
    }
}

impl fmt::Display for QueueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name))
    }
}

impl QueueConfig {
    /// The kind, whatever its parameters.
    #[must_use]
    pub fn kind(&self) -> QueueKind {
        match self {
            Self::DropTail { .. } => QueueKind::DropTail,
            Self::Red { .. } => QueueKind::Red,
            Self::Codel { .. } => QueueKind::Codel,
            Self::FqCodel { .. } => QueueKind::FqCodel,
            Self::Cake { .. } => QueueKind::Cake,
            Self::Pie { .. } => QueueKind::Pie,
            Self::DualPi2 { .. } => QueueKind::DualPi2,
        }
    }

    /// The bytes or packets that fit into it.
    #[must_use]
    pub fn limit(&self) -> Limit {
        match self {
            Self::DropTail { limit, .. }
            | Self::Red { limit, .. }
            | Self::Codel { limit, .. }
            | Self::FqCodel { limit, .. }
            | Self::Cake { limit, .. }
            | Self::Pie { limit, .. }
            | Self::DualPi2 { limit, .. } => *limit,
        }
    }
}

/// A full packet.
const PACKET_BYTES: u64 = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_made_from_its_kind_and_limit_has_both() {
        for (name, kind) in QueueKind::ALL {
            let queue = kind.config(Limit::Packets(60), false);
            assert_eq!((queue.kind(), queue.limit()), (kind, Limit::Packets(60)), "{name}");
            assert_eq!((kind.to_string().as_str(), name.parse()), (name, Ok(kind)));
        }
    }
}
