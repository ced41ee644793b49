//! The groups of one family that this host has reported, and when it reports them again.
//!
//! A change is reported at once and repeated after a random time, since nothing acknowledges a report. A
//! query is answered with the current groups, within the time that it gives. While a querier of an older
//! version counts as present, reports are of that version. IGMP and MLD do all of this alike.
//!
//! Sources: RFC 3376 (IGMPv3) and RFC 3810 (MLDv2); for the older versions RFC 2236 (IGMPv2), RFC 1112
//! appendix I (IGMPv1) and RFC 2710 (MLDv1). RFC 9776, which replaces RFC 3376, was read in its abstract
//! only.
//!
//! Deviations:
//! - From RFC 2236 §3, §5 and RFC 2710 §4: a report of another host for the same group does not suppress this
//!   host's. A switch that snoops needs one from each port, and RFC 3376 §A.2 drops suppression for that.
//! - From RFC 3376 §5.2 and RFC 3810 §6.3: a query for some sources of a group is answered as one for the
//!   group, with IS_EX({}) and not with IS_IN of these sources. Both tell a router to forward them, because
//!   each member listens to all sources; and no list is kept that a stranger makes long (RFC 3376 §9.1).
//! - From RFC 3376 §8.12 and RFC 3810 §9.12: a querier of an older version counts as present for a fixed
//!   time, that of the default values, because its queries do not carry its query interval.
//! - From RFC 3376 §5.2 and RFC 3810 §6.2: an answer waits until 200 ms after the one before, even if a query
//!   gives less time. Forged queries must not make this host flood the link.

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
    /// Its version; `None`: the newest.
    pub old: Option<Old>,
}

/// The version of a querier that does not know the newest, IGMPv3 or MLDv2. Of MLD there is only version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Old {
    V1,
    V2,
}

/// The content of a report about a group, about all its sources in each case (RFC 3376 §4.2.12, RFC 3810
/// §5.2.12).
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
    /// When all groups are reported in answer to a query of the newest version.
    answer_due: Option<Instant>,
    /// Before this time no query is answered.
    quiet_until: Option<Instant>,
    /// The older versions whose queriers were heard, and until when each counts as present.
    old_queriers: BTreeMap<Old, Instant>,
    /// The version to report in; `None`: the newest.
    old: Option<Old>,
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
    pub old: Option<Old>,
}

impl<A: Ord + Copy> Memberships<A> {
    pub fn new(timing: &Timing) -> Self {
        Self {
            groups: BTreeMap::new(),
            reports: timing.reports,
            interval: timing.report_interval,
            answer_due: None,
            quiet_until: None,
            old_queriers: BTreeMap::new(),
            old: None,
            has_source: false,
        }
    }

    /// Sets the groups to listen to. `has_source`: whether an address exists as the source of reports; once
    /// it does, all are reported once more.
    // RFC 3590 §4: a router discards a report from the unspecified address, so once there is a link-local one
    // "a node SHOULD generate new MLD Report messages for all multicast addresses joined". Routers of IGMPv3
    // accept such a report (RFC 3376 §4.2.13); those of version 2 may ignore it (RFC 2236 §10).
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

    /// Whether the group is reported as one that this host listens to.
    pub fn listens(&self, group: A) -> bool {
        self.groups.get(&group).is_some_and(|known| known.listens)
    }

    pub fn asked(&mut self, now: Instant, query: &Query<A>, random: &mut Rng) {
        // RFC 3376 §7.2.1: any query of IGMPv1, and a general one of IGMPv2. RFC 3810 §8.2.1: any of MLDv1.
        if let Some(version) = query.old
            && (version == Old::V1 || query.group.is_none())
        {
            self.old_queriers.insert(version, now + OLD_HEARD);
        }
        self.settle_version(now);
        let listening = self.groups.iter_mut().filter(|(_, known)| known.listens);
        let mut asked = listening.filter(|(group, _)| query.group.is_none_or(|asked| asked == **group));
        let latest = now + query.answer_within;
        let quiet_until = self.quiet_until.unwrap_or(now);
        let mut draw = || (now + later(random, query.answer_within)).max(quiet_until);
        if self.old.is_none() && query.group.is_none() {
            if asked.next().is_some() {
                sooner(&mut self.answer_due, draw());
            }
            return;
        }
        for (_, known) in asked {
            // RFC 2236 §3, RFC 2710 §4: a timer that runs is "reset to the random value only if the requested
            // Max Response Time is less than the remaining value of the running timer". RFC 3376 §5.2 (4):
            // the earlier of the two.
            if self.old.is_none() || known.answer_due.is_none_or(|due| due > latest) {
                sooner(&mut known.answer_due, draw());
            }
        }
    }

