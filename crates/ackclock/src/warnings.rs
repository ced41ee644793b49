//! [`Warnings`]: problems that no error reports, because TCP sees them as loss.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ackclock_device::configure::{Cidr, kernel_has};
use ackclock_journal::JournalEnd;
use tokio::time::Instant;

use crate::recording;
use crate::shards::ShardRef;
use crate::state::Phase;

/// The warnings of a stack, made by [`Stack::warnings`](crate::Stack::warnings). They cost nothing unless
/// asked for, and do not keep the stack alive.
#[derive(Debug)]
pub struct Warnings {
    shared: ShardRef,
    watch: Watch,
    /// Whether the recording's end was reported.
    told_recording: bool,
    /// The addresses of the kernel that were reported.
    told_addresses: Vec<IpAddr>,
    /// When the addresses are compared with the kernel's next.
    compare_at: Option<Instant>,
}

/// Something that is probably wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Of the segments that arrived within a second, more had a wrong checksum than a right one: nothing gets
    /// through, and connections would time out without an explanation.
    Checksums {
        /// Segments dropped for a wrong checksum.
        dropped: u64,
        /// Segments delivered in the same time.
        delivered: u64,
    },
    /// The kernel at the other end of the device, or beside the stack on its interface, has an address of the
    /// stack. It keeps what it sends there, so it reaches nothing on that address.
    KernelHasAddress(IpAddr),
    /// The stack's recording ended before the stack did.
    Recording {
        /// Bytes in the file.
        bytes: u64,
        /// Why it ended.
        why: JournalEnd,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksums { dropped, delivered } => write!(
                f,
                "{dropped} TCP segments were dropped for wrong checksums, and {delivered} taken: the \
                 sender's interface leaves checksums unfinished and the device does not say so (sudo ethtool \
                 -K NAME tx off on the sender's side), or the network damages packets"
            ),
            Self::KernelHasAddress(addr) => write!(
                f,
                "{addr} is an address of this machine's kernel, too, which keeps what is sent there: give \
                 the stack another address of the network, or take it from the kernel (sudo ip addr del \
                 {addr} dev NAME)"
            ),
            Self::Recording { bytes, why } => write!(f, "the recording ends after {bytes} bytes: {why}"),
        }
    }
}

impl Warnings {
    pub(crate) fn new(shared: ShardRef) -> Self {
        let counts = counts(&shared);
        Self {
            shared,
            watch: Watch::new(counts),
            told_recording: false,
            told_addresses: Vec::new(),
            compare_at: None,
        }
    }

    /// Waits for the next warning. It arrives within a second of its cause, and at most once in ten seconds.
    /// `None` once the stack is down.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Warning> {
        loop {
            tokio::time::sleep(EVERY).await;
            if let Some(warning) = self.recording_ended() {
                return Some(warning);
            }
            if let Some(warning) = self.address_of_kernel() {
                return Some(warning);
            }
            let warning = self.watch.look(Instant::now(), counts(&self.shared));
            if warning.is_some() || self.shared.look(|state| matches!(state.phase, Phase::Down(_))) {
                return warning;
            }
        }
    }
}

impl Warnings {
    /// An address that the kernel behind the device has, too; each is reported once.
    fn address_of_kernel(&mut self) -> Option<Warning> {
        let now = Instant::now();
        if self.compare_at.is_some_and(|at| now < at) {
            return None;
        }
        self.compare_at = Some(now + COMPARE_EVERY);
        if !self.shared.device().as_ref().is_some_and(|device| device.leads_to_kernel()) {
            return None;
        }
        let own: Vec<IpAddr> =
            self.shared.look(|state| state.network.addresses().iter().map(Cidr::addr).collect());
        let shared = own.into_iter().find(|addr| !self.told_addresses.contains(addr) && kernel_has(*addr))?;
        self.told_addresses.push(shared);
        // There may be another.
        self.compare_at = None;
        Some(Warning::KernelHasAddress(shared))
    }

