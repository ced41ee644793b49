//! The groups of one family that this host has reported, and when it reports them again.
//!
//! A change is reported at once and repeated after a random time, since nothing acknowledges a report
//! (RFC 3810 §6.1). A query is answered with the current groups, within the time that it gives (§6.2, §6.3).
//! While a router of an older version is heard, reports are of that version (§8.2.1). IGMP does all of this
//! as MLD does (RFC 9776, of which only the abstract was read).
//!
//! Deviation from the older versions (RFC 2710 §4, RFC 2236 §3; not read): a report of another host for the
//! same group does not suppress this one's. A switch needs one from each port, and the newest versions have
//! no suppression.

use std::collections::BTreeMap;
use std::time::Duration;

use ackclock_wire::random::Rng;

use crate::{Instant, Timing};

/// A query of a router or switch for listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Query<A> {
    /// One group; `None`: all.
    pub group: Option<A>,
    /// Answers are spread over this time.
    pub answer_within: Duration,
    /// The querier knows this version and none above, and would not understand an answer of a later one;
    /// `None`: the newest.
    pub old: Option<u8>,
}

/// What a report says of a group, of all its sources in each case (RFC 3810 §5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Saying {
    /// In answer to a query: this host listens.
    Listens,
    /// It has stopped listening.
    Left,
    /// It has begun to listen.
    Joined,
}

impl Saying {
    /// The record type in a report.
    pub fn record_type(self) -> u8 {
        match self {
            Self::Listens => MODE_IS_EXCLUDE,
            Self::Left => CHANGE_TO_INCLUDE,
            Self::Joined => CHANGE_TO_EXCLUDE,
        }
    }
}

/// The groups: the wanted ones, and those that were left and are still reported.
#[derive(Debug)]
pub(crate) struct Memberships<A> {
    groups: BTreeMap<A, Membership>,
    /// How often each change is reported; 0: never.
    reports: u32,
    interval: Duration,
    /// When all groups are reported in answer to a query.
    answer_due: Option<Instant>,
    /// Before this time no query is answered: forged ones must not make this host flood the link.
    quiet_until: Option<Instant>,
    /// The oldest version heard, and until when it counts.
    old: Option<(u8, Instant)>,
    has_source: bool,
}

#[derive(Debug)]
struct Membership {
    listens: bool,
    /// How many reports of the last change remain, and when the next one is due.
    changes_left: u32,
    change_due: Option<Instant>,
    answer_due: Option<Instant>,
}

/// The reports that are due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reports<A> {
    pub records: Vec<(Saying, A)>,
    /// The version to report in, if not the newest.
    pub old: Option<u8>,
}

impl<A: Ord + Copy> Memberships<A> {
    pub fn new(timing: &Timing) -> Self {
        Self {
            groups: BTreeMap::new(),
            reports: timing.reports,
            interval: timing.report_interval,
            answer_due: None,
            quiet_until: None,
            old: None,
            has_source: false,
        }
    }

    /// Sets the groups to listen to. `has_source`: whether an address exists as the source of reports; once
    /// it does, all are reported once more, because some routers ignore reports from the unspecified address
    /// (RFC 3590 §4, not read).
    pub fn set(&mut self, now: Instant, wanted: &[A], has_source: bool) {
        if self.reports == 0 {
            return;
        }
        let reports = self.reports;
        for group in wanted {
            let known = self.groups.entry(*group).or_insert(Membership::NONE);
            if !known.listens {
                known.change(true, reports, now);
            }
        }
        for (_, left) in
            self.groups.iter_mut().filter(|(group, known)| known.listens && !wanted.contains(group))
        {
            left.change(false, reports, now);
        }
        if self.groups.len() > GROUPS_MAX {
            // A program that joins and leaves faster than it is reported.
            self.groups.retain(|_, known| known.listens);
        }
        if has_source && !self.has_source {
            self.tell_all(now);
        }
        self.has_source = has_source;
    }

    /// The link may be another one: all groups are reported as new.
    pub fn tell_all(&mut self, now: Instant) {
        let reports = self.reports;
        self.groups
            .values_mut()
            .filter(|known| known.listens)
            .for_each(|known| known.change(true, reports, now));
    }

    pub fn asked(&mut self, now: Instant, query: &Query<A>, random: &mut Rng) {
        if let Some(version) = query.old {
            let older = self.old.filter(|(heard, until)| now < *until && *heard < version);
            self.old = older.or(Some((version, now + OLD_HEARD)));
        }
        let due = now + later(random, query.answer_within);
        let due = self.quiet_until.map_or(due, |quiet| due.max(quiet));
        let sooner = |known: Option<Instant>| Some(known.map_or(due, |known| known.min(due)));
        match query.group {
            None => self.answer_due = sooner(self.answer_due).filter(|_| !self.groups.is_empty()),
            Some(group) => {
                if let Some(known) = self.groups.get_mut(&group).filter(|known| known.listens) {
                    known.answer_due = sooner(known.answer_due);
                }
            }
        }
    }

    /// What is due at `now`; each group at most once.
    pub fn handle_timeout(&mut self, now: Instant, random: &mut Rng) -> Option<Reports<A>> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let answers_all = is_due(self.answer_due);
        if answers_all {
            self.answer_due = None;
        }
        let mut records = Vec::new();
        for (group, known) in &mut self.groups {
            if is_due(known.change_due) {
                known.changes_left = known.changes_left.saturating_sub(1);
                known.change_due = (known.changes_left > 0).then(|| now + later(random, self.interval));
                records.push((if known.listens { Saying::Joined } else { Saying::Left }, *group));
            } else if known.listens && (answers_all || is_due(known.answer_due)) {
                self.quiet_until = Some(now + ANSWERS_APART);
                records.push((Saying::Listens, *group));
            } else {
                continue;
            }
            known.answer_due = None;
        }
        self.groups.retain(|_, known| known.listens || known.change_due.is_some());
        let old = self.old.filter(|(_, until)| now < *until).map(|(version, _)| version);
        (!records.is_empty()).then_some(Reports { records, old })
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        let of_groups = self.groups.values().flat_map(|known| [known.change_due, known.answer_due]);
        of_groups.chain([self.answer_due]).flatten().min()
    }
}

impl Membership {
    const NONE: Self = Self { listens: false, changes_left: 0, change_due: None, answer_due: None };

    fn change(&mut self, listens: bool, reports: u32, now: Instant) {
        *self = Self { listens, changes_left: reports, change_due: Some(now), answer_due: None };
    }
}

/// A random time up to `max`, and never at once.
fn later(random: &mut Rng, max: Duration) -> Duration {
    random.time_between(Duration::ZERO, max).max(Duration::from_millis(1))
}

/// How long a router of an older version counts as present after its query: RFC 3810 §9.12, with the default
/// times.
const OLD_HEARD: Duration = Duration::from_secs(260);
/// The least time between two answers: a fifth of the second within which those to the shortest queries that
/// routers send by default are due (RFC 3810 §9.8).
const ANSWERS_APART: Duration = Duration::from_millis(200);
/// The most groups that are known, with those that were left and are still reported. The endpoint above has
/// at most 64, and a host few addresses.
const GROUPS_MAX: usize = 256;
/// RFC 3810 §5.2.12.
const MODE_IS_EXCLUDE: u8 = 2;
const CHANGE_TO_INCLUDE: u8 = 3;
const CHANGE_TO_EXCLUDE: u8 = 4;