    /// The reports due at `now`; each group at most once.
    pub fn handle_timeout(&mut self, now: Instant, random: &mut Rng) -> Option<Reports<A>> {
        self.settle_version(now);
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let answers_all = is_due(self.answer_due);
        if answers_all {
            self.answer_due = None;
        }
        let interval = if self.old.is_some() { OLD_REPORT_INTERVAL } else { self.interval };
        let mut records = Vec::new();
        for (group, known) in &mut self.groups {
            if is_due(known.change_due) {
                // RFC 2710 §4: "a single Done message"; RFC 2236 §3 repeats joins alone, too.
                let is_last = self.old.is_some() && !known.listens;
                known.changes_left = if is_last { 0 } else { known.changes_left.saturating_sub(1) };
                known.change_due = (known.changes_left > 0).then(|| now + later(random, interval));
                records.push((if known.listens { Saying::Joined } else { Saying::Left }, *group));
            } else if known.listens && (answers_all || is_due(known.answer_due)) {
                self.quiet_until = Some(now + ANSWERS_APART);
                records.push((Saying::Listens, *group));
            } else {
                continue;
            }
            known.answer_due = None;
        }
        self.forget_reported();
        (!records.is_empty()).then_some(Reports { records, old: self.old })
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        let of_groups = self.groups.values().flat_map(|known| [known.change_due, known.answer_due]);
        of_groups.chain([self.answer_due]).flatten().min()
    }

    /// Settles the version to report in: the oldest whose querier is present.
    // RFC 3376 §7.2.1, RFC 3810 §8.2.1: "Whenever a host changes its compatibility mode, it cancels all its
    // pending response and retransmission timers." The first report of a change is neither, and still leaves.
    fn settle_version(&mut self, now: Instant) {
        let old = self.old_queriers.iter().find(|(_, until)| now < **until).map(|(version, _)| *version);
        if old == self.old {
            return;
        }
        self.old = old;
        self.answer_due = None;
        for known in self.groups.values_mut() {
            known.answer_due = None;
            if known.changes_left < self.reports {
                (known.changes_left, known.change_due) = (0, None);
            }
        }
        self.forget_reported();
    }

    /// Forgets the groups that were left, once that is reported.
    fn forget_reported(&mut self) {
        self.groups.retain(|_, known| known.listens || known.change_due.is_some());
    }
}

impl Membership {
    const NONE: Self = Self { listens: false, changes_left: 0, change_due: None, answer_due: None };

    fn change(&mut self, listens: bool, reports: u32, now: Instant) {
        *self = Self { listens, changes_left: reports, change_due: Some(now), answer_due: None };
    }
}

fn sooner(known: &mut Option<Instant>, due: Instant) {
    *known = Some(known.map_or(due, |known| known.min(due)));
}

/// A random time up to `max`, and never at once.
fn later(random: &mut Rng, max: Duration) -> Duration {
    random.time_between(Duration::ZERO, max).max(Duration::from_millis(1))
}