    /// The end of the recording, once, unless the stack's own end was the reason.
    fn recording_ended(&mut self) -> Option<Warning> {
        if self.told_recording {
            return None;
        }
        let info = self.shared.look(recording::info)?;
        let why = info.ended.filter(|&why| why != JournalEnd::Closed)?;
        self.told_recording = true;
        Some(Warning::Recording { bytes: info.bytes, why })
    }
}

/// Segments delivered, and dropped for their checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    delivered: u64,
    dropped: u64,
}

fn counts(shared: &ShardRef) -> Counts {
    let counters = shared.counters();
    Counts { delivered: counters.segments_delivered, dropped: counters.dropped_tcp_checksum }
}

/// Distinguishes a run of wrong checksums from single ones.
#[derive(Debug)]
struct Watch {
    /// The counts at the start of the present run.
    from: Counts,
    /// When its first drop was seen.
    since: Option<Instant>,
    quiet_until: Option<Instant>,
}

impl Watch {
    fn new(from: Counts) -> Self {
        Self { from, since: None, quiet_until: None }
    }

    fn look(&mut self, now: Instant, counts: Counts) -> Option<Warning> {
        let dropped = counts.dropped - self.from.dropped;
        let delivered = counts.delivered - self.from.delivered;
        if dropped == 0 {
            // Segments delivered before the first drop do not excuse it.
            self.from = counts;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        // One wrong segment among right ones is the network's; if there are no right ones, one is enough.
        let is_run = dropped > delivered && (dropped >= RUN || counts.delivered == 0);
        let is_quiet = self.quiet_until.is_some_and(|until| now < until);
        if is_run && !is_quiet {
            (self.from, self.since, self.quiet_until) = (counts, None, Some(now + QUIET));
            return Some(Warning::Checksums { dropped, delivered });
        }
        if !is_run && now.saturating_duration_since(since) >= WINDOW {
            (self.from, self.since) = (counts, None);
        }
        None
    }
}

/// How often the counters are read.
const EVERY: Duration = Duration::from_millis(250);
/// Drops that make a run.
const RUN: u64 = 3;
/// Drops that have not become a run after this long are forgotten.
const WINDOW: Duration = Duration::from_secs(1);
/// The pause after a warning.
const QUIET: Duration = Duration::from_secs(10);
/// How often the stack's addresses are compared with the kernel's.
const COMPARE_EVERY: Duration = Duration::from_millis(750);

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds these counts of delivered and dropped segments, a quarter of a second apart.
    fn seen(looks: &[(u64, u64)]) -> Vec<Option<Warning>> {
        let mut watch = Watch::new(Counts { delivered: 0, dropped: 0 });
        let mut now = Instant::now();
        let look = |&(delivered, dropped): &(u64, u64)| {
            now += EVERY;
            watch.look(now, Counts { delivered, dropped })
        };
        looks.iter().map(look).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn run_of_wrong_checksums_is_reported_and_single_ones_are_not() {
        let told = |dropped, delivered| Some(Warning::Checksums { dropped, delivered });
        assert_eq!(seen(&[(0, 1)]), [told(1, 0)], "nothing was ever delivered");
        assert_eq!(seen(&[(100, 0), (100, 1), (100, 3)]), [None, None, told(3, 0)]);
        assert_eq!(seen(&[(100, 0), (200, 1), (300, 2), (400, 3), (500, 4), (600, 5)]), [None; 6]);
        let spread = [(9, 0), (9, 1), (9, 1), (9, 1), (9, 1), (9, 1), (9, 2), (9, 2)];
        assert_eq!(seen(&spread), [None; 8], "two drops, more than a second apart");
    }

    #[tokio::test(start_paused = true)]
    async fn warnings_are_ten_seconds_apart() {
        let looks: Vec<(u64, u64)> = (1..=90).map(|dropped| (0, dropped)).collect();
        let told: Vec<usize> = seen(&looks)
            .iter()
            .enumerate()
            .filter(|(_, warning)| warning.is_some())
            .map(|(at, _)| at)
            .collect();
        assert_eq!(told, [0, 40, 80]);
    }
}
