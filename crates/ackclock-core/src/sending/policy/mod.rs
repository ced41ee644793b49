//! Policies of loss recovery: a file for each, over one scoreboard.
//!
//! | policy | finds a loss by | sends during recovery |
//! |---|---|---|
//! | [`go_back_n`] | the timer alone | everything again |
//! | [`tahoe`] | three duplicate acknowledgements | everything again, in slow start |
//! | [`reno`] | three duplicates | one segment; new data for each further duplicate, until the first new acknowledgement |
//! | [`newreno`] | three duplicates, partial acknowledgements | a hole for each partial acknowledgement |
//! | [`vegas`] | the clock at the first duplicates, three of them | as Reno |
//! | [`sack`] | SACK evidence | what the pipe leaves room for |
//! | [`rack_tlp`] | time; a probe for lost tails | as many bytes as [`prr`] says |
//!
//! A policy marks what it holds to be lost and returns a [`LossFound`]; it tells no one else. All keep to the pipe: what
//! is sent during recovery is limited by the congestion window less what is in flight, so the inflation of a window is
//! here a smaller count of bytes in flight. What one acknowledgement costs is in proportion to what it changes.
//!
//! After a timeout every policy but RACK-TLP, which goes by time there too, sends again what the peer is not known to hold
//! (RFC 6675 §5.1, RFC 6582 §3.2 (4)).

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
use self::vegas::Vegas;
use super::DUP_THRESH;
use super::episode::Episode;
use super::scoreboard::{AckOutcome, Marked, Scoreboard};
use crate::Instant;
use crate::position::Position;
use crate::trace::LossRule;

/// Bytes found to be lost, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossFound {
    pub(super) rule: LossRule,
    pub(super) marked: Marked,
    pub(super) answer: LossAnswer,
    /// Without SACK: bytes that the duplicates so far show to have left the network.
    pub(super) left_network: Option<u64>,
}

/// How a loss is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossAnswer {
    /// Congestion control hears of an episode, unless one is under way.
    Episode { cause: LossCause, bytes_lost: u64 },
    /// The same, and slow start sends everything again.
    SlowStart { cause: LossCause, bytes_lost: u64 },
    /// Recovery begins; congestion control has answered for this window already.
    Retransmission,
    /// It belongs to the episode under way.
    Known,
}

/// What an acknowledgement told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    /// Bytes by which SND.UNA advanced.
    pub(super) advanced: u64,
    pub(super) duplicate: bool,
    /// What it reports as received twice (RFC 2883).
    pub(super) reported: Option<(Position, Position)>,
    /// Whether that is a copy which a probe of the tail or of the window was.
    pub(super) reports_probe: bool,
    pub(super) outcome: &'a AckOutcome,
}

/// What a policy judges by, and may mark.
pub(super) struct Evidence<'a> {
    pub(super) now: Instant,
    pub(super) una: Position,
    pub(super) nxt: Position,
    pub(super) smss: u64,
    pub(super) cwnd: u64,
    pub(super) seen: &'a Seen<'a>,
    pub(super) scoreboard: &'a mut Scoreboard,
    pub(super) episode: &'a mut Episode,
    pub(super) rtt: &'a RttEstimator,
    /// The first hole is a lost probe of the path's MTU, whose data goes again: no sign of congestion.
    pub(super) excused: bool,
}

impl Evidence<'_> {
    /// The first hole goes out again, and an episode begins, after `duplicates` segments have left the network.
    fn fast_retransmit(&mut self, duplicates: u32) -> Option<LossFound> {
        let marked = self.scoreboard.mark_first_lost();
        (marked.bytes > 0).then(|| LossFound {
            rule: LossRule::DuplicateAcks,
            marked,
            answer: LossAnswer::Episode { cause: LossCause::DuplicateAcks, bytes_lost: marked.bytes },
            left_network: Some(u64::from(duplicates) * self.smss),
        })
    }

    /// A further duplicate during recovery, or as many bytes as one.
    fn inflate(&mut self, bytes: u64) {
        self.episode.inflate(self.una, self.scoreboard, bytes);
    }
}

/// How fast recovery goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// The episode, by its recovery point.
    pub(super) episode: Position,
    /// DeliveredData of RFC 9937: bytes newly acknowledged, cumulatively or selectively.
    pub(super) delivered: u64,
    /// SafeACK: SND.UNA advanced and nothing more was found to be lost.
    pub(super) safe: bool,
    /// The controller's threshold; `u64::MAX` if it has none.
    pub(super) ssthresh: u64,
    pub(super) smss: u64,
}