/// How long a querier of an older version counts as present after its query: RFC 3376 §8.12, RFC 3810 §9.12,
/// with the defaults of twice the query interval of 125 s and a response interval of 10 s.
const OLD_HEARD: Duration = Duration::from_secs(260);
/// The longest random time until a join is reported again in an older version: RFC 2236 §8.10, RFC 2710
/// §7.10.
const OLD_REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// The least time between two answers: a fifth of the second within which those to the shortest queries that
/// routers send by default are due (RFC 3376 §8.8, RFC 3810 §9.8).
const ANSWERS_APART: Duration = Duration::from_millis(200);
/// The most groups that are known, with those that were left and are still reported. The endpoint above has
/// at most 64, and a host few addresses.
const GROUPS_MAX: usize = 256;
/// RFC 3376 §4.2.12, RFC 3810 §5.2.12.
const MODE_IS_EXCLUDE: u8 = 2;
const CHANGE_TO_INCLUDE: u8 = 3;
const CHANGE_TO_EXCLUDE: u8 = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        /// The groups to listen to, one a bit.
        Set(u8),
        Ask {
            group: Option<u8>,
            within_ms: u16,
            old: Option<Old>,
        },
        Wait(u32),
        Restored,
    }

    fn step() -> impl Strategy<Value = Step> {
        let old = prop_oneof![Just(None), Just(Some(Old::V1)), Just(Some(Old::V2))];
        prop_oneof![
            any::<u8>().prop_map(Step::Set),
            (prop::option::of(0..8_u8), 0..20_000_u16, old).prop_map(|(group, within_ms, old)| Step::Ask {
                group,
                within_ms,
                old
            }),
            prop_oneof![0..300_u32, 0..20_000_u32, 0..400_000_u32].prop_map(Step::Wait),
            Just(Step::Restored),
        ]
    }

    /// A naive model of the reports that RFC 3376 and RFC 3810 require.
    struct Model {
        memberships: Memberships<u8>,
        random: Rng,
        now: Instant,
        wanted: u8,
        v1_until: Option<Instant>,
        v2_until: Option<Instant>,
        /// Until when each group is to be named in a report, because of a query.
        owed: BTreeMap<u8, Instant>,
        /// How often each group's last change was reported.
        said: BTreeMap<u8, u32>,
    }

    impl Model {
        fn new() -> Self {
            Self {
                memberships: Memberships::new(&Timing::default()),
                random: Rng::new(1),
                now: Instant::from_millis(1000),
                wanted: 0,
                v1_until: None,
                v2_until: None,
                owed: BTreeMap::new(),
                said: BTreeMap::new(),
            }
        }

        fn wants(&self, group: u8) -> bool {
            self.wanted >> group & 1 == 1
        }

        fn version(&self) -> Option<Old> {
            let counts = |until: Option<Instant>| until.is_some_and(|until| self.now < until);
            match (counts(self.v1_until), counts(self.v2_until)) {
                (true, _) => Some(Old::V1),
                (false, true) => Some(Old::V2),
                (false, false) => None,
            }
        }

        fn step(&mut self, step: &Step) {
            match *step {
                Step::Set(wanted) => {
                    let changed: Vec<_> =
                        (0..8).filter(|group| (self.wanted ^ wanted) >> group & 1 == 1).collect();
                    self.wanted = wanted;
                    let groups: Vec<_> = (0..8).filter(|group| self.wants(*group)).collect();
                    self.memberships.set(self.now, &groups, true);
                    for group in &changed {
                        self.owed.remove(group);
                        self.said.insert(*group, 0);
                    }
                    let told = self.wake();
                    assert!(
                        changed.iter().all(|group| told.contains(group)),
                        "{changed:?} at once: {told:?}"
                    );
                }
                Step::Ask { group, within_ms, old } => {
                    let within = Duration::from_millis(within_ms.into());
                    let before = self.version();
                    let until = Some(self.now + Duration::from_secs(260));
                    match old {
                        Some(Old::V1) => self.v1_until = until,
                        Some(Old::V2) if group.is_none() => self.v2_until = until,
                        _ => {}
                    }
                    if self.version() != before {
                        self.owed.clear();
                    }
                    self.memberships.asked(
                        self.now,
                        &Query { group, answer_within: within, old },
                        &mut self.random,
                    );
                    // An answer is never immediate, and up to 200 ms late.
                    let latest = self.now + within.max(ANSWERS_APART);
                    for group in (0..8).filter(|g| group.is_none_or(|group| group == *g)) {
                        if self.wants(group) {
                            let owed = self.owed.entry(group).or_insert(latest);
                            *owed = latest.min(*owed);
                        }
                    }
                    assert!(self.memberships.poll_timeout().is_none_or(|due| due > self.now));
                }
                Step::Wait(ms) => {
                    let end = self.now + Duration::from_millis(ms.into());
                    while let Some(due) = self.memberships.poll_timeout().filter(|due| *due <= end) {
                        self.pass(due);
                        self.wake();
                        assert!(
                            self.memberships.poll_timeout().is_none_or(|next| next > due),
                            "again at once"
                        );
                    }
                    self.pass(end);
                }
                Step::Restored => {
                    self.memberships.tell_all(self.now);
                    let wanted = (0..8).filter(|group| self.wanted >> group & 1 == 1);
                    self.said.extend(wanted.map(|group| (group, 0)));
                    self.wake();
                }
            }
        }

        fn pass(&mut self, until: Instant) {
            let before = self.version();
            self.now = until;
            if self.version() != before {
                self.owed.clear();
            }
            assert!(self.owed.values().all(|owed| self.now <= *owed), "{:?} at {:?}", self.owed, self.now);
        }

        fn wake(&mut self) -> Vec<u8> {
            let Some(reports) = self.memberships.handle_timeout(self.now, &mut self.random) else {
                return vec![];
            };
            assert_eq!(reports.old, self.version());
            let mut told = Vec::new();
            for (saying, group) in reports.records {
                assert_eq!(saying != Saying::Left, self.wants(group), "{saying:?} of {group}");
                assert!(!told.contains(&group), "{group} twice in one report");
                if saying != Saying::Listens {
                    let said = self.said.entry(group).or_default();
                    *said += 1;
                    let most = if saying == Saying::Left && reports.old.is_some() { 1 } else { 2 };
                    assert!(*said <= most, "{saying:?} of {group}, {said} times");
                }
                self.owed.remove(&group);
                told.push(group);
            }
            told
        }
    }

    proptest! {
        #[test]
        fn reports_are_what_a_naive_model_says(steps in prop::collection::vec(step(), 1..60)) {
            let mut model = Model::new();
            for step in &steps {
                model.step(step);
            }
            // Then there is silence.
            model.step(&Step::Wait(400_000));
            prop_assert_eq!(model.memberships.poll_timeout(), None);
            prop_assert!(model.owed.is_empty());
            prop_assert!(model.memberships.groups.len() <= 8);
        }
    }
}
