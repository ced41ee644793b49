//! Proportional rate reduction: how much is sent during recovery.
//!
//! M. Mathis, N. Cardwell, Y. Cheng and N. Dukkipati, "Proportional Rate Reduction", RFC 9937, 2025
//! (draft-ietf-tcpm-prr-rfc6937bis; before that RFC 6937). While more than ssthresh is in flight, the bytes
//! sent for each byte delivered are chosen to end at ssthresh. Below it, packets are conserved (CRB) while
//! losses go on, and slow start leads back to ssthresh (SSRB) when an acknowledgement shows progress and no
//! new loss ("SafeACK").
//!
//! It serves controllers that have a threshold. One without (BBR) manages its own window during recovery.
//!
//! Deviations: the state is the number of bytes that may be sent, not a window of the pipe plus those bytes.
//! The RFC computes on acknowledgements. Where RACK's timer finds a loss, at the start of an episode or
//! during it, one segment may leave for it, however much was found. The flight forces the first
//! retransmission, as in every policy.

use ackclock_control::tally::Tally;

use super::Progress;
use crate::position::Position;

/// PRR's state in one episode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// The episode, by its recovery point.
    episode: Position,
    /// RecoverFS: data in flight, lost or not, that the peer did not hold, before the episode's first
    /// acknowledgement.
    recover_fs: u64,
    /// prr_delivered: bytes delivered during the episode.
    delivered: u64,
    /// prr_out: bytes sent during the episode.
    out: u64,
    /// sndcnt, minus what was sent of it.
    allowance: u64,
}

impl Prr {
    pub fn new(episode: Position, recover_fs: u64) -> Self {
        Self { episode, recover_fs: recover_fs.max(1), delivered: 0, out: 0, allowance: 0 }
    }

    /// RFC 9937: on every acknowledgement starting or during fast recovery.
    pub fn on_ack(&mut self, progress: &Progress, in_flight: u64) {
        let Progress { delivered, safe, ssthresh, smss, .. } = *progress;
        let Some(delivered) = delivered else {
            // There may be no acknowledgement left to come, so one segment follows for what has left the
            // network.
            self.allowance = self.allowance.max(smss);
            return;
        };
        if delivered == 0 {
            // RFC 9937 (from memory): an acknowledgement that delivers nothing, such as one that reports a
            // duplicate, changes nothing.
            return;
        }
        self.delivered.grow(delivered);
        self.allowance = if in_flight > ssthresh {
            // sndcnt = CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out
            let target = u128::from(self.delivered).saturating_mul(u128::from(ssthresh));
            let target = target.div_ceil(u128::from(self.recover_fs));
            u64::try_from(target).unwrap_or(u64::MAX).saturating_sub(self.out)
        } else {
            // sndcnt = MAX(prr_delivered - prr_out, DeliveredData), one SMSS more after a SafeACK, at most up
            // to ssthresh
            let conserved = self.delivered.saturating_sub(self.out).max(delivered);
            conserved.saturating_add(if safe { smss } else { 0 }).min(ssthresh.saturating_sub(in_flight))
        };
        if self.out == 0 {
            self.allowance = self.allowance.max(smss);
        }
    }

    pub fn on_sent(&mut self, bytes: u64) {
        self.out.grow(bytes);
        self.allowance = self.allowance.saturating_sub(bytes);
    }

    pub fn allowance(&self, episode: Position) -> Option<u64> {
        (self.episode == episode).then_some(self.allowance)
    }

    /// Whether this state belongs to the episode that ends at this recovery point.
    pub fn is_of(&self, episode: Position) -> bool {
        self.episode == episode
    }
}

ackclock_form::form! {
    struct Prr { episode, recover_fs, delivered, out, allowance } => |prr| prr.recover_fs > 0;
}

#[cfg(test)]
mod tests {
    use super::Prr;
    use crate::position::Position;
    use crate::sending::policy::Progress;

    const SMSS: u64 = 1000;

    /// One segment is delivered. Sends what may be sent and returns the number of segments.
    fn deliver(prr: &mut Prr, in_flight: &mut u64, ssthresh: u64, safe: bool) -> u64 {
        *in_flight -= SMSS;
        let episode = Position::default();
        prr.on_ack(&Progress { episode, delivered: Some(SMSS), safe, ssthresh, smss: SMSS }, *in_flight);
        let sent = prr.allowance(Position::default()).unwrap_or(0) / SMSS * SMSS;
        prr.on_sent(sent);
        *in_flight += sent;
        sent / SMSS
    }

