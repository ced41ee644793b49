//! The account of a connection, collected by question.

use std::collections::BTreeMap;
use std::time::Duration;

use ackclock_core::Instant;
use ackclock_core::trace::{Entry, Failure, SendReason};

use super::acks::{AckTally, Acks};
use super::allowed::{Allowed, ReductionTally};
use super::samples::{RoundTripLog, RoundTrips};
use super::verdicts::{LossLog, Verdicts};
use super::waits::{WaitLog, Waits};
use crate::file::{Source, TracedSource};

/// Where the time of a connection went, and why.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// From the first entry to the last.
    pub duration: Duration,
    /// The causes for which it waited.
    pub waits: Waits,
    /// Payload bytes sent for the first time.
    pub bytes_sent: u64,
    /// Payload bytes received, as far as segments show.
    pub bytes_received: u64,
    /// The retransmissions.
    pub again: Retransmissions,
    /// The segments that were declared lost.
    pub verdicts: Verdicts,
    /// Loss episodes without a timeout.
    pub episodes: u64,
    /// Answers to Congestion Experienced marks.
    pub marks: u64,
    /// Round-trip samples.
    pub round_trips: RoundTrips,
    /// Segments per acknowledgement.
    pub acks: Acks,
    /// The limits of theory, where a theory applies.
    pub allowed: Option<Allowed>,
    /// How it failed.
    pub failed: Option<Failure>,
    /// The first and the last entry.
    pub span: Option<(Instant, Instant)>,
}

/// The retransmissions of a connection.
#[derive(Clone, Debug, Default)]
pub struct Retransmissions {
    /// Bytes.
    pub bytes: u64,
    /// Segments, or trains of them, by send reason.
    pub segments: BTreeMap<&'static str, u64>,
}

/// Accounts for a connection.
#[must_use]
pub fn account(source: &TracedSource) -> Account {
    let mut accounting = Accounting {
        account: Account::default(),
        waits: WaitLog::new(source.source.is_captured()),
        verdicts: LossLog::default(),
        samples: RoundTripLog::new(&source.source),
        acks: AckTally::new(source.entries.iter().map(|(_, entry)| entry)),
        allowed: ReductionTally::default(),
    };
    for &(at, entry) in &source.entries {
        accounting.entry(at, entry);
    }
    let congestion = match &source.source {
        Source::Connection { congestion, .. } => congestion,
        Source::Queue { .. } => "",
    };
    accounting.finish(congestion)
}

/// An account under construction.
struct Accounting {
    account: Account,
    waits: WaitLog,
    verdicts: LossLog,
    samples: RoundTripLog,
    acks: AckTally,
    allowed: ReductionTally,
}

impl Accounting {
    fn entry(&mut self, at: Instant, entry: Entry) {
        let (first, last) = self.account.span.unwrap_or((at, at));
        self.account.span = Some((first, last.max(at)));
        self.waits.entry(at, entry);
        self.verdicts.entry(at, entry);
        self.samples.entry(at, entry);
        self.acks.entry(entry);
        self.allowed.entry(at, entry);
        match entry {
            Entry::Sent { reason, len, .. } if len > 0 => self.sent(reason, len),
            Entry::Received { len, .. } => self.account.bytes_received += u64::from(len),
            Entry::Failed(failure) => self.account.failed = Some(failure),
            _ => {}
        }
    }

    fn sent(&mut self, reason: SendReason, len: u32) {
        if reason == SendReason::NewData {
            self.account.bytes_sent += u64::from(len);
        } else {
            self.account.again.bytes += u64::from(len);
            *self.account.again.segments.entry(reason.name()).or_default() += 1;
        }
    }

    fn finish(self, congestion: &str) -> Account {
        let mut account = self.account;
        let Some((first, last)) = account.span else { return account };
        account.duration = last.saturating_since(first);
        account.waits = self.waits.finish(last);
        account.verdicts = self.verdicts.finish();
        account.round_trips = self.samples.finish();
        account.acks = self.acks.finish();
        (account.episodes, account.marks) = (self.allowed.episodes(), self.allowed.marks());
        let round_trip = account.round_trips.range.map(|(_, mean, _)| mean);
        let sent = account.bytes_sent + account.again.bytes;
        account.allowed = self.allowed.finish(
            congestion,
            sent,
            &account.waits,
            &account.verdicts,
            &account.acks,
            round_trip,
        );
        account
    }
}
