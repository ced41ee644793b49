//! Policies of loss recovery: a file for each, over one scoreboard.
//!
//! | policy | finds a loss by | sends during recovery |
//! |---|---|---|
//! | [`go_back_n`] | the timer only | everything again |
//! | [`tahoe`] | three duplicate acknowledgements | everything again, in slow start |
//! | [`reno`] | three duplicates | one segment; new data for each further duplicate, until the first new acknowledgement |
//! | [`newreno`] | three duplicates, partial acknowledgements | a hole for each partial acknowledgement |
//! | [`reno`] of Net/2 | three duplicates, after a timeout too | the same |
//! | [`vegas`] | the clock at the first duplicates, three of them | as Reno |
//! | [`sack`] | SACK evidence | what the pipe leaves room for |
//! | [`rack_tlp`] | time; a probe for lost tails | as many bytes as [`prr`] says |
//!
//! A policy marks what it holds to be lost and returns a [`LossFound`]; it informs nothing else. All keep to
//! the pipe: during recovery the congestion window minus what is in flight limits sending, so an inflated
//! window is here a smaller count of bytes in flight. An acknowledgement costs in proportion to what it
//! changes.
//!
//! After a timeout every policy except RACK-TLP, which goes by time there too, retransmits what the peer is
//! not known to hold (RFC 6675 §5.1, RFC 6582 §3.2 (4)).

mod go_back_n;
mod newreno;
mod prr;
mod rack;
mod rack_tlp;
mod reno;
mod sack;
mod tahoe;
mod vegas;

use ackclock_control::congestion::LossCause;
use ackclock_control::profile::Recovery;
use ackclock_control::rtt::RttEstimator;

use self::go_back_n::GoBackN;
use self::newreno::NewReno;
use self::rack_tlp::RackTlp;
use self::reno::Reno;
use self::sack::Sack;
use self::tahoe::Tahoe;
use self::vegas::{Clock, Vegas};
use super::DUP_THRESH;
use super::episode::Episode;
use super::scoreboard::{AckOutcome, Marked, Scoreboard};
use crate::Instant;
use crate::position::Position;
use crate::trace::LossRule;

/// Bytes found to be lost, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossFound {
    pub rule: LossRule,
    pub marked: Marked,
    pub answer: LossAnswer,
    /// Without SACK: bytes that the duplicates so far show to have left the network.
    pub left_network: Option<u64>,
}

/// The answer to a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossAnswer {
    /// Tells congestion control of an episode, unless one is under way.
    Episode { cause: LossCause, bytes_lost: u64 },
    /// [`Episode`](Self::Episode), and slow start retransmits everything.
    SlowStart { cause: LossCause, bytes_lost: u64 },
    /// Recovery begins; congestion control has answered for this window already.
    Retransmission,
    /// It belongs to the episode under way.
    Known,
}

/// The content of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    /// Bytes by which SND.UNA advanced.
    pub(super) advanced: u64,
    pub(super) duplicate: bool,
    /// The range reported as received twice (RFC 2883).
    pub(super) reported: Option<(Position, Position)>,
    /// Whether that is a copy sent as a tail or window probe.
    pub(super) reports_probe: bool,
    pub(super) outcome: &'a AckOutcome,
}

/// The evidence by which a policy judges, and which it may mark.
pub(super) struct Evidence<'a> {
    pub now: Instant,
    pub una: Position,
    pub nxt: Position,
    pub smss: u64,
    pub cwnd: u64,
    pub seen: &'a Seen<'a>,
    pub scoreboard: &'a mut Scoreboard,
    pub episode: &'a mut Episode,
    pub rtt: &'a RttEstimator,
    /// The first hole is a lost probe of the path's MTU, whose data is sent again; it does not indicate
    /// congestion.
    pub excused: bool,
}

impl Evidence<'_> {
    /// The first hole is retransmitted, and an episode begins, after `duplicates` segments have left the
    /// network.
    fn fast_retransmit(&mut self, duplicates: u32) -> Option<LossFound> {
        let marked = self.scoreboard.mark_first_lost();
        (marked.bytes > 0).then(|| LossFound {
            rule: LossRule::DuplicateAcks,
            marked,
            answer: LossAnswer::Episode { cause: LossCause::DuplicateAcks, bytes_lost: marked.bytes },
            left_network: Some(u64::from(duplicates).saturating_mul(self.smss)),
        })
    }

    /// A further duplicate during recovery, or the same number of bytes.
    fn inflate(&mut self, bytes: u64) {
        self.episode.inflate(self.una, self.scoreboard, bytes);
    }
}