    #[test]
    fn half_as_much_is_sent_as_is_delivered_and_ssthresh_is_left() {
        // RFC 6937 §4's first example: 20 segments out, one lost, ssthresh of 10.
        let mut prr = Prr::new(Position::default(), 20 * SMSS);
        let mut in_flight = 19 * SMSS;
        let sent: Vec<u64> = (0..19).map(|_| deliver(&mut prr, &mut in_flight, 10 * SMSS, false)).collect();
        // The first is forced, half a segment before its time.
        assert_eq!(sent[..14], [1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(in_flight, 10 * SMSS);
    }

    #[test]
    fn below_ssthresh_packets_are_conserved_and_safe_acknowledgements_add_one() {
        // RFC 6937 §4's second example: most of the window lost, 4 of 20 still out.
        for (safe, expected) in [(false, [1, 1, 1, 1]), (true, [2, 2, 2, 2])] {
            let mut prr = Prr::new(Position::default(), 20 * SMSS);
            let mut in_flight = 5 * SMSS;
            let sent = [(); 4].map(|()| deliver(&mut prr, &mut in_flight, 10 * SMSS, safe));
            assert_eq!(sent, expected, "safe {safe}");
        }
    }

    #[test]
    fn ssthresh_is_never_passed() {
        let mut prr = Prr::new(Position::default(), 20 * SMSS);
        let mut in_flight = 10 * SMSS;
        for _ in 0..40 {
            deliver(&mut prr, &mut in_flight, 10 * SMSS, true);
            assert!(in_flight <= 10 * SMSS);
        }
    }
    /// The bytes that an acknowledgement of `delivered` bytes lets go, with `in_flight` bytes left, a
    /// threshold of 10 segments and RecoverFS of 20.
    fn sndcnt(prr: &mut Prr, delivered: u64, in_flight: u64, safe: bool) -> u64 {
        let episode = Position::default();
        let delivered = Some(delivered);
        prr.on_ack(&Progress { episode, delivered, safe, ssthresh: 10 * SMSS, smss: SMSS }, in_flight);
        prr.allowance(episode).expect("it is the episode's")
    }

    #[test]
    fn sndcnt_is_that_of_rfc_9937_to_the_byte() {
        // RFC 9937, above ssthresh, at it and below it.
        let mut prr = Prr::new(Position::default(), 20 * SMSS);
        assert_eq!(sndcnt(&mut prr, 1000, 19_000, false), 1000, "half a segment, and the first is forced");
        prr.on_sent(400);
        prr.on_sent(500);
        assert_eq!(prr.allowance(Position::default()), Some(100));
        assert_eq!(sndcnt(&mut prr, 3000, 17_000, false), 1100, "half of 4000, less the 900 sent");
        assert_eq!(sndcnt(&mut prr, 1, 17_000, false), 1101, "half of 4001 is rounded up");
        assert_eq!(sndcnt(&mut prr, 1000, 10_000, true), 0, "at ssthresh nothing");
        assert_eq!(sndcnt(&mut prr, 999, 4_000, false), 5_100, "6000 delivered, less 900");
        assert_eq!(sndcnt(&mut prr, 300, 4_000, true), 6_000, "a SafeACK adds a segment, up to ssthresh");
        prr.on_sent(6_000);
        assert_eq!(
            sndcnt(&mut prr, 700, 9_000, false),
            700,
            "more is out than was delivered: what this one delivered"
        );
    }

    #[test]
    fn where_a_timer_found_the_loss_one_segment_may_leave() {
        let episode = Position::default();
        let mut prr = Prr::new(episode, 20 * SMSS);
        prr.on_sent(500);
        let found = Progress { episode, delivered: None, safe: false, ssthresh: 10 * SMSS, smss: SMSS };
        prr.on_ack(&found, 4_000);
        assert_eq!(prr.allowance(episode), Some(1000));
        assert_eq!(sndcnt(&mut prr, 1500, 4_000, false), 1500);
        prr.on_ack(&found, 4_000);
        assert_eq!(prr.allowance(episode), Some(1500), "what may be sent already stays");
    }

    #[test]
    fn acknowledgement_that_delivers_nothing_changes_nothing() {
        let mut prr = Prr::new(Position::default(), 20 * SMSS);
        assert_eq!(sndcnt(&mut prr, 0, 4_000, true), 0);
        assert_eq!(sndcnt(&mut prr, 1500, 4_000, false), 1500);
        assert_eq!(sndcnt(&mut prr, 0, 4_000, true), 1500);
        prr.on_sent(1500);
        assert_eq!(sndcnt(&mut prr, 0, 4_000, true), 0);
    }

    #[test]
    fn the_state_belongs_to_one_episode() {
        let (this, other) = (Position::default() + 5, Position::default() + 6);
        let prr = Prr::new(this, 20 * SMSS);
        assert_eq!((prr.is_of(this), prr.allowance(this)), (true, Some(0)));
        assert_eq!((prr.is_of(other), prr.allowance(other)), (false, None));
    }
}
