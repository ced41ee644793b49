//! The faults by name, and how often each has struck.

use std::fmt;

/// A fault of a network, its hosts and its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A host loses all state while segments to and from it are in flight, and restarts.
    Reboot,
    /// A client gets another address; the old one is no longer reachable.
    AddressChange,
    /// A host's clock steps forwards.
    ClockStep,
    /// A whole host stops while time passes, and packets wait in its device's queue.
    Suspend,
    /// A program stops: it neither reads nor writes; its host's stack continues.
    ProcessStall,
    /// Connections fill the server's memory budget with data that no program reads.
    MemoryExhaustion,
    /// The path carries smaller packets; a router reports it.
    MtuDrop,
    /// The path carries smaller packets; no router reports it.
    MtuBlackHole,
    /// A host's device carries smaller packets.
    DeviceMtu,
    /// Segments are cut in two on the path.
    Split,
    /// Segments arrive merged, as from receive offload.
    Coalesce,
    /// Segments arrive merged, but the device does not report it.
    Merge,
    /// Acknowledgements close behind another are dropped.
    AckThinning,
    /// Options are taken off SYNs, or SACK blocks off all segments.
    OptionStripping,
    /// Sequence numbers differ on each side, in headers and SACK blocks.
    SequenceRewriting,
    /// As `SequenceRewriting`, but the SACK blocks are unchanged.
    SequenceRewritingWithoutSack,
    /// Windows are reduced on the path.
    WindowClamp,
    /// Windows are set to zero on the path.
    WindowClosing,
    /// A forged reset outside the window.
    ResetOutside,
    /// A forged reset inside the window, but not at its left edge.
    ResetInside,
    /// A forged reset exactly where the next byte is expected.
    ResetExact,
    /// An old segment from when the sequence numbers were the same and the bytes were different: only its
    /// timestamp gives it away.
    OldSegment,
    /// An acknowledgement with SACK blocks of nothing that is outstanding: beyond what was sent, before what
    /// is acknowledged, empty, or with exchanged edges.
    SackOutside,
    /// An acknowledgement with SACK blocks of outstanding data that the peer does not hold: all of it, blocks
    /// that overlap, or a duplicate of what was sent once.
    SackInside,
    /// An address translator forgets its connections.
    NatTimeout,
    /// Nothing passes a path for a while.
    LinkFlap,
    /// One direction of a path is much slower for a while.
    AsymmetricRate,
}

impl Fault {
    /// All faults, in the order of a [`Counts`].
    pub const ALL: [Self; 27] = [
        Self::Reboot,
        Self::AddressChange,
        Self::ClockStep,
        Self::Suspend,
        Self::ProcessStall,
        Self::MemoryExhaustion,
        Self::MtuDrop,
        Self::MtuBlackHole,
        Self::DeviceMtu,
        Self::Split,
        Self::Coalesce,
        Self::Merge,
        Self::AckThinning,
        Self::OptionStripping,
        Self::SequenceRewriting,
        Self::SequenceRewritingWithoutSack,
        Self::WindowClamp,
        Self::WindowClosing,
        Self::ResetOutside,
        Self::ResetInside,
        Self::ResetExact,
        Self::OldSegment,
        Self::SackOutside,
        Self::SackInside,
        Self::NatTimeout,
        Self::LinkFlap,
        Self::AsymmetricRate,
    ];

    /// Whether it is a segment that waits for its moment.
    pub(super) fn is_forged(self) -> bool {
        use Fault::{OldSegment, ResetExact, ResetInside, ResetOutside, SackInside, SackOutside};
        [ResetOutside, ResetInside, ResetExact, OldSegment, SackOutside, SackInside].contains(&self)
    }
}

/// How often each fault has struck: an event counts once, at its first effect on a connection; a permanent
/// box, once for each SYN or SACK option that it changed or spared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Fault::ALL.len()]);

impl Counts {
    /// Counts `fault` once more.
    pub(super) fn add(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// How often `fault` has struck.
    #[must_use]
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// The faults that struck fewer than `least` times.
    #[must_use]
    pub fn rarer_than(&self, least: u64) -> Vec<Fault> {
        Fault::ALL.into_iter().filter(|fault| self.of(*fault) < least).collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Fault::ALL
            .into_iter()
            .try_for_each(|fault| writeln!(f, "  {:<30} {:>8}", format!("{fault:?}"), self.of(fault)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_a_count_of_its_own() {
        assert!(Fault::ALL.iter().enumerate().all(|(at, fault)| *fault as usize == at));
    }
}