/// The progress of fast recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// The episode, by its recovery point.
    pub episode: Position,
    /// DeliveredData of RFC 9937: bytes newly acknowledged, cumulatively or selectively. `None`: no
    /// acknowledgement but a timer found the loss.
    pub delivered: Option<u64>,
    /// SafeACK: SND.UNA advanced and no more data was found to be lost.
    pub safe: bool,
    /// The controller's threshold; `u64::MAX` if it has none.
    pub ssthresh: u64,
    pub smss: u64,
}

/// A policy of loss recovery.
pub(super) trait Policy {
    /// Whether the peer's SACK blocks are used.
    fn heeds_sack(&self) -> bool {
        false
    }

    /// Whether a possibly lost tail is probed.
    fn probes_tail(&self) -> bool {
        false
    }

    /// The position that must be acknowledged to end an episode that begins now. RFC 6582 §3.2 (2), RFC 6675
    /// §5 (4.1): everything outstanding.
    fn recovery_point(&self, _una: Position, nxt: Position) -> Position {
        nxt
    }

    /// Judges by an acknowledgement.
    fn on_ack(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound>;

    /// Whether [`Self::on_ack`] finds nothing in an acknowledgement that only advances SND.UNA, outside an
    /// episode, over data sent once. [`Self::on_advance`] may then replace it.
    fn trusts_advances(&self, _scoreboard: &Scoreboard) -> bool {
        true
    }

    /// Such an acknowledgement, of everything before `una`, whose newest data left at `sent_at`.
    fn on_advance(&mut self, _now: Instant, _sent_at: Instant, _una: Position) {}

    /// Judges because its deadline has passed.
    fn on_timer(&mut self, _evidence: &mut Evidence<'_>) -> Option<LossFound> {
        None
    }

    /// The retransmission timer expired: marks what is lost. RFC 6675 §5.1, RFC 6582 §3.2 (4): everything
    /// that the peer is not known to hold.
    fn mark_at_timeout(
        &mut self,
        _now: Instant,
        _una: Position,
        _rtt: &RttEstimator,
        scoreboard: &mut Scoreboard,
    ) -> Marked {
        scoreboard.mark_all_lost(false)
    }

    /// When [`Self::on_timer`] is due; the far future if never.
    fn deadline(&self) -> Instant {
        Instant::FAR_FUTURE
    }

    /// Stops its timer.
    fn stop_timer(&mut self) {}

    /// During fast recovery, after congestion control has learned of the loss.
    fn regulate(&mut self, _scoreboard: &Scoreboard, _progress: &Progress) {}

    /// How many bytes may be sent now; `None`: the congestion window decides.
    fn allowance(&self, _episode: &Episode) -> Option<u64> {
        None
    }

    /// During an episode, `bytes` up to `end` left, as a retransmission or otherwise.
    fn on_sent(&mut self, _end: Position, _bytes: u64, _retransmission: bool) {}

    /// Chooses the segment to send when nothing is known to be lost and no new data may leave.
    fn next_rescue(
        &mut self,
        _una: Position,
        _episode: &Episode,
        _scoreboard: &Scoreboard,
    ) -> Option<(Position, Position)> {
        None
    }

    /// The episode is over.
    fn on_episode_end(&mut self) {}

    /// Another controller decides about the window, possibly during an episode, and has another threshold.
    fn on_threshold_change(&mut self) {}

    /// The last episode was a mistake.
    fn on_undo(&mut self, _una: Position, _nxt: Position, _by_timer: bool) {}
}

/// The policy of a connection.
#[derive(Debug)]
pub(super) enum Policies {
    GoBackN(GoBackN),
    Tahoe(Tahoe),
    Reno(Reno),
    NewReno(NewReno),
    Vegas(Vegas),
    Sack(Sack),
    RackTlp(RackTlp),
}

impl Policies {
    /// The chosen policy. If the peer sends no SACKs, those that need them fall back to RFC 6582.
    pub fn new(chosen: Recovery, sack: bool) -> Self {
        match chosen {
            Recovery::GoBackN => Self::GoBackN(GoBackN),
            Recovery::Tahoe => Self::Tahoe(Tahoe),
            Recovery::Reno => Self::Reno(Reno::Rfc5681),
            Recovery::Net2Reno => Self::Reno(Reno::Net2),
            Recovery::Vegas => Self::Vegas(Vegas::new(Clock::Paper)),
            Recovery::VegasUsc => Self::Vegas(Vegas::new(Clock::Usc)),
            Recovery::Sack if sack => Self::Sack(Sack::default()),
            Recovery::RackTlp if sack => Self::RackTlp(RackTlp::default()),
            _ => Self::NewReno(NewReno),
        }
    }