/// A policy of loss recovery.
pub(super) trait Policy {
    /// Whether SACK blocks of the peer are looked at.
    fn heeds_sack(&self) -> bool {
        false
    }

    /// Whether a probe goes out for a tail that may be lost.
    fn probes_tail(&self) -> bool {
        false
    }

    /// What must be acknowledged for an episode that begins now to end. RFC 6582 §3.2 (2), RFC 6675 §5 (4.1): all that is
    /// outstanding.
    fn recovery_point(&self, una: Position, nxt: Position) -> Position {
        let _ = una;
        nxt
    }

    /// Judges by an acknowledgement.
    fn on_ack(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound>;

    /// Whether [`Self::on_ack`] finds nothing in an acknowledgement that does no more than advance SND.UNA, outside an
    /// episode, over what was sent once: then [`Self::on_advance`] may take its place.
    fn trusts_advances(&self, scoreboard: &Scoreboard) -> bool {
        let _ = scoreboard;
        true
    }

    /// Such an acknowledgement, of what lies before `una` and left at `sent_at`.
    fn on_advance(&mut self, now: Instant, sent_at: Instant, una: Position) {
        let _ = (now, sent_at, una);
    }

    /// Judges because its own deadline has passed.
    fn on_timer(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound> {
        let _ = evidence;
        None
    }

    /// The retransmission timer expired: marks what is lost. RFC 6675 §5.1, RFC 6582 §3.2 (4): all that the peer is not known
    /// to hold.
    fn mark_at_timeout(
        &mut self,
        now: Instant,
        una: Position,
        rtt: &RttEstimator,
        scoreboard: &mut Scoreboard,
    ) -> Marked {
        let _ = (now, una, rtt);
        scoreboard.mark_all_lost(false)
    }

    /// When [`Self::on_timer`] is due; the far future if never.
    fn deadline(&self) -> Instant {
        Instant::FAR_FUTURE
    }

    /// Its timer no longer matters.
    fn stop_timer(&mut self) {}

    /// During fast recovery, once congestion control has heard of what was found.
    fn regulate(&mut self, scoreboard: &Scoreboard, progress: &Progress) {
        let _ = (scoreboard, progress);
    }

    /// How many bytes may be sent now; `None`: the congestion window decides.
    fn allowance(&self, episode: &Episode) -> Option<u64> {
        let _ = episode;
        None
    }

    /// During an episode, `bytes` up to `end` left for the network, as a retransmission or otherwise.
    fn on_sent(&mut self, end: Position, bytes: u64, retransmission: bool) {
        let _ = (end, bytes, retransmission);
    }

    /// What to send when nothing is known to be lost and no new data may go.
    fn next_rescue(
        &mut self,
        una: Position,
        episode: &Episode,
        scoreboard: &Scoreboard,
    ) -> Option<(Position, Position)> {
        let _ = (una, episode, scoreboard);
        None
    }

    /// The episode is over.
    fn on_episode_end(&mut self) {}

    /// The last episode turned out to be none.
    fn on_undo(&mut self, una: Position, nxt: Position, by_timer: bool) {
        let _ = (una, nxt, by_timer);
    }
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
    /// The one chosen; where the peer sends no SACKs, those that live by them fall back to RFC 6582.
    pub(super) fn new(chosen: Recovery, sack: bool) -> Self {
        match chosen {
            Recovery::GoBackN => Self::GoBackN(GoBackN),
            Recovery::Tahoe => Self::Tahoe(Tahoe),
            Recovery::Reno => Self::Reno(Reno),
            Recovery::Vegas => Self::Vegas(Vegas::default()),
            Recovery::Sack if sack => Self::Sack(Sack::default()),
            Recovery::RackTlp if sack => Self::RackTlp(RackTlp::default()),
            _ => Self::NewReno(NewReno),
        }
    }

    pub(super) fn name(&self) -> Recovery {
        match self {
            Self::GoBackN(_) => Recovery::GoBackN,
            Self::Tahoe(_) => Recovery::Tahoe,
            Self::Reno(_) => Recovery::Reno,
            Self::NewReno(_) => Recovery::NewReno,
            Self::Vegas(_) => Recovery::Vegas,
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

    fn on_undo(&mut self, una: Position, nxt: Position, by_timer: bool) {
        in_force!(self, policy => policy.on_undo(una, nxt, by_timer));
    }
}