    pub fn name(&self) -> Recovery {
        match self {
            Self::GoBackN(_) => Recovery::GoBackN,
            Self::Tahoe(_) => Recovery::Tahoe,
            Self::Reno(Reno::Rfc5681) => Recovery::Reno,
            Self::Reno(Reno::Net2) => Recovery::Net2Reno,
            Self::NewReno(_) => Recovery::NewReno,
            Self::Vegas(vegas) => vegas.name(),
            Self::Sack(_) => Recovery::Sack,
            Self::RackTlp(_) => Recovery::RackTlp,
        }
    }
}

/// Calls the policy in force.
macro_rules! in_force {
    ($policies:expr, $policy:ident => $call:expr) => {
        match $policies {
            Policies::GoBackN($policy) => $call,
            Policies::Tahoe($policy) => $call,
            Policies::Reno($policy) => $call,
            Policies::NewReno($policy) => $call,
            Policies::Vegas($policy) => $call,
            Policies::Sack($policy) => $call,
            Policies::RackTlp($policy) => $call,
        }
    };
}

impl Policy for Policies {
    #[inline]
    fn heeds_sack(&self) -> bool {
        in_force!(self, policy => policy.heeds_sack())
    }

    #[inline]
    fn probes_tail(&self) -> bool {
        in_force!(self, policy => policy.probes_tail())
    }

    fn recovery_point(&self, una: Position, nxt: Position) -> Position {
        in_force!(self, policy => policy.recovery_point(una, nxt))
    }

    #[inline]
    fn on_ack(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound> {
        in_force!(self, policy => policy.on_ack(evidence))
    }

    #[inline]
    fn trusts_advances(&self, scoreboard: &Scoreboard) -> bool {
        in_force!(self, policy => policy.trusts_advances(scoreboard))
    }

    #[inline]
    fn on_advance(&mut self, now: Instant, sent_at: Instant, una: Position) {
        in_force!(self, policy => policy.on_advance(now, sent_at, una));
    }

    fn on_timer(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound> {
        in_force!(self, policy => policy.on_timer(evidence))
    }

    fn mark_at_timeout(
        &mut self,
        now: Instant,
        una: Position,
        rtt: &RttEstimator,
        scoreboard: &mut Scoreboard,
    ) -> Marked {
        in_force!(self, policy => policy.mark_at_timeout(now, una, rtt, scoreboard))
    }

    #[inline]
    fn deadline(&self) -> Instant {
        in_force!(self, policy => policy.deadline())
    }

    fn stop_timer(&mut self) {
        in_force!(self, policy => policy.stop_timer());
    }

    fn regulate(&mut self, scoreboard: &Scoreboard, progress: &Progress) {
        in_force!(self, policy => policy.regulate(scoreboard, progress));
    }

    #[inline]
    fn allowance(&self, episode: &Episode) -> Option<u64> {
        in_force!(self, policy => policy.allowance(episode))
    }

    fn on_sent(&mut self, end: Position, bytes: u64, retransmission: bool) {
        in_force!(self, policy => policy.on_sent(end, bytes, retransmission));
    }

    fn next_rescue(
        &mut self,
        una: Position,
        episode: &Episode,
        scoreboard: &Scoreboard,
    ) -> Option<(Position, Position)> {
        in_force!(self, policy => policy.next_rescue(una, episode, scoreboard))
    }

    fn on_episode_end(&mut self) {
        in_force!(self, policy => policy.on_episode_end());
    }

    fn on_threshold_change(&mut self) {
        in_force!(self, policy => policy.on_threshold_change());
    }

    fn on_undo(&mut self, una: Position, nxt: Position, by_timer: bool) {
        in_force!(self, policy => policy.on_undo(una, nxt, by_timer));
    }
}

ackclock_form::form! {
    enum Policies {
        0 GoBackN(value), 1 Tahoe(value), 2 Reno(value), 3 NewReno(value), 4 Vegas(value), 5 Sack(value),
        6 RackTlp(value)
    }
}
